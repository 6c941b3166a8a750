"""Commands about two arms: `compare` and `causes`, and the bundled example, `demo`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from countermax._core.errors import InputError
from countermax.cli._declared import Typed, declared, with_options
from countermax.cli._rows import ROWS, rows_of
from countermax.cli._shared import (
    Address,
    Outputs,
    Overwrite,
    check_folder,
    numbers,
    one_line_errors,
    show,
    words,
)

_TRIAL = declared("trial/_trial.py:Trial").without("data", "design").optional()
_DESIGN = declared("trial/_trial.py:Design")
_WORLDS = declared("trial/_worlds.py:Worlds").without("observational").optional()
_COMPARE, _CAUSES = (declared(f"trial/_trial.py:Trial.{verb}") for verb in ("compare", "causes"))
_CAUSES_OF_ROWS = declared("tables/_problem.py:Rows.causes").without("arms")
_BOTH = ("labels", "score", "best", "names")  # parameters of a trial and of two known laws
_OF_ROWS = ("outcome", "arm", "missing", "observational")

Data = Annotated[
    Path | None,
    typer.Argument(
        help="Trial with one row for each person: .csv, .parquet or .jsonl. Without it, --control and --treated hold "
        "counts of the outcomes, or --factual and --counterfactual their probabilities."
    ),
]
CausesData = Annotated[
    str | None,
    typer.Argument(
        help="Trial with one row for each person, or table with two predictions for each row: .csv, .parquet or "
        ".jsonl. Without it, --control and --treated hold counts of the outcomes, or --factual and --counterfactual "
        "their probabilities."
    ),
]
Explore = Annotated[Path | None, typer.Option(help="Write the explorer, set to this answer, into this file (.html).")]


@one_line_errors
@with_options(_COMPARE, _TRIAL, _DESIGN, _WORLDS)
def compare(given: Typed, outputs: Outputs, data: Data = None, explore: Explore = None) -> None:
    """Get the answer to one question: this was seen in one arm; what would have happened in the other?

    Example: countermax compare trial.csv --outcome status --arm arm --control placebo --treated drug --seen dead
    --score dead=0,ill=1,well=2

    Or from counts: countermax compare --control 30,40,30 --treated 10,30,60 --labels dead,ill,well --seen dead
    """
    asked = given.of(_COMPARE)
    reads = (data, *words(given.get("couplings", "")))
    if explore is not None and any(name in given for name in ("weights", "clusters", "strata")):
        from countermax.comparison._result import UNEXPLORED  # before the work is done

        raise InputError(UNEXPLORED)
    outputs.deliver(lambda: _problem(given, data).compare(**asked), *reads, explore=explore)


@one_line_errors
@with_options(_CAUSES, _TRIAL, _DESIGN, _WORLDS, ROWS)
def causes(given: Typed, outputs: Outputs, data: CausesData = None, address: Address = None) -> None:
    """Find out what a treatment causes: necessity, sufficiency, benefit and harm, with bounds and intervals.

    Example: countermax causes trial.csv --outcome status --arm arm --treated drug --event well --plot causes.png

    Or of a table with predictions: countermax causes customers.parquet --factual p_ --counterfactual q_ --event stays
    """
    predicted = data is not None and ("factual" in given or "counterfactual" in given)
    if predicted:
        others = [name for name in given if name not in ROWS and name not in _CAUSES_OF_ROWS]
        _refuse(others, "is for a file of people; with --factual and --counterfactual a table has predictions instead")
        if not {"factual", "counterfactual"} <= given.keys():
            raise InputError("--factual and --counterfactual must both be given: the columns of two predictions")
    else:
        others = [name for name in given if name in ROWS and name not in _TRIAL and name not in _WORLDS]
        _refuse(others, "is for a table with predictions, in columns that --factual and --counterfactual name")
    asked = given.of(_CAUSES_OF_ROWS if predicted else _CAUSES)
    reads = (data, given.get("observational"), *words(given.get("couplings", "")))

    def ask() -> Any:
        return rows_of(given, str(data), address) if predicted else _problem(given, data)

    outputs.deliver(lambda: ask().causes(**asked), *reads)


def _problem(given: Typed, data: str | Path | None) -> Any:
    """A trial from a file or from counts, or two known laws: what was typed decides."""
    from countermax.trial import Design, Trial, Worlds

    laws = [name for name in given if name in _WORLDS and name not in (*_BOTH, "seed")]
    if data is not None:
        _refuse(
            laws, "goes without a file of people; of a table with predictions ask `causes`, `transitions`, `effects`"
        )
        absent = [name for name in ("outcome", "arm") if name not in given]
        if absent:
            held = {"outcome": "--outcome (the column with the outcomes)", "arm": "--arm (the column with the arms)"}
            raise InputError(f"{data} needs {' and '.join(map(held.__getitem__, absent))}")
        _refuse(["names"] * ("names" in given), "goes without a file of people, whose arms have names")
        design = given.of(_DESIGN)
        return Trial(data, **given.of(_TRIAL), design=Design(**design) if design else None)
    of_rows = [name for name in given if name in _DESIGN or name in _OF_ROWS]
    _refuse(of_rows, "needs a file with one row for each person")
    pair = ("factual", "counterfactual") if laws else ("control", "treated")
    absent = [f"--{name}" for name in pair if name not in given]
    if absent:
        raise InputError(
            "a file, or --control and --treated (counts), or --factual and --counterfactual (probabilities) must be "
            f"given; {' and '.join(absent)} is missing"
        )
    _refuse([name for name in ("control", "treated") if laws and name in given], "goes without --factual")
    _refuse(["level"] * (bool(laws) and "level" in given), "goes without --factual: what is known has no intervals")
    values = [numbers(f"--{name}", given[name]) for name in pair]
    group = (_WORLDS if laws else _TRIAL.without(*_OF_ROWS)).without(*pair)
    named = {"names": words(given["names"])} if "names" in given else {}
    return (Worlds if laws else Trial.from_counts)(*values, **given.of(group) | named)


def _refuse(names: list[str], why: str) -> None:
    if names:
        raise InputError(f"--{names[0].replace('_', '-')} {why}")


_PICTURES = ("answers.png", "couplings.png", "variances.png", "learned.png")
_DEMO = ("stroke_trial.csv", *_PICTURES, "comparison.json", "report.html")


@one_line_errors
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures and report.html.")] = Path("countermax-demo"),
    overwrite: Overwrite = False,
) -> None:
    """Get pictures and a report that show what the choice of coupling does in a bundled clinical trial."""
    from countermax.demo import run_demo

    check_folder(out, _DEMO, overwrite=overwrite)
    show(run_demo(out))
