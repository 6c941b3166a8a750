"""Probabilities of causation on a terminal, on a page and in a picture: the same words in all of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from countermax import _plotting as plotting
from countermax._core import page as report
from countermax._core.console import add_line, listing
from countermax._core.results import column_names
from countermax.bounds import Bounds
from countermax.causation._deciding import decision_words
from countermax.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from countermax.causation._result import CausalAnswer, Causation

FAMILIES = {"any coupling": "bounds", "stable": "stable_bounds", "monotone": "monotone_bounds"}
"""Fields of an answer, by the words for the couplings that they range over."""

_SINGLE = "What single couplings say"
_SIDES = ("lower", "upper")
_ROWS = "rows"


def families(result: "Causation") -> dict[str, str]:
    """Those that some number has."""
    return {
        words: field
        for words, field in FAMILIES.items()
        if field == "bounds" or any(getattr(each, field) is not None for each in result.answers)
    }


def coupling_names(result: "Causation") -> list[str]:
    """Couplings that said something."""
    return list(dict.fromkeys(name for each in result.answers for name in each.by_coupling))


def columns(result: "Causation") -> dict[str, list[Any]]:
    """One entry for each number: bounds, what couplings say, then intervals of both."""
    answers, names = result.answers, coupling_names(result)
    found: dict[str, list[Any]] = {"name": [each.name for each in answers]}
    fixed = ["name", "meaning"]
    fixed += [f"{field.removesuffix('bounds')}{side}" for field in FAMILIES.values() for side in _SIDES]
    fixed += [f"{field}_ci_{side}" for field in FAMILIES.values() for side in _SIDES]
    own = dict(zip(names, column_names("", names, fixed), strict=True))

    def add(side: str, column: str, values: Sequence[Any]) -> None:
        found[column] = [None if each is None else getattr(each, side) for each in values]

    for field in FAMILIES.values():
        for side in _SIDES:
            add(side, f"{field.removesuffix('bounds')}{side}", [getattr(each, field) for each in answers])
    for name, column in own.items():
        found[column] = [each.by_coupling.get(name) for each in answers]
    if result.level is not None:
        for field in FAMILIES.values():
            for side in _SIDES:
                add(side, f"{field}_ci_{side}", [_interval(each, field) for each in answers])
        wanted = [f"{column}_ci_{side}" for column in own.values() for side in _SIDES]
        asked = [(name, side) for name in own for side in _SIDES]
        for (name, side), column in zip(asked, column_names("", wanted, (*fixed, *own.values())), strict=True):
            add(side, column, [_interval_by(each, name) for each in answers])
    found["meaning"] = [each.meaning for each in answers]
    return found


def shown(result: "Causation") -> Group:
    """Listings of all numbers, then sentences."""
    headers, rows = _ranges(result)
    table = listing(result.title, headers, left=1)
    table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    for row in rows:
        add_line(table, row)
    parts: list[RenderableType] = [table]
    if coupling_names(result):
        headers, rows = _said(result)
        said = listing(_SINGLE, headers)
        for row in rows:
            add_line(said, row)
        parts.append(said)
    return Group(*parts, *(Text(words) for words in sentences(result)))


def write_page(result: "Causation", path: str | Path) -> Path:
    """A self-contained page: the picture, every number with its meaning, and what is left out."""

    def grid(headers: list[str], rows: list[list[str]]) -> report.Grid:
        return report.Grid(headers, [[cell.replace("\n", " ") for cell in row] for row in rows])

    blocks: list[report.Block] = [
        report.Picture(plotting.picture(result.plot()), result.title),
        grid(*_ranges(result)),
    ]
    if coupling_names(result):
        blocks += [report.Heading(_SINGLE), grid(*_said(result))]
    blocks += [report.Paragraph(words) for words in sentences(result)]
    blocks.append(report.Preformatted("All numbers", result.to_json()))
    return report.write_page(Path(path), result.title, blocks)


def drawn(result: "Causation") -> "Figure":
    """Ranges and answers of couplings, one block for each number, with their intervals."""
    kinds, lines = families(result), []
    for each in result.answers:
        ranges = {
            words: _span(getattr(each, field), _interval(each, field))
            for words, field in kinds.items()
            if getattr(each, field) is not None
        }
        said = {name: _span(Bounds(value, value), _interval_by(each, name)) for name, value in each.by_coupling.items()}
        lines.append(plotting.CausationLine(each.name, ranges, said))
    label = "probability" if result.decision is None else "value"
    return plotting.draw_causation(lines, result.title, label, result.level)


def sentences(result: "Causation") -> list[str]:
    """What stands below the numbers."""
    there = families(result)
    words = "Any coupling: from the least to the largest number that the data allow."
    if "stable" in there:
        words += " Stable: an outcome changes only to one that the treatment favours more."
    if "monotone" in there:
        rules: dict[str, list[str]] = {}
        for each in result.answers:
            if each.monotone_bounds is not None and each.monotonicity is not None:
                rules.setdefault(each.monotonicity, []).append(each.name)
        told = [f"{rule} ({', '.join(names)})" for rule, names in rules.items()]
        words += f" Monotone: {'; '.join(told)}."
    found = [words]
    if result.level is not None:
        found.append(
            f"In parentheses: {100 * result.level:g}% intervals, what other data could have shown; that of a range "
            "holds the whole range."
        )
    if result.decision is not None:
        found.append(decision_words(result.decision, result.arms))
    return [*found, *result.notes, result.left_out]


def left_out(result: "Causation") -> str:
    """What the numbers take as given."""
    who = {
        "trial": "Units of the trial are asked about: people whose arm was drawn by lot. Of people who chose, an "
        "experiment alone bounds neither PN nor PS.",
        "chosen": "People who chose their arm are asked about.",
        _ROWS: "The rows of the table are asked about: among rows with the same covariates the treatment must be as "
        "good as randomised.",
    }[result.people]
    if result.level is None and result.people == _ROWS:
        return who  # what is known of them is among the notes
    if result.level is None:
        return f"{who} Takes the probabilities as known: how well they were estimated is left out."
    comparable = "whether the arms are comparable (randomised, or alike in all that matters)"
    if result.people == _ROWS:
        comparable = "whether these covariates suffice for that"
    if result.observational is not None:
        comparable = "whether the samples are of one population"
    return f"{who} Intervals are for the sampling of {result.sample}. Left out: {comparable}."


def _ranges(result: "Causation") -> tuple[list[str], list[list[str]]]:
    """Headers and rows: every number over every kind of couplings."""
    there = families(result)
    rows = []
    for each in result.answers:
        cells = [_cell(getattr(each, field), _interval(each, field)) for field in there.values()]
        rows.append([each.name, *cells, each.meaning])
    return ["number", *there, "meaning"], rows


def _said(result: "Causation") -> tuple[list[str], list[list[str]]]:
    """Headers and rows: what each coupling says about every number."""
    names, rows = coupling_names(result), []
    for each in result.answers:
        if each.by_coupling:
            said = {name: each.by_coupling[name] for name in names}
            cells = [_cell(Bounds(value, value), _interval_by(each, name)) for name, value in said.items()]
            rows.append([each.name, *cells])
    return ["number", *names], rows


def _interval(answer: "CausalAnswer", field: str) -> Interval | None:
    return None if answer.intervals is None else getattr(answer.intervals, field)


def _interval_by(answer: "CausalAnswer", coupling: str) -> Interval | None:
    return None if answer.intervals is None else answer.intervals.by_coupling.get(coupling)


def _span(bounds: Bounds, interval: Interval | None) -> "plotting.CausalSpan":
    lower, upper = bounds
    return plotting.CausalSpan(lower, upper, None if interval is None else interval[:2])


def _cell(bounds: Bounds | None, interval: Interval | None) -> str:
    if bounds is None:
        return ""
    low, high = bounds
    text = f"{low:z.3f}" if high - low < 5e-4 else f"{low:z.3f} to {high:z.3f}"
    return text if interval is None else f"{text}\n({interval.lower:z.3f} to {interval.upper:z.3f})"
