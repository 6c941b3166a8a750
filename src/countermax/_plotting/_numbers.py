"""Numbers beside each other: a bar, a dot, a line or a verdict for each."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from countermax._plotting._style import PALETTE, Floats, colours, literal, one_panel

_INTERVAL = "0.25"


def draw_variances(
    variances: Mapping[str, float],
    title: str,
    label: str,
    least: float | None = None,
    *,
    intervals: Mapping[str, Any] | None = None,
) -> Figure:
    """Horizontal bars, the smallest on top, with thin lines for intervals; the least that is possible is dashed."""
    names = sorted(variances, key=lambda name: variances[name], reverse=True)
    palette = colours(list(variances))
    with one_panel(5.6, 0.6 + 0.32 * len(names), title) as (figure, axes):
        texts, values = [literal(name) for name in names], [variances[name] for name in names]
        bars = axes.barh(texts, values, color=[palette[name] for name in names])
        if intervals is None:
            axes.bar_label(bars, fmt=" {:.3g}", fontsize=8)
            axes.margins(x=0.12)
        else:
            for place, name in enumerate(names):
                low, high = float(intervals[name].lower), float(intervals[name].upper)
                axes.hlines(place, low, high, color=_INTERVAL, linewidth=1)
                words = f" {variances[name]:.3g} ({low:.3g} to {high:.3g})"
                axes.text(max(high, variances[name]), place, words, va="center", fontsize=8)
            axes.margins(x=0.5)  # room for the words
        axes.set_xlabel(literal(label))
        axes.tick_params(axis="y", length=0)
        if least is not None:
            _line(axes, least, "least possible")
    return figure


def draw_losses(losses: Mapping[str, float], optimum: float, title: str) -> Figure:
    """Horizontal bars of expected losses, the smallest on top, with the optimum as a line."""
    figure = draw_variances(losses, title, "expected loss")
    _line(figure.axes[0], optimum, "optimum")
    return figure


def _line(axes: Axes, place: float, words: str) -> None:
    axes.axvline(place, color="black", linewidth=1, linestyle="--")
    axes.annotate(words, (place, 1), (3, 2), xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=7)
    axes.set_title(axes.get_title(loc="left"), loc="left", pad=14)


def draw_curves(
    curves: Mapping[str, tuple[Sequence[int], Sequence[float]]], optimum: float | None, title: str
) -> Figure:
    """Held-out loss against steps, one line for each seed; the optimum as a dashed line where it is known."""
    with one_panel(4.6, 3.0, title) as (figure, axes):
        for index, (name, (steps, losses)) in enumerate(curves.items()):
            axes.plot(steps, losses, color=PALETTE[index % len(PALETTE)], linewidth=1.4, label=literal(name))
        if optimum is not None:
            axes.axhline(optimum, color="black", linewidth=1, linestyle="--", label="optimum")
        axes.set_xlabel("step")
        axes.set_ylabel("expected loss, held-out pairs")
        axes.grid(color="0.9")
        axes.legend(fontsize=8)
    return figure


def draw_distribution(returns: Floats, below: Floats, *, marks: Mapping[str, float], title: str, label: str) -> Figure:
    """The share (`below`) of returns, in ascending order, up to each value, and a few numbers as dashed lines."""
    room = 0.05 * max(float(returns[-1] - returns[0]), 1e-9)
    with one_panel(5.6, 3.2, title) as (figure, axes):
        where = np.concatenate([[returns[0] - room], returns, [returns[-1] + room]])
        axes.step(where, np.concatenate([[0], below, below[-1:]]), where="post", color="#0072B2", linewidth=1.6)
        palette = PALETTE[1:]
        for place, (name, value) in enumerate(marks.items()):
            colour = palette[place % len(palette)]
            axes.axvline(value, color=colour, linewidth=1.2, linestyle="--", label=literal(f"{name}, {value:.3f}"))
        axes.set_ylim(0, 1.02)
        axes.grid(color="0.9")
        axes.set_xlabel(literal(label))
        axes.set_ylabel("share of episodes up to here")
        if marks:
            axes.legend(fontsize=8)
    return figure


_KINDS = {"observed": "#999999", "importance sampling": "#E69F00", "model": "#009E73", "counterfactual": "#0072B2"}

Row = tuple[str, str, float, float | None, float | None]


def draw_estimates(rows: Sequence[Row], *, truth: float | None, title: str, label: str) -> Figure:
    """Dots with intervals, from the top down.

    Importance sampling can be off by orders of magnitude; what lies outside the range of the other estimates is cut,
    its value written at the edge. Rows have a name, a kind, a value, and the lower and upper limit of an interval.
    """
    names = [row[0] for row in rows]
    with one_panel(6.4, 1.0 + 0.3 * len(names), title) as (figure, axes):
        for place, (_, kind, value, lower, upper) in enumerate(rows):
            colour = _KINDS.get(kind, "black")
            if lower is not None and upper is not None:
                axes.plot([lower, upper], [place, place], color=colour, linewidth=2, solid_capstyle="butt")
            axes.plot([value], [place], "o", color=colour, markersize=5)
        if truth is not None:
            axes.axvline(truth, color="#D55E00", linewidth=1.2, linestyle="--")
        axes.set_yticks(range(len(names)), [literal(name) for name in names])
        axes.set_ylim(len(names) - 0.4, -0.6)
        low, high = _range(rows, truth)
        axes.set_xlim(low, high)
        for place, (_, _, value, *_) in enumerate(rows):
            if not low <= value <= high:
                edge, text, side = (
                    (high, f"{value:.3g} →", "right") if value > high else (low, f"← {value:.3g}", "left")
                )
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
                axes.text(edge, place, text, ha=side, va="center", fontsize=8, bbox=box)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="0.9")
        axes.set_xlabel(literal(label))
        if truth is not None:
            handle = Line2D([], [], color="#D55E00", linewidth=1.2, linestyle="--", label=f"truth, {truth:.3f}")
            figure.legend(handles=[handle], loc="outside lower right", fontsize=8)
    return figure


def _range(rows: Sequence[Row], truth: float | None) -> tuple[float, float]:
    """What has to be seen: everything but importance sampling, whose share may be as wide again on either side."""
    shown = [
        each for _, kind, *numbers in rows if kind != "importance sampling" for each in numbers if each is not None
    ]
    shown += [] if truth is None else [truth]
    everything = [each for _, _, *numbers in rows for each in numbers if each is not None] + shown
    low, high = min(shown or everything), max(shown or everything)
    room = max(high - low, 0.1 * max(abs(low), abs(high)), 1e-9)
    low, high = max(low - room, min(everything)), min(high + room, max(everything))
    margin = 0.06 * max(high - low, 1e-9)
    return low - margin, high + margin


_HOLDS, _BROKEN = "#009E73", "#D55E00"


def draw_verdicts(verdicts: Mapping[str, bool], title: str) -> Figure:
    """A line for each claim: a green dot where it holds, an orange cross where it does not."""
    with one_panel(4.6, 0.6 + 0.26 * len(verdicts), title) as (figure, axes):
        for place, holds in enumerate(verdicts.values()):
            colour, marker, word = (_HOLDS, "o", "holds") if holds else (_BROKEN, "X", "broken")
            axes.plot(0, place, marker, color=colour, markersize=7)
            axes.annotate(word, (0, place), (10, 0), textcoords="offset points", va="center", color=colour, fontsize=8)
        axes.set_yticks(range(len(verdicts)), [literal(name) for name in verdicts])
        axes.set_ylim(len(verdicts) - 0.5, -0.5)
        axes.set_xlim(-0.2, 1)
        axes.set_xticks([])
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    return figure
