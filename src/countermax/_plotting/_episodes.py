"""Logged episodes: what a change would have added to each, and one of them over time."""

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

from countermax._plotting._shown import FEW_VISITS, Care, Effects, Features
from countermax._plotting._style import Floats, colours, house_style, legend_below, literal, one_panel, shortened

_BETTER, _WORSE, _SPREAD = "#009E73", "#D55E00", "0.4"
_VEIL = 0.3  # of the spread, which lies over the bars
_SMALL = 1e-9  # an effect below this is rounding
_MARKERS = "oDs^vP*X"
_MOST_BARS = 60  # more bars than this have no gap between them
_LONGEST = 60  # characters of a name that has words below it
_ANY: dict[str, Any] = {"color": "0.75", "linewidth": 4}
_UNCERTAIN: dict[str, Any] = {"color": "0.55", "linewidth": 1, "linestyle": (0, (3, 2))}


def draw_waterfall(effects: Floats, deviations: Floats, *, title: str, label: str) -> Figure:
    """Effects from the largest to the smallest, one bar each; a grey band of one standard deviation on either side."""
    order = np.argsort(-effects, kind="stable")
    values, spread = effects[order], deviations[order]
    with one_panel(6.4, 3.4, title) as (figure, axes):
        axes.use_sticky_edges = False
        better, worse = values > _SMALL, values < -_SMALL
        for chosen, colour in ((better, _BETTER), (worse, _WORSE)):
            _draw_bars(axes, np.zeros(len(values)), np.where(chosen, values, 0), color=colour)
        _draw_bars(axes, values - spread, values + spread, color=_SPREAD, alpha=_VEIL)
        axes.axhline(0, color="black", linewidth=0.8)
        mean = float(values.mean())
        axes.axhline(mean, color="black", linewidth=1, linestyle="--")
        axes.set_xlim(0, len(values))
        axes.set_xlabel("episodes, from the largest gain to the largest loss")
        axes.set_ylabel(literal(label))
        axes.grid(axis="y", color="0.92")
        same = len(values) - int(better.sum()) - int(worse.sum())
        handles = [
            Patch(color=_BETTER, label=f"better on average: {int(better.sum())}"),
            Patch(color=_WORSE, label=f"worse on average: {int(worse.sum())}"),
            *([Line2D([], [], color="none", label=f"the same: {same}")] if same else []),
            Patch(color=_SPREAD, alpha=_VEIL, label="one standard deviation"),
            Line2D([], [], color="black", linewidth=1, linestyle="--", label=f"mean, {mean:.3g}"),
        ]
        legend_below(figure, handles, 3)
    return figure


def draw_effects(shown: Effects, *, title: str, label: str, kind: str = "episode") -> Figure:
    """One line for each episode (or whatever `kind` says), from the top down; hollow marks rest on few visits."""
    names, effects, bounds, limits, below, visits = shown
    palette, places = colours(list(effects)), np.arange(len(names))
    looks: dict[str, Any] = {
        name: {"color": palette[name], "marker": _MARKERS[at % len(_MARKERS)], "linestyle": "none", "markersize": 5}
        for at, name in enumerate(effects)
    }
    handles = [Line2D([], [], label=literal(name), **look) for name, look in looks.items()]
    handles.append(Line2D([], [], **_ANY, label="any coupling"))
    rare = np.array([each is not None and each < FEW_VISITS for each in visits or [None] * len(names)], bool)
    texts = shortened(names) if below is None else shortened(names, _LONGEST)
    if below is not None:
        under = [textwrap.shorten(each, _LONGEST, placeholder="…") for each in below]
        texts = [f"{text}\n{each}" for text, each in zip(texts, under, strict=True)]
    rows = (0.22 if below is None else 0.34) * len(names)
    with one_panel(6.4, 1.3 + max(rows, 0.2 + 0.06 * len(kind)), title) as (figure, axes):
        if limits is not None:
            axes.hlines(places, *limits[:2], **_UNCERTAIN)
            words = f"any coupling, {100 * limits[2]:g}% model uncertainty"
            handles.append(Line2D([], [], **_UNCERTAIN, label=words))
        axes.hlines(places, *bounds, **_ANY)
        # Marks of one height would hide each other.
        spread = np.linspace(-0.15, 0.15, len(effects)) if len(effects) > 1 else [0.0]
        for (name, values), apart in zip(effects.items(), spread, strict=True):
            axes.plot(values[~rare], (places + apart)[~rare], **looks[name])
            axes.plot(values[rare], (places + apart)[rare], markerfacecolor="white", **looks[name])
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_yticks(places, [literal(text) for text in texts], fontsize=9 if below is None else 7)
        for place, each in enumerate(visits):
            text = "" if each is None else f"{each} visit{'' if each == 1 else 's'}"
            axes.text(1.01, place, text, transform=axes.get_yaxis_transform(), fontsize=7, va="center", color="0.3")
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_ylabel(literal(kind))
        axes.set_xlabel(literal(label))
        axes.grid(axis="x", color="0.92")
        if rare.any():
            hollow: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "linestyle": "none", "markersize": 5}
            words = f"hollow: rests on fewer than {FEW_VISITS} visits"
            handles.append(Line2D([], [], color="0.3", label=words, **hollow))
        legend_below(figure, handles, 4 if below is None else 2)
    return figure


