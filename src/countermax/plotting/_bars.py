"""One number for each mechanism."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from countermax.plotting._style import colours, house_style, literal


def draw_variances(variances: Mapping[str, float], title: str, label: str) -> Figure:
    """Horizontal bars, the smallest on top."""
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
        axes.bar_label(bars, fmt=" {:.3g}", fontsize=8)
        axes.margins(x=0.12)
        axes.set_xlabel(literal(label))
        axes.set_title(literal(title), loc="left")
        axes.tick_params(axis="y", length=0)
    return figure


def draw_losses(losses: Mapping[str, float], optimum: float, title: str) -> Figure:
    """Horizontal bars of expected losses, the smallest on top, with the optimum as a line."""
    figure = draw_variances(losses, title, "expected loss")
    axes = figure.axes[0]
    axes.axvline(optimum, color="black", linewidth=1, linestyle="--")
    axes.annotate(
        "optimum", (optimum, 1), (3, 2), xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=7
    )
    axes.set_title(title, loc="left", pad=14)
    return figure
