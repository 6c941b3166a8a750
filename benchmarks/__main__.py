"""Runs the benchmarks named on the command line, or all of them."""

import sys
from importlib import import_module
from pathlib import Path

from benchmarks.measure import write
from countermax._core.files import writable_folder

SUITES = (
    "first_answer",
    "couplings",
    "learning",
    "tables",
    "growth",
    "mdp",
    "trajectories",
    "improving",
    "power",
    "quantiles",
    "nests",
)

if __name__ == "__main__":
    folder = writable_folder(Path(__file__).parent / "results")
    for name in sys.argv[1:] or SUITES:
        write(name, list(import_module(f"benchmarks.{name}").rows()), folder)
