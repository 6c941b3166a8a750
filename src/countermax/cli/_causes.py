"""The command that asks what a treatment causes: `causation`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from countermax.cli._options import (
    ARM,
    OUTCOME,
    Clusters,
    DrawSeed,
    Json,
    Level,
    Missing,
    TrialScore,
    Weights,
)
from countermax.cli._shared import (
    Overwrite,
    by_label,
    check_outputs,
    checked_target,
    deliver,
    numbers,
    one_line_errors,
    scores,
    words,
    written,
)


@one_line_errors
def causation(
    data: Annotated[Path, typer.Argument(help="Trial with one row for each person: .csv, .parquet or .jsonl.")],
    outcome: Annotated[str, typer.Option(help=OUTCOME)],
    arm: Annotated[str, typer.Option(help=ARM)],
    control: Annotated[
        str | None, typer.Option(help="Arm without the treatment; not needed with two arms and --treated.")
    ] = None,
    treated: Annotated[str | None, typer.Option(help="Arm with the treatment; not needed if arms are 0 and 1.")] = None,
    event: Annotated[str | None, typer.Option(help="Outcomes that are the event, separated by commas.")] = None,
    score: TrialScore = None,
    at_least: Annotated[float | None, typer.Option(help="Gain of the score; adds the share who gain as much.")] = None,
    gain: Annotated[
        str | None,
        typer.Option(help="Worth of treating, by outcome without and with it: ill>well=1,well>ill=-2,..."),
    ] = None,
    labels: Annotated[str | None, typer.Option(help="Outcomes in order, separated by commas.")] = None,
    observational: Annotated[
        Path | None, typer.Option(help="Second table with the same columns, about people who chose their arm.")
    ] = None,
    people: Annotated[
        str | None, typer.Option(help="People the question is about: units of the trial, or people who have chosen.")
    ] = None,
    treated_share: Annotated[
        float | None, typer.Option(help="Share of the treated in the trial, if its design says so.")
    ] = None,
    weights: Weights = None,
    clusters: Clusters = None,
    strata: Annotated[str | None, typer.Option(help="Column within which bounds are taken.")] = None,
    thin: Annotated[str, typer.Option(help="Strata with few people: refuse or merge.")] = "refuse",
    missing: Missing = "refuse",
    level: Level = 0.95,
    seed: DrawSeed = 0,
    json: Json = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the ranges into this file (.png, .pdf, .svg).")] = None,
    page: Annotated[Path | None, typer.Option(help="Write a page (.html) with everything.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Find out what a treatment causes: necessity, sufficiency, benefit and harm, with bounds and intervals.

    Example: countermax causation trial.csv --outcome status --arm arm --treated drug --event well --plot causes.png
    """
    from countermax._core.labels import Written
    from countermax._core.quantities import as_seed
    from countermax.trial import Design, Trial

    picture = checked_target(plot)
    reads = [data] + ([] if observational is None else [observational])
    check_outputs({"--plot": picture, "--page": page}, reads, overwrite=overwrite)
    trial = Trial(
        data,
        outcome=outcome,
        arm=arm,
        control=None if control is None else Written(control),
        treated=None if treated is None else Written(treated),
        labels=written(labels),
        score=scores(score),
        design=Design(weights=weights, clusters=clusters, strata=strata, thin=thin),
        missing=missing,
        observational=observational,
        seed=as_seed("--seed", seed),
    )
    result = trial.causes(
        written(event), at_least=at_least, gain=_gains(gain), people=people, treated_share=treated_share, level=level
    )
    deliver(
        result,
        json=json,
        pictures={picture: result.plot},
        files={page: result.write_page},
    )


def _gains(text: str | None) -> Any:
    """Numbers by pairs of outcomes: without>with=number."""
    if text is None:
        return None
    from countermax._core.errors import InputError
    from countermax._core.labels import Written

    found = {}
    for pair, value in by_label(words(text), lambda part: numbers("--gain", part)[0]).items():
        without, arrow, with_it = str(pair).partition(">")
        if not arrow:
            raise InputError(f"--gain must be without>with=number,..., got {str(pair)!r}")
        found[Written(without.strip()), Written(with_it.strip())] = value
    return found
