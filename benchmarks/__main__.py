"""Runs the benchmarks named on the command line, or all of them."""

import sys
from pathlib import Path

from benchmarks import couplings, learning, mdp, tables, trajectories
from benchmarks.measure import write
from countermax._core.files import writable_folder

SUITES = {
    "couplings": couplings.rows,
    "learning": learning.rows,
    "mdp": mdp.rows,
    "tables": tables.rows,
    "trajectories": trajectories.rows,
}

if __name__ == "__main__":
    folder = writable_folder(Path(__file__).parent / "results")
    for name in sys.argv[1:] or SUITES:
        write(name, list(SUITES[name]()), folder)
