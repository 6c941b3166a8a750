"""A comparison in words and on a terminal: what other couplings could say, and what other data could have shown."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from countermax._core.console import add_line, listing
from countermax._core.labels import Labels, told_apart
from countermax.couplings import AbstractCoupling, InverseCDF
from countermax.couplings._named import is_same

if TYPE_CHECKING:
    from countermax.comparison._result import Comparison

GIVEN_ORDER = "as they were given"
"""Source of the order of the outcomes, where a person gave them."""

_MOST_ACROSS = 8  # outcomes in the columns of a listing; with intervals, half as many: more are turned into rows
_MOST_DOWN = 60  # outcomes in its rows; dataframes and JSON have them all
_COUPLINGS_ACROSS = 4
_MOST_NAMED = 12  # outcomes in a sentence
_CRITERION = (
    "The optimal coupling has the least variance of the effect of this score: a criterion of precision, no evidence "
    "that it is how the two worlds are coupled."
)


def title(result: "Comparison") -> str:
    """The question."""
    here, there = result.worlds
    return f"Seen under {here}: {told_apart(result.labels)[result.observed]}. What would have happened under {there}?"


def verdict(result: "Comparison") -> str:
    """Whether the coupling matters, in words."""
    if not result.was_seen:
        return (
            f"Nobody in the sample of {result.worlds[0]} had {result.labels[result.observed]!r}: these data say "
            "nothing about such a person, and every probability may be anything from 0 to 1."
        )
    found = result.intervals
    known = "p and q" if result.worlds == ("p", "q") else "the two arms"
    if not result.coupling_matters:
        fixed = f"{known} alone fix every probability within {result.slack:.2g}"
        doubt = "" if found is None else "; how well they are known is in the intervals"
        return f"The choice of coupling hardly matters here: {fixed}{doubt}."
    widest = int(result.bounds.width.argmax())
    low, high = result.bounds.lower[widest], result.bounds.upper[widest]
    text = (
        f"The choice of coupling matters here: {known} alone allow anything from {low:.2f} to {high:.2f} for "
        f"{result.labels[widest]!r}"
    )
    if len(result.answers) > 1:
        text += f", and the couplings compared differ by up to {result.disagreement:.2f}"
    text += "."
    if found is None:
        return text
    interval = found.bounds.probabilities
    return (
        f"{text} With {100 * found.level:g}% confidence, whatever the coupling and the luck of the sample, it is from "
        f"{interval.lower[widest]:.2f} to {interval.upper[widest]:.2f}."
    )


def left_out(result: "Comparison") -> str:
    """What the numbers take as given."""
    if result.intervals is None:
        return "Takes p and q as known: how well they were estimated is left out."
    return (
        f"Intervals are for the sampling of {result.intervals.sample}. Left out: whether the two groups are comparable "
        "(randomised, or alike in all that matters)."
    )


def shown(result: "Comparison") -> Group:
    """Listings of all numbers, then sentences."""
    found = result.intervals
    columns: list[tuple[str, Any, Any, Any]] = [
        (each.name, each.probabilities, None, None if found is None else found.answers[each.name].probabilities)
        for each in result.answers
    ]
    for name, bounds, whole in (
        ("any coupling", result.bounds, None if found is None else found.bounds.probabilities),
        ("any stable coupling", result.stable_bounds, None if found is None else found.stable_bounds.probabilities),
    ):
        columns.append((name, bounds.lower, bounds.upper, whole))

    def cell(index: int) -> Callable[[tuple[str, Any, Any, Any]], str]:
        def text(column: tuple[str, Any, Any, Any]) -> str:
            _, low, high, interval = column
            value = _number(low[index]) if high is None else _span(low[index], high[index])
            return value if interval is None else f"{value}\n({_span(interval.lower[index], interval.upper[index])})"

        return text

    parts: list[RenderableType] = [*_outcomes(result, columns, cell)]
    if result.score_bounds is not None:
        parts.extend(_scores(result))
    if found is not None:
        parts.append(
            Text(
                f"In parentheses: {100 * found.level:g}% intervals, what other data could have shown. Any coupling: "
                "from the least to the largest answer, what other couplings could say; its interval holds the "
                "whole range."
            )
        )
    parts.append(Text(verdict(result)))
    parts.extend(Text(note) for note in (*_win(result), *result.notes))
    if any(answer.name in ("inverse CDF by score", "comonotone") for answer in result.answers):
        parts.append(Text(_CRITERION))
    return Group(*parts, Text(left_out(result)), *([] if result.sharing is None else [result.sharing]))


def _outcomes(
    result: "Comparison",
    columns: list[tuple[str, Any, Any, Any]],
    cell: Callable[[int], Callable[[tuple[str, Any, Any, Any]], str]],
) -> list[RenderableType]:
    """Couplings down and outcomes across, or turned where outcomes are many."""
    labels, size, heading = told_apart(result.labels), len(result.labels), title(result)
    if size <= (_MOST_ACROSS if result.intervals is None else _MOST_ACROSS // 2):
        table = listing(heading, ["coupling", *labels])
        for place, column in enumerate(columns):
            cells = [cell(index)(column) for index in range(size)]
            add_line(table, [column[0], *cells], last=place == len(result.answers) - 1)
        return [table]
    shown = list(range(size))
    if size > _MOST_DOWN:
        likely = sorted(shown, key=lambda index: -result.bounds.upper[index])[:_MOST_DOWN]
        shown = sorted(likely)
    parts: list[RenderableType] = []
    for group in _groups(columns, len(result.answers)):
        table = listing(heading, ["outcome", *(column[0] for column in group)])
        for index in shown:
            add_line(table, [labels[index], *(cell(index)(column) for column in group)])
        parts.append(table)
        heading = ""
    if len(shown) < size:
        parts.append(Text(f"{size - len(shown)} more outcomes in the dataframe and the JSON."))
    return parts


def _groups(columns: list[Any], answers: int) -> list[list[Any]]:
    fixed = [columns[start : min(start + _COUPLINGS_ACROSS, answers)] for start in range(0, answers, _COUPLINGS_ACROSS)]
    return [*fixed, columns[answers:]]


def _scores(result: "Comparison") -> list[RenderableType]:
    """This one's score and effect; then what holds over everybody."""
    found = result.intervals
    parts: list[RenderableType] = []
    for heading, columns in (
        ("The score of this one", ("expected_score", "effect")),
        ("Over everybody", ("better", "worse", "agreement", "effect_variance")),
    ):
        table = listing(heading, ["coupling", *(column.replace("_", " ") for column in columns)])
        for place, answer in enumerate(result.answers):
            intervals = None if found is None else found.answers[answer.name]
            cells = [_with_interval(getattr(answer, column), None, intervals, column) for column in columns]
            add_line(table, [answer.name, *cells], last=place == len(result.answers) - 1)
        families: Sequence[tuple[str, Any, Any]] = (
            ("any coupling", result.score_bounds, None if found is None else found.bounds),
            ("any stable coupling", result.stable_score_bounds, None if found is None else found.stable_bounds),
        )
        for name, bounds, intervals in families:
            limits = [getattr(bounds, column, None) for column in columns]
            if any(each is not None for each in limits):
                pairs = zip(limits, columns, strict=True)
                add_line(table, [name, *(_with_interval(None, each, intervals, column) for each, column in pairs)])
        parts.append(table)
    return parts


