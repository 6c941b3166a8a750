"""Commands that answer one question: `compare` and `demo`."""

from collections.abc import Mapping
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
    check_outputs,
    checked_target,
    deliver,
    numbers,
    one_line_errors,
    scores,
    show,
    written,
)

_DEMO = (
    "stroke_trial.csv",
    "answers.png",
    "couplings.png",
    "variances.png",
    "learned.png",
    "comparison.json",
    "report.html",
)


@one_line_errors
def compare(
    observed: Annotated[
        str, typer.Option(help="Observed outcome: a label, or an index from 0 if there are no labels.")
    ],
    data: Annotated[
        Path | None, typer.Option(help="Trial with one row for each person: .csv, .parquet or .jsonl; needs --outcome.")
    ] = None,
    outcome: Annotated[str | None, typer.Option(help=OUTCOME)] = None,
    arm: Annotated[str | None, typer.Option(help=ARM)] = None,
    factual: Annotated[str | None, typer.Option(help="Arm that the person was in.")] = None,
    counterfactual: Annotated[str | None, typer.Option(help="Arm that the question is about.")] = None,
    p: Annotated[
        str | None, typer.Option(help="Probabilities in the factual world, separated by commas; in place of --data.")
    ] = None,
    q: Annotated[str | None, typer.Option(help="Probabilities of the same outcomes in the other world.")] = None,
    counts: Annotated[
        bool, typer.Option("--counts", help="Take p and q as counts of people; answers then have intervals.")
    ] = False,
    labels: Annotated[
        str | None, typer.Option(help="Outcomes in order, separated by commas; quote a name that contains one.")
    ] = None,
    score: TrialScore = None,
    counterfactual_score: Annotated[
        str | None, typer.Option(help="Score in the other world, if different; with --p and --q.")
    ] = None,
    weights: Weights = None,
    clusters: Clusters = None,
    strata: Annotated[str | None, typer.Option(help="Column over which both arms are standardised.")] = None,
    population: Annotated[str, typer.Option(help="Population whose strata count: both, control or treated.")] = "both",
    missing: Missing = "refuse",
    level: Level = 0.95,
    seed: DrawSeed = 0,
    logits: Annotated[
        bool, typer.Option("--logits", help="Take p and q as logits (-inf allowed), not probabilities.")
    ] = False,
    normalise: Annotated[bool, typer.Option("--normalise", help="Rescale p and q to sum to one.")] = False,
    json: Json = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the answers into this file (.png, .pdf, .svg).")] = None,
    plot_couplings: Annotated[Path | None, typer.Option(help="Draw each coupling's joint law into this file.")] = None,
    sharing: Annotated[
        bool, typer.Option("--sharing", help="Also show how much the two worlds must share for the answer to turn.")
    ] = False,
    plot_sharing: Annotated[
        Path | None,
        typer.Option(help="Draw what --sharing shows into this file; implies --sharing."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Get every coupling's answer to one question: this was seen; what would have happened in the other world?

    Example: countermax compare --data trial.csv --outcome status --arm arm --factual placebo --counterfactual drug
    --observed dead --score dead=0,ill=1,well=2

    Or from counts: countermax compare --p 30,40,30 --q 10,30,60 --counts --labels dead,ill,well --observed dead
    """
    from countermax._core.errors import InputError
    from countermax._core.labels import Written
    from countermax._core.quantities import as_seed

    if logits and normalise:
        raise InputError("--logits and --normalise exclude each other: logits need not be normalised; drop one of them")
    answers, laws = checked_target(plot), checked_target(plot_couplings)
    curve = checked_target(plot_sharing)
    outputs = {"--plot": answers, "--plot-couplings": laws, "--plot-sharing": curve}
    check_outputs(outputs, [] if data is None else [data], overwrite=overwrite)
    of_data = {"outcome": outcome, "arm": arm, "factual": factual, "counterfactual": counterfactual}
    further: dict[str, Any] = {"weights": weights, "clusters": clusters, "strata": strata}
    read: dict[str, Any] = {"score": scores(score), "labels": written(labels)}
    asked: dict[str, Any] = {"sharing": sharing or curve is not None}
    seed_of_draws = as_seed("--seed", seed)
    if data is None:
        _refuse({**of_data, **further}, "needs --data")
        absent = [option for option, given in (("--p", p), ("--q", q)) if given is None]
        if p is None or q is None:
            raise InputError(f"--data, or both --p and --q, must be given; {' and '.join(absent)} is missing")
        from countermax.trial import Trial, Worlds

        pair = numbers("--p", p), numbers("--q", q)
        if counts:
            trial = Trial.from_counts(*pair, **read, seed=seed_of_draws)
            result = trial.compare(Written(observed), **asked, level=level)
        else:
            other = scores(counterfactual_score, "--counterfactual-score")
            worlds = Worlds(*pair, **read, counterfactual_score=other, logits=logits, normalise=normalise)
            result = worlds.compare(Written(observed), **asked)
    else:
        refused = {"p": p, "q": q, "counterfactual-score": counterfactual_score}
        flags = {"counts": counts or None, "logits": logits or None, "normalise": normalise or None}
        _refuse({**refused, **flags}, "goes with --p and --q, not with --data")
        absent = [f"--{name}" for name, given in of_data.items() if given is None]
        if absent:
            raise InputError(f"--data needs {' and '.join(absent)}")
        from countermax.trial import Design, Trial

        trial = Trial(
            data, outcome=outcome, arm=arm, control=Written(str(factual)), treated=Written(str(counterfactual)),
            design=Design(**further, population=population), missing=missing, seed=seed_of_draws, **read,
        )  # fmt: skip
        result = trial.compare(Written(observed), **asked, level=level)
    pictures = {answers: result.plot} | {laws: result.plot_couplings}
    if result.sharing is not None:
        pictures |= {curve: result.sharing.plot}
    deliver(result, json=json, pictures=pictures)


def _refuse(options: Mapping[str, object], why: str) -> None:
    from countermax._core.errors import InputError

    given = next((name for name, value in options.items() if value is not None), None)
    if given is not None:
        raise InputError(f"--{given} {why}")


@one_line_errors
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures and report.html.")] = Path("countermax-demo"),
    overwrite: Overwrite = False,
) -> None:
    """Get pictures and a report that show what the choice of coupling does in a bundled clinical trial."""
    from countermax.demo import run_demo

    check_outputs({}, overwrite=overwrite, folder=out, names=_DEMO)
    result = run_demo(out)
    show(result)
