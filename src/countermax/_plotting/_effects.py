"""What a change would have added, episode by episode."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from countermax._plotting._labels import shortened
from countermax._plotting._style import Floats, colours, house_style, literal

_BETTER, _WORSE, _SPREAD = "#009E73", "#D55E00", "0.4"
_VEIL = 0.3  # of the spread, which lies over the bars
_SMALL = 1e-9  # an effect below this is rounding
_MARKERS = "oDs^vP*X"
_MOST_BARS = 60  # more bars than this have no gap between them


def draw_waterfall(effects: Floats, deviations: Floats, *, title: str, label: str) -> Figure:
    """Effects from the largest to the smallest, one bar each; a grey band of one standard deviation on either side.

    Args:
        effects: One number for each episode.
        deviations: Standard deviation of each.
        title: Title of the picture.
        label: Name of the quantity that the bars show.
    """
    order = np.argsort(-effects, kind="stable")
    values, spread = effects[order], deviations[order]
    with house_style():
        figure = Figure(figsize=(6.4, 3.4), layout="constrained")
        axes = figure.subplots()
        axes.use_sticky_edges = False
        better, worse = values > _SMALL, values < -_SMALL
        for chosen, colour in ((better, _BETTER), (worse, _WORSE)):
            _bars(axes, np.zeros(len(values)), np.where(chosen, values, 0), color=colour)
        _bars(axes, values - spread, values + spread, color=_SPREAD, alpha=_VEIL)
        axes.axhline(0, color="black", linewidth=0.8)
        mean = float(values.mean())
        axes.axhline(mean, color="black", linewidth=1, linestyle="--")
        axes.set_xlim(0, len(values))
        axes.set_xlabel("episodes, from the largest gain to the largest loss")
        axes.set_ylabel(literal(label))
        axes.grid(axis="y", color="0.92")
        axes.set_title(literal(title), loc="left", wrap=True)
        same = len(values) - int(better.sum()) - int(worse.sum())
        handles = [
            Patch(color=_BETTER, label=f"better on average: {int(better.sum())}"),
            Patch(color=_WORSE, label=f"worse on average: {int(worse.sum())}"),
            *([Line2D([], [], color="none", label=f"the same: {same}")] if same else []),
            Patch(color=_SPREAD, alpha=_VEIL, label="one standard deviation"),
            Line2D([], [], color="black", linewidth=1, linestyle="--", label=f"mean, {mean:.3g}"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8)
    return figure


def draw_effects(
    names: Sequence[str],
    effects: Mapping[str, Floats],
    bounds: tuple[Floats, Floats],
    *,
    title: str,
    label: str,
    kind: str = "episode",
    doubted: tuple[Floats, Floats] | None = None,
) -> Figure:
    """One line for each episode, from the top down: what each coupling says, within what any coupling could say.

    Args:
        names: Names of the episodes.
        effects: One number for each episode, by coupling.
        bounds: Lower and upper, over all couplings: one number for each episode.
        title: Title of the picture.
        label: Name of the quantity that is shown.
        kind: Name of what the lines are, if not episodes.
        doubted: Lower and upper, over all couplings and other data.
    """
    palette = colours(list(effects))
    looks: dict[str, Any] = {
        name: {"color": palette[name], "marker": _MARKERS[index % len(_MARKERS)]} for index, name in enumerate(effects)
    }
    places = np.arange(len(names))
    with house_style():
        figure = Figure(figsize=(6.4, 1.3 + 0.22 * len(names)), layout="constrained")
        axes = figure.subplots()
        if doubted is not None:
            axes.hlines(places, *doubted, color="0.8", linewidth=1, linestyle=(0, (3, 2)))
        axes.hlines(places, *bounds, color="0.6", linewidth=2)
        axes.plot(bounds[0], places, "|", color="0.6", markersize=7)
        axes.plot(bounds[1], places, "|", color="0.6", markersize=7)
        for name, values in effects.items():
            axes.plot(values, places, markersize=5, linestyle="none", **looks[name])
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_yticks(places, [literal(name) for name in shortened(names)])
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_ylabel(literal(kind))
        axes.set_xlabel(literal(label))
        axes.grid(axis="x", color="0.92")
        axes.set_title(literal(title), loc="left", wrap=True)
        handles = [
            *(Line2D([], [], linestyle="none", label=literal(name), **look) for name, look in looks.items()),
            Line2D([], [], color="0.6", linewidth=2, label="any coupling"),
        ]
        if doubted is not None:
            label = "any coupling, other data"
            handles.append(Line2D([], [], color="0.8", linewidth=1, linestyle=(0, (3, 2)), label=label))
        figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _bars(axes: Axes, bottom: Floats, top: Floats, **look: Any) -> None:
    """Bars beside each other; many of them as one outline, which is drawn far faster."""
    if len(top) > _MOST_BARS:
        axes.stairs(top, np.arange(len(top) + 1), baseline=bottom, fill=True, linewidth=0, **look)
    else:
        axes.bar(np.arange(len(top)) + 0.5, top - bottom, 0.85, bottom=bottom, linewidth=0, **look)
