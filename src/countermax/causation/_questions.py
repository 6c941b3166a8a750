"""Probabilities of causation as questions: what is counted, in whom, and among whom; and what is known to answer from.

Outcomes without the treatment are rows (i), those with it columns (j). Every question is the mean worth of a pair of
outcomes, divided by how many it is asked about.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.labels import Labels, listed, quoted, told_apart
from countermax._core.quantities import as_amount
from countermax.bounds._pieces import MOST_PIECES, num_pieces

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

GAIN, PREVENTION = "gain", "prevention"

MOST_OUTCOMES = 1000


class Arms(NamedTuple):
    """An experiment: P(outcome) without the treatment and with it; arrays run over worlds, then outcomes."""

    control: Floats
    treated: Floats


class Choosers(NamedTuple):
    """People who chose."""

    control: Floats
    """P(chose to be without the treatment, and had the outcome)."""
    treated: Floats
    """P(chose the treatment, and had the outcome)."""
    elsewhere: Floats
    """P(chose something else)."""


class Evidence(NamedTuple):
    """What is known; None where a source is missing."""

    trial: Arms | None
    choices: Choosers | None
    share: float | None
    """P(with the treatment) among participants of the trial."""
    strata: Floats | None = None
    """[worlds, strata]: how many are in each stratum; arrays of the sources then have strata before outcomes."""
    unknown: bool = False
    """Whether the last outcome of an experiment is that none is known."""

    @property
    def arms(self) -> Arms:
        """The experiment, where there is one."""
        assert self.trial is not None
        return self.trial

    @property
    def chosen(self) -> Choosers:
        """The people who chose, where they were observed."""
        assert self.choices is not None
        return self.choices

    def without_strata(self, one: Callable[[Floats], Floats]) -> "Evidence":
        """What `one` makes of the strata of each array."""
        return self._replace(
            trial=None if self.trial is None else Arms(*(np.asarray(one(each)) for each in self.trial)),
            choices=None if self.choices is None else Choosers(*(np.asarray(one(each)) for each in self.choices)),
            strata=None,
        )


class Monotonicity(NamedTuple):
    """The assumption that the treatment does something to nobody."""

    excluded: Flags
    """[without, with]: pairs of outcomes that nobody then has."""
    holds: str
    """The assumption, in words."""
    fails: str
    """What is true where data contradict it."""


@dataclass(frozen=True, eq=False)
class CausalQuestion:
    """One number to be asked for."""

    name: str
    meaning: str
    """In words."""
    worth: Floats
    """[without, with]: what a person with these two outcomes counts."""
    of_control: bool
    """Whether people who were seen without the treatment count."""
    of_treated: bool
    of_others: bool
    among_control: Floats
    """[without]: who is asked about, of those seen without the treatment."""
    among_treated: Floats
    among_others: float
    monotonicity: Monotonicity | None
    """None where nothing says what it would be."""

    @property
    def allowed(self) -> Flags:
        """[without, with]: cells that somebody can be in under monotonicity."""
        if self.monotonicity is None:
            return np.ones(self.worth.shape, bool)
        return ~self.monotonicity.excluded

    @property
    def of_everybody(self) -> bool:
        """Whether the question is about everybody, not only about those who were seen with something."""
        return self.of_control and self.of_treated


def questions_about(
    labels: Labels,
    arms: tuple[str, str],
    event: Sequence[int] | None,
    scores: tuple[Floats, Floats] | None,
    at_least: int | float | None,
    gain: Floats | None,
    groups: bool,
) -> list[CausalQuestion]:
    """All questions that the arguments allow."""
    if at_least is not None and scores is None:
        raise InputError(
            "`at_least` is a gain of the score and needs a `score` (--score), or outcomes that are an ordered category"
        )
    control, treated = told_apart(arms)
    size = len(labels)
    if size > MOST_OUTCOMES:
        raise InputError(
            f"there must be at most {MOST_OUTCOMES:,} outcomes for `causes`, which looks at every pair of them, got "
            f"{size:,}; merge outcomes: the event and its absence have the same range over any coupling"
        )
    every, nobody = np.ones(size), np.zeros(size)
    found = []

    def add(name: str, meaning: str, worth: Any, rule: Monotonicity | None, **whom: Any) -> None:
        fields: dict[str, Any] = dict(of_control=True, of_treated=True, of_others=True)
        fields |= dict(among_control=every, among_treated=every, among_others=1.0)
        if whom:
            fields = dict(of_control=False, of_treated=False, of_others=False)
            fields |= dict(among_control=nobody, among_treated=nobody, among_others=0.0) | whom
        found.append(CausalQuestion(name, meaning, np.asarray(worth, np.float64), monotonicity=rule, **fields))

    rule = None
    if event is not None:
        happens = np.isin(np.arange(size), event).astype(np.float64)
        worth = np.outer(1 - happens, happens)
        what = listed_names(labels, event) if len(event) == 1 else "the event"
        rule = Monotonicity(
            worth.T > 0, f"{treated} never prevents {what}", f"{treated} must prevent {what} in some people"
        )
        other = Monotonicity(worth > 0, f"{treated} never causes {what}", f"{treated} must cause {what} in some people")
        add(
            "PN", f"necessity: had {what} with {treated}; would not have had it with {control}", worth, rule,
            of_treated=True, among_treated=happens,
        )  # fmt: skip
        add(
            "PS", f"sufficiency: did not have {what} with {control}; would have had it with {treated}", worth, rule,
            of_control=True, among_control=1 - happens,
        )  # fmt: skip
        both = f"would have {what} with {treated} and not with {control}"
        add("PNS", f"necessity and sufficiency: {both}", worth, rule)
        add(
            "disablement", f"PN of both arms: had {what} in either arm; would not have had it with {control}", worth,
            rule, of_treated=True, among_treated=happens, among_control=happens,
        )  # fmt: skip
        add(
            "enablement", f"PS of both arms: did not have {what} in either arm; would have had it with {treated}",
            worth, rule, of_control=True, among_treated=1 - happens, among_control=1 - happens,
        )  # fmt: skip
        add(
            PREVENTION, f"PS of the event's absence: had {what} with {control}; would not have had it with {treated}",
            worth.T, other, of_control=True, among_control=happens,
        )  # fmt: skip
    if scores is not None:
        gains = scores[1][None, :] - scores[0][:, None]
        lowered = f"a lower score with {treated} than with {control}"
        rule = Monotonicity(gains < 0, f"nobody has {lowered}", f"some people must have {lowered}")
        kinds = [("benefit", f"would do better with {treated} than with {control}", gains > 0)]
        kinds += [("harm", f"would do worse with {treated} than with {control}", gains < 0)]
        if num_pieces((gains == 0).astype(np.float64)) <= MOST_PIECES:
            kinds += [("tie", "would do as well with either", gains == 0)]
        if at_least is not None:
            amount = as_amount("`at_least`", at_least)
            kinds += [(f"gain >= {amount:g}", f"would gain at least {amount:g} by {treated}", gains >= amount - 1e-12)]
        whom: list[tuple[str, dict[str, Any]]] = [("", {})]
        if groups:
            whom += [(f", {control}", {"of_control": True, "among_control": every})]
            whom += [(f", {treated}", {"of_treated": True, "among_treated": every})]
        for suffix, choice in whom:
            for name, meaning, counted in kinds:
                words = f"chose{suffix[1:]}; {meaning}" if suffix else meaning
                add(name + suffix, words, counted, rule, **choice)
    if gain is not None:
        add(GAIN, f"mean gain of {treated} over {control}", gain, rule)
    if not found:
        raise InputError("say what is asked about: an `event`, a `score` or a `gain`")
    return found


def as_event(labels: Labels, event: Any) -> list[int]:
    """The places of the outcomes that are the event."""
    given = [event] if isinstance(event, str | bytes) or not isinstance(event, Iterable) else list(event)
    places = sorted({labels.place_of("event", each) for each in given})
    if not places:
        raise InputError("`event` must name at least one outcome, got none")
    if len(places) == len(labels):
        raise InputError(f"`event` must leave out an outcome, got all of them: {listed(labels.values)}")
    return places


def as_gain(labels: Labels, gain: Any) -> Floats:
    """A number for each pair of outcomes, without and with the treatment.

    From a matrix, or from a mapping by pairs of labels; what it leaves out gains nothing.
    """
    size = len(labels)
    if isinstance(gain, Mapping):
        matrix = np.zeros((size, size))
        for pair, value in gain.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise InputError(f"`gain` must name pairs of outcomes (without, with), got {pair!r}")
            places = tuple(labels.place_of("gain", each) for each in pair)
            matrix[places] = as_amount("`gain`", value)
        return matrix
    try:
        matrix = np.asarray(gain, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("`gain` must hold a number for each pair of outcomes (without, with)") from error
    if matrix.shape != (size, size) or not (np.abs(matrix) <= 1e100).all():
        raise InputError(
            f"`gain` must have a finite number for each of {size} outcomes without the treatment (rows) and with it "
            f"(columns), got shape {matrix.shape}"
        )
    if num_pieces(matrix) > MOST_PIECES:
        raise InputError(f"`gain` must differ for at most 8 outcomes, got {size}; merge outcomes that gain the same")
    return matrix


def listed_names(labels: Labels, places: Sequence[int]) -> str:
    """Outcomes in a sentence."""
    return " or ".join(quoted([labels.names[place] for place in places]))
