"""Parquet to Parquet beside polars, which copies what was written: more rows, more files, more outcomes.

python -m benchmarks growth                               # up to 4 million rows and 1,000 files
COUNTERMAX_GROWTH=10000000 python -m benchmarks growth    # 10 million rows, and 10,000 files: 8 GB of disk
COUNTERMAX_GROWTH=100000000 python -m benchmarks growth   # 100 million of three outcomes: 25 GB; and Ray, if installed
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from benchmarks.measure import Row
from benchmarks.tables import MILLION, WORLDS, table
from countermax import Rows, _kernel
from countermax.couplings import GumbelMax

MOST = int(os.environ.get("COUNTERMAX_GROWTH", 4 * MILLION))  # rows
LENGTHS = sorted({MILLION, min(MOST, 10 * MILLION), MOST})
FILES = (100, 1000, 10_000) if MOST > 4 * MILLION else (100, 1000)
ON_RAY = MOST > 10 * MILLION and find_spec("ray") is not None
ROWS_AT_ONCE = 250_000
WATCH = """
import os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
assert status == 0, sys.argv
print(used.ru_utime + used.ru_stime, time.perf_counter() - start, used.ru_maxrss / 1024)
"""
COPY = "import polars as pl, sys; pl.scan_parquet(sys.argv[1]).sink_parquet(sys.argv[2], compression='snappy')"


class Spent(NamedTuple):
    """What a process took: seconds of all cores, seconds on the wall, and its peak memory in MiB."""

    processor: float
    wall: float
    peak: float


def rows() -> Iterator[Row]:
    """All measurements of this file."""
    for size, lengths in ((3, LENGTHS), (10, sorted({min(each, 10 * MILLION) for each in LENGTHS}))):
        for count in lengths:
            yield from _beside(f"{count:,} rows, K={size}", size, count)
        yield from _pieces(size)
    for size, count in ((50, 100_000), (500, 10_000)):
        yield from _beside(f"{count:,} rows, K={size}", size, count)
    for files in FILES:
        yield from _beside(f"{MILLION:,} rows, K=3, in {files:,} files", 3, MILLION, files)


def _beside(what: str, size: int, count: int, files: int = 1) -> Iterator[Row]:
    """The command beside polars, in processes of their own."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _store(folder / "in", size, count, files)
        copying = sys.executable, "-c", COPY, str(folder / "out.parquet"), str(folder / "copy.parquet")
        rounds = [(_asked(folder / "in", folder / "out.parquet"), _spent(*copying)) for _ in range(_rounds(count))]
        ours, floor = map(_least, zip(*rounds, strict=True))
        for name, here, there in zip(("processor time", "wall time"), ours, floor, strict=False):
            yield Row(
                f"{what}: {name}", here / there, "x polars", f"{here:.2f} s against {there:.2f} s, with the start"
            )
        yield Row(f"{what}: peak memory", ours.peak, "MiB", f"polars {floor.peak:.0f}")
        if ON_RAY and files > 1:
            ray = _asked(folder / "in", folder / "out", "--engine", "ray")
            yield Row(f"{what}: wall time on Ray, on this machine", ray.wall, "s", f"without it {ours.wall:.1f} s")


def _rounds(count: int) -> int:
    """In turn; the least time counts, and the largest peak."""
    return 1 if count > 10 * MILLION else 3


def _least(rounds: Sequence[Spent]) -> Spent:
    """Other programs on the machine only add to times."""
    processor, wall, peak = zip(*rounds, strict=True)
    return Spent(min(processor), min(wall), max(peak))


def _asked(source: Path, target: Path, *more: str) -> Spent:
    options = [word for name, value in WORLDS.items() for word in (f"--{name}", value)]
    command = [
        sys.executable,
        "-m",
        "countermax.cli",
        "counterfactuals",
        str(source),
        *options,
        "-o",
        str(target),
        "--overwrite",
    ]
    return _spent(*command, *more)


def _spent(*command: str) -> Spent:
    """Measured by a small process between, since a peak begins with the memory of whoever starts a process."""
    found = subprocess.run([sys.executable, "-S", "-c", WATCH, *command], capture_output=True, text=True, check=True)
    return Spent(*map(float, found.stdout.split()[-3:]))


def _store(folder: Path, size: int, count: int, files: int) -> None:
    """Distinct rows in so many files, made some at a time."""
    folder.mkdir()
    each = -(-count // files)
    for file in range(files):
        left, writer = min(each, count - file * each), None
        while left > 0:
            frame = table(size, min(ROWS_AT_ONCE, left), file * each + left)
            rows = pa.Table.from_pandas(frame, preserve_index=False)
            writer = writer or pa.parquet.ParquetWriter(folder / f"{file:05d}.parquet", rows.schema)
            writer.write_table(rows)
            left -= len(rows)
        if writer is not None:
            writer.close()


def _pieces(size: int) -> Iterator[Row]:
    """What the parts of the work cost by themselves, beside polars, which does the first and the last of them."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _store(folder / "in", size, MILLION, 1)
        source, target = folder / "in/00000.parquet", folder / "out.parquet"
        Rows(source, **WORLDS).write(target)
        answers = pa.parquet.read_table(target).combine_chunks()
        words = [field.name for field in answers.schema if not pa.types.is_floating(field.type)]
        p, q = (
            np.stack([answers[f"{world}{place}"].to_numpy() for place in range(size)], axis=1) for world in ("p_", "q_")
        )
        x = answers["outcome"].to_numpy().copy()
        copied = str(folder / "copy.parquet")
        for name, work in (
            ("reading, by pyarrow", lambda: pa.parquet.read_table(source, use_threads=False)),
            ("the mathematics", lambda: _kernel.answer_rows(GumbelMax(), p, q, x, logs=False)),
            ("writing, by pyarrow", lambda: pa.parquet.write_table(answers, copied, use_dictionary=words)),
            ("all of it", lambda: Rows(source, **WORLDS).write(target, overwrite=True)),
            ("polars, reading and writing the answers", _copying(str(target), copied)),
        ):
            yield Row(f"{MILLION:,} rows, K={size}, in a process that runs already: {name}", _processor(work), "s")
        shutil.rmtree(folder / "in")


def _copying(source: str, target: str) -> Callable[[], object]:
    import polars as pl

    return lambda: pl.scan_parquet(source).sink_parquet(target, compression="snappy")


def _processor(work: Callable[[], object], repeat: int = 3) -> float:
    """Seconds of all cores, at least, after a first time."""
    work()
    found = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)
