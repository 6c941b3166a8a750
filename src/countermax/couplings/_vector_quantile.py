"""Vector quantiles: every world is transported from one reference, so that several scores are shared at once."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, DTypeLike, Float, Int, PRNGKeyArray

from countermax import comonotone
from countermax._core.checks import as_order, is_traced
from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.types import Joint, LogProbs, Outcome, Probs
from countermax._pairs import Pairs, num_outcomes_of
from countermax.couplings import _plans
from countermax.couplings._base import AbstractCoupling, AbstractMechanism
from countermax.couplings._fields import LARGEST_SCORE, as_vectors, check_alike, check_floats, check_permutation
from countermax.couplings._inverse_cdf import InverseCDF
from countermax.couplings._reference import fitted_reference, loss_matrix, scores_of_loss

_LINE = InverseCDF()  # of the outcomes within an atom, in their order
_LARGEST = np.sqrt(LARGEST_SCORE) / 1e3  # squared distances of such scores are finite in single precision
_AT_ONCE = 64  # cells of a plan whose rows are found at once


class QuantileNoise(NamedTuple):
    """An atom of the reference, and a uniform number that divides it among its outcomes."""

    atom: Int[Array, ""]
    within: Float[Array, ""]


@final
class VectorQuantile(AbstractMechanism[QuantileNoise], AbstractCoupling):
    """Optimal transport of every world from one common reference: quantiles of vector-valued scores.

    The noise is an atom of the reference and a uniform number. A world sends its atoms to its outcomes by the plan with
    the least expected squared distance of scores, and divides an atom that serves several outcomes by inverse CDF along
    one fixed line. So it is a mechanism in the strict sense, with an exact law: the lengths that both worlds' parts of
    each atom share. With one score it is `InverseCDF.sorted_by`, whatever the reference is.

    If p and q are drawn alike and independently, no mechanism has a smaller expected squared distance of scores than
    transport from the barycenter of the worlds' score distributions, which `VectorQuantile.fit` looks for (Carlier,
    Chernozhukov and Galichon 2016 call such maps vector quantiles). Plans are solved on the host by a network simplex;
    they work under `jit` and `vmap`, are kept for worlds that are asked again, and have no gradient.
    """

    _drawn_from: ClassVar[str] = "uniform"
    points: Float[Array, "n d"]
    scores: Float[Array, "k d"]
    log_weights: Float[Array, " n"]
    order: Int[Array, " k"]

    def __init__(
        self,
        points: ArrayLike | Sequence[Any],
        scores: ArrayLike | Sequence[Any],
        *,
        weights: ArrayLike | Sequence[Any] | None = None,
    ):
        """Sets the atoms of the reference, places among the scores, and one vector of scores for each outcome.

        Atoms may have weights; by default all count alike.
        """
        self.points, self.scores = as_vectors("points", points), as_vectors("scores", scores)
        count = self.points.shape[0]
        dtype = jnp.promote_types(self.points.dtype, self.scores.dtype)
        self.points, self.scores = self.points.astype(dtype), self.scores.astype(dtype)
        amounts = np.ones(count) if weights is None else np.asarray(weights, np.float64)
        if amounts.shape != (count,) or not np.isfinite(amounts).all() or not (amounts > 0).all():
            raise InputError(f"`weights` must be one positive number for each of {count} points")
        self.log_weights = jnp.asarray(np.log(amounts / amounts.sum()), dtype)
        self.order = _line(self.scores)

    @classmethod
    def fit(
        cls,
        scores: ArrayLike | Sequence[Any],
        pairs: Pairs,
        *,
        key: PRNGKeyArray,
        num_atoms: int = 256,
        num_worlds: int = 5000,
        num_restarts: int = 3,
        num_rounds: int = 12,
    ) -> "VectorQuantile":
        """The mechanism whose reference serves the pairs best; seconds, not minutes.

        One fixed pair gets the optimum itself: the atoms lie half-way along its optimal plan. Otherwise the reference
        is the barycenter of the worlds, found by Lloyd's rounds: of a table of pairs its own worlds, else of worlds
        that are drawn. For p and q drawn alike and independently no mechanism does better, up to the local optimum that
        the rounds end in; for other pairs it is a good heuristic, and training a `Gadget2` may find less.

        There is one vector of scores for each outcome. More atoms gain something from a hundred outcomes on, and take
        longer in proportion. The best of `num_restarts` starts is kept; there are so many rounds for each of a growing
        number of atoms, from the second number on, up to 256 atoms, twice as many. The key is consumed once.
        """
        reference = fitted_reference(scores, pairs, key, num_atoms, num_worlds, num_restarts, num_rounds)
        dtype = jnp.zeros(()).dtype
        return cls(reference.points.astype(dtype), np.asarray(scores, dtype), weights=reference.weights)

    @classmethod
    def for_loss(
        cls, loss: ArrayLike | Sequence[Any] | Callable[..., Array], pairs: Pairs, *, key: PRNGKeyArray, **options: Any
    ) -> "VectorQuantile":
        """The same for any loss that is a squared distance in disguise; disagreement is one.

        The loss is a matrix, or one of `countermax.learning` that is the same for all pairs; the options are `fit`'s.

        Raises:
            InputError: No distance represents the loss; the message says what to use instead.
        """
        matrix = loss_matrix(loss, num_outcomes_of(pairs)) if callable(loss) else loss
        return cls.fit(scores_of_loss(matrix), pairs, key=key, **options)

    def __check_init__(self) -> None:
        for name, value in (("points", self.points), ("scores", self.scores)):
            check_floats(name, value, 2, most=_LARGEST)
        check_floats("log_weights", self.log_weights, 1)
        check_permutation("order", self.order)
        check_alike(self.points, self.scores)
        if (self.log_weights.size, self.order.size) != (len(self.points), len(self.scores)):
            raise InputError(
                f"`log_weights` and `order` must be for {len(self.points)} points and {len(self.scores)} scores, got "
                f"{self.log_weights.size} and {self.order.size}"
            )
        if not is_traced(self.log_weights):
            total = np.exp(np.asarray(self.log_weights, np.float64)).sum()
            if abs(total - 1) > 1e-4:
                raise InputError(f"`log_weights` must be logarithms of weights that sum to one, got a sum of {total:g}")

    @property
    def num_outcomes(self) -> int:
        return self.scores.shape[0]

    @property
    def num_atoms(self) -> int:
        """As many as the reference has points."""
        return self.points.shape[0]

    _num_causes = num_atoms

    def noise(self, num_outcomes: int, *, key: PRNGKeyArray, dtype: DTypeLike = float) -> QuantileNoise:
        """An atom by its weight, and one uniform number."""
        del num_outcomes
        key_atom, key_within = jax.random.split(key)
        atom = jax.random.categorical(key_atom, self.log_weights)
        return QuantileNoise(atom, jax.random.uniform(key_within, (), dtype))

    def _respond(self, noise: QuantileNoise, log_p: LogProbs) -> Outcome:
        return self.order[_LINE._respond(noise.within, self._line_of(log_p, self._shares(log_p), noise.atom))]

    def _abduct(self, log_p: LogProbs, x: Outcome, *, key: PRNGKeyArray) -> QuantileNoise:
        key_atom, key_within = jax.random.split(key)
        position = self._position_of(x)
        lines = self._lines(log_p)
        upper, lower = jax.vmap(_LINE._edges)(lines)
        # As wide as a uniform number sees them: an interval without room for one cannot have been the cause.
        room = jnp.where(lines[:, position] > -jnp.inf, upper[:, position] - lower[:, position], 0)
        log_widths = jnp.log(jnp.maximum(room, 0))
        log_shares = jnp.where((room > 0).any(), log_widths, lines[:, position])
        atom = jax.random.categorical(key_atom, log_shares + self._log_weights(log_p))
        return QuantileNoise(atom, _LINE._abduct(lines[atom], position, key=key_within))

    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint:
        if self._has_one_score:
            return InverseCDF(self.order)._joint(log_p, log_q)
        shares, other_shares = jax.vmap(self._shares)(jnp.stack([log_p, log_q]))
        size, count = shares.shape
        outcomes, atoms = jnp.nonzero(shares > 0, size=size + count - 1, fill_value=0)
        known = jnp.arange(outcomes.size) < (shares > 0).sum()
        masses = jnp.where(known, jnp.exp(log_p)[outcomes] * shares[outcomes, atoms], 0)
        places = jnp.argsort(self.order)

        def row(cell: tuple[Outcome, Outcome]) -> Probs:
            lines = (self._line_of(*each, cell[1]) for each in ((log_p, shares), (log_q, other_shares)))
            return comonotone.row(*lines, places[cell[0]])

        rows = masses[:, None] * jax.lax.map(row, (outcomes, atoms), batch_size=_AT_ONCE)
        law = jnp.zeros((size, size), log_p.dtype).at[outcomes].add(rows)
        return law[:, places]

    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs:
        if self._has_one_score:
            return InverseCDF(self.order)._counterfactual_probs(log_p, log_q, x)
        shares, other_shares = jax.vmap(self._shares)(jnp.stack([log_p, log_q]))
        position, count = self._position_of(x), self.num_atoms
        length = min(_AT_ONCE, count)
        # The atoms that x comes from, of which there are few, stand first.
        atoms = jnp.nonzero(shares[x] > 0, size=count + length, fill_value=count)[0]

        def add(state: tuple[Outcome, Probs]) -> tuple[Outcome, Probs]:
            start, total = state
            some = jax.lax.dynamic_slice(atoms, (start,), (length,))
            weights = jnp.where(some < count, shares[x, some], 0)
            lines_of = jax.vmap(self._line_of, (None, None, 0))
            lines = (lines_of(*each, some) for each in ((log_p, shares), (log_q, other_shares)))
            rows = jax.vmap(comonotone.row, (0, 0, None))(*lines, position)
            return start + length, total + weights @ rows

        start = (jnp.asarray(0), jnp.zeros_like(log_p))
        _, row = jax.lax.while_loop(lambda state: atoms[state[0]] < count, add, start)
        return row[jnp.argsort(self.order)]

    @property
    def _has_one_score(self) -> bool:
        return self.scores.shape[1] == 1

    def _position_of(self, x: Outcome) -> Outcome:
        return jnp.argmax(self.order == x)

    def _log_weights(self, log_p: LogProbs) -> Float[Array, " n"]:
        return jax.nn.log_softmax(self.log_weights.astype(log_p.dtype))

    def _lines(self, log_p: LogProbs) -> Float[Array, "n k"]:
        """Log p(x | atom) for all atoms."""
        return jax.vmap(self._line_of, (None, None, 0))(log_p, self._shares(log_p), jnp.arange(self.num_atoms))

    def _line_of(self, log_p: LogProbs, shares: Float[Array, "k n"], atom: Outcome) -> LogProbs:
        """Log p(x | atom), outcomes in the order of the line."""
        mine, logs = shares[self.order, atom], log_p[self.order]
        used = (mine > 0) & (logs > -jnp.inf)
        total = jnp.log(jnp.where(used, mine, 1)) + jnp.where(used, logs, 0)
        return jnp.where(used, total - self._log_weights(log_p)[atom], -jnp.inf)

    def _shares(self, log_p: LogProbs) -> Float[Array, "k n"]:
        """P(atom | x): the world's plan."""
        if self._has_one_score:
            return self._shares_in_order(log_p)
        size, count = self.num_outcomes, self.num_atoms
        check_memory(
            f"plans from {count} atoms to {size} outcomes",
            10.0 * (size + count) * max(size, 64) * log_p.dtype.itemsize + 40.0 * size * count,
            "fit fewer points",
        )
        numbers = (each.astype(log_p.dtype) for each in (self.log_weights, self.points, self.scores))
        return _plans.shares(log_p, *numbers)

    def _shares_in_order(self, log_p: LogProbs) -> Float[Array, "k n"]:
        """The plan for one score, in closed form: both sides stand in its order."""
        size, count = self.num_outcomes, self.num_atoms
        length = max(size, count)
        atoms = jnp.argsort(self.points[:, 0], stable=True)
        world, reference = (
            jnp.concatenate([each, jnp.full(length - each.size, -jnp.inf, log_p.dtype)])
            for each in (log_p[self.order], self._log_weights(log_p)[atoms])
        )
        rows = jax.vmap(comonotone.row, (None, None, 0))(world, reference, jnp.arange(size))[:, :count]
        return jnp.zeros_like(rows).at[self.order[:, None], atoms[None, :]].set(rows)


def _line(scores: Float[Array, "k d"]) -> Int[Array, " k"]:
    """The outcomes in the order of the scores' main direction; ties keep their own order."""
    if scores.shape[1] == 1:
        return as_order(scores[:, 0])
    if is_traced(scores):
        raise InputError("`scores` must be known where a `VectorQuantile` is made: make it outside of `jit`")
    vectors = np.asarray(scores, np.float64)
    centred = vectors - vectors.mean(axis=0)
    direction = np.linalg.svd(centred, full_matrices=False)[2][0]
    direction = direction * np.sign(direction[np.abs(direction).argmax()])
    along = centred @ direction
    # Equal but for rounding is equal.
    return as_order(jnp.asarray(np.round(along / max(np.abs(along).max(), np.finfo(float).tiny), 6)))
