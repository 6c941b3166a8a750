"""Tables on Ray: rows per second from Parquet to Parquet, peak memory of all processes, and what a second worker adds.

    python -m benchmarks ray                                # 100 million rows, on two quiet cores
    COUNTERMAX_RAY_ROWS=2000000 python -m benchmarks ray    # a first look

`COUNTERMAX_RAY_FOLDER` says where its files lie meanwhile: about 30 GB. It is
not among the default benchmarks: it takes long, and Ray is an extra.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from benchmarks.measure import Row
from benchmarks.plan import NAMES
from countermax._core.extras import import_ray

SIZE = 4
ROWS = int(os.environ.get("COUNTERMAX_RAY_ROWS", 100_000_000))
LOCAL_ROWS = min(ROWS, 5_000_000)
CLASSIFIED_ROWS = min(ROWS, 1_000_000)
FILE_ROWS = 2_500_000
WORLDS = {"outcome": "outcome", "factual": "p_", "counterfactual": "q_"}


def rows() -> Iterator[Row]:
    """All measurements of this file."""
    folder = Path(tempfile.mkdtemp(prefix="countermax-ray-", dir=os.environ.get("COUNTERMAX_RAY_FOLDER")))
    cores = len(os.sched_getaffinity(0))
    try:
        write_lake(folder / "lake", ROWS)
        write_lake(folder / "few", LOCAL_ROWS, in_files=1)
        local = _measured("local", str(folder / "few"), str(folder / "out.parquet"))
        alone = LOCAL_ROWS / local["seconds"]
        yield Row(NAMES["local"], alone, "rows per second", f"{LOCAL_ROWS:,} rows")
        found = _measured("ray", str(folder / "lake"), str(folder / "out"))
        speed = ROWS / found["seconds"]
        yield Row(NAMES["ray"], speed, "rows per second", f"{ROWS:,} rows in {found['seconds']:.0f} s")
        yield Row(NAMES["cores"], cores, "cores")
        yield Row(NAMES["share"], speed / cores / alone, "of it", "aim: at least 0.6")
        yield Row(NAMES["peak"], found["peak"] / 2**30, "GiB", "aim: under 4; pages that are shared count once")
        yield Row(NAMES["read"], found["read"] / ROWS, "bytes", "Parquet, as pyarrow compresses it")
        yield Row(NAMES["written"], found["written"] / ROWS, "bytes", "with 14 new columns")
        yield Row(NAMES["start"], found["start"], "s", "not in the times above")
        shutil.rmtree(folder / "out")
        counts = _measured("transitions", str(folder / "lake"), str(folder / "counts"))
        yield Row(NAMES["transitions"], ROWS / counts["seconds"], "rows per second", f"{ROWS:,} rows")
        yield Row(NAMES["sent"], counts["sent"] / 1024, "KiB")
        shutil.rmtree(folder / "lake")
        spent = [_measured("classifier", str(workers), str(CLASSIFIED_ROWS))["seconds"] for workers in (1, 2)]
        yield Row(NAMES["one"], CLASSIFIED_ROWS / spent[0], "rows per second", f"{CLASSIFIED_ROWS:,} rows")
        yield Row(NAMES["two"], spent[0] / spent[1], "times", "aim: at least 1.5; one thread each")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_lake(folder: Path, count: int, in_files: int | None = None) -> None:
    """Parquet files with an outcome and the probabilities of two worlds in each row, all of them distinct."""
    folder.mkdir()
    size = FILE_ROWS if in_files is None else -(-count // in_files)
    for number, start in enumerate(range(0, count, size)):
        rng = np.random.default_rng(number)
        here = min(size, count - start)
        p, q = (rng.standard_gamma(1.0, (here, SIZE)) for _ in range(2))
        p, q = p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)
        columns = {f"p_{place}": p[:, place] for place in range(SIZE)}
        columns |= {f"q_{place}": q[:, place] for place in range(SIZE)}
        columns["outcome"] = (p.cumsum(axis=1) > rng.random((here, 1))).argmax(axis=1).astype(np.int8)
        path = folder / f"{number:05d}.parquet"
        pa.parquet.write_table(pa.table(columns), path, row_group_size=500_000, use_dictionary=["outcome"])


def _measured(what: str, *arguments: str) -> dict[str, float]:
    """A measurement in a process of its own, with the peak memory of it and all that it starts."""
    code = f"import benchmarks.ray as b; b.{what}_here(*{arguments!r})"
    one = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "OMP_NUM_THREADS": "1"} if what == "local" else {}
    command = ["taskset", "-c", "0", sys.executable] if what == "local" else [sys.executable]
    process = subprocess.Popen([*command, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ | one)
    peak: list[float] = [0.0]
    watch = threading.Thread(target=_watch, args=(process.pid, peak))
    watch.start()
    output, _ = process.communicate()
    watch.join()
    if process.returncode:
        raise RuntimeError(f"{what} failed")
    return json.loads(output.splitlines()[-1]) | {"peak": peak[0]}


def _watch(pid: int, peak: list[float]) -> None:
    """Adds up what all processes have to themselves and their share of what they have together."""
    import_ray()
    import psutil  # which Ray brings with it

    while True:
        try:
            root = psutil.Process(pid)
            if root.status() == psutil.STATUS_ZOMBIE:
                return
            family = [root, *root.children(recursive=True)]
        except psutil.Error:
            return
        total = 0
        for process in family:
            try:
                total += process.memory_full_info().pss
            except psutil.Error:
                continue
        peak[0] = max(peak[0], total)
        time.sleep(0.5)


def local_here(source: str, target: str) -> None:
    """One process on one core."""
    from countermax import Rows

    file = next(Path(source).iterdir())
    warm = pa.parquet.ParquetFile(file).read_row_group(0)
    pa.parquet.write_table(warm.slice(0, 100_000), f"{target}.warm.parquet")
    Rows(f"{target}.warm.parquet", **WORLDS).write(target)
    start = time.perf_counter()
    Rows(file, **WORLDS).write(target, overwrite=True)
    print(json.dumps({"seconds": time.perf_counter() - start}))


def ray_here(source: str, target: str) -> None:
    """All cores, through an embedded Ray."""
    from countermax import Rows

    begun = time.perf_counter()
    Rows(_few_files(source, target), **WORLDS, engine="ray").write(f"{target}.warm")
    start = time.perf_counter()
    Rows(source, **WORLDS, engine="ray").write(target)
    seconds = time.perf_counter() - start
    read, written = (sum(file.stat().st_size for file in Path(each).rglob("*.parquet")) for each in (source, target))
    print(json.dumps({"seconds": seconds, "start": start - begun, "read": read, "written": written}))


def transitions_here(source: str, target: str) -> None:
    """Counts with resamples."""
    import pickle

    from countermax import Rows
    from countermax.intervals._interval import Bootstrap

    Rows(_few_files(source, target), **WORLDS, engine="ray").transitions()
    start = time.perf_counter()
    Rows(source, **WORLDS, engine="ray").transitions()
    seconds = time.perf_counter() - start
    part = Bootstrap(SIZE, 1000, 0, first_row=5)
    part.add(np.zeros(8192, np.int64), np.zeros((SIZE, 8192)), np.ones(8192, bool))
    print(json.dumps({"seconds": seconds, "sent": len(pickle.dumps(part))}))


def classifier_here(workers: str, count: str) -> None:
    """A classifier that takes its time, asked on a pool of actors."""
    import pandas as pd
    from sklearn.ensemble import HistGradientBoostingClassifier

    from countermax import Predicted, Rows

    rng = np.random.default_rng(0)
    names = [f"x{place}" for place in range(6)]
    frame = pd.DataFrame(rng.normal(size=(20_000, 6)), columns=names)
    frame["outcome"] = (frame.to_numpy()[:, :SIZE] + rng.gumbel(size=(20_000, SIZE))).argmax(axis=1)
    model = HistGradientBoostingClassifier(max_iter=50).fit(frame[names], frame["outcome"])
    ray = import_ray()
    ray.init(address="local", num_cpus=int(workers), include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    many = pa.Table.from_pandas(frame, preserve_index=False).take(rng.integers(0, 20_000, int(count)))
    blocks = [many.slice(start, 2**16) for start in range(0, many.num_rows, 2**16)]

    ray.data.DataContext.get_current().wait_for_min_actors_s = 600
    asked = {"outcome": "outcome", "factual": model, "counterfactual": Predicted(model, {"x0": 1.0})}
    dataset = Rows(ray.data.from_arrow(blocks), **asked).counterfactuals()
    done = [(time.perf_counter(), bundle.num_rows()) for bundle in dataset.iter_internal_ref_bundles()]
    first = 2 * int(workers) - 1  # actors start, and compile
    speed = sum(number for _, number in done[first + 1 :]) / (done[-1][0] - done[first][0])
    print(json.dumps({"seconds": int(count) / speed}))


def _few_files(source: str, target: str) -> Path:
    """A small table like the large one, on which workers start and compile."""
    few = Path(f"{target}.few")
    few.mkdir()
    rows = pa.parquet.ParquetFile(next(Path(source).iterdir())).read_row_group(0).slice(0, 20_000)
    for number in range(8):
        pa.parquet.write_table(rows, few / f"{number}.parquet")
    return few
