"""People's own words in a picture: short enough to fit, and still different from each other."""

import textwrap
from collections.abc import Sequence

from countermax._plotting._style import literal

_LONGEST = 24


def shortened(labels: Sequence[str], longest: int = _LONGEST) -> list[str]:
    """Long labels without their ends, or without their middles where only the ends differ, or numbered."""
    heads = [label if len(label) <= longest else f"{label[: longest - 1]}…" for label in labels]
    half = (longest - 1) // 2
    short = [
        f"{label[: longest - 1 - half]}…{label[-half:]}" if heads.count(head) > 1 and len(label) > longest else head
        for label, head in zip(labels, heads, strict=True)
    ]
    return [
        each if short.count(each) == 1 else f"{each[: longest - 5]}…({place + 1})" for place, each in enumerate(short)
    ]


def wrapped(labels: Sequence[str], width: int, lines: int = 3) -> list[str]:
    """Labels in lines of some characters, ready to be drawn; what does not fit is cut, and they stay different."""
    return [
        literal("\n".join(textwrap.wrap(label, width, max_lines=lines, placeholder="…") or [""]))
        for label in shortened(labels, width * lines - lines)
    ]
