r"""The exact algebra of nested Gumbel-max: outcomes in nests, whose noise is alike; pure functions, no noise.

Outcomes are the leaves of a tree of nests. A nest has a *dissimilarity* `t` in (0, 1], relative to the nest that holds
it; the product along the path from the root is its *scale* `l`, that of the root being 1. In a world with utilities `u`
the best utility of a nest is worth `U_n = l_n log sum_c exp(U_c / l_n)` over its children, and outcome i is chosen with
probability `pi_i(u)`, the product along its path of `exp((U_c - U_n) / l_n)`: the nested logit of McFadden (1978).
Noise that does so for all utilities at once is shared by all worlds.

Let two worlds have utilities `v` and `w` that share the noise, let `d = w - v`, and let S be by how much the best
utility rises. X = i and S <= s means that i beats all k by at least `max(v_k, w_k - s) - v_i`, so

    P(X=i, S <= s) = pi_i(u(s))  for s >= d_i, else 0,        u_k(s) = max(v_k, w_k - s):

an atom at `d_i`, which is those who stay, and a density, which splits into those who go to j by the derivative with
respect to `u_j`. With `a` over the nests that hold both i and j, from the root down to the last, and `o(a)` the nest
around `a` (`1 / l_o(root) = 0`),

    P(X=i, Y=i) = pi_i(u(d_i)),
    P(X=i, Y=j) = integral from d_i to d_j of  pi_i sum_a (1 / l_a - 1 / l_o(a)) P(j | a)  ds,       all at u(s).

Everything is analytic between two neighbouring `d_k`, and no term is negative. Within a nest all is written in shares:
with `A` the share in the first world of children that have arrived (`d_k <= s`), `B` that in the second world of those
that have not, and `D` by how much the nest's worth rises, `exp((U_n(s) - V_n) / l_n) = A + B exp(-(s - D) / l_n)`,
which lies between 1 and 2 times the larger of 1 and the exponential. So nothing overflows.

With all dissimilarities 1 this is the race of `countermax.race`. As they go to 0, it becomes a race between nests, then
one within the nest that is kept, and from a nest that is left the shares of the new one: `limit_rows`.

All functions take *normalised* log-probabilities and check nothing; `countermax.NestedGumbelMax` is the checked
entrance.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import NDArray

from countermax import race
from countermax._core.types import LogProbs, Probs

_MOST_NODES = 16  # of Gauss and Legendre, on a piece
_FEWER_NODES = {  # by the digits: where pieces are at most so wide, in units of the least scale, and there are many
    4: ((2, 0.1), (4, 1.0)),
    8: ((2, 4e-3), (3, 0.03), (5, 0.25)),
}
# Edges around a nest's own rise, in its scales. After it all fades within 40; before it an outcome's chance grows at a
# rate that is the slower the less alike outcomes are, so that pieces there double until one of them fits.
_NEAR = np.concatenate([-(2.0 ** np.arange(11, 2, -1)), [-3.5, 0.0, 3.5, 8.0, 14.0, 24.0, 40.0]])
_WHOLE = 2**20  # numbers at once, which compile soonest
_BATCH = 2**15  # those of a batch where there are more, which a core has at hand


class Paths(NamedTuple):
    """The nests around each nest; 0 is the root, and `len(depth)` stands for none."""

    depth: NDArray[np.int32]
    around: NDArray[np.int32]
    """[depth, nest]: the nest at that depth that holds it, or is it."""


@lru_cache(maxsize=256)
def paths_of(parents: tuple[int, ...]) -> Paths:
    """The paths from the root; nest n + 1 lies in `parents[n]`, and nests come by their depth."""
    depth = np.zeros(len(parents) + 1, np.int32)
    for nest, parent in enumerate(parents, 1):
        depth[nest] = depth[parent] + 1
    around = np.full((depth.max() + 1, len(depth)), len(depth), np.int32)
    around[0] = 0
    for nest, parent in enumerate(parents, 1):
        around[: depth[nest], nest] = around[: depth[nest], parent]
        around[depth[nest], nest] = nest
    return Paths(depth, around)


class Tree(NamedTuple):
    """Outcomes in nests."""

    home: Int[Array, " k"]
    """The nest of each outcome; 0, the root, for those that stand alone."""
    parents: tuple[int, ...]
    """The nest around each nest but the root, which is 0; nests come by their depth."""
    dissimilarity: Float[Array, " n"]
    """That of each nest but the root."""

    @property
    def paths(self) -> Paths:
        """The nests around each nest."""
        return paths_of(self.parents)

    @property
    def own(self) -> Float[Array, " m"]:
        """The dissimilarity of every nest; of the root, none."""
        return jnp.concatenate([jnp.zeros(1, self.dissimilarity.dtype), self.dissimilarity])

    @property
    def scale(self) -> Float[Array, " m"]:
        """The product of dissimilarities along the path, for every nest."""
        one = jnp.ones(1, self.dissimilarity.dtype)
        return jnp.concatenate([one, self.dissimilarity, one])[self.paths.around].prod(axis=0)


class World(NamedTuple):
    """One world's probabilities, by nests."""

    total: Float[Array, " m"]
    """Log-probability of each nest."""
    share: Float[Array, " k"]
    """Log-probability of each outcome within its nest; `-inf` too where the nest is impossible."""
    nest_share: Float[Array, " m"]
    """The same of each nest within the nest around it."""


