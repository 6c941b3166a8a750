"""What a policy would be worth, from the log of another one: every estimate that people know, side by side."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from matplotlib.figure import Figure
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from countermax import plotting
from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._core.progress import ProgressBar
from countermax.couplings import AbstractSampler, GumbelMax, InverseCDF
from countermax.mdp._arrays import SUM_TOLERANCE, Floats, Ints, Values, as_floats
from countermax.mdp._estimation import estimate, estimate_policy, visits
from countermax.mdp._log import EpisodeLog
from countermax.mdp._planning import as_horizon, deterministic, policy_values, state_distributions
from countermax.mdp._process import FiniteMDP
from countermax.mdp.evaluation._importance import (
    doubly_robust,
    effective_sample_size,
    importance_estimates,
    importance_ratios,
    visit_shares,
)
from countermax.mdp.replays import replay, trajectory_bounds, usual_policy

if TYPE_CHECKING:
    import pandas as pd

Model: TypeAlias = FiniteMDP | Callable[[EpisodeLog], FiniteMDP]

_FEW_EPISODES = 30
_THIN_VISITS = 10
_LARGE_SHARE = 0.01
_LARGE_THIN_SHARE = 0.1


class Estimate(NamedTuple):
    """One estimate of the target policy's value, with its bootstrap interval."""

    name: str
    kind: str
    """`observed`, `importance sampling`, `model` or `counterfactual`."""
    value: float
    lower: float | None
    upper: float | None


