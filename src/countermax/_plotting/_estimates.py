"""Estimates of one number, one line each."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from countermax._plotting._style import house_style, literal

_KINDS = {
    "observed": "#999999",
    "importance sampling": "#E69F00",
    "model": "#009E73",
    "counterfactual": "#0072B2",
}

Row = tuple[str, str, float, float | None, float | None]


def draw_estimates(
    rows: Sequence[Row],
    *,
    bounds: tuple[float, float] | None,
    truth: float | None,
    title: str,
    label: str,
) -> Figure:
    """Dots with intervals, from the top down.

    Importance sampling can be off by orders of magnitude; what lies outside the range of the other estimates is cut,
    its value written at the edge.

    Args:
        rows: Name, kind, value, and the interval's lower and upper limit of each estimate.
        bounds: Lower and upper, over all couplings; a line of its own under the others.
        truth: The value to be estimated, where it is known.
        title: Title of the picture.
        label: Name of the quantity that is shown.
    """
    names = [row[0] for row in rows] + (["any coupling"] if bounds else [])
    with house_style():
        figure = Figure(figsize=(6.4, 1.0 + 0.3 * len(names)), layout="constrained")
        axes = figure.subplots()
        for place, (_, kind, value, lower, upper) in enumerate(rows):
            colour = _KINDS.get(kind, "black")
            if lower is not None and upper is not None:
                axes.plot([lower, upper], [place, place], color=colour, linewidth=2, solid_capstyle="butt")
            axes.plot([value], [place], "o", color=colour, markersize=5)
        if bounds:
            axes.plot(bounds, [len(rows)] * 2, color="black", linewidth=1, marker="|", markersize=7)
        if truth is not None:
            axes.axvline(truth, color="#D55E00", linewidth=1.2, linestyle="--")
        axes.set_yticks(range(len(names)), [literal(name) for name in names])
        axes.set_ylim(len(names) - 0.4, -0.6)
        low, high = _range(rows, bounds, truth)
        axes.set_xlim(low, high)
        for place, row in enumerate(rows):
            _mark_outside(axes, place, row[2], low, high)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="0.9")
        axes.set_xlabel(literal(label))
        axes.set_title(literal(title), loc="left", wrap=True)
        if truth is not None:
            handle = Line2D([], [], color="#D55E00", linewidth=1.2, linestyle="--", label=f"truth, {truth:.3f}")
            figure.legend(handles=[handle], loc="outside lower right", fontsize=8)
    return figure


def _range(rows: Sequence[Row], bounds: tuple[float, float] | None, truth: float | None) -> tuple[float, float]:
    """What has to be seen: everything but importance sampling, whose share may be as wide again on either side."""
    shown = [
        each for _, kind, *numbers in rows if kind != "importance sampling" for each in numbers if each is not None
    ]
    shown += [*(bounds or ()), *(() if truth is None else (truth,))]
    everything = [each for _, _, *numbers in rows for each in numbers if each is not None] + shown
    low, high = min(shown or everything), max(shown or everything)
    room = max(high - low, 0.1 * max(abs(low), abs(high)), 1e-9)
    low, high = max(low - room, min(everything)), min(high + room, max(everything))
    margin = 0.06 * max(high - low, 1e-9)
    return low - margin, high + margin


def _mark_outside(axes: Axes, place: int, value: float, low: float, high: float) -> None:
    if low <= value <= high:
        return
    above = value > high
    axes.text(
        high if above else low,
        place,
        f"{value:.3g} →" if above else f"← {value:.3g}",
        ha="right" if above else "left",
        va="center",
        fontsize=8,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )
