"""Numbers for readers, shortened in one place, so that one number reads the same wherever it is printed; and words."""

from typing import Any

WARNING = "WARNING: "
"""Beginning of notes that are printed before the answer."""
ANY, STABLE = "any coupling", "stable couplings"
"""Families of couplings, as they are called in results."""
PERSON, EVERYBODY = "this person", "everybody"
"""Whom numbers are about."""


def number(value: Any, digits: int = 3) -> str:
    """A number with so many decimals, fewer from a hundred on, `unknown` for NaN, nothing for None."""
    return _with(value, _decimals(digits, value))


def both(low: Any, high: Any, digits: int = 3) -> tuple[str, str]:
    """Two ends of a range, with as many decimals each, and with more where they would look the same and are not."""
    decimals = _decimals(digits, low, high)
    first, second = _with(low, decimals), _with(high, decimals)
    if first == second and low is not None and abs(high - low) >= 10.0**-digits:
        return _with(low, digits), _with(high, digits)
    return first, second


def count_digits(*values: Any) -> int:
    """The decimals of counts that stand together: none where all are whole or one is large, else one."""
    known = [each for each in values if each is not None and each == each]
    return int(max(known, default=0) < 1000 and any(abs(each - round(each)) > 1e-9 for each in known))


def span(low: Any, high: Any, digits: int = 3) -> str:
    """A range: `0.120 to 0.480`."""
    return " to ".join(both(low, high, digits))


def _decimals(digits: int, *values: Any) -> int:
    size = max((abs(round(each, digits)) for each in values if each is not None and each == each), default=0.0)
    return digits if size < 100 else min(digits, 1) if size < 1000 else 0


def _with(value: Any, decimals: int) -> str:
    if value is None:
        return ""
    return "unknown" if value != value else f"{value:z,.{decimals}f}"


def percent(value: Any) -> str:
    """A probability in a sentence: `23 %`; nothing that is possible reads as 0 %, nothing uncertain as 100 %."""
    if value != value:
        return "unknown"
    share = 100 * round(float(value), 12)  # what rounding leaves of 0 and 1 is none
    if 0 < share < 1:
        return f"{share:.1g} %" if share >= 0.05 else "under 0.1 %"
    if 99 < share < 100:
        return f"{share:.1f} %" if share < 99.95 else "over 99.9 %"
    return f"{share:z.0f} %"


def percents(low: Any, high: Any) -> str:
    """A range of probabilities in a sentence: `12 to 48 %`."""
    first, second = percent(low), percent(high)
    return second if first == second else f"{first.removesuffix(' %')} to {second}"


def brief(value: Any, digits: int = 3) -> str:
    """A number in a sentence, with so many significant digits; what rounding leaves of 0 is none."""
    return f"{round(float(value), 12):z.{digits}g}"


def confidence(level: float) -> str:
    """A level in words: `95 %`."""
    return f"{100 * level:g} %"
