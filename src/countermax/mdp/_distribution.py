"""How the return would be distributed under another policy, not only its mean: quantiles and the worst cases."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from jaxtyping import Float

from countermax import _plotting as plotting
from countermax._core.errors import InputError
from countermax._core.quantities import as_amount
from countermax._core.results import Row
from countermax._core.words import number
from countermax.intervals import Interval
from countermax.intervals._interval import student_interval
from countermax.mdp._arrays import Floats, Ints, Values, as_finite
from countermax.mdp._importance import FEW_EPISODES, effective_sample_size, resamples_of
from countermax.mdp._log import EpisodeLog
from countermax.mdp._results import AbstractCohortResult, Context, counted

SHARES = (0.05, 0.1, 0.25, 0.5)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ReturnDistribution(AbstractCohortResult):
    """The returns that were seen, each as likely as importance sampling makes it under the target policy."""

    context: Context
    returns: Float[np.ndarray, " k"]
    """The distinct returns of episodes with any weight, in ascending order."""
    probabilities: Float[np.ndarray, " k"]
    """How likely each is. They sum to one if weighted; else they may fall short of it."""
    shares: tuple[float, ...]
    """Shares of the worst episodes whose mean is shown."""
    weighted: bool
    """Whether ratios were divided by their mean (self-normalised)."""
    effective_sample_size: float
    num_resamples: int
    level: float
    """The confidence of the intervals."""
    intervals: Mapping[str, Interval]
    """Bootstrap intervals over episodes, by the names in `numbers`; without those that resamples cannot tell."""

    @property
    def title(self) -> str:
        return f"Returns under the target policy, from {counted(self.context.num_episodes, 'episode')}"

    @property
    def rows(self) -> tuple[Row, ...]:
        about, numbers = counted(self.context.num_episodes, "episode"), self.numbers.items()
        return tuple(Row.of(name, about, "", x, None, self.intervals.get(name)) for name, x in numbers)

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
        above = self.probabilities.cumsum() > as_amount("`share`", share, least=0.0, most=1.0)
        if above.any():
            return float(self.returns[above.argmax()])
        return float(self.returns[-1]) if self.weighted else None

    def cvar(self, share: float) -> float:
        """The mean return of the worst episodes, this share of all: conditional value at risk.

        The episode at the edge counts in part, so that it is a coherent measure of risk and continuous in the share.
        """
        if not as_amount("`share`", share, least=0.0, most=1.0) > 0:
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

    def _summary(self) -> str:
        worst = self.shares[0]
        kind = "weighted (self-normalised)" if self.weighted else "ordinary"
        size = number(self.effective_sample_size, 1)
        told = (
            f"the mean return would be {number(self.mean)}, and {number(self.cvar(worst))} in the worst "
            f"{100 * worst:g} % of episodes"
        )
        if self.effective_sample_size < FEW_EPISODES:  # a warning says so
            return f"If the few episodes that count are like all others, {told} under the target policy."
        return (
            f"Under the target policy {told}. This is by {kind} importance sampling, with an effective sample size of "
            f"{size}."
        )

    def _plot(self) -> "plotting.Figure":
        marks = {"mean": self.mean} | {f"mean of the worst {each:.0%}": self.cvar(each) for each in self.shares[:1]}
        return plotting.draw_distribution(
            self.returns,
            self.probabilities.cumsum(),
            marks=marks,
            title=self.title,
            label=f"return over {self.horizon} steps",
        )

    def _details(self) -> Mapping[str, Any]:
        names = ("returns", "probabilities", "weighted", "effective_sample_size", "num_resamples", "level")
        return self._fields(*names)


def distribution_of(
    context: Context,
    weighed: Callable[[Ints | None], tuple[EpisodeLog, Floats]],
    shares: tuple[float, ...],
    weighted: bool,
    num_resamples: int,
    level: float,
    seed: int,
) -> ReturnDistribution:
    """The distribution, with intervals from resampled episodes: `weighed` returns those, and their ratios."""
    log, ratios = weighed(None)
    seen = _weighed(log, ratios, weighted, context)
    if seen is None:
        nobody = "nobody did what it would do: importance sampling cannot be used"
        raise InputError(f"`policy` must give some episode a weight, but {nobody}")
    found = ReturnDistribution(
        context=context,
        returns=seen[0],
        probabilities=seen[1],
        shares=shares,
        weighted=weighted,
        effective_sample_size=effective_sample_size(ratios),
        num_resamples=num_resamples,
        level=level,
        intervals={},
    )
    drawn: list[dict[str, float | None]] = []
    for chosen in resamples_of(seed, len(log), num_resamples):
        other = _weighed(*weighed(chosen), weighted, context)
        drawn.append({} if other is None else replace(found, returns=other[0], probabilities=other[1]).numbers)
    intervals = {
        name: student_interval(value, [each.get(name) for each in drawn], level, found.effective_sample_size)[0]
        for name, value in found.numbers.items()
    }
    return replace(found, intervals={name: each for name, each in intervals.items() if each is not None})


def _weighed(log: EpisodeLog, ratios: Floats, weighted: bool, context: Context) -> tuple[Floats, Floats] | None:
    """The distinct returns and how likely each is; None where no episode has any weight."""
    weights = ratios[:, -1]
    if not weights.any():
        return None
    returns, where = np.unique(log.returns(context.discount, horizon=context.horizon), return_inverse=True)
    scaled = weights / weights.max()
    masses: Floats = np.bincount(where, scaled / scaled.sum() if weighted else weights / len(log)).astype(np.float64)
    if not weighted:
        masses = np.diff(np.minimum(masses.cumsum(), 1), prepend=0.0)
    likely = masses > 0
    return returns[likely], masses[likely]