def draw_changes(
    curves: Mapping[str, Floats],
    bounds: tuple[Floats, Floats],
    limits: tuple[Floats, Floats] | None,
    logged: Sequence[tuple[str, str]],
    likely: Sequence[tuple[str, str]],
    states: Sequence[str],
    *,
    moments: Sequence[str],
    title: str,
    label: str,
) -> Figure:
    """What one, two, ... changes would have added, and below it where they most likely lead.

    Of the `curves` the first is the answer, with its `limits`, the others in-sample ones; `bounds`
    are those of any coupling. Numbers of changes are apart from each other: nothing joins them. Paths are states by
    time with what is done instead there, if anything; `states` has all of them, the best first, and
    `moments` the times in words, `hour 6`.
    """
    first, palette = next(iter(curves)), colours(list(curves))
    places = np.arange(1, len(bounds[0]) + 1)
    visited = {state for state, _ in (*logged, *likely)}
    names = [each for each in dict.fromkeys(states) if each in visited]
    made = sum(bool(instead) for _, instead in likely)
    with house_style():
        figure = Figure(figsize=(7.2, 3.6 + 0.24 * len(names)), layout="constrained")
        above, below = figure.subplots(2, 1, height_ratios=[2.2, 0.8 + 0.24 * len(names)])
        above.bar(places, bounds[1] - bounds[0], 0.3, bottom=bounds[0], color=_SHADE, label="any coupling")
        for name, values in curves.items():
            words, look = literal(name), {"marker": "o", "markersize": 5, "color": palette[name]}
            if name != first:
                words, look = f"{words}: too optimistic", {"marker": "D", "color": "0.3"}
                look |= {"markersize": 4, "markerfacecolor": "white"}
            above.plot(places, values, linestyle="none", label=words, zorder=3, **look)
        if limits is not None:
            above.vlines(places, *limits, color=palette[first], linewidth=1.4, label="model uncertainty")
        above.axhline(0, color="black", linewidth=0.8)
        above.set_xticks(places)
        above.set_xlim(0.5, max(len(places), 1) + 0.5)
        above.set_xlabel("changes at most")
        above.set_ylabel(literal("\n".join(textwrap.wrap(label, 30))))
        above.grid(axis="y", color="0.92")
        height = {name: place for place, name in enumerate(names)}
        for path, colour, width, words in (
            (logged, "black", 1.2, "what happened"),
            (likely, palette[first], 1.8, f"most likely, with {made} of at most {len(places)} changes"),
        ):
            held: dict[str, Any] = {
                "drawstyle": "steps-post",
                "marker": ".",
            }  # from one state to another there is no way
            heights = [height[state] + (_BESIDE if path is likely else 0) for state, _ in path]
            below.plot(range(len(path)), heights, color=colour, linewidth=width, label=words, **held)
        for step, (state, instead) in enumerate(likely):
            if instead:
                ring = height[state] + _BESIDE
                below.plot(step, ring, "o", markersize=9, markerfacecolor="none", color=palette[first])
                short = shortened([instead])[0]
                below.annotate(literal(short), (step, height[state]), (4, 6), textcoords="offset points", fontsize=7)
        below.set_yticks(range(len(names)), [literal(each) for each in shortened(names)], fontsize=7)
        below.set_ylim(len(names) - 0.4, -0.8)
        below.xaxis.set_major_locator(MaxNLocator(integer=True))
        units, numbers = zip(*(each.rsplit(" ", 1) for each in moments), strict=True)
        below.set_xlabel(literal(units[0]))
        below.xaxis.set_major_formatter(
            lambda place, _: numbers[int(place)] if place == int(place) and 0 <= place < len(numbers) else ""
        )
        below.set_ylabel("worst \u2190 state \u2192 best")
        figure.suptitle(literal(title), x=0.01, ha="left", fontsize=10)
        lines = [*above.get_legend_handles_labels()[0], *below.get_legend_handles_labels()[0]]
        figure.legend(handles=lines, loc="outside lower center", ncols=2, fontsize=8)
    return figure


