"""Effects of many rows added up: their means, their variance under each coupling, and what any coupling allows."""

from collections.abc import Mapping
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from countermax import comonotone
from countermax._core.errors import InputError
from countermax._core.types import LogProbs, Outcome, Scalar
from countermax._tables.frames import Codes, Floats, check_new_names
from countermax.bounds import Bounds, unchecked_score_bounds
from countermax.couplings import AbstractCoupling
from countermax.tables._batches import in_batches
from countermax.tables._rows import Chunk
from countermax.tables._scores import Scores

ScorePair = tuple[Float[ArrayLike, "k d"], Float[ArrayLike, "k d"]]


@dataclass(eq=False)
class EffectSums:
    """What effects on the centred scores add up to; sums of squares are about `shift`, so that they lose no digits."""

    sum: Floats
    """Of each score's mean effect, less the shift."""
    squares: Floats
    within: Floats
    """Of the rows' own variances under each coupling, and of their extremes."""
    shift: Floats | None = None
    """Near the mean; None before there is a row."""
    total: float = 0.0
    """How much all rows count."""
    kept_square: float = 0.0
    """The sum of expected squared effects of those who are left as they were."""
    num_rows: int = 0
    num_unchanged: int = 0
    num_left_out: int = 0

    def merge(self, other: "EffectSums") -> None:
        """What the effects of other rows add up to."""
        self.num_left_out += other.num_left_out
        if other.shift is None:
            return
        self.shift = other.shift if self.shift is None else self.shift
        gap = other.shift - self.shift
        self.sum += other.sum + gap * other.total
        self.squares += other.squares + 2 * gap * other.sum + gap**2 * other.total
        self.within += other.within
        self.total += other.total
        self.kept_square += other.kept_square
        self.num_rows += other.num_rows
        self.num_unchanged += other.num_unchanged


class EffectMoments:
    """Effects of many rows, added up chunk by chunk.

    The variance over everybody is the mean of the rows' own variances plus the variance of their means.
    """

    def __init__(self, scores: Scores, couplings: Mapping[str, AbstractCoupling], *, num_rows: int, individual: bool):
        self._scores, self._offset = scores.centred, scores.offset
        self._names, self._couplings = list(couplings), list(couplings.values())
        size = len(scores.names)
        self.sums = EffectSums(np.zeros(size), np.zeros(size), np.zeros(len(couplings) + 2))
        each = [f"effect_{name}_" for name in scores.names] if size > 1 else ["effect_"]
        self.names = [f"{begin}{name.replace(' ', '_')}" for name in couplings for begin in each]
        self.names += [f"{begin}{side}" for begin in each for side in ("lower", "upper")]
        check_new_names((), self.names, "give the couplings and scores other names")
        self.rows = np.full((len(self.names), num_rows), np.nan) if individual else None

    def add(self, chunk: Chunk) -> None:
        """Some rows."""
        sums, good = self.sums, np.flatnonzero(~chunk.bad)
        sums.num_left_out += len(chunk.x) - len(good)
        if not len(good):
            return
        worlds = (chunk.log_p[good], chunk.log_q[good])
        scores = (self._scores.factual, self._scores.counterfactual)
        numbers = in_batches(_population, (self._couplings, scores), worlds)
        kept = chunk.kept[good]
        gain = self._scores.counterfactual - self._scores.factual  # of those who are left as they were
        numbers[:, kept] = self._for_all(np.exp(worlds[0][kept]) @ np.column_stack([gain, (gain**2).sum(axis=1)])).T
        self._check(chunk, good, numbers)
        size = len(self._scores.names)
        means, squares = numbers[:size], numbers[size:]
        sums.shift = means.mean(axis=1) if sums.shift is None else sums.shift
        centred, weight = means - sums.shift[:, None], chunk.weight[good]
        sums.sum += centred @ weight
        sums.squares += centred**2 @ weight
        sums.within += np.maximum(squares - (means**2).sum(axis=0), 0) @ weight
        sums.kept_square += float(squares[0, kept] @ weight[kept])
        sums.total += float(weight.sum())
        sums.num_rows += len(good)
        sums.num_unchanged += int(kept.sum())
        if self.rows is not None:
            found = in_batches(_individual, (self._couplings, scores), (*worlds, chunk.x[good]))
            same = gain[chunk.x[good][kept]].T
            found[:, kept] = np.concatenate([*[same] * len(self._couplings), np.repeat(same, 2, axis=0)])
            self._check(chunk, good, found)
            offsets = np.concatenate([np.tile(self._offset, len(self._couplings)), np.repeat(self._offset, 2)])
            self.rows[:, chunk.start + good] = found + offsets[:, None]

    def _for_all(self, moments: Floats) -> Floats:
        """Means and squares [rows, scores + 1], the squares again for each coupling and for the extremes."""
        return np.concatenate([moments[:, :-1], np.repeat(moments[:, -1:], len(self.sums.within), axis=1)], axis=1)

    def _check(self, chunk: Chunk, good: Codes, numbers: Floats) -> None:
        """A NaN must not pass for an effect, nor make the smallest variance."""
        wrong = ~np.isfinite(numbers).all(axis=0)
        if wrong.any():
            raise InputError(
                f"{chunk.name_of(int(good[wrong.argmax()]))} cannot be answered: one of the couplings "
                f"{', '.join(self._names)} gives NaN or an infinity; check them, or leave that one out"
            )

    @property
    def mean(self) -> Floats:
        """The mean effect on each score."""
        return self._offset + self.centred_mean

    @property
    def centred_mean(self) -> Floats:
        """The mean effect on each of the centred scores, with all its digits."""
        assert self.sums.shift is not None
        return self.sums.shift + self.sums.sum / self.sums.total

    @property
    def mean_error(self) -> Floats | None:
        """The standard error of the mean over rows; None for a single one."""
        return None if self.sums.num_rows < 2 else np.sqrt(self._between / (self.sums.num_rows - 1))

    @property
    def variances(self) -> dict[str, float]:
        """The variance over everybody under each coupling, summed over scores."""
        total = self.sums.within[:-2] / self.sums.total + self._between.sum()
        return dict(zip(self._names, total.tolist(), strict=True))

    @property
    def variance_bounds(self) -> Bounds:
        """The least and the largest variance over all couplings, for one score."""
        return Bounds(*(self.sums.within[-2:] / self.sums.total + self._between.sum()).tolist())

    @property
    def _between(self) -> Floats:
        return np.maximum(self.sums.squares / self.sums.total - (self.sums.sum / self.sums.total) ** 2, 0)


