"""Several panels of bars that share their names."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from countermax._plotting._style import colours, house_style, literal


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
