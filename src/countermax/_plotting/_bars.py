"""One number for each coupling."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from countermax._plotting._style import colours, house_style, literal

_INTERVAL = "0.25"


def draw_variances(
    variances: Mapping[str, float],
    title: str,
    label: str,
    least: float | None = None,
    *,
    intervals: Mapping[str, Any] | None = None,
) -> Figure:
    """Horizontal bars, the smallest on top; the least that is possible as a line, where it is known.

    Args:
        variances: The length of each bar, by coupling.
        title: Title of the picture.
        label: Name of the quantity that the bars show.
        least: The least that is possible.
        intervals: Confidence interval of each (`lower`, `upper`), by coupling: thin lines without caps.
    """
    names = sorted(variances, key=lambda name: variances[name], reverse=True)
    palette = colours(list(variances))
    with house_style():
        figure = Figure(figsize=(5.6, 0.6 + 0.32 * len(names)), layout="constrained")
        axes = figure.subplots()
        bars = axes.barh(
            [literal(name) for name in names],
            [variances[name] for name in names],
            color=[palette[name] for name in names],
        )
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
        axes.set_title(literal(title), loc="left", wrap=True)
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