@eqx.filter_jit
def _population(
    couplings: list[AbstractCoupling], scores: ScorePair, log_p: Float[Array, "n k"], log_q: Float[Array, "n k"]
) -> Float[Array, "columns n"]:
    """For each pair of worlds: the mean effect on each score, E|effect|^2 under each coupling, and its extremes.

    The extremes are over all couplings, in closed form for one score; for several they are zero, and not used.
    """
    score_p, score_q = map(jnp.asarray, scores)
    loss = ((score_p[:, None, :] - score_q[None, :, :]) ** 2).sum(axis=2)

    def extremes(log_p: LogProbs, log_q: LogProbs) -> list[Scalar]:
        if score_p.shape[1] > 1:
            return [jnp.zeros((), log_p.dtype)] * 2
        only = (log_p, log_q, score_p[:, 0], score_q[:, 0])
        return [comonotone.expected_squared_difference(*only, opposed=opposed) for opposed in (False, True)]

    def one(log_p: LogProbs, log_q: LogProbs) -> Float[Array, " columns"]:
        mean = jnp.exp(log_q) @ score_q - jnp.exp(log_p) @ score_p
        squares = [each._expected_loss(log_p, log_q, loss) for each in couplings]
        return jnp.concatenate([mean, jnp.stack([*squares, *extremes(log_p, log_q)])])

    return jax.vmap(one, out_axes=1)(log_p, log_q)


@eqx.filter_jit
def _individual(
    couplings: list[AbstractCoupling],
    scores: ScorePair,
    log_p: Float[Array, "n k"],
    log_q: Float[Array, "n k"],
    x: Int[Array, " n"],
) -> Float[Array, "columns n"]:
    """For each row: the effect on each score under each coupling, then the bounds of each score's effect."""
    score_p, score_q = map(jnp.asarray, scores)

    def one(log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Float[Array, " columns"]:
        effects = [each._counterfactual_probs(log_p, log_q, x) @ score_q - score_p[x] for each in couplings]
        for place in range(score_p.shape[1]):
            other = unchecked_score_bounds(log_p, log_q, x, score_q[:, place])
            effects.append(jnp.stack(other.shifted(-score_p[x, place])))
        return jnp.concatenate(effects)

    return jax.vmap(one, out_axes=1)(log_p, log_q, x)
