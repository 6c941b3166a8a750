"""Effects of the change on a score: their mean, their variance under each coupling, and which coupling to choose."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from countermax import _plotting as plotting
from countermax import comonotone
from countermax._core.errors import InputError
from countermax._core.results import AbstractResult, Row
from countermax._core.types import LogProbs, Scalar
from countermax._core.words import confidence, number, span
from countermax._kernel import answer_rows, in_batches, row_score_bounds
from countermax._tables.frames import Codes, Floats, check_new_names
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling, Gadget2
from countermax.intervals import Interval
from countermax.learning import Fit
from countermax.tables._notes import (
    label_notes,
    left_out_notes,
    refit_notes,
    shown_name,
    unchanged_notes,
    what_is_known,
)
from countermax.tables._reading import Chunk, RowReader
from countermax.tables._refit import Refitted, Refitting
from countermax.tables._scores import (
    MOST_SOLVED,
    MOST_SOLVED_IN_ALL,
    PRECISION,
    Compared,
    Scores,
    Weighted,
    all_pairs,
    bounds_by_transport,
    choose,
    source_pairs,
)
from countermax.tables._sources import AbstractSource

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ScorePair = tuple[Float[ArrayLike, "k d"], Float[ArrayLike, "k d"]]
ANY = "any coupling"


@final
@dataclass(frozen=True, eq=False)
class TableEffects(AbstractResult):
    """Effects `score(Y) - score(X)` in a table: counterfactual minus factual score, over its rows."""

    scores: tuple[str, ...]
    mean: Floats
    """The mean effect on each score, which data fix."""
    mean_error: Floats | None
    """Its standard error over rows, each row's probabilities taken as known; None for a single row, or with `refit`."""
    mean_interval: Interval | None
    """Confidence interval of the mean; only with `refit`."""
    variances: Mapping[str, float]
    """The variance of the effect over everybody under each coupling; summed over scores where there are several."""
    variance_bounds: Bounds | None
    """The least and the largest variance over all couplings; None where it would take too long to find out."""
    variance_intervals: Mapping[str, Interval] | None
    variance_bounds_interval: Interval | None
    """Confidence interval of the whole range `variance_bounds`; only with `refit`."""
    couplings: Mapping[str, AbstractCoupling]
    choice: str
    """The name of the coupling to choose for this score."""
    reason: str
    fit: Fit[Gadget2] | None
    """How the learned coupling came about, if one was asked for."""
    individual: Any
    """A frame with each row's effect under each coupling and its bounds; None where no outcome was given."""
    num_rows: int
    num_unchanged: int
    num_left_out: int
    known: str
    """What is taken as known, or how the classifier was refitted."""
    label_notes: tuple[str, ...]

    @property
    def coupling(self) -> AbstractCoupling:
        """The coupling to choose."""
        return self.couplings[self.choice]

    @property
    def title(self) -> str:
        """The question."""
        return "What would the change have added to the score, and how much does that vary?"

    @property
    def sample(self) -> str:
        """How many rows."""
        return f"{self.num_rows:,} rows"

    @property
    def rows(self) -> Sequence[Row]:
        """The mean effect on each score, then the variance of the effect under each coupling, and over all of them."""
        found = []
        for place, (name, mean) in enumerate(zip(self.scores, self.mean.tolist(), strict=True)):
            of_mean = self.mean_interval
            limits = (None, None) if of_mean is None else (float(of_mean.lower[place]), float(of_mean.upper[place]))
            words = "mean effect" if len(self.scores) == 1 else f"mean effect on {name}"
            found.append(Row(words, "everybody", "", mean, None, None, *limits))
        for name, value in sorted(self.variances.items(), key=lambda item: item[1]):
            of_name = None if self.variance_intervals is None else self.variance_intervals[name]
            limits = (None, None) if of_name is None else (of_name.lower, of_name.upper)
            found.append(Row("effect variance", "everybody", shown_name(name), value, None, None, *limits))
        if self.variance_bounds is not None:
            whole = self.variance_bounds_interval
            limits = (None, None) if whole is None else (whole.lower, whole.upper)
            found.append(Row("effect variance", "everybody", ANY, None, *self.variance_bounds, *limits))
        return found

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is taken as known."""
        return (self.known,)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the numbers are, how labels are read, and which rows are unchanged or left out."""
        notes = ["An effect is the counterfactual score minus the factual one; all couplings agree on its mean."]
        if self.mean_interval is not None:
            notes.append(f"(...): {confidence(self.mean_interval.level)} confidence interval.")
        elif self.mean_error is not None:
            errors = ", ".join(f"{each:.2g}" for each in self.mean_error)
            notes.append(f"Standard error of the mean over rows: {errors}.")
        notes += [*self.label_notes, *unchanged_notes(self.num_unchanged), *left_out_notes(self.num_left_out)]
        return (*notes, PRECISION)

    def summary(self) -> str:
        """The mean, what data alone say about the variance, and which coupling to choose."""
        means = ", ".join(
            number(mean) if len(self.scores) == 1 else f"{name} {number(mean)}"
            for name, mean in zip(self.scores, self.mean.tolist(), strict=True)
        )
        words = [f"Over {self.num_rows:,} rows the change would have added {means} to the score on average."]
        if self.variance_bounds is not None:
            words.append(f"Whatever the coupling, the effect's variance is {span(*self.variance_bounds)}.")
        chosen = shown_name(self.choice)
        words.append(f"Under {chosen} it is {number(self.variances[self.choice])}. Choose {chosen}: {self.reason}")
        return " ".join(words)

    def plot(self, title: str = "The mean effect is the same; its variance is not") -> "Figure":
        """Bars: the variance of the effect under each coupling."""
        least = None if self.variance_bounds is None else self.variance_bounds.lower
        label = "variance of the effect"
        if self.variance_bounds is not None:
            label += "; any coupling: {:.3g} to {:.3g}".format(*self.variance_bounds)
        shown = {shown_name(name): value for name, value in self.variances.items()}
        found = self.variance_intervals
        intervals = None if found is None else {shown_name(name): interval for name, interval in found.items()}
        return plotting.draw_variances(shown, title, label, least, intervals=intervals)

    def _details(self) -> Mapping[str, Any]:
        return {
            "num_rows": self.num_rows,
            "num_unchanged": self.num_unchanged,
            "num_left_out": self.num_left_out,
            "scores": self.scores,
            "mean": self.mean,
            "mean_error": self.mean_error,
            "choice": shown_name(self.choice),
            "reason": self.reason,
        }


