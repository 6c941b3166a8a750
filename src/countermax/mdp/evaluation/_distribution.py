"""How the return would be distributed under another policy, not only its mean: quantiles and the worst cases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float, PRNGKeyArray
from rich.console import Group
from rich.text import Text

from countermax import _plotting as plotting
from countermax._core.console import add_line, listing
from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._core.results import AbstractOldResult, plain
from countermax.intervals import Interval
from countermax.intervals._interval import check_level, student_interval
from countermax.mdp._arrays import Floats, Values, as_finite, as_mask, as_number, as_whole
from countermax.mdp._cautions import censoring_doubts, told_of_ends, told_of_labels, weight_doubts
from countermax.mdp._estimation import estimate_policy, policy_rows, visits
from countermax.mdp._importance import effective_sample_size, importance_ratios, resamples_of
from countermax.mdp._log import EpisodeLog, steps_compared, steps_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_SHARES = (0.05, 0.1, 0.25, 0.5)
_NOTE = "Sampling uncertainty is left out: other episodes would give another distribution."
_RESAMPLED = "{percent:g}% intervals, from {count} resamples of episodes, the behaviour policy estimated again in each."


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ReturnDistribution(AbstractOldResult):
    """The returns that were seen, each as likely as importance sampling makes it under the target policy."""

    returns: Float[np.ndarray, " k"]
    """The distinct returns of episodes with any weight, in ascending order."""
    probabilities: Float[np.ndarray, " k"]
    """How likely each is. They sum to one if weighted; else they may fall short of it."""
    shares: tuple[float, ...]
    """Shares of the worst episodes whose mean is shown."""
    weighted: bool
    """Whether ratios were divided by their mean (self-normalised)."""
    effective_sample_size: float
    num_episodes: int
    num_censored: int
    horizon: int
    discount: float
    num_resamples: int
    level: float
    """The confidence of the intervals."""
    intervals: Mapping[str, Interval]
    """What other episodes would give, by the names in `numbers`; without those that resamples cannot tell."""
    notes: tuple[str, ...]
    """What was taken as an end, in words, if nobody named the ends."""
    warnings: tuple[str, ...]

    @property
    def numbers(self) -> dict[str, float | None]:
        """What is read off the distribution, by name: the mean, and for each share the worst cases and the quantile."""
        found: dict[str, float | None] = {"mean": self.mean, "standard deviation": float(np.sqrt(self.variance))}
        found |= {f"mean of the worst {share:.4g} (CVaR)": self.cvar(share) for share in self.shares}
        return found | {f"quantile {share:.4g}": self.quantile(share) for share in self.shares}

    @property
    def mean(self) -> float:
        """The policy's value: that of (weighted) importance sampling, unless ratios sum to more than one."""
        return float(self.probabilities @ self.returns)

    @property
    def variance(self) -> float:
        """The spread of returns, not the uncertainty of their mean."""
        return float(self.probabilities @ (self.returns - self.mean) ** 2)

    def cdf(self, values: Values) -> Floats:
        """The share of episodes whose return is at most each value."""
        rising = np.concatenate([[0.0], self.probabilities.cumsum()])
        return rising[np.searchsorted(self.returns, as_finite("values", values), side="right")]

    def quantile(self, share: float) -> float | None:
        """The least return that more than this share of episodes does not exceed; None where they fall short of it."""
        above = self.probabilities.cumsum() > as_number("share", share, 0, 1)
        if above.any():
            return float(self.returns[above.argmax()])
        return float(self.returns[-1]) if self.weighted else None

    def cvar(self, share: float) -> float:
        """The mean return of the worst episodes, this share of all: conditional value at risk.

        The episode at the edge counts in part, so that it is a coherent measure of risk and continuous in the share.

        Args:
            share: Share of the episodes, above 0 and at most 1; 1 gives the mean.
        """
        if not as_number("share", share, 0, 1) > 0:
            raise InputError("`share` must be more than 0, got 0: there is no mean of no episodes")
        before = np.concatenate([[0.0], self.probabilities.cumsum()[:-1]])
        parts = np.clip(share - before, 0, self.probabilities)
        return float(parts @ self.returns / parts.sum())

    def mean_up_to_quantile(self, share: float) -> float:
        """The mean of all returns up to the quantile, its own included; what scope-rl calls CVaR.

        Never below `cvar`: the episodes at the edge count in full, be they ever so many.
        """
        edge = self.quantile(share)
        kept = self.returns <= (self.returns[-1] if edge is None else edge)
        return float(self.probabilities[kept] @ self.returns[kept] / self.probabilities[kept].sum())

    def to_frame(self) -> "pd.DataFrame":
        """One row for each return: how likely it is, and the share up to it."""
        columns = {"return": self.returns, "probability": self.probabilities, "share": self.probabilities.cumsum()}
        return import_pandas().DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers: the distribution, and what is read off it."""
        read = {"mean": self.mean, "variance": self.variance, "cvar": {each: self.cvar(each) for each in self.shares}}
        return plain(vars(self) | read)

    def plot(self) -> "Figure":
        """The distribution as steps, the mean and the first share's mean marked."""
        marks = {"mean": self.mean} | {f"mean of the worst {each:.0%}": self.cvar(each) for each in self.shares[:1]}
        return plotting.draw_distribution(
            self.returns,
            self.probabilities.cumsum(),
            marks=marks,
            title=f"Returns under the target policy, from {self.num_episodes} episodes",
            label=f"return over {self.horizon} steps",
        )

    def __rich__(self) -> Group:
        title = f"{self.num_episodes} episodes, horizon {self.horizon}, discount {self.discount:g}"
        other = ["other episodes"] if self.num_resamples else []
        shown = listing(title, ["return under the target policy", "value", *other])
        for name, value in self.numbers.items():
            limits = self.intervals.get(name)
            told = "none" if limits is None else f"{limits.lower:z.4f} to {limits.upper:z.4f}"
            add_line(shown, [name, "none" if value is None else f"{value:z.4f}", *([told] if other else [])])
        kind = "weighted (self-normalised)" if self.weighted else "ordinary"
        size = f"by {kind} importance sampling; effective sample size {self.effective_sample_size:.1f}"
        note = _RESAMPLED.format(percent=100 * self.level, count=self.num_resamples) if other else _NOTE
        careful = (Text(f"careful: {each}", style="yellow") for each in self.warnings)
        return Group(shown, *map(Text, (size, note, *self.notes)), *careful)


