"""Variances of an effect, the other world's score minus the factual one's, and the least that any coupling can have."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from countermax.bounds import filled

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
