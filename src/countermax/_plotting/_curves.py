"""How a loss falls during training."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from countermax._plotting._style import house_style, literal


def draw_curves(
    curves: Mapping[str, tuple[Sequence[int], Sequence[float]]], optimum: float | None, title: str
) -> Figure:
    """Held-out loss against steps, one line for each seed; the optimum as a dashed line where it is known."""
    with house_style():
        figure = Figure(figsize=(4.6, 3.0), layout="constrained")
        axes = figure.subplots()
        palette = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
        for index, (name, (steps, losses)) in enumerate(curves.items()):
            axes.plot(steps, losses, color=palette[index % len(palette)], linewidth=1.4, label=literal(name))
        if optimum is not None:
            axes.axhline(optimum, color="black", linewidth=1, linestyle="--", label="optimum")
        axes.set_xlabel("step")
        axes.set_ylabel("expected loss, held-out pairs")
        axes.grid(color="0.9")
        axes.set_title(literal(title), loc="left", wrap=True)
        axes.legend(fontsize=8)
    return figure
