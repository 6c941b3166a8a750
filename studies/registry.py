"""All experiments by name, and the two things one does with them: compute, and draw again."""

from collections.abc import Sequence
from pathlib import Path

from countermax._core.errors import InputError
from countermax._core.files import writable_folder
from countermax._core.memory import check_memory
from countermax._core.quantities import as_count
from studies.causation import CausalCoverage
from studies.coverage import Coverage
from studies.experiments import AbstractExperiment, Store, checked_preset, run_plan, write_documents
from studies.figure1 import Couplings, Maximality
from studies.optimism import Optimism
from studies.policies import Policies
from studies.quantiles import LearnedQuantiles, Quantiles
from studies.robustness import Robustness
from studies.sepsis import Sepsis, SepsisAsPublished
from studies.table1 import Table1
from studies.trajectories import Trajectories

_SEED_BYTES = 1e6  # a small gadget with all that its training takes; a larger one is checked when it is built

EXPERIMENTS: dict[str, AbstractExperiment] = {
    each.name: each
    for each in (
        Maximality(),
        Table1(),
        Couplings(),
        Sepsis(),
        SepsisAsPublished(),
        Trajectories(),
        Coverage(),
        Policies(),
        CausalCoverage(),
        Robustness(),
        Optimism(),
        Quantiles(),
        LearnedQuantiles(),
    )
}


def reproduce(
    names: Sequence[str],
    out: str | Path,
    *,
    preset: str = "quick",
    seeds: int | None = None,
    jobs: int = 1,
    train_only: bool = False,
) -> list[Path]:
    """Computes what is not stored yet in `out`, then writes sheets, figures and the page; returns the files.

    Args:
        names: Names of experiments.
        out: The folder of results; a second call resumes.
        preset: `quick`, `published` or `best`.
        seeds: Number of seeds; by default as many as the preset has.
        jobs: Number of cells that are computed at once.
        train_only: Whether to train everything and measure nothing; the same call without it measures.
    """
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown or not names:
        raise InputError(f"unknown experiment {', '.join(unknown) or 'name'}; known are {', '.join(EXPERIMENTS)}")
    seeds = None if seeds is None else as_count("`seeds`", seeds)
    check_memory(f"{seeds} seeds", (seeds or 0) * _SEED_BYTES, "lower `seeds`")
    store = Store(writable_folder(out))
    cells = [cell for name in names for cell in EXPERIMENTS[name].cells(checked_preset(preset), seeds)]
    run_plan(EXPERIMENTS, cells, store, jobs=jobs, train_only=train_only)
    return [] if train_only else write_documents(EXPERIMENTS, store)


def redraw(folder: str | Path) -> list[Path]:
    """Writes sheets, figures and the page again from what is stored; computes nothing."""
    return write_documents(EXPERIMENTS, Store(folder))
