"""Logs of a process that is known, and how often the intervals of `evaluate_policy` hold the truth."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from countermax.mdp import FiniteMDP, evaluate_policy, policy_value, simulate
from studies.engine import Result

HORIZON = 5
NUM_RESAMPLES = 100
"""The default of `evaluate_policy`."""
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
    """How often each estimate's interval holds the truth, how long it is on average, and what the warnings say.

    The observed return is held against the behaviour policy's value, everything else against the target policy's. A
    value or an interval that is refused counts as one that does not hold it.

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
        draw, resample = jax.random.split(jax.random.fold_in(jax.random.key(seed), place))
        log = simulate(process, behaviour, num_episodes=size, horizon=HORIZON, key=draw)
        found = evaluate_policy(
            log,
            target,
            couplings=couplings,
            absorbing=[_HOME],
            horizon=HORIZON,
            num_resamples=num_resamples,
            level=LEVEL,
            key=resample,
            progress=False,
        )
        sizes.append(found.effective_sample_size)
        warned += any("not to be trusted" in each for each in found.warnings)
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
