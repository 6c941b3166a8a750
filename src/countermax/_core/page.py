"""Self-contained HTML pages, and sheets: rows and columns as Markdown and CSV."""

import base64
import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TypeAlias

from countermax._core.errors import InputError
from countermax._core.files import write_atomically

Value = float | str | None


@dataclass(frozen=True)
class Sheet:
    """Rows and columns on a page; numbers keep their digits until they are shown."""

    caption: str
    columns: Sequence[str]
    formats: Sequence[str]
    """How each column's numbers are shown, for instance `.2f` or `.1%`; empty for text."""
    rows: Sequence[Sequence[Value]]

    def __post_init__(self) -> None:
        assert all(len(each) == len(self.columns) for each in (self.formats, *self.rows))

    def shown(self) -> list[list[str]]:
        """The rows as text."""
        return [[_text(value, form) for value, form in zip(row, self.formats, strict=True)] for row in self.rows]

    def markdown(self) -> str:
        """Markdown, for a document."""
        rule = ["---:" if form else "---" for form in self.formats]
        lines = [list(self.columns), rule, *self.shown()]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"

    def csv(self) -> str:
        """CSV with all digits, for a program."""
        return as_csv([self.columns, *self.rows])


def as_csv(lines: Iterable[Iterable[object]]) -> str:
    """Lines of cells as CSV; None is an empty cell."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _text(value: Value, form: str) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else format(value, form if "+" in form or not form else f"z{form}")


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="countermax">
<title>{title}</title>
<style>
body {{ font: 16px/1.55 system-ui, sans-serif; color: #222; max-width: 74rem; margin: 2rem auto; padding: 0 1rem; }}
p, li {{ max-width: 48rem; }} h1 {{ font-size: 1.7rem; }} h2 {{ font-size: 1.2rem; margin-top: 2.2rem; }}
table {{ border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #ddd; vertical-align: top; }}
th:first-child, td:first-child {{ text-align: left; }}
thead th {{ border-bottom: 2px solid #888; }}
img {{ max-width: min(100%, 60rem); height: auto; }}
.wide {{ overflow-x: auto; }} .wide table {{ font-size: .9rem; }} td span {{ display: inline-block; }}
@media (max-width: 48rem) {{ .wide table {{ font-size: .68rem; }} th, td {{ padding: .2rem .25rem; }} }}
@media print {{ .wide {{ overflow: visible; }} .wide table {{ font-size: .6rem; }} img {{ break-inside: avoid; }} }}
details {{ margin: 1rem 0; }} pre {{ font-size: .8rem; white-space: pre-wrap; overflow-wrap: anywhere; }}
.box {{ border: 1px solid #888; border-radius: 4px; background: #f7f7f2; padding: 0 1.2rem; margin: 2rem 0; }}
.box h2 {{ margin-top: 1rem; }}
.note {{ color: #666; font-size: .85rem; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"""


Element: TypeAlias = str
"""An element of the page."""


def paragraph(words: str, note: bool = False) -> Element:
    """A paragraph; `note` sets it small and grey."""
    return f'<p class="note">{escape(words)}</p>' if note else f"<p>{escape(words)}</p>"


def heading(words: str) -> Element:
    """The title of a section."""
    return f"<h2>{escape(words)}</h2>"


def picture(png: bytes, description: str) -> Element:
    """A PNG, carried inside the page."""
    return f'<p><img alt="{escape(description)}" src="data:image/png;base64,{base64.b64encode(png).decode()}"></p>'


def grid(columns: Sequence[str], rows: Iterable[Sequence[Value]]) -> Element:
    """A sheet on the page; numbers are shown with three decimals."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    lines = ("".join(f"<td>{_cell(value)}</td>" for value in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    described = escape(", ".join(columns))
    table = f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>"
    return f'<div class="wide" tabindex="0" role="region" aria-label="Table: {described}">{table}</div>'


def preformatted(title: str, text: str) -> Element:
    """Text as it stands, folded away under a heading until it is asked for."""
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


def box(title: str, points: Iterable[str]) -> Element:
    """Points under a heading, set apart from the rest of the page."""
    items = "".join(f"<li>{escape(point)}</li>\n" for point in points)
    return f'<div class="box"><h2>{escape(title)}</h2>\n<ul>\n{items}</ul></div>'


def check_ending(path: str | Path, *endings: str) -> None:
    """Refuses a file whose name says that it is of another kind."""
    if Path(path).suffix.lower() not in endings:
        raise InputError(f"the file must end in {' or '.join(endings)}, got {str(path)!r}")


def write_page(path: Path, title: str, elements: Iterable[Element]) -> Path:
    """Writes the page; nothing in it is fetched from elsewhere."""
    check_ending(path, ".html", ".htm")
    return write_atomically(path, _PAGE.format(title=escape(title), body="\n".join(elements)))


def _cell(value: Value) -> str:
    """A cell's text, in which an interval that wraps wraps whole."""
    return re.sub(r" (\(\S+ to \S+\))$", r" <span>\1</span>", escape(_text(value, ".3f")))
