"""What people write: labels that look like numbers, numbers that look like labels, worlds with zeros and rarities."""

import csv
import io
import json
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

PLAIN = (
    ["dead", "ill", "well", "fine", "better", "best"],
    ["a", "b", "c", "d", "e", "f"],
    ["stayed", "left", "returned", "moved", "paused", "unknown"],
)
ODD = (
    ["1", "01", "1.0", "001", "1e0", "+1"],
    ["10", "2", "1", "0", "02", "2.0"],
    ["None", "nan", "NA", "null", "NaN", "NaT"],
    ["True", "true", "TRUE", "False", "false", "1"],
    ["12345678901234567890", "12345678901234567891", "2020-01-01", "2020-01-01 00:00", "1e400", "0x10"],
    ["it's", 'say "no"', "a,b", "a;b", "a\tb", "#"],
    ["\u00e9", "e\u0301", "\u65e5\u672c", "\U0001f642", "\u05d0", "\ufb01"],
    ["two words", "a\nb", "[red]x[/red]", "<b>", "$x$", "%s"],
    ["score", "most_likely", "x_lower", "x", "coupling_matters", "problem"],
    ["seen", "count", "p_", "p", "_", "-"],
    ["-1", "-0", "0", "0.0", "--json", "-o"],
    [" a", "a", "a ", "b", " b", "b  "],
)
NUMERIC = (["0", "1", "2", "3", "4", "5"], ["10", "20", "3", "40", "5", "6"], ["1", "2", "3", "4", "5", "6"])

_RARE = (1e-3, 1e-6, 1e-9, 1e-12, 1e-16, 1e-20, 1e-100, 1e-290)
_BAD_NUMBERS = (
    "",
    "nan",
    "-0.1",
    "inf",
    "abc",
    "1,5",
    "0.3.4",
    " 0.5",
    "1e400",
    "-inf",
    "None",
    "NaN",
    "0x1p-1",
    "1_0",
)


def labels(rng: random.Random, size: int, *, odd: float = 0.5) -> list[str]:
    """Different labels; some of them odd."""
    found = list(rng.choice(ODD if rng.random() < odd else rng.choice((PLAIN, NUMERIC))))
    rng.shuffle(found)
    if rng.random() < 0.003:
        found[0] = "x" * rng.choice((1_000, 140_000))
    return found[:size]


def weights(rng: random.Random, size: int) -> list[float]:
    """Weights of a world: even, uneven, with zeros, with rarities."""
    kind = rng.randrange(10)
    if kind == 0:
        return [1.0] * size
    if kind == 1:
        found = [0.0] * size
        found[rng.randrange(size)] = 1.0
        return found
    if kind == 2:
        return [float(rng.randint(0 if place else 1, 4)) for place in range(size)]
    found = [rng.expovariate(1.0) for _ in range(size)]
    if kind in (3, 4, 5):
        for place in rng.sample(range(size), rng.randint(0, size - 1)):
            found[place] = 0.0
    if kind in (6, 7):
        for place in rng.sample(range(size), rng.randint(0, size - 1)):
            found[place] = rng.choice(_RARE) * rng.choice((1, 1, 0.3, 7))
    return found


def probabilities(rng: random.Random, size: int) -> list[float]:
    """A world that sums to one as nearly as doubles can."""
    found = weights(rng, size)
    if rng.random() < 0.3:  # as people write them: few digits
        total = sum(found)
        found = [round(each / total, 2) for each in found]
        found[found.index(max(found))] += 1 - sum(found)
        found = [round(each, 2) for each in found]
        if min(found) >= 0 and abs(sum(found) - 1) < 1e-9:
            return found
    total = sum(Fraction(each) for each in found)
    return [float(Fraction(each) / total) if total else 1 / size for each in found]


def question(rng: random.Random, size: int) -> tuple[list[float], list[float], int]:
    """Two worlds and an outcome that the first can have."""
    p, q = probabilities(rng, size), probabilities(rng, size)
    if rng.random() < 0.08:
        q = list(p)
    possible = [place for place in range(size) if p[place] > 0]
    return p, q, rng.choice(possible)


def written(rng: random.Random, value: float) -> str:
    """A number as it may stand in a file."""
    if value == int(value) and abs(value) < 1e6 and rng.random() < 0.6:
        return str(int(value))
    return rng.choice((repr, repr, repr, lambda each: f"{each:.17g}", lambda each: f"{each:.17e}"))(value)


def bad_number(rng: random.Random) -> str:
    """What should not stand where a number should."""
    return rng.choice(_BAD_NUMBERS)


def joined(parts: Sequence[Any]) -> str:
    """Numbers separated by commas."""
    return ",".join(str(each) for each in parts)


def listed(parts: Sequence[str]) -> str:
    """Words separated by commas, quoted where that is needed."""
    if any(each != each.strip() for each in parts):
        return ",".join('"{}"'.format(each.replace('"', '""')) for each in parts)
    return as_csv([list(parts)]).rstrip("\n")


def as_csv(rows: Sequence[Sequence[Any]], end: str = "\n") -> str:
    """Rows as CSV."""
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=end).writerows(rows)
    return out.getvalue()


def as_json_text(value: Any, *, ascii_only: bool = False) -> str:
    """A JSON value."""
    return json.dumps(value, ensure_ascii=ascii_only)


def sized(rng: random.Random, *, least: int = 1) -> int:
    """How many outcomes: few shapes, since each is compiled."""
    return max(least, rng.choices((1, 2, 3, 4, 6), (1, 4, 8, 4, 2))[0])


def scores(rng: random.Random, size: int) -> list[float]:
    """A number for each outcome: in order, with ties, or any."""
    kind = rng.randrange(5)
    if kind == 0:
        return [float(place) for place in range(size)]
    if kind == 1:
        return [float(rng.randint(0, 2)) for _ in range(size)]
    if kind == 2:
        return [rng.uniform(-1, 1) * 10 ** rng.randint(-3, 6) for _ in range(size)]
    return [round(rng.gauss(0, 2), 3) for _ in range(size)]
