"""Variances of an effect (the other world's score minus the factual one's): exact, least, and as an objective."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import NDArray

from countermax._core.types import LogProbs, Scalar
from countermax.bounds._questions import filled
from countermax.couplings import AbstractCoupling, AbstractSampler, Comonotone
from countermax.couplings._named import named_couplings
from countermax.learning import SquaredDifference
from countermax.learning._losses import AbstractLoss, AbstractObjective, expected_losses, least_losses
from studies.experiments import Result
from studies.sepsis._queries import Trials

Floats = NDArray[np.float64]

_MOST_FACTUAL_OUTCOMES = 14  # beyond these the best order of outcomes cannot be found by trying all subsets


class Split(NamedTuple):
    """A variance in two parts; for vector-valued scores the sum over coordinates."""

    within: float
    """What is left when it is known which query this is, and what was seen where that is the question."""
    between: float
    """How the mean effect differs from one query, or from one observation, to the next."""


def over_everybody(squares: Floats, p: Floats, q: Floats, score: Floats, other_score: Floats) -> Split:
    """The variance of the effect for anybody; only its expected square depends on the coupling.

    Args:
        squares: The expected squared effect of each query.
        p: [query, x]: probabilities in the factual world.
        q: [query, y]: those of the other world.
        score: [x, coordinate]: the score in the factual world.
        other_score: [y, coordinate]: the score in the other world.
    """
    effects = q @ other_score - p @ score
    return Split(float((squares - (effects**2).sum(axis=1)).mean()), float(effects.var(axis=0).sum()))


def given_what_was_seen(joints: Floats, score: Floats, other_score: Floats) -> Split:
    """The variance of the effect for somebody whose factual outcome is known, averaged over X ~ p.

    The joint laws are [query, x, y]. Within and between add up to the variance over everybody.
    """
    within, between = [], []
    for joint in joints:
        shares, means, spreads = _by_row(joint, other_score)
        effects = means - score
        centre = shares @ effects
        within.append(shares @ spreads)
        between.append(shares @ ((effects - centre) ** 2).sum(axis=1))
    return Split(float(np.mean(within)), float(np.mean(between)))


def given_one_outcome(joints: Floats, other_score: Floats, outcome: int) -> Split:
    """The variance as published: given one observation, with no regard to what the coupling does after others."""
    rows = joints[:, outcome] / joints[:, outcome].sum(axis=1, keepdims=True)
    means = rows @ other_score
    within = rows @ (other_score**2).sum(axis=1) - (means**2).sum(axis=1)
    return Split(float(within.mean()), float(means.var(axis=0).sum()))


def _by_row(joint: Floats, other_score: Floats) -> tuple[Floats, Floats, Floats]:
    """P(X=x), the mean of score(Y) given X=x and its variance; zero where x is impossible."""
    shares = joint.sum(axis=1)
    rows = joint / np.where(shares > 0, shares, 1)[:, None]
    means = rows @ other_score
    spreads = rows @ (other_score**2).sum(axis=1) - (means**2).sum(axis=1)
    return shares, means, np.maximum(spreads, 0)


def least_given_what_was_seen(
    p: Float[np.ndarray, "m k"], q: Float[np.ndarray, "m k"], other_score: Float[np.ndarray, " k"]
) -> Floats | None:
    """The least variance of a scalar score(Y) given X, averaged over X, that any coupling has, for each pair.

    At the optimum outcomes x own adjoining stretches of the quantiles of score(Y), in some order: mass that lay
    otherwise could be exchanged with profit. The best order is found exactly over all subsets of outcomes that may come
    first. None where there are too many outcomes for that.
    """
    possible = (p > 0).any(axis=0)
    masses = p[:, possible]
    count = masses.shape[1]
    if count > _MOST_FACTUAL_OUTCOMES:
        return None
    order = np.argsort(other_score, kind="stable")
    weights, values = q[:, order], other_score[order]
    edges = np.concatenate([np.zeros((len(q), 1)), weights.cumsum(axis=1)], axis=1)
    edges[:, -1] = np.inf
    sums = np.concatenate([np.zeros((len(q), 1)), (weights * values).cumsum(axis=1)], axis=1)

    def total_below(mass: Floats) -> Floats:
        """The sum of score(Y) over the lowest quantiles of this mass, for each pair."""
        place = (mass[:, None] >= edges[:, 1:]).sum(axis=1)
        rows = np.arange(len(mass))
        return sums[rows, place] + (mass - edges[rows, place]) * values[place]

    subsets = np.arange(1 << count)
    below = np.stack([masses @ ((subset >> np.arange(count)) & 1) for subset in subsets], axis=1)
    totals = np.stack([total_below(below[:, subset]) for subset in subsets], axis=1)
    best = np.full((len(p), 1 << count), -np.inf)
    best[:, 0] = 0
    for subset in subsets[1:]:
        members = np.flatnonzero((subset >> np.arange(count)) & 1)
        before = subset & ~(1 << members)
        gained = totals[:, [subset]] - totals[:, before]
        share = masses[:, members]
        explained = np.where(share > 0, gained**2 / np.where(share > 0, share, 1), 0)
        best[:, subset] = (best[:, before] + explained).max(axis=1)
    return np.maximum((q * other_score**2).sum(axis=1) - best[:, -1], 0)


def least_given_one_outcome(
    p: Float[np.ndarray, "m k"], q: Float[np.ndarray, "m k"], other_score: Float[np.ndarray, " k"], outcome: int
) -> Floats:
    """The least variance of a scalar score(Y) given that X is this outcome, for each pair; often zero.

    The outcome may take any part of q's mass as large as its own. The best part lies nearest to its mean, so it is a
    stretch of adjoining scores of which at most one, at an end, is taken in part.
    """
    order = np.argsort(other_score, kind="stable")
    least = []
    for mass, weights in zip(p[:, outcome], q[:, order], strict=True):
        found = []
        for values, amounts in ((other_score[order], weights), (other_score[order][::-1], weights[::-1])):
            for first in range(len(values)):
                taken = filled(amounts[first:], mass)
                if taken.sum() >= mass * (1 - 1e-9):
                    share = taken / taken.sum()
                    found.append(float(share @ (values[first:] - share @ values[first:]) ** 2))
        least.append(min(found))
    return np.array(least)


@final
class ScoreProducts(AbstractLoss):
    """Inner products of the other world's centred scores: what `VarianceGivenSeen` computes with. No cost in itself."""

    other_score: Float[Array, "k d"]

    def __call__(self, log_p: LogProbs, log_q: LogProbs) -> Float[Array, "k k"]:
        """The matrix for one pair."""
        centred = self.other_score - (jnp.exp(log_q) @ self.other_score)[None, :]
        return centred @ centred.T


