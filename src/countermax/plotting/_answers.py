"""What each coupling answers, beside the bounds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from countermax.plotting._style import Floats, colours, house_style, literal

_MOST_BARS = 12  # outcomes in a bar chart; more would not fit on a page


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

    Of many outcomes the ones with the largest upper bounds are shown, and the title says so.

    Args:
        answers: One probability for each outcome, by coupling.
        labels: What the outcomes are called.
        bounds: Lower and upper, over all couplings: one number for each outcome.
        stable_bounds: Lower and upper, over counterfactually stable couplings.
        title: What the picture is about.
        intervals: Confidence interval of each probability (`lower`, `upper`), by coupling.
        bounds_intervals: Confidence intervals of the two ranges over couplings.
    """
    if len(labels) > _MOST_BARS:
        shown = np.sort(np.argsort(-bounds[1], kind="stable")[:_MOST_BARS])
        title = f"{title}\nShown: the {_MOST_BARS} of {len(labels)} outcomes that could be likeliest"
        answers = {name: probs[shown] for name, probs in answers.items()}
        labels = [labels[index] for index in shown]
        bounds, stable_bounds = ((lower[shown], upper[shown]) for lower, upper in (bounds, stable_bounds))
    palette = colours(list(answers))
    with house_style():
        figure = Figure(figsize=(max(5.0, 1.6 + 1.25 * len(labels)), 3.4), layout="constrained")
        axes = figure.subplots()
        slots = len(answers) + 2  # one slot for the whiskers, one for the gap between outcomes
        width = 1 / slots
        centres = np.arange(len(labels), dtype=float)
        for place, (name, probs) in enumerate(answers.items()):
            axes.bar(centres + (place + 1) * width, probs, width * 0.92, color=palette[name], label=literal(name))
        _whiskers(axes, centres - 0.35 * width, *bounds, "black", "any coupling")
        _whiskers(axes, centres + 0.2 * width, *stable_bounds, "#0072B2", "any stable coupling")
        axes.set_xticks(centres + (slots - 2) * width / 2, [literal(label) for label in labels])
        axes.tick_params(axis="x", length=0)
        axes.set_ylim(0, 1.02)
        axes.set_ylabel("probability, given what was seen")
        axes.grid(axis="y", color="0.9")
        axes.set_title(literal(title), loc="left")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)
    return figure


def _whiskers(axes: Axes, places: Floats, lower: Floats, upper: Floats, colour: str, label: str) -> None:
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    axes.errorbar(places, middle, half, fmt="none", ecolor=colour, elinewidth=1.4, capsize=3, capthick=1.4, label=label)
