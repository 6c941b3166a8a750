"""Labels of outcomes: an order, a place for each, and scores by label; how they are written, and which look alike.

Two texts that differ are two labels, whatever they look like. What looks like one label is said to the reader and never
repaired. A number has one spelling: 5.0 is 5, as a text file's cell too. A text that stands for a missing value (NA, a
dot, a blank) is missing, unless it is listed as a label.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Number
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.words import WARNING

_MOST_GROUPS = 3  # of labels that look alike, in a note
_COUNTS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_MOST_CHARACTERS = 80  # of a label in a message
_NUMERAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"([+-]?[0-9]+)\.0*")
_MISSING_WORDS = frozenset(
    ("", ".", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "NaT", "NULL", "Null", "null")
)
_DOUBTFUL_WORDS = frozenset(("?", "-", "None", "unknown", "Unknown", "UNKNOWN"))  # may be outcomes, and may not

_BETWEEN_DIGITS = re.compile(r"(?<=\d)\s+(?=\d)")


def whole(value: Any) -> Any:
    """A whole number as an integer, whatever type it came in: that some were missing makes no other label."""
    if isinstance(value, float | np.floating) and -(2**53) < value < 2**53 and value == int(value):
        return int(value)
    return value


def _plain(value: Any) -> Any:
    return whole(value.item() if isinstance(value, np.generic) else value)


def name_of(value: object) -> str:
    """A label as it appears in the name of a column."""
    value = _plain(value)
    return str.__str__(value) if isinstance(value, str) else printed(value, str)


def printed(value: object, how: Callable[[object], str] = repr) -> str:
    """A value as Python prints it; a number of thousands of digits, which Python does not print, in base 16."""
    try:
        return how(value)
    except ValueError:
        return f"{hex(value)}" if isinstance(value, int) else object.__repr__(value)


def as_number(text: str) -> int | float | None:
    """The number that a text writes out in decimals; None where it writes none."""
    if not _NUMERAL.fullmatch(text):
        return None
    try:
        return int(text)
    except ValueError:  # has a fraction, or thousands of digits
        number = float(text)
    return number if np.isfinite(number) else None


def looks(value: object) -> str:
    """What is left of a label when case, spaces, signs that nobody sees and the spelling of numbers are forgotten."""
    folded = visible(value).casefold()
    number = as_number(folded)
    return repr(float(number)) if isinstance(number, float) or (number is not None and abs(number) < 2**53) else folded


def visible(value: object) -> str:
    """What is left of a label when spaces and signs that nobody sees are forgotten."""
    text = unicodedata.normalize("NFKC", name_of(value))
    if text.isascii() and text.isprintable():  # many names, soon read
        return text.replace(" ", "")
    return "".join(each for each in text if unicodedata.category(each)[0] not in "ZC")


def shortened(text: str) -> str:
    """A text, cut where it is long."""
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."


def quoted(values: Sequence[object]) -> list[str]:
    """Values as Python writes them, in letters of ASCII where they would look the same."""
    plain = list(map(_plain, values))
    texts = list(map(printed, plain))
    looks_of = [unicodedata.normalize("NFKC", each) for each in texts]
    times = Counter(looks_of)
    return [
        shortened(ascii(value) if times[look] > 1 else text)
        for value, text, look in zip(plain, texts, looks_of, strict=True)
    ]


def shown(label: object) -> str:
    """A label in one line, for a listing: long ones are cut, and what breaks a line is written as in Python."""
    return shortened(_in_one_line(label))


def _in_one_line(label: object) -> str:
    text = name_of(label)
    return text if text.isprintable() else repr(text)[1:-1]


def fitted(labels: Sequence[str], longest: int) -> list[str]:
    """Long labels without their ends, or without their middles where only the ends differ, or numbered."""
    heads = [label if len(label) <= longest else f"{label[: longest - 1]}…" for label in labels]
    half, times = (longest - 1) // 2, Counter(heads)
    short = [
        f"{label[: longest - 1 - half]}…{label[-half:]}" if times[head] > 1 and len(label) > longest else head
        for label, head in zip(labels, heads, strict=True)
    ]
    times = Counter(short)
    return [each if times[each] == 1 else f"{each[: longest - 5]}…({place + 1})" for place, each in enumerate(short)]


def told_apart(labels: Sequence[object]) -> list[str]:
    """All labels, each in one line and not too long; those that would read the same are written so that they do not."""
    times = Counter(map(visible, labels))
    alike = [place for place, label in enumerate(labels) if times[visible(label)] > 1]
    texts = list(map(_in_one_line, labels))
    for place, text in zip(alike, quoted([labels[place] for place in alike]), strict=True):
        texts[place] = text
    return fitted(texts, _MOST_CHARACTERS)


def look_alikes(values: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Groups of texts that differ in case, blanks, Unicode form or the spelling of a number, and in nothing else.

    Where numbers end counts: "1 12" and "11 2" do not look alike.
    """
    groups: dict[str, list[Any]] = {}
    for value in values:
        if isinstance(value, str):
            groups.setdefault(looks(_BETWEEN_DIGITS.sub("|", str.__str__(value))), []).append(value)
    return [tuple(group) for group in groups.values() if len(set(group)) > 1]


