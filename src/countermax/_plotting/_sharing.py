"""How an answer changes with what two worlds share."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from countermax._plotting._labels import shortened
from countermax._plotting._style import Floats, house_style, literal

_MOST_PANELS = 11  # outcomes in a picture
_ACROSS = 4
_CURVE, _ANY, _STABLE = "#0072B2", "0.91", "#F2D5D5"
_TURNS = {"most likely outcome": "--", "sign of the effect": ":", "better off": "-."}
_WORDS = {
    "most likely outcome": "the most likely outcome turns",
    "sign of the effect": "the sign of the effect turns",
    "better off": "P(better off) passes one half",
}
_AXES = "Across: rate of the shared clock, 0 independent, 1 Gumbel-max. On top: Pearson's correlation of the noises."
_AXES_IN_LINES = _AXES.replace(". ", ".\n").replace(", 0", ",\n0")
_TICKS = np.array([0, 0.25, 0.5, 0.75, 1])


class SharingPanel(NamedTuple):
    """One curve and what lies behind it."""

    title: str
    values: Floats
    bounds: tuple[float, float]
    """Over all couplings."""
    stable_bounds: tuple[float, float]
    interval: tuple[Floats, Floats] | None
    """Lower and upper limits, at the rates that have intervals."""


def draw_sharing(
    shared: Floats,
    correlation: Floats,
    outcomes: Sequence[SharingPanel],
    effect: SharingPanel | None,
    turns: Sequence[tuple[str, float]],
    title: str,
    intervals: tuple[Floats, float] | None,
) -> Figure:
    """Small panels that share their axes: each outcome's probability, then the effect where there is one.

    Args:
        shared: Rates of the shared clocks, from 0 to 1.
        correlation: Pearson's correlation of the noises at these rates: a second scale on top.
        outcomes: The outcomes' panels; of many those that are likeliest anywhere.
        effect: The effect's panel.
        turns: Conclusions that turn, and the rates at which they do.
        title: Title of the picture.
        intervals: Rates that have intervals, and their level.
    """
    if len(outcomes) > _MOST_PANELS:
        largest = np.argsort([-each.values.max() for each in outcomes], kind="stable")[:_MOST_PANELS]
        title = f"{title}\nShown: the {_MOST_PANELS} of {len(outcomes)} outcomes that are likeliest on the curve"
        outcomes = [outcomes[place] for place in sorted(largest)]
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
            _draw(axes, shared, panel, None if intervals is None else intervals[0], turns)
            axes.set_title(literal(names[place]), loc="left", fontsize=9)
            if panel is effect:
                axes.axhline(0, color="0.4", linewidth=0.8)
            else:
                axes.set_ylim(-0.02, 1.02)
                axes.set_yticks([0, 0.5, 1])
            axes.tick_params(labelbottom=place + across >= len(panels))
            top = axes.secondary_xaxis("top")
            top.set_xticks(_TICKS, [f"{value:.2g}" for value in np.interp(_TICKS, shared, correlation)])
            top.tick_params(labelsize=6, length=2, pad=1, colors="0.4", labeltop=place < across)
        for place, axes in enumerate(grid[:across]):
            axes.set_title(literal(names[place]), loc="left", fontsize=9, pad=14)
        lines = [part for line in title.splitlines() for part in textwrap.wrap(line, 4 + 24 * across)]
        figure.suptitle(literal("\n".join(lines)), fontsize=10, x=0.01, ha="left")
        figure.legend(
            *_legend(grid[0], turns, intervals),
            title=_AXES if across > 2 else _AXES_IN_LINES,
            loc="outside lower center",
            ncols=min(3, across),
            fontsize=7,
            title_fontsize=8,
        )
    return figure


def _draw(
    axes: Axes, shared: Floats, panel: SharingPanel, known: Floats | None, turns: Sequence[tuple[str, float]]
) -> None:
    axes.axhspan(*panel.bounds, color=_ANY, linewidth=0)
    axes.axhspan(*panel.stable_bounds, color=_STABLE, linewidth=0)
    for limit in panel.stable_bounds:  # seen where the two limits are equal, too
        axes.axhline(limit, color=_STABLE, linewidth=1)
    if panel.interval is not None and known is not None:
        axes.fill_between(known, *panel.interval, color=_CURVE, alpha=0.12, linewidth=0)
        for side in panel.interval:
            axes.plot(known, side, color=_CURVE, linewidth=0.8, linestyle=(0, (4, 1.5)))
    axes.plot(shared, panel.values, color=_CURVE, linewidth=1.6)
    for what, rate in turns:
        axes.axvline(rate, color="black", linewidth=0.9, linestyle=_TURNS[what])
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])


def _legend(
    axes: Axes, turns: Sequence[tuple[str, float]], intervals: tuple[Floats, float] | None
) -> tuple[list[Artist], list[str]]:
    entries: dict[str, Artist] = {
        "the answer": axes.plot([], [], color=_CURVE, linewidth=1.6)[0],
        "any coupling": axes.fill_between([], [], [], color=_ANY, linewidth=0),
        "any stable coupling": axes.fill_between([], [], [], color=_STABLE, linewidth=0),
    }
    if intervals is not None:
        name = f"{intervals[1]:.0%} interval, at each rate"
        entries[name] = axes.plot([], [], color=_CURVE, linewidth=0.8, linestyle=(0, (4, 1.5)))[0]
    for what in dict.fromkeys(each for each, _ in turns):
        entries[_WORDS[what]] = axes.plot([], [], color="black", linewidth=0.9, linestyle=_TURNS[what])[0]
    return list(entries.values()), list(entries)
