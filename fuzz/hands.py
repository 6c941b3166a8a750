"""Runs cases: in a worker that stays, or in a process of their own; and looks at the folder before and after."""

import contextlib
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from platformdirs import user_cache_path

from fuzz.case import Case, command
from fuzz.worker import receive, send

ROOT = Path(__file__).parent.parent
MOST_SECONDS = 240  # of one call; programs are compiled on the way
_MOST_READ = 64 * 2**20
MOST_MEMORY = 3 * 2**30  # of a worker, which keeps every program that it compiled; the next one reads them from disk
MEMORY = "4"  # gigabytes that a call may ask for


@dataclass(frozen=True)
class Outcome:
    """What came of a case."""

    status: int | None = None
    """Exit status of a command; None where it did not come to an end by itself."""
    stdout: bytes = b""
    stderr: bytes = b""
    trouble: str = ""
    """A traceback, or how it died."""
    value: Any = None
    """What Python answered, as plain values."""
    error: tuple[str, ...] = ()
    """Classes of the exception that Python raised, the nearest first."""
    words: str = ""
    """Its message."""
    warnings: tuple[str, ...] = ()
    files: dict[str, bytes] = field(default_factory=dict)
    """Every file in the folder afterwards."""
    seconds: float = 0.0


class Hands:
    """Runs cases; to be closed."""

    def __init__(self, home: Path | None = None):
        """Makes a place of its own; `home` is where temporary folders go."""
        self._place = Path(tempfile.mkdtemp(prefix="countermax-fuzz-", dir=home))
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("COUNTERMAX", "COLUMNS"))},
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            "XDG_CACHE_HOME": str(self._place / "cache"),
            "MPLCONFIGDIR": str(self._place / "matplotlib"),
            "COUNTERMAX_MAX_MEMORY": MEMORY,
            "PYTHONHASHSEED": "0",
            "JAX_PLATFORMS": "cpu",
        }
        self._programs = {  # compiling is most of the work: done quickly, and kept for the next run
            "JAX_COMPILATION_CACHE_DIR": str(user_cache_path("countermax-fuzz") / "compiled"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
            "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
        }
        self._worker: subprocess.Popen[bytes] | None = None
        self._count = 0

    def __enter__(self) -> "Hands":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        shutil.rmtree(self._place, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        """What processes are started with."""
        return self._environment

    def folder(self) -> Path:
        """A new empty folder."""
        self._count += 1
        path = self._place / f"case-{self._count}"
        path.mkdir()
        return path

    def run(self, case: Case) -> Outcome:
        """Runs a case in a folder of its own."""
        folder = self.folder()
        try:
            for name, content in case.files.items():
                target = Path(os.fsdecode(os.fsencode(folder) + b"/" + name.encode("utf-8", "surrogateescape")))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            start = time.monotonic()
            found = self._in_process(case, folder) if case.process else self._in_worker(case, folder)
            return Outcome(**found, files=_content(folder), seconds=time.monotonic() - start)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _in_worker(self, case: Case, folder: Path) -> dict[str, Any]:
        if self._worker is None:
            with (self._place / "worker.log").open("wb") as log:
                self._worker = subprocess.Popen(
                    [sys.executable, "-m", "fuzz.worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=self._environment | self._programs,
                    cwd=self._place,
                )
        worker = self._worker
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            send(worker.stdin, {"folder": str(folder), "argv": case.argv, "source": case.source})
            with selectors.DefaultSelector() as ready:
                ready.register(worker.stdout, selectors.EVENT_READ)
                if not ready.select(MOST_SECONDS):
                    self._stop()
                    return {"trouble": f"never ends: nothing after {MOST_SECONDS} seconds"}
            found = receive(worker.stdout)
        except (EOFError, BrokenPipeError):
            status = worker.wait()
            self._stop()
            tail = (self._place / "worker.log").read_text(errors="replace")[-500:]
            return {"trouble": f"died: the process ended with status {status}; {tail}"}
        if _used(worker.pid) > MOST_MEMORY:
            self._stop()
        return {
            name: tuple(value) if isinstance(value, list) and name != "value" else value
            for name, value in found.items()
        }

    def _in_process(self, case: Case, folder: Path) -> dict[str, Any]:
        process = command(case.argv)
        if case.source:
            process = [sys.executable, "-c", f"from fuzz.namespace import names; eval({case.source!r}, names())"]
        environment = self._environment | {
            name: value for name, value in case.outside.items() if name not in ("stdout",)
        }
        where = case.outside.get("stdout", "")
        shell = {"closed": 'exec "$@" >&-', "head": '"$@" | head -c 1 >/dev/null; exit ${PIPESTATUS[0]}'}.get(where)
        if shell is not None:
            process = ["bash", "-c", shell, "bash", *process]
        try:
            done = subprocess.run(
                [os.fsencode(os.fsdecode(each.encode("utf-8", "surrogateescape"))) for each in process],
                cwd=folder,
                env=environment,
                capture_output=True,
                timeout=MOST_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return {"trouble": f"never ends: nothing after {MOST_SECONDS} seconds"}
        if done.returncode < 0:
            tail = done.stderr.decode(errors="replace")[-500:]
            return {"trouble": f"died: the process ended with status {done.returncode}; {tail}"}
        return {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}

    def _stop(self) -> None:
        if self._worker is None:
            return
        self._worker.kill()
        self._worker.wait()
        for stream in (self._worker.stdin, self._worker.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._worker = None


def _used(process: int) -> int:
    """Bytes of memory that a process takes."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its relative name; of large ones the beginning."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                found[os.fsencode(path.relative_to(folder)).decode("utf-8", "surrogateescape")] = file.read(_MOST_READ)
    return found
