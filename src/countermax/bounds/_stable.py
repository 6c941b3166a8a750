r"""The rows P(Y=. | X=x) that counterfactually stable couplings can have: a polymatroid, so sums and a greedy suffice.

Sort the outcomes by the ratio `r = q / p`. In a stable coupling mass stays where it is or moves to a strictly larger
ratio, and never between equal ratios: call those a group. Let `f_j` be the mass that moves from x to j.

**Which f are possible.** Take row x away. Outcome i supplies `p_i`, j demands `q_j - f_j` (x: `q_x - p_x + sum f`),
and i may serve j if they are equal or `r_i < r_j`. By Hall's theorem the rest can be completed if and only if no set
of demands exceeds its suppliers. A set whose largest group is G has as suppliers its own part A of G and all groups
before, so it demands most if it contains all of those: with `D = P - Q` the difference of the cumulative probabilities
over groups,

    sum of f after G, and over the rest of G  <=  D(before G) + (p - q)(A)   for parts A of groups G after x's own,
    sum of f                                  <=  D(before G) + (p - q)(A)   for parts A of x's group with x in them

(sets without x before or in its group hold by themselves, because ratios ascend). In a group whose ratio is below one
`p - q` is positive: A is empty, or x alone. In any other the worst A has the j with `f_j <= q_j - p_j`. So f is
possible if and only if

    0 <= f_j <= q_j,
    (p_x - q_x)+  <=  sum_j f_j  <=  p_x  and  D(x's group), less what only its peers could send,
    sum of f over groups after G, plus the part of each f_j above (q_j - p_j)+ within G  <=  limit(G),

for every group G after x's own, where `limit(G)` is D before G if its ratio is below one, and D after G if not.

**Why filling is optimal.** Split every `f_j` at `(q_j - p_j)+`. The sets that the limits are on are then nested, each
part has a limit of its own, and so the possible parts, but for the least sum, are a polymatroid: filling in the order
of any gain is optimal for every sum at once, and the most that a set of outcomes can take is the smallest of: all its
room, or one limit and the room outside of it. The least sum only says how far to fill. `docs/theorems.md` has the same
without groups: for all lower sets S with x in them, f outside of S is at most `P(S) - Q(S)`.

Everything below is in units of `p_x`. A row holds mass 1, so a room or a limit above 1 does not bind: all are cut
there, which changes no answer and keeps the digits of small ones.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from countermax._core.types import LogProbs, Outcome, Probs, Scalar


def ratio_tie(log_ratio: Any, log_p: Any) -> Any:
    """How far logarithms of ratios `q / p` may lie apart by rounding only, so that no mass moves between them.

    0.1 / 0.2 and 0.3 / 0.6 must be equal. Both logarithms are differences of logarithms of probabilities, which have as
    many digits as their sizes leave them. Two ratios are equal if they differ by no more than the larger of their two.
    Both arguments are finite, and of NumPy or of JAX.
    """
    return np.finfo(log_p.dtype).eps * (64 * (1 + abs(log_ratio)) + 4 * abs(log_p))


class _Rows(NamedTuple):
    """What x may send where; arrays run over the outcomes by ascending ratio, amounts are in units of `p_x`."""

    order: Int[Array, " k"]
    position: Int[Array, ""]  # of x
    after: Bool[Array, " k"]  # in a group after x's
    first: Int[Array, " k"]  # position of the first outcome of the same group
    last: Int[Array, " k"]
    free: Float[Array, " k"]  # (q_j - p_j)+: room that does not count towards its own group's limit
    bound: Float[Array, " k"]  # min(p_j, q_j): room that does
    limit: Float[Array, " k"]
    least: Scalar  # of the sum of f
    most: Scalar


@jax.jit
def stable_extremes(log_p: LogProbs, log_q: LogProbs, x: Outcome) -> tuple[Probs, Probs]:
    """The least and the largest P(Y=j | X=x) for each j, in O(K log K)."""
    rows = _rows(log_p, log_q, x)
    size = log_p.size
    room = jnp.where(rows.after, rows.free + rows.bound, 0)

    def before_group(running: Float[Array, " k"]) -> Float[Array, " k"]:
        return jnp.where(rows.first > 0, running[rows.first - 1], jnp.inf)

    limit = jnp.where(rows.after, rows.limit, jnp.inf)
    passing = before_group(jax.lax.cummin(limit))
    upper = jnp.minimum(jnp.minimum(passing, rows.most), rows.free + jnp.minimum(rows.bound, rows.limit))

    # The least f_j is what the others cannot take. How much they can is the smallest cut of the nested sets.
    # Sums without j are added up on both sides of it: subtracting it from the whole would lose the digits of the rest.
    positions = jnp.arange(size)
    free = jnp.where(rows.after, rows.free, 0)
    starts, ends = positions == rows.first, positions == rows.last
    free_until, free_from = _sums_within(free, starts), _sums_within(free[::-1], ends[::-1])[::-1]
    group_free = free_until[rows.last]
    free_of_peers = jnp.where(starts, 0, jnp.roll(free_until, 1)) + jnp.where(ends, 0, jnp.roll(free_from, -1))
    room_before = jnp.concatenate([jnp.zeros(1, room.dtype), jnp.cumsum(room)[:-1]])
    group_cut = jnp.where(rows.after, rows.limit + room_before[rows.first], jnp.inf)
    cut = group_cut + group_free
    later_cut = _least_cut_later(room, jnp.where(rows.after & starts, rows.limit + group_free, jnp.inf))
    most = jnp.minimum(jnp.minimum(rows.most, cut.min()), room.sum())
    others = jnp.minimum(
        jnp.minimum(rows.most, before_group(jax.lax.cummin(cut))),
        jnp.minimum(group_cut + free_of_peers, room_before + later_cut),
    )
    lower = jnp.maximum(rows.least - others, 0)

    lower = jnp.where(rows.after, lower, 0).at[rows.position].set(1 - most)
    upper = jnp.where(rows.after, upper, 0).at[rows.position].set(1 - rows.least)
    upper = jnp.clip(upper, 0, 1)
    lower = jnp.clip(lower, 0, upper)
    empty = jnp.zeros(size, log_p.dtype)
    return empty.at[rows.order].set(lower), empty.at[rows.order].set(upper)


@jax.jit
def stable_largest_mean(log_p: LogProbs, log_q: LogProbs, x: Outcome, score: Float[Array, " k"]) -> Scalar:
    """The largest E[score(Y) | X=x], in O(K^2) time and O(K) memory: the best outcomes are filled first."""
    rows = _rows(log_p, log_q, x)
    gain = jnp.where(rows.after, score[rows.order] - score[x], -jnp.inf)
    positions = jnp.arange(log_p.size)

    def fill(state: tuple[Float[Array, " k"], Scalar], j: Outcome) -> tuple[tuple[Float[Array, " k"], Scalar], Scalar]:
        limit, sent = state
        wanted = jnp.where(gain[j] > 0, rows.most, rows.least) - sent
        on_the_way = rows.after & (positions < rows.first[j])
        in_group = rows.after & (positions >= rows.first[j]) & (positions <= rows.last[j])
        passing = jnp.where(on_the_way, limit, jnp.inf).min()
        allowed = jnp.minimum(jnp.minimum(wanted, passing), rows.free[j] + jnp.minimum(rows.bound[j], limit[j]))
        amount = jnp.where(rows.after[j], jnp.maximum(allowed, 0), 0)
        counted = jnp.maximum(amount - rows.free[j], 0)
        limit = limit - jnp.where(on_the_way, amount, 0) - jnp.where(in_group, counted, 0)
        return (limit, sent + amount), amount

    best_first = jnp.argsort(-gain)
    _, amounts = jax.lax.scan(fill, (rows.limit, jnp.zeros((), log_p.dtype)), best_first)
    gains = jnp.where(rows.after, gain, 0)[best_first]
    return score[x] + amounts @ gains


def _sums_within(values: Float[Array, " k"], starts: Bool[Array, " k"]) -> Float[Array, " k"]:
    """Cumulative sums that begin again wherever a group starts."""

    def add(left: tuple[Array, Array], right: tuple[Array, Array]) -> tuple[Array, Array]:
        return left[0] | right[0], jnp.where(right[0], right[1], left[1] + right[1])

    _, sums = jax.lax.associative_scan(add, (starts, values))
    return sums


def _least_cut_later(room: Float[Array, " k"], cut: Float[Array, " k"]) -> Float[Array, " k"]:
    """The least, over all later places, of the room on the way there plus the cut there, or of all later room.

    Looking back from one place to the one before, the least `b` becomes `min(room + b, cut)`; such maps compose.
    """

    def compose(later: tuple[Array, Array], here: tuple[Array, Array]) -> tuple[Array, Array]:
        return here[0] + later[0], jnp.minimum(here[0] + later[1], here[1])

    from_here = jnp.minimum(*jax.lax.associative_scan(compose, (room, cut), reverse=True))
    return jnp.concatenate([from_here[1:], jnp.zeros(1, room.dtype)])


@jax.jit
def _rows(log_p: LogProbs, log_q: LogProbs, x: Outcome) -> _Rows:
    size = log_p.size
    nowhere = (log_p == -jnp.inf) & (log_q == -jnp.inf)
    log_ratio = jnp.where(nowhere, jnp.inf, jnp.where(nowhere, 0, log_q) - jnp.where(nowhere, 0, log_p))
    order = jnp.argsort(log_ratio)
    log_ratio, log_p, log_q = log_ratio[order], log_p[order], log_q[order]
    position = jnp.argmax(order == x)

    finite = jnp.where(jnp.isfinite(log_ratio), log_ratio, 0)
    tie = ratio_tie(finite, jnp.where(jnp.isfinite(log_ratio), log_p, 0))
    apart = log_ratio[1:] - log_ratio[:-1] > jnp.maximum(tie[1:], tie[:-1])
    starts = jnp.concatenate([jnp.ones(1, bool), apart])
    positions = jnp.arange(size)
    first = jax.lax.cummax(jnp.where(starts, positions, 0))
    ends = jnp.concatenate([starts[1:], jnp.ones(1, bool)])
    last = jax.lax.cummin(jnp.where(ends, positions, size - 1), reverse=True)

    # So far above 1 that nothing binds, even where two such weights differ in the last digit only, yet below overflow.
    largest = 40 if log_p.dtype.itemsize == 4 else 300
    weight_p = jnp.exp(jnp.minimum(log_p - log_p[position], largest))
    weight_q = jnp.exp(jnp.minimum(log_q - log_p[position], largest))
    rises = finite > 0
    more, less = -weight_q * jnp.expm1(-jnp.where(rises, finite, 0)), weight_p * jnp.expm1(jnp.where(rises, 0, finite))
    gained = jnp.where(jnp.isfinite(log_ratio), jnp.where(rises, more, less), weight_q - weight_p)
    # A change of one part in e^40 of such a weight may be of any size. Its logarithm says which, and has no gradient.
    log_weight, differs = jnp.maximum(log_p, log_q) - log_p[position], finite != 0
    log_change = log_weight + jnp.log(-jnp.expm1(-jnp.where(differs, jnp.abs(finite), 1)))
    change = jnp.where(differs, jnp.sign(finite) * jnp.exp(jnp.minimum(log_change, 0)), 0)
    gained = jnp.where(jnp.isfinite(log_ratio) & (log_weight > largest), jax.lax.stop_gradient(change), gained)
    gained = _with_hidden(jnp.clip(gained, -1, 1), log_p, log_q)
    # D is summed from the end where all terms have one sign: from the left below ratio one, from the right above.
    from_left = jnp.cumsum(-gained)
    from_right = jnp.concatenate([jax.lax.cumsum(gained, reverse=True)[1:], jnp.zeros(1, gained.dtype)])
    ahead = jnp.maximum(jnp.where(log_ratio <= 0, from_left, from_right), 0)
    through = ahead[last]
    until = jnp.where(first > 0, ahead[first - 1], 0)
    # A group whose ratio is below one loses. Sums that were cut at 1 cannot tell, nor single ratios next to one.
    below = log_ratio[first] + log_ratio[last] < 0

    peers_keep = jnp.where(below[position], until[position] - gained[position], through[position])
    return _Rows(
        order=order,
        position=position,
        after=first > position,
        first=first,
        last=last,
        free=jnp.maximum(gained, 0),
        bound=jnp.minimum(jnp.minimum(weight_p, weight_q), 1),
        limit=jnp.minimum(jnp.where(below, until, through), 1),
        least=jnp.maximum(-gained[position], 0),
        most=jnp.minimum(peers_keep, 1),
    )


def _with_hidden(gained: Float[Array, " k"], log_p: LogProbs, log_q: LogProbs) -> Float[Array, " k"]:
    """What each outcome gains, with what its logarithm cannot show.

    Gains are as large in sum as losses. Where they are not, outcomes beside which all others are rare have gained or
    lost the rest: a logarithm near zero knows them to sixteen digits of one, not of a rare outcome.
    """
    gains = jnp.minimum(gained.clip(0).sum(), 1)
    losses = jnp.minimum((-gained).clip(0).sum(), 1)
    rounding = 8 * np.finfo(gained.dtype).eps * (8 + gained.size) * jnp.maximum(gains, losses)
    hidden = jnp.where(jnp.abs(losses - gains) > rounding, losses - gains, 0)
    share = jax.nn.softmax(jnp.maximum(log_p, log_q))
    return gained + hidden * share
