"""Commands about tables with two predictions in each row: `counterfactuals`, `transitions`, `effects`, `switching`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from countermax._core.files import check_outputs
from countermax._core.interruption import leaving
from countermax.cli._declared import Group, Typed, declared, with_options
from countermax.cli._shared import Address, Outputs, Overwrite, connect, one_line_errors, show, words

if TYPE_CHECKING:
    from countermax.tables import Rows, SwitchingTable

_BY = declared("tables/_problem.py:Rows.by").optional()["column"]._replace(name="by")
ROWS = Group(declared("tables/_problem.py:Rows").without("data", "refit", "utilities"), by=_BY)
_COUNTERFACTUALS, _WRITE, _TRANSITIONS, _SWITCHING, _EFFECTS = (
    declared(f"tables/_problem.py:Rows.{verb}")
    for verb in ("counterfactuals", "write", "transitions", "switching", "effects")
)
_UTILITIES = declared("tables/_utilities.py:Utilities")

Data = Annotated[
    str,
    typer.Argument(
        help="Table: .csv, .parquet or .jsonl (a JSON object in each line), a folder of Parquet files, or several by "
        "wildcards in quotes; with --engine ray also s3://..."
    ),
]


@one_line_errors
@with_options(_COUNTERFACTUALS, _WRITE.without("target", "overwrite"), ROWS.without("by"))
def counterfactuals(
    given: Typed,
    data: Data,
    out: Annotated[
        str,
        typer.Option("--out", "-o", help="File to write (.csv, .parquet, .jsonl), or a folder for Parquet files."),
    ],
    address: Address = None,
    overwrite: Overwrite = False,
) -> None:
    """Get your table back with each row's exact counterfactual probabilities, most likely outcome, bounds and a flag.

    Example: countermax counterfactuals trial.csv --outcome status --factual p_ --counterfactual q_ -o out.parquet

    Example: countermax counterfactuals 's3://lake/trial/*.parquet' --engine ray ... -o s3://lake/answers
    """
    if Path(out).suffix and not (out.endswith("/") or Path(out).is_dir()):  # the library looks after folders
        check_outputs([("--out", out)], [data, given.get("coupling", "")], overwrite=overwrite)
    with leaving(lambda: _left_of(out)):
        found = rows_of(given, data, address).write(out, **given.of(_WRITE), overwrite=overwrite)
    over = {"any": "any coupling", "stable": "stable couplings"}.get(given.get("bounds", "any"))
    show(f"coupling: {found.coupling}" + (f"; bounds are over {over}" if over else ""))
    show("\n".join(found.notes))
    what = f"{found.num_rows:,} rows"
    show(f"written: {out} ({what})" if found.is_new else f"{out} is complete already ({what}); nothing was written")


def _left_of(out: str) -> str:
    """What an interrupted command leaves: a folder keeps the parts that are done, a file appears whole."""
    from countermax.tables._parquet import UNFINISHED

    if (Path(out) / UNFINISHED).exists():
        return f"the same command without --overwrite resumes {out}"
    return "" if "://" in out else f"{out} was not written"


@one_line_errors
@with_options(_COUNTERFACTUALS.without("bounds", "tolerance", "prefix"), _TRANSITIONS, ROWS)
def transitions(given: Typed, data: Data, outputs: Outputs, address: Address = None) -> None:
    """Count who would have had which outcome instead: exact counts with intervals, and bounds over all couplings.

    Example: countermax transitions customers.parquet --outcome status --factual p_ --counterfactual q_ --plot flows.png
    """
    asked = given.of(_TRANSITIONS)
    outputs.deliver(lambda: rows_of(given, data, address).transitions(**asked), data, given.get("coupling"))


@one_line_errors
@with_options(_EFFECTS.without("learn", "training", "checkpoint", "key"), ROWS)
def effects(given: Typed, data: Data, outputs: Outputs, address: Address = None) -> None:
    """Find out what a change adds to a score on average, and how much that varies between people by each coupling.

    Example: countermax effects customers.parquet --factual p_ --counterfactual q_ --score churned=0,stays=1
    """
    asked = given.of(_EFFECTS)
    reads = (data, *words(given.get("couplings", "")))
    outputs.deliver(lambda: rows_of(given, data, address).effects(**asked), *reads)


@one_line_errors
@with_options(_UTILITIES, _SWITCHING, ROWS.without("outcome", "score", "normalise"))
def switching(given: Typed, data: Data, outputs: Outputs, address: Address = None) -> None:
    r"""Count who switches from what to what, from the utilities of a choice model before and after a change.

    Example: countermax switching choosers.parquet --factual base_ --counterfactual scenario_
    --coupling 'nested-gumbel-max-0.5\[bus|tram]' --weights persons --money 0.1 --out switching.parquet
    """

    def ask() -> "SwitchingTable":
        from countermax.tables import Utilities

        utilities = Utilities(**given.of(_UTILITIES))
        return rows_of(given, data, address, utilities=utilities).switching(**given.of(_SWITCHING))

    outputs.deliver(ask, data, given.get("coupling"))


def rows_of(given: Typed, data: str, address: str | None, **more: Any) -> "Rows":
    """The table that was typed, with an engine to ask it."""
    from countermax.tables import Rows

    connect(given.get("engine", "local"), address)
    options = given.of(ROWS)
    by = options.pop("by", None)
    rows = Rows(data, **options, **more)
    return rows if by is None else rows.by(by)