def _draw_bars(axes: Axes, bottom: Floats, top: Floats, **look: Any) -> None:
    """Bars beside each other; many of them as one outline, which is drawn far faster."""
    if len(top) > _MOST_BARS:
        axes.stairs(top, np.arange(len(top) + 1), baseline=bottom, fill=True, linewidth=0, **look)
    else:
        axes.bar(np.arange(len(top)) + 0.5, top - bottom, 0.85, bottom=bottom, linewidth=0, **look)


_SHADE = "#DDDDDD"
_BESIDE = 0.12  # of the height of a state
_MARK = "#FBEFB0"
_RING = "#0072B2"
_RARE = "#D55E00"
_HATCHED: dict[str, Any] = {"facecolor": "white", "edgecolor": "#777777", "hatch": "////"}
Colour: TypeAlias = str | tuple[float, float, float, float]
_MOST_COUNTED = 40  # numbers over more bars than this would overlap
_LONGEST_STATE = 28  # letters of its name
_SEEN = 0.1  # rings that are less likely say nothing
_MOST_TREATMENTS = 8  # more rows of dots than this say nothing; the most used ones are shown


def draw_trajectory(
    features: Features,
    care: Care,
    *,
    step_bounds: tuple[Floats, Floats],
    visits: Floats,
    measure: str,
    decision: int | None,
    title: str,
    path: Sequence[str] = (),
) -> Figure:
    """Panels under each other with one axis of time, and the states of a `path` above them.

    Black dots are treatments that were given, rings those that the other policy would give, fainter where it is less
    likely, dashed where few visits are behind it; treatments with levels have a number in each. What happened is black,
    the answers are coloured, and what any coupling could answer is grey. The last panel shows how far the value depends
    on the coupling of each step, with the visits behind it.

    `step_bounds` (of the value, over the couplings of one step) and `visits` (NaN where nothing rests on them) are by
    step. The step whose `decision` mattered most is marked.
    """
    names, observed, answers, (lower, upper), step_name, clock = features
    palette, rare = colours(list(answers)), visits < FEW_VISITS
    uses = (care.given > 0).sum(axis=0) + care.wanted.sum(axis=0)
    shown = np.sort(np.argsort(-uses, kind="stable")[:_MOST_TREATMENTS])
    times = np.arange(len(lower))
    rows = [_Row(care.names[at], care.graded[at], *(each[:, at] for each in care[2:])) for at in shown]
    heights = [max(0.6, sum(0.62 if row.graded else 0.28 for row in rows)), *[0.75] * len(names), 0.8]
    with house_style():
        figure = Figure(figsize=(7.2, 1.1 + sum(heights) * 1.12), layout="constrained")
        panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
        _draw_treatments(panels[0], rows, rare)
        for time, state in enumerate(_told_short(path)):
            panels[0].text(time, -0.25, literal(state), rotation=35, ha="left", va="bottom", fontsize=6.5)
        for place, (axes, feature) in enumerate(zip(panels[1:-1], names, strict=True)):
            axes.fill_between(times, lower[:, place], upper[:, place], color=_SHADE, linewidth=0)
            for name, values in answers.items():
                axes.plot(times, values[:, place], color=palette[name], linewidth=1.6)
            seen = observed[:, place]
            axes.plot(times[: len(seen)], seen, color="black", linewidth=1.2, marker=".", markersize=5)
            low, high = min(0.0, observed.min(), lower.min()), max(1.0, observed.max(), upper.max())
            margin = 0.06 * (high - low)
            axes.set_ylim(low - margin, high + margin)
            _say(axes, feature)
        _draw_widths(panels[-1], *step_bounds, visits, measure)
        if decision is not None:
            panels[0].axvspan(decision - 0.4, decision + 0.4, color=_MARK, linewidth=0, zorder=0)
        panels[-1].set_xlabel(literal(step_name))
        panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        panels[-1].xaxis.set_major_formatter(lambda place, _: f"{clock[0] + clock[1] * place:g}")
        panels[-1].set_xlim(-0.5, len(times) - 0.5)
        figure.suptitle(literal(title), x=0.01, ha="left", fontsize=10)
        graded = any(row.graded for row in rows)
        handles = _story_legend(palette, graded=graded, marked=decision is not None, rare=bool(rare.any()))
        legend_below(figure, handles, 2)
    return figure


