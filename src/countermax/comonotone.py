"""The exact algebra of the comonotone coupling: two lines of outcomes, cut by one uniform number. Pure functions.

Outcomes lie side by side on [0, 1), each as wide as it is likely; a number picks the outcome that it falls on, in
either world. So P(X=i, Y=j) is the length that interval i of one line shares with interval j of the other. The
functions take normalised log-probabilities *in the order of the line* and check nothing; `countermax.InverseCDF` is the
checked entrance. They are compiled, so that a question that asks several lines is traced once.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from countermax._core.types import Joint, LogProbs, Outcome, Probs, Scalar


@jax.jit
def joint(log_p: LogProbs, log_q: LogProbs) -> Joint:
    """P(X=i, Y=j) for all places i and j of the two lines."""
    rows = jax.vmap(row, (None, None, 0))(log_p, log_q, jnp.arange(log_p.size))
    return jnp.exp(log_p)[:, None] * rows


@jax.jit
def row(log_p: LogProbs, log_q: LogProbs, position: Outcome) -> Probs:
    """Which part of the interval at `position` each of the other world's intervals covers, in O(K).

    That takes the distance from where x's interval begins to where each of the others ends. The last possible
    outcome takes what is left: whatever rounding did, the parts add up to one.
    """
    places = jnp.arange(log_p.size)
    distance = _distances(log_p, log_q, position)
    width = jnp.exp(log_p[position])
    inside = (distance > 0) & (distance < width)
    log_fraction = jnp.log(jnp.where(inside, distance, 1)) - jnp.where(inside, log_p[position], 0)
    # Where the width underflows, so may the distance; it is then as far as x itself reaches, or not even there.
    beyond = (distance > 0) | ((distance >= width) & (places >= position))
    fraction = jnp.where(inside, jnp.exp(log_fraction), jnp.where(beyond, 1, 0))
    possible = log_q > -jnp.inf
    fraction = jnp.where(places >= jnp.where(possible, places, 0).max(), 1, fraction)
    return jnp.diff(flat_where_empty(fraction, possible), prepend=jnp.zeros(1, fraction.dtype))


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


def _distances(log_p: LogProbs, log_q: LogProbs, position: Outcome) -> Float[Array, " k"]:
    """From the beginning of p's interval at `position` to the end of each of q's, as exactly as the logs allow.

    Such a distance is how far the two worlds have drifted apart somewhere on the line, plus the intervals from there on
    that lie between. The drift is a sum of differences `q_k - p_k`: equal outcomes leave nothing behind, not even
    rounding, so that rare outcomes between them meet their right partners. It can be summed from either end and looked
    at in either of two places; the way that passes the least mass has lost the fewest digits.
    """
    probs_p, probs_q = jnp.exp(log_p), jnp.exp(log_q)
    both = (log_p > -jnp.inf) & (log_q > -jnp.inf)
    log_ratio = jnp.where(both, log_q, 0) - jnp.where(both, log_p, 0)
    falls = log_ratio <= 0
    less, more = (
        probs_p * jnp.expm1(jnp.where(falls, log_ratio, 0)),
        probs_q * jnp.expm1(-jnp.where(falls, 0, log_ratio)),
    )
    change = jnp.where(both, jnp.where(falls, less, -more), probs_q - probs_p)
    # Outcomes whose logs are equal may still differ by what the logs cannot show, so they count, but for less.
    mass = jax.lax.stop_gradient(jnp.where(log_p == log_q, 0.125, 1) * (probs_p + probs_q))

    def drift(last: Int[Array, " n"] | Int[Array, ""]) -> tuple[Array, Array]:
        """How much more q than p there is up to and including `last`, and the mass that was passed to find out."""
        zero = jnp.zeros(1, change.dtype)
        (left, passed), (right, passed_right) = (
            (jnp.concatenate([zero, jnp.cumsum(each)])[last + 1] for each in (change, mass)),
            (jnp.concatenate([jax.lax.cumsum(each, reverse=True), zero])[last + 1] for each in (change, mass)),
        )
        return jnp.where(passed <= passed_right, left, -right), jnp.minimum(passed, passed_right)

    places = jnp.arange(log_p.size)

    def walk(probs: Probs) -> Float[Array, " k"]:
        """From the beginning of the interval at `position` to the end of each other one, in one world."""
        onwards = jnp.cumsum(jnp.where(places >= position, probs, 0))
        back = jax.lax.cumsum(jnp.where(places < position, probs, 0), reverse=True)
        return onwards - jnp.concatenate([back[1:], jnp.zeros(1, back.dtype)])

    walk_p, walk_q = walk(probs_p), walk(probs_q)
    drift_here, passed_here = drift(position - 1)
    drift_there, passed_there = drift(places)
    from_here = passed_here + jnp.abs(walk_q) <= passed_there + jnp.abs(walk_p)
    return jnp.where(from_here, drift_here + walk_q, drift_there + walk_p)


def flat_where_empty(cumulative: Float[Array, " k"], possible: Bool[Array, " k"]) -> Float[Array, " k"]:
    """A cumulative sum that never falls, and does not move at all over impossible outcomes.

    Sums in parallel do neither to the last digit, and the last digit would let an impossible outcome appear.
    """
    return jax.lax.cummax(jnp.where(possible, cumulative, 0))
