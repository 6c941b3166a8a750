"""What a policy would be worth, from the log of another one: every estimate that people know, side by side."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from rich.console import Group
from rich.text import Text

from countermax import plotting
from countermax._core.console import add_line, listing
from countermax._core.extras import import_pandas
from countermax._core.memory import check_memory
from countermax._core.progress import ProgressBar
from countermax._core.results import AbstractResult, plain
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling
from countermax.intervals import Interval, check_level, percentile_interval
from countermax.mdp._arrays import Floats, Ints, Values, as_whole, check_sizes
from countermax.mdp._couplings import Couplings, chosen_couplings
from countermax.mdp._process import FiniteMDP, as_discount
from countermax.mdp.estimation import estimate, estimate_policy
from countermax.mdp.evaluation._doubts import doubts
from countermax.mdp.evaluation.importance import (
    doubly_robust,
    effective_sample_size,
    importance_estimates,
    importance_ratios,
)
from countermax.mdp.log import EpisodeLog, steps_of
from countermax.mdp.planning import policy_values
from countermax.mdp.policies import policy_rows, restricted
from countermax.mdp.replays import replay, trajectory_bounds

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Model: TypeAlias = FiniteMDP | Callable[[EpisodeLog], FiniteMDP]

_ANY_COUPLING = "any coupling"
_STRAY = (
    "{} lies outside the range over couplings: this coupling changes what happened even at steps that the policy "
    "leaves as they were"
)
_NOTE = "The range over couplings takes the model as given: how well it was estimated is left out."


class Estimate(NamedTuple):
    """One estimate of the target policy's value."""

    name: str
    kind: str
    """`observed`, `importance sampling`, `model` or `counterfactual`."""
    value: float | None
    """None where the log has no episode that the estimate could rest on."""
    interval: Interval | None
    """From resampled episodes; None where there are no resamples, or none that has a value."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class PolicyEvaluation(AbstractResult):
    """All estimates, what they rest on, and what to be careful about."""

    estimates: tuple[Estimate, ...]
    bounds: Bounds
    """The counterfactual mean over these patients, whatever the coupling, if the model is right."""
    effective_sample_size: float
    """How many equally weighted episodes importance sampling rests on."""
    num_episodes: int
    num_resamples: int
    level: float
    horizon: int
    discount: float
    warnings: tuple[str, ...]

    def __getitem__(self, name: str) -> Estimate:
        """An estimate by its name."""
        for each in self.estimates:
            if each.name == name:
                return each
        raise KeyError(f"no estimate is called {name!r}; there are {', '.join(each.name for each in self.estimates)}")

    def to_frame(self) -> "pd.DataFrame":
        """One row for each estimate, and one for what any coupling could say: bounds in place of a value."""
        missing, intervals = float("nan"), [each.interval for each in self.estimates]
        none = [missing] * len(self.estimates)
        columns = {
            "kind": [*(each.kind for each in self.estimates), "counterfactual"],
            "value": [*(missing if each.value is None else each.value for each in self.estimates), missing],
            "value_ci_lower": [*(missing if each is None else each.lower for each in intervals), missing],
            "value_ci_upper": [*(missing if each is None else each.upper for each in intervals), missing],
            "value_lower": [*none, self.bounds.lower],
            "value_upper": [*none, self.bounds.upper],
        }
        pandas = import_pandas()
        index = pandas.Index([*(each.name for each in self.estimates), _ANY_COUPLING], name="estimate")
        return pandas.DataFrame(columns, index=index)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words; what cannot be estimated is None."""
        return plain(vars(self))

    def plot(self, *, truth: float | None = None) -> "Figure":
        """Dots with intervals, one line for each estimate.

        Args:
            truth: The value to be estimated, drawn as a line where it is known.
        """
        return plotting.draw_estimates(
            [
                (each.name, each.kind, each.value, *((None, None) if each.interval is None else each.interval[:2]))
                for each in self.estimates
                if each.value is not None
            ],
            bounds=self.bounds,
            truth=truth,
            title=f"The target policy's value, from {self.num_episodes} episodes",
            label=f"mean return over {self.horizon} steps",
        )

    def __rich__(self) -> Group:
        title = f"{self.num_episodes} episodes, horizon {self.horizon}, discount {self.discount:g}"
        shown = listing(title, ["estimate", "value", f"{self.level:.0%} interval"])
        for place, each in enumerate(self.estimates):
            interval = "" if each.interval is None else f"{each.interval.lower:z.4f} to {each.interval.upper:z.4f}"
            last = place == len(self.estimates) - 1
            add_line(shown, [each.name, "none" if each.value is None else f"{each.value:z.4f}", interval], last=last)
        add_line(shown, [_ANY_COUPLING, f"{self.bounds.lower:z.4f} to {self.bounds.upper:z.4f}", ""])
        size = f"effective sample size of importance sampling: {self.effective_sample_size:.1f}"
        return Group(
            shown, Text(size), Text(_NOTE), *(Text(f"careful: {each}", style="yellow") for each in self.warnings)
        )