def says_missing(value: object) -> bool:
    """Whether a text is what other programs write where there is no value: NA, NaN, NULL, a dot or a blank."""
    return isinstance(value, str) and str.__str__(value).strip() in _MISSING_WORDS


def found_labels(values: Iterable[Any], *, untyped: bool = False) -> "Labels":
    """The labels of a column that nobody listed, sorted: all that is not missing; in a text file 5.0 is 5."""
    found = [value for value in values if not (is_missing(value) or says_missing(value))]
    if untyped:
        times = Counter(map(_spelling, found))
        found = [each if times[_spelling(each)] > 1 else _spelling(each) for each in found]
    return Labels(tuple(sorted_labels(found)), untyped=untyped)


def _spelling(text: str) -> str:
    """A whole number without the fraction that a program wrote because others were missing."""
    match = _WHOLE.fullmatch(text)
    return match[1] if match else text


Cells: TypeAlias = Sequence[int] | NDArray[np.int64] | None
"""How often each label occurs, where that is known."""


def spelling_notes(
    values: Sequence[Any], what: str = "outcomes", cells: Cells = None, advice: str = "empty these cells"
) -> list[str]:
    """Sentences about labels that look like missing values, and about those that look like each other."""
    words = [each for each in values if _seems_missing(each)]
    if not words:
        return alike_notes(values, what, cells)
    verb, each = ("is", "it") if len(words) == 1 else ("are", "each")
    return [
        f"Among the {what} {verb} {_together(words, values, cells)}: {each} counts as one of its own, not as missing. "
        f"Where nothing is known, {advice}.",
        *alike_notes(values, what, cells),
    ]


def alike_notes(values: Sequence[Any], what: str, cells: Cells = None) -> list[str]:
    """Sentences about labels that look like each other."""
    alike, notes = look_alikes(values), []
    for group in alike[:_MOST_GROUPS]:
        number = _COUNTS[len(group)] if len(group) < len(_COUNTS) else f"{len(group):,}"
        notes.append(
            f"{WARNING}{_together(group, values, cells)} are {number} {what}: labels are compared letter by letter. If "
            "they mean the same, write them alike."
        )
    if len(alike) > _MOST_GROUPS:
        notes.append(f"There are {len(alike) - _MOST_GROUPS:,} more groups of {what} that look alike.")
    return notes


def _seems_missing(value: Any) -> bool:
    return says_missing(value) or (isinstance(value, str) and str.__str__(value).strip() in _DOUBTFUL_WORDS)


def _together(some: Sequence[Any], values: Sequence[Any], cells: Cells) -> str:
    """`'Well' (3 cells) and 'well' (1 cell)`."""
    times = {} if cells is None else dict(zip(values, cells, strict=True))
    texts = [
        text + (f" ({times[each]:,} cell{'' if times[each] == 1 else 's'})" if times else "")
        for text, each in zip(quoted(some), some, strict=True)
    ]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


MISSING, UNKNOWN = -1, -2  # in place of an outcome's index

TEXT, NUMBER, BOOLEAN, OTHER = "text", "number", "boolean", "date or other value"

_MOST_NAMED = 10  # labels in an error message


class Written(str):
    """A label on a command line or in the name of a column: what it is compared with says what type it has."""

    __slots__ = ()