def _told_short(path: Sequence[str]) -> list[str]:
    """States of a path; of a long name that has parts, those that are new since the step before."""
    found, before = [], list[str]()
    for state in path:
        parts = state.split(", ")
        new = state if len(state) <= _LONGEST_STATE else ", ".join(each for each in parts if each not in before)
        found.append(shortened([new or "the same"], _LONGEST_STATE)[0])
        before = parts
    return found


class _Row(NamedTuple):
    """One treatment over time."""

    name: str
    graded: bool
    given: Floats
    wanted: Floats
    levels: Floats


def _draw_treatments(axes: Axes, rows: Sequence[_Row], rare: NDArray[np.bool_]) -> None:
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
        likely = np.flatnonzero(row.wanted > _SEEN)
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


def _draw_widths(axes: Axes, lower: Floats, upper: Floats, visits: Floats, measure: str) -> None:
    steps, widths = np.arange(len(lower)), upper - lower
    rare = visits[: len(lower)] < FEW_VISITS
    axes.bar(steps, np.where(rare, 0, widths), width=0.7, color="#999999")
    axes.bar(steps, np.where(rare, widths, 0), width=0.7, linewidth=0.8, **_HATCHED)
    top = max(0.01, 1.35 * float(widths.max(initial=0)))
    axes.set_ylim(0, top)
    if len(steps) <= _MOST_COUNTED:
        for step in steps[~np.isnan(visits[: len(lower)])]:
            colour = _RARE if rare[step] else "0.35"
            axes.text(step, widths[step] + 0.02 * top, f"{visits[step]:.0f}", fontsize=6, ha="center", color=colour)
    counted = "" if np.isnan(visits).all() else "\n(number: records)"
    words = f"{measure}: how much another coupling changes it"
    told = "\n".join(textwrap.wrap(words, 22, max_lines=4, placeholder="…"))
    _say(axes, f"{told}{counted}")


def _say(axes: Axes, text: str) -> None:
    axes.set_ylabel(literal(text.replace(" normal", "\nnormal")), rotation=0, ha="right", va="center", fontsize=8)
    axes.grid(axis="y", color="0.92")


def _story_legend(palette: Mapping[str, str], *, graded: bool, marked: bool, rare: bool) -> list[Line2D | Patch]:
    level = ", with its level" if graded else ""
    dot: dict[str, Any] = {"color": "none", "marker": "o", "markerfacecolor": "black", "markeredgecolor": "none"}
    ring = {**dot, "markerfacecolor": "none", "markeredgecolor": _RING, "markersize": 8}
    handles: list[Line2D | Patch] = [Line2D([], [], color="black", marker=".", label="what happened")]
    for name, colour in palette.items():
        handles.append(Line2D([], [], color=colour, linewidth=1.6, label=literal(f"would have happened, by {name}")))
    handles.append(Patch(color=_SHADE, label="any coupling"))
    handles.append(Line2D([], [], label=f"was given{level}", **dot))
    handles.append(Line2D([], [], label=f"the other policy would give{level} (fainter: less likely)", **ring))
    if marked:
        handles.append(Patch(color=_MARK, label="the decision that mattered most"))
    if rare:
        handles.append(Patch(label=f"hatched, dashed: fewer than {FEW_VISITS} visits behind it", **_HATCHED))
    return handles
