"""Answers to one question: what each coupling says, within what any coupling could say."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from countermax._core.results import Row
from countermax._plotting._style import (
    STABLE,
    Floats,
    colours,
    house_style,
    legend_below,
    literal,
    one_panel,
    shortened,
    wrapped,
)

_LONGEST_LABEL = 16  # characters of a label
_MOST_ANNOTATED = 8  # heatmaps of more outcomes show colours only


def draw_couplings(
    joints: Mapping[str, Floats],
    p: Floats,
    q: Floats,
    labels: Sequence[str],
    title: str,
    worlds: tuple[str, str] = ("p", "q"),
    notes: Mapping[str, str] | None = None,
) -> Figure:
    """Heatmaps: P(X=row, Y=column) under each coupling, `p` on the left margin and `q` on top, named after the worlds.

    `notes` has words to put after a coupling's name.
    """
    columns = 2 if len(joints) == 4 else min(3, len(joints))
    rows = -(-len(joints) // columns)
    brightest = max(float(joint.max()) for joint in joints.values())
    with house_style():
        side = 2.75 + 0.06 * min(_LONGEST_LABEL, max(map(len, labels)))
        figure = Figure(figsize=(side * columns + 0.4, side * rows + 0.5), layout="constrained")
        panels = figure.subfigures(rows, columns, squeeze=False)
        for panel, (name, joint) in zip(panels.flat, joints.items(), strict=False):
            ratios, apart = (1, 4.5), {"wspace": 0, "hspace": 0}
            grid = panel.subplots(2, 2, width_ratios=ratios, height_ratios=ratios, gridspec_kw=apart)
            grid[0, 0].axis("off")
            _margins(grid[1, 0], grid[0, 1], p, q, labels, worlds)
            _heatmap(grid[1, 1], joint, brightest)
            words = literal(name + (notes or {}).get(name, ""))
            panel.suptitle(words, fontsize=10, fontweight="bold")
        figure.suptitle(literal(title), fontsize=10)
    return figure


def _margins(left: Axes, top: Axes, p: Floats, q: Floats, labels: Sequence[str], worlds: tuple[str, str]) -> None:
    positions = np.arange(len(labels))
    short = [literal(label) for label in shortened(labels, _LONGEST_LABEL)]
    shown = short if len(labels) <= 2 * _MOST_ANNOTATED else [""] * len(labels)
    left.barh(positions, p, color="0.75")
    left.set_ylim(len(labels) - 0.5, -0.5)
    left.invert_xaxis()
    left.set_yticks(positions, shown, fontsize=7)
    left.set_xticks([])
    here, there = (literal(each) for each in shortened(worlds, _LONGEST_LABEL))
    left.set_xlabel(here)
    top.bar(positions, q, color="0.75")
    top.set_xlim(-0.5, len(labels) - 0.5)
    top.set_yticks([])
    top.xaxis.tick_top()
    top.set_xticks(positions, shown, fontsize=7, rotation=90)
    top.set_ylabel(there, rotation=0, ha="right", va="center")
    for axes in (left, top):
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)


def _heatmap(axes: Axes, joint: Floats, brightest: float) -> None:
    axes.imshow(joint, cmap="Blues", vmin=0, vmax=brightest, aspect="auto")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set(visible=True, color="0.8")
    if len(joint) > _MOST_ANNOTATED:
        return
    for (i, j), value in np.ndenumerate(joint):
        text, colour = "0" if value < 5e-4 else f"{value:.2f}", "white" if value > 0.55 * brightest else "black"
        axes.text(j, i, text, ha="center", va="center", fontsize=7, color=colour)


_MOST_PANELS = 11  # outcomes in a picture
_ACROSS = 4
_CURVE, _ANY, _STABLE = "#0072B2", "0.91", "#F2D5D5"
_TURNS = {  # how a line looks, and what is said of it
    "most likely outcome": ("--", "the most likely outcome turns"),
    "sign of the effect": (":", "the sign of the effect turns"),
    "better off": ("-.", "P(better off) passes one half"),
}
_TICKS = np.array([0, 0.25, 0.5, 0.75, 1])


class CurvePanel(NamedTuple):
    """One curve and what lies behind it."""

    title: str
    values: Floats
    bounds: tuple[float, float]
    """Over all couplings."""
    stable_bounds: tuple[float, float]
    interval: tuple[Floats, Floats] | None
    """Lower and upper limits, at the rates that have intervals."""


def draw_sensitivity(
    numbers: Floats,
    correlation: Floats | None,
    outcomes: Sequence[CurvePanel],
    effect: CurvePanel | None,
    turns: Sequence[tuple[str, float]],
    words: tuple[str, str],
    intervals: tuple[Floats, float] | None,
) -> Figure:
    """Small panels that share their axes: each outcome's probability, then the effect where there is one.

    Across are the numbers on the dial, on top Pearson's correlation of the noises where there is one. Of many outcomes
    those that are likeliest anywhere are shown. `turns` are conclusions and the numbers at which they turn, `words` the
    title and what is across, `intervals` the numbers that have intervals, and their level.
    """
    title, across_is = words
    if len(outcomes) > _MOST_PANELS:
        largest = np.argsort([-each.values.max() for each in outcomes], kind="stable")[:_MOST_PANELS]
        title = f"{title}\nShown: the {_MOST_PANELS} of {len(outcomes)} outcomes that are likeliest on the curve"
        outcomes = [outcomes[place] for place in (largest if effect is None else sorted(largest))]
    panels = [*outcomes, *([] if effect is None else [effect])]
    down = -(-len(panels) // _ACROSS)
    across = -(-len(panels) // down)
    names = shortened([each.title for each in panels])
    with house_style():
        figure = Figure(figsize=(1.0 + 1.75 * across, 1.55 + 1.75 * down), layout="constrained")
        grid = figure.subplots(down, across, sharex=True, squeeze=False).ravel()
        for place, axes in enumerate(grid):
            if place >= len(panels):
                axes.set_visible(False)
                continue
            panel = panels[place]
            _draw_curve(axes, numbers, panel, None if intervals is None else intervals[0], turns)
            axes.set_title(literal(names[place]), loc="left", fontsize=9)
            if panel is effect:
                axes.axhline(0, color="0.4", linewidth=0.8)
            else:
                axes.set_ylim(-0.02, 1.02)
                axes.set_yticks([0, 0.5, 1])
            axes.tick_params(labelbottom=place + across >= len(panels))
            if correlation is not None:
                top = axes.secondary_xaxis("top")
                top.set_xticks(_TICKS, [f"{value:.2g}" for value in np.interp(_TICKS, numbers, correlation)])
                top.tick_params(labelsize=6, length=2, pad=1, colors="0.4", labeltop=place < across)
        for place, axes in enumerate(grid[:across]):
            axes.set_title(literal(names[place]), loc="left", fontsize=9, pad=14)
        lines = [part for line in title.splitlines() for part in textwrap.wrap(line, 4 + 24 * across)]
        figure.suptitle(literal("\n".join(lines)), fontsize=10, x=0.01, ha="left")
        in_lines = across_is.replace(". ", ".\n").replace(", 0", ",\n0")
        figure.legend(
            *_curve_legend(grid[0], turns, intervals),
            title=f"Across: {across_is if across > 2 else in_lines}",
            loc="outside lower center",
            ncols=min(3, across),
            fontsize=7,
            title_fontsize=8,
        )
    return figure


def _draw_curve(
    axes: Axes, numbers: Floats, panel: CurvePanel, known: Floats | None, turns: Sequence[tuple[str, float]]
) -> None:
    axes.axhspan(*panel.bounds, color=_ANY, linewidth=0)
    axes.axhspan(*panel.stable_bounds, color=_STABLE, linewidth=0)
    for limit in panel.stable_bounds:  # seen where the two limits are equal, too
        axes.axhline(limit, color=_STABLE, linewidth=1)
    if panel.interval is not None and known is not None:
        axes.fill_between(known, *panel.interval, color=_CURVE, alpha=0.12, linewidth=0)
        for side in panel.interval:
            axes.plot(known, side, color=_CURVE, linewidth=0.8, linestyle=(0, (4, 1.5)))
    axes.plot(numbers, panel.values, color=_CURVE, linewidth=1.6)
    for what, rate in turns:
        axes.axvline(rate, color="black", linewidth=0.9, linestyle=_TURNS[what][0])
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])


def _curve_legend(
    axes: Axes, turns: Sequence[tuple[str, float]], intervals: tuple[Floats, float] | None
) -> tuple[list[Artist], list[str]]:
    entries: dict[str, Artist] = {
        "the answer": axes.plot([], [], color=_CURVE, linewidth=1.6)[0],
        "any coupling": axes.fill_between([], [], [], color=_ANY, linewidth=0),
        "stable couplings": axes.fill_between([], [], [], color=_STABLE, linewidth=0),
    }
    if intervals is not None:
        name = f"{intervals[1]:.0%} confidence interval, pointwise"
        entries[name] = axes.plot([], [], color=_CURVE, linewidth=0.8, linestyle=(0, (4, 1.5)))[0]
    for what in dict.fromkeys(each for each, _ in turns):
        look, words = _TURNS[what]
        entries[words] = axes.plot([], [], color="black", linewidth=0.9, linestyle=look)[0]
    return list(entries.values()), list(entries)


_BAND = "0.92"
_VEIL = 0.7  # of an interval, in the colour of what it is of
_RANGES: dict[str, dict[str, Any]] = {
    "any coupling": {"color": "black", "linewidth": 2.2, "marker": "|", "markersize": 8},
    "stable couplings": {"color": STABLE, "linewidth": 1.6, "marker": "|", "markersize": 6},
    "monotone": {"color": "#AA3377", "linewidth": 1.2, "marker": "D", "markersize": 3.5},
}
_LANE = 0.13  # of a lane
_LINE = 24  # characters


def draw_ranges(
    rows: Sequence[Row], quantities: Sequence[str], title: str, axis_labels: tuple[str, str], level: float | None = None
) -> Figure:
    """Groups from the top down; in each a lane for every range, and for every coupling where it has an interval.

    The first range is over all couplings: its interval is the band behind the group. Other intervals are thin lines.
    """
    ranges: list[Any] = [each for each in rows if each.lower is not None]
    answers: list[Any] = [each for each in rows if each.value is not None]
    kinds, names = (list(dict.fromkeys(each.coupling for each in some)) for some in (ranges, answers))
    palette = colours(names)
    looks = {kind: _RANGES[kind] for kind in kinds}
    dots = {name: {"color": palette[name], "linewidth": 0, "marker": "o", "markersize": 3.5} for name in names}
    apart = any(each.ci_lower is not None for each in answers)
    lanes = [*kinds, *(names if apart else ())]
    height = 0.8 / max(len(lanes), 1)
    group = max(_LANE * len(lanes) + 0.1, 0.4)
    with one_panel(7.0, 1.3 + group * len(quantities), title) as (figure, axes):
        for place, quantity in enumerate(quantities):
            heights = {lane: place - 0.4 + (number + 0.5) * height for number, lane in enumerate(lanes)}
            for number, row in enumerate(each for each in ranges if each.quantity == quantity):
                if number == 0:
                    if place == 0:
                        _beside(axes, (1, 1), row.coupling, weight="bold", va="top")
                    _behind(axes, place, row)
                ends = row.lower, row.upper
                _draw_span(axes, heights[row.coupling], ends, row, looks[row.coupling], whisker=number > 0)
            for row in (each for each in answers if each.quantity == quantity):
                lane = heights[row.coupling if apart else kinds[0]]
                _draw_span(axes, lane, (row.value, row.value), row, dots[row.coupling])
        axes.set_yticks(range(len(quantities)), wrapped(quantities, _LINE))
        axes.set_ylim(len(quantities) - 0.45, -0.55)
        if all(each.lower >= 0 and each.upper <= 1 for each in ranges):
            axes.set_xlim(-0.01, 1.01)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="0.93")
        axes.set_xlabel(literal(axis_labels[0]))
        axes.set_ylabel(literal(axis_labels[1]))
        handles = _span_legend(looks, dots, level, others=apart or len(kinds) > 1)
        legend_below(figure, handles, 4)
    return figure


def _behind(axes: Axes, place: int, row: Any) -> None:
    """The range over all couplings in digits at the right, and its interval behind the group."""
    if row.ci_lower is not None:
        axes.barh(place, row.ci_upper - row.ci_lower, left=row.ci_lower, height=0.84, color=_BAND, linewidth=0)
    _beside(axes, (1, place), f"{row.lower:z.2f} to {row.upper:z.2f}", xycoords=("axes fraction", "data"), va="center")


def _beside(axes: Axes, place: tuple[float, float], words: str, **more: Any) -> None:
    """Words to the right of the panel."""
    look = {"xycoords": "axes fraction", "fontsize": 8, "annotation_clip": False, **more}
    axes.annotate(words, place, (6, 0), textcoords="offset points", **look)


def _draw_span(
    axes: Axes, height: float, ends: Any, row: Any, look: Mapping[str, Any], *, whisker: bool = True
) -> None:
    if whisker and row.ci_lower is not None:
        axes.plot([row.ci_lower, row.ci_upper], [height] * 2, color=look["color"], linewidth=0.9, alpha=_VEIL)
    axes.plot(ends, [height] * 2, **look)


def _span_legend(looks: Mapping[str, Any], dots: Mapping[str, Any], level: float | None, *, others: bool) -> list[Any]:
    handles: list[Any] = [Line2D([], [], label=literal(name), **look) for name, look in {**looks, **dots}.items()]
    if level is not None:
        handles.append(Patch(color=_BAND, label=f"{100 * level:g}% confidence interval, any coupling"))
    if level is not None and others:
        words = "confidence intervals of the others"
        handles.append(Line2D([], [], color="0.4", linewidth=0.9, alpha=_VEIL, label=words))
    return handles
