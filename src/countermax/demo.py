"""The bundled clinical trial: two minutes from a clone to a picture that explains something."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Group
from rich.text import Text

from countermax import _plotting as plotting
from countermax._core.console import as_text
from countermax._core.files import writable_folder, write_atomically
from countermax._core.page import heading, paragraph, picture, write_page
from countermax._core.results import Row, Table, tables_of
from countermax._core.words import confidence, number, span
from countermax.causation import Causation
from countermax.comparison import Comparison
from countermax.couplings import Gadget2, InverseCDF
from countermax.couplings._named import named_couplings
from countermax.couplings._words import LEARNED
from countermax.intervals import Interval
from countermax.learning import Evaluation, PerturbedPair, SquaredDifference, Training, evaluate, fit
from countermax.trial import Trial

_BY_SCORE = "inverse CDF by score"
_SHOWN = ("any coupling", "stable couplings", "Gumbel-max", _BY_SCORE, "independent")


@dataclass(frozen=True)
class Example:
    """The trial that comes with the package, and what is asked about it."""

    title: str
    about: str
    file: str
    """The file with one row for each person."""
    control: str
    treated: str
    seen: str
    score: Mapping[str, float]
    cost: Mapping[str, float]

    @property
    def best(self) -> str:
        """The outcome with the highest score."""
        return max(self.score, key=lambda outcome: self.score[outcome])

    def trial(self) -> Trial:
        """The people of the file."""
        with as_file(files("countermax") / "data" / self.file) as path:
            return Trial(
                path, outcome="outcome", arm="arm", control=self.control, treated=self.treated, score=self.score
            )


@dataclass(frozen=True)
class Demo:
    """What the demonstration found and where it wrote it."""

    example: Example
    comparison: Comparison
    causes: Causation
    evaluation: Evaluation
    findings: tuple[str, ...]
    written: tuple[Path, ...]

    def __rich__(self) -> Group:
        written = f"written: {', '.join(path.name for path in self.written)}\nopen {self.written[-1]} in a browser"
        return Group(
            Text(self.comparison.title, style="bold"),
            Text("\n".join(self.comparison._answer())),
            *_short_tables(self.comparison),
            Text(self.causes.title, style="bold"),
            Text("\n".join([*self.causes._answer(), ""])),
            *(Text(f"* {each}") for each in self.findings),
            Text(f"{self.example.title}. {self.example.about}\n{written}"),
        )

    def __str__(self) -> str:
        return as_text(self.__rich__())


def load_example() -> Example:
    """The example that comes with the package."""
    return Example(**json.loads(_bundled("trial.json").decode()))


def run_demo(out: str | Path) -> Demo:
    """Asks the bundled question, trains a small gadget, draws the pictures and writes the report into `out`."""
    folder = writable_folder(out)
    example = load_example()
    trial = example.trial()
    comparison, causes = trial.compare(example.seen, couplings="all"), trial.causes(example.best)
    evaluation = _learn(example, comparison)
    findings = (*_findings(example, comparison), _learned_finding(evaluation))
    figures = {"answers": comparison.plot(), "couplings": comparison.plot_couplings()}
    figures |= {"variances": _variances(comparison), "learned": evaluation.plot()}
    pictures = {name: plotting.picture(figure) for name, figure in figures.items()}
    written = [write_atomically(folder / example.file, _bundled(example.file))]
    written.extend(write_atomically(folder / f"{name}.png", png) for name, png in pictures.items())
    written.append(write_atomically(folder / "comparison.json", comparison.to_json()))
    elements = [
        paragraph(example.about),
        heading("One patient, several answers"),
        *map(paragraph, comparison.summary().splitlines()),
        *(paragraph(finding) for finding in findings[:2]),
        picture(pictures["answers"], "counterfactual probabilities of each coupling, with bounds and intervals"),
        heading("Why they differ: how the two worlds are coupled"),
        picture(pictures["couplings"], "joint law of the outcomes in both worlds under each coupling"),
        heading("What the choice does to the treatment effect"),
        paragraph(findings[2]),
        picture(pictures["variances"], "variance of the treatment effect under each coupling, with intervals"),
        paragraph(findings[3]),
        heading("Two scores at once: a coupling that is learned"),
        paragraph(findings[4]),
        picture(pictures["learned"], "expected loss of fixed and learned couplings, with the optimum"),
        heading("All numbers"),
        *comparison._grids(),
        *causes._grids(),
        paragraph(" ".join(comparison.notes), note=True),
    ]
    written.append(write_page(folder / "report.html", example.title, elements))
    return Demo(example, comparison, causes, evaluation, findings, tuple(written))


def _bundled(name: str) -> bytes:
    return files("countermax").joinpath("data", name).read_bytes()


def _short_tables(comparison: Comparison) -> list[Table]:
    """What is asked about the person, by few couplings."""
    asked = (each for each in comparison.rows if each.about == "this person" and each.coupling in _SHOWN)
    return tables_of([each for each in asked if each.quantity not in ("worse", "same")])


def _variances(comparison: Comparison) -> "plotting.Figure":
    rows, level = {name: comparison.row("effect variance", name) for name in comparison.joints}, comparison.level or 0.0
    return plotting.draw_variances(
        {name: float(each.value or 0.0) for name, each in rows.items()},
        "The coupling decides the variance",
        f"variance of the effect: score under {comparison.worlds[1]} minus score under {comparison.worlds[0]}",
        intervals={name: Interval(each.ci_lower, each.ci_upper, level) for name, each in rows.items()},
    )


def _learn(example: Example, comparison: Comparison) -> Evaluation:
    """Two scores at once, so that no order is optimal: trains a small gadget on trials like this one."""
    score, cost = (np.array([each[label] for label in comparison.labels]) for each in (example.score, example.cost))
    scores = np.stack([score, cost], axis=1)
    scores = (scores - scores.mean(axis=0)) / scores.std(axis=0)
    pairs = PerturbedPair(np.log(comparison.p), np.log(comparison.q), 0.5)
    gadget = Gadget2(len(score), 16, key=jax.random.key(0), hidden=(32, 32), rounds=10)
    training = Training(steps=200, batch_size=16, num_held_out=32)
    learned = fit(gadget, pairs, SquaredDifference(scores), training, key=jax.random.key(1))
    couplings: dict[str, Any] = {
        **named_couplings(("gumbel-max", "inverse-cdf-by-score"), score=score),
        "inverse CDF by cost": InverseCDF.sorted_by(cost),
        LEARNED: learned.coupling,
    }
    return evaluate(couplings, pairs, SquaredDifference(scores), key=jax.random.key(2), num_pairs=100)


def _learned_finding(evaluation: Evaluation) -> str:
    loss = {name: float(each.mean()) for name, each in evaluation.losses.items()}
    fixed = min(loss[name] for name in loss if name != LEARNED)
    return (
        "With two scores at once, quality of life and cost, no order of the outcomes is optimal, and a coupling can "
        f"be learned: over trials like this one its loss is {number(loss[LEARNED])}, against {number(fixed)} for "
        f"the best fixed one and {number(loss['Gumbel-max'])} for Gumbel-max; no coupling has less than "
        f"{number(evaluation.optimum.mean())}. These trials are taken as known, so their losses have no intervals."
    )


def _findings(example: Example, comparison: Comparison) -> tuple[str, ...]:
    best = example.best

    def said(quantity: str, coupling: str, digits: int = 2) -> str:
        return _with_interval(comparison.row(quantity, coupling), digits)

    level = confidence(comparison.level or 0.0)
    stays = comparison.row(f"P({example.seen})", "any coupling")
    spared, surely = 1 - (stays.upper or 0.0), 1 - (stays.ci_upper or 0.0)
    whole, variance = comparison.row(f"P({best})", "any coupling"), "effect variance"
    better = comparison.row("better", "any coupling", "everybody")
    return (
        f"Would the outcome have been {best!r}? Gumbel-max says: with probability {said(f'P({best})', 'Gumbel-max')}, "
        f"inverse CDF in the order of the score {said(f'P({best})', _BY_SCORE)}.",
        f"In parentheses: {level} confidence intervals. More patients would make them shorter and would not tell which "
        "coupling is true: all of them fit the trial perfectly. Over all couplings the probability is "
        f"{span(whole.lower, whole.upper, 2)}. What no coupling can deny: with probability {spared:.2f} at least, the "
        f"outcome would not have been {example.seen!r}; with {level} confidence, {surely:.2f} at least.",
        f"The mean effect is the same under all of them; its variance is not: {said(variance, 'Gumbel-max', 3)} under "
        f"Gumbel-max; {said(variance, _BY_SCORE, 3)} under inverse CDF in the order of the score, and no coupling has "
        "less.",
        f"Of two different patients, the one on {example.treated} does better than the one on {example.control} with "
        f"probability {_with_interval(comparison.row('win probability'), 2)}, ties counted half: the win probability "
        "of Mann and Whitney, which the trial shows. How many patients would themselves have done better, it does not "
        f"show: {_with_interval(better, 2)} over all couplings.",
    )


def _with_interval(row: Row, digits: int) -> str:
    """A number, or the range over couplings, with its confidence interval."""
    text = number(row.value, digits) if row.lower is None else span(row.lower, row.upper, digits)
    return text if row.ci_lower is None else f"{text} ({span(row.ci_lower, row.ci_upper, digits)})"
