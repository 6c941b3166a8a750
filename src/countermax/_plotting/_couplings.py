"""Joint laws as heatmaps."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from countermax._plotting._labels import shortened
from countermax._plotting._style import Floats, colours, house_style, literal

_LONGEST = 16  # characters of a label
_MOST_ANNOTATED = 8  # heatmaps of more outcomes show colours only


def draw_couplings(
    joints: Mapping[str, Floats],
    p: Floats,
    q: Floats,
    labels: Sequence[str],
    title: str,
    notes: Mapping[str, str] | None = None,
) -> Figure:
    """Heatmaps: P(X=row, Y=column) under each coupling, `p` on the left margin and `q` on top.

    `notes` has words to put after a coupling's name.
    """
    columns = 2 if len(joints) == 4 else min(3, len(joints))
    rows = -(-len(joints) // columns)
    brightest = max(float(joint.max()) for joint in joints.values())
    palette = colours(list(joints))
    with house_style():
        side = 2.75 + 0.06 * min(_LONGEST, max(map(len, labels)))
        figure = Figure(figsize=(side * columns + 0.4, side * rows + 0.5), layout="constrained")
        panels = figure.subfigures(rows, columns, squeeze=False)
        for panel, (name, joint) in zip(panels.flat, joints.items(), strict=False):
            grid = panel.subplots(
                2, 2, width_ratios=(1, 4.5), height_ratios=(1, 4.5), gridspec_kw={"wspace": 0, "hspace": 0}
            )
            grid[0, 0].axis("off")
            _margins(grid[1, 0], grid[0, 1], p, q, labels)
            _heatmap(grid[1, 1], joint, brightest)
            panel.suptitle(
                literal(name + (notes or {}).get(name, "")), fontsize=10, color=palette[name], fontweight="bold"
            )
        figure.suptitle(literal(title), fontsize=10)
    return figure


def _margins(left: Axes, top: Axes, p: Floats, q: Floats, labels: Sequence[str]) -> None:
    positions = np.arange(len(labels))
    short = [literal(label) for label in shortened(labels, _LONGEST)]
    shown = short if len(labels) <= 2 * _MOST_ANNOTATED else [""] * len(labels)
    left.barh(positions, p, color="0.75")
    left.set_ylim(len(labels) - 0.5, -0.5)
    left.invert_xaxis()
    left.set_yticks(positions, shown, fontsize=7)
    left.set_xticks([])
    left.set_xlabel("$p$")
    top.bar(positions, q, color="0.75")
    top.set_xlim(-0.5, len(labels) - 0.5)
    top.set_yticks([])
    top.xaxis.tick_top()
    top.set_xticks(positions, shown, fontsize=7, rotation=90)
    top.set_ylabel("$q$", rotation=0, va="center")
    for axes in (left, top):
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)


def _heatmap(axes: Axes, joint: Floats, brightest: float) -> None:
    axes.imshow(joint, cmap="Blues", vmin=0, vmax=brightest, aspect="auto")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set(visible=True, color="0.8")
    if len(joint) > _MOST_ANNOTATED:
        return
    for (i, j), value in np.ndenumerate(joint):
        text = "0" if value < 5e-4 else f"{value:.2f}"
        axes.text(
            j, i, text, ha="center", va="center", fontsize=7, color="white" if value > 0.55 * brightest else "black"
        )
