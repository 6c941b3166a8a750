"""Effects of the change on a score: their mean, their variance under each coupling, and which coupling to choose."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from countermax import _plotting as plotting
from countermax._core.errors import InputError
from countermax._core.results import AbstractResult, Row
from countermax._core.words import ANY, EVERYBODY, confidence, number, span
from countermax._kernel import answer_rows, mean_worths, row_score_bounds
from countermax._tables.frames import Codes, Flags, Floats, check_new_names
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling, Gadget2, Independent, InverseCDF
from countermax.intervals import Interval
from countermax.tables import _scores
from countermax.tables._groups import added_up, rows_of
from countermax.tables._notes import count_notes, label_notes, shown_name, unweighted_note, what_is_known
from countermax.tables._reading import Chunk, RowCounts, RowReader
from countermax.tables._refit import Refitted, Refitting
from countermax.tables._scores import Compared, Scores
from countermax.tables._sources import AbstractSource

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from countermax.learning import Fit


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TableEffects(AbstractResult):
    """Effects `score(Y) - score(X)` in a table: counterfactual minus factual score, over its rows."""

    title: str = "What would the change have added to the score, and how much does that vary?"
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
    fit: "Fit[Gadget2] | None"
    """How the learned coupling came about, if one was asked for."""
    individual: Any
    """A frame with each row's effect under each coupling and its bounds; None where no outcome was given."""
    groups: Mapping[str, "TableEffects"] = field(default_factory=dict)
    """The same of each group that `Rows.by` divides the rows into, without `individual`."""
    num_rows: int
    num_unchanged: int
    num_left_out: int
    sample: str = ""
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def coupling(self) -> AbstractCoupling:
        """The coupling to choose."""
        return self.couplings[self.choice]

    @property
    def rows(self) -> Sequence[Row]:
        """The mean effect on each score, then the variance of the effect under each coupling, and over all of them."""
        found, intervals = [], self.variance_intervals or {}
        for place, name in enumerate(self.scores):
            words = "mean effect" if len(self.scores) == 1 else f"mean effect on {name}"
            found.append(Row.of(words, EVERYBODY, "", self.mean, None, self.mean_interval, place))
        variance = partial(Row.of, "effect variance", EVERYBODY)
        for name, value in sorted(self.variances.items(), key=lambda item: item[1]):
            found.append(variance(shown_name(name), value, None, intervals.get(name)))
        if self.variance_bounds is not None:
            found.append(variance(ANY, None, self.variance_bounds, self.variance_bounds_interval))
        return [*found, *rows_of(self.groups)]

    def _summary(self) -> str:
        """The mean, what data alone say about the variance, and which coupling to choose."""
        means = ", ".join(
            number(mean) if len(self.scores) == 1 else f"{name} {number(mean)}"
            for name, mean in zip(self.scores, self.mean.tolist(), strict=True)
        )
        words = [f"Over {self.num_rows:,} rows the change would have added {means} to the score on average."]
        if self.variance_bounds is not None:
            words.append(f"Whatever the coupling, the effect's variance is {span(*self.variance_bounds)}.")
        chosen, least = shown_name(self.choice), number(self.variances[self.choice])
        words.append(f"{chosen[:1].upper()}{chosen[1:]} has the least of those compared, {least}: {self.reason}")
        return " ".join(words)

    def _plot(self, title: str = "The mean effect is the same; its variance is not") -> "Figure":
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
        names = ("num_rows", "num_unchanged", "num_left_out", "scores", "mean", "mean_error", "choice", "reason")
        return self._named(*names) | {"choice": shown_name(self.choice)}