@final
@dataclass(frozen=True, eq=False)
class PolicyEvaluation:
    """All estimates, what they rest on, and what to be careful about."""

    estimates: tuple[Estimate, ...]
    bounds: tuple[float, float]
    """The counterfactual mean over these patients, whatever the mechanism, if the model is right."""
    effective_sample_size: float
    """Of importance sampling."""
    num_episodes: int
    num_bootstrap: int
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
        """One row for each estimate."""
        return import_pandas().DataFrame(self.estimates).set_index("name")

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words."""
        return {
            "estimates": [each._asdict() for each in self.estimates],
            "bounds": {"lower": self.bounds[0], "upper": self.bounds[1]},
            "effective_sample_size": self.effective_sample_size,
            "num_episodes": self.num_episodes,
            "num_bootstrap": self.num_bootstrap,
            "level": self.level,
            "horizon": self.horizon,
            "discount": self.discount,
            "warnings": list(self.warnings),
        }

    def to_json(self) -> str:
        """The same as text; what cannot be estimated is null."""
        return json.dumps(_without_nan(self.to_dict()), indent=2)

    def plot(self, *, truth: float | None = None) -> Figure:
        """Dots with intervals, one line for each estimate.

        Args:
            truth: Drawn as a line, where it is known.
        """
        return plotting.draw_estimates(
            [(each.name, each.kind, each.value, each.lower, each.upper) for each in self.estimates],
            bounds=self.bounds,
            truth=truth,
            title=f"The target policy's value, from {self.num_episodes} episodes",
            label=f"mean return over {self.horizon} steps",
        )

    def __rich__(self) -> Group:
        title = f"{self.num_episodes} episodes, horizon {self.horizon}, discount {self.discount:g}"
        table = Table(title=Text(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("estimate", no_wrap=True)
        interval = f"{self.level:.0%} interval"
        for column in ("value", interval):
            table.add_column(column, justify="right", no_wrap=True)
        for each in self.estimates:
            ends = "" if each.lower is None else f"{each.lower:.4f} to {each.upper:.4f}"
            table.add_row(Text(each.name), f"{each.value:.4f}", ends)
        table.add_row(Text("any mechanism"), "", f"{self.bounds[0]:.4f} to {self.bounds[1]:.4f}")
        size = f"effective sample size of importance sampling: {self.effective_sample_size:.1f}"
        return Group(table, Text(size), *(Text(f"careful: {each}", style="yellow") for each in self.warnings))


def evaluate_policy(
    log: EpisodeLog,
    target: Values,
    *,
    mechanisms: Mapping[str, AbstractSampler] | None = None,
    model: Model = estimate,
    behaviour: Values | None = None,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float = 1.0,
    num_bootstrap: int = 100,
    level: float = 0.95,
    key: PRNGKeyArray,
    progress: bool | None = None,
) -> PolicyEvaluation:
    """Estimates what a policy is worth from the log of another one, in every common way.

    Intervals come from resampling episodes. Everything that is learned from the log, the model and the behaviour
    policy, is learned anew from each resample; the target policy stays as it is.

    Args:
        log: What was done and what came of it.
        target: [state, action]: the policy to be evaluated.
        mechanisms: Couplings for the counterfactual estimates, by name; by default Gumbel-max and inverse CDF.
        model: How a process is learned from a log; or a process that is known and stays as it is.
        behaviour: [state, action]: what the log was made with, if known; by default frequencies.
        outcomes: What each state is called as an outcome; see `replay`.
        horizon: How many steps an episode can have; by default as many as the longest has.
        discount: What a reward is worth one step later.
        num_bootstrap: Resamples for the intervals; 0 for none.
        level: The share of resamples within an interval.
        key: Consumed once; draws the resamples.
        progress: Whether to show a progress bar; by default if the output is a terminal.
    """
    if num_bootstrap < 0 or not 0 < level < 1:
        raise InputError(
            f"`num_bootstrap` must not be negative and `level` within (0, 1), got {num_bootstrap}, {level}"
        )
    if mechanisms is None:
        mechanisms = {"Gumbel-max": GumbelMax(), "inverse CDF": InverseCDF()}
    steps = log.longest if horizon is None else as_horizon(horizon)
    probs = _as_target(log, target)
    task = _Task(log, probs, mechanisms, model, behaviour, outcomes, steps, discount)
    everybody = np.arange(len(log))
    key_draws = np.asarray(jax.random.bits(key, (4,)))
    with ProgressBar("evaluating", num_bootstrap + 1, progress, unit="resamples") as bar:
        point, process, ratios = _estimates(task, everybody)
        bar.advance(1)
        drawn = []
        for resample in range(num_bootstrap):
            chosen = np.random.default_rng([*key_draws, resample]).integers(0, len(log), len(log))
            drawn.append(_estimates(task, chosen)[0])
            bar.advance(1)
    tails = (0.5 - level / 2, 0.5 + level / 2)
    estimates = []
    for (kind, name), value in point.items():
        sample = np.array([each[kind, name] for each in drawn])
        known = sample[np.isfinite(sample)]
        lower, upper = np.quantile(known, tails).tolist() if len(known) else (None, None)
        estimates.append(Estimate(name, kind, value, lower, upper))
    within, _ = restricted(process, probs)
    bounds = trajectory_bounds(process, log, within, horizon=steps, discount=discount, progress=False)
    return PolicyEvaluation(
        tuple(estimates),
        (float(bounds.lower.mean()), float(bounds.upper.mean())),
        effective_sample_size(ratios),
        len(log),
        num_bootstrap,
        level,
        steps,
        discount,
        _warnings(task, process, ratios),
    )


class _Task(NamedTuple):
    log: EpisodeLog
    target: Floats
    mechanisms: Mapping[str, AbstractSampler]
    model: Model
    behaviour: Values | None
    outcomes: Values | None
    horizon: int
    discount: float


def _estimates(task: _Task, chosen: Ints) -> tuple[dict[tuple[str, str], float], FiniteMDP, Floats]:
    """Every estimate from some of the episodes, repeats allowed."""
    log = task.log.select(chosen)
    process = task.model if isinstance(task.model, FiniteMDP) else task.model(log)
    behaviour = estimate_policy(log) if task.behaviour is None else task.behaviour
    target, _ = restricted(process, task.target)
    ratios = importance_ratios(log, task.target, behaviour)
    sampled = importance_estimates(log, ratios, discount=task.discount)
    horizon, discount = task.horizon, task.discount
    planned = policy_values(process, target, horizon=horizon, discount=discount)[log.states[:, 0]].mean()
    robust = doubly_robust(process, log, target, ratios, horizon=horizon, discount=discount)
    found = {
        ("observed", "observed return"): float(log.returns(task.discount).mean()),
        ("importance sampling", "ordinary importance sampling"): sampled.ordinary,
        ("importance sampling", "per-decision importance sampling"): sampled.per_decision,
        ("importance sampling", "weighted importance sampling"): sampled.weighted,
        ("importance sampling", "doubly robust"): robust,
        ("model", "model-based"): float(planned),
    }
    distinct, times = np.unique(chosen, return_counts=True)  # an episode drawn twice is replayed once
    once = task.log.select(distinct)
    for name, mechanism in task.mechanisms.items():
        replayed = replay(
            process, once, target, mechanism, outcomes=task.outcomes, horizon=horizon, discount=discount, progress=False
        )
        found["counterfactual", f"counterfactual, {name}"] = float(replayed.values @ times / times.sum())
    return found, process, ratios


def restricted(mdp: FiniteMDP, policy: Floats) -> tuple[Floats, Floats]:
    """The policy among the actions that the process knows, and how much of it was left out in each state.

    Where a policy wants nothing that is known, it does what was done most often.
    """
    kept = policy * mdp.allowed
    totals = kept.sum(axis=1, keepdims=True)
    usual = deterministic(usual_policy(mdp).argmax(axis=1), mdp.num_actions)
    return np.where(totals > 0, kept / np.where(totals > 0, totals, 1), usual), 1 - totals[:, 0]


def _as_target(log: EpisodeLog, target: Values) -> Floats:
    probs = as_floats("target", target)
    shape = (log.num_states, log.num_actions)
    if probs.shape != shape:
        raise InputError(f"`target` must be [state, action] of shape {shape}, got {probs.shape}")
    bad = ~((probs >= 0) & (probs < np.inf)).all(axis=1) | ~(np.abs(probs.sum(axis=1) - 1) <= SUM_TOLERANCE)
    if bad.any():
        state = int(bad.argmax())
        named = f"state {state}" + ("" if log.state_names is None else f" ({log.state_names[state]})")
        raise InputError(
            f"`target` must hold probabilities that sum to one in each state, got {probs[state].sum():.6g} in {named}"
        )
    return probs / probs.sum(axis=1, keepdims=True)


def _warnings(task: _Task, process: FiniteMDP, ratios: Floats) -> tuple[str, ...]:
    """What makes the estimates doubtful, in words."""
    log, found = task.log, []
    size = effective_sample_size(ratios)
    if size < _FEW_EPISODES:
        matching = int((ratios[:, -1] > 0).sum())
        found.append(
            f"importance sampling rests on {size:.1f} effective episodes ({matching} of {len(log)} have any weight); "
            "its estimates and their intervals are not to be trusted"
        )
    counts = visits(log)
    unseen = float(visit_shares(log) @ (task.target * (counts == 0)).sum(axis=1))
    if unseen > _LARGE_SHARE:
        found.append(
            f"in {unseen:.1%} of the logged steps the target policy would do what nobody ever did in that state"
        )
    within, left_out = restricted(process, task.target)
    occupancy = state_distributions(process, within, task.horizon)[:-1].sum(axis=0) * ~process.absorbing
    occupancy /= max(occupancy.sum(), 1e-300)
    beyond = float(occupancy @ left_out)
    if beyond > _LARGE_SHARE:
        found.append(
            f"for {beyond:.1%} of the target policy's own steps the model knows no such action; the model-based and "
            "counterfactual estimates do there what was done most often"
        )
    thin = float((occupancy[:, None] * within * (counts < _THIN_VISITS)).sum())
    if thin > _LARGE_THIN_SHARE:
        found.append(
            f"{thin:.0%} of the target policy's own steps rest on rows of fewer than {_THIN_VISITS} visits; where data "
            "are thin a policy that was optimised on them looks too good"
        )
    return tuple(found)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
