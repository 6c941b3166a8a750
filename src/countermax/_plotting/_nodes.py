"""What the nodes of a network would have been: a panel for each."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from countermax._plotting._style import Floats, colours, house_style, literal

_MOST_OUTCOMES = 12
_INCHES = 0.62  # an outcome takes, across and down
_LONGEST = 22  # characters of a label
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
    """Of one row bars with the bounds as whiskers; of many a square of shares for each node, the bounds written in it.

    Args:
        panels: The nodes.
        note: Remark on what the numbers leave out, for the foot of the picture.
    """
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
    axes.set_yticks(places, _short(panel.labels))
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
    names = _short(panel.labels)
    long = max(map(len, names)) > 6
    axes.set_xticks(range(size), names, rotation=40 if long else 0, ha="right" if long else "center")
    axes.set_yticks(range(size), [f"{name} ({count:,})" for name, count in zip(names, panel.seen, strict=True)])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("would have been")
    axes.set_ylabel("seen")


def _short(labels: Sequence[str]) -> list[str]:
    """The labels, long ones without their middle; those that would look the same are numbered."""
    cut = [
        each if len(each) <= _LONGEST else f"{each[: _LONGEST // 2]}…{each[-_LONGEST // 2 + 1 :]}" for each in labels
    ]
    return [
        literal(each if cut.count(each) == 1 else f"{each} ({1 + cut[:place].count(each)})")
        for place, each in enumerate(cut)
    ]


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
