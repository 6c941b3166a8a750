"""How a number is distributed: steps that rise to one."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from countermax._plotting._style import Floats, house_style, literal


def draw_distribution(returns: Floats, below: Floats, *, marks: Mapping[str, float], title: str, label: str) -> Figure:
    """The share of returns up to each value, and a few numbers as dashed lines.

    Args:
        returns: Values in ascending order.
        below: The share up to and including each.
        marks: Numbers to be marked, by what they are called.
        title: Title of the picture.
        label: Name of the quantity that is shown.
    """
    room = 0.05 * max(float(returns[-1] - returns[0]), 1e-9)
    with house_style():
        figure = Figure(figsize=(5.6, 3.2), layout="constrained")
        axes = figure.subplots()
        where = np.concatenate([[returns[0] - room], returns, [returns[-1] + room]])
        axes.step(where, np.concatenate([[0], below, below[-1:]]), where="post", color="#0072B2", linewidth=1.6)
        palette = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
        for place, (name, value) in enumerate(marks.items()):
            colour = palette[place % len(palette)]
            axes.axvline(value, color=colour, linewidth=1.2, linestyle="--", label=literal(f"{name}, {value:.3f}"))
        axes.set_ylim(0, 1.02)
        axes.grid(color="0.9")
        axes.set_xlabel(literal(label))
        axes.set_ylabel("share of episodes up to here")
        axes.set_title(literal(title), loc="left", wrap=True)
        if marks:
            axes.legend(fontsize=8)
    return figure