def is_missing(value: object) -> bool:
    """Whether there is no value: None, NaN, NaT or pandas' NA, of whatever library."""
    if isinstance(value, str | bool | int):
        return False
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    if isinstance(value, Number):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def identity(value: object) -> tuple[str, Hashable]:
    """What labels are compared by: their kind, and their value. Raises TypeError for what cannot be a label."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return OTHER, value.astype(f"{value.dtype.kind}8[us]").item()
    if isinstance(value, np.generic) or (hasattr(value, "item") and getattr(value, "ndim", None) == 0):
        value = value.item()
    if isinstance(value, str):
        return TEXT, str.__str__(value)  # of an enumeration its value, not its name
    kind = BOOLEAN if isinstance(value, bool) else NUMBER if isinstance(value, Number) else OTHER
    hash(value)
    return kind, value


def listed(values: Iterable[object]) -> str:
    """Some of the values, for a message: those that look the same are written so that they do not."""
    plain = list(values)
    more = len(plain) - _MOST_NAMED
    return ", ".join(quoted(plain[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")


def sorted_labels(values: Iterable[Any]) -> list[Any]:
    """Labels in an order that nobody gave: numbers, written as texts too, by size, then the rest by the alphabet.

    Dates, and whatever else has an order of its own, keep to that.
    """
    found = list(values)
    if not {identity(value)[0] for value in found} & {TEXT, NUMBER}:
        try:
            return sorted(found)
        except TypeError:
            return sorted(found, key=str)

    def key(value: Any) -> tuple[bool, Any, str, str]:
        kind = identity(value)[0]
        number = as_number(str(value)) if kind == TEXT else value if kind == NUMBER else None
        known = number is not None and not isinstance(number, complex)
        return not known, number if known else 0, name_of(value), kind

    return sorted(found, key=key)


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether every label is a number, or a text that writes one out."""
    return all(
        kind == NUMBER or (kind == TEXT and as_number(str(value)) is not None) for kind, value in map(identity, values)
    )


def reader(like: Sequence[object], kind: str | None = None, *, untyped: bool = False) -> Callable[[Any], Hashable]:
    """A function that gives what is `Written` the type of the values it is compared with, and keeps all else.

    In numbers, "2" is the number 2, and so are "02" and "2.0"; in texts, each is the text that it is. Texts that are
    `untyped`, of a CSV file for instance, may be named by the number that they write; where two write it ("2" and
    "02"), it names neither.
    """
    kinds = {identity(value)[0] for value in like} if kind is None else {kind}
    numerals: dict[Any, list[Any]] = {}
    for each in like if untyped else ():
        numerals.setdefault(as_number(str(each)), []).append(each)
    known = {identity(value) for value in like} if len(kinds) > 1 else set()
    others = {str(value): value for value in like} if kinds & {OTHER} else {}

    def read(value: Any) -> Any:
        if not isinstance(value, Written):
            if not untyped or not isinstance(value, Number) or isinstance(value, bool) or is_missing(value):
                return value
            alike = numerals.get(value, [name_of(value)])
            return alike[0] if len(alike) == 1 else value
        text = str(value)
        if (TEXT, text) in known or not kinds - {TEXT}:
            return text
        for each, found in (
            (NUMBER, as_number(text)),
            (BOOLEAN, {"true": True, "false": False}.get(text.lower())),
            (OTHER, others.get(text)),
        ):
            if found is not None and each in kinds and (len(kinds) == 1 or identity(found) in known):
                return found
        return text

    return read


