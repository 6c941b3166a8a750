"""Probabilities of causation, one block each: what data alone leave open, and what other data could have shown."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from countermax._plotting._style import STABLE, colours, house_style, literal

_BAND = "0.92"
_VEIL = 0.7  # of an interval, in the colour of what it is of
_RANGES: tuple[dict[str, Any], ...] = (
    {"color": "black", "linewidth": 2.2, "marker": "|", "markersize": 8},
    {"color": STABLE, "linewidth": 1.6, "marker": "|", "markersize": 6},
    {"color": "#AA3377", "linewidth": 1.2, "marker": "D", "markersize": 3.5},
)
_INCHES = 0.13  # of a lane


class CausalSpan(NamedTuple):
    """A range, or a number as a range of width zero."""

    lower: float
    upper: float
    interval: tuple[float, float] | None


class CausationLine(NamedTuple):
    """One number."""

    name: str
    ranges: Mapping[str, CausalSpan]
    """By the words for the couplings that they are over; none where nobody is asked about."""
    by_coupling: Mapping[str, CausalSpan]


def draw_causation(lines: Sequence[CausationLine], title: str, label: str, level: float | None = None) -> Figure:
    """Blocks from the top down; in each a lane for every range, and for every coupling where it has an interval.

    The first range is over all couplings: its interval is the band behind the block. Other intervals are thin lines.

    Args:
        lines: The numbers.
        title: Title of the picture.
        label: Quantity that is measured.
        level: Confidence of the intervals.
    """
    kinds = list(dict.fromkeys(kind for line in lines for kind in line.ranges))
    names = list(dict.fromkeys(name for line in lines for name in line.by_coupling))
    palette = colours(names)
    looks = dict(zip(kinds, _RANGES, strict=False))
    dots = {name: {"color": palette[name], "linewidth": 0, "marker": "o", "markersize": 3.5} for name in names}
    apart = any(span.interval is not None for line in lines for span in line.by_coupling.values())
    lanes = [*kinds, *(names if apart else ())]
    height = 0.8 / max(len(lanes), 1)
    with house_style():
        block = max(_INCHES * len(lanes) + 0.1, 0.4)
        figure = Figure(figsize=(7.0, 1.3 + block * len(lines)), layout="constrained")
        axes = figure.subplots()
        for place, line in enumerate(lines):
            heights = {lane: place - 0.4 + (number + 0.5) * height for number, lane in enumerate(lanes)}
            for number, (kind, span) in enumerate(line.ranges.items()):
                if number == 0:
                    _behind(axes, place, span)
                _draw(axes, heights[kind], span, looks[kind], whisker=number > 0)
            for name, span in line.by_coupling.items():
                _draw(axes, heights[name] if apart else heights[kinds[0]], span, dots[name])
        axes.set_yticks(range(len(lines)), [literal(line.name) for line in lines])
        axes.set_ylim(len(lines) - 0.45, -0.55)
        if all(span.lower >= 0 and span.upper <= 1 for line in lines for span in line.ranges.values()):
            axes.set_xlim(-0.01, 1.01)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="0.93")
        axes.set_xlabel(literal(label))
        axes.set_title(literal(title), loc="left", wrap=True)
        handles = _handles(looks, dots, level, others=apart or len(kinds) > 1)
        figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _behind(axes: Axes, place: int, span: CausalSpan) -> None:
    """The range over all couplings in digits at the right, and its interval behind the block."""
    if span.interval is not None:
        low, high = span.interval
        axes.barh(place, high - low, left=low, height=0.84, color=_BAND, linewidth=0)
    words = f"{span.lower:z.2f} to {span.upper:z.2f}"
    axes.annotate(words, (1, place), (6, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                  va="center", fontsize=8, annotation_clip=False)  # fmt: skip


def _draw(axes: Axes, height: float, span: CausalSpan, look: Mapping[str, Any], *, whisker: bool = True) -> None:
    if whisker and span.interval is not None:
        axes.plot(span.interval, [height] * 2, color=look["color"], linewidth=0.9, alpha=_VEIL)
    axes.plot([span.lower, span.upper], [height] * 2, **look)


def _handles(looks: Mapping[str, Any], dots: Mapping[str, Any], level: float | None, *, others: bool) -> list[Any]:
    handles: list[Any] = [Line2D([], [], label=literal(name), **look) for name, look in {**looks, **dots}.items()]
    if level is not None:
        handles.append(Patch(color=_BAND, label=f"{100 * level:g}% interval, any coupling"))
    if level is not None and others:
        handles.append(Line2D([], [], color="0.4", linewidth=0.9, alpha=_VEIL, label="intervals of the others"))
    return handles
