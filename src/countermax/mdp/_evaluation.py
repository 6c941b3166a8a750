"""What a policy would be worth, from the log of another one: every common estimate, side by side."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Float

from countermax import _plotting as plotting
from countermax._core.memory import check_memory
from countermax._core.progress import ProgressBar
from countermax._core.results import Row
from countermax._core.words import confidence, number
from countermax._ray import in_prepared_parts
from countermax.couplings import AbstractCoupling
from countermax.intervals import Interval
from countermax.intervals._interval import student_interval
from countermax.mdp import _importance as importance
from countermax.mdp._arrays import Floats, Ints
from countermax.mdp._estimation import estimate_policy, restricted
from countermax.mdp._log import EpisodeLog
from countermax.mdp._measurements import Resampling
from countermax.mdp._posterior import attained
from countermax.mdp._process import FiniteMDP
from countermax.mdp._replays._course import Setting, VaryingRewards
from countermax.mdp._replays._persistent import possible_returns
from countermax.mdp._replays._trajectories import Trajectories
from countermax.mdp._results import AbstractCohortResult, Context, counted, told_interval

Model: TypeAlias = FiniteMDP | Callable[[EpisodeLog], FiniteMDP]

WHOLE = "the target policy"
RESTRICTED = "the target policy among the actions that the model knows"
_NO_WEIGHT = "no episode has a weight of 1e-300 or more: nobody did what the target policy would do"
_COUNTERFACTUAL = "counterfactual"
_ORDINARY = "importance sampling", "ordinary importance sampling"


class Estimate(NamedTuple):
    """One estimate of the policy's value."""

    name: str
    kind: str
    """`observed`, `importance sampling`, `model` (which MAGIC blends with the former) or `counterfactual`."""
    value: float | None
    """None where the log has no episode that the estimate could rest on."""
    interval: Interval | None
    """Bootstrap interval over episodes; None where there are no resamples, or too many without a value."""
    reason: str | None = None
    """Why there is no value, or no interval, in words."""


class LowerLimit(NamedTuple):
    """A lower confidence limit of the policy's value: one-sided, and without resamples."""

    method: str
    """`Student`, or `empirical Bernstein`, which holds in any sample if the behaviour policy is known."""
    value: float
    level: float
    """The probability with which the limit lies below the value."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class PolicyEvaluation(AbstractCohortResult):
    """All estimates of a policy's value, what they rest on, and what to be careful about."""

    context: Context
    estimates: tuple[Estimate, ...]
    target: str
    """Which policy every estimate but the observed return is of, in words."""
    policy: Float[np.ndarray, "s a"]
    """The same as an array [state, action]."""
    effective_sample_size: float
    """How many equally weighted episodes importance sampling rests on."""
    num_censored: int
    """How many episodes stop before the horizon without reaching an end; they count as far as they were seen."""
    num_resamples: int
    level: float
    """The confidence of the intervals."""
    lower_limits: tuple[LowerLimit, ...] = ()
    """Lower confidence limits, by ordinary importance sampling (Thomas, Theocharous and Ghavamzadeh 2015)."""

    @property
    def title(self) -> str:
        return f"The target policy's value, from {counted(self.context.num_episodes, 'episode')} of another policy"

    @property
    def rows(self) -> tuple[Row, ...]:
        about, found = counted(self.context.num_episodes, "episode"), []
        for each in self.estimates:
            coupling = each.name.partition(", ")[2] if each.kind == _COUNTERFACTUAL else ""
            name = _COUNTERFACTUAL if coupling else each.name
            found.append(Row.of(name, about, coupling, each.value, None, each.interval))
        limits = [(f"{confidence(level)} lower limit, {method}", value) for method, value, level in self.lower_limits]
        return (*found, *(Row(name, about, "", value) for name, value in limits))

    def __getitem__(self, name: str) -> Estimate:
        """An estimate by its name."""
        for each in self.estimates:
            if each.name == name:
                return each
        raise KeyError(f"no estimate is called {name!r}; there are {', '.join(each.name for each in self.estimates)}")

    def _summary(self) -> str:
        observed, model, weighted = (
            self[name] for name in ("observed return", "model-based", "weighted importance sampling")
        )
        told = (
            f"{self.context.told_mean(observed.value or 0.0)}; the model says "
            f"{number(model.value)}{told_interval(model.interval)} of {self.target}, whatever the coupling."
        )
        if self._few:  # a warning says so
            return told
        size = number(self.effective_sample_size, 1)
        return (
            f"{told} Weighted importance sampling says {number(weighted.value)}{told_interval(weighted.interval)}, "
            f"from an effective sample size of {size}."
        )

    @property
    def _few(self) -> bool:
        """Whether importance sampling rests on too few episodes."""
        return self.effective_sample_size < importance.FEW_EPISODES

    def _plot(self, *, truth: float | None = None) -> "plotting.Figure":
        """Dots with intervals, one line for each estimate; and a line for the truth, where it is known."""
        return plotting.draw_estimates(
            [
                (each.name, each.kind, each.value, *(each.interval or (None, None))[:2])
                for each in self.estimates
                if each.value is not None
            ],
            truth=truth,
            title=self.title,
            label=f"mean return over {self.horizon} steps" + "\n(importance sampling is not to be trusted)" * self._few,
        )

    def _sentences(self) -> tuple[str, ...]:
        return tuple(f"{each.name}: {each.reason}." for each in self.estimates if each.reason is not None)

    def _details(self) -> Mapping[str, Any]:
        names = ("target", "effective_sample_size", "num_censored", "num_resamples", "level", "estimates")
        return self._fields(*names, "lower_limits") | {"num_episodes": self.context.num_episodes}


