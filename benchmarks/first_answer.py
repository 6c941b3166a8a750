"""The first answer of a fresh process: what a person waits for at the command line."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from benchmarks.measure import Row

_ROUNDS = 7
_WORLDS = ("--factual", "0.3,0.4,0.3", "--counterfactual", "0.1,0.3,0.6", "--labels", "dead,ill,well")
_COMPARE = ["compare", *_WORLDS, "--seen", "dead", "--score", "0,1,2"]
_TABLE = """
import time, numpy as np
from countermax import GumbelMax
from countermax._kernel import answer_rows
worlds = np.log(np.random.default_rng(0).dirichlet(np.ones(3), (2, 100)))
start = time.perf_counter()
answer_rows(GumbelMax(), *worlds, np.zeros(100, np.int64))
print(time.perf_counter() - start)
"""


def rows() -> Iterator[Row]:
    """All measurements of this file."""
    yield Row("countermax --help", _median(["--help"], fresh=True), "s", "nothing heavy is imported")
    bare = statistics.median(_wall([sys.executable, "-c", "import jax"], {}) for _ in range(_ROUNDS))
    yield Row("importing JAX, which every answer needs", bare, "s", "how fast this machine is today")
    first = _median(_COMPARE, fresh=True)
    yield Row("countermax compare, three outcomes, first time on a machine", first, "s", "aim: at most 2")
    again = _median(_COMPARE, fresh=False)
    yield Row("countermax compare, from then on", again, "s", "compiled programs are kept; aim: at most 1.2")
    with tempfile.TemporaryDirectory() as kept:
        cold, *warm = (_first_table(kept) for _ in range(_ROUNDS))
    yield Row("first rows of a table, first time on a machine", cold, "s", "loops are compiled, and kept by Numba")
    yield Row("first rows of a table, from then on", statistics.median(warm), "s", "of which half is importing Numba")


def _median(command: list[str], *, fresh: bool) -> float:
    """The median wall time of a process, with an empty cache each time (`fresh`) or with one that was filled."""
    with tempfile.TemporaryDirectory() as warm:
        if not fresh:
            _run(command, warm)
        spans = []
        for _ in range(_ROUNDS):
            with tempfile.TemporaryDirectory() as cold:
                spans.append(_run(command, cold if fresh else warm))
    return statistics.median(spans)


def _run(command: list[str], cache: str) -> float:
    return _wall([sys.executable, "-m", "countermax.cli", *command], {"XDG_CACHE_HOME": cache})


def _first_table(cache: str) -> float:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run([sys.executable, "-c", _TABLE], check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout)


def _wall(command: list[str], environment: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    return time.perf_counter() - start