@final
class VarianceGivenSeen(AbstractObjective):
    """The variance of score(Y) given X, averaged over X ~ p; the matrix holds the scores' products.

    It is not linear in the joint law, since the mean that the variance is taken around is the coupling's own, so it
    is an objective and not a loss.
    """

    def __call__(
        self,
        coupling: AbstractSampler,
        log_p: LogProbs,
        log_q: LogProbs,
        loss: Float[Array, "k k"],
        *,
        key: PRNGKeyArray,
    ) -> Scalar:
        """The exact value for one pair."""
        assert isinstance(coupling, AbstractCoupling)
        joint = coupling._joint(log_p, log_q)
        possible = log_p > -jnp.inf
        explained = ((joint @ loss) * joint).sum(axis=1) * jnp.exp(-jnp.where(possible, log_p, 0))
        return joint.sum(axis=0) @ jnp.diag(loss) - jnp.where(possible, explained, 0).sum()


PANELS = ("joint-fixed", "joint-generalised", "counterfactual-fixed", "counterfactual-generalised")
_FIXED = ("independent", "gumbel-max", "inverse-cdf")
BY_SCORE = "comonotone by score"  # pairs quantiles of two scores, one for each world; in general no mechanism
_NOISE_KEY = 7_310  # of the perturbed pairs that everything is measured on; no training draws from it


def is_generalised(panel: str) -> bool:
    """Whether the pair is perturbed by noise on its logits, of scale one."""
    return panel.endswith("generalised")


def is_counterfactual(panel: str) -> bool:
    """Whether the factual outcome is known."""
    return panel.startswith("counterfactual")


def measure_fixed(trials: Trials, panel: str, *, as_published: bool, num_noisy: int) -> Result:
    """All couplings that are not learned, and the least that any coupling can have."""
    rows: dict[str, list[Split]] = {}
    optimum: list[Split | None] = []
    for index in range(len(trials)):
        with jax.enable_x64(True):
            problem = _Problem(trials, index, panel, as_published=as_published, num_noisy=num_noisy)
            fixed = named_couplings(_FIXED)
            if problem.is_scalar:
                fixed[BY_SCORE] = Comonotone(*(each[:, 0] for each in problem.scores))
            for name, coupling in fixed.items():
                rows.setdefault(name, []).append(problem.split(coupling))
            optimum.append(problem.least())
    result: Result = {name: _stored(splits) for name, splits in rows.items()}
    known = [each for each in optimum if each is not None]
    if len(known) == len(trials):
        result["optimal"] = _stored(known)
    return {"rows": result, "pair": trials.pair.tolist(), "overlap": trials.overlap.round(6).tolist()}