@dataclass(frozen=True)
class Labels:
    """The outcomes in their order; an outcome's index is its place here."""

    values: tuple[Hashable, ...]
    names: tuple[str, ...] = ()
    """The labels as they appear in the names of columns; by default as they print."""
    untyped: bool = field(default=False, compare=False)
    """Whether they are cells of a text file, which a number may name as well as its digits."""

    def __post_init__(self) -> None:
        if not self.values:
            raise InputError("`labels` must name at least one outcome, got none")
        if any(is_missing(value) for value in self.values):
            raise InputError(f"`labels` must not be missing, got {listed(self.values)}")
        values = tuple(str(value) if isinstance(value, Written) else whole(value) for value in self.values)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "names", self.names or tuple(map(name_of, values)))
        identities = [_identity_or_refusal(value) for value in values]
        for same, rule in ((identities, "differ from each other"), (self.names, "have different names")):
            twice, times = Counter(same).most_common(1)[0]
            if times > 1:
                found = [value for value, each in zip(values, same, strict=True) if each == twice]
                raise InputError(f"`labels` must {rule}, got {listed(found)}")

    @classmethod
    def read(
        cls, values: Iterable[Any], like: Sequence[object], kind: str | None = None, *, untyped: bool = False
    ) -> "Labels":
        """Labels of which some may be `Written`: they are read as `reader` says, and keep the names they came with."""
        read, given = reader(like, kind, untyped=untyped), tuple(values)
        return cls(tuple(read(each) for each in given), tuple(map(name_of, given)), untyped)

    def __len__(self) -> int:
        return len(self.values)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.values, self.names, self.untyped)  # what is kept beside them is a function

    def place_of(self, argument: str, value: object) -> int:
        """The index of one value among the labels, which must be there."""
        place = int(self.places([value])[0])
        if place < 0:
            found = f"{listed([value])}{self.resemblance(value)}"
            raise InputError(f"`{argument}` must be one of the labels {listed(self.values)}, got {found}")
        return place

    def places(self, values: Sequence[object]) -> NDArray[np.int64]:
        """The index of each value among the labels; `MISSING` where there is none, `UNKNOWN` where it is no label."""
        return np.fromiter(map(self._place, values), np.int64, len(values))

    def order_of(self, name: str, others: Sequence[Hashable]) -> NDArray[np.int64]:
        """Where each label is among the others, which must be the same labels in any order."""
        other = Labels.read(others, self.values, untyped=self.untyped)
        missing = [value for value, place in zip(self.values, other.places(self.values), strict=True) if place < 0]
        extra = [value for value, place in zip(other.values, self.places(other.values), strict=True) if place < 0]
        if missing or extra:
            differences = [f"{listed(missing)} not in it"] * bool(missing) + [f"{listed(extra)} too many"] * bool(extra)
            alike = next(filter(None, (self.resemblance(value) for value in extra)), "")
            raise InputError(
                f"`{name}` must have one probability for each of the labels {listed(self.values)}, got "
                f"{' and '.join(differences)}{alike}; give an outcome that cannot happen there the probability 0 "
                "(of utilities -inf), and name the outcomes with `labels` where other columns have names like theirs"
            )
        return other.places(self.values)

    def scores(self, name: str, given: Any) -> NDArray[np.float64]:
        """One number for each label: from a mapping by label, or from a sequence in the order of the labels."""
        if isinstance(given, Mapping) or hasattr(given, "keys"):
            values = list(given.keys())
            order = self.places(values)
            if (order < 0).any() or sorted(order.tolist()) != list(range(len(self))):
                places = set(order.tolist())
                none = [label for place, label in enumerate(self.values) if place not in places]
                odd = [value for value, place in zip(values, order.tolist(), strict=True) if place < 0]
                found = f": {listed(none)} has none" * bool(none) + f", {listed(odd)} is no label" * bool(odd)
                found = found or f", got {listed(values)}"
                found += next(filter(None, map(self.resemblance, values)), "")
                raise InputError(f"`{name}` must have one number for each of {listed(self.values)}{found}")
            given = [given[values[place]] for place in np.argsort(order)]
        try:
            array = np.asarray(given, np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"`{name}` must hold numbers, got {shortened(repr(given))}") from error
        if array.shape != (len(self),):
            raise InputError(f"`{name}` must have one number for each of {len(self)} labels, got shape {array.shape}")
        if not (np.abs(array) <= 1e100).all():
            raise InputError(f"`{name}` must hold finite numbers within 1e100, got {shortened(str(array.tolist()))}")
        return array

    def resemblance(self, value: object) -> str:
        """For a message about a value that is no label: which label it looks like, and what is different."""
        if self._place(value) >= 0:
            return ""
        kind = _identity_or_refusal(value)[0]
        for label in self.values:
            if looks(label) != looks(value):
                continue
            own = identity(label)[0]
            if own != kind:
                return f"; {listed([label])} is a label, but a {own} never equals a {kind}"
            both = listed([label, value]).partition(", ")
            return f"; the label {both[0]} and {both[2]} differ in how they are written"
        return ""

    @cached_property
    def _index(self) -> dict[tuple[str, Hashable], int]:
        return {identity(value): place for place, value in enumerate(self.values)}

    @cached_property
    def _spelled(self) -> dict[str, list[int]]:
        """The places of texts by how a whole number among them is written in short."""
        found: dict[str, list[int]] = {}
        for place, value in enumerate(self.values):
            found.setdefault(_spelling(str(value)), []).append(place)
        return found

    @cached_property
    def _read(self) -> Callable[[Any], Hashable]:
        return reader(self.values, untyped=self.untyped)

    def _place(self, value: object) -> int:
        if is_missing(value):
            return MISSING
        try:
            place = self._index.get(identity(self._read(value)), UNKNOWN)
        except TypeError:  # unhashable
            return UNKNOWN
        if place >= 0 or not isinstance(value, str):
            return place
        alike = self._spelled.get(_spelling(str(value)), ()) if self.untyped else ()
        return alike[0] if len(alike) == 1 else MISSING if says_missing(value) else UNKNOWN


def _identity_or_refusal(value: object) -> tuple[str, Hashable]:
    try:
        return identity(value)
    except TypeError as error:
        raise InputError(f"a label must be a text, a number or another plain value, got {listed([value])}") from error
