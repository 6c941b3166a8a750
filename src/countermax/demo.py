"""The bundled clinical trial: two minutes from a clone to a picture that explains something."""

import csv
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

from countermax import _plotting as plotting
from countermax._core.files import writable_folder, write_atomically
from countermax._core.labels import Labels
from countermax._core.page import Grid, Heading, Paragraph, Picture, write_page
from countermax.bounds import Bounds
from countermax.comparison import Comparison, answered
from countermax.couplings import Gadget2, InverseCDF
from countermax.couplings._named import named_couplings
from countermax.intervals import Interval
from countermax.intervals._sampling import CountSampling
from countermax.learning import Evaluation, PerturbedPair, SquaredDifference, Training, evaluate, fit
from countermax.learning._recipe import LEARNED

_SCORE_COLUMNS = ("expected_score", "better", "worse", "effect_variance")


@dataclass(frozen=True)
class Trial:
    """Counts of outcomes in two arms, and a score for each outcome."""

    title: str
    about: str
    people: str
    """The file with one row for each person."""
    factual: str
    counterfactual: str
    observed: str
    score: Mapping[str, float]
    cost: Mapping[str, float]
    outcomes: Sequence[str]
    """In the order of the alphabet: the file has no other."""
    counts: Mapping[str, Sequence[int]]
    """How many had each outcome, by arm."""


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
    fields: dict[str, Any] = json.loads(_bundled("trial.json").decode())
    people = list(csv.DictReader(_bundled(fields["people"]).decode().splitlines()))
    outcomes = sorted({person["outcome"] for person in people})
    number = Counter((person["arm"], person["outcome"]) for person in people)
    arms = (fields["factual"], fields["counterfactual"])
    return Trial(
        **fields, outcomes=outcomes, counts={arm: [number[arm, outcome] for outcome in outcomes] for arm in arms}
    )


def run_demo(out: str | Path, *, progress: bool | None = None) -> Demo:
    """Asks the bundled question, trains a small gadget, draws the pictures and writes the report into `out`."""
    folder = writable_folder(out)
    trial = load_trial()
    comparison = ask(trial)
    evaluation = _learn(trial, comparison, progress)
    findings = (*_findings(trial, comparison), _learned_finding(evaluation))
    figures = {
        "answers": comparison.plot(),
        "couplings": comparison.plot_couplings(),
        "variances": _variances(comparison),
        "learned": evaluation.plot(),
    }
    pictures = {name: plotting.picture(figure) for name, figure in figures.items()}
    written = [write_atomically(folder / trial.people, _bundled(trial.people))]
    written.extend(write_atomically(folder / f"{name}.png", png) for name, png in pictures.items())
    written.append(write_atomically(folder / "comparison.json", comparison.to_json()))
    written.append(_write_page(folder / "report.html", trial, comparison, findings, pictures))
    return Demo(trial, comparison, evaluation, findings, tuple(written))


def ask(trial: Trial) -> Comparison:
    """The trial's question, as `compare_arms` would ask it of the file; without a library for frames."""
    worlds = (trial.factual, trial.counterfactual)
    here, there = (np.array(trial.counts[arm], np.float64) for arm in worlds)
    sampling = CountSampling(here, there, worlds)
    names = Labels(tuple(trial.outcomes))
    score = names.scores("score", trial.score)
    return answered(
        names,
        names.place_of("observed", trial.observed),
        np.log(sampling.p),
        np.log(sampling.q),
        sampling=sampling,
        scores=(score, score),
        couplings=None,
        worlds=worlds,
        order="in the order of the alphabet, because the file has no other",
    )


def _bundled(name: str) -> bytes:
    return files("countermax").joinpath("data", name).read_bytes()


def _variances(comparison: Comparison) -> Figure:
    found = comparison.intervals
    return plotting.draw_variances(
        {each.name: each.effect_variance for each in comparison.answers if each.effect_variance is not None},
        "The order of the outcomes decides the variance",
        "variance of the effect score(Y) - score(X)",
        intervals=None if found is None else {name: each.effect_variance for name, each in found.answers.items()},
    )


def _learn(trial: Trial, comparison: Comparison, progress: bool | None) -> Evaluation:
    """Two scores at once, so that no order is optimal: trains a small gadget on trials like this one."""
    score, cost = (np.array([each[outcome] for outcome in trial.outcomes]) for each in (trial.score, trial.cost))
    scores = np.stack([score, cost], axis=1)
    scores = (scores - scores.mean(axis=0)) / scores.std(axis=0)
    pairs = PerturbedPair(np.log(comparison.p), np.log(comparison.q), 0.5)
    gadget = Gadget2(len(trial.score), 16, key=jax.random.key(0), hidden=(32, 32), rounds=10)
    training = Training(steps=200, batch_size=16, num_held_out=32)
    learned = fit(gadget, pairs, SquaredDifference(scores), training, key=jax.random.key(1))
    couplings = {
        **named_couplings(("gumbel-max", "inverse-cdf-by-score"), score=score),
        "inverse CDF by cost": InverseCDF.sorted_by(cost),
        LEARNED: learned.coupling,
    }
    return evaluate(couplings, pairs, SquaredDifference(scores), key=jax.random.key(2), num_pairs=100)


def _learned_finding(evaluation: Evaluation) -> str:
    rows = evaluation.by_coupling
    loss = {name: float(row["loss"] or 0) for name, row in rows.items()}
    fixed = min(loss[name] for name in loss if name not in (LEARNED, "optimum"))
    return (
        "With two scores at once, quality of life and cost, no order of the outcomes is optimal, and a coupling can "
        f"be learned: over trials like this one its loss is {loss[LEARNED]:.3f}, against {fixed:.3f} for "
        f"the best fixed one and {loss['Gumbel-max']:.3f} for Gumbel-max; no coupling has less than "
        f"{loss['optimum']:.3f}. These trials are taken as known, so their losses have no intervals."
    )


