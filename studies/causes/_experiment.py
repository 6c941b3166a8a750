"""The plan and the page: for each truth, how often intervals hold it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from countermax._core.sheet import Sheet, Value
from studies.causes._rows import known_rows, sampled_rows
from studies.causes._samples import KINDS, Spans, known_causes, sampled_causes, spans_of
from studies.causes._truths import LEVEL, ROWS, TRUTHS, CausalTruth, RowTruth
from studies.engine import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset

_MOST_SAMPLES = {"quick": 10, "published": 500, "best": 10_000}
_SECONDS = 35.0  # that a cell takes at most, roughly, so that little is lost where it is stopped
_BLOCKS = (500, 250, 100, 50)  # samples in a cell
_UNTOLD = ("cost", "samples", "seed")
_ROUNDING = 1e-8
_SAMPLES = ", samples "


@final
class CausalCoverage(AbstractExperiment):
    """Data drawn again and again from a known truth."""

    name = "causation"
    title = "Do intervals of probabilities of causation hold the truth?"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """Some for each truth, each with a block of its samples; `seeds` counts the samples of a truth."""
        found = []
        truths: dict[str, CausalTruth | RowTruth] = {**TRUTHS, **ROWS}
        for name, truth in truths.items():
            number = min(truth.samples, _MOST_SAMPLES[checked_preset(preset)]) if seeds is None else seeds
            block = next((each for each in _BLOCKS if each * truth.cost <= _SECONDS), _BLOCKS[-1])
            about = {key: value for key, value in truth._asdict().items() if key not in _UNTOLD}
            for start in range(0, number, block):
                end = min(start + block, number)
                settings = {**about, "first": start, "num_trials": end - start, "level": LEVEL, "seed": truth.seed}
                label = f"{name}{_SAMPLES}{start + 1} to {end}"
                found.append(Cell(self.name, label, settings, cost=truth.cost * (end - start)))
        return sorted(found, key=lambda cell: (cell.settings["first"], cell.cost))  # a little of every truth first

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """How often each number is held, and how wide its interval is."""
        if context.train_only:
            return None
        name = cell.name.rsplit(_SAMPLES, 1)[0]
        truth = ROWS[name] if name in ROWS else TRUTHS[name]
        places = range(cell.settings["first"], cell.settings["first"] + cell.settings["num_trials"])
        return causal_coverage(truth, places, cell.settings["seed"], context.advance)

    def section(self, stored: Mapping[str, Result]) -> Section:
        """The least coverage over all numbers of a kind, and their mean width."""
        by_truth: dict[str, list[Result]] = {}
        for name, result in stored.items():
            by_truth.setdefault(name.rsplit(_SAMPLES, 1)[0], []).append(result)
        lines: list[list[Value]] = []
        for name in [each for each in (*TRUTHS, *ROWS) if each in by_truth]:
            pooled = _pooled(by_truth[name])
            line: list[Value] = [name, str(max(each["trials"] for each in pooled.values()))]
            for kind in KINDS:
                found = [each for number, each in pooled.items() if number.startswith(f"{kind}: ")]
                least = min((each["held"] / each["trials"] for each in found), default=None)
                width = np.mean([each["width"] / each["trials"] for each in found]) if found else 0.0
                line.append("none" if least is None else f"{least:.1%} ({width:.2f})")
            lines.append(line)
        headers = ("truth", "samples", *KINDS)
        title = "How often 95 % intervals hold the whole range: the least over all numbers (mean width)"
        words = [
            "PN, PS, PNS, disablement, enablement, benefit, harm and tie of data that are drawn from a known truth; an "
            "interval holds if it holds the whole true range, or what one coupling says about the truth."
        ]
        return Section(self.title, words, {"causation": Sheet(title, headers, ("",) * len(headers), lines)})


def causal_coverage(
    truth: CausalTruth | RowTruth, places: Sequence[int], seed: int, advance: Callable[[float], None] = lambda _: None
) -> Result:
    """In how many samples each interval holds the true range, and the sum of the widths.

    Args:
        truth: Truth that data are drawn from.
        places: Numbers of the samples, each of which has a stream of its own.
        seed: Seed of the samples.
        advance: Function that is told which fraction is done.
    """
    found: Result = {}
    true = spans_of(known_rows(truth) if isinstance(truth, RowTruth) else known_causes(truth), "truth")
    for count, place in enumerate(places):
        stream = np.random.default_rng([seed, place])
        if isinstance(truth, RowTruth):
            sample = sampled_rows(truth, stream, place)
        else:
            sample = sampled_causes(truth, stream, place)
        _count(found, true, spans_of(sample, "intervals"))
        advance((count + 1) / len(places))
    return found


def _count(found: Result, true: Spans, intervals: Spans) -> None:
    """Adds a sample."""
    for name, (least, largest) in true.items():
        lower, upper = intervals[name]
        entry: dict[str, Any] = found.setdefault(name, {"held": 0, "trials": 0, "width": 0.0})
        entry["held"] += int(lower - _ROUNDING <= least and largest <= upper + _ROUNDING)
        entry["trials"] += 1
        entry["width"] += upper - lower


def _pooled(blocks: Sequence[Result]) -> Result:
    """All samples of a truth together."""
    names = dict.fromkeys(name for block in blocks for name in block)
    return {
        name: {key: sum(block[name][key] for block in blocks if name in block) for key in ("held", "trials", "width")}
        for name in names
    }
