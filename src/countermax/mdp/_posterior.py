"""Model uncertainty: the posterior of a transition model given its counts, and questions put to draws from it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.progress import ProgressBar
from countermax._core.quantities import as_seed
from countermax._core.words import confidence
from countermax._ray import in_prepared_parts
from countermax.intervals import Interval
from countermax.intervals._interval import check_level, percentile_interval
from countermax.mdp._arrays import Floats, Ints, Values, as_number, as_whole, shortened
from countermax.mdp._process import FiniteMDP

NO_CONFOUNDING = (
    "No hidden confounding: the states hold everything that moved both what was done and what came of it. No "
    "resampling can test this."
)
"""What every answer from a log assumes."""

_NEVER = 1e-9  # a drawn probability below this is as good as none, and makes rows no wider
_PRIORS = {
    "pooled": (
        "Dirichlet prior for each row, centred on where its state led under other actions and on all states "
        "that were reached; {strength}"
    ),
    "seen": "Dirichlet draws from the counts alone, so nothing unseen can happen",
}
_STRENGTHS = tuple(2.0**power for power in range(-3, 11))
_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
_PRIOR_FREEDOM = 4.0  # visits' worth of the common variance in that of each transition's rewards
_MOST_KEPT = 2**28  # bytes of drawn models


@final
@dataclass(frozen=True, kw_only=True)
class Posterior:
    """Model uncertainty: transition models drawn from the posterior given the counts of an estimate.

    Rows that were never visited are drawn from the prior alone; without a prior they stay as the estimate has them.

    Args:
        num_draws: Number of models that are drawn; 0 takes the estimate as given.
        prior: Prior of each row: "pooled", centred on where its state led under other actions and on all states that
            were ever reached, or "seen", under which nothing unseen can happen.
        strength: Strength of the pooled prior in visits; by default fitted by empirical Bayes.
        level: Level of the credible intervals; fewer than 40 draws cannot say 95 %, and then less is said.
        seed: Seed of the draws.
    """

    num_draws: int = 100
    prior: str = "pooled"
    strength: float | None = None
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        as_whole("num_draws", self.num_draws, least=0)
        if self.prior not in _PRIORS:
            raise InputError(f"`prior` must be one of {', '.join(_PRIORS)}, got {shortened(self.prior)}")
        if self.strength is not None:
            as_number("strength", self.strength, 0, 1e6)
        check_level(self.level)
        as_seed("seed", self.seed)

    @property
    def attained(self) -> float:
        """The level that so many draws can say."""
        return attained(self.level, self.num_draws)

    def summarise(self, point: Floats, drawn: Floats, ranges: int = 0) -> tuple[Floats, Interval | None]:
        """Posterior means and intervals, along the first axis of the draws; without draws the point estimates.

        The last numbers, `ranges` pairs of a lower and an upper limit, have intervals that hold the estimate's too:
        model uncertainty never makes a range narrower.
        """
        if not len(drawn):
            return point, None
        means = drawn.mean(axis=0)
        if not self.attained:
            return means, None
        found = percentile_interval(drawn, self.attained)
        assert found is not None
        lower, upper = np.minimum(found.lower, means), np.maximum(found.upper, means)
        held = slice(len(point) - 2 * ranges, None)
        lower[held], upper[held] = np.minimum(lower[held], point[held]), np.maximum(upper[held], point[held])
        return means, Interval(lower, upper, self.attained)

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
        strength = "fitted by empirical Bayes" if self.strength is None else f"worth {self.strength:g} visits"
        prior = _PRIORS[self.prior].format(strength=f"its strength is {strength}")
        return (
            f"Model uncertainty: {self.num_draws} transition models drawn from the posterior given your counts; each "
            f"interval holds {confidence(self.attained)} of them, and values are their means ({prior})."
        )


def attained(level: float, count: int) -> float:
    """The level that so many draws can say, in whole percent: beyond 1 - 2 / count there is nothing to be seen."""
    return min(level, max(100 * (count - 2) // count, 0) / 100) if count else level


class PosteriorDraws:
    """The posterior draws of one estimate, drawn when they are first asked for, and kept unless they are too large."""

    def __init__(self, mdp: FiniteMDP, posterior: Posterior, outcomes: Values | None, *, spread: bool):
        """Draws nothing yet; `spread` draws and asks on Ray."""
        self.posterior = posterior
        self._mdp, self._outcomes, self._spread = mdp, outcomes, spread
        self._kept: list[FiniteMDP] = []

    def ask(self, question: Callable[[FiniteMDP], Floats], *, spread: bool = True) -> Float[np.ndarray, "r ..."]:
        """One question put to every model: a function from a process to numbers, which other processes can import."""
        count = self.posterior.num_draws
        if not count:
            return np.array([])
        shared = (self._mdp, self.posterior, question, self._outcomes)
        answers = (
            in_prepared_parts(_asking, shared, ((each,) for each in range(count)))
            if self._spread and spread
            else map(question, self._models())
        )
        found = []
        with ProgressBar("posterior draws", count, unit="models") as bar:
            for each in answers:
                found.append(each)
                bar.advance(1)
        return np.array(found)

    def _models(self) -> Iterator[FiniteMDP]:
        yield from self._kept
        if len(self._kept) < self.posterior.num_draws:
            draw = _drawing(self._mdp, self.posterior, self._outcomes)
            for number in range(len(self._kept), self.posterior.num_draws):
                model = draw(number)
                if len(self._kept) == number and 4 * (number + 1) * model.probs.nbytes <= _MOST_KEPT:
                    self._kept.append(model)
                yield model


def _asking(
    mdp: FiniteMDP, posterior: Posterior, question: Callable[[FiniteMDP], Floats], outcomes: Values | None
) -> Callable[[int], Floats]:
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
    cells = _cells(mdp, posterior, None if outcomes is None else np.unique(outcomes, return_inverse=True)[1])
    return lambda number: _drawn(mdp, cells, np.random.default_rng([posterior.seed, number]))


class _Cells(NamedTuple):
    """All transitions that may be drawn, row by row, with the weight of each."""

    row: Ints
    successor: Ints
    weight: Floats
    reward: Floats
    error: Floats
    """The standard error of the reward's mean."""
    variance: Floats
    kept: Ints
    """Those that were counted, which are always possible."""


