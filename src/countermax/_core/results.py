"""The one protocol of results: rows of numbers that say what they are about, and every form that follows from them.

Numbers that travel through compiled code (`Bounds`, `Effect`) are values, not results; what a question returns to a
person is a result, and a result is one of these. It supplies its rows, its words and its picture; how it prints, and
what it becomes as a frame, JSON, a notebook's cell or a page, is written here and nowhere else.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from countermax._core import page
from countermax._core.console import as_text
from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._core.files import check_new, write_atomically
from countermax._core.words import WARNING, both, count_digits, number, percent, percents, span

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MOST_LINES = 24
"""Lines of a table that are printed; frames and JSON have them all."""
_MOST_LISTED = 12  # names in a message
_MOST_ON_PAGE = 20_000  # rows of numbers; 150,000 are 54 MB
_COUNTED = "number ", "count("  # beginnings of quantities that count people
_ACROSS = 6  # columns of numbers side by side; more go into a second table


class Row(NamedTuple):
    """One number: what it is, whom it is about, under which coupling, and how well it is known."""

    quantity: str
    """For instance `P(home)`, `effect`, `PN`, `return`; counts of people begin with `number` or `count`."""
    about: str
    """Whom it is about: `this person`, `everybody`, `episode 17`."""
    coupling: str
    """A coupling, or a family of them: `any coupling`, `stable couplings`; empty where none is involved."""
    value: float | None = None
    """The number; None where only a range is known."""
    lower: float | None = None
    upper: float | None = None
    """The least and the largest value over the family of couplings."""
    ci_lower: float | None = None
    ci_upper: float | None = None
    """The confidence interval: of the value, or of the whole range."""

    @classmethod
    def of(
        cls, what: str, about: str, coupling: str, value: Any, bounds: Any = None, interval: Any = None, at: Any = ()
    ) -> "Row":
        """From a number, and ranges that have a `lower` and an `upper`; of arrays, from what is `at` one place."""
        ranges = ((None, None) if each is None else (each.lower, each.upper) for each in (bounds, interval))
        numbers = (None if each is None else float(np.asarray(each)[at]) for each in (value, *chain(*ranges)))
        return cls(what, about, coupling, *numbers)

    @property
    def shown(self) -> str:
        """The number or range, with its interval in parentheses below."""
        return self.with_digits(count_digits(*self[3:]))

    def with_digits(self, of_counts: int) -> str:
        """The same, with so many decimals if it counts people."""
        digits = of_counts if self.quantity.startswith(_COUNTED) else 3
        low, high = both(self.lower, self.upper, digits)
        text = number(self.value, digits) if self.lower is None else low if low == high else f"{low} to {high}"
        interval = "" if self.ci_lower is None else f"\n({span(self.ci_lower, self.ci_upper, digits)})"
        return text and text + interval

    @property
    def said(self) -> str:
        """A probability, or a range of them, in a sentence: in per cent, with its interval in parentheses."""
        text = percent(self.value) if self.lower is None else percents(self.lower, self.upper)
        interval = "" if self.ci_lower is None else percents(self.ci_lower, self.ci_upper)
        return text + (f" ({interval})" if interval not in ("", text) else "")


class AbstractResult(ABC):
    """An answer that explains itself: three sentences, then a table, then notes."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The question."""

    @property
    @abstractmethod
    def rows(self) -> Sequence[Row]:
        """Every number of the answer."""

    @property
    @abstractmethod
    def sample(self) -> str:
        """Whose data these are, in words; empty where laws were taken as known."""

    @property
    @abstractmethod
    def assumptions(self) -> tuple[str, ...]:
        """What the numbers take as given."""

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """What the reader should know beside that."""

    @abstractmethod
    def _summary(self) -> str:
        """The answer in at most four sentences: what was asked, what data alone say, what the coupling adds."""

    @abstractmethod
    def _plot(self) -> "Figure":
        """The picture; what can be said about its look are keyword arguments."""

    @final
    def summary(self) -> str:
        """The answer in at most four sentences, and before it warnings, which may change how it is read."""
        answer = self._summary()
        title = self.title if answer.startswith(f"{self.title}\n") else ""
        warnings = (each for each in self.notes if each.startswith(WARNING))
        return "\n".join(filter(None, (title, *dict.fromkeys(warnings), answer.removeprefix(title).lstrip("\n"))))

    @final
    def plot(self, path: str | Path | None = None, *, overwrite: bool = False, **look: Any) -> "Figure":
        """The picture, and a file of it (.png, .pdf, .svg) where a path is given.

        What was asked along a dial has a picture of its own, in a file beside it: `answers-sharing.png`.

        Args:
            path: File to draw it into.
            overwrite: Whether files that are there may be replaced.
            **look: Look of it, where a result has a choice: its `title`, or how many of `most` are shown.
        """
        from countermax import _plotting

        files = {} if path is None else self._pictures(_plotting.checked_format(path))
        check_new(files, overwrite=overwrite)
        figure = self._plot(**look)
        for file, each in files.items():
            drawn = figure if each is self else each._plot()
            write_atomically(file, _plotting.picture(drawn, file.suffix.lower()))
        return figure

    def methods(self) -> str:
        """A paragraph for a paper: what was computed, how, on what assumptions, with references; empty without one."""
        return ""

    def row(self, quantity: str, coupling: str = "", about: str = "") -> Row:
        """The one row with this quantity; where there are several, say the coupling, and whom it is about."""
        found = [
            each
            for each in self.rows
            if each.quantity == quantity and coupling in ("", each.coupling) and about in ("", each.about)
        ]
        if len(found) != 1:
            near = found or [each for each in self.rows if each.quantity == quantity] or self.rows
            asked = ", ".join(repr(each) for each in (quantity, coupling, about) if each)
            some = ""
            for field in ("quantity", "coupling", "about"):
                names = list(dict.fromkeys(getattr(each, field) for each in near))
                if names != [""]:
                    more = f" and {len(names) - _MOST_LISTED} more" * (len(names) > _MOST_LISTED)
                    some += f"; {field}: {', '.join(filter(None, names[:_MOST_LISTED]))}{more}"
            raise InputError(f"`row` must match one row, and {len(found) or 'none'} match {asked}{some}")
        return found[0]

    def to_frame(self) -> "pd.DataFrame":
        """One line for each row of numbers: quantity, about, coupling, value, lower, upper, ci_lower, ci_upper."""
        return import_pandas().DataFrame(list(self.rows), columns=list(Row._fields))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words; None where there is no number."""
        return plain(
            {
                "title": self.title,
                "summary": self.summary(),
                "sample": self.sample,
                "assumptions": self.assumptions,
                "notes": self.notes,
                "methods": self.methods(),
                "rows": [each._asdict() for each in self.rows],
                **self._details(),
            }
        )

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_csv(self, path: str | Path | None = None, *, overwrite: bool = False) -> str:
        """`rows` as text, with a header; also written into a file where a path is given."""
        return _written(page.as_csv([Row._fields, *self.rows]), path, ".csv", overwrite)

    def to_latex(self, path: str | Path | None = None, *, overwrite: bool = False) -> str:
        """The printed tables as LaTeX `tabular`s, which need no package; also written into a file (.tex)."""
        return _written("\n\n".join(_latex(each) for each in self.tables()), path, ".tex", overwrite)

    def write_page(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """A self-contained HTML page: the summary, the picture, the table, notes, and all numbers."""
        from countermax import _plotting

        check_new([path], overwrite=overwrite)
        elements: list[page.Element] = [page.paragraph(each) for each in self._answer()]
        drawn = (self, *self._beside.values())
        elements += [page.picture(_plotting.picture(each.plot()), each.title) for each in drawn]
        elements += [*self._more_elements(), *self._grids()]
        elements += [each for each in map(page.paragraph, self._all_notes()) if each not in elements]
        if self.methods():
            elements += [page.heading("Methods"), page.paragraph(self.methods())]
        if len(self.rows) > _MOST_ON_PAGE:
            elements.append(page.paragraph(f"All {len(self.rows):,} rows of numbers: see to_csv() (--out)."))
        else:
            elements.append(page.preformatted("All numbers", self.to_json()))
        return page.write_page(Path(path), self.title, elements)

    def __rich__(self) -> Group:
        answer, notes = map(Text, self._answer()), map(Text, self._all_notes())
        return Group(Text(self.title, style="bold"), *answer, *self.tables(), *notes)

    def __str__(self) -> str:
        return as_text(self.__rich__())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        grids = "".join(self._grids())
        notes = "".join(f"<li>{escape(each)}</li>" for each in self._all_notes())
        answer = "".join(f"<p>{escape(each)}</p>" for each in self._answer())
        return f"<h4>{escape(self.title)}</h4>{answer}{grids}<ul>{notes}</ul>"

    def tables(self) -> list["Table"]:
        """What is printed: quantities down, couplings across."""
        return tables_of(self.rows)

    def _details(self) -> Mapping[str, Any]:
        """What `to_dict` holds beyond the rows."""
        return {}

    @property
    def _beside(self) -> Mapping[str, "AbstractResult"]:
        """More answers to the question, by name, each with a picture of its own."""
        return {}

    def _pictures(self, path: Path) -> dict[Path, "AbstractResult"]:
        """The files that its pictures go into."""
        return {path: self} | {path.with_stem(f"{path.stem}-{name}"): each for name, each in self._beside.items()}

    def _named(self, *names: str) -> dict[str, Any]:
        """Some of its own numbers and words, by name."""
        return {name: getattr(self, name) for name in names}

    def _more_elements(self) -> Sequence[page.Element]:
        """What the page holds beyond the picture and the table."""
        return ()

    def _all_notes(self) -> list[str]:
        sample = [f"Sample: {self.sample}."] if self.sample else []
        notes = [each for each in self.notes if not each.startswith(WARNING)]
        return [*sample, *(f"Assumes: {each}" for each in self.assumptions), *notes]

    def _answer(self) -> list[str]:
        """The summary, line by line, below the question."""
        return self.summary().removeprefix(self.title).strip().splitlines()

    def _grids(self) -> list[page.Element]:
        return [
            page.grid(each.columns, [[c.replace("\n", " ") for c in line] for line in each.lines])
            for each in self.tables()
        ]


class Table(NamedTuple):
    """Columns and lines of text."""

    columns: list[str]
    lines: list[list[str]]
    left: int = 1
    """Number of columns, from the first, that hold words."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RichTable]:
        """As wide as there is room; columns that have none come below, beside the first ones again."""
        every, first = [self.columns, *self.lines], max(self.left, 1)
        widths = [
            max(cell_len(line) for row in every for line in f"{row[place]}".split("\n")) + 3
            for place in range(len(self.columns))
        ]
        rest = [*range(first, len(self.columns))]
        while True:
            room = options.max_width - sum(widths[:first])
            some = [
                place
                for place, used in zip(rest, accumulate(widths[place] for place in rest), strict=True)
                if used <= room
            ]
            some, rest = (some, rest[len(some) :]) if some else (rest[:1], rest[1:])
            yield self._drawn([*range(first), *some])
            if not rest:
                return

    def _drawn(self, places: Sequence[int]) -> RichTable:
        drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for place in places:
            justify: JustifyMethod = "left" if place < self.left else "right"
            drawn.add_column(Text(self.columns[place]), justify=justify, no_wrap=True)
        for line in self.lines:
            drawn.add_row(*(Text(line[place]) for place in places))
        return drawn


