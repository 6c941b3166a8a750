"""The command that reproduces the paper's experiments: `reproduce` and, within it, `plot` and `seal`."""

from pathlib import Path
from typing import Annotated

import typer

from countermax.cli._faults import complain
from countermax.cli._shared import Overwrite, one_line_errors, show

_ALL = "all"
_PLOT = "plot"
_SEAL = "seal"
_SYNTHETIC = ("maximality", "table1", "couplings")
_NAMES = (
    *_SYNTHETIC,
    "sepsis",
    "trajectories",
    "coverage",
    "policies",
    "causation",
    "robustness",
    "quantiles",
    "quantiles-learned",
)


@one_line_errors
def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(_NAMES)}; {_ALL} for the first three; {_PLOT} to redraw stored results; {_SEAL} to add "
            "checksums to results of a release that wrote none."
        ),
    ],
    folder: Annotated[Path | None, typer.Argument(help=f"Folder of stored results, with {_PLOT} and {_SEAL}.")] = None,
    preset: Annotated[
        str, typer.Option(help="Settings: quick (minutes), published (the paper's, with its objective) or best (ours).")
    ] = "quick",
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds; each preset has its own.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for results; by default countermax-results/PRESET.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of cells to compute at once.")] = 1,
    train_only: Annotated[
        bool,
        typer.Option("--train-only", help="Train and store only; measure later by leaving this option out."),
    ] = False,
    as_published: Annotated[
        bool, typer.Option("--as-published", help="Follow the published sepsis pipeline, flaws included.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Reproduce the paper's experiments and ours, with tables, figures and a page; the same command resumes a run.

    Examples: countermax reproduce all; countermax reproduce table1 --preset best --out results;
    countermax reproduce plot results
    """
    from countermax._core.errors import InputError
    from countermax._core.interruption import stop_status, unwinding
    from countermax.experiments import Interrupted, redraw, reproduce, seal

    if experiment in (_PLOT, _SEAL):
        if folder is None:
            raise InputError(f"name the folder of results, for instance: countermax reproduce {experiment} results")
        if experiment == _PLOT:
            _tell(redraw(folder, overwrite=overwrite), folder)
        else:
            show(f"sealed: {len(seal(folder))} files in {folder}; all others already had checksums")
        return
    if folder is not None:
        raise InputError(f"only {_PLOT} and {_SEAL} take a folder, got {folder}; use --out to say where results go")
    if as_published and experiment != "sepsis":
        raise InputError(f"--as-published is for sepsis, got {experiment}")
    target = Path("countermax-results") / preset if out is None else out
    names = list(_SYNTHETIC) if experiment == _ALL else ["sepsis-as-published" if as_published else experiment]
    try:
        with unwinding():
            written = reproduce(
                names, target, preset=preset, seeds=seeds, jobs=jobs, train_only=train_only, overwrite=overwrite
            )
    except Interrupted as error:
        complain(str(error))
        raise typer.Exit(stop_status()) from error
    _tell(written, target)


def _tell(written: list[Path], folder: Path) -> None:
    for path in written:
        if path.suffix == ".md":
            show(f"\n{path.stem}\n{path.read_text('utf-8')}")
    if written:
        show(f"written: {len(written)} files; open {folder / 'index.html'} in a browser")
    else:
        show("trained; the same command without --train-only measures and draws")
