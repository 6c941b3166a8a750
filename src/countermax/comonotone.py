"""The exact algebra of the comonotone coupling: two lines of outcomes, cut by one uniform number. Pure functions.

Outcomes lie side by side on [0, 1), each as wide as it is likely; a number picks the outcome that it falls on, in
either world. So P(X=i, Y=j) is the length that interval i of one line shares with interval j of the other. The
functions take normalised log-probabilities *in the order of the line* and check nothing; `countermax.InverseCDF` is the
checked entrance. They are compiled, so that a question that asks several lines is traced once.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from countermax._core.types import Joint, LogProbs, Outcome, Probs, Scalar

_FAR = {4: 60.0, 8: 600.0}  # by a number's bytes: logarithm of what is as good as infinite, yet no overflow


@jax.jit
def joint(log_p: LogProbs, log_q: LogProbs) -> Joint:
    """P(X=i, Y=j) for all places i and j of the two lines."""
    rows = jax.vmap(row, (None, None, 0))(log_p, log_q, jnp.arange(log_p.size))
    return jnp.exp(log_p)[:, None] * rows


@jax.jit
def row(log_p: LogProbs, log_q: LogProbs, position: Outcome) -> Probs:
    """Which share of the interval at `position` each of the other world's intervals covers, in O(K).

    That takes the interval on which x's begins, and how far it reaches beyond that point; those after it are covered
    one after the other until x's own ends. The line can be read from either end: the one is taken from which less mass
    lies on the way to x, so that fewer digits are lost.
    """
    left, right = _on_the_way(log_p, log_q, position), _on_the_way(log_p[::-1], log_q[::-1], log_p.size - 1 - position)
    turned = right < left
    shares = _row_from_left(
        jnp.where(turned, log_p[::-1], log_p),
        jnp.where(turned, log_q[::-1], log_q),
        jnp.where(turned, log_p.size - 1 - position, position),
    )
    return jnp.where(turned, shares[::-1], shares)


def expected_squared_difference(
    log_p: LogProbs,
    log_q: LogProbs,
    score_p: Float[Array, " k"],
    score_q: Float[Array, " k"],
    *,
    opposed: bool = False,
) -> Scalar:
    """E[(score_p(X) - score_q(Y))^2] when both scores rise along their lines, in O(K log K): the least of any coupling.

    Args:
        log_p: Log-probabilities of the factual world, its outcomes in any order.
        log_q: Those of the other world.
        score_p: One number for each outcome of the factual world.
        score_q: The same for the other world.
        opposed: Whether the other world's line runs the other way; that gives the most of any coupling.
    """
    here, there = jnp.argsort(score_p), jnp.argsort(-score_q if opposed else score_q)
    ends_here, ends_there = jnp.cumsum(jnp.exp(log_p)[here]), jnp.cumsum(jnp.exp(log_q)[there])
    edges = jnp.sort(jnp.concatenate([ends_here, ends_there]))
    widths = jnp.diff(edges, prepend=jnp.zeros(1, edges.dtype))
    middles = edges - widths / 2
    last = log_p.size - 1
    first = score_p[here][jnp.minimum(jnp.searchsorted(ends_here, middles), last)]
    second = score_q[there][jnp.minimum(jnp.searchsorted(ends_there, middles), last)]
    return widths @ (first - second) ** 2


def _row_from_left(log_p: LogProbs, log_q: LogProbs, position: Outcome) -> Probs:
    """The shares of one interval, found from the left end of the line.

    In units of x's width nothing underflows. Every share is cut at the width of what covers it, and together they are
    one: whatever rounding did to the place where x begins, the row stays within the bounds of all couplings.
    """
    places = jnp.arange(log_p.size)
    possible = log_q > -jnp.inf
    log_width = jnp.where(log_p[position] > -jnp.inf, log_p[position], 0)  # an impossible x has a row too, of no weight
    ends, log_unit = _ends_from(log_p, log_q, position, log_width)
    beyond_start = possible & (ends > 0)
    start = jnp.where(beyond_start.any(), jnp.argmax(beyond_start), jnp.where(possible, places, 0).max())
    room = jnp.where(possible, jnp.exp(jnp.minimum(jnp.where(possible, log_q, 0) - log_width, 0)), 0)
    far = _FAR[log_p.dtype.itemsize]
    reach = jnp.clip(ends[start] * jnp.exp(jnp.minimum(log_unit - log_width, far)), 0, room[start])
    ahead = jnp.where(places == start, reach, jnp.where(places > start, room, 0))
    before = _before(ahead)
    covered = jnp.where(before < 1, jnp.where(before + ahead < 1, ahead, 1 - before), 0)
    # At the end of the line rounding may leave a little of x uncovered. It belongs to the intervals before.
    left = jnp.maximum(1 - covered.sum(), 0)
    behind = jnp.where(places == start, room - reach, jnp.where(places < start, room, 0))
    nearer = _before(behind[::-1])[::-1]
    return covered + jnp.clip(left - nearer, 0, behind)


def _ends_from(
    log_p: LogProbs, log_q: LogProbs, position: Outcome, log_width: Scalar
) -> tuple[Float[Array, " k"], Scalar]:
    """How far right of x's beginning each of q's intervals ends, and the logarithm of the unit.

    Such a distance is the sum of the differences `q_k - p_k` on the way, less the intervals of p that are still to come
    before x. Equal outcomes leave nothing behind, not even rounding, so that rare outcomes between them meet their
    right partners; the largest difference is the unit. Where an interval of q reaches beyond x it does not matter by
    how much, so it is cut there, and cannot drown what came before.
    """
    places = jnp.arange(log_p.size)
    passed = places < position
    cut = jnp.minimum(log_q, _log_most(log_p, position))
    both = (log_p > -jnp.inf) & (cut > -jnp.inf)
    log_ratio = jnp.where(both, cut, 0) - jnp.where(both, log_p, 0)
    larger = jnp.maximum(log_p, cut)
    differs = passed & (larger > -jnp.inf) & (log_p != cut)
    share = jnp.where(both, -jnp.sign(log_ratio) * jnp.expm1(-jnp.abs(log_ratio)), jnp.where(cut > log_p, 1, -1))
    size = jnp.log(jnp.where(differs, jnp.abs(share), 1)) + jnp.where(differs, larger, -jnp.inf)
    log_unit = jax.lax.stop_gradient(jnp.maximum(size.max(), log_width))
    far = _FAR[log_p.dtype.itemsize]

    def in_units(logs: LogProbs, counted: Bool[Array, " k"]) -> Float[Array, " k"]:
        counted = counted & (logs > -jnp.inf)
        return jnp.where(counted, jnp.exp(jnp.minimum(jnp.where(counted, logs, 0) - log_unit, far)), 0)

    differences = jnp.where(differs, share, 0) * in_units(larger, differs)
    still_to_come = _before(in_units(log_p, passed)[::-1])[::-1]
    return jnp.cumsum(differences + in_units(cut, ~passed)) - still_to_come, log_unit


def _on_the_way(log_p: LogProbs, log_q: LogProbs, position: Outcome) -> Scalar:
    """The logarithm of the largest mass that is passed from the left end of the line to the interval at `position`.

    Outcomes whose logs are equal may still differ by what the logs cannot show, so they count, but for less.
    """
    log_p, log_q = jax.lax.stop_gradient((log_p, log_q))
    mass = jnp.maximum(log_p, jnp.minimum(log_q, _log_most(log_p, position)))
    mass = mass - jnp.where(log_p == log_q, np.log(8), 0).astype(mass.dtype)
    return jnp.where(jnp.arange(log_p.size) < position, mass, -jnp.inf).max()


def _log_most(log_p: LogProbs, position: Outcome) -> Scalar:
    """The logarithm of no less than the mass from the left end of the line through the interval at `position`."""
    largest = jnp.where(jnp.arange(log_p.size) <= position, jax.lax.stop_gradient(log_p), -jnp.inf).max()
    return largest + np.log(1 + log_p.size)


def _before(values: Float[Array, " k"]) -> Float[Array, " k"]:
    """The sum of all values before each one."""
    return jnp.concatenate([jnp.zeros(1, values.dtype), jnp.cumsum(values)[:-1]])


def _flat_where_empty(cumulative: Float[Array, " k"], possible: Bool[Array, " k"]) -> Float[Array, " k"]:
    """A cumulative sum that never falls, and does not move at all over impossible outcomes.

    Sums in parallel do neither to the last digit, and the last digit would let an impossible outcome appear.
    """
    return jax.lax.cummax(jnp.where(possible, cumulative, 0))
