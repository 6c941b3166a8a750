"""The plan and the page: for each truth and size, how often intervals hold it."""

from collections.abc import Iterable, Mapping
from typing import Any, final

import numpy as np

from countermax._core.sheet import Sheet, Value
from studies.coverage._refitted import NUM_REFITS, NUM_ROWS, STUDIES, refit_coverage
from studies.coverage._trials import COUPLINGS, LEVEL, TRUTHS, coverage
from studies.engine import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset

SIZES = (50, 400)
_NUM_TRIALS = {"quick": 20, "published": 2000, "best": 2000}
_KINDS = {"answers": "", "any coupling": "any coupling", "stable couplings": "any stable coupling"}
_ENOUGH = 0.93
_NUM_REFIT_TRIALS = {"quick": 4, "published": 500, "best": 500}
_COST_OF_REFITS = 20.0  # of a trial with refits, beside an outcome of a trial with two arms
_REFIT_KINDS = {
    "mean effect": "mean effect",
    "variance": "variance",
    "any coupling: variance": "variance, any coupling",
    "share": "transition shares",
    "any coupling: share": "transition shares, any coupling",
    "answer": "answers",
    "any coupling: answer": "answers, any coupling",
    "stable couplings: answer": "answers, stable couplings",
}


@final
class Coverage(AbstractExperiment):
    """Two arms, drawn again and again from a known truth."""

    name = "coverage"
    title = "Do the intervals hold the truth?"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """One for each truth and size of the arms, and for each truth of a table; `seeds` counts the trials."""
        number = _NUM_TRIALS[checked_preset(preset)] if seeds is None else seeds
        return [*self._of_arms(number), *self._of_tables(_NUM_REFIT_TRIALS[preset] if seeds is None else seeds)]

    def _of_arms(self, number: int) -> list[Cell]:
        found = []
        for name, truth in TRUTHS.items():
            trials = min(number, truth.num_trials)
            for size in SIZES:
                settings = {
                    **truth._asdict(),
                    "size": size,
                    "num_trials": trials,
                    "level": LEVEL,
                    "couplings": COUPLINGS,
                }
                found.append(Cell(self.name, f"{name}, {size} an arm", settings, cost=float(len(truth.p) * trials)))
        return found

    def _of_tables(self, number: int) -> list[Cell]:
        return [
            Cell(
                self.name,
                study,
                {"effect": effect, "rows": NUM_ROWS, "refits": NUM_REFITS, "num_trials": number, "level": LEVEL},
                cost=_COST_OF_REFITS * number,
            )
            for study, effect in STUDIES.items()
        ]

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Coverage and width of every number."""
        if context.train_only:
            return None
        if cell.name in STUDIES:
            return refit_coverage(cell.settings["effect"], cell.settings["num_trials"], 0, context.advance)
        truth = TRUTHS[cell.name.rsplit(", ", 1)[0]]
        return coverage(truth, cell.settings["size"], cell.settings["num_trials"], 0, context.advance)

    def section(self, stored: Mapping[str, Result]) -> Section:
        """The least coverage and the mean width, beside the percentile bootstrap's."""
        arms = {name: result for name, result in stored.items() if name not in STUDIES}
        tables = {name: result for name, result in stored.items() if name in STUDIES}
        sheets = {
            "coverage": _sheet("How often 95 % intervals hold the truth: the least over all numbers", arms, _least),
            "coverage_widths": _sheet(
                "Mean width, divided by that of percentile intervals where those hold the truth as often",
                arms,
                _ratio,
            ),
            **({"coverage_refit": _refit_sheet(tables)} if tables else {}),
        }
        words = [
            "Two arms are drawn from a known truth; every number that a comparison prints has an interval, every range "
            "over couplings one that must hold all of it. Samples in which nobody had the outcome in question do not "
            "count. In parentheses: percentile bootstrap of the same numbers, on the same samples.",
            "People with a covariate and a treatment are drawn from a known logistic truth; a logistic regression is "
            "fitted to them, and fitted again on others of them (`refit=True`). In parentheses: percentiles "
            "of refits. Beside it: intervals that take the classifier as known.",
        ]
        return Section(self.title, words, sheets)


def _sheet(title: str, stored: Mapping[str, Result], entry: Any) -> Sheet:
    lines: list[list[Value]] = [
        [name, *(entry(result, list(_of_kind(result["inverted"], kind))) for kind in _KINDS.values())]
        for name, result in stored.items()
    ]
    return Sheet(title, ("truth and size", *_KINDS), ("",) * (1 + len(_KINDS)), lines)


def _refit_sheet(stored: Mapping[str, Result]) -> Sheet:
    """One line for each kind of number: the least coverage, and the mean width."""
    lines: list[list[Value]] = []
    for study, result in stored.items():
        for kind, words in _REFIT_KINDS.items():
            names = [name for name in result["refitted"] if name == kind or name.startswith(f"{kind} ")]
            known = [result["classifier as known"][name]["coverage"] for name in names if _is_known(result, name)]
            lines.append(
                [
                    study,
                    words,
                    _least(result, names, "refitted"),
                    _ratio(result, names, "refitted"),
                    f"{min(known):.1%}" if known else "none",
                ]
            )
    headers = ("truth", "numbers", "refitted", "width", "classifier as known")
    title = "How often 95 % intervals hold the truth where a classifier is fitted: the least over numbers"
    return Sheet(title, headers, ("",) * len(headers), lines)


def _is_known(result: Result, name: str) -> bool:
    """Whether a number has an interval without refits."""
    return name in result["classifier as known"]


def _of_kind(numbers: Iterable[str], kind: str) -> Iterable[str]:
    """The numbers of a family of couplings, or those of single ones."""
    families = tuple(f"{family}:" for family in _KINDS.values() if family)
    return (name for name in numbers if (name.startswith(f"{kind}:") if kind else not name.startswith(families)))


def _least(result: Result, names: list[str], method: str = "inverted") -> str:
    ours, theirs = (min(result[each][name]["coverage"] for name in names) for each in (method, "percentile"))
    return f"{ours:.1%} ({theirs:.1%})"


def _ratio(result: Result, names: list[str], method: str = "inverted") -> str:
    """Of mean widths over numbers of a kind: those whose percentile intervals cover and have a width."""
    covered = [
        name
        for name in names
        if result["percentile"][name]["coverage"] >= _ENOUGH and result["percentile"][name]["width"] > 0
    ]
    if not covered:
        return "never"
    ours, theirs = (np.mean([result[each][name]["width"] for name in covered]) for each in (method, "percentile"))
    return f"{ours / theirs:.2f} ({len(covered)} of {len(names)} numbers)"
