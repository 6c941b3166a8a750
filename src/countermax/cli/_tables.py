"""Commands about tables in files: `counterfactuals` and `transitions`."""

from pathlib import Path
from typing import Annotated

import typer

from countermax.cli._engine import Address, Engine, prepare_engine
from countermax.cli._shared import (
    COUPLING_WORDS,
    SHARED_WORD,
    Overwrite,
    by_label,
    check_outputs,
    checked_target,
    deliver,
    one_line_errors,
    scores,
    show,
    words,
    written,
)

Data = Annotated[
    str,
    typer.Argument(
        help="Table: .csv, .parquet or .jsonl (a JSON object in each line). With --engine ray: a Parquet file, a "
        "folder of them, or several by wildcards in quotes, local or s3://..."
    ),
]
Outcome = Annotated[str, typer.Option(help="Column with the observed outcomes.")]
Factual = Annotated[
    str,
    typer.Option(
        help="Probabilities in the factual world: the prefix of their columns (p_ for p_dead, p_ill, ...), "
        "label=column,label=column, or columns in the order of --labels."
    ),
]
Counterfactual = Annotated[str, typer.Option(help="The same for the other world.")]
Coupling = Annotated[
    str,
    typer.Option(
        help=f"Coupling of the two worlds: {', '.join(COUPLING_WORDS)}, {SHARED_WORD}, or a FILE with a coupling."
    ),
]
Names = Annotated[str | None, typer.Option("--labels", help="Outcomes in order, separated by commas.")]
Score = Annotated[
    str | None, typer.Option(help="Score of each outcome: label=number,... or numbers in the order of --labels.")
]
Normalise = Annotated[bool, typer.Option("--normalise", help="Rescale probabilities, e.g. counts, to sum to one.")]
Unchanged = Annotated[
    str | None,
    typer.Option(
        help="Column (true, false) that marks rows which the change does not affect: they keep their outcome under "
        "every coupling."
    ),
]
Errors = Annotated[
    str, typer.Option(help="Treatment of rows without an answer: raise an error, or leave them missing.")
]


@one_line_errors
def counterfactuals(
    data: Data,
    outcome: Outcome,
    factual: Factual,
    counterfactual: Counterfactual,
    out: Annotated[
        str, typer.Option("--out", "-o", help="File to write: .csv, .parquet or .jsonl. With --engine ray: a folder.")
    ],
    coupling: Coupling = "gumbel-max",
    labels: Names = None,
    score: Score = None,
    bounds: Annotated[str, typer.Option(help="Couplings that the bounds are over: any, stable, or none.")] = "any",
    unchanged: Unchanged = None,
    normalise: Normalise = False,
    errors: Errors = "raise",
    tolerance: Annotated[
        float,
        typer.Option(help="Largest width of the bounds over any coupling at which the coupling counts as irrelevant."),
    ] = 0.05,
    prefix: Annotated[str, typer.Option(help="Prefix of the names of new columns.")] = "counterfactual_",
    engine: Engine = "local",
    address: Address = None,
    partition_by: Annotated[
        str | None,
        typer.Option(help="Columns, separated by commas, that divide the output into folders; with --engine ray."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Get your table back with each row's exact counterfactual probabilities, most likely outcome, bounds and a flag.

    Example: countermax counterfactuals trial.csv --outcome status --factual p_ --counterfactual q_ -o out.parquet

    Example: countermax counterfactuals 's3://lake/trial/*.parquet' --engine ray ... -o s3://lake/answers
    """
    from countermax.tables import Rows

    prepare_engine(engine, address)
    if engine == "local":
        check_outputs({"--out": Path(out)}, [data, coupling], overwrite=overwrite)
    rows = Rows(
        data,
        outcome=outcome,
        factual=_columns(factual),
        counterfactual=_columns(counterfactual),
        labels=written(labels),
        score=scores(score),
        unchanged=unchanged,
        normalise=normalise,
        errors=errors,
        engine=engine,
    )
    found = rows.write(
        out,
        coupling,
        bounds=bounds,
        tolerance=tolerance,
        prefix=prefix,
        partition_by=words(partition_by or ""),
        overwrite=overwrite,
    )
    over = {"any": "; bounds are over any coupling", "stable": "; bounds are over any stable coupling"}.get(bounds, "")
    show(f"coupling: {found.coupling}{over}")
    same = [f"{found.num_unchanged:,} rows are unchanged."] if found.num_unchanged else []
    show(" ".join([*found.notes, *same]))
    show(f"written: {out} ({found.num_rows:,} rows)")


@one_line_errors
def transitions(
    data: Data,
    outcome: Outcome,
    factual: Factual,
    counterfactual: Counterfactual,
    coupling: Coupling = "gumbel-max",
    labels: Names = None,
    score: Score = None,
    unchanged: Unchanged = None,
    normalise: Normalise = False,
    errors: Errors = "raise",
    resamples: Annotated[int, typer.Option(help="Number of resamples for the intervals; 0 for none.")] = 1000,
    level: Annotated[float, typer.Option(help="Confidence of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
    engine: Engine = "local",
    address: Address = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the flows into this file (.png, .pdf, .svg).")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write the cells: .csv, .parquet, .jsonl.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Count who would have had which outcome instead: exact counts with intervals, and bounds over all couplings.

    Intervals show what other rows could have given; each row's probabilities are taken as known.

    Example: countermax transitions customers.parquet --outcome status --factual p_ --counterfactual q_ --plot flows.png
    """
    from countermax._core.quantities import as_seed
    from countermax._tables.writing import write_table
    from countermax.tables import Rows

    picture = checked_target(plot)
    check_outputs({"--plot": picture, "--out": out}, [data, coupling], overwrite=overwrite)
    prepare_engine(engine, address)
    seed = as_seed("--seed", seed)
    rows = Rows(
        data,
        outcome=outcome,
        factual=_columns(factual),
        counterfactual=_columns(counterfactual),
        labels=written(labels),
        score=scores(score),
        unchanged=unchanged,
        normalise=normalise,
        errors=errors,
        engine=engine,
    )
    result = rows.transitions(coupling, num_resamples=resamples, level=level, seed=seed)
    deliver(
        result,
        json=json,
        pictures={picture: result.plot},
        files={out: lambda path: write_table(result.to_frame(), path)},
    )


def _columns(text: str) -> str | list[str] | dict[str, str]:
    """A prefix of names, names, or names by label."""
    parts = words(text)
    if "=" in text and not (len(parts) == 1 and text.endswith("=")):  # names may begin with P(X=
        return by_label(parts, str)
    return parts if len(parts) > 1 else text