def world_of(tree: Tree, log_p: LogProbs) -> World:
    """Shares within nests."""
    depth, around = tree.paths
    none = len(depth)
    total = jnp.full(none + 1, -jnp.inf, log_p.dtype)
    for nests in around:
        total = jnp.maximum(total, _log_sums(log_p, jnp.asarray(np.append(nests, none))[tree.home], none + 1))
    total = total.at[none].set(-jnp.inf)
    parent = np.concatenate([[none], np.asarray(tree.parents, np.int64), [none]])
    nest_share = _less(total, total[parent]).at[0].set(0.0)
    return World(total[:none], _less(log_p, total[tree.home]), nest_share[:none])


def utilities(tree: Tree, world: World) -> tuple[LogProbs, Float[Array, " m"]]:
    """Utilities whose nested logit is the world, and what each nest is worth."""
    depth, around = tree.paths
    scale = tree.scale.astype(world.total.dtype)
    parent = np.concatenate([[0], np.asarray(tree.parents, np.int64)])
    step = jnp.append(_times(scale[parent], world.nest_share), 0.0)
    worth = step[around].sum(axis=0)
    return worth[tree.home] + _times(scale[tree.home], world.share), worth


def choice(tree: Tree, u: Float[Array, " k"]) -> tuple[LogProbs, Float[Array, ""]]:
    """Log-probabilities of the nested logit, and its logsum: what the best utility is worth; `-inf` is unavailable."""
    depth, around = tree.paths
    scale = tree.scale.astype(u.dtype)
    parent = np.array([0, *tree.parents])
    edges = np.searchsorted(depth, np.arange(len(around) + 1)).tolist()
    in_scale = _times(1 / scale[tree.home], u)
    worth = _log_sums(in_scale, tree.home, len(depth))  # in scales of each nest
    for level in range(len(around) - 1, 0, -1):
        here = slice(edges[level], edges[level + 1])
        inner = _log_sums(_times(tree.own.astype(u.dtype)[here], worth[here]), jnp.asarray(parent[here]), len(depth))
        there = inner > -jnp.inf
        worth = jnp.where(there, jnp.logaddexp(jnp.where(there, worth, 0.0), jnp.where(there, inner, 0.0)), worth)
    step = _less(_times(tree.own.astype(u.dtype), worth), worth[parent]).at[0].set(0.0)
    path = jnp.append(step, 0.0)[around].sum(axis=0)
    return path[tree.home] + _less(in_scale, worth[tree.home]), worth[0]


class _Setting(NamedTuple):
    """Two worlds, before anything is integrated."""

    tree: Tree
    here: World
    there: World
    rise: Float[Array, " k"]
    """d; infinite where an outcome is possible in one world only, 0 where in none."""
    nest_rise: Float[Array, " m"]
    """D; 0 for nests that are not possible in both worlds."""
    in_both: Bool[Array, " m"]
    starts: Bool[Array, " m"]
    """Whether a nest is possible in the first world."""