def return_distribution(
    log: EpisodeLog,
    target: Values,
    *,
    behaviour: Values | None = None,
    weighted: bool = True,
    absorbing: Values | None = None,
    horizon: int | None = None,
    discount: float = 1.0,
    shares: Sequence[float] = _SHARES,
    num_resamples: int = 0,
    level: float = 0.95,
    key: PRNGKeyArray | None = None,
) -> ReturnDistribution:
    """How returns would be distributed under a policy, by trajectory-wise importance sampling; no model is needed.

    Args:
        log: Episodes of the behaviour policy.
        target: [state, action]: the policy to be evaluated.
        behaviour: [state, action]: what the log was made with, if known; by default frequencies, which are consistent
            but make importance sampling biased in small logs.
        weighted: Whether to divide ratios by their mean (self-normalised), so that probabilities sum to one. Else they
            are unbiased at each return if the behaviour is known, and cut off where they would sum to more than one.
        absorbing: States where episodes end by themselves; by default those that nobody was seen to leave. Episodes
            that stop elsewhere before the horizon are censored: their return counts as far as it was seen.
        horizon: Number of steps of each episode that count; by default that of the longest episode.
        discount: Discount factor for each step; 1 for the plain return.
        shares: Shares of the worst episodes whose mean is shown.
        num_resamples: Number of resamples of episodes for intervals, drawn as `evaluate_policy` draws them; the
            behaviour policy is estimated again from each, unless it is known. By default there are no intervals.
        level: Confidence of the intervals, which reach at least as far as this share of the resamples.
        key: Random key for drawing the resamples; consumed once.
    """
    as_whole("num_resamples", num_resamples, least=0)
    check_level(level)
    if num_resamples and key is None:
        raise InputError(f"`key` must be given to draw {num_resamples} resamples; for instance jax.random.key(0)")
    wanted, steps = policy_rows(log, target, argument="target"), steps_of(log, horizon)
    kept = tuple(as_number("shares", each, 0, 1) for each in shares)
    if not kept or min(kept) == 0:
        raise InputError(f"`shares` must hold numbers above 0 and at most 1, got {list(kept)}")
    ends = visits(log).sum(axis=1) == 0 if absorbing is None else as_mask("absorbing", absorbing, log.num_states)
    compared = steps_compared(log, ends, steps)
    ratios = _ratios(log, wanted, behaviour, steps)
    seen = _weighed(log, ratios, weighted, steps, discount)
    if seen is None:
        raise InputError(
            "`target` must give some episode a weight, but nobody did what it would do: importance sampling cannot "
            "be used"
        )
    effective = effective_sample_size(ratios)
    found = ReturnDistribution(
        returns=seen[0],
        probabilities=seen[1],
        shares=kept,
        weighted=weighted,
        effective_sample_size=effective,
        num_episodes=len(log),
        num_censored=int((compared < steps).sum()),
        horizon=steps,
        discount=discount,
        num_resamples=num_resamples,
        level=level,
        intervals={},
        notes=told_of_ends(log, ends, ends if absorbing is None else None),
        warnings=(
            *told_of_labels(log),
            *weight_doubts(log, wanted, ratios),
            *censoring_doubts(compared, steps),
        ),
    )
    if key is None or not num_resamples:
        return found
    drawn: list[dict[str, float | None]] = []
    for chosen in resamples_of(key, len(log), num_resamples):
        again = log.select(chosen)
        other = _weighed(again, _ratios(again, wanted, behaviour, steps), weighted, steps, discount)
        drawn.append({} if other is None else replace(found, returns=other[0], probabilities=other[1]).numbers)
    intervals = {
        name: student_interval(value, [each.get(name) for each in drawn], level, effective)[0]
        for name, value in found.numbers.items()
    }
    return replace(found, intervals={name: each for name, each in intervals.items() if each is not None})


def _ratios(log: EpisodeLog, target: Floats, behaviour: Values | None, steps: int) -> Floats:
    return importance_ratios(log, target, estimate_policy(log) if behaviour is None else behaviour)[:, :steps]


def _weighed(
    log: EpisodeLog, ratios: Floats, weighted: bool, steps: int, discount: float
) -> tuple[Floats, Floats] | None:
    """The distinct returns and how likely each is; None where no episode has any weight."""
    weights = ratios[:, -1]
    if not weights.any():
        return None
    returns, where = np.unique(log.returns(discount, horizon=steps), return_inverse=True)
    scaled = weights / weights.max()
    masses: Floats = np.bincount(where, scaled / scaled.sum() if weighted else weights / len(log)).astype(np.float64)
    if not weighted:
        masses = np.diff(np.minimum(masses.cumsum(), 1), prepend=0.0)
    likely = masses > 0
    return returns[likely], masses[likely]
