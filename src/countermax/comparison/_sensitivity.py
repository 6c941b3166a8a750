"""One question along a dial, and where the answer turns: what two worlds share, or how unlike outcomes of nests are."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike
from numpy.typing import NDArray

from countermax import _nests as nests
from countermax import _plotting as plotting
from countermax import race
from countermax._core.compilation import quickly_compiled
from countermax._core.errors import InputError
from countermax._core.labels import told_apart
from countermax._core.results import AbstractResult, Row, Table
from countermax._core.words import ANY, EVERYBODY, PERSON, STABLE, number, span
from countermax.comparison._measuring import Floats, Measures, assumed
from countermax.couplings._gumbel_max import noise_correlation
from countermax.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUMBERS = np.arange(101) / 100
"""Where on its dial a curve is known."""
FEW = NUMBERS[::10]
"""Those of them that have intervals."""

_FINE = np.arange(1025) / 1024  # where turning points are looked for
_LEAST_SCALE = 1e-5  # of a nest that rounding leaves alone; from there to 0 a law is as good as linear
_FINER = np.arange(33) / 32  # of the distance between two of them
_ZOOMS = 5  # until the place of a turning point is known to one part in 10^10
_LEAST = 1e-9  # lead, effect or advantage that counts as one

_MOST_ACROSS = 12  # outcomes in a listing; frames and JSON have them all
_NOTE = (
    "Turning points are those of this one family, {}. That there is none, or where one lies, says nothing about other "
    "couplings; what any coupling could say is in the bounds."
)


@dataclass(frozen=True)
class Dial:
    """A family of couplings with one number from 0 to 1, which is Gumbel-max at 1."""

    name: str
    family: str
    """What results call its couplings, before the number."""
    asked: str
    """What is varied, in a title."""
    at_zero: str
    always: str
    axis: str
    meaning: str
    ends: str


SHARING = Dial(
    name="shared",
    family="Gumbel-max shared",
    asked="by how much the two worlds share",
    at_zero="If the two worlds share nothing",
    always="However much the two worlds share",
    axis="rate of the shared clock, 0 independent, 1 Gumbel-max. On top: Pearson's correlation of the noises.",
    meaning="shared: how much the two worlds share, 0 independent, 1 Gumbel-max. Noise correlation: Pearson's, of the "
    "noise that they add to the logit of an outcome.",
    ends="from independent worlds to Gumbel-max",
)
NESTING = Dial(
    name="dissimilarity",
    family="nested Gumbel-max",
    asked="by how unlike outcomes of a nest are",
    at_zero="If outcomes of a nest are all alike",
    always="However unlike outcomes of a nest are",
    axis="dissimilarity within nests, 0 all alike, 1 Gumbel-max.",
    meaning="dissimilarity: how unlike outcomes of one nest are, for all nests: at 0 they replace each other first, at "
    "1 it is Gumbel-max.",
    ends="nested Gumbel-max with these nests",
)
Nested = tuple[Any, tuple[int, ...]]
"""The nest of each outcome, and the nest around each nest."""
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
    number: float
    """Place on the dial: the rate of the shared clocks, or the dissimilarity."""
    before: str
    """The conclusion below it."""
    after: str
    """The conclusion above it."""


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SensitivityCurve(AbstractResult):
    """One question, answered along a dial that ends in Gumbel-max: what worlds share, or how unlike nests are inside.

    Every curve has one value for each of `numbers`. About `this person`: `P(outcome)` for each outcome, and with
    a score `expected score`, `effect` and `better`. About `everybody`: `agreement`, and with a score `better`, `worse`
    and `score correlation` (Pearson's, of both worlds' scores; 0 where one does not vary).
    """

    labels: tuple[str, ...]
    seen: int
    worlds: tuple[str, str]
    """What the factual world and the other one are called."""
    dial: Dial
    """What is varied."""
    numbers: Floats
    """Rates of the clocks that both worlds hear, which are no correlations; or dissimilarities."""
    curves: Mapping[tuple[str, str], Floats]
    """Values at each of them, by quantity and whom it is about."""
    intervals: Mapping[tuple[str, str], Interval]
    """Their confidence intervals at every tenth number, pointwise; empty where the laws were taken as known."""
    families: tuple[Row, ...]
    """Bounds over all couplings, and over stable ones, of which this family has one: Gumbel-max, at 1."""
    turning_points: tuple[TurningPoint, ...]
    """All that were found between 1,025 numbers; two in between that undo each other are not seen."""
    level: float | None
    sample: str = ""

    @property
    def noise_correlation(self) -> Floats:
        """Pearson's correlation of the Gumbels that worlds add to the logit of an outcome; 1 where they share them."""
        return np.asarray(noise_correlation(self.numbers)) if self.dial is SHARING else np.ones(len(self.numbers))

    @property
    def probabilities(self) -> Floats:
        """P(Y=. | X=seen), a row for each number."""
        return np.stack([self.curve(f"P({label})") for label in self.labels], axis=1)

    def curve(self, quantity: str, about: str = PERSON) -> Floats:
        """A quantity at each number."""
        if (quantity, about) not in self.curves:
            there = "; ".join(", ".join(each) for each in self.curves)
            raise InputError(f"there is no curve of {quantity!r} about {about!r}; there are: {there}")
        return self.curves[quantity, about]

    @property
    def title(self) -> str:
        here, there = told_apart(self.worlds)
        label = told_apart(self.labels)[self.seen]
        return f"Seen under {here}: {label}. What would have happened under {there}, {self.dial.asked}"

    @property
    def rows(self) -> tuple[Row, ...]:
        """Bounds, then the curves: a row for each quantity and number."""
        found = [*self.families]
        for (quantity, about), values in self.curves.items():
            for place, (at, value) in enumerate(zip(self.numbers.tolist(), values.tolist(), strict=True)):
                ends = self._interval(quantity, about, place)
                found.append(Row(quantity, about, f"{self.dial.family} {at:g}", value, None, None, *ends))
        return tuple(found)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return assumed(self.level)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a turning point does not say."""
        own = "Confidence intervals of a curve are pointwise; turning points have none."
        return self.dial.meaning, _NOTE.format(self.dial.ends), *([] if self.level is None else [own])

    def _summary(self) -> str:
        """Where the conclusions turn."""
        sentences = list(self._turns("most likely outcome", self._leader()))
        if ("effect", PERSON) in self.curves:
            effect, better = self.curve("effect"), self.curve("better")
            size = max(float(np.abs(effect).max()), np.finfo(np.float64).tiny)
            signs = frozenset(np.sign(np.round(effect / size, 9)).astype(int).tolist())
            sentences += self._turns("sign of the effect", _SIGNS.get(signs, ""))
            even = "likelier than not" if better.mean() > 0.5 else "not likelier than not"
            sentences += self._turns("better off", even)
        return " ".join(sentences)

    def _plot(self) -> "Figure":
        """A panel for each outcome, and for the effect: the curve, the bounds as bands, and where conclusions turn."""
        labels = told_apart(self.labels)
        panels = [self._panel(f"P({each})", f"P({shown})") for each, shown in zip(self.labels, labels, strict=True)]
        return plotting.draw_sensitivity(
            self.numbers,
            self.noise_correlation if self.dial is SHARING else None,
            panels,
            self._panel("effect", "effect") if ("effect", PERSON) in self.curves else None,
            [(each.what, each.number) for each in self.turning_points],
            (self.title, self.dial.axis),
            None if self.level is None else (FEW, self.level),
        )

    def methods(self) -> str:
        return f"The same was asked {self.dial.asked}: {self.dial.ends}. "

    def tables(self) -> list[Table]:
        """Every tenth number down; across, outcomes, of many the likeliest (first, unless scored), and the score."""
        labels = told_apart(self.labels)
        likeliest = np.argsort(-self.probabilities.max(axis=0), kind="stable")[:_MOST_ACROSS].tolist()
        if ("effect", PERSON) in self.curves or len(likeliest) == len(labels):  # a scale, or all of them
            likeliest.sort()
        quantities = {f"P({self.labels[place]})": f"P({labels[place]})" for place in likeliest}
        keys = [key for quantity in quantities for key in self.curves if key[0] == quantity]
        heads = [quantities[quantity] for quantity, _ in keys]
        scored = (("effect", PERSON), ("better", PERSON), ("score correlation", EVERYBODY))
        keys += [key for key in scored if key in self.curves]
        heads += [quantity for quantity, _ in keys[len(heads) :]]
        beside = [self.noise_correlation] if self.dial is SHARING else []
        lines = []
        for place in range(0, len(self.numbers), 10):
            cells = [f"{self.numbers[place]:.1f}", *(number(each[place]) for each in beside)]
            for key in keys:
                low, high = self._interval(*key, place)
                cells.append(number(self.curves[key][place]) + ("" if low is None else f"\n({span(low, high)})"))
            lines.append(cells)
        left = len(self.labels) - len(likeliest)
        if left:
            lines.append([f"... {left} more outcomes: see to_frame()", *[""] * (len(lines[0]) - 1)])
        return [Table([self.dial.name, *["noise correlation"] * len(beside), *heads], lines, 0)]

    def _details(self) -> Mapping[str, Any]:
        own = self._named("worlds", "noise_correlation", "turning_points", "level")
        return {"seen": self.labels[self.seen], self.dial.name: self.numbers, **own}

    def _interval(self, quantity: str, about: str, place: int) -> tuple[float | None, float | None]:
        """The interval at a number, where there is one."""
        interval = self.intervals.get((quantity, about))
        if interval is None or place % 10:
            return None, None
        return float(interval.lower[place // 10]), float(interval.upper[place // 10])

    def _panel(self, quantity: str, title: str) -> "plotting.CurvePanel":
        spans = {
            each.coupling: (float(each.lower or 0.0), float(each.upper or 0.0))
            for each in self.families
            if each.quantity == quantity
        }
        interval = self.intervals.get((quantity, PERSON))
        ends = None if interval is None else (interval.lower, interval.upper)
        return plotting.CurvePanel(title, self.curve(quantity), spans[ANY], spans[STABLE], ends)

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
            yield f"{self.dial.always}, {form(at_one)}."
            return
        parts = []
        for each in points:
            noise = f" (noise correlation {noise_correlation(each.number):.3f})" if self.dial is SHARING else ""
            parts.append(f"from {each.number:.3f} on{noise} {form(each.after)}")
        yield f"{self.dial.at_zero}, {'; '.join([form(points[0].before), *parts])}."


def on_curve(
    nested: Nested | None, labels: Sequence[str], seen: int, worlds: tuple[Floats, Floats], scores: Any
) -> tuple[Measures, tuple[TurningPoint, ...]]:
    """The curve of sharing, or of nests, and where conclusions turn; called where double precision is on."""
    curve: Measures = jax.tree.map(np.asarray, _one(nested, *worlds, np.asarray(seen), scores, NUMBERS))
    return curve, _turning_points(nested, labels, seen, worlds, scores)


def many_on_curve(
    nested: Nested | None, seen: int, scores: tuple[Floats, Floats] | None
) -> Callable[[Floats, Floats], Measures]:
    """The curves of many pairs of worlds, at the numbers that have intervals."""
    return lambda log_p, log_q: _many(nested, log_p, log_q, np.asarray(seen), scores, FEW)


def _row(nested: Nested | None, log_p: Any, log_q: Any, seen: Any, number: Any) -> Any:
    if nested is None:
        return race.row(log_p, log_q, seen, number)
    laws = (
        partial(nests.row, log_p=log_p, log_q=log_q, x=seen),
        partial(nests.limit_row, log_p=log_p, log_q=log_q, x=seen),
    )
    return _between(nested, number, *laws, race.row(log_p, log_q, seen))


def _joint(nested: Nested | None, log_p: Any, log_q: Any, number: Any) -> Any:
    if nested is None:
        return race.joint(log_p, log_q, number)
    laws = partial(nests.joint, log_p=log_p, log_q=log_q), partial(nests.limit_joint, log_p=log_p, log_q=log_q)
    return _between(nested, number, *laws, race.joint(log_p, log_q))


def _between(nested: Nested, number: Any, law: Callable[..., Any], limit: Callable[..., Any], at_one: Any) -> Any:
    """A law of nests that all have this dissimilarity, with its ends; below the least scale it is taken as linear."""
    home, parents = jnp.asarray(nested[0]), nested[1]
    least = _LEAST_SCALE ** (1 / max(len(nests.paths_of(parents).around) - 1, 1))
    inner = law(nests.Tree(home, parents, jnp.full(len(parents), jnp.maximum(number, least))))
    at_zero = limit(nests.Tree(home, parents, jnp.zeros(len(parents))))
    share = jnp.minimum(number / least, 1)
    return jnp.where(number >= 1, at_one, share * inner + (1 - share) * at_zero)


def _measured(
    nested: Nested | None, log_p: ArrayLike, log_q: ArrayLike, seen: ArrayLike, scores: Any, numbers: ArrayLike
) -> Measures:
    log_p, log_q, seen = jnp.asarray(log_p), jnp.asarray(log_q), jnp.asarray(seen)

    def at(number: Any) -> Measures:
        row, joint = _row(nested, log_p, log_q, seen, number), _joint(nested, log_p, log_q, number)
        if scores is None:
            return Measures(row, agreement=jnp.trace(joint))
        here, there = map(jnp.asarray, scores)
        better = (joint * (there[None, :] > here[:, None])).sum()
        worse = (joint * (there[None, :] < here[:, None])).sum()
        correlation = _correlation(joint, jnp.exp(log_p), jnp.exp(log_q), here, there)
        return Measures(
            probabilities=row,
            expected_score=row @ there,
            better=row @ (there > here[seen]),
            all_better=better,
            all_worse=worse,
            agreement=jnp.trace(joint),
            score_correlation=correlation,
        )

    return jax.lax.map(at, jnp.asarray(numbers))


def _correlation(joint: Any, p: Any, q: Any, here: Any, there: Any) -> Any:
    """Pearson's correlation of both worlds' scores; 0 where one of them does not vary."""
    here, there = here - p @ here, there - q @ there
    spread = jnp.sqrt((p @ here**2) * (q @ there**2))
    return jnp.where(spread > 0, here @ joint @ there / jnp.where(spread > 0, spread, 1), 0)


def _turning_points(
    nested: Nested | None, labels: Sequence[str], seen: int, worlds: tuple[Floats, Floats], scores: Any
) -> tuple[TurningPoint, ...]:
    """All of them, in their order on the dial."""

    def rows(numbers: Floats) -> Floats:
        return np.asarray(_rows(nested, *worlds, np.asarray(seen), numbers))

    points = [
        TurningPoint("most likely outcome", at, labels[before], labels[after]) for at, before, after in _leaders(rows)
    ]
    if scores is not None:
        here, there = scores[0][seen], scores[1]
        size = float(max(np.abs(there - here).max(), np.finfo(np.float64).tiny))
        rises = there > here
        for what, words, value in (
            ("sign of the effect", ("negative", "positive"), lambda numbers: rows(numbers) @ (there - here) / size),
            ("better off", ("less likely than not", "likelier than not"), lambda numbers: rows(numbers) @ rises - 0.5),
        ):
            points += [TurningPoint(what, at, words[sign < 0], words[sign > 0]) for at, sign in _signs(value)]
    return tuple(sorted(points, key=lambda each: each.number))


def _leaders(rows: Callable[[Floats], Floats]) -> list[tuple[float, int, int]]:
    """Where the likeliest outcome becomes another, and which; a lead that rounding could make is none."""
    known = rows(_FINE)
    tied = known[0] >= known[0].max() - _LEAST
    leader = int(np.where(tied, known[1], -1).argmax())
    found = []
    for place in range(1, len(_FINE)):
        start = float(_FINE[place - 1])
        while _is_beaten(leader, known[place : place + 1])[0]:
            start, end, row = _narrowed(rows, start, float(_FINE[place]), partial(_is_beaten, leader))
            found.append((float((start + end) / 2), leader, int(row.argmax())))
            start, leader = end, int(row.argmax())
    return found


def _signs(value: Callable[[Floats], Floats]) -> list[tuple[float, int]]:
    """Where a number changes its sign, and which it has from there on; zero is none."""
    known = value(_FINE)
    sign, last, found = 0, 0.0, []
    for at, each in zip(_FINE, known, strict=True):
        new = int(np.sign(each)) if abs(each) > _LEAST else 0
        if new and sign and new != sign:
            start, end, _ = _narrowed(value, last, float(at), partial(_has_sign, new))
            found.append((float((start + end) / 2), new))
        if new:
            sign, last = new, float(at)
    return found


def _is_beaten(leader: int, rows: Floats) -> NDArray[np.bool_]:
    return rows.max(axis=1) > rows[:, leader] + _LEAST


def _has_sign(sign: int, values: Floats) -> NDArray[np.bool_]:
    return values * sign > _LEAST


def _narrowed(
    ask: Callable[[Floats], Floats], start: float, end: float, is_over: Callable[[Floats], NDArray[np.bool_]]
) -> tuple[float, float, Any]:
    """The last number before something is so, the first one after, and what is answered there; it is so at the end."""
    for _ in range(_ZOOMS):
        numbers = start + (end - start) * _FINER
        answers = ask(numbers)
        over = is_over(answers)
        first = int(over.argmax()) if over.any() else len(numbers) - 1
        start, end, answer = float(numbers[max(first - 1, 0)]), float(numbers[first]), answers[first]
    return start, end, answer


@quickly_compiled
def _rows(nested: Nested | None, log_p: Any, log_q: Any, seen: Any, numbers: Any) -> Any:
    log_p, log_q, seen = jnp.asarray(log_p), jnp.asarray(log_q), jnp.asarray(seen)
    return jax.lax.map(lambda number: _row(nested, log_p, log_q, seen, number), numbers)


_one = quickly_compiled(_measured)


@partial(quickly_compiled, many_numbers=True)
def _many(nested: Nested | None, log_p: Any, log_q: Any, seen: Any, scores: Any, numbers: Any) -> Measures:
    return jax.vmap(lambda p, q: _measured(nested, p, q, seen, scores, numbers))(log_p, log_q)
