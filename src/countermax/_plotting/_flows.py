"""How many would have had which outcome instead: flows from what was seen to what would have been."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from countermax._plotting._labels import shortened
from countermax._plotting._style import Floats, house_style, literal

_PALETTE = ("#D55E00", "#E69F00", "#009E73", "#0072B2", "#CC79A7", "#56B4E9", "#F0E442", "#999999")
_MOST_SHOWN = 8  # outcomes; the smaller ones are drawn as one
_GAP = 0.08  # between two outcomes, as a part of the whole height
_BAR = 0.025
_FEW = 100  # people, of whom tenths are written
_LEAST_LABELLED = 0.035  # of the whole height: thinner flows carry no number


def draw_flows(
    counts: Floats, labels: Sequence[str], title: str, coupling: str, ranges: Sequence[Floats] | None = None
) -> Figure:
    """Bands from each seen outcome on the left to each other one on the right, as high as their expected counts.

    Args:
        counts: Expected counts, [seen, instead].
        labels: The outcomes.
        title: Title of the picture.
        coupling: Name of the coupling that the counts come from.
        ranges: The least and the largest count over all couplings, written beside each count.
    """
    words = "in brackets: from the least to the largest count under any coupling"
    if len(labels) > _MOST_SHOWN:
        merged, names = _others_together(counts, labels, counts)
        if ranges is not None:
            lower, upper = (_others_together(each, labels, counts)[0] for each in ranges)
            ranges = _within_rows(lower, upper, merged.sum(axis=1, keepdims=True))
            words += " (of others together: no less, no more)"
        counts, labels = merged, names
    with house_style():
        figure = Figure(figsize=(6.4, 1.6 + 0.7 * len(labels)), layout="constrained")
        axes = figure.subplots()
        axes.set_xlim(-0.4, 1.4)
        axes.set_ylim(1.01 + _GAP * (len(labels) - 1), -0.1)
        axes.axis("off")
        axes.set_title(literal(title), loc="left", wrap=True)
        _draw(axes, counts, labels, ranges)
        if ranges is not None:
            axes.text(0.5, -0.01, words, transform=axes.transAxes, ha="center", va="top", fontsize=7, color="0.35")
        for place, words in ((0.0, "seen"), (1.0, literal(f"would have been\nunder {coupling}"))):
            axes.text(place, -0.05, words, ha="left" if place else "right", va="center", fontsize=8, color="0.35")
    return figure


def _draw(axes: Axes, counts: Floats, labels: Sequence[str], ranges: Sequence[Floats] | None) -> None:
    total = counts.sum()
    is_whole = total >= _FEW or (counts == counts.round()).all()
    written = ("{:,.0f}" if is_whole else "{:,.1f}").format
    heights = counts / total if total > 0 else counts
    sides = (heights.sum(axis=1), heights.sum(axis=0))
    starts = [np.concatenate([[0], np.cumsum(side + _GAP)[:-1]]) for side in sides]
    left, right = (start.copy() for start in starts)
    for row in range(len(labels)):
        colour = _PALETTE[row % len(_PALETTE)]
        for column in range(len(labels)):
            height = heights[row, column]
            if height > 0:
                axes.add_patch(_band(left[row], right[column], height, colour))
            if height >= _LEAST_LABELLED:
                share = f"{written(counts[row, column])}  ({heights[row, column] / sides[0][row]:.0%})"
                if ranges is not None:
                    share += f"  [{written(ranges[0][row, column])} to {written(ranges[1][row, column])}]"
                axes.text(0.03, left[row] + height / 2, share, va="center", fontsize=7)
            left[row] += height
            right[column] += height
    amounts = (counts.sum(axis=1), counts.sum(axis=0))
    short = shortened(labels)
    for side, (place, align) in enumerate(((0.0, "right"), (1.0, "left"))):
        for index, label in enumerate(short):
            top, height = starts[side][index], sides[side][index]
            corner = (place - _BAR if side == 0 else place, top)
            axes.add_patch(Rectangle(corner, _BAR, height, color=_PALETTE[index % len(_PALETTE)], linewidth=0))
            words = f"{literal(label)}  {written(amounts[side][index])}"
            outside = place + (-_BAR - 0.015 if side == 0 else _BAR + 0.015)
            axes.text(outside, top + height / 2, words, ha=align, va="center", fontsize=8)


def _band(left: float, right: float, height: float, colour: str) -> PathPatch:
    points = [
        (0, left), (0.5, left), (0.5, right), (1, right),
        (1, right + height), (0.5, right + height), (0.5, left + height), (0, left + height), (0, left),
    ]  # fmt: skip
    curve = [Path.CURVE4] * 3
    path = Path(points, [Path.MOVETO, *curve, Path.LINETO, *curve, Path.CLOSEPOLY])
    return PathPatch(path, facecolor=colour, alpha=0.45, linewidth=0)


def _others_together(cells: Floats, labels: Sequence[str], counts: Floats) -> tuple[Floats, list[str]]:
    """The outcomes that most had or would have had, and all others as one: any cells, added up."""
    largest = np.sort(np.argsort(-(counts.sum(axis=0) + counts.sum(axis=1)), kind="stable")[: _MOST_SHOWN - 1])
    group = np.full(len(labels), _MOST_SHOWN - 1)
    group[largest] = np.arange(_MOST_SHOWN - 1)
    together = np.zeros((_MOST_SHOWN, _MOST_SHOWN))
    np.add.at(together, (group[:, None], group[None, :]), cells)
    return together, [*(labels[index] for index in largest), f"{len(labels) - _MOST_SHOWN + 1} others"]


def _within_rows(lower: Floats, upper: Floats, totals: Floats) -> tuple[Floats, Floats]:
    """Limits of added cells: at most all of a row, and at least what its other cells cannot hold."""
    upper = np.minimum(upper, totals)
    rest = upper.sum(axis=1, keepdims=True) - upper
    return np.maximum(lower, totals - rest), upper