class _Nests(NamedTuple):
    """All nests at some rises `s`: [..., nest]."""

    log_growth: Float[Array, "..."]
    """By how much the logarithm of a nest's sum has grown."""
    arriving: Float[Array, "..."]
    """What to multiply an outcome's share in the second world by, as long as it has not arrived."""
    within: tuple[Float[Array, "..."], ...]
    """The probability of each nest within the nest at each depth that holds it."""


def _setting(tree: Tree, log_p: LogProbs, log_q: LogProbs) -> _Setting:
    here, there = world_of(tree, log_p), world_of(tree, log_q)
    (v, worth), (w, other_worth) = utilities(tree, here), utilities(tree, there)
    possible = (v > -jnp.inf, w > -jnp.inf)
    both = possible[0] & possible[1]
    rise = jnp.where(both, jnp.where(both, w, 0) - jnp.where(both, v, 0), 0.0)
    rise = jnp.where(both | (possible[0] == possible[1]), rise, jnp.where(possible[0], -jnp.inf, jnp.inf))
    starts, ends = here.total > -jnp.inf, there.total > -jnp.inf
    in_both = starts & ends
    nest_rise = jnp.where(in_both, jnp.where(in_both, other_worth, 0) - jnp.where(in_both, worth, 0), 0.0)
    return _Setting(tree, here, there, rise, nest_rise, in_both, starts)


def _nests_at(
    setting: _Setting, rise: Float[Array, "..."], arrived: Float[Array, "... m"], coming: Float[Array, "... m"]
) -> _Nests:
    """All nests where the best utility rises by `rise`, and these shares of their own outcomes have arrived or not."""
    tree, lead = setting.tree, (None,) * rise.ndim
    depth, around = tree.paths
    edges = np.searchsorted(depth, np.arange(len(around) + 1)).tolist()
    parent = np.array([0, *tree.parents])
    scale, own = tree.scale.astype(rise.dtype)[lead], tree.own.astype(rise.dtype)[lead]
    begun, log_share, new_share = setting.starts[lead], setting.here.nest_share, _exp(setting.there.nest_share)[lead]
    log_share = jnp.where(log_share > -jnp.inf, log_share, 0.0)[lead]
    late = jnp.where(setting.in_both[lead], (rise[..., None] - setting.nest_rise[lead]) / scale, 0.0)
    past = late >= 0
    fading = jnp.exp(jnp.where(past, -late, late))
    lift = jnp.where(past, 0.0, -late)
    total = jnp.where(past, arrived + coming * fading, arrived * fading + coming)
    fading = jnp.where(past, fading, 1.0)
    totals, growths, shares_within = list[Array](), list[Array](), list[Array]()
    inner: Array | None = None
    for level in range(len(around) - 1, -1, -1):
        here = slice(edges[level], edges[level + 1])
        whole = total[..., here] if inner is None else total[..., here] + inner
        whole = jnp.where(whole > 0, whole, 1.0)  # a nest that is possible nowhere
        growth = lift[..., here] + jnp.log(whole)
        totals, growths = [whole, *totals], [growth, *growths]
        if level:
            outer = parent[here]
            grown = jnp.exp(log_share[..., here] + own[..., here] * growth - _at(lift, outer))
            share_within = jnp.where(begun[..., here], grown, new_share[..., here] * _at(fading, outer))
            shares_within = [share_within, *shares_within]
            inner = _added(share_within, outer - edges[level - 1], edges[level] - edges[level - 1])
    total, log_growth = jnp.concatenate(totals, axis=-1), jnp.concatenate(growths, axis=-1)
    arriving = jnp.where(begun, fading / total, 1.0)
    share = jnp.concatenate([jnp.ones_like(total[..., :1]), *shares_within], axis=-1)
    share = jnp.where(begun[..., parent], share / _at(total, parent, of_root=1.0), new_share)
    within = [jnp.ones_like(share)]
    for nests in around[:0:-1]:
        within = [within[0] * _at(share, np.where(nests < len(depth), nests, 0)), *within]
    return _Nests(log_growth, arriving, tuple(within))


