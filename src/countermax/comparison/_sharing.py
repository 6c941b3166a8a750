"""One question over all that two worlds may share: from independence to Gumbel-max, and where the answer turns."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike
from numpy.typing import NDArray

from countermax import _plotting as plotting
from countermax import race
from countermax._core.compilation import quickly_compiled
from countermax._core.errors import InputError
from countermax._core.labels import told_apart
from countermax._core.results import AbstractResult, Row, Table
from countermax._core.words import number, span
from countermax.comparison._measuring import ANY, STABLE, Floats, assumed, on_ends
from countermax.couplings._gumbel_max import noise_correlation
from countermax.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARED = np.arange(101) / 100
"""The rates of the shared clocks at which the curve is known."""
RATES = SHARED[::10]
"""Those of them that have intervals."""

_FINE = np.arange(1025) / 1024  # where turning points are looked for
_FINER = np.arange(33) / 32  # of the distance between two of them
_ZOOMS = 5  # until the place of a turning point is known to one part in 10^10
_LEAST = 1e-9  # lead, effect or advantage that counts as one

_PERSON, _EVERYBODY = "this person", "everybody"
_MOST_ACROSS = 6  # outcomes in a listing; frames and JSON have them all
_CAVEATS = (
    "shared: rate of the clocks that both worlds hear. Noise correlation: Pearson's correlation of the noise that they "
    "add to the logit of an outcome.",
    "Turning points are those of this one family, from independent worlds to Gumbel-max. That there is none, or where "
    "one lies, says nothing about other couplings; what any coupling could say is in the bounds.",
)
_SIGNS = {
    frozenset({1}): "positive",
    frozenset({-1}): "negative",
    frozenset({0}): "zero",
    frozenset({0, 1}): "never negative",
    frozenset({0, -1}): "never positive",
}


class TurningPoint(NamedTuple):
    """Where a conclusion turns."""

    what: str
    """`most likely outcome`, `sign of the effect` (of the person asked about), or `better off` (as likely as not)."""
    shared: float
    """Rate of the shared clocks."""
    noise_correlation: float
    """Pearson's correlation of the two worlds' noises there."""
    before: str
    """The conclusion if the worlds share less."""
    after: str
    """The conclusion if they share more."""


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SharingCurve(AbstractResult):
    """One question, answered by Gumbel-max with a shared rate from 0 (independent worlds) to 1 (Gumbel-max).

    Every curve has one number for each rate in `shared`. About `this person`: `P(outcome)` for each outcome, and with
    a score `expected score`, `effect` and `better`. About `everybody`: `agreement`, and with a score `better`, `worse`
    and `score correlation` (Pearson's, of both worlds' scores; 0 where one does not vary).
    """

    labels: tuple[str, ...]
    seen: int
    worlds: tuple[str, str]
    """What the factual world and the other one are called."""
    shared: Floats
    """Rates of the clocks that both worlds hear: not a correlation."""
    curves: Mapping[tuple[str, str], Floats]
    """Numbers at each rate, by quantity and whom it is about."""
    intervals: Mapping[tuple[str, str], Interval]
    """Their confidence intervals at every tenth rate, each for itself; empty where the laws were taken as known."""
    families: tuple[Row, ...]
    """Bounds over all couplings, and over stable ones, of which this family has one: Gumbel-max, at 1."""
    turning_points: tuple[TurningPoint, ...]
    """All that were found between 1,025 rates; two in between that undo each other are not seen."""
    level: float | None
    sample: str = ""

    @property
    def noise_correlation(self) -> Floats:
        """Pearson's correlation of the Gumbels that the two worlds add to the logit of an outcome, at each rate."""
        return np.asarray(noise_correlation(self.shared))

    @property
    def probabilities(self) -> Floats:
        """P(Y=. | X=seen), a row for each rate."""
        return np.stack([self.curve(f"P({label})") for label in self.labels], axis=1)

    def curve(self, quantity: str, about: str = _PERSON) -> Floats:
        """A quantity at each rate."""
        if (quantity, about) not in self.curves:
            there = "; ".join(", ".join(each) for each in self.curves)
            raise InputError(f"there is no curve of {quantity!r} about {about!r}; there are: {there}")
        return self.curves[quantity, about]

    @property
    def title(self) -> str:
        """The question."""
        here, there = self.worlds
        label = told_apart(self.labels)[self.seen]
        return f"Seen under {here}: {label}. What would have happened under {there}, by how much the two worlds share"

    @property
    def rows(self) -> tuple[Row, ...]:
        """Bounds, then the curves: a row for each quantity and rate."""
        found = [*self.families]
        for (quantity, about), values in self.curves.items():
            for place, (rate, value) in enumerate(zip(self.shared.tolist(), values.tolist(), strict=True)):
                ends = self._interval(quantity, about, place)
                found.append(Row(quantity, about, f"Gumbel-max shared {rate:g}", value, None, None, *ends))
        return tuple(found)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the numbers take as given."""
        return assumed(self.level)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a turning point does not say."""
        if self.level is None:
            return _CAVEATS
        return (*_CAVEATS, "Confidence intervals are for each rate by itself; turning points have none.")

    def summary(self) -> str:
        """Where the conclusions turn."""
        sentences = list(self._turns("most likely outcome", self._leader()))
        if ("effect", _PERSON) in self.curves:
            effect, better = self.curve("effect"), self.curve("better")
            size = max(float(np.abs(effect).max()), np.finfo(np.float64).tiny)
            signs = frozenset(np.sign(np.round(effect / size, 9)).astype(int).tolist())
            sentences += self._turns("sign of the effect", _SIGNS.get(signs, ""))
            even = "likelier than not" if better.mean() > 0.5 else "not likelier than not"
            sentences += self._turns("better off", even)
        return " ".join(sentences)

    def plot(self) -> "Figure":
        """A panel for each outcome, and for the effect: the curve, the bounds as bands, and where conclusions turn."""
        labels = told_apart(self.labels)
        panels = [self._panel(f"P({each})", f"P({shown})") for each, shown in zip(self.labels, labels, strict=True)]
        return plotting.draw_sharing(
            self.shared,
            self.noise_correlation,
            panels,
            self._panel("effect", "effect") if ("effect", _PERSON) in self.curves else None,
            [(each.what, each.shared) for each in self.turning_points],
            self.title,
            None if self.level is None else (RATES, self.level),
        )

    def tables(self) -> list[Table]:
        """Every tenth rate down, the likeliest outcomes and what a score says across."""
        labels = told_apart(self.labels)
        shown = sorted(np.argsort(-self.probabilities.max(axis=0), kind="stable")[:_MOST_ACROSS].tolist())
        keys = [(f"P({self.labels[place]})", _PERSON) for place in shown]
        heads = [f"P({labels[place]})" for place in shown]
        scored = (("effect", _PERSON), ("better", _PERSON), ("score correlation", _EVERYBODY))
        keys += [key for key in scored if key in self.curves]
        heads += [quantity for quantity, _ in keys[len(heads) :]]
        lines = []
        for place in range(0, len(self.shared), 10):
            cells = [f"{self.shared[place]:.1f}", number(self.noise_correlation[place])]
            for key in keys:
                low, high = self._interval(*key, place)
                cells.append(number(self.curves[key][place]) + ("" if low is None else f"\n({span(low, high)})"))
            lines.append(cells)
        return [Table(["shared", "noise correlation", *heads], lines, 0)]

    def _details(self) -> Mapping[str, Any]:
        return {
            "seen": self.labels[self.seen],
            "worlds": self.worlds,
            "shared": self.shared,
            "noise_correlation": self.noise_correlation,
            "turning_points": self.turning_points,
            "level": self.level,
        }

    def _interval(self, quantity: str, about: str, place: int) -> tuple[float | None, float | None]:
        """The interval at a rate, where there is one."""
        interval = self.intervals.get((quantity, about))
        if interval is None or place % 10:
            return None, None
        return float(interval.lower[place // 10]), float(interval.upper[place // 10])

    def _panel(self, quantity: str, title: str) -> "plotting.SharingPanel":
        spans = {
            each.coupling: (float(each.lower or 0.0), float(each.upper or 0.0))
            for each in self.families
            if each.quantity == quantity
        }
        interval = self.intervals.get((quantity, _PERSON))
        ends = None if interval is None else (interval.lower, interval.upper)
        return plotting.SharingPanel(title, self.curve(quantity), spans[ANY], spans[STABLE], ends)

    def _leader(self) -> str:
        """The likeliest outcome under Gumbel-max."""
        last = [each.after for each in self.turning_points if each.what == "most likely outcome"]
        return last[-1] if last else self.labels[int(self.probabilities.mean(axis=0).argmax())]

    def _turns(self, what: str, at_one: str) -> Iterable[str]:
        """One sentence for a conclusion."""
        points = [each for each in self.turning_points if each.what == what]
        form = {
            "most likely outcome": "the most likely outcome is {!r}".format,
            "sign of the effect": "the effect is {}".format,
            "better off": "it is {} that this person would have done better".format,
        }[what]
        if not points:
            yield f"However much the two worlds share, {form(at_one)}."
            return
        parts = [
            f"from {each.shared:.3f} on (noise correlation {each.noise_correlation:.3f}) {form(each.after)}"
            for each in points
        ]
        yield f"If the two worlds share nothing, {'; '.join([form(points[0].before), *parts])}."


class Curve(NamedTuple):
    """What is answered at each rate; without a score, None where there would be one."""

    probabilities: Any
    agreement: Any
    expected_score: Any = None
    better: Any = None
    all_better: Any = None
    all_worse: Any = None
    score_correlation: Any = None


def on_curve(
    labels: Sequence[str], seen: int, log_p: Floats, log_q: Floats, scores: tuple[Floats, Floats] | None
) -> tuple[Curve, tuple[TurningPoint, ...]]:
    """The curve, and where conclusions turn; called where double precision is on."""
    curve: Curve = jax.tree.map(np.asarray, _one()(log_p, log_q, np.asarray(seen), scores, SHARED))
    return curve, _turning_points(labels, seen, log_p, log_q, scores)


def many_on_curve(
    seen: int, scores: tuple[Floats, Floats] | None, unknown: bool
) -> Callable[[Floats, Floats], Curve | None]:
    """The curves of many pairs of worlds, at the rates that have intervals."""
    return lambda log_p, log_q: _many()(log_p, log_q, np.asarray(seen), scores, RATES, unknown)


def by_quantity(labels: Sequence[str], curve: Curve, start: float | None) -> dict[tuple[str, str], Any]:
    """A curve, or its intervals, by quantity and whom it is about."""
    found = {
        (f"P({label})", _PERSON): on_ends(curve.probabilities, itemgetter((slice(None), place)))
        for place, label in enumerate(labels)
    }
    if start is not None:
        found["expected score", _PERSON] = curve.expected_score
        found["effect", _PERSON] = on_ends(curve.expected_score, lambda array: array - start)
        found["better", _PERSON] = curve.better
        found["better", _EVERYBODY], found["worse", _EVERYBODY] = curve.all_better, curve.all_worse
        found["score correlation", _EVERYBODY] = curve.score_correlation
    found["agreement", _EVERYBODY] = curve.agreement
    return found


def _measured(log_p: ArrayLike, log_q: ArrayLike, seen: ArrayLike, scores: Any, rates: ArrayLike) -> Curve:
    log_p, log_q, seen = jnp.asarray(log_p), jnp.asarray(log_q), jnp.asarray(seen)

    def at(rate: Any) -> Curve:
        row, joint = race.row(log_p, log_q, seen, rate), race.joint(log_p, log_q, rate)
        if scores is None:
            return Curve(row, jnp.trace(joint))
        here, there = map(jnp.asarray, scores)
        better = (joint * (there[None, :] > here[:, None])).sum()
        worse = (joint * (there[None, :] < here[:, None])).sum()
        correlation = _correlation(joint, jnp.exp(log_p), jnp.exp(log_q), here, there)
        return Curve(row, jnp.trace(joint), row @ there, row @ (there > here[seen]), better, worse, correlation)

    return jax.lax.map(at, jnp.asarray(rates))


def _correlation(joint: Any, p: Any, q: Any, here: Any, there: Any) -> Any:
    """Pearson's correlation of both worlds' scores; 0 where one of them does not vary."""
    here, there = here - p @ here, there - q @ there
    spread = jnp.sqrt((p @ here**2) * (q @ there**2))
    return jnp.where(spread > 0, here @ joint @ there / jnp.where(spread > 0, spread, 1), 0)


def _turning_points(
    labels: Sequence[str], seen: int, log_p: Floats, log_q: Floats, scores: tuple[Floats, Floats] | None
) -> tuple[TurningPoint, ...]:
    """All of them, by their rates."""

    def rows(rates: Floats) -> Floats:
        return np.asarray(_rows()(log_p, log_q, np.asarray(seen), rates))

    points = [
        _point("most likely outcome", rate, labels[before], labels[after]) for rate, before, after in _leaders(rows)
    ]
    if scores is not None:
        here, there = scores[0][seen], scores[1]
        size = float(max(np.abs(there - here).max(), np.finfo(np.float64).tiny))
        rises = there > here
        for what, words, value in (
            ("sign of the effect", ("negative", "positive"), lambda rates: rows(rates) @ (there - here) / size),
            ("better off", ("less likely than not", "likelier than not"), lambda rates: rows(rates) @ rises - 0.5),
        ):
            points += [_point(what, rate, words[sign < 0], words[sign > 0]) for rate, sign in _signs(value)]
    return tuple(sorted(points, key=lambda each: each.shared))


def _point(what: str, rate: float, before: str, after: str) -> TurningPoint:
    return TurningPoint(what, rate, float(noise_correlation(rate)), before, after)


def _leaders(rows: Callable[[Floats], Floats]) -> list[tuple[float, int, int]]:
    """Where the likeliest outcome becomes another, and which; a lead that rounding could make is none."""
    known = rows(_FINE)
    tied = known[0] >= known[0].max() - _LEAST
    leader = int(np.where(tied, known[1], -1).argmax())
    found = []
    for place in range(1, len(_FINE)):
        start = float(_FINE[place - 1])
        while _is_beaten(leader, known[place : place + 1])[0]:
            start, end, row = _narrowed(rows, start, float(_FINE[place]), functools.partial(_is_beaten, leader))
            found.append((float((start + end) / 2), leader, int(row.argmax())))
            start, leader = end, int(row.argmax())
    return found


def _signs(value: Callable[[Floats], Floats]) -> list[tuple[float, int]]:
    """Where a number changes its sign, and which it has from there on; zero is none."""
    known = value(_FINE)
    sign, last, found = 0, 0.0, []
    for rate, each in zip(_FINE, known, strict=True):
        new = int(np.sign(each)) if abs(each) > _LEAST else 0
        if new and sign and new != sign:
            start, end, _ = _narrowed(value, last, float(rate), functools.partial(_has_sign, new))
            found.append((float((start + end) / 2), new))
        if new:
            sign, last = new, float(rate)
    return found


def _is_beaten(leader: int, rows: Floats) -> NDArray[np.bool_]:
    return rows.max(axis=1) > rows[:, leader] + _LEAST


def _has_sign(sign: int, values: Floats) -> NDArray[np.bool_]:
    return values * sign > _LEAST


def _narrowed(
    ask: Callable[[Floats], Floats], start: float, end: float, is_over: Callable[[Floats], NDArray[np.bool_]]
) -> tuple[float, float, Any]:
    """The last rate before something is so, the first one after, and what is answered there; it is so at the end."""
    for _ in range(_ZOOMS):
        rates = start + (end - start) * _FINER
        answers = ask(rates)
        over = is_over(answers)
        first = int(over.argmax()) if over.any() else len(rates) - 1
        start, end, answer = float(rates[max(first - 1, 0)]), float(rates[first]), answers[first]
    return start, end, answer


@functools.cache
def _rows() -> Callable[..., Any]:
    def run(log_p: Any, log_q: Any, seen: Any, rates: Any) -> Any:
        return jax.vmap(lambda rate: race.row(jnp.asarray(log_p), jnp.asarray(log_q), jnp.asarray(seen), rate))(rates)

    return quickly_compiled(run)


@functools.cache
def _one() -> Callable[..., Curve]:
    return quickly_compiled(_measured)


@functools.cache
def _many() -> Callable[..., Curve]:
    def run(log_p: Any, log_q: Any, seen: Any, scores: Any, rates: Any, unknown: bool) -> Curve:
        if unknown:
            log_p, log_q = (
                each[:, :-1] - jax.nn.logsumexp(each[:, :-1], axis=1, keepdims=True) for each in (log_p, log_q)
            )
        return jax.vmap(lambda p, q: _measured(p, q, seen, scores, rates))(log_p, log_q)

    return quickly_compiled(run, many_numbers=True)
