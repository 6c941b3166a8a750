"""Numbers for readers: shortened in one place, so that one number reads the same wherever it is printed."""

from typing import Any


def number(value: Any, digits: int = 3) -> str:
    """A number with so many decimals, fewer from a hundred on, `unknown` for NaN, nothing for None."""
    if value is None:
        return ""
    decimals = digits if abs(value) < 100 else min(digits, 1) if abs(value) < 1000 else 0
    return "unknown" if value != value else f"{value:z,.{decimals}f}"


def span(low: Any, high: Any, digits: int = 3) -> str:
    """A range: `0.120 to 0.480`."""
    return f"{number(low, digits)} to {number(high, digits)}"


def percent(value: Any) -> str:
    """A probability in a sentence: `23 %`; nothing that is possible reads as 0 %, nothing uncertain as 100 %."""
    if value != value:
        return "unknown"
    share = 100 * float(value)
    if 0 < share < 1:
        return f"{share:.1g} %" if share >= 0.05 else "under 0.1 %"
    if 99 < share < 100:
        return f"{share:.1f} %" if share < 99.95 else "over 99.9 %"
    return f"{share:z.0f} %"


def percents(low: Any, high: Any) -> str:
    """A range of probabilities in a sentence: `12 to 48 %`."""
    first, second = percent(low), percent(high)
    return second if first == second else f"{first.removesuffix(' %')} to {second}"


def confidence(level: float) -> str:
    """A level in words: `95 %`."""
    return f"{100 * level:g} %"