class Evaluated(NamedTuple):
    """What is found from a log."""

    estimates: tuple[Estimate, ...]
    ratios: Floats
    """Up to each step."""
    lower_limits: tuple[LowerLimit, ...]
    least: float
    """The least return that the limits allow for."""


class Estimating(NamedTuple):
    """What is estimated from every resample of the episodes."""

    setting: Setting
    """The policy is that of the estimates."""
    couplings: dict[str, AbstractCoupling]
    model: Model
    behaviour: Floats | None
    """What the log was made with, if known; else its frequencies."""
    compared: Ints
    """How many steps of each episode every estimate covers: the same in all resamples."""
    again: Resampling | None = None
    """Episodes drawn again, and the policy in their states, where states are made from measurements."""

    def resampled(self, chosen: Ints) -> Setting:
        """The same question about episodes that were drawn again."""
        if self.again is None:
            return replace(self.setting, log=self.setting.log.select(chosen))
        log, policy = self.again(chosen)
        done = estimate_policy(log)
        return replace(
            self.setting,
            log=log,
            policy=policy,
            usual=done,
            behaviour=None if self.setting.behaviour is None else done,
            varying=None if self.setting.varying is None else VaryingRewards.of_log(log),
        )


def evaluated(
    task: Estimating, process: FiniteMDP, num_resamples: int, asked: float, seed: int, *, spread: bool
) -> Evaluated:
    """Every estimate with its interval from resampled episodes, at the level asked for or as near as they can say.

    `spread` asks resamples on Ray.
    """
    level = attained(asked, num_resamples)
    log, horizon, count = task.setting.log, task.setting.horizon, 10 + len(task.couplings)
    check_memory(
        f"{horizon} steps of {log.num_states} states and {log.num_actions} actions",
        16 * horizon * log.num_states * (log.num_actions + 1),
        "lower `horizon`",
    )
    what = f"{num_resamples} resamples of {count} estimates"
    check_memory(what, 150 * count * num_resamples, "lower `num_resamples`")
    with ProgressBar("evaluating", num_resamples + 1, unit="resamples") as bar:
        point, ratios = _estimates(task, process, np.arange(len(log)), spread=spread)
        if not ratios[:, -1].any():  # the mean of nothing but zeros says nothing
            point[_ORDINARY] = None
        bar.advance(1)
        drawn = []
        resamples = importance.resamples_of(seed, len(log), num_resamples)
        for each in in_prepared_parts(_again, (task,), zip(resamples)) if spread else map(_again(task), resamples):
            drawn.append(each)
            bar.advance(1)
    nothing = np.zeros(process.num_states)
    least, most = possible_returns(process, process.slot_rewards, nothing, horizon, task.setting.discount)
    rewards = log.returns(task.setting.discount, horizon=horizon)
    least, most = min(least, float(rewards.min())), max(most, float(rewards.max()))
    estimates, effective = [], importance.effective_sample_size(ratios)
    for (kind, name), value in point.items():
        size = float(len(log)) if kind == "observed" else effective  # a model too knows little of what was seldom done
        resampled = [each[kind, name] for each in drawn] if level else []
        interval, reason = student_interval(value, resampled, level, size)
        if interval is not None and value is not None and least <= value <= most:
            interval = Interval(max(interval.lower, least), min(interval.upper, most), level)
        estimates.append(Estimate(name, kind, value, interval, _NO_WEIGHT if value is None else reason))
    limits = importance.lower_limits(rewards, ratios[:, -1], least, asked)
    told = tuple(LowerLimit(method, value, asked) for method, value in limits.items())
    return Evaluated(tuple(estimates), ratios, told, least)


