"""Text on a terminal: one look for all of it, and no control characters of somebody else's labels."""

import io
import re
import sys
from collections.abc import Iterable
from typing import final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

_PIPE_WIDTH = 10_000  # a pipe has no width to keep to: tables then take what they need instead of cutting numbers off
_TEXT_WIDTH = 160
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # what a terminal obeys, but for tabs and ends of lines


def show(what: RenderableType) -> None:
    """Prints text, or anything that rich can draw; nothing where there is no standard output."""
    if sys.stdout is None:
        return
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    _Console(width=width, soft_wrap=isinstance(what, str)).print(what, highlight=False, markup=False)


def as_text(what: RenderableType) -> str:
    """What `show` would print, without colours."""
    buffer = io.StringIO()
    _Console(file=buffer, width=_TEXT_WIDTH, no_color=True, highlight=False).print(what, markup=False)
    return "\n".join(line.rstrip() for line in buffer.getvalue().rstrip().splitlines())


@final
class _Console(Console):
    """Spells control characters out; those that set colours are rich's own, and no text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            plain = text if control else _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)
            yield Segment(plain, style, control)
