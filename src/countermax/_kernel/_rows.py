"""Questions about the rows of a table: two worlds' log-probabilities each, and what was seen in the first."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from countermax._kernel._batches import in_batches
from countermax._kernel._closed import ClosedForm, Floats, Ints, as_asked, closed_rows, in_strips, num_columns, plain
from countermax.bounds import Bounds
from countermax.couplings import (
    AbstractCoupling,
    AbstractSampler,
    GumbelMax,
    Independent,
    InverseCDF,
    Maximal,
    NestedGumbelMax,
    SharedGumbelMax,
)

_CLOSED_FORMS: dict[type[AbstractSampler], str] = {
    **dict.fromkeys((GumbelMax, SharedGumbelMax), "GUMBEL_MAX"),
    InverseCDF: "INVERSE_CDF",
    Independent: "INDEPENDENT",
    Maximal: "MAXIMAL",
}


def has_closed_form(coupling: AbstractSampler) -> bool:
    """Whether compiled loops answer for this coupling."""
    return type(coupling) in _CLOSED_FORMS


def closed_form(coupling: AbstractSampler) -> ClosedForm | None:
    """This coupling as compiled loops know it; None where they do not answer for it."""
    kind = _CLOSED_FORMS.get(type(coupling))
    if kind is None:
        return None
    order = coupling.order if isinstance(coupling, InverseCDF) else None
    places = None if order is None else tuple(int(place) for place in np.asarray(order))
    return ClosedForm(kind, float(coupling.shared) if isinstance(coupling, SharedGumbelMax) else 1.0, places)


def answer_rows(
    coupling: AbstractCoupling,
    log_p: Floats,
    log_q: Floats,
    x: Ints,
    *,
    score: Floats | None = None,
    bounds: str = "any",
    out: Floats | None = None,
    first: int = 0,
    logs: bool = True,
) -> Float[np.ndarray, "columns n"]:
    """What a coupling says about each row, beside bounds; see `closed_rows`."""
    size = log_p.shape[1]
    coupling.check_size(size)
    coupling = _without_nests(coupling)
    form = _form(coupling)
    if out is None:
        out = np.empty((num_columns(size, score=score is not None, bounds=bounds), len(x)))
    if (tree := _tree_of(coupling)) is not None:
        from countermax._kernel import _nested

        in_strips(_nested.row_lines, (tree, *plain(log_p, log_q, x), out, first), len(x), len(out) * len(tree.parent))
    elif form.kind == "GIVEN":
        out[:size, first : first + len(x)] = in_batches(_probabilities, (coupling,), (log_p, log_q, x))
    return closed_rows(form, log_p, log_q, x, score=score, bounds=bounds, out=out, first=first, logs=logs)


def row_probabilities(coupling: AbstractCoupling, log_p: Floats, log_q: Floats, x: Ints) -> Float[np.ndarray, "n k"]:
    """P(Y=. | X=x) for each row."""
    return answer_rows(coupling, log_p, log_q, x, bounds="none")[:-1].T


def row_bounds(log_p: Floats, log_q: Floats, x: Ints, *, stable: bool = False) -> Bounds:
    """The least and the largest P(Y=. | X=x), [row, outcome] each, over all couplings or over the stable ones."""
    found = answer_rows(Independent(), log_p, log_q, x, bounds="stable" if stable else "any")
    limits = found[log_p.shape[1] : -1]
    return Bounds(limits[::2].T, limits[1::2].T)


def row_score_bounds(log_p: Floats, log_q: Floats, x: Ints, scores: Floats, *, stable: bool = False) -> Bounds:
    """The least and the largest E[score(Y) | X=x] for each row; scores are [row, outcome], or the same for all rows."""
    from countermax._kernel import _loops

    out = np.empty((2, len(x)))
    each = np.broadcast_to(np.asarray(scores, np.float64), log_p.shape)
    arguments = (_loops.STABLE if stable else _loops.ANY, *plain(log_p, log_q, x, each), out)
    in_strips(_loops.score_lines, arguments, len(x), log_p.shape[1])
    return Bounds(*out)


def mean_worths(
    coupling: AbstractCoupling, log_p: Floats, log_q: Floats, worths: Floats
) -> Float[np.ndarray, "columns n"]:
    """E[worth(X, Y)] under a coupling, for each of `worths`, [worth, outcome, outcome], and each pair of worlds."""
    size = log_p.shape[1]
    coupling.check_size(size)
    coupling = _without_nests(coupling)
    worths = np.asarray(worths, np.float64)
    if (tree := _tree_of(coupling)) is not None:
        from countermax._kernel import _nested

        found = np.empty((len(worths), len(log_p)))
        in_strips(_nested.worth_lines, (tree, *plain(log_p, log_q, worths), found), len(log_p), size * size)
        return found
    if not has_closed_form(coupling):
        return in_batches(_means, (coupling, worths), (log_p, log_q))
    from countermax._kernel import _loops

    asked = as_asked(_form(coupling), size, None, False, True)
    ordered = np.ascontiguousarray(worths[:, asked.order][:, :, asked.order])
    out = np.empty((len(worths), len(log_p)))
    in_strips(_loops.mean_worth_lines, (asked, *plain(log_p, log_q), ordered, out), len(log_p), size * size)
    return out


def joint_sums(
    coupling: GumbelMax | NestedGumbelMax, log_p: Floats, log_q: Floats, weights: Floats, shift: Floats | None = None
) -> Float[np.ndarray, "layers k k"]:
    """Sums over pairs of worlds: their weighed joint laws, the squares, and in cells how much the best utility rises.

    Args:
        coupling: Gumbel-max, nested or not; dissimilarities above 0.
        log_p: [row, outcome]: log-probabilities of the factual world.
        log_q: [row, outcome]: those of the other world.
        weights: Weight of each row.
        shift: Rise of the mean of the best utility in each row; without it there is no third layer.
    """
    from countermax._kernel import _nested

    size, count = log_p.shape[1], len(log_p)
    coupling.check_size(size)
    tree = choice_tree(coupling, size)
    shifts = np.zeros(count) if shift is None else shift
    arrays = plain(log_p, log_q, *(np.asarray(each, np.float64) for each in (weights, shifts)))

    def summed(begin: int, end: int) -> Floats:
        out = np.zeros((2 if shift is None else 3, size, size))
        _nested.joint_lines(tree, *arrays, out, begin, end)
        return out

    return np.sum(in_strips(summed, (), count, size * size), axis=0)


def choice_tree(coupling: GumbelMax | NestedGumbelMax, size: int) -> Any:
    """What compiled loops have to know of a choice model: a logit is a root without nests."""
    from countermax._kernel import _nested

    none = np.zeros(size, np.int64), np.zeros(1, np.int64), np.zeros(1), np.ones(1)
    return _tree_of(coupling) or _nested.Nests(*none)


def _without_nests(coupling: AbstractCoupling) -> AbstractCoupling:
    """Gumbel-max itself where all dissimilarities are 1."""
    if isinstance(coupling, NestedGumbelMax) and (coupling._plain_numbers == 1).all():
        return GumbelMax()
    return coupling


def _tree_of(coupling: AbstractSampler) -> Any:
    """What compiled loops have to know of nests; None for other couplings, and where all dissimilarities are 0."""
    if not isinstance(coupling, NestedGumbelMax) or coupling.is_limit:
        return None
    from countermax._kernel import _nested

    parent, own = np.array([0, *coupling.parents]), np.append(0.0, coupling._plain_numbers)
    scale = np.append(1.0, own[1:])
    for nest in range(1, len(parent)):
        scale[nest] *= scale[parent[nest]]
    return _nested.Nests(np.array(coupling.home, np.int64), parent, own, scale)


def kind_of(coupling: AbstractSampler) -> tuple[int, float]:
    """What compiled loops call a coupling, and the rate of the clocks that its worlds share."""
    from countermax._kernel import _loops

    form = _form(coupling)
    return getattr(_loops, form.kind), form.shared


def _form(coupling: AbstractSampler) -> ClosedForm:
    return closed_form(coupling) or ClosedForm("GIVEN")


@eqx.filter_jit
def _probabilities(
    coupling: AbstractCoupling, log_p: Float[Array, "n k"], log_q: Float[Array, "n k"], x: Int[Array, " n"]
) -> Float[Array, "k n"]:
    return jax.vmap(coupling._counterfactual_probs, out_axes=1)(log_p, log_q, x)


@eqx.filter_jit
def _means(
    coupling: AbstractCoupling,
    worths: Float[ArrayLike, "m k k"],
    log_p: Float[Array, "n k"],
    log_q: Float[Array, "n k"],
) -> Float[Array, "m n"]:
    def one(p: Float[Array, " k"], q: Float[Array, " k"]) -> Float[Array, " m"]:
        return (coupling._joint(p, q)[None] * jnp.asarray(worths)).sum(axis=(1, 2))

    return jax.vmap(one, out_axes=1)(log_p, log_q)
