"""Draws the picture of a tree of modes and of who switches between them: `make figures`."""

import sys

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from countermax import NestedGumbelMax, Rows, SwitchingTable, Utilities

MODES = ["car", "cycle", "train", "bus", "tram"]
NESTS = {"public": ["train", {"street": ["bus", "tram"]}]}
PLACES = {"": (0, 2.0), "public": (1, 1.0), "street": (2, 0.5), **{mode: (3, 4 - at) for at, mode in enumerate(MODES)}}
HOLDERS = {
    "car": "",
    "cycle": "",
    "public": "",
    "train": "public",
    "street": "public",
    "bus": "street",
    "tram": "street",
}


def table() -> SwitchingTable:
    """Ten thousand travellers before and after the tram becomes faster."""
    model = NestedGumbelMax(NESTS, {"public": 0.75, "street": 0.5}, labels=MODES)
    base = np.array([[0.9, -0.8, 0.4, 0.2, -0.1]])
    asked = Utilities(model, weights=[10_000])
    one = pd.DataFrame({"segment": ["all"]})
    return Rows(one, factual=base, counterfactual=base + [0, 0, 0, 0, 0.8], labels=MODES, utilities=asked).switching()


def draw(found: SwitchingTable) -> Figure:
    """The tree to the left; to the right of each mode who leaves it, as wide as they are many."""
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axes = figure.subplots()
    for name, holder in HOLDERS.items():
        (x, y), (start, level) = PLACES[name], PLACES[holder]
        axes.plot([start, start, x], [level, y, y], color="0.6", linewidth=1.2)
    for name, words in (("public", "public\n0.75"), ("street", "street\n0.5")):
        axes.text(*PLACES[name], words, ha="center", va="center", fontsize=8, bbox={"fc": "white", "ec": "0.6"})
    demand = found.counts.sum(axis=1), found.counts.sum(axis=0)
    for at, mode in enumerate(MODES):
        words = f"{mode}  {demand[0][at]:,.0f} to {demand[1][at]:,.0f}"
        axes.text(3.05, 4 - at, words, va="center", fontsize=9)
    widest = (found.counts - np.diag(np.diag(found.counts))).max()
    ends = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 2, "mutation_scale": 9, "color": "#0072B2", "alpha": 0.7}
    for i, j in zip(*np.nonzero(found.counts > 1), strict=True):
        if i != j:
            bend = f"arc3,rad={-0.35 if i < j else 0.35}"
            width = 5 * found.counts[i, j] / widest
            axes.add_patch(FancyArrowPatch((5, 4 - i), (5, 4 - j), connectionstyle=bend, linewidth=width, **ends))
            axes.text(4.9, 4 - i, f"{found.counts[i, j]:,.0f}", fontsize=8, ha="right", va="center", color="#0072B2")
    axes.set(xlim=(-0.2, 5.7), ylim=(-0.6, 4.6))
    axes.set_axis_off()
    figure.suptitle("A faster tram: 10,000 travellers, and who switches to it", fontsize=10, x=0.01, ha="left")
    return figure


if __name__ == "__main__":
    draw(table()).savefig(sys.argv[1], dpi=200)