def measure_learned(
    couplings: Sequence[AbstractCoupling],
    members: Sequence[int],
    trials: Trials,
    panel: str,
    *,
    as_published: bool,
    num_noisy: int,
) -> Mapping[str, list[float] | None]:
    """One gadget or more for each trial; of several restarts on one pair the best, which training knows.

    Args:
        couplings: The trained gadgets.
        members: The trial of each.
        trials: All trials.
        panel: One of `PANELS`.
        as_published: Whether what is measured is the published quantity.
        num_noisy: Perturbed pairs for each trial.
    """
    found: dict[int, Split] = {}
    for index, coupling in zip(members, couplings, strict=True):
        with jax.enable_x64(True):
            problem = _Problem(trials, index, panel, as_published=as_published, num_noisy=num_noisy)
            split = problem.split(coupling)
        if index not in found or split.within < found[index].within:
            found[index] = split
    return _stored([found[index] for index in range(len(trials))])


class _Problem:
    """One trial in one panel: the pairs it is measured on, and which variance is asked for. In double precision."""

    def __init__(self, trials: Trials, index: int, panel: str, *, as_published: bool, num_noisy: int):
        log_p, log_q = trials.log_p[index][None], trials.log_q[index][None]
        if is_generalised(panel):  # the same perturbed pairs for all couplings
            noise = np.random.default_rng([_NOISE_KEY, index]).normal(size=(2, num_noisy, log_p.shape[1]))
            log_p, log_q = log_p + noise[0], log_q + noise[1]
        self.log_p, self.log_q = (jax.nn.log_softmax(jnp.asarray(each), axis=1) for each in (log_p, log_q))
        self.p, self.q = (np.exp(np.asarray(each)) for each in (self.log_p, self.log_q))
        self.scores = trials.score[index], trials.other_score[index]
        self.outcome = int(trials.outcome[index])
        self.is_known, self.as_published = is_counterfactual(panel), as_published

    @property
    def is_scalar(self) -> bool:
        """Whether the score is one number."""
        return self.scores[0].shape[1] == 1

    def split(self, coupling: AbstractCoupling) -> Split:
        """The variance under a coupling."""
        coupling.check_size(self.log_p.shape[1])
        if not self.is_known:
            squares = expected_losses(coupling, SquaredDifference(*self.scores), self.log_p, self.log_q)
            return over_everybody(np.asarray(squares), self.p, self.q, *self.scores)
        laws = np.asarray(_joints(coupling, self.log_p, self.log_q))
        if self.as_published:
            return given_one_outcome(laws, self.scores[1], self.outcome)
        return given_what_was_seen(laws, *self.scores)

    def least(self) -> Split | None:
        """The least variance within queries that any coupling has; None where it is not known.

        Between queries couplings differ only where the outcome is known, and there not by themselves: `between` is left
        out. As published it belongs to the value, so that with several queries the least value is not known.
        """
        if not self.is_known:
            squares = least_losses(SquaredDifference(*self.scores), self.log_p, self.log_q)
            return over_everybody(squares, self.p, self.q, *self.scores)
        if not self.is_scalar or (self.as_published and len(self.p) > 1):
            return None
        worth = self.scores[1][:, 0]
        if self.as_published:
            return Split(float(least_given_one_outcome(self.p, self.q, worth, self.outcome)[0]), 0.0)
        least = least_given_what_was_seen(self.p, self.q, worth)
        return None if least is None else Split(float(least.mean()), np.nan)


@eqx.filter_jit
def _joints(
    coupling: AbstractCoupling, log_p: Float[Array, "m k"], log_q: Float[Array, "m k"]
) -> Float[Array, "m k k"]:
    """Exact joint laws, a batch at a time so that memory stays bounded."""
    return jax.lax.map(lambda pair: coupling._joint(*pair), (log_p, log_q), batch_size=min(32, len(log_p)))


def _stored(splits: Sequence[Split]) -> dict[str, list[float] | None]:
    """The parts as JSON has them; None where the second part is not known."""
    unknown = any(np.isnan(each.between) for each in splits)
    between = None if unknown else [each.between for each in splits]
    return {"within": [each.within for each in splits], "between": between}
