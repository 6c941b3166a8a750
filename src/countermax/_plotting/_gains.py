"""What the best other decision at each step would have added, by every coupling, with bounds and doubt."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from countermax._plotting._labels import shortened
from countermax._plotting._style import Floats, colours, house_style, literal

_MARKERS = "oDs^vP*X"
_DASHES = (0, (3, 2))
_MOST_STEPS = 24  # more lines than this cannot be read; those that would have gained most are shown
_LONGEST = 60


def draw_gains(
    *,
    steps: Sequence[int],
    done: Sequence[str],
    instead: Sequence[str],
    gains: Mapping[str, Floats],
    bounds: Sequence[tuple[float, float]],
    doubted: Sequence[tuple[float, float, float] | None],
    visits: Sequence[int | None],
    few: int,
    label: str,
    title: str,
) -> Figure:
    """One line for each step, from the top down.

    Args:
        steps: Number of each step.
        done: Decision that was made at each step.
        instead: Other decision at each step.
        gains: One number for each step, by coupling.
        bounds: Lower and upper for each step, over all couplings.
        doubted: Lower, upper and confidence for each step, over all couplings and other data.
        visits: Number of times that the log saw the other decision there.
        few: Number of visits below which marks are hollow.
        label: Name of the quantity that is shown.
        title: Title of the picture.
    """
    palette, first = colours(list(gains)), next(iter(gains.values()))
    kept = np.sort(np.argsort(-first, kind="stable")[:_MOST_STEPS]).tolist()
    places = np.arange(len(kept))
    rare = np.array([(each := visits[at]) is not None and each < few for at in kept], bool)
    texts = [f"{steps[at]}: {instead[at]}" for at in kept]
    counted = ["" if (each := visits[at]) is None else f"{each} visit{'' if each == 1 else 's'}" for at in kept]
    looks: dict[str, Any] = {
        name: {"color": palette[name], "marker": _MARKERS[at % len(_MARKERS)], "linestyle": "none", "markersize": 5}
        for at, name in enumerate(gains)
    }
    with house_style():
        figure = Figure(figsize=(7.2, 1.7 + 0.34 * len(kept)), layout="constrained")
        axes = figure.subplots()
        for place, at in enumerate(kept):
            if (limits := doubted[at]) is not None:
                axes.hlines(place, limits[0], limits[1], color="0.55", linewidth=1, linestyle=_DASHES)
            axes.hlines(place, *bounds[at], color="0.75", linewidth=4)
        for (name, values), apart in zip(gains.items(), _apart(len(gains)), strict=True):
            chosen, heights = values[kept], places + apart  # marks of one height would hide each other
            axes.plot(chosen[~rare], heights[~rare], **looks[name])
            axes.plot(chosen[rare], heights[rare], markerfacecolor="white", **looks[name])
        axes.axvline(0, color="black", linewidth=0.8)
        was = [textwrap.shorten(done[at], _LONGEST, placeholder="…") for at in kept]
        names = [f"{text}\n(was: {each})" for text, each in zip(shortened(texts, _LONGEST), was, strict=True)]
        axes.set_yticks(places, [literal(name) for name in names], fontsize=7)
        for place, text in enumerate(counted):
            axes.text(1.01, place, text, transform=axes.get_yaxis_transform(), fontsize=7, va="center", color="0.3")
        axes.set_ylim(len(kept) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_ylabel("step: best other decision")
        axes.set_xlabel(literal(label))
        axes.grid(axis="x", color="0.92")
        left = "" if len(kept) == len(steps) else f" ({len(kept)} of {len(steps)} steps)"
        figure.suptitle(literal(title + left), x=0.01, ha="left", fontsize=10)
        handles = _legend(looks, doubted, few, rare=bool(rare.any()))
        figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8)
    return figure


def _apart(count: int) -> list[float]:
    """Where the marks of each coupling lie around their line."""
    return np.linspace(-0.15, 0.15, count).tolist() if count > 1 else [0.0]


def _legend(
    looks: Mapping[str, Any], doubted: Sequence[tuple[float, float, float] | None], few: int, *, rare: bool
) -> list[Line2D]:
    levels = {each[2] for each in doubted if each is not None}
    return [
        *(Line2D([], [], label=literal(f"by {name}"), **look) for name, look in looks.items()),
        Line2D([], [], color="0.75", linewidth=4, label="whatever is assumed about luck (any coupling)"),
        *(
            Line2D([], [], color="0.55", linewidth=1, linestyle=_DASHES, label=f"with other data too, {100 * level:g}%")
            for level in sorted(levels)
        ),
        *(
            [
                Line2D(
                    [],
                    [],
                    color="0.3",
                    marker="o",
                    markerfacecolor="white",
                    linestyle="none",
                    markersize=5,
                    label=f"hollow: rests on fewer than {few} visits",
                )
            ]
            if rare
            else []
        ),
    ]