def table_effects(source: AbstractSource, compared: Compared, refitting: Refitting | None) -> TableEffects:
    """What the effects of all rows add up to; each row's own where an outcome was seen."""
    reader, scores = source.reader, compared.scores
    names = list(compared.couplings)
    sent = Compared(scores, compared.couplings, None)
    moments = EffectMoments(sent)
    for sums in source.summed(_added_up, sent):
        moments.sums.merge(sums)
    if moments.sums.num_rows == 0:
        raise InputError("`frame` must have at least one row that can be answered, got none")
    refitted = None
    if refitting is not None:
        most = MOST_SOLVED_IN_ALL // (len(reader.labels) * refitting.settings.num_resamples)

        def measure(chunks: Sequence[Chunk]) -> Floats:
            found = EffectMoments(sent)
            for chunk in chunks:
                found.add(chunk)
            limits = _bounds(scores, found, lambda: all_pairs(chunks, most)) or (np.nan, np.nan)
            return np.array([*found.mean, *found.variances.values(), *limits])

        refitted = Refitted(reader, refitting, measure, refitting.settings, by_row=False)
    bounds = _bounds(scores, moments, lambda: source_pairs(source, MOST_SOLVED // len(reader.labels)))
    choice, reason = choose(scores, moments.variances, bounds)
    seen = reader.question.outcome is not None
    return TableEffects(
        scores=scores.names,
        mean=moments.mean,
        mean_error=moments.mean_error if refitted is None else None,
        variances=moments.variances,
        variance_bounds=bounds,
        **_intervals(refitted, len(scores.names), names),
        couplings=compared.couplings,
        choice=choice,
        reason=reason,
        fit=compared.learned,
        individual=source.mapped(individual_effects, sent) if seen else None,
        num_rows=moments.sums.num_rows,
        num_unchanged=moments.sums.num_unchanged,
        num_left_out=moments.sums.num_left_out,
        known=what_is_known(reader) if refitting is None else refit_notes(refitting.unweighted),
        label_notes=tuple(label_notes(reader.labels, reader.order, compared.couplings.values())),
    )


def _added_up(compared: Compared, first_row: int, chunks: Iterable[Chunk]) -> "EffectSums":
    moments = EffectMoments(compared)
    for chunk in chunks:
        moments.add(chunk)
    return moments.sums


def _bounds(scores: Scores, moments: "EffectMoments", pairs: Callable[[], Weighted | None]) -> Bounds | None:
    """The least and the largest variance; None where there are several scores and too many pairs of worlds."""
    if len(scores.names) == 1:
        return moments.variance_bounds
    found = pairs()
    if found is None:
        return None
    return bounds_by_transport(found, scores, moments.centred_mean, moments.sums.kept_square, moments.sums.total)


def _intervals(refitted: Refitted | None, num_scores: int, names: Sequence[str]) -> dict[str, Any]:
    """The fields of the result that hold intervals."""
    if refitted is None:
        return {"mean_interval": None, "variance_intervals": None, "variance_bounds_interval": None}
    floor, level = np.array([-np.inf] * num_scores + [0.0] * (len(names) + 2)), refitted.level
    lower, upper = refitted.limits(floor)
    of_names = zip(names, lower[num_scores:-2].tolist(), upper[num_scores:-2].tolist(), strict=True)
    unknown = np.isnan(lower[-2:]).any()
    return {
        "mean_interval": Interval(lower[:num_scores], upper[:num_scores], level),
        "variance_intervals": {name: Interval(low, high, level) for name, low, high in of_names},
        "variance_bounds_interval": None if unknown else Interval(float(lower[-2]), float(upper[-1]), level),
    }


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

    def __init__(self, compared: Compared):
        self._scores, self._offset = compared.scores.centred, compared.scores.offset
        self._names, self._couplings = list(compared.couplings), list(compared.couplings.values())
        size = len(compared.scores.names)
        self.sums = EffectSums(np.zeros(size), np.zeros(size), np.zeros(len(self._names) + 2))

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
        _check(chunk, good, numbers, self._names)
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

    def _for_all(self, moments: Floats) -> Floats:
        """Means and squares [rows, scores + 1], the squares again for each coupling and for the extremes."""
        return np.concatenate([moments[:, :-1], np.repeat(moments[:, -1:], len(self.sums.within), axis=1)], axis=1)

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


def individual_effects(compared: Compared, reader: RowReader) -> Any:
    """A frame with each row's effect on each score under each coupling, and its bounds."""
    scores, couplings = compared.scores.centred, list(compared.couplings.values())
    each = [f"effect_{name}_" for name in scores.names] if len(scores.names) > 1 else ["effect_"]
    names = [f"{begin}{name.replace(' ', '_')}" for name in compared.couplings for begin in each]
    names += [f"{begin}{side}" for begin in each for side in ("lower", "upper")]
    check_new_names((), names, "give the couplings and scores other names")
    rows = np.full((len(names), reader.frame.num_rows), np.nan)
    gain, offset = scores.counterfactual - scores.factual, compared.scores.offset
    offsets = np.concatenate([np.tile(offset, len(couplings)), np.repeat(offset, 2)])
    for chunk in reader.chunks():
        good = np.flatnonzero(~chunk.bad)
        if not len(good):
            continue
        x, kept = chunk.x[good], chunk.kept[good]
        found = _of_rows(couplings, scores, chunk.log_p[good], chunk.log_q[good], x)
        same = gain[x[kept]].T
        found[:, kept] = np.concatenate([*[same] * len(couplings), np.repeat(same, 2, axis=0)])
        _check(chunk, good, found, list(compared.couplings))
        rows[:, chunk.start + good] = found + offsets[:, None]
    return reader.frame.made([(names, rows)], extend=False)


def _of_rows(couplings: Sequence[AbstractCoupling], scores: Scores, log_p: Floats, log_q: Floats, x: Codes) -> Floats:
    """For each row: the effect on each score under each coupling, then the bounds of each score's effect."""
    size, lines = log_p.shape[1], []
    each = list(zip(scores.factual.T, np.ascontiguousarray(scores.counterfactual.T), strict=True))
    for coupling in couplings:
        for before, after in each:
            lines.append(answer_rows(coupling, log_p, log_q, x, score=after, bounds="none")[size] - before[x])
    for before, after in each:
        lines += [limit - before[x] for limit in row_score_bounds(log_p, log_q, x, after)]
    return np.stack(lines)


def _check(chunk: Chunk, good: Codes, numbers: Floats, names: Sequence[str]) -> None:
    """A NaN must not pass for an effect, nor make the smallest variance."""
    wrong = ~np.isfinite(numbers).all(axis=0)
    if wrong.any():
        raise InputError(
            f"{chunk.name_of(int(good[wrong.argmax()]))} cannot be answered: one of the couplings "
            f"{', '.join(names)} gives NaN or an infinity; check them, or leave that one out"
        )


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
