"""Commands that answer one question: `compare` and `demo`."""

from pathlib import Path
from typing import Annotated

import typer

from countermax.cli._shared import (
    Overwrite,
    check_outputs,
    checked_target,
    deliver,
    numbers,
    one_line_errors,
    show,
    words,
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
    p: Annotated[str, typer.Option(help="Probabilities in the world that was seen, separated by commas.")],
    q: Annotated[str, typer.Option(help="Probabilities of the same outcomes in the other world.")],
    observed: Annotated[str, typer.Option(help="What was seen: a label, or an index from 0 without --labels.")],
    labels: Annotated[
        str | None, typer.Option(help="Names of the outcomes, separated by commas; quote a name that has one.")
    ] = None,
    score: Annotated[str | None, typer.Option(help="A number for each outcome: how good it is.")] = None,
    counterfactual_score: Annotated[
        str | None, typer.Option(help="The score in the other world, if different.")
    ] = None,
    logits: Annotated[
        bool, typer.Option("--logits", help="P and q are logits (-inf allowed), not probabilities.")
    ] = False,
    normalise: Annotated[
        bool, typer.Option("--normalise", help="Rescale p and q, e.g. counts, to sum to one.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the answers into this file (.png, .pdf, .svg).")] = None,
    plot_couplings: Annotated[Path | None, typer.Option(help="Draw each coupling's joint law into this file.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Ask every coupling one question: this was seen; what would have happened in the other world?

    Example: countermax compare --p 0.3,0.4,0.3 --q 0.1,0.3,0.6 --labels dead,ill,well --observed dead --score 0,1,2
    """
    from countermax import comparison
    from countermax._core.errors import InputError
    from countermax._core.labels import Written

    if logits and normalise:
        raise InputError("--logits and --normalise exclude each other: logits need not be normalised; drop one of them")
    answers, laws = checked_target(plot), checked_target(plot_couplings)
    check_outputs({"--plot": answers, "--plot-couplings": laws}, overwrite=overwrite)
    result = comparison.compare(
        numbers("--p", p),
        numbers("--q", q),
        Written(observed),
        labels=None if labels is None else words(labels),
        score=None if score is None else numbers("--score", score),
        counterfactual_score=None
        if counterfactual_score is None
        else numbers("--counterfactual-score", counterfactual_score),
        logits=logits,
        normalise=normalise,
    )
    pictures = {path: draw for path, draw in ((answers, result.plot), (laws, result.plot_couplings)) if path}
    deliver(result, json=json, pictures=pictures)


@one_line_errors
def demo(
    out: Annotated[Path, typer.Option(help="The folder to write pictures and report.html into.")] = Path(
        "countermax-demo"
    ),
    overwrite: Overwrite = False,
) -> None:
    """Show on a bundled clinical trial what the choice of coupling does."""
    from countermax.demo import run_demo

    check_outputs({}, overwrite=overwrite, folder=out, names=_DEMO)
    result = run_demo(out)
    show(f"{result.trial.title}\n{result.trial.about}\n")
    show(result.comparison)
    for finding in result.findings:
        show(f"\n* {finding}")
    show("\nwritten: " + ", ".join(path.name for path in result.written))
    show(f"open {result.written[-1]} in a browser")
