"""The command `python -m studies`; everything heavy is imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from countermax.cli._faults import complain, want_traceback
from countermax.cli._shared import one_line_errors, show

_ALL, _PLOT = "all", "plot"
_PAPER = ("maximality", "table1", "couplings")
_NAMES = (
    *_PAPER,
    *(
        "sepsis",
        "trajectories",
        "coverage",
        "policies",
        "causation",
        "robustness",
        "optimism",
        "quantiles",
        "quantiles-learned",
    ),
)


@one_line_errors
def study(
    name: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(_NAMES)}; {_ALL} for the first three, the paper's tables and figures; {_PLOT} to redraw "
            "stored results."
        ),
    ],
    folder: Annotated[Path | None, typer.Argument(help=f"Folder of stored results, with {_PLOT}.")] = None,
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
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback when something fails.")] = False,
) -> None:
    """Compute the paper's experiments and ours, with tables, figures and a page; the same command resumes a run.

    Examples: python -m studies all; python -m studies table1 --preset best --out results;
    python -m studies plot results
    """
    want_traceback(debug)
    from countermax._core.errors import InputError
    from countermax._core.interruption import stop_status, unwinding
    from studies.experiments import Interrupted
    from studies.registry import redraw, reproduce

    if name == _PLOT:
        if folder is None:
            raise InputError(f"name the folder of results, for instance: python -m studies {name} results")
        _tell(redraw(folder), folder)
        return
    if folder is not None:
        raise InputError(f"only {_PLOT} takes a folder, got {folder}; use --out to say where results go")
    if as_published and name != "sepsis":
        raise InputError(f"--as-published is for sepsis, got {name}")
    target = Path("countermax-results") / preset if out is None else out
    names = list(_PAPER) if name == _ALL else ["sepsis-as-published" if as_published else name]
    try:
        with unwinding():
            written = reproduce(names, target, preset=preset, seeds=seeds, jobs=jobs, train_only=train_only)
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


app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)
app.command()(study)