_Values: TypeAlias = dict[tuple[str, str], float | None]
"""Estimates by kind and name."""


def _again(task: Estimating) -> Callable[[Ints], _Values]:
    """A function from the episodes of a resample to its estimates."""
    return lambda chosen: _estimates(task, None, chosen)[0]


def _estimates(
    task: Estimating, known: FiniteMDP | None, chosen: Ints, *, spread: bool = False
) -> tuple[_Values, Floats]:
    """Every estimate from some of the episodes, repeats allowed; the model is learned from them unless it is known."""
    setting, steps = task.setting if known is not None else task.resampled(chosen), task.compared[chosen]
    log, horizon, discount = setting.log, setting.horizon, setting.discount
    if known is None:
        known = task.model if isinstance(task.model, FiniteMDP) else task.model(log)
    policy, _ = restricted(known, setting.policy)  # a resample may lack rows
    by_step = importance.step_ratios(log, policy, task.behaviour)
    ratios = importance.accumulated(log, by_step)
    sampled = importance.importance_estimates(log, ratios, discount=discount, horizon=horizon, steps=steps)
    planned = importance.model_values(known, log, policy, steps, horizon, discount=discount)
    corrected = importance.corrected_values(planned, ratios, steps, discount)
    marginalised = importance.marginalised_value(log, by_step, discount, horizon)
    found: _Values = {
        ("observed", "observed return"): float(log.returns(discount, horizon=horizon).mean()),
        _ORDINARY: sampled.ordinary,
        ("importance sampling", "per-decision importance sampling"): sampled.per_decision,
        ("importance sampling", "weighted importance sampling"): sampled.weighted,
        ("importance sampling", "weighted per-decision importance sampling"): sampled.weighted_per_decision,
        ("importance sampling", "marginalised importance sampling"): marginalised,
        ("importance sampling", "doubly robust"): corrected.robust,
        ("importance sampling", "weighted doubly robust"): corrected.weighted,
        ("model", "MAGIC"): corrected.magic,
        ("model", "model-based"): float(planned[0].mean()),
    }
    _, distinct, times = np.unique(chosen, return_index=True, return_counts=True)  # drawn twice, replayed once
    totals = dict.fromkeys(task.couplings, 0.0)
    setting = replace(setting, policy=policy)
    for part, some in _alike(setting, steps, known, distinct, spread=spread) if totals else ():
        for name, coupling in task.couplings.items():
            totals[name] += float(some.values(coupling) @ times[part])
    found |= {(_COUNTERFACTUAL, f"{_COUNTERFACTUAL}, {name}"): each / len(chosen) for name, each in totals.items()}
    return found, ratios[:, :horizon]


def _alike(
    setting: Setting, compared: Ints, process: FiniteMDP, chosen: Ints, *, spread: bool
) -> Iterator[tuple[Ints, Trajectories]]:
    """Some episodes by the number of steps that they are compared over: places among the chosen, and trajectories."""
    steps = compared[chosen]
    for each in np.unique(steps).tolist():
        part = np.flatnonzero(steps == each)
        asked = replace(setting, log=setting.log.select(chosen[part]), horizon=each)
        yield part, Trajectories(process, asked, spread=spread, quiet=True)
