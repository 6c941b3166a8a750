"""A process that runs cases one after the other, so that JAX is started, and every program compiled, once.

It reads requests from its standard input and answers on the descriptor that its standard output was. Commands run
through the same entry point as the `countermax` command; only the exit at its end is caught.
"""

import contextlib
import gc
import io
import os
import pickle
import resource
import signal
import struct
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any, BinaryIO

ADDRESS_SPACE = 24 * 2**30


class _Kept(io.BytesIO):
    """What was printed, to be read once whoever wrapped it has closed it."""

    def close(self) -> None:
        """Does nothing."""


class Left(BaseException):
    """In place of the end of the process."""

    def __init__(self, status: int):
        self.status = status


def send(stream: BinaryIO, message: Any) -> None:
    """One message; its length first."""
    content = pickle.dumps(message)
    stream.write(struct.pack("<Q", len(content)) + content)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """The next message; EOFError where there is none."""
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    return pickle.loads(stream.read(struct.unpack("<Q", head)[0]))


def main() -> None:
    """Answers until its input ends."""
    answers, requests = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "r+b") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(nothing.fileno(), 1)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    while True:
        try:
            request = receive(requests)
        except EOFError:
            return
        os.chdir(request["folder"])
        send(answers, _python(request["source"]) if request["source"] else _command(request["argv"]))
        os.chdir("/")


def _command(argv: tuple[str, ...]) -> dict[str, Any]:
    """What the command line would have printed and returned."""
    from countermax.cli import main, run

    printed = _Kept(), _Kept()
    out, err = (io.TextIOWrapper(each, encoding="utf-8", write_through=True) for each in printed)
    if argv[:1] == ("studies",):
        from studies.__main__ import load

        status, trouble = _caught(lambda: run(load), list(argv), out, err)
    else:
        status, trouble = _caught(main, ["countermax", *argv], out, err)
    stdout, stderr = (each.getvalue() for each in printed)
    return {"status": status, "stdout": stdout, "stderr": stderr, "trouble": trouble}


def _caught(
    entry: Callable[[], Any], argv: list[str], out: io.TextIOWrapper, err: io.TextIOWrapper
) -> tuple[int | None, str]:
    """The exit status and, where something else than an exit ended it, a traceback."""
    keep = os._exit, sys.argv, sys.excepthook, gc.get_threshold()

    def leave(status: int) -> None:
        raise Left(status)

    os._exit, sys.argv = leave, argv  # type: ignore[assignment]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.simplefilter("ignore", DeprecationWarning)
            entry()
        return 0, ""
    except Left as left:
        return left.status, ""
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None), ""
    except BaseException:
        return None, traceback.format_exc()
    finally:
        os._exit, sys.argv, sys.excepthook = keep[:3]
        gc.set_threshold(*keep[3])
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _python(source: str) -> dict[str, Any]:
    """What a line of Python answers, as plain values."""
    from fuzz.namespace import names, plainly

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            value = plainly(eval(source, names()))  # written by ourselves
        except Exception as error:
            kinds = [each.__name__ for each in type(error).__mro__]
            return {"error": kinds, "words": str(error), "trouble": traceback.format_exc()}
    return {"value": value, "warnings": [str(each.message) for each in told], "trouble": ""}


if __name__ == "__main__":
    main()
