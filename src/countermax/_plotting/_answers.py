"""What each coupling answers, beside the bounds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from countermax._plotting._labels import shortened, wrapped
from countermax._plotting._style import STABLE, Floats, colours, house_style, literal

_MOST_BARS = 12  # outcomes in a bar chart; more would not fit on a page
_MOST_UPRIGHT = 6  # more have slanted labels
_LABEL_WIDTH = 14  # characters in a line of an upright label
_WIDEST = 12.0
_INTERVAL = "0.25"


def draw_answers(
    answers: Mapping[str, Floats],
    labels: Sequence[str],
    bounds: tuple[Floats, Floats],
    stable_bounds: tuple[Floats, Floats],
    title: str,
    *,
    intervals: Mapping[str, Any] | None = None,
    bounds_intervals: tuple[Any, Any] | None = None,
) -> Figure:
    """Bars: each coupling's counterfactual probabilities, with the bounds as whiskers beside them.

    Intervals are thin lines without caps on the bars, and pale bands behind the whiskers.

    Of many outcomes the ones with the largest upper bounds are shown, and the title says so.

    Args:
        answers: One probability for each outcome, by coupling.
        labels: Names of the outcomes.
        bounds: Lower and upper, over all couplings: one number for each outcome.
        stable_bounds: Lower and upper, over counterfactually stable couplings.
        title: Title of the picture.
        intervals: Confidence interval of each probability (`lower`, `upper`), by coupling.
        bounds_intervals: Confidence intervals of the two ranges over couplings.
    """
    if len(labels) > _MOST_BARS:
        shown = np.sort(np.argsort(-bounds[1], kind="stable")[:_MOST_BARS])
        title = f"{title}\nShown: the {_MOST_BARS} of {len(labels)} outcomes that could be likeliest"
        labels = [labels[index] for index in shown]
    else:
        shown = np.arange(len(labels))
    palette = colours(list(answers))
    with house_style():
        figure = Figure(figsize=(min(_WIDEST, max(5.6, 2.2 + 1.25 * len(labels))), 3.8), layout="constrained")
        axes = figure.subplots()
        slots = len(answers) + 3  # two for the whiskers, one for the gap between outcomes
        width = 1 / slots
        centres = np.arange(len(labels), dtype=float)
        for place, (name, probs) in enumerate(answers.items()):
            places = centres + (place + 1) * width
            axes.bar(places, np.nan_to_num(probs[shown]), width * 0.92, color=palette[name], label=literal(name))
            if intervals is not None:
                limits = intervals[name]
                axes.vlines(places, limits.lower[shown], limits.upper[shown], color=_INTERVAL, linewidth=1)
        whole = (None, None) if bounds_intervals is None else bounds_intervals
        for place, (limits, interval, colour, family) in enumerate(
            (
                (bounds, whole[0], "black", "any coupling"),
                (stable_bounds, whole[1], STABLE, "any stable coupling"),
            )
        ):
            places = centres - (0.85 - 0.75 * place) * width
            _whiskers(axes, places, limits[0][shown], limits[1][shown], colour, family)
            if interval is not None:
                low, high = interval.lower[shown], interval.upper[shown]
                axes.vlines(places, low, high, color=colour, linewidth=4, alpha=0.2)
        if intervals is not None and answers:
            percent = f"{100 * next(iter(intervals.values())).level:g}%"
            axes.plot([], [], color=_INTERVAL, linewidth=1, label=f"{percent} interval of an answer:\nother data")
            axes.plot([], [], color="black", linewidth=4, alpha=0.2, label=f"{percent} interval of a\nwhole range")
        steep = len(labels) > _MOST_UPRIGHT
        words = [literal(label) for label in shortened(labels)] if steep else wrapped(labels, _LABEL_WIDTH)
        axes.set_xticks(centres + (slots - 3) * width / 2, words)
        if steep:
            for text in axes.get_xticklabels():
                text.set(rotation=30, ha="right", rotation_mode="anchor")
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(-1.6 * width, len(labels) - 1.2 * width)
        axes.set_ylim(0, 1.02)
        axes.set_ylabel("probability, given what was seen")
        axes.grid(axis="y", color="0.9")
        axes.set_title(literal(title), loc="left", wrap=True)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)
    return figure


def _whiskers(axes: Axes, places: Floats, lower: Floats, upper: Floats, colour: str, label: str) -> None:
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    axes.errorbar(places, middle, half, fmt="none", ecolor=colour, elinewidth=1.4, capsize=3, capthick=1.4, label=label)