def evaluate_policy(
    log: EpisodeLog,
    target: Values,
    *,
    couplings: Couplings | None = None,
    model: Model = estimate,
    behaviour: Values | None = None,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    num_resamples: int = 100,
    level: float = 0.95,
    key: PRNGKeyArray,
    progress: bool | None = None,
) -> PolicyEvaluation:
    """Estimates what a policy is worth from the log of another one, in every common way.

    Intervals come from resampling episodes. Everything that is learned from the log, the model and the behaviour
    policy, is learned again from each resample; the target policy stays as it is.

    Args:
        log: What was done and what came of it.
        target: [state, action]: the policy to be evaluated.
        couplings: Couplings for the counterfactual estimates, by name; by default Gumbel-max and inverse CDF.
        model: How a process is learned from a log; or a process that is known and stays as it is.
        behaviour: [state, action]: what the log was made with, if known; by default frequencies.
        outcomes: What each state is called as an outcome; see `replay`.
        horizon: How many steps an episode can have; by default as many as the longest has. What episodes did later
            counts for the model and the behaviour policy only.
        discount: Factor by which a reward is worth less one step later, in every estimate; by default the model's own.
            1 for the plain return.
        num_resamples: Number of resamples for the intervals; 0 for none.
        level: The share of resamples within an interval.
        key: Consumed once; draws the resamples.
        progress: Whether to show a progress bar; by default if the output is a terminal.
    """
    as_whole("num_resamples", num_resamples, least=0)
    check_level(level)
    task = _Task(
        log=log,
        target=policy_rows(log, target, argument="target"),
        couplings=chosen_couplings(couplings, none=True),
        model=model,
        behaviour=behaviour,
        outcomes=outcomes,
        horizon=steps_of(log, horizon),
        discount=discount,
    )
    _check_sizes(task, num_resamples)
    seed = np.asarray(jax.random.bits(key, (4,)))
    with ProgressBar("evaluating", num_resamples + 1, progress, unit="resamples") as bar:
        point, process, ratios = _estimates(task, np.arange(len(log)))
        bar.advance(1)
        drawn = []
        for resample in range(num_resamples):
            chosen = np.random.default_rng([*seed, resample]).integers(0, len(log), len(log))
            drawn.append(_estimates(task, chosen)[0])
            bar.advance(1)
    within, _ = restricted(process, task.target)
    each = trajectory_bounds(process, log, within, horizon=task.horizon, discount=discount, progress=False)
    bounds = Bounds(float(each.lower.mean()), float(each.upper.mean()))
    strays = [name for (kind, name), value in point.items() if kind == "counterfactual" and _outside(value, bounds)]
    return PolicyEvaluation(
        estimates=tuple(
            Estimate(name, kind, value, _interval([each[kind, name] for each in drawn], level))
            for (kind, name), value in point.items()
        ),
        bounds=bounds,
        effective_sample_size=effective_sample_size(ratios),
        num_episodes=len(log),
        num_resamples=num_resamples,
        level=level,
        horizon=task.horizon,
        discount=as_discount(process, discount),
        warnings=(*doubts(log, process, task.target, ratios, task.horizon), *map(_STRAY.format, strays)),
    )


def _outside(value: float | None, bounds: Bounds) -> bool:
    room = 1e-9 * max(1.0, abs(bounds.lower), abs(bounds.upper))
    return value is not None and not bounds.lower - room <= value <= bounds.upper + room


def _check_sizes(task: "_Task", num_resamples: int) -> None:
    """What grows with numbers that were asked for."""
    log = task.log
    check_sizes(log.num_states, log.num_actions)
    check_memory(
        f"{task.horizon} steps of {log.num_states} states and {log.num_actions} actions",
        16 * task.horizon * log.num_states * (log.num_actions + 1),
        "lower `horizon`",
    )
    count = 6 + len(task.couplings)
    check_memory(
        f"{num_resamples} resamples of {count} estimates", 150 * count * num_resamples, "lower `num_resamples`"
    )


class _Task(NamedTuple):
    log: EpisodeLog
    target: Floats
    couplings: dict[str, AbstractCoupling]
    model: Model
    behaviour: Values | None
    outcomes: Values | None
    horizon: int
    discount: float | None


def _estimates(task: _Task, chosen: Ints) -> tuple[dict[tuple[str, str], float | None], FiniteMDP, Floats]:
    """Every estimate from some of the episodes, repeats allowed."""
    log = task.log.select(chosen)
    process = task.model if isinstance(task.model, FiniteMDP) else task.model(log)
    horizon, discount = task.horizon, as_discount(process, task.discount)
    behaviour = estimate_policy(log) if task.behaviour is None else task.behaviour
    target, _ = restricted(process, task.target)
    ratios = importance_ratios(log, task.target, behaviour)
    sampled = importance_estimates(log, ratios, discount=discount, horizon=horizon)
    planned = policy_values(process, target, horizon=horizon, discount=discount)[log.states[:, 0]].mean()
    robust = doubly_robust(process, log, target, ratios, horizon=horizon, discount=discount)
    found: dict[tuple[str, str], float | None] = {
        ("observed", "observed return"): float(log.returns(discount, horizon=horizon).mean()),
        ("importance sampling", "ordinary importance sampling"): sampled.ordinary,
        ("importance sampling", "per-decision importance sampling"): sampled.per_decision,
        ("importance sampling", "weighted importance sampling"): sampled.weighted,
        ("importance sampling", "doubly robust"): robust,
        ("model", "model-based"): float(planned),
    }
    distinct, times = np.unique(chosen, return_counts=True)  # an episode drawn twice is replayed once
    once = task.log.select(distinct)
    for name, coupling in task.couplings.items():
        replayed = replay(
            process, once, target, coupling, outcomes=task.outcomes, horizon=horizon, discount=discount, progress=False
        )
        found["counterfactual", f"counterfactual, {name}"] = float(replayed.values @ times / times.sum())
    return found, process, ratios[:, :horizon]


def _interval(resampled: list[float | None], level: float) -> Interval | None:
    """The interval of the resamples in which the estimate has a value."""
    found = percentile_interval(np.array([each for each in resampled if each is not None]), level)
    return None if found is None else Interval(float(found.lower), float(found.upper), level)
