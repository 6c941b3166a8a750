"""States that were made from measurements."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from countermax._plotting._style import Floats, house_style, literal, shortened

_LONGEST = 48
_DARK = 1.4  # standard deviations, from which on numbers are white


def draw_states(
    names: Sequence[str], features: Sequence[str], means: Floats, sizes: NDArray[np.integer], *, title: str
) -> Figure:
    """A line for each state: the mean of each feature, in colours by how far it lies from the others, and its size."""
    middle = np.average(means, axis=0, weights=sizes)
    spread = np.sqrt(np.average((means - middle) ** 2, axis=0, weights=sizes))
    scaled = (means - middle) / np.where(spread > 0, spread, 1)
    with house_style():
        figure = Figure(figsize=(3.2 + 0.8 * len(features) + 1.2, 1.1 + 0.24 * len(names)), layout="constrained")
        panel, bars = figure.subplots(1, 2, sharey=True, width_ratios=[0.8 * len(features), 1.2])
        panel.imshow(scaled, cmap="RdBu_r", vmin=-2.5, vmax=2.5, aspect="auto")
        for state, feature in np.ndindex(*means.shape):
            colour = "white" if abs(scaled[state, feature]) > _DARK else "black"
            text = f"{means[state, feature]:.3g}"
            panel.text(feature, state, text, ha="center", va="center", fontsize=7, color=colour)
        panel.set_xticks(range(len(features)), list(map(literal, shortened(features, 14))))
        panel.set_yticks(range(len(names)), list(map(literal, shortened(names, _LONGEST))), fontsize=8)
        panel.tick_params(length=0)
        for side in panel.spines.values():
            side.set_visible(False)
        bars.barh(np.arange(len(names)), sizes, color="0.6")
        bars.tick_params(axis="y", length=0, labelleft=False)
        bars.set_xlabel("rows")
        figure.suptitle(literal(title), fontsize=10, x=0.01, ha="left")
    return figure