def table_effects(source: AbstractSource, compared: Compared, refitting: Refitting | None) -> TableEffects:
    """What the effects of all rows add up to; each row's own where an outcome was seen."""
    reader, scores = source.reader, compared.scores
    names, adding = list(compared.couplings), _AddedEffects(scores, compared.couplings)
    totals = source.total(adding)
    refitted = None
    if refitting is not None:
        most = _scores.MOST_SOLVED_IN_ALL // (len(reader.labels) * refitting.settings.num_resamples)

        def measure(chunks: Sequence[Chunk]) -> Floats:
            def numbers(sums: EffectSums) -> Floats:
                pairs = (lambda: _scores.all_pairs(most, 0, chunks)) if sums is again.whole else (lambda: None)
                limits = _bounds(scores, sums, pairs) or (np.nan, np.nan)
                return np.array([*(scores.offset + sums.mean), *sums.variances[:-2], *limits])

            again = added_up(adding, 0, chunks)
            return again.each(numbers, totals.values)

        refitted = Refitted(reader, refitting, measure, refitting.settings, totals.values)
    most_pairs = _scores.MOST_SOLVED // len(reader.labels)

    def result(sums: EffectSums, place: int, groups: Mapping[str, TableEffects]) -> TableEffects:
        count, is_whole = sums.counts.num_rows, sums is totals.whole
        pairs = source.each(_scores.all_pairs, most_pairs) if is_whole else [None]
        bounds = _bounds(scores, sums, lambda: _scores.together(pairs, most_pairs))
        variances = dict(zip(names, sums.variances[:-2].tolist(), strict=True))
        choice, reason = _scores.choose(scores, variances, bounds)
        mean_error = np.sqrt(sums.between / (count - 1)) if refitted is None and count > 1 else None
        notes = ["An effect is the counterfactual score minus the factual one; all couplings agree on its mean."]
        if refitted is not None:
            notes.append(f"(...): {confidence(refitted.level)} confidence interval.")
        elif mean_error is not None:
            notes.append(f"Standard error of the mean over rows: {', '.join(f'{each:.2g}' for each in mean_error)}.")
        notes += [*unweighted_note(reader), *label_notes(reader, compared.couplings.values())]
        return TableEffects(
            scores=scores.names,
            mean=scores.offset + sums.mean,
            mean_error=mean_error,
            variances=variances,
            variance_bounds=bounds,
            **_intervals(refitted, place, len(scores.names), names),
            couplings=compared.couplings,
            choice=choice,
            reason=reason,
            fit=compared.learned,
            individual=source.mapped(individual_effects, adding) if is_whole and reader.outcome is not None else None,
            groups=groups,
            **sums.counts.shown,
            sample=f"{count:,} rows",
            assumptions=(what_is_known(reader, refitting),),
            notes=(*notes, *count_notes(sums.counts), _scores.PRECISION),
        )

    return totals.result(source.question.by, result)


def _bounds(scores: Scores, sums: "EffectSums", pairs: Callable[[], _scores.Weighted | None]) -> Bounds | None:
    """The least and the largest variance; None where there are several scores and too many pairs of worlds."""
    if len(scores.names) == 1:
        return Bounds(*sums.variances[-2:].tolist())
    found = pairs()
    return (
        None if found is None else _scores.bounds_by_transport(found, scores, sums.mean, sums.kept_square, sums.total)
    )


def _intervals(refitted: Refitted | None, place: int, num_scores: int, names: Sequence[str]) -> dict[str, Any]:
    """The fields of the result that hold intervals."""
    if refitted is None:
        return {"mean_interval": None, "variance_intervals": None, "variance_bounds_interval": None}
    floor, level = np.array([-np.inf] * num_scores + [0.0] * (len(names) + 2))[:, None], refitted.level
    lower, upper = (each[:, place] for each in refitted.limits(floor))
    of_names = zip(names, lower[num_scores:-2].tolist(), upper[num_scores:-2].tolist(), strict=True)
    unknown = np.isnan(lower[-2:]).any()
    return {
        "mean_interval": Interval(lower[:num_scores], upper[:num_scores], level),
        "variance_intervals": {name: Interval(low, high, level) for name, low, high in of_names},
        "variance_bounds_interval": None if unknown else Interval(float(lower[-2]), float(upper[-1]), level),
    }


@dataclass(eq=False)
class EffectSums:
    """What effects on the centred scores add up to; sums of squares are about `shift`, so that they lose no digits.

    The variance over everybody is the mean of the rows' own variances plus the variance of their means.
    """

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
    counts: RowCounts = field(default_factory=RowCounts)

    def add(self, chunk: Chunk, numbers: Floats, among: Flags) -> None:
        used, size = among & ~chunk.bad, len(self.sum)
        self.counts.add(chunk, among)
        if not used.any():
            return
        kept, weight = chunk.kept[used], chunk.weight[used]
        means, squares = numbers[:size, used], numbers[size:, used]
        self.shift = means.mean(axis=1) if self.shift is None else self.shift
        centred = means - self.shift[:, None]
        self.sum += centred @ weight
        self.squares += centred**2 @ weight
        self.within += np.maximum(squares - (means**2).sum(axis=0), 0) @ weight
        self.kept_square += float(squares[0, kept] @ weight[kept])
        self.total += float(weight.sum())

    def merge(self, other: "EffectSums") -> None:
        """Adds what other rows add up to."""
        self.counts.merge(other.counts)
        if other.shift is None:
            return
        self.shift = other.shift if self.shift is None else self.shift
        gap = other.shift - self.shift
        self.sum += other.sum + gap * other.total
        self.squares += other.squares + 2 * gap * other.sum + gap**2 * other.total
        self.within += other.within
        self.total += other.total
        self.kept_square += other.kept_square

    @property
    def mean(self) -> Floats:
        """The mean effect on each of the centred scores, with all its digits."""
        assert self.shift is not None
        return self.shift + self.sum / self.total

    @property
    def between(self) -> Floats:
        """The variance of the rows' mean effects on each score."""
        return np.maximum(self.squares / self.total - (self.sum / self.total) ** 2, 0)

    @property
    def variances(self) -> Floats:
        """The variance over everybody, summed over scores: under each coupling, then the least and the largest."""
        return self.within / self.total + self.between.sum()