def _cells(mdp: FiniteMDP, posterior: Posterior, labels: Ints | None) -> _Cells:
    counts = mdp.counts
    assert counts is not None
    state, action, slot = np.nonzero(counts * ~mdp.absorbing[:, None, None])
    if not len(state):
        raise InputError("`process` must have counted some transition for a posterior")
    times, successor = counts[state, action, slot].astype(np.float64), mdp.successors[state, action, slot]
    reward = mdp.rewards[state, action, slot]
    spread = np.zeros(len(state)) if mdp.reward_variances is None else mdp.reward_variances[state, action, slot]
    row, size = state * mdp.num_actions + action, mdp.num_states
    spare = times.sum() - len(times)
    common = float(spread @ times) / spare if spare else float(np.cov(reward, aweights=times)) if len(row) > 1 else 0.0
    likely = (spread * times + _PRIOR_FREEDOM * common) / (times - 1 + _PRIOR_FREEDOM)  # one visit shows no variance
    seen = _Cells(row, successor, times, reward, np.sqrt(likely / times), likely, np.arange(len(row)))
    if posterior.prior == "seen" or posterior.strength == 0:
        return seen
    reached = np.bincount(successor, times, minlength=size)
    each = np.where(reached > 0, reached, 1)
    earned = np.bincount(successor, times * reward, minlength=size) / each
    apart = np.bincount(successor, times * ((reward - earned[successor]) ** 2 + spread), minlength=size) / each
    anywhere = np.flatnonzero(reached)
    rows = np.flatnonzero(mdp.allowed & ~mdp.absorbing[:, None])
    check_memory(
        f"posterior draws of {len(rows)} rows of {len(anywhere)} successors",
        80 * len(rows) * len(anywhere),
        'use prior="seen"',
    )
    by_row = np.zeros((len(rows), size))
    np.add.at(by_row, (np.searchsorted(rows, row), successor), times)
    base, strength = _prior(by_row, rows // mdp.num_actions, mdp.num_states, posterior.strength)
    if labels is not None:
        base = _one_of_each_name(base, labels, _stands_for(labels, rows % mdp.num_actions, by_row))
    base = base[:, anywhere]
    more_row, more_successor = np.repeat(rows, len(anywhere)), np.tile(anywhere, len(rows))
    known = np.searchsorted(row * size + successor, more_row * size + more_successor)
    known = np.minimum(known, len(row) - 1)
    same = (row[known] == more_row) & (successor[known] == more_successor)
    weight = times.copy()
    visited = by_row.any(axis=1, keepdims=True)
    pseudo = (np.where(visited, strength, min(strength, 1.0)) * base).ravel()  # what nobody tried is known to nobody
    weight[known[same]] += pseudo[same]
    new = ~same
    known_cells = row, successor, weight, reward, seen.error, likely
    into = more_successor[new]
    more = more_row[new], into, pseudo[new], earned[into], np.sqrt(apart[into]), common + 0 * into
    cells: list[Any] = [*map(np.append, known_cells, more), seen.kept]
    return _Cells(*cells)


def _stands_for(labels: Ints, action: Ints, counts: Floats) -> Ints:
    """[row, label]: the state that was seen there, else where the action led elsewhere, else where any did."""
    by_action = np.zeros((int(action.max()) + 1, counts.shape[1]))
    np.add.at(by_action, action, counts)
    found = np.zeros((len(action), int(labels.max()) + 1), np.int64)
    for label in range(found.shape[1]):
        states = np.flatnonzero(labels == label)
        here = counts[:, states]
        worth = np.stack([here, by_action[action][:, states], np.broadcast_to(here.sum(0), here.shape)])
        likeliest = worth.argmax(axis=2)
        found[:, label] = states[np.where(worth[0].any(1), likeliest[0], np.where(worth[1].any(1), *likeliest[1:]))]
    return found


def _one_of_each_name(base: Floats, labels: Ints, stands_for: Ints) -> Floats:
    """The same priors, with all states of one name in the one that stands for them."""
    found = np.zeros_like(base)
    sums = base @ (labels[:, None] == np.arange(stands_for.shape[1])).astype(np.float64)
    np.put_along_axis(found, stands_for, sums, axis=1)
    return found


def _prior(counts: Floats, state: Ints, num_states: int, strength: float | None) -> tuple[Floats, float]:
    """[row, successor]: the centre of each row's prior, and its strength in visits.

    A mixture of where the state led under its other actions and of all states that were ever reached; its share and the
    strength maximise the marginal likelihood of all counts (empirical Bayes).
    """
    by_state = np.zeros((num_states, counts.shape[1]))
    np.add.at(by_state, state, counts)
    elsewhere, everywhere = by_state[state] - counts, counts.sum(axis=0) / counts.sum()
    totals = elsewhere.sum(axis=1, keepdims=True)
    elsewhere = np.where(totals > 0, elsewhere / np.maximum(totals, 1), everywhere)
    row, successor = np.nonzero(counts)
    times, visits = counts[row, successor], counts.sum(axis=1)
    best = -np.inf, _SHARES[0], _STRENGTHS[0]
    for share in _SHARES:
        base = share * elsewhere[row, successor] + (1 - share) * everywhere[successor]
        for each in _STRENGTHS if strength is None else (max(strength, _STRENGTHS[0]),):
            likely = (gammaln(each) - gammaln(each + visits)).sum()
            likely += (gammaln(each * base + times) - gammaln(each * base)).sum()
            best = max(best, (float(likely), share, each))
    _, share, found = best
    return share * elsewhere + (1 - share) * everywhere, found if strength is None else strength


def _drawn(mdp: FiniteMDP, cells: _Cells, random: np.random.Generator) -> FiniteMDP:
    drawn = random.standard_gamma(cells.weight)
    drawn[cells.kept] = np.maximum(drawn[cells.kept], np.finfo(float).tiny)
    sums = np.bincount(cells.row, drawn, minlength=mdp.num_states * mdp.num_actions)
    probs = drawn / sums[cells.row]
    keep = probs > _NEVER
    keep[cells.kept] = True
    row, reward = cells.row[keep], cells.reward[keep] + cells.error[keep] * random.standard_normal(int(keep.sum()))
    reward = np.clip(reward, cells.reward.min(), cells.reward.max())
    probs = np.maximum(probs[keep], _NEVER)
    probs /= np.bincount(row, probs, minlength=len(sums))[row]
    nobody_counted = (sums == 0) & (mdp.allowed & ~mdp.absorbing[:, None]).ravel()
    fixed, slot = np.nonzero(mdp.possible & nobody_counted[:, None])
    given = *np.divmod(fixed, mdp.num_actions), slot
    row = np.concatenate([row, fixed])
    variance = np.concatenate([cells.variance[keep], np.zeros(len(fixed))])
    return FiniteMDP.from_transitions(
        {
            "state": row // mdp.num_actions,
            "action": row % mdp.num_actions,
            "successor": np.concatenate([cells.successor[keep], mdp.successors[given]]),
            "probs": np.concatenate([probs, mdp.probs[given]]),
            "rewards": np.concatenate([reward, mdp.rewards[given]]),
            "reward_variances": variance if variance.any() else None,
        },
        num_states=mdp.num_states,
        num_actions=mdp.num_actions,
        start=mdp.start,
        discount=mdp.discount,
        absorbing=mdp.absorbing,
        state_names=mdp.state_names,
        action_names=mdp.action_names,
        never_left=mdp.never_left,
    )
