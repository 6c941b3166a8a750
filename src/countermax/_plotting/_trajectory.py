"""One trajectory over time: treatments, features with their bounds, and where the coupling matters."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from countermax._plotting._style import Floats, colours, house_style, literal

_SHADE = "#DDDDDD"
_MARK = "#FBEFB0"
_RING = "#0072B2"
_FEW = "#D55E00"
Bools: TypeAlias = NDArray[np.bool_]
Colour: TypeAlias = str | tuple[float, float, float, float]
_MOST_COUNTED = 40  # numbers over more bars than this would overlap
_MOST_TREATMENTS = 8  # more rows of dots than this say nothing; the most used ones are shown


def draw_trajectory(
    *,
    features: Sequence[str],
    observed: Floats,
    answers: Mapping[str, Floats],
    bounds: tuple[Floats, Floats],
    treatments: Sequence[str],
    graded: Sequence[bool],
    given: Floats,
    wanted: Floats,
    levels: Floats,
    step_bounds: tuple[Floats, Floats],
    visits: Floats,
    few: int,
    measure: str,
    decision: int | None,
    title: str,
) -> Figure:
    """Panels under each other with one axis of time.

    Black dots are treatments that were given, rings those that the other policy would give, fainter where it is less
    likely, dashed where few visits are behind it; treatments with levels have a number in each. What happened is black,
    the answers are coloured, and what any coupling could answer is grey. The last panel shows how far the value depends
    on the coupling of each step, with the visits behind it.

    Args:
        features: Names of the features that are followed over time.
        observed: Features as they were, [time, feature].
        answers: Features as they would have been, [time, feature], by coupling.
        bounds: Lower and upper, over all couplings: [time, feature] each.
        treatments: Names of the parts that actions are made of.
        graded: Flags of the parts that come in levels.
        given: Amount of each treatment that was given, [step, treatment].
        wanted: Probability that the other policy gives each, [step, treatment].
        levels: Amount of each that it gives on average, [step, treatment].
        step_bounds: Lower and upper of the value, over the couplings of one step: one number for each step.
        visits: Number of times that the log saw what the other policy does at each step; NaN where nothing rests on it.
        few: Number of visits below which something is marked.
        measure: Name of the value.
        decision: Step whose decision mattered most, to be marked.
        title: Title of the picture.
    """
    palette = colours(list(answers))
    most_used = np.argsort(-((given > 0).sum(axis=0) + wanted.sum(axis=0)), kind="stable")[:_MOST_TREATMENTS]
    shown = np.sort(most_used)
    times = np.arange(len(bounds[0]))
    rows = [_Row(treatments[at], graded[at], given[:, at], wanted[:, at], levels[:, at]) for at in shown]
    heights = [max(0.6, sum(0.62 if row.graded else 0.28 for row in rows)), *[0.75] * len(features), 0.8]
    with house_style():
        figure = Figure(figsize=(7.2, 1.1 + sum(heights) * 1.12), layout="constrained")
        panels = figure.subplots(len(heights), 1, sharex=True, gridspec_kw={"height_ratios": heights}, squeeze=False)[
            :, 0
        ]
        _draw_treatments(panels[0], rows, visits < few)
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
        _draw_widths(panels[-1], *step_bounds, visits, few, measure)
        if decision is not None:
            panels[0].axvspan(decision - 0.4, decision + 0.4, color=_MARK, linewidth=0, zorder=0)
        panels[-1].set_xlabel("step")
        panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        panels[-1].set_xlim(-0.5, len(times) - 0.5)
        figure.suptitle(literal(title), x=0.01, ha="left", fontsize=10)
        handles = _legend(
            palette, few, any(row.graded for row in rows), marked=decision is not None, rare=bool((visits < few).any())
        )
        figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8)
    return figure


class _Row(NamedTuple):
    """One treatment over time."""

    name: str
    graded: bool
    given: Floats
    wanted: Floats
    levels: Floats


def _draw_treatments(axes: Axes, rows: Sequence[_Row], rare: Bools) -> None:
    """Dots and rings on one line; for treatments with levels on two, with the level in each."""
    places, bottom = [], 0.0
    for row in rows:
        height = 2.2 if row.graded else 1.0
        middle = bottom + height / 2
        places.append(middle)
        apart = 0.5 if row.graded else 0.0
        most = max(float(row.given.max(initial=0)), float(row.levels.max(initial=0)), 1e-9)
        steps = np.arange(len(row.given)) if row.graded else np.flatnonzero(row.given > 0)
        sizes = _sizes(row.given[steps], most) if row.graded else 22.0
        axes.scatter(steps, np.full(len(steps), middle - apart), s=sizes, color="black", zorder=3, linewidths=0)
        likely = np.flatnonzero(row.wanted > 0.02)
        for at, style in ((likely[~rare[likely]], "solid"), (likely[rare[likely]], (0, (1.2, 1.0)))):
            axes.scatter(
                at,
                np.full(len(at), middle + apart),
                s=_sizes(row.levels[at], most) if row.graded else 75.0,
                facecolors="none",
                edgecolors=[to_rgba(_RING, float(each)) for each in np.clip(row.wanted[at], 0.15, 1)],
                linewidths=1.3,
                linestyles=[style],
            )
        if row.graded:
            for step in np.flatnonzero(row.given > 0).tolist():
                _write(axes, step, middle - apart, row.given[step], "white")
            for step in likely.tolist():
                _write(axes, step, middle + apart, row.levels[step], to_rgba(_RING, max(0.35, row.wanted[step])))
        bottom += height
    axes.set_yticks(places, [literal(row.name) for row in rows])
    axes.set_ylim(bottom + 0.1, -0.1)
    axes.tick_params(axis="y", length=0)
    axes.spines[:].set_visible(False)
    axes.tick_params(axis="x", length=0)


def _sizes(levels: Floats, most: float) -> Floats:
    """Areas of dots; a speck for none."""
    return np.where(levels > 0, 60 + 90 * levels / most, 4)


def _write(axes: Axes, step: int, height: float, level: float, colour: Colour) -> None:
    text = f"{level:.0f}" if abs(level - round(level)) < 0.05 else f"{level:.1f}"
    axes.text(step, height, text, color=colour, fontsize=6, ha="center", va="center_baseline", zorder=4)


def _draw_widths(axes: Axes, lower: Floats, upper: Floats, visits: Floats, few: int, measure: str) -> None:
    steps, widths = np.arange(len(lower)), upper - lower
    rare = visits[: len(lower)] < few
    axes.bar(steps, np.where(rare, 0, widths), width=0.7, color="#999999")
    axes.bar(
        steps, np.where(rare, widths, 0), width=0.7, facecolor="white", edgecolor="#777777", hatch="////", linewidth=0.8
    )
    top = max(0.01, 1.35 * float(widths.max(initial=0)))
    axes.set_ylim(0, top)
    if len(steps) <= _MOST_COUNTED:
        for step in steps[~np.isnan(visits[: len(lower)])]:
            colour = _FEW if rare[step] else "0.35"
            axes.text(step, widths[step] + 0.02 * top, f"{visits[step]:.0f}", fontsize=6, ha="center", color=colour)
    counted = "" if np.isnan(visits).all() else "\n(number: visits)"
    told = "\n".join(textwrap.wrap(f"how far the {measure} is open by luck", 18, max_lines=4, placeholder="…"))
    _say(axes, f"{told}{counted}")


def _say(axes: Axes, text: str) -> None:
    axes.set_ylabel(literal(text.replace(" normal", "\nnormal")), rotation=0, ha="right", va="center", fontsize=8)
    axes.grid(axis="y", color="0.92")


def _legend(palette: Mapping[str, str], few: int, graded: bool, *, marked: bool, rare: bool) -> list[Line2D | Patch]:
    ring: dict[str, Any] = {"color": "none", "marker": "o", "markeredgecolor": _RING, "markerfacecolor": "none"}
    level = ", with its level" if graded else ""
    most = [Patch(color=_MARK, label="the decision that mattered most")] if marked else []
    hatched = Patch(
        facecolor="white",
        edgecolor="#777777",
        hatch="////",
        label=f"hatched, dashed: fewer than {few} visits behind it",
    )
    return [
        Line2D([], [], color="black", marker=".", label="what happened"),
        *(
            Line2D([], [], color=colour, linewidth=1.6, label=literal(f"would have happened, by {name}"))
            for name, colour in palette.items()
        ),
        Patch(color=_SHADE, label="whatever is assumed about luck (any coupling)"),
        Line2D(
            [], [], color="none", marker="o", markerfacecolor="black", markeredgecolor="none", label=f"was given{level}"
        ),
        Line2D([], [], markersize=8, label=f"the other policy would give{level} (fainter: less likely)", **ring),
        *most,
        *([hatched] if rare else []),
    ]
