"""What people would have had instead of what they had: flows, and squares of shares."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from numpy.typing import NDArray

from countermax._core.words import percent
from countermax._plotting._style import Floats, colours, house_style, literal, one_panel, shortened

_PALETTE = ("#D55E00", "#E69F00", "#009E73", "#0072B2", "#CC79A7", "#56B4E9", "#F0E442", "#999999")
_MOST_SHOWN = 8  # outcomes; the smaller ones are drawn as one
_GAP = 0.08  # between two outcomes, as a share of the whole height
_BAR = 0.025
_FEW = 100  # people, of whom tenths are written
_LEAST_LABELLED = 0.035  # of the whole height: thinner flows carry no number


def draw_flows(
    counts: Floats,
    labels: Sequence[str],
    title: str,
    coupling: str,
    ranges: Sequence[Floats] | None = None,
    start: str = "seen",
) -> Figure:
    """Bands from each seen outcome on the left to each other one on the right, as high as their expected counts.

    The least and the largest count over all couplings (`ranges`) are written beside each count. `start` says when those
    on the left had their outcome.
    """
    words = "in brackets: from the least to the largest count under any coupling"
    if len(labels) > _MOST_SHOWN:
        merged, names = _others_together(counts, labels, counts)
        if ranges is not None:
            lower, upper = (_others_together(each, labels, counts)[0] for each in ranges)
            ranges = _within_rows(lower, upper, merged.sum(axis=1, keepdims=True))
            words += " (of others together: no less, no more)"
        counts, labels = merged, names
    with one_panel(6.4, 1.6 + 0.7 * len(labels), title) as (figure, axes):
        axes.set_xlim(-0.4, 1.4)
        axes.set_ylim(1.01 + _GAP * (len(labels) - 1), -0.1)
        axes.axis("off")
        _draw_flows(axes, counts, labels, ranges)
        if ranges is not None:
            axes.text(0.5, -0.01, words, transform=axes.transAxes, ha="center", va="top", fontsize=7, color="0.35")
        for place, words in ((0.0, start), (1.0, literal(f"would have been\nunder {coupling}"))):
            axes.text(place, -0.05, words, ha="left" if place else "right", va="center", fontsize=8, color="0.35")
    return figure


def _draw_flows(axes: Axes, counts: Floats, labels: Sequence[str], ranges: Sequence[Floats] | None) -> None:
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
                share = f"{written(counts[row, column])}  ({percent(heights[row, column] / sides[0][row])})"
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


_MOST_OUTCOMES = 12
_INCHES = 0.62  # an outcome takes, across and down
_LONGEST_LABEL = 22  # characters of a label
_LINE = 7  # characters of a title for each inch


class NodePanel(NamedTuple):
    """What is drawn of one node."""

    title: str
    coupling: str
    """Whose colour the bars have."""
    labels: Sequence[str]
    seen: NDArray[np.int64]
    """How many rows had each outcome."""
    shares: Floats
    """Of those with an outcome, which share would have had which: [seen, instead]."""
    bounds: tuple[Floats, Floats] | None
    """Lower and upper bounds of the shares."""
    over: str
    """What the bounds are over."""


def draw_nodes(panels: Sequence[NodePanel], note: str) -> Figure:
    """Of one row bars with the bounds as whiskers; of many a square of shares for each node, with the bounds in it."""
    panels = [_largest(panel) for panel in panels]
    single = [panel.seen.sum() == 1 for panel in panels]
    widths = [
        4.2 if one else max(4.0, 1.6 + 1.3 * _INCHES * len(panel.labels))
        for panel, one in zip(panels, single, strict=True)
    ]
    height = 2.0 + (0.6 if all(single) else 1) * _INCHES * max(len(panel.labels) for panel in panels)
    with house_style():
        figure = Figure(figsize=(sum(widths), height), layout="constrained")
        columns = figure.subplots(1, len(panels), squeeze=False, width_ratios=widths)[0]
        palette = colours(list(dict.fromkeys(panel.coupling for panel in panels)))
        for axes, panel, width, one in zip(columns, panels, widths, single, strict=True):
            if one:
                _draw_bars(axes, panel, palette[panel.coupling], height)
            else:
                _draw_square(axes, panel)
            axes.set_title(textwrap.fill(literal(panel.title), int(_LINE * width)), loc="left", fontsize=9)
        over = {panel.over: None for panel in panels if panel.bounds is not None}
        words = [f"In brackets, in percent: {' and '.join(over)}."] * bool(over and not all(single))
        foot = textwrap.fill(literal(" ".join([*words, note])), int(17 * sum(widths)))
        figure.supxlabel(foot, fontsize=7, color="0.35", x=0.01, ha="left")
    return figure


def _draw_bars(axes: Axes, panel: NodePanel, colour: str, height: float) -> None:
    row = int(panel.seen.argmax())
    places = np.arange(len(panel.labels), dtype=float)
    axes.barh(places, panel.shares[row], 0.6, color=colour, label=literal(f"under {panel.coupling}"))
    if panel.bounds is not None:
        lower, upper = (each[row] for each in panel.bounds)
        middle, half = (lower + upper) / 2, (upper - lower) / 2
        whiskers = axes.errorbar(middle, places + 0.4, xerr=half, fmt="none", ecolor="0.25", elinewidth=1.4, capsize=3)
        whiskers.set_label(literal(panel.over))
    axes.set_yticks(places, [literal(each) for each in shortened(panel.labels, _LONGEST_LABEL)])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(places) - 0.4, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("probability")
    axes.grid(axis="x", color="0.9")
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.42 / (height - 1.3)), fontsize=7)


def _draw_square(axes: Axes, panel: NodePanel) -> None:
    size = len(panel.labels)
    shown = np.where(panel.seen[:, None] > 0, panel.shares, np.nan)
    axes.imshow(shown, cmap="Blues", vmin=0, vmax=2, aspect=0.75)  # no cell so dark that black numbers drown in it
    axes.set_anchor("NW")
    for row in np.flatnonzero(panel.seen):
        for column in range(size):
            axes.text(column, row - 0.14, f"{panel.shares[row, column]:.0%}", ha="center", va="center", fontsize=7)
            if panel.bounds is not None:
                ends = "–".join(f"{100 * each[row, column]:.0f}" for each in panel.bounds)
                axes.text(column, row + 0.2, f"[{ends}]", ha="center", va="center", fontsize=5.5, color="0.15")
    names = [literal(each) for each in shortened(panel.labels, _LONGEST_LABEL)]
    long = max(map(len, names)) > 6
    axes.set_xticks(range(size), names, rotation=40 if long else 0, ha="right" if long else "center")
    axes.set_yticks(range(size), [f"{name} ({count:,})" for name, count in zip(names, panel.seen, strict=True)])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("would have been")
    axes.set_ylabel("seen")


def _largest(panel: NodePanel) -> NodePanel:
    """The outcomes that most rows had or would have had, where there are too many to draw."""
    if len(panel.labels) <= _MOST_OUTCOMES:
        return panel
    weight = panel.seen + panel.seen @ np.nan_to_num(panel.shares)
    kept = np.sort(np.argsort(-weight, kind="stable")[:_MOST_OUTCOMES])
    cells = np.ix_(kept, kept)
    return panel._replace(
        title=f"{panel.title}. Shown: {_MOST_OUTCOMES} of {len(panel.labels)} outcomes",
        labels=[panel.labels[place] for place in kept],
        seen=panel.seen[kept],
        shares=panel.shares[cells],
        bounds=None if panel.bounds is None else (panel.bounds[0][cells], panel.bounds[1][cells]),
    )
