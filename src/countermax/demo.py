"""The bundled clinical trial: two minutes from a clone to a picture that explains something."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

from countermax import plotting
from countermax._core.files import writable_folder, write_atomically
from countermax.comparison import Comparison, compare
from countermax.couplings import Gadget2, InverseCDF, named_couplings
from countermax.learning import LEARNED, Evaluation, PerturbedPair, SquaredDifference, evaluate, fit
from countermax.report import Grid, Heading, Paragraph, Picture, write_report


@dataclass(frozen=True)
class Trial:
    """Counts of outcomes in two arms, and a score for each outcome."""

    title: str
    about: str
    factual: str
    counterfactual: str
    observed: str
    outcomes: Sequence[str]
    score: Sequence[float]
    cost: Sequence[float]
    counts: Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Demo:
    """What the demonstration found and where it wrote it."""

    trial: Trial
    comparison: Comparison
    evaluation: Evaluation
    findings: tuple[str, ...]
    written: tuple[Path, ...]


def load_trial() -> Trial:
    """The example that comes with the package."""
    fields: dict[str, Any] = json.loads(files("countermax").joinpath("data/trial.json").read_text("utf-8"))
    return Trial(**fields)


def run_demo(out: str | Path, *, progress: bool | None = None) -> Demo:
    """Asks the bundled question, trains a small gadget, draws the pictures and writes the report into `out`."""
    folder = writable_folder(out)
    trial = load_trial()
    comparison = compare(
        trial.counts[trial.factual],
        trial.counts[trial.counterfactual],
        trial.observed,
        labels=trial.outcomes,
        score=trial.score,
        normalise=True,
    )
    evaluation = _learn(trial, comparison, progress)
    findings = (*_findings(trial, comparison), _learned_finding(evaluation))
    figures = {
        "answers": comparison.plot(),
        "couplings": comparison.plot_couplings(),
        "variances": _variances(comparison),
        "learned": evaluation.plot(),
    }
    pictures = {name: plotting.picture(figure) for name, figure in figures.items()}
    written = [write_atomically(folder / f"{name}.png", png) for name, png in pictures.items()]
    written.append(write_atomically(folder / "comparison.json", comparison.to_json()))
    written.append(_write_report(folder / "report.html", trial, comparison, findings, pictures))
    return Demo(trial, comparison, evaluation, findings, tuple(written))


def _variances(comparison: Comparison) -> Figure:
    return plotting.draw_variances(
        {each.name: each.effect_variance for each in comparison.answers if each.effect_variance is not None},
        "The order of the outcomes decides the variance",
        "variance of the effect score(Y) - score(X)",
    )


def _learn(trial: Trial, comparison: Comparison, progress: bool | None) -> Evaluation:
    """Two scores at once, so that no order is optimal: trains a small gadget on trials like this one."""
    scores = np.stack([trial.score, trial.cost], axis=1)
    scores = (scores - scores.mean(axis=0)) / scores.std(axis=0)
    pairs = PerturbedPair(np.log(comparison.p), np.log(comparison.q), 0.5)
    gadget = Gadget2(len(trial.score), 16, key=jax.random.key(0), hidden=(32, 32), rounds=10)
    learned = fit(
        gadget,
        pairs,
        SquaredDifference(scores),
        key=jax.random.key(1),
        steps=200,
        batch_size=16,
        num_held_out=32,
        progress=progress,
        label="training a gadget",
    )
    couplings = {
        **named_couplings(("gumbel-max", "inverse-cdf-by-score"), score=np.asarray(trial.score)),
        "inverse CDF by cost": InverseCDF.sorted_by(trial.cost),
        LEARNED: learned.coupling,
    }
    return evaluate(couplings, pairs, SquaredDifference(scores), key=jax.random.key(2), num_pairs=100)


def _learned_finding(evaluation: Evaluation) -> str:
    rows = evaluation.rows()
    loss = {name: float(row["loss"] or 0) for name, row in rows.items()}
    fixed = min(loss[name] for name in loss if name not in (LEARNED, "optimum"))
    return (
        "With two scores at once, quality of life and cost, no order of the outcomes is optimal, and a coupling can "
        f"be learned: over trials like this one its loss is {loss[LEARNED]:.3f}, against {fixed:.3f} for "
        f"the best fixed one and {loss['Gumbel-max']:.3f} for Gumbel-max; no coupling has less than "
        f"{loss['optimum']:.3f}."
    )


def _findings(trial: Trial, comparison: Comparison) -> tuple[str, ...]:
    answers = {answer.name: answer for answer in comparison.answers}
    gumbel, plain, ordered = (answers[name] for name in ("Gumbel-max", "inverse CDF", "inverse CDF by score"))
    best = trial.outcomes[max(range(len(trial.score)), key=lambda index: trial.score[index])]
    at = trial.outcomes.index(best)
    low, high = comparison.bounds.lower[at], comparison.bounds.upper[at]
    variances = "; ".join(
        f"{answer.effect_variance:.3f} under {words}"
        for answer, words in (
            (gumbel, "Gumbel-max"),
            (plain, "inverse CDF in the table's order"),
            (ordered, "inverse CDF in the order of the score, and no coupling has less"),
        )
    )
    return (
        f"On {trial.factual} a patient's outcome was {trial.observed!r}. On {trial.counterfactual}, would it have been "
        f"{best!r}? Gumbel-max says: with probability {gumbel.probabilities[at]:.2f}, inverse CDF "
        f"{plain.probabilities[at]:.2f}, inverse CDF in the order of the score {ordered.probabilities[at]:.2f}.",
        f"All three fit the trial perfectly. Data alone allow anything from {low:.2f} to {high:.2f}.",
        f"The mean effect is the same under all of them; its variance is not: {variances}.",
    )


def _write_report(
    path: Path, trial: Trial, comparison: Comparison, findings: tuple[str, ...], pictures: Mapping[str, bytes]
) -> Path:
    counts = [[arm, *(str(count) for count in counts)] for arm, counts in trial.counts.items()]
    rows = dict(comparison.rows())
    columns = list(next(iter(rows.values())))
    return write_report(
        path,
        trial.title,
        [
            Paragraph(trial.about),
            Grid(["", *trial.outcomes], [*counts, ["score", *(f"{value:g}" for value in trial.score)]]),
            Heading("One patient, several answers"),
            *(Paragraph(finding) for finding in findings[:2]),
            Picture(pictures["answers"], "counterfactual probabilities of each coupling, with bounds"),
            Grid(
                ["", *(name.replace("_", " ") for name in columns)],
                [[name, *row.values()] for name, row in rows.items()],
            ),
            Paragraph(comparison.verdict),
            Heading("Why they differ: how the two worlds are coupled"),
            Picture(pictures["couplings"], "joint law of the outcomes in both worlds under each coupling"),
            Heading("What the choice does to the treatment effect"),
            Paragraph(findings[2]),
            Picture(pictures["variances"], "variance of the treatment effect under each coupling"),
            Heading("Two scores at once: a coupling that is learned"),
            Paragraph(findings[3]),
            Picture(pictures["learned"], "expected loss of fixed and learned couplings, with the optimum"),
            Paragraph(
                "All losses, probabilities and variances are exact sums; only training pairs were drawn.", note=True
            ),
        ],
    )
