"""Coverage of the intervals of a policy's value: a process that is known, logged hundreds of times."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, final

import jax
import numpy as np

from countermax._core.page import Sheet, Value
from countermax.mdp import Cohort, FiniteMDP, policy_value, simulate
from studies.experiments import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset

HORIZON = 5
NUM_RESAMPLES = 100
"""The default of `Cohort.evaluate`."""
LEVEL = 0.95

# ill, worse, better, home; wait and treat
_ROWS = (
    ((0.50, 0.30, 0.10, 0.10), (0.30, 0.10, 0.40, 0.20)),
    ((0.20, 0.70, 0.00, 0.10), (0.40, 0.40, 0.10, 0.10)),
    ((0.20, 0.05, 0.35, 0.40), (0.30, 0.10, 0.40, 0.20)),
    ((0.00, 0.00, 0.00, 1.00), (0.00, 0.00, 0.00, 1.00)),
)
_REWARDS = (0.0, -1.0, 0.5, 1.0)  # of the state that is reached
_START = (0.5, 0.3, 0.2, 0.0)
_HOME = 3


class Overlap(NamedTuple):
    """How often patients are treated when ill, worse and better: as logged, and by the policy in question."""

    behaviour: tuple[float, float, float]
    target: tuple[float, float, float]


OVERLAPS: dict[str, Overlap] = {
    "good overlap": Overlap((0.4, 0.5, 0.6), (0.7, 0.75, 0.4)),
    "poor overlap": Overlap((0.1, 0.1, 0.1), (0.9, 0.95, 0.9)),
}


def interval_coverage(
    overlap: Overlap,
    size: int,
    couplings: tuple[str, ...],
    num_trials: int,
    seed: int,
    advance: Callable[[float], None] = lambda _: None,
    *,
    num_resamples: int = NUM_RESAMPLES,
) -> Result:
    """Coverage and mean width of each estimate's interval, bias of the estimate, and what the warnings say.

    The observed return is compared with the behaviour policy's value, everything else with the target policy's. A
    value or an interval that is refused counts as one that does not cover it.

    Args:
        overlap: Treatment rates of the behaviour policy and of the target policy.
        size: Number of episodes in each log.
        couplings: Couplings of the counterfactual estimates.
        num_trials: Number of logs.
        seed: Seed of the logs.
        advance: Function that is told which fraction is done.
        num_resamples: Number of resamples for the intervals.
    """
    process = FiniteMDP.from_dense(_ROWS, _REWARDS, start=_START, absorbing=[_HOME])
    behaviour, target = (_policy(each) for each in overlap)
    truth, logged = (policy_value(process, each, horizon=HORIZON) for each in (target, behaviour))
    held: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}
    errors: dict[str, list[float]] = {}
    sizes, warned = [], 0
    for place in range(num_trials):
        draw = jax.random.fold_in(jax.random.key(seed), place)
        log = simulate(process, behaviour, num_episodes=size, horizon=HORIZON, key=draw)
        found = Cohort(log, target, absorbing=[_HOME], horizon=HORIZON).evaluate(
            couplings, num_resamples=num_resamples, level=LEVEL, seed=place
        )
        sizes.append(found.effective_sample_size)
        warned += any("not to be trusted" in each for each in found.notes)
        for each in found.estimates:
            right = logged if each.kind == "observed" else truth
            holds = each.interval is not None and each.interval.lower <= right <= each.interval.upper
            held.setdefault(each.name, []).append(holds)
            if each.value is not None and each.interval is not None:
                widths.setdefault(each.name, []).append(each.interval.width)
                errors.setdefault(each.name, []).append(each.value - right)
        advance((place + 1) / num_trials)
    return {
        "truth": truth,
        "observed": logged,
        "effective_sample_size": float(np.mean(sizes)),
        "warned": warned / num_trials,
        "estimates": {
            name: {
                "coverage": float(np.mean(held[name])),
                "width": float(np.mean(widths[name])) if name in widths else None,
                "bias": float(np.mean(errors[name])) if name in errors else None,
            }
            for name in held
        },
    }


def _policy(treated: tuple[float, float, float]) -> np.ndarray:
    shares = np.array([*treated, 0.5])
    return np.stack([1 - shares, shares], axis=1)


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
    title = "Coverage of the intervals of a policy's value"

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
            "policies": ("Coverage of 95 % intervals on new logs; in parentheses their mean width", new),
            "policies_chosen": ("The same on the logs on which the kind of interval was chosen", chosen),
        }
        words = [
            "Logs are drawn from a process of four states that is known, over five steps, and another policy is "
            "evaluated by `Cohort.evaluate` with its default number of resamples; model and behaviour are estimated "
            f"from each log. A star marks intervals that cover the truth in fewer than {_ENOUGH:.0%} of the logs. The "
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