def _written(text: str, path: str | Path | None, ending: str, overwrite: bool) -> str:
    """The text, after it was written into a file of this kind, if one is named."""
    if path is not None:
        page.check_ending(path, ending)
        check_new([path], overwrite=overwrite)
        write_atomically(Path(path), f"{text.rstrip()}\n")
    return text


_SPECIAL = str.maketrans(
    {each: f"\\{each}" for each in "&%$#_{}"} | {"~": r"\~{}", "^": r"\^{}", "\\": r"\textbackslash{}"}
)


def _latex(table: Table) -> str:
    lines = [" & ".join(cell.replace("\n", " ").translate(_SPECIAL) for cell in line) for line in table.lines]
    heads = " & ".join(each.replace("\n", " ").translate(_SPECIAL) for each in table.columns)
    columns = "l" * table.left + "r" * (len(table.columns) - table.left)
    body = " \\\\\n".join([f"{heads} \\\\ \\hline\n{lines[0]}" if lines else heads, *lines[1:]])
    return f"\\begin{{tabular}}{{{columns}}}\n{body} \\\\\n\\end{{tabular}}"


def tables_of(rows: Sequence[Row], most: int = MOST_LINES) -> list[Table]:
    """Rows of numbers as tables of text: a line for each quantity and whom it is about, a column for each coupling."""
    several = len({each.about for each in rows}) > 1
    lines: dict[tuple[str, str], dict[str, str]] = {}
    counts: dict[str, list[float | None]] = {each.coupling: [] for each in rows}
    for each in rows:
        counts[each.coupling] += each[3:] if each.quantity.startswith(_COUNTED) else ()
    digits = {name: count_digits(*some) for name, some in counts.items()}
    for each in rows:
        lines.setdefault((each.about, each.quantity), {})[each.coupling] = each.with_digits(digits[each.coupling])
    columns: dict[tuple[str, ...], list[str]] = {}  # couplings that say the same are one
    for name in dict.fromkeys(each.coupling for each in rows if each.shown):  # no column is empty
        cells = tuple(each.get(name, "") for each in lines.values())
        ranges = any(each.lower is not None for each in rows if each.coupling == name)
        columns.setdefault((name, *cells) if ranges else cells, []).append(name)
    couplings = list(columns.values())
    found = []
    for start in range(0, len(couplings), _ACROSS):
        some = couplings[start : start + _ACROSS]
        body = [
            [*([about] if several else []), quantity, *(said.get(each[0], "") for each in some)]
            for (about, quantity), said in lines.items()
            if start == 0 or any(each[0] in said for each in some)
        ]
        heads = [*(["about"] if several else []), "quantity", *(",\n".join(each) or "value" for each in some)]
        found.append(shortened_table(Table(heads, body, 2 if several else 1), most))
    return found


def shortened_table(table: Table, most: int = MOST_LINES) -> Table:
    """Its first lines, and how many more there are."""
    left = len(table.lines) - most
    if left <= 0:
        return table
    more = [f"... {left} more: see to_frame()", *[""] * (len(table.columns) - 1)]
    return table._replace(lines=[*table.lines[:most], more])


def column_names(prefix: str, names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Names of columns for couplings, none of them taken, and no two alike: `effect_Gumbel-max`, `effect_lower_2`."""
    used, found = set(taken), []
    for name in names:
        column = wanted = f"{prefix}{name.replace(' ', '_')}"
        count = 1
        while column in used:
            count += 1
            column = f"{wanted}_{count}"
        used.add(column)
        found.append(column)
    return found


def plain(value: Any) -> Any:
    """Arrays as lists, tuples as lists, NaN and infinities as None, labels of any kind as JSON can have them."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return plain(np.asarray(value)) if hasattr(value, "__array__") else str(value)
