"""The plan and the page: for each overlap and size of the log, how often intervals hold the truth."""

from collections.abc import Mapping
from typing import final

from countermax._core.sheet import Sheet, Value
from countermax.experiments.engine import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset
from countermax.experiments.policies._trials import HORIZON, LEVEL, NUM_RESAMPLES, OVERLAPS, interval_coverage

_SIZES = (200, 400)
_COUPLINGS = {("good overlap", 200): ("gumbel-max",)}
"""Where counterfactual estimates are measured too: each takes far longer than all others together."""

_NUM_TRIALS = {"quick": 10, "published": 400, "best": 400}
_ENOUGH = 0.93
_COST_OF_REPLAYS = 4.0


@final
class Policies(AbstractExperiment):
    """A process that is known, logged again and again, and another policy."""

    name = "policies"
    title = "Do the intervals of a policy's value hold the truth?"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """One for each overlap and size of the log; `seeds` counts the logs."""
        number = _NUM_TRIALS[checked_preset(preset)] if seeds is None else seeds
        common = {"horizon": HORIZON, "num_trials": number, "num_resamples": NUM_RESAMPLES, "level": LEVEL}
        return [
            Cell(
                self.name,
                f"{overlap}, {size} episodes",
                {**OVERLAPS[overlap]._asdict(), "size": size, "couplings": couplings, **common},
                cost=number * (_COST_OF_REPLAYS if couplings else 1.0),
            )
            for overlap in OVERLAPS
            for size in _SIZES
            for couplings in [_COUPLINGS.get((overlap, size), ())]
        ]

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Coverage, mean width and bias of every estimate."""
        if context.train_only:
            return None
        settings, overlap = cell.settings, OVERLAPS[cell.name.rsplit(", ", 1)[0]]
        couplings = tuple(settings["couplings"])
        return interval_coverage(overlap, settings["size"], couplings, settings["num_trials"], 0, context.advance)

    def section(self, stored: Mapping[str, Result]) -> Section:
        """Coverage of every estimate, its mean width in parentheses."""
        ordered = sorted(stored)
        names = dict.fromkeys(name for each in ordered for name in stored[each]["estimates"])
        lines: list[list[Value]] = [[name, *(_entry(stored[each], name) for each in ordered)] for name in names]
        lines.append(["effective sample size, mean", *(f"{stored[e]['effective_sample_size']:.0f}" for e in ordered)])
        lines.append(["logs with a warning about it", *(f"{stored[each]['warned']:.0%}" for each in ordered)])
        sheet = Sheet(
            "How often 95 % intervals hold the truth; in parentheses their mean width",
            ("estimate", *ordered),
            ("",) * (1 + len(ordered)),
            lines,
        )
        words = [
            "Logs are drawn from a process of four states that is known, over five steps, and another policy is "
            "evaluated by `evaluate_policy` with its default number of resamples; model and behaviour are estimated "
            f"from each log. A star marks estimates that hold the truth in fewer than {_ENOUGH:.0%} of the logs.",
        ]
        return Section(self.title, words, {"policies": sheet})


def _entry(result: Result, name: str) -> str:
    found = result["estimates"].get(name)
    if found is None:
        return ""
    width = "" if found["width"] is None else f" ({found['width']:.2f})"
    return f"{found['coverage']:.1%}{'' if found['coverage'] >= _ENOUGH else ' *'}{width}"
