"""One trajectory over time: treatments, features with their bounds, and where the coupling matters."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from countermax.plotting._style import Floats, colours, house_style, literal

_SHADE = "#DDDDDD"
_MARK = "#FBEFB0"
_RING = "#0072B2"
_MOST_TREATMENTS = 8  # more rows of dots than this say nothing; the most used ones are shown


def draw_trajectory(
    *,
    features: Sequence[str],
    observed: Floats,
    answers: Mapping[str, Floats],
    bounds: tuple[Floats, Floats],
    treatments: Sequence[str],
    given: Floats,
    wanted: Floats,
    step_bounds: tuple[Floats, Floats],
    decision: int | None,
    title: str,
) -> Figure:
    """Panels under each other with one axis of time.

    Black dots are treatments that were given, rings those that the other policy would give, darker where it is surer.
    What happened is black, the answers are coloured, and what any coupling could answer is grey. The last panel shows
    how far the value depends on the coupling of each step.

    Args:
        features: What is followed over time.
        observed: [time, feature]: what happened.
        answers: [time, feature], by coupling.
        bounds: Lower and upper, over all couplings: [time, feature] each.
        treatments: What actions are made of.
        given: [step, treatment]: which of them was given.
        wanted: [step, treatment]: how likely the other policy is to give each.
        step_bounds: Lower and upper of the value, over the couplings of one step: one number for each step.
        decision: Step whose decision mattered most, to be marked.
        title: What the picture is about.
    """
    palette = colours(list(answers))
    most_used = np.argsort(-(given.sum(axis=0) + wanted.sum(axis=0)), kind="stable")[:_MOST_TREATMENTS]
    shown = np.sort(most_used)
    times = np.arange(len(bounds[0]))
    heights = [max(0.6, 0.28 * len(shown)), *[0.75] * len(features), 0.7]
    with house_style():
        figure = Figure(figsize=(7.2, 0.9 + sum(heights) * 1.12), layout="constrained")
        panels = figure.subplots(len(heights), 1, sharex=True, gridspec_kw={"height_ratios": heights}, squeeze=False)[
            :, 0
        ]
        _draw_treatments(panels[0], [treatments[each] for each in shown], given[:, shown], wanted[:, shown])
        for place, (axes, feature) in enumerate(zip(panels[1:-1], features, strict=True)):
            axes.fill_between(times, bounds[0][:, place], bounds[1][:, place], color=_SHADE, linewidth=0)
            for name, values in answers.items():
                axes.plot(times, values[:, place], color=palette[name], linewidth=1.6)
            axes.plot(
                times[: len(observed)], observed[:, place], color="black", linewidth=1.2, marker=".", markersize=5
            )
            low, high = min(0.0, observed.min(), bounds[0].min()), max(1.0, observed.max(), bounds[1].max())
            margin = 0.06 * (high - low)
            axes.set_ylim(low - margin, high + margin)
            _say(axes, feature)
        _draw_widths(panels[-1], *step_bounds)
        if decision is not None:
            panels[0].axvspan(decision - 0.4, decision + 0.4, color=_MARK, linewidth=0, zorder=0)
        panels[-1].set_xlabel("step")
        panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        panels[-1].set_xlim(-0.5, len(times) - 0.5)
        figure.suptitle(literal(title), x=0.01, ha="left", fontsize=10)
        figure.legend(
            handles=_legend(palette, marked=decision is not None), loc="outside lower center", ncols=3, fontsize=8
        )
    return figure


def _draw_treatments(axes: Axes, names: Sequence[str], given: Floats, wanted: Floats) -> None:
    for row in range(len(names)):
        steps = np.flatnonzero(given[:, row] > 0)
        axes.scatter(steps, np.full(len(steps), row), s=22, color="black", zorder=3)
        likely = np.flatnonzero(wanted[:, row] > 0.02)
        axes.scatter(
            likely,
            np.full(len(likely), row),
            s=75,
            facecolors="none",
            edgecolors=[to_rgba(_RING, float(each)) for each in np.clip(wanted[likely, row], 0.15, 1)],
            linewidths=1.5,
        )
    axes.set_yticks(range(len(names)), [literal(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[:].set_visible(False)
    axes.tick_params(axis="x", length=0)


def _draw_widths(axes: Axes, lower: Floats, upper: Floats) -> None:
    steps = np.arange(len(lower))
    axes.bar(steps + 0.5, upper - lower, width=0.7, color="#999999")
    axes.set_ylim(0, max(0.01, 1.15 * float((upper - lower).max(initial=0))))
    _say(axes, "coupling's part in the value")


def _say(axes: Axes, text: str) -> None:
    axes.set_ylabel(
        literal(text.replace(" normal", "\nnormal").replace("part in the value", "\npart in the value")),
        rotation=0,
        ha="right",
        va="center",
        fontsize=8,
    )
    axes.grid(axis="y", color="0.92")


def _legend(palette: Mapping[str, str], *, marked: bool) -> list[Line2D | Patch]:
    most = [Patch(color=_MARK, label="the decision that mattered most")] if marked else []
    return [
        Line2D([], [], color="black", marker=".", label="what happened"),
        *(Line2D([], [], color=colour, linewidth=1.6, label=literal(name)) for name, colour in palette.items()),
        Patch(color=_SHADE, label="any coupling"),
        Line2D([], [], color="none", marker="o", markerfacecolor="black", markeredgecolor="none", label="was given"),
        Line2D(
            [],
            [],
            color="none",
            marker="o",
            markeredgecolor=_RING,
            markerfacecolor="none",
            markersize=8,
            label="the other policy would give",
        ),
        *most,
    ]