def _with_interval(value: Any, bounds: Any, intervals: Any, column: str) -> str:
    if value is None and bounds is None:
        return ""
    text = _number(value) if bounds is None else _span(bounds.lower, bounds.upper)
    interval = None if intervals is None else getattr(intervals, column)
    return text if interval is None else f"{text}\n({_span(interval.lower, interval.upper)})"


def _win(result: "Comparison") -> list[str]:
    if result.win_probability is None:
        return []
    found = result.intervals
    interval = None if found is None else found.win_probability
    doubt = "" if interval is None else f" ({_span(interval.lower, interval.upper)})"
    return [
        f"Somebody from {result.worlds[1]} does better than somebody else from {result.worlds[0]} with probability "
        f"{result.win_probability:.3f}{doubt}, ties counted half (Mann and Whitney's win probability). That compares "
        "two people; 'better' compares a person with herself, and no trial sees that."
    ]


def _number(value: Any) -> str:
    return "unknown" if value != value else f"{value:z.3f}"


def _span(low: Any, high: Any) -> str:
    return f"{low:z.3f} to {high:z.3f}"


def order_note(names: Labels, asked: Mapping[str, AbstractCoupling], order: str) -> tuple[str, ...]:
    """The order of the outcomes, where it decides an answer."""
    plain = next((name for name, each in asked.items() if is_same(each, InverseCDF())), None)
    if plain is None or len(names) < 3:
        return ()
    return (f"{plain[0].upper()}{plain[1:]} runs through the outcomes {order}: {_listed(told_apart(names.names))}.",)


def _listed(labels: Sequence[str]) -> str:
    return ", ".join(labels[:_MOST_NAMED]) + (", and so on" if len(labels) > _MOST_NAMED else "")
