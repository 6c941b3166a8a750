"""The plan and the page: for each overlap and size of the log, how often intervals hold the truth."""

from collections.abc import Mapping
from typing import final

from countermax._core.sheet import Sheet, Value
from studies.engine import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset
from studies.policies._trials import HORIZON, LEVEL, NUM_RESAMPLES, OVERLAPS, interval_coverage

_SIZES = (200, 400)
_COUPLINGS = {("good overlap", 200): ("gumbel-max",)}
"""Where counterfactual estimates are measured too: each takes far longer than all others together."""

_NUM_TRIALS = {"quick": 10, "published": 400, "best": 400}
_NUM_NEW_TRIALS = {"quick": 10, "published": 400, "best": 1000}
_NEW = ", new logs"
_NEW_SEED = 1
_ENOUGH = 0.93
_COST_OF_REPLAYS = 4.0


@final
class Policies(AbstractExperiment):
    """A process that is known, logged again and again, and another policy."""

    name = "policies"
    title = "Do the intervals of a policy's value hold the truth?"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """For each overlap and size, logs on which the rule was chosen; then new ones; `seeds` counts logs."""
        checked_preset(preset)
        return [
            Cell(
                self.name,
                f"{overlap}, {size} episodes{_NEW if new else ''}",
                {
                    **OVERLAPS[overlap]._asdict(),
                    "size": size,
                    "couplings": couplings,
                    "horizon": HORIZON,
                    "num_trials": number,
                    "num_resamples": NUM_RESAMPLES,
                    "level": LEVEL,
                    **({"seed": _NEW_SEED} if new else {}),
                },
                cost=number * (_COST_OF_REPLAYS if couplings else 1.0),
            )
            for new in (False, True)
            for number in [seeds or (_NUM_NEW_TRIALS if new else _NUM_TRIALS)[preset]]
            for overlap in OVERLAPS
            for size in _SIZES
            for couplings in [_COUPLINGS.get((overlap, size), ())]
        ]

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Coverage, mean width and bias of every estimate."""
        if context.train_only:
            return None
        settings, overlap = cell.settings, OVERLAPS[cell.name.split(", ")[0]]
        return interval_coverage(
            overlap,
            settings["size"],
            tuple(settings["couplings"]),
            settings["num_trials"],
            settings.get("seed", 0),
            context.advance,
        )

    def section(self, stored: Mapping[str, Result]) -> Section:
        """Coverage of every estimate, its mean width in parentheses; on new logs, and where the rule was chosen."""
        new = {name.removesuffix(_NEW): found for name, found in stored.items() if name.endswith(_NEW)}
        chosen = {name: found for name, found in stored.items() if not name.endswith(_NEW)}
        named = {
            "policies": ("How often 95 % intervals hold the truth, on new logs; in parentheses their mean width", new),
            "policies_chosen": ("The same on the logs on which the kind of interval was chosen", chosen),
        }
        words = [
            "Logs are drawn from a process of four states that is known, over five steps, and another policy is "
            "evaluated by `evaluate_policy` with its default number of resamples; model and behaviour are estimated "
            f"from each log. A star marks estimates that hold the truth in fewer than {_ENOUGH:.0%} of the logs. The "
            "kind of interval was chosen on other logs than those of the first sheet.",
        ]
        return Section(self.title, words, {name: _sheet(*each) for name, each in named.items() if each[1]})


def _sheet(title: str, stored: Mapping[str, Result]) -> Sheet:
    ordered = sorted(stored)
    names = dict.fromkeys(name for each in ordered for name in stored[each]["estimates"])
    lines: list[list[Value]] = [[name, *(_entry(stored[each], name) for each in ordered)] for name in names]
    lines.append(["effective sample size, mean", *(f"{stored[e]['effective_sample_size']:.0f}" for e in ordered)])
    lines.append(["logs with a warning about it", *(f"{stored[each]['warned']:.0%}" for each in ordered)])
    return Sheet(title, ("estimate", *ordered), ("",) * (1 + len(ordered)), lines)


def _entry(result: Result, name: str) -> str:
    found = result["estimates"].get(name)
    if found is None:
        return ""
    width = "" if found["width"] is None else f" ({found['width']:.2f})"
    return f"{found['coverage']:.1%}{'' if found['coverage'] >= _ENOUGH else ' *'}{width}"