def _rows(setting: _Setting, xs: Int[Array, " x"]) -> Float[Array, "x k"]:
    """P(Y=. | X=x) of several outcomes, whose own probability is nothing to it."""
    tree = setting.tree
    depth, around = tree.paths
    size, dtype, num_nests = setting.rise.size, setting.rise.dtype, len(depth)
    share, other_share = _exp(setting.here.share), _exp(setting.there.share)
    scale = tree.scale.astype(dtype)
    own = tree.own.astype(dtype)

    near = setting.nest_rise[:, None] + scale[:, None] * jnp.asarray(_NEAR, dtype)[None, :]
    near = jax.lax.stop_gradient(near.ravel())
    known = jnp.where(jnp.isfinite(setting.rise), setting.rise, 0.0)
    least, most = (
        jax.lax.stop_gradient(each)
        for each in (jnp.minimum(near.min(), known.min()), jnp.maximum(near.max(), known.max()))
    )
    ends = jnp.where(jnp.isfinite(setting.rise), setting.rise, jnp.where(setting.rise > 0, most, least))
    edges = jnp.concatenate([ends, near])
    order = jnp.argsort(edges)
    edges = edges[order]
    place = jnp.zeros(size + near.size, order.dtype).at[order].set(jnp.arange(size + near.size))[:size]

    # Of each x, by the depth of the nests around it: the term of each nest, and the power of each sum.
    path = jnp.asarray(np.where(around < num_nests, around, 0))[:, tree.home[xs]].T
    there = jnp.asarray(around < num_nests)[:, tree.home[xs]].T
    rate = jnp.where(there, ((1 - own) / scale)[path], 0.0)
    power = jnp.where(there, (1 - own)[path], 0.0)

    def chance(nests: _Nests) -> Array:
        """By how much the probability of each x is less than it was: [x, ...]."""
        logs = sum(
            power[:, level].reshape(-1, *(1,) * (nests.log_growth.ndim - 1))
            * jnp.moveaxis(nests.log_growth[..., path[:, level]], -1, 0)
            for level in range(len(around))
        )
        return jnp.exp(-logs)

    # Those who stay: everything at the rise of x.
    has_come = place[None, :] <= place[xs][:, None]  # not by their rises, which a compiler may round in two ways

    def gather(shares: Array) -> Array:
        return jax.ops.segment_sum(shares.T, tree.home, num_nests).T

    at_own = _nests_at(
        setting,
        edges[place[xs]],
        gather(jnp.where(has_come, share[None, :], 0.0)),
        gather(jnp.where(has_come, 0.0, other_share[None, :])),
    )
    logs = sum(power[:, level] * at_own.log_growth[jnp.arange(xs.size), path[:, level]] for level in range(len(around)))
    stay = jnp.where(setting.there.share[xs] > -jnp.inf, jnp.exp(-logs), 0.0)

    # Those who go: pieces between edges, some at a time.
    count = edges.size
    size_of_piece = num_nests * max(_MOST_NODES, xs.size) + _MOST_NODES * xs.size
    at_once = count if count * size_of_piece <= _WHOLE else max(1, _BATCH // size_of_piece)
    num_batches = -(-count // at_once)
    padded = num_batches * at_once

    def folded(array: Array, fill: Any) -> Array:
        more = jnp.full((padded - count, *array.shape[1:]), fill, array.dtype)
        return jnp.concatenate([array, more]).reshape(num_batches, at_once, *array.shape[1:])

    lower, upper = folded(edges, edges[-1]), folded(jnp.append(edges[1:], edges[-1]), edges[-1])
    first = jnp.append(tree.home, jnp.zeros(near.size, tree.home.dtype))[order]
    whose = folded(first, 0)
    came = folded(jnp.append(share, jnp.zeros(near.size, dtype))[order], 0.0)
    left = folded(jnp.append(other_share, jnp.zeros(near.size, dtype))[order], 0.0)
    index = folded(jnp.arange(count), count)
    masks = [jnp.asarray(nests)[None, :] == path[:, level][:, None] for level, nests in enumerate(around)]
    start = place[xs]
    least_scale = scale.min()

    def integrated(num_nodes: int, low: Array, high: Array, arrived: Array, coming: Array, index: Array) -> Array:
        """[x, piece, nest]: what goes to each nest, for a share of 1 in it."""
        nodes, weights = (jnp.asarray(each, dtype) for each in np.polynomial.legendre.leggauss(num_nodes))
        half = (high - low) / 2
        rise = (high + low)[:, None] / 2 + half[:, None] * nodes[None, :]
        shape = (*rise.shape, num_nests)
        nests = _nests_at(
            setting, rise, jnp.broadcast_to(arrived[:, None], shape), jnp.broadcast_to(coming[:, None], shape)
        )
        weight = chance(nests) * (half[:, None] * weights[None, :])[None]
        weight = jnp.where((index[None, :] >= start[:, None])[..., None], weight, 0.0)
        found = jnp.zeros((xs.size, low.size, num_nests), dtype)
        for level, within in enumerate(nests.within):
            flow = jnp.einsum("xcq,cqn->xcn", weight, within * nests.arriving, precision="highest")
            found += jnp.where(masks[level][:, None, :], rate[:, level][:, None, None], 0.0) * flow
        return found

    def batch(carry: tuple[Array, Array, Array], each: tuple[Array, ...]) -> tuple[Any, Array]:
        arrived, coming, gone = carry
        low, high, whose, came, left, index = each
        held = jax.nn.one_hot(whose, num_nests, dtype=dtype)
        arrived = arrived[None, :] + jnp.cumsum(held * came[:, None], axis=0)
        after = jnp.cumsum((held * left[:, None])[::-1], axis=0)[::-1]
        rest = coming - after[0]
        coming_here = jnp.maximum(rest, 0.0)[None, :] + jnp.concatenate([after[1:], jnp.zeros_like(after[:1])])
        if num_batches == 1:
            flow = integrated(_MOST_NODES, low, high, arrived, coming_here, index)
        else:
            rules = _FEWER_NODES[dtype.itemsize]
            width = (high - low).max() / least_scale
            which = 1 + sum((width > widest).astype(int) for _, widest in rules)
            nothing = (index[-1] < start).all()
            flow = jax.lax.switch(
                jnp.where(nothing, 0, which),
                [lambda *_: jnp.zeros((xs.size, low.size, num_nests), dtype)]
                + [lambda *given, size=size: integrated(size, *given) for size, _ in (*rules, (_MOST_NODES, 0.0))],
                *(low, high, arrived, coming_here, index),
            )
        total = gone[:, None, :] + jnp.cumsum(flow, axis=1)
        before = jnp.concatenate([gone[:, None, :], total[:, :-1]], axis=1)
        own_nest = jnp.take_along_axis(before, jnp.broadcast_to(whose[None, :, None], (xs.size, low.size, 1)), axis=2)
        return (arrived[-1], rest, total[:, -1]), own_nest[..., 0]

    carry = (
        jnp.zeros(num_nests, dtype),
        jax.ops.segment_sum(other_share, tree.home, num_nests),
        jnp.zeros((xs.size, num_nests), dtype),
    )
    batches = (lower, upper, whose, came, left, index)
    if num_batches == 1:
        _, gone = batch(carry, tuple(each[0] for each in batches))
    else:
        _, gone = jax.lax.scan(jax.checkpoint(batch), carry, batches)
        gone = jnp.moveaxis(gone, 0, 1).reshape(xs.size, padded)
    moved = other_share[None, :] * gone[:, place]
    return moved.at[jnp.arange(xs.size), xs].set(stay)


def row(tree: Tree, log_p: LogProbs, log_q: LogProbs, x: Int[Array, ""]) -> Probs:
    """P(Y=. | X=x)."""
    return _rows(_setting(tree, log_p, log_q), x[None])[0]


def joint(tree: Tree, log_p: LogProbs, log_q: LogProbs) -> Float[Array, "k k"]:
    """P(X=i, Y=j) for all i and j."""
    return jnp.exp(log_p)[:, None] * _rows(_setting(tree, log_p, log_q), jnp.arange(log_p.size))


def limit_row(tree: Tree, log_p: LogProbs, log_q: LogProbs, x: Int[Array, ""]) -> Probs:
    """P(Y=. | X=x) where all dissimilarities are 0: a race at each nest on the way to x, until one is left."""
    depth, around = tree.paths
    size, none = log_p.size, len(depth)
    here, there = world_of(tree, log_p), world_of(tree, log_q)
    shares = [jnp.concatenate([each.share, each.nest_share[1:]]) for each in (here, there)]
    parent = jnp.concatenate([tree.home, jnp.asarray(tree.parents, tree.home.dtype)])
    nests = jnp.asarray(np.vstack([around, np.full((1, none), none)]))  # below the last level there is nothing
    kept, found = jnp.ones((), log_p.dtype), jnp.zeros_like(log_p)
    for level in range(len(around)):
        nest, inner = nests[level][tree.home[x]], nests[level + 1][tree.home[x]]
        chosen = jnp.where(inner < none, size + inner - 1, x)
        usable = (nest < none) & (jnp.append(there.total, -jnp.inf)[nest] > -jnp.inf)
        runs = jnp.where(usable, parent == nest, parent == 0)
        factual, other = (jnp.where(runs, each, -jnp.inf) for each in shares)
        flow = race.row(factual, other, chosen)
        below = nests[level + 1][tree.home]
        whole = jnp.append(there.total, 0.0)[below]
        chances = jnp.where(below < none, flow[jnp.where(below < none, size + below - 1, 0)], flow[:size])
        chances = chances * _exp(
            jnp.where(below < none, _less(log_q, whole), jnp.where(log_q > -jnp.inf, 0.0, -jnp.inf))
        )
        followed = jnp.where(inner < none, below == inner, False)
        mine = usable & (nests[level][tree.home] == nest) & ~followed
        found += jnp.where(mine, kept * chances, 0.0)
        kept = jnp.where(usable & (inner < none), kept * flow[chosen], 0.0)
    return found


def limit_joint(tree: Tree, log_p: LogProbs, log_q: LogProbs) -> Float[Array, "k k"]:
    """P(X=i, Y=j) where all dissimilarities are 0."""
    possible = log_p > -jnp.inf
    likeliest = jnp.argmax(log_p)  # in place of what is impossible, and has no row
    rows = jax.lax.map(
        lambda x: limit_row(tree, log_p, log_q, jnp.where(possible[x], x, likeliest)), jnp.arange(log_p.size)
    )
    return jnp.exp(log_p)[:, None] * rows


def _log_sums(values: Float[Array, " k"], groups: Int[Array, " k"], count: int) -> Float[Array, " n"]:
    """The logarithm of the sum of exponentials in each group."""
    most = jax.lax.stop_gradient(jax.ops.segment_max(values, groups, count))
    most = jnp.where(jnp.isfinite(most), most, 0.0)
    sums = jax.ops.segment_sum(jnp.exp(values - most[groups]), groups, count)
    return jnp.where(sums > 0, jnp.log(jnp.where(sums > 0, sums, 1.0)) + most, -jnp.inf)


def _less(logs: Array, whole: Array) -> Array:
    """Log-shares: `logs - whole`, and `-inf` where the whole is impossible."""
    possible = logs > -jnp.inf
    return jnp.where(possible, jnp.where(possible, logs, 0.0) - jnp.where(possible, whole, 0.0), -jnp.inf)


def _times(scale: Array, logs: Array) -> Array:
    possible = logs > -jnp.inf
    return jnp.where(possible, scale * jnp.where(possible, logs, 0.0), -jnp.inf)


def _exp(logs: Array) -> Array:
    possible = logs > -jnp.inf
    return jnp.where(possible, jnp.exp(jnp.where(possible, logs, 0.0)), 0.0)


def _at(values: Array, index: NDArray[np.integer], of_root: float | None = None) -> Array:
    """`values[..., index]`, without a gather where all are one or each is its own."""
    if len(index) and (index == index[0]).all():
        found = jnp.broadcast_to(values[..., index[:1]], (*values.shape[:-1], len(index)))
    elif np.array_equal(index, np.arange(values.shape[-1])):
        found = values
    else:
        found = values[..., index]
    return found if of_root is None else found.at[..., 0].set(of_root)


def _added(values: Array, groups: NDArray[np.integer], count: int) -> Array:
    """Sums over groups along the last axis."""
    if count == 1:
        return values.sum(axis=-1, keepdims=True)
    return values @ jnp.asarray(np.eye(count)[groups], values.dtype)