@dataclass(frozen=True, eq=False)
class _AddedEffects:
    """Adds effects on the centred scores up."""

    scores: Scores
    couplings: Mapping[str, AbstractCoupling]

    def begin(self, first_row: int) -> EffectSums:
        size = len(self.scores.names)
        return EffectSums(np.zeros(size), np.zeros(size), np.zeros(len(self.couplings) + 2))

    def measure(self, chunk: Chunk) -> Floats:
        """What `_of_worlds` says of each row, with zeros where there is no answer."""
        good, scores = np.flatnonzero(~chunk.bad), self.scores.centred
        count = len(scores.names) + len(self.couplings) + 2
        found = np.zeros((count, len(chunk.x)))
        if not len(good):
            return found
        numbers = _of_worlds(list(self.couplings.values()), scores, chunk.log_p[good], chunk.log_q[good])
        gain = scores.counterfactual - scores.factual  # of those who are left as they were
        kept = chunk.kept[good]
        p = np.exp(chunk.log_p[good][kept])
        squares = [p @ (gain**2).sum(axis=1)] * (count - len(scores.names))
        numbers[:, kept] = np.stack([*(p @ gain).T, *squares])
        _check(chunk, good, numbers, list(self.couplings))
        found[:, good] = numbers
        return found


def _of_worlds(couplings: Sequence[AbstractCoupling], scores: Scores, log_p: Floats, log_q: Floats) -> Floats:
    """For each pair of worlds: the mean effect on each score, E|effect|^2 under each coupling, and its extremes.

    The extremes are over all couplings, those of sorted and of opposed quantiles, for one score; for several they are
    zero, and not used.
    """
    before, after = scores.factual, scores.counterfactual
    effects = after.T[:, None, :] - before.T[:, :, None]  # [scores, factual, counterfactual]
    loss = (effects**2).sum(axis=0)
    lines = list(mean_worths(Independent(), log_p, log_q, effects))  # the same under every coupling
    lines += [mean_worths(each, log_p, log_q, loss[None])[0] for each in couplings]
    if len(scores.names) > 1:
        return np.stack([*lines, *np.zeros((2, len(log_p)))])
    rows, columns = (np.argsort(each[:, 0], kind="stable") for each in (before, after))
    for other in (columns, columns[::-1]):
        lines += list(mean_worths(InverseCDF(), log_p[:, rows], log_q[:, other], loss[np.ix_(rows, other)][None]))
    return np.stack(lines)


def individual_effects(asked: _AddedEffects, reader: RowReader) -> Any:
    """A frame with each row's effect on each score under each coupling, and its bounds."""
    scores, couplings = asked.scores.centred, list(asked.couplings.values())
    each = [f"effect_{name}_" for name in scores.names] if len(scores.names) > 1 else ["effect_"]
    names = [f"{begin}{name.replace(' ', '_')}" for name in asked.couplings for begin in each]
    names += [f"{begin}{side}" for begin in each for side in ("lower", "upper")]
    check_new_names((), names, "give the couplings and scores other names")
    rows = np.full((len(names), reader.frame.num_rows), np.nan)
    gain, offset = scores.counterfactual - scores.factual, asked.scores.offset
    of_scores = list(zip(scores.factual.T, np.ascontiguousarray(scores.counterfactual.T), strict=True))
    offsets = np.concatenate([np.tile(offset, len(couplings)), np.repeat(offset, 2)])
    for chunk in reader.chunks():
        good = np.flatnonzero(~chunk.bad)
        if not len(good):
            continue
        x, kept = chunk.x[good], chunk.kept[good]
        worlds = chunk.log_p[good], chunk.log_q[good], x
        lines = [
            answer_rows(coupling, *worlds, score=after, bounds="none")[scores.factual.shape[0]] - before[x]
            for coupling in couplings
            for before, after in of_scores
        ]
        for before, after in of_scores:
            lines += [limit - before[x] for limit in row_score_bounds(*worlds, after)]
        found = np.stack(lines)
        same = gain[x[kept]].T
        found[:, kept] = np.concatenate([*[same] * len(couplings), np.repeat(same, 2, axis=0)])
        _check(chunk, good, found, list(asked.couplings))
        rows[:, chunk.start + good] = found + offsets[:, None]
    return reader.frame.made([(names, rows)], extend=False)


def _check(chunk: Chunk, good: Codes, numbers: Floats, names: Sequence[str]) -> None:
    """A NaN must not pass for an effect, nor make the smallest variance."""
    wrong = ~np.isfinite(numbers).all(axis=0)
    if wrong.any():
        raise InputError(
            f"{chunk.name_of(int(good[wrong.argmax()]))} cannot be answered: one of the couplings "
            f"{', '.join(names)} gives NaN or an infinity; check them, or leave that one out"
        )
