r"""The exact algebra of the Gumbel-max coupling: pure functions, no noise.

Gumbel-max is an exponential race. With `E_k ~ Exp(1)` shared by both worlds, `X = argmin E_k / p_k` and
`Y = argmin E_k / q_k`. Write `a` and `b` for the two winning times. For `i != j` the density of "X=i at a, Y=j at b" is
`p_i q_j exp(-sum_k max(p_k a, q_k b))`, wherever i's arrival at `a` does not win the other world, nor j's at `b` this
one. In polar form, with `u = b / (a + b)`, the radius integrates out and leaves

    P(X=i, Y=j) = p_i q_j max(0, F(t_i) - F(t_j)),        t_k = p_k / (p_k + q_k),
    F(t) = integral_0^t du / M(u)^2,                      M(u) = sum_k max((1-u) p_k, u q_k),
    P(X=Y=i)    = p_i (1 - t_i) / M(t_i).

`M` is piecewise linear with a kink at every `t_k`, so on each segment `[a, b]` between kinks the integral is
`(b - a) / (M(a) M(b))`: one sort and a few cumulative sums give everything. `1/2 <= M <= 1`, so nothing overflows.

The worlds may share only part of their clocks. If each outcome has a shared clock of rate `s` and, in each world, one
of rate `1 - s`, and the first to ring counts, the same integral, over `M(u) = 1 - s + s sum_k max((1-u) p_k, u q_k)`,
gives

    P(X=i, Y=j) = p_i q_j [(1-s)^2 F(1) + s (1-s) (F(t_i) + F(1) - F(t_j)) + s^2 max(0, F(t_i) - F(t_j))],
    P(X=Y=i)    = p_i q_i (1-s) F(1) + s p_i (1 - t_i) / M(t_i):

both winners rang on clocks of their own, one of them did, none did. `s = 0` is independence, `s = 1` the race above;
for that `shared` is None, and nothing more is computed.

All functions take *normalised* log-probabilities and check nothing; `countermax.GumbelMax` is the checked entrance.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from countermax._core.types import Joint, LogProbs, Outcome, Probs, Scalar


class _Course(NamedTuple):
    """The race after its one sort: outcomes in the order of their shares `t`."""

    order: Int[Array, " k"]
    share: Float[Array, " k"]  # t_k, ascending
    clock: Float[Array, " k"]  # F(t_k)
    stay: Float[Array, " k"]  # (1 - t_k) / M(t_k), which is P(Y=k | X=k) where all clocks are shared
    rest: Float[Array, " k"] | None  # F(1) - F(t_k), where not all are


@jax.jit
def joint(log_p: LogProbs, log_q: LogProbs, shared: Scalar | None = None) -> Joint:
    """P(X=i, Y=j) for all i and j, in O(K log K + K^2).

    Args:
        log_p: Log-probabilities of the factual world.
        log_q: Log-probabilities of the other world.
        shared: Rate of the shared clocks, from 0 to 1; None where all are shared.
    """
    _, share, clock, stay, rest = _by_outcome(_course(log_p, log_q, shared))
    probs_p, probs_q = jnp.exp(log_p), jnp.exp(log_q)
    head_start = jnp.maximum(clock[:, None] - clock[None, :], 0)
    moved = jnp.where(share[:, None] > share[None, :], probs_p[:, None] * probs_q[None, :] * head_start, 0)
    if shared is None or rest is None:
        return moved + jnp.diag(probs_p * stay)
    own = probs_p[:, None] * probs_q[None, :] * _own_clocks(shared, clock[:, None], rest[:, None], rest[None, :])
    return own + shared**2 * moved + shared * jnp.diag(probs_p * stay)


@jax.jit
def row(log_p: LogProbs, log_q: LogProbs, x: Outcome, shared: Scalar | None = None) -> Probs:
    """P(Y=. | X=x) in O(K log K) time and O(K) memory; needs no division, so it holds for the rarest `x` too."""
    _, share, clock, stay, rest = _by_outcome(_course(log_p, log_q, shared))
    head_start = jnp.maximum(clock[x] - clock, 0)
    moved = jnp.where(share[x] > share, jnp.exp(log_q) * head_start, 0)
    if shared is None or rest is None:
        return moved.at[x].set(stay[x])
    own = jnp.exp(log_q) * _own_clocks(shared, clock[x], rest[x], rest)
    return own + (shared**2 * moved).at[x].set(shared * stay[x])


def agreement_by_outcome(log_p: LogProbs, log_q: LogProbs) -> Probs:
    """P(X=Y=i) for all i: Proposition 1 of Lorberbom et al. (2021)."""
    stay = _by_outcome(_course(log_p, log_q)).stay
    return jnp.exp(log_p) * stay


def agreement(log_p: LogProbs, log_q: LogProbs) -> Scalar:
    """P(X=Y) in O(K log K)."""
    return agreement_by_outcome(log_p, log_q).sum()


def expected_squared_difference(
    log_p: LogProbs,
    log_q: LogProbs,
    score_p: Float[Array, " k"],
    score_q: Float[Array, " k"],
    shared: Scalar | None = None,
) -> Scalar:
    """E[(score_p(X) - score_q(Y))^2] in O(K log K), without a matrix.

    A pair (i, j) with `t_j < t_i` is weighted by the segments between the two shares. Summing over segments first
    leaves, for each, all outcomes behind it against all before it, and a squared difference splits into the moments of
    both sides. Every term is non-negative, so a small answer is not the difference of two large ones.
    """
    order, _, clock, stay, rest = _course(log_p, log_q, shared)
    centre = jnp.exp(log_p) @ score_p  # moments about a common centre lose the fewest digits
    score_p, score_q = (score_p - centre)[order], (score_q - centre)[order]
    weight_p, weight_q = jnp.exp(log_p)[order], jnp.exp(log_q)[order]

    def behind(power: int) -> Float[Array, " k"]:
        return jax.lax.cumsum(weight_p * score_p**power, reverse=True)

    def ahead(power: int) -> Float[Array, " k"]:
        return _shift(jnp.cumsum(weight_q * score_q**power))

    moved = behind(2) * ahead(0) - 2 * behind(1) * ahead(1) + behind(0) * ahead(2)
    stayed = weight_p * stay * (score_p - score_q) ** 2
    segment = jnp.maximum(clock - _shift(clock), 0)
    among_shared = (segment * jnp.maximum(moved, 0)).sum()
    if shared is None or rest is None:
        return among_shared + stayed.sum()

    def apart(weight: Float[Array, " k"], score: Float[Array, " k"], moments: list[Scalar]) -> Scalar:
        """Squared differences from an independent world with these moments."""
        return (weight * jnp.maximum(score**2 * moments[0] - 2 * score * moments[1] + moments[2], 0)).sum()

    of_p, of_q = (
        [(weight * score**power).sum() for power in range(3)]
        for weight, score in ((weight_p, score_p), (weight_q, score_q))
    )
    own, total = 1 - shared, clock[-1] + rest[-1]
    one_own = apart(weight_p * clock, score_p, of_q) + apart(weight_q * rest, score_q, of_p)
    both_own = total * apart(weight_p, score_p, of_q)
    return own**2 * both_own + shared * own * one_own + shared**2 * among_shared + shared * stayed.sum()


def rows_of_cells(
    log_p: LogProbs, log_split: Float[Array, "k k"], log_cells: Float[Array, "k k"]
) -> Float[Array, "k k"]:
    """P(Y=y | X=x) for all x and y when the runners are the cells of a square: X is the winner's row, Y its column.

    Cell (a, b) runs with weight `p_a split[a, b]` in the first race and `cells[a, b]` in the second. Summing the closed
    form over the cells of row x and of column y looks like K^4 terms. Sorted by share, a cell needs only the cumulative
    weights (and weights times clock) of each column before it: O(K^2 log K + K^3).

    Args:
        log_p: Log-probabilities of the rows in the first race.
        log_split: Log-shares of each row's cells there; normalised along the second axis.
        log_cells: Log-weights of all cells in the second race; normalised over both axes.
    """
    size = log_p.size
    order, _, clock, stay, _ = _course((log_p[:, None] + log_split).ravel(), log_cells.ravel())
    weight = jnp.exp(log_split.ravel())[order]
    column = jax.nn.one_hot(order % size, size, dtype=log_p.dtype)
    arrived = column * jnp.exp(log_cells.ravel())[order][:, None]
    ahead, ahead_times_clock = jnp.cumsum(arrived, axis=0), jnp.cumsum(arrived * clock[:, None], axis=0)
    moved = jnp.maximum(clock[:, None] * ahead - ahead_times_clock, 0)
    return jax.ops.segment_sum(weight[:, None] * (moved + column * stay[:, None]), order // size, size)


@jax.jit
def _course(log_p: LogProbs, log_q: LogProbs, shared: Scalar | None = None) -> _Course:
    nowhere = (log_p == -jnp.inf) & (log_q == -jnp.inf)
    # Such an outcome has no share; it weighs nothing, so any constant will do, as long as it carries no gradient.
    log_odds = jnp.where(nowhere, 0, jnp.where(nowhere, 0, log_p) - jnp.where(nowhere, 0, log_q))
    order = jnp.argsort(log_odds)
    share, other_share = jax.nn.sigmoid(log_odds[order]), jax.nn.sigmoid(-log_odds[order])
    weight_p, weight_q = jnp.exp(log_p)[order], jnp.exp(log_q)[order]
    behind, ahead = jax.lax.cumsum(weight_p, reverse=True), _shift(jnp.cumsum(weight_q))

    # The integral does not change when a kink moves, since both sides meet there: only its upper limit counts. Holding
    # the kinks still says so to the derivative, which would otherwise be the difference of two equal numbers and, at
    # outcomes of vanishing weight, nothing but amplified rounding.
    kink, other_kink = jax.lax.stop_gradient((share, other_share))
    before, other_before = _shift(kink), _shift(other_kink, first=1.0)

    def some(rate: Float[Array, " k"]) -> Float[Array, " k"]:
        """M, of which only a part is shared."""
        return rate if shared is None else (1 - shared) + shared * rate

    segment = (kink - before) / (
        some(other_before * behind + before * ahead) * some(other_kink * behind + kink * ahead)
    )
    # At u = t_k both terms of the maximum are equal for k itself: count it once, on p's side.
    total = some(other_share * behind + share * ahead)
    moved_kink = (share - kink) / jax.lax.stop_gradient(total) ** 2
    clock, stay = jnp.cumsum(segment) + moved_kink, other_share / total
    if shared is None:
        return _Course(order, share, clock, stay, None)
    every = weight_q.sum(keepdims=True)  # behind the last kink q's side is the larger one for all outcomes
    last = other_kink[-1:] / (some(kink[-1:] * every) * some(every))
    rest = jax.lax.cumsum(jnp.concatenate([segment[1:], last]), reverse=True) - moved_kink
    return _Course(order, share, clock, stay, rest)


def _own_clocks(
    shared: Scalar, clock: Float[Array, "..."], rest: Float[Array, "..."], other_rest: Float[Array, "..."]
) -> Float[Array, "..."]:
    """What X=i and Y=j weigh beside `p_i q_j` if one of them rang on a clock of its own, or both did.

    Args:
        shared: Rate of the shared clocks.
        clock: `F(t_i)`.
        rest: `F(1) - F(t_i)`.
        other_rest: `F(1) - F(t_j)`.
    """
    own = 1 - shared
    return own**2 * (clock + rest) + shared * own * (clock + other_rest)


def _by_outcome(course: _Course) -> _Course:
    """The same in the outcomes' own order."""
    columns = jnp.stack([each for each in course[1:] if each is not None])
    placed = jnp.zeros_like(columns).at[:, course.order].set(columns, unique_indices=True)
    share, clock, stay = placed[:3]
    return _Course(jnp.arange(share.size), share, clock, stay, placed[3] if course.rest is not None else None)


def _shift(values: Float[Array, " k"], *, first: float = 0.0) -> Float[Array, " k"]:
    """The value before each one, `first` where there is none."""
    return jnp.concatenate([jnp.full((1,), first, values.dtype), values[:-1]])
