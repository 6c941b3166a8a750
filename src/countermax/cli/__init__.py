"""The command line: parses, calls, prints. Everything heavy is imported when a command runs."""

import gc
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from countermax._core.interruption import ignore_signals, listen, stop_status, was_asked_to_stop


def main() -> NoReturn:
    """Entry point of the `countermax` command."""
    run(lambda: __getattr__("app"))


def run(load: Callable[[], Callable[[list[str]], Any]]) -> NoReturn:
    """Runs an app as the process: signals are heard while it is loaded, and everything that goes wrong is one line."""
    listen(_clean_up)  # before anything is loaded that takes longer than a person takes to press Ctrl-C
    from countermax.cli._faults import prepare_streams, report

    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # others keep what one thread makes and another drops
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # else its threads spin for work from the import of NumPy on
    gc.set_threshold(100_000, 50, 100)  # imports and traces make many objects and hardly any garbage
    prepare_streams()
    status: str | int | None = 0
    try:
        load()(_debug_first(sys.argv[1:]))
    except SystemExit as done:
        status = done.code
    except BaseException as error:  # outside of a command; within one it has been told already
        status = report(error)
    _leave(status)


def _clean_up() -> None:
    from countermax._core.files import remove_unfinished

    remove_unfinished()


def _debug_first(arguments: list[str]) -> list[str]:
    """`--debug` belongs before the command, and is typed behind it once something has gone wrong."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    rest = [each for place, each in enumerate(arguments) if each != "--debug" or place > end]
    return rest if len(rest) == len(arguments) else ["--debug", *rest]


def _leave(code: str | int | None) -> NoReturn:
    """Ends the process at once: to take JAX down piece by piece takes longer than many an answer.

    Nothing is lost by it. What commands write is closed when they return, and what they print is flushed here.
    """
    ignore_signals()
    try:
        sys.stdout.flush()
    except SystemExit as failed:
        code = code or failed.code
    status = code if isinstance(code, int) else int(code is not None)
    try:
        if isinstance(code, str):
            sys.stderr.write(f"{code}\n")
        sys.stderr.flush()
    except SystemExit:
        status = status or 1
    os._exit(stop_status() if was_asked_to_stop() else status)


def __getattr__(name: str) -> Any:
    """`app` loads Typer: half of what it takes to start, during which signals would find nobody listening."""
    if name == "app":
        from countermax.cli._app import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
