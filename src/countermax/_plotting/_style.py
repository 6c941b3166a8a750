"""The one style of every picture, and words that fit into one.

Figures are built without pyplot, so no window opens; a notebook shows them all the same. The palette is Okabe and
Ito's, which colour-blind readers can tell apart, and every coupling keeps its colour wherever it appears.
"""

import io
import sys
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Figure

from countermax._core.errors import InputError
from countermax._core.labels import fitted
from countermax._plotting._shown import Floats as Floats

_COLOURS = {
    "Gumbel-max": "#0072B2",
    "inverse CDF": "#E69F00",
    "inverse CDF by score": "#D55E00",
    "comonotone by score": "#D55E00",
    "vector quantile": "#7A9A01",
    "maximal": "#009E73",
    "independent": "#999999",
    "optimal": "#5B2A86",
    "comonotone": "#5B2A86",
    "Gadget 1": "#56B4E9",
    "Gadget 2": "#CC79A7",
}
STABLE = "#B2182B"
"""Colour of ranges over stable couplings."""

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Colours of what is no coupling."""

_SPARE_COLOURS = ("#F0E442", "#8C564B", "#17BECF", "#2F4F4F")
_FORMATS = (".png", ".pdf", ".svg")


@contextmanager
def house_style() -> Iterator[None]:
    """Sizes and colours that survive being shrunk into a column of a paper."""
    settings: dict[Any, Any] = {
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "legend.frameon": False,
        "figure.dpi": 150,
        "savefig.dpi": 200,
        "pdf.fonttype": 42,
        "svg.hashsalt": "countermax",  # else the names inside an SVG are drawn at random
    }
    _show_in_notebooks()
    with matplotlib.rc_context(settings):
        yield


@contextmanager
def one_panel(width: float, height: float, title: str) -> Iterator[tuple[Figure, Axes]]:
    """A picture with one panel, in inches."""
    with house_style():
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        axes.set_title(literal(title), loc="left", wrap=True)
        yield figure, axes


def legend_below(figure: Figure, handles: Sequence[Any], columns: int) -> None:
    """A legend under the panels, in so many columns, or in as many as the picture is wide enough for."""
    for number in range(columns, 0, -1):
        legend = figure.legend(handles=handles, loc="outside lower center", ncols=number, fontsize=8)
        if number == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def _show_in_notebooks() -> None:
    """Tells a notebook how to show a figure, which otherwise only pyplot does; its own way stays if it has one."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        formatter = shell.display_formatter.formatters["image/png"]
        if Figure not in formatter:
            formatter.for_type(Figure, lambda figure: picture(figure, dpi=80))


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name, the same in every picture: a coupling of the library's, or one that goes by the name.

    What was learned has the colour of its kind. Names that would share a colour get different ones, in the order given.
    """
    found: dict[str, str] = {}
    for name in names:
        kind = name.removeprefix("learned ")
        fixed = _COLOURS.get(name) or (None if kind in names else _COLOURS.get(kind))
        first = crc32(name.encode("utf-8", "backslashreplace")) % len(_SPARE_COLOURS)
        spare = _SPARE_COLOURS[first:] + _SPARE_COLOURS[:first]
        free = (each for each in spare if each not in found.values())
        found[name] = fixed or next(free, spare[0])
    return found


def checked_format(path: str | Path) -> Path:
    """The path, if its ending names a format that can be written."""
    target = Path(path)
    if target.suffix.lower() not in _FORMATS:
        raise InputError(f"cannot tell the picture's format from {target.name!r}; end it in {', '.join(_FORMATS)}")
    return target


def picture(figure: Figure, suffix: str = ".png", *, dpi: int = 200) -> bytes:
    """The figure as the bytes of a file, the same bytes for the same figure."""
    buffer = io.BytesIO()
    undated = {".png": {}, ".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    with house_style(), warnings.catch_warnings():
        # A script that the font lacks shows as boxes, as everywhere else; a warning for each letter helps nobody.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(buffer, format=suffix.lstrip("."), metadata=undated[suffix], dpi=dpi)
    return buffer.getvalue()


def literal(text: str) -> str:
    """The text with dollar signs that matplotlib shows instead of reading a formula between two of them.

    What is no letter, as in a file's name that is not UTF-8, is spelled out: matplotlib draws only valid text.
    """
    return text.encode("utf-8", "backslashreplace").decode().replace("$", r"\$")


_LONGEST_LABEL = 24


def shortened(labels: Sequence[str], longest: int = _LONGEST_LABEL) -> list[str]:
    """Long labels without their ends, or without their middles where only the ends differ, or numbered."""
    return fitted(labels, longest)


def wrapped(labels: Sequence[str], width: int) -> list[str]:
    """Labels in up to three lines, ready to be drawn; what does not fit is cut, and they stay different."""
    return [
        literal("\n".join(textwrap.wrap(label, width, max_lines=3, placeholder="…") or [""]))
        for label in shortened(labels, 3 * width - 3)
    ]
