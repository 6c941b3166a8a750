"""The figures of the studies: of the paper with its published points beside ours, and panels of bars."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from countermax._plotting._style import Floats, colours, house_style, literal

_DIAMOND: dict[str, Any] = {
    "marker": "D",
    "linestyle": "none",
    "markersize": 4,
    "clip_on": False,
    "markerfacecolor": "white",
    "markeredgecolor": "0.25",
}

_NOTHING = 0.02  # percent: a bar below it would not be seen


def draw_noise_scales(
    points: Sequence[tuple[float, float, float]], published: Mapping[float, float], references: Mapping[str, float]
) -> Figure:
    """Loss against the noise scale of training, with error bars; fixed couplings as lines."""
    scales = list(published)
    place = {scale: index for index, scale in enumerate(scales)}  # evenly spaced: they grow fourfold, and zero is one
    palette = colours(["Gadget 2", *references])
    with house_style():
        figure = Figure(figsize=(4.6, 3.2), layout="constrained")
        axes = figure.subplots()
        for name, loss in references.items():
            left = loss == max(
                references.values()
            )  # the curve comes to the largest on the right, to others on the left
            axes.axhline(loss, color=palette[name], linewidth=1.2, linestyle="--", zorder=1)
            axes.annotate(
                literal(name),
                (0 if left else 1, loss),
                (4 if left else -2, 3),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                ha="left" if left else "right",
                fontsize=8,
                color=palette[name],
            )
        axes.plot(
            list(place.values()),
            list(published.values()),
            "D",
            markersize=5,
            markerfacecolor="white",
            markeredgecolor="0.35",
            label="published",
        )
        axes.errorbar(
            [place[scale] for scale, _, _ in points],
            [loss for _, loss, _ in points],
            [error for _, _, error in points],
            color=palette["Gadget 2"],
            marker="o",
            markersize=4.5,
            linewidth=1.4,
            capsize=3,
            label="Gadget 2, here",
        )
        axes.set_xticks(list(place.values()), [f"{scale:g}" for scale in scales])
        axes.set_xlabel("noise scale in training")
        axes.set_ylabel("probability of a changed outcome")
        axes.margins(y=0.12)
        axes.grid(axis="y", color="0.9")
        axes.legend(loc="center right", fontsize=8)
    return figure


def draw_distances(
    ours: Mapping[str, Mapping[str, float]],
    published: Mapping[str, Mapping[str, float]],
    columns: Sequence[str],
    title: str,
) -> Figure:
    """Percent above the optimum by task, on a scale that shows 0.1 % and 600 %; published values as open diamonds."""
    palette = colours(list(ours))
    with house_style():
        figure = Figure(figsize=(max(4.6, 1.7 * len(columns) + 1.6), 3.4), layout="constrained")
        axes = figure.subplots()
        width = 0.84 / len(ours)
        for slot, (name, distances) in enumerate(ours.items()):
            places = [columns.index(column) + (slot - (len(ours) - 1) / 2) * width for column in distances]
            heights = [max(value, 0.0) for value in distances.values()]
            axes.bar(places, heights, 0.9 * width, color=palette[name], label=literal(name))
            none = [place for place, height in zip(places, heights, strict=True) if height < _NOTHING]
            axes.hlines([0] * len(none), np.subtract(none, 0.45 * width), np.add(none, 0.45 * width),
                        color=palette[name], linewidth=4, clip_on=False, zorder=1.9)  # fmt: skip
            theirs = published.get(name, {})
            marked = [
                (place, theirs[column]) for place, column in zip(places, distances, strict=True) if column in theirs
            ]
            axes.plot([place for place, _ in marked], [value for _, value in marked], **_DIAMOND)
        axes.set_yscale("symlog", linthresh=1, linscale=0.5)
        axes.set_yticks([0, 1, 10, 100], ["0", "1", "10", "100"])
        axes.set_ylim(0, None)
        axes.set_xticks(range(len(columns)), [literal(column) for column in columns])
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel("% above the optimum")
        axes.grid(axis="y", color="0.9")
        axes.set_title(literal(title), loc="left", wrap=True)
        handles, names = axes.get_legend_handles_labels()
        handles.append(Line2D([], [], label="published", **_DIAMOND))
        axes.legend(handles, [*names, "published"], loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)
    return figure


def draw_gallery(gallery: Mapping[str, Mapping[str, tuple[Floats, float]]]) -> Figure:
    """Rows of heatmaps; each panel is a joint law titled with its variance."""
    rows, columns = len(gallery), max(len(panels) for panels in gallery.values())
    brightest = max(float(joint.max()) for panels in gallery.values() for joint, _ in panels.values())
    with house_style():
        figure = Figure(figsize=(1.55 * columns + 0.5, 1.85 * rows + 0.3), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for line, (kind, panels) in zip(grid, gallery.items(), strict=True):
            for axes in line[len(panels) :]:
                axes.axis("off")
            for axes, (name, (joint, variance)) in zip(line, panels.items(), strict=False):
                # The square root brings out the small probabilities by which couplings differ.
                axes.imshow(np.sqrt(joint), cmap="Blues", vmin=0, vmax=np.sqrt(brightest))
                axes.set_title(f"{literal(name)}\nvariance {variance:.3f}", fontsize=9)
                axes.set_xticks([])
                axes.set_yticks([])
                axes.spines[:].set(visible=True, color="0.8")
            line[0].set_ylabel(literal(kind), fontsize=9)
    return figure


def draw_panels(
    panels: Mapping[str, Mapping[str, tuple[float, float | None]]], label: str, form: str = ".2f"
) -> Figure:
    """Horizontal bars with error bars, one panel beside the other; a name missing in a panel leaves a gap there.

    Args:
        panels: Mean and error of each name, by panel.
        label: Name of the quantity that the bars show.
        form: Format of the number beside a bar.
    """
    names = list(dict.fromkeys(name for bars in panels.values() for name in bars))
    palette = colours(names)
    place = {name: len(names) - 1 - index for index, name in enumerate(names)}
    with house_style():
        figure = Figure(figsize=(1.5 + 1.75 * len(panels), 1.1 + 0.26 * len(names)), layout="constrained")
        for axes, (title, bars) in zip(
            figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels.items(), strict=True
        ):
            for name, (mean, error) in bars.items():
                axes.barh(
                    place[name],
                    mean,
                    0.75,
                    color=palette[name],
                    xerr=error,
                    error_kw={"elinewidth": 1, "ecolor": "0.45"},
                )
                reach = mean + (error or 0)
                axes.annotate(
                    format(mean, form),
                    (reach, place[name]),
                    (3, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=7,
                )
            axes.set_yticks(list(place.values()), [literal(name) for name in place])
            axes.tick_params(axis="y", length=0)
            axes.set_xlim(0, 1.25 * max(mean + (error or 0) for mean, error in bars.values()))
            axes.set_title(literal(title), loc="left", fontsize=9)
        figure.supxlabel(literal(label), fontsize=9)
    return figure
