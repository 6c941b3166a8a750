"""Model uncertainty: the posterior of a transition model given its counts, and questions put to draws from it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, final

import numpy as np

from countermax._core.errors import InputError
from countermax._core.progress import ProgressBar
from countermax._core.quantities import as_choice, as_count, as_seed
from countermax._core.words import confidence
from countermax._ray import in_prepared_parts
from countermax.intervals import Interval
from countermax.intervals._interval import check_level
from countermax.mdp._arrays import Floats, Values
from countermax.mdp._prior import ModelPrior
from countermax.mdp._process import FiniteMDP
from countermax.mdp._replays._course import Setting
from countermax.mdp._replays._trajectories import Trajectories

NO_CONFOUNDING = (
    "No hidden confounding: the states hold everything that moved both what was done and what came of it. No "
    "resampling can test this."
)
"""What every answer from a log assumes."""

_PRIORS = "pooled", "seen"
_MOST_KEPT = 2**28  # bytes of drawn models


@final
@dataclass(frozen=True, kw_only=True)
class Posterior:
    """Model uncertainty: transition models drawn from the posterior given the counts of an estimate.

    Rows that were never visited are drawn from the prior alone; without a prior they stay as the estimate has them.

    Args:
        num_draws: Number of models that are drawn; 0 takes the estimate as given.
        prior: Prior of each row: "pooled" over rows, which learns from all of them to how many states a row leads, or
            "seen", under which nothing unseen can happen.
        level: Level of the credible intervals; lower where there are too few draws for it, as below 40 for 95 %.
        seed: Seed of the draws.
    """

    num_draws: int = 100
    prior: str = "pooled"
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        as_count("`num_draws`", self.num_draws, least=0)
        as_choice("`prior`", self.prior, _PRIORS)
        check_level(self.level)
        as_seed("seed", self.seed)

    @property
    def attained(self) -> float:
        """The level that so many draws can say."""
        return attained(self.level, self.num_draws)

    def summarise(self, point: Floats, drawn: Floats, ranges: int = 0) -> tuple[Floats, Interval | None]:
        """Posterior means and intervals, along the first axis of the draws; without draws the point estimates.

        The last numbers, `ranges` pairs of a lower and an upper limit, have one-sided limits, each with the whole
        level: a gain is claimed where so many models have one, and a value within a wide range can be missed on one
        side only (Imbens and Manski 2004). They hold the estimate's range too: model uncertainty never makes it
        narrower.
        """
        if not len(drawn):
            return point, None
        means = drawn.mean(axis=0)
        if not self.attained:
            return means, None
        first, level = len(point) - 2 * ranges, self.attained
        # by rank among one more than there are: the truth is one more draw
        own, held = (
            np.quantile(some, [tail, 1 - tail], axis=0, method="weibull")
            for some, tail in ((drawn[:, :first], (1 - level) / 2), (drawn[:, first:], 1 - level))
        )
        lower, upper = np.concatenate([own, held], axis=1)
        lower, upper = np.minimum(lower, means), np.maximum(upper, means)
        lower[first:] = np.minimum(lower[first:], point[first:])
        upper[first:] = np.maximum(upper[first:], point[first:])
        return means, Interval(lower, upper, level)

    def draws(self, mdp: FiniteMDP, outcomes: Values | None = None) -> Iterator[FiniteMDP]:
        """The models of an estimate with counts, one after the other.

        With `outcomes`, the label of each state as an outcome, no row leads to two states of one label: an outcome that
        was never seen there is the state that the action led to elsewhere.
        """
        yield from map(_drawing(mdp, self, outcomes), range(self.num_draws))

    def note(self, mdp: FiniteMDP) -> str:
        """What is said beside numbers with intervals from these draws; nothing where there are none."""
        if mdp.counts is None or not self.num_draws:
            return ""
        return (
            f"Model uncertainty: {self.num_draws} transition models drawn from the posterior given your counts (prior "
            f'"{self.prior}"); values are means over them, and intervals hold {confidence(self.attained)} of them.'
        )


def attained(level: float, count: int) -> float:
    """The level that so many draws can say, in whole percent: beyond 1 - 2 / count there is nothing to be seen."""
    return min(level, max(100 * (count - 2) // count, 0) / 100) if count else level


Question: TypeAlias = Callable[[Trajectories], Any]
"""What is asked of the episodes in one process: an array of numbers, or several."""


class PosteriorDraws:
    """The posterior draws of one estimate, drawn when they are first asked for, and kept unless they are too large."""

    def __init__(self, mdp: FiniteMDP, posterior: Posterior, outcomes: Values | None, *, spread: bool):
        """Draws nothing yet; `spread` draws and asks on Ray."""
        self.posterior = posterior
        self._mdp, self._outcomes, self._spread = mdp, outcomes, spread
        self._kept: list[FiniteMDP] = []

    def summarise(
        self, setting: Setting, question: Question, given: Floats, *, ranges: int = 0, spread: bool = True
    ) -> tuple[Floats, Interval | None]:
        """What all models answer, beside the estimate's own answer, `given`; `ranges` as of `Posterior.summarise`."""
        return self.posterior.summarise(given, np.array(self.ask(setting, question, spread=spread)), ranges)

    def ask_parts(
        self, setting: Setting, question: Question, given: Sequence[Floats], *, spread: bool = True
    ) -> list[Floats]:
        """The same of several arrays of numbers, which are asked for at once: what all models answer."""
        answers = self.ask(setting, question, spread=spread)
        return [np.array(part) for part in zip(*answers, strict=True)] or [np.array([])] * len(given)

    def ask(self, setting: Setting, question: Question, *, spread: bool = True) -> list[Any]:
        """One question put to every model; where draws are spread, other processes must be able to import it."""
        count, asked = self.posterior.num_draws, partial(_asked, setting, question)
        if not count:
            return []
        shared = (self._mdp, self.posterior, asked, self._outcomes)
        answers = (
            in_prepared_parts(_asking, shared, ((each,) for each in range(count)))
            if self._spread and spread
            else map(asked, self._models())
        )
        found = []
        with ProgressBar("posterior draws", count, unit="models") as bar:
            for each in answers:
                found.append(each)
                bar.advance(1)
        return found

    def _models(self) -> Iterator[FiniteMDP]:
        yield from self._kept
        if len(self._kept) < self.posterior.num_draws:
            draw = _drawing(self._mdp, self.posterior, self._outcomes)
            for number in range(len(self._kept), self.posterior.num_draws):
                model = draw(number)
                if len(self._kept) == number and 4 * (number + 1) * model.probs.nbytes <= _MOST_KEPT:
                    self._kept.append(model)
                yield model


def _asked(setting: Setting, question: Question, process: FiniteMDP) -> Any:
    return question(Trajectories(process, setting, quiet=True))


def _asking(
    mdp: FiniteMDP, posterior: Posterior, question: Callable[[FiniteMDP], Any], outcomes: Values | None
) -> Callable[[int], Any]:
    """A function from the number of a draw to the answer."""
    draw = _drawing(mdp, posterior, outcomes)
    return lambda number: question(draw(number))


def _drawing(mdp: FiniteMDP, posterior: Posterior, outcomes: Values | None) -> Callable[[int], FiniteMDP]:
    """A function from the number of a draw to its process."""
    if mdp.counts is None:
        raise InputError(
            "`process` must have counts for a posterior: estimate it from a log, or hand in `counts`; "
            "`Posterior(num_draws=0)` takes it as given"
        )
    labels = None if outcomes is None else np.unique(outcomes, return_inverse=True)[1]
    prior = ModelPrior(mdp, labels, unseen=posterior.prior == "pooled")
    return lambda number: prior.draw(np.random.default_rng([posterior.seed, number]))