def _findings(trial: Trial, comparison: Comparison) -> tuple[str, ...]:
    found, scores = comparison.intervals, comparison.score_bounds
    assert found is not None
    assert scores is not None
    answers = {answer.name: answer for answer in comparison.answers}
    best = max(trial.outcomes, key=lambda outcome: trial.score[outcome])
    at = trial.outcomes.index(best)

    def probability(name: str) -> str:
        return _with_interval(answers[name].probabilities[at], _at(found.answers[name].probabilities, at), 2)

    def variance(name: str) -> str:
        return _with_interval(answers[name].effect_variance, found.answers[name].effect_variance, 3)

    seen, level = comparison.observed, f"{100 * found.level:g}%"
    spared, surely = 1 - comparison.bounds.upper[seen], 1 - found.bounds.probabilities.upper[seen]
    return (
        f"On {trial.factual} a patient's outcome was {trial.observed!r}. On {trial.counterfactual}, would it have been "
        f"{best!r}? Gumbel-max says: with probability {probability('Gumbel-max')}, inverse CDF "
        f"{probability('inverse CDF')}, inverse CDF in the order of the score {probability('inverse CDF by score')}.",
        f"In parentheses: {level} intervals, what other patients could have shown. More patients would make them "
        "shorter and would not tell which coupling is true: all of them fit the trial perfectly. Over all couplings "
        f"the probability is {_span(_at(comparison.bounds, at), 2)} at the shares seen in this trial. What no "
        f"coupling can deny: with probability {spared:.2f} at least, the outcome would not have been "
        f"{trial.observed!r}; with {level} confidence, {surely:.2f} at least.",
        f"The mean effect is the same under all of them; its variance is not: {variance('Gumbel-max')} under "
        f"Gumbel-max; {variance('inverse CDF')} under inverse CDF in the order of the alphabet; "
        f"{variance('inverse CDF by score')} under inverse CDF in the order of the score, and no coupling has less.",
        f"Of two different patients, the one on {trial.counterfactual} does better than the one on {trial.factual} "
        f"with probability {_with_interval(comparison.win_probability, found.win_probability, 2)}, ties counted half: "
        "the win probability of Mann and Whitney, which the trial shows. How many patients would themselves have done "
        f"better, it does not show: {_with_interval(scores.better, found.bounds.better, 2)} over all couplings.",
    )


def _write_page(
    path: Path, trial: Trial, comparison: Comparison, findings: tuple[str, ...], pictures: Mapping[str, bytes]
) -> Path:
    counts = [[arm, *(str(count) for count in counts)] for arm, counts in trial.counts.items()]
    return write_page(
        path,
        trial.title,
        [
            Paragraph(trial.about),
            Grid(
                ["", *trial.outcomes],
                [*counts, ["score", *(f"{trial.score[outcome]:g}" for outcome in trial.outcomes)]],
            ),
            Heading("One patient, several answers"),
            *(Paragraph(finding) for finding in findings[:2]),
            Picture(pictures["answers"], "counterfactual probabilities of each coupling, with bounds and intervals"),
            _answers(comparison),
            Paragraph(comparison.verdict),
            Heading("Why they differ: how the two worlds are coupled"),
            Picture(pictures["couplings"], "joint law of the outcomes in both worlds under each coupling"),
            Heading("What the choice does to the treatment effect"),
            Paragraph(findings[2]),
            Picture(pictures["variances"], "variance of the treatment effect under each coupling, with intervals"),
            Paragraph(findings[3]),
            Heading("Two scores at once: a coupling that is learned"),
            Paragraph(findings[4]),
            Picture(pictures["learned"], "expected loss of fixed and learned couplings, with the optimum"),
            Paragraph(" ".join((*comparison.notes, comparison.left_out)), note=True),
        ],
    )


def _answers(comparison: Comparison) -> Grid:
    """Every number with its interval: a line for each coupling, then one for each family of couplings."""
    found = comparison.intervals
    assert found is not None
    lines = [(each.name, vars(each), found.answers[each.name]) for each in comparison.answers]
    for name, bounds, scores, intervals in (
        ("any coupling", comparison.bounds, comparison.score_bounds, found.bounds),
        ("any stable coupling", comparison.stable_bounds, comparison.stable_score_bounds, found.stable_bounds),
    ):
        lines.append((name, {"probabilities": bounds, **({} if scores is None else vars(scores))}, intervals))
    rows = []
    for name, values, intervals in lines:
        probabilities = [
            _with_interval(_at(values["probabilities"], at), _at(intervals.probabilities, at), 3)
            for at in range(len(comparison.labels))
        ]
        others = [_with_interval(values.get(each), getattr(intervals, each), 3) for each in _SCORE_COLUMNS]
        rows.append([name, *probabilities, *others])
    return Grid(["", *comparison.labels, *(column.replace("_", " ") for column in _SCORE_COLUMNS)], rows)


def _at(values: Any, place: int) -> Any:
    """One entry of an array, or of both limits of a range."""
    if isinstance(values, Bounds | Interval):
        return values._replace(lower=values.lower[place], upper=values.upper[place])
    return values[place]


def _with_interval(value: Any, interval: Interval | None, decimals: int) -> str:
    """A number, or the range over couplings, and in parentheses what other data could have shown."""
    if value is None:
        return ""
    text = _span(value, decimals) if isinstance(value, Bounds) else f"{float(value):.{decimals}f}"
    return text if interval is None else f"{text} ({_span(interval, decimals)})"


def _span(limits: Any, decimals: int) -> str:
    return f"{float(limits[0]):z.{decimals}f} to {float(limits[1]):z.{decimals}f}"
