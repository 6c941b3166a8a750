"""How labels are written: as names, as numbers, for a reader's eye; and which of them look alike, or like none.

Two texts that differ are two labels, whatever they look like. What looks like one label, or like no label at all, is
said to the reader and never repaired.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST_GROUPS = 3  # of labels that look alike, in a note
_COUNTS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_MOST_CHARACTERS = 80  # of a label in a message
_NUMERAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MISSING_WORDS = frozenset(
    ("", ".", "?", "-", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "NaT", "None", "NULL", "Null", "null")
)

_BETWEEN_DIGITS = re.compile(r"(?<=\d)\s+(?=\d)")


def name_of(value: object) -> str:
    """A label as it appears in the name of a column."""
    if isinstance(value, np.generic):
        value = value.item()
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


def as_boolean(text: str) -> bool | None:
    """The boolean that a text writes out; None where it writes none."""
    return {"true": True, "false": False}.get(text.lower())


def looks(value: object) -> str:
    """What is left of a label when case, spaces, signs that nobody sees and the spelling of numbers are forgotten."""
    folded = visible(value).casefold()
    number = as_number(folded)
    return repr(float(number)) if isinstance(number, float) or (number is not None and abs(number) < 2**53) else folded


def visible(value: object) -> str:
    """What is left of a label when spaces and signs that nobody sees are forgotten."""
    text = unicodedata.normalize("NFKC", name_of(value))
    return "".join(each for each in text if unicodedata.category(each)[0] not in "ZC")


def shortened(text: str) -> str:
    """A text, cut where it is long."""
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."


def quoted(values: Sequence[object]) -> list[str]:
    """Values as Python writes them, in letters of ASCII where they would look the same."""
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    texts = list(map(printed, plain))
    looks_of = [unicodedata.normalize("NFKC", each) for each in texts]
    times = Counter(looks_of)
    return [
        shortened(ascii(value) if times[look] > 1 else text)
        for value, text, look in zip(plain, texts, looks_of, strict=True)
    ]


def shown(label: object) -> str:
    """A label in one line, for a listing: long ones are cut, and what breaks a line is written as in Python."""
    text = name_of(label)
    return shortened(text if text.isprintable() else repr(text)[1:-1])


def told_apart(labels: Sequence[object]) -> list[str]:
    """All labels, each in one line; those that would read the same are quoted so that they do not."""
    times = Counter(map(visible, labels))
    alike = [place for place, label in enumerate(labels) if times[visible(label)] > 1]
    texts = list(map(shown, labels))
    for place, text in zip(alike, quoted([labels[place] for place in alike]), strict=True):
        texts[place] = text
    return texts


def look_alikes(values: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Groups of texts that differ in case, blanks, Unicode form or the spelling of a number, and in nothing else.

    Where numbers end counts: "1 12" and "11 2" do not look alike.
    """
    groups: dict[str, list[Any]] = {}
    for value in values:
        if isinstance(value, str):
            groups.setdefault(looks(_BETWEEN_DIGITS.sub("|", str.__str__(value))), []).append(value)
    return [tuple(group) for group in groups.values() if len(set(group)) > 1]


def missing_words(values: Iterable[Any]) -> list[Any]:
    """Texts by which other programs mean that there is no value: NA, NaN, NULL, a dot or a blank, for instance."""
    return [value for value in values if isinstance(value, str) and str.__str__(value).strip() in _MISSING_WORDS]


def spelling_notes(
    values: Sequence[Any],
    what: str = "outcomes",
    cells: Sequence[int] | NDArray[np.int64] | None = None,
    advice: str = "empty these cells",
) -> list[str]:
    """Sentences about labels that look like missing values, and about those that look like each other.

    Args:
        values: Labels.
        what: Things that they name, in the plural.
        cells: Number of cells with each label, where that is known.
        advice: Thing to do with cells that say that nothing is known.
    """
    times = [""] * len(values) if cells is None else [f" ({int(each):,} cells)" for each in cells]
    words = [each for each in zip(values, times, strict=True) if missing_words(each[:1])]
    notes = []
    if words:
        texts = [text + number for text, (_, number) in zip(quoted([each[0] for each in words]), words, strict=True)]
        verb, each = ("is", "it") if len(words) == 1 else ("are", "each")
        notes.append(
            f"Among the {what} {verb} {_together(texts)}: {each} counts as one of its own, not as missing. Where "
            f"nothing is known, {advice}."
        )
    alike = look_alikes(values)
    for group in alike[:_MOST_GROUPS]:
        number = _COUNTS[len(group)] if len(group) < len(_COUNTS) else f"{len(group):,}"
        notes.append(
            f"{_together(quoted(group))} are {number} {what}: labels are compared letter by letter. If they mean the "
            "same, write them alike."
        )
    if len(alike) > _MOST_GROUPS:
        notes.append(f"There are {len(alike) - _MOST_GROUPS:,} more groups of {what} that look alike.")
    return notes


def _together(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
