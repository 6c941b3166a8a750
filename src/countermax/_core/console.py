"""Tables and text on a terminal: one look for all of them."""

import io
import sys
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

_PIPE_WIDTH = 10_000  # a pipe has no width to keep to: tables then take what they need instead of cutting numbers off
_TEXT_WIDTH = 160


def listing(title: str, columns: Sequence[str], *, left: int = 1) -> RichTable:
    """An empty table to be filled by `add_line`."""
    table = RichTable(title=Text(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if place < left else "right", no_wrap=True)
    return table


def add_line(table: RichTable, cells: Iterable[str], *, last: bool = False) -> None:
    """A row of plain text; `last` draws a line below it."""
    table.add_row(*(Text(cell) for cell in cells), end_section=last)


def show(what: RenderableType) -> None:
    """Prints text, or anything that rich can draw; nothing where there is no standard output."""
    if sys.stdout is None:
        return
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    Console(width=width, soft_wrap=isinstance(what, str)).print(what, highlight=False, markup=False)


def as_text(what: RenderableType) -> str:
    """What `show` would print, without colours."""
    buffer = io.StringIO()
    Console(file=buffer, width=_TEXT_WIDTH, no_color=True, highlight=False).print(what, markup=False)
    return "\n".join(line.rstrip() for line in buffer.getvalue().rstrip().splitlines())
