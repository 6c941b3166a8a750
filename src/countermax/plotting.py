"""Arrays in, figures out: one style for every picture, and no computation.

Figures are built without pyplot, so nothing global changes and no window opens. The palette is Okabe and Ito's, which
colour-blind readers can tell apart, and every mechanism keeps its colour wherever it appears.
"""

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from countermax._errors import InputError

Floats = NDArray[np.floating]

_COLOURS = {
    "Gumbel-max": "#0072B2",
    "inverse CDF": "#E69F00",
    "inverse CDF by score": "#D55E00",
    "maximal": "#009E73",
    "independent": "#999999",
    "optimal": "#000000",
}
_SPARE_COLOURS = ("#CC79A7", "#56B4E9", "#F0E442", "#8C564B", "#17BECF")
_FORMATS = (".png", ".pdf", ".svg")
_MOST_BARS = 12  # outcomes in a bar chart; more would not fit on a page
_MOST_ANNOTATED = 8  # heatmaps of more outcomes show colours only


@contextmanager
def house_style() -> Iterator[None]:
    """Sizes and colours that survive being shrunk into a column of a paper."""
    settings: dict[Any, Any] = {
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "legend.frameon": False,
        "figure.dpi": 150,
        "savefig.dpi": 200,
        "pdf.fonttype": 42,
        "svg.hashsalt": "countermax",  # else the names inside an SVG are drawn at random
    }
    with matplotlib.rc_context(settings):
        yield


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name: fixed for the mechanisms of this library, spare ones for others."""
    spare = iter(_SPARE_COLOURS * (1 + len(names) // len(_SPARE_COLOURS)))
    return {name: _COLOURS.get(name) or next(spare) for name in names}


def draw_answers(
    answers: Mapping[str, Floats],
    labels: Sequence[str],
    bounds: tuple[Floats, Floats],
    stable_bounds: tuple[Floats, Floats],
    title: str,
) -> Figure:
    """Bars: each mechanism's counterfactual probabilities, with the bounds as whiskers beside them.

    Of many outcomes the ones with the largest upper bounds are shown, and the title says so.
    """
    if len(labels) > _MOST_BARS:
        shown = np.sort(np.argsort(-bounds[1], kind="stable")[:_MOST_BARS])
        title = f"{title}\nShown: the {_MOST_BARS} of {len(labels)} outcomes that could be likeliest"
        answers = {name: probs[shown] for name, probs in answers.items()}
        labels = [labels[index] for index in shown]
        bounds, stable_bounds = ((lower[shown], upper[shown]) for lower, upper in (bounds, stable_bounds))
    palette = colours(list(answers))
    with house_style():
        figure = Figure(figsize=(max(5.0, 1.6 + 1.25 * len(labels)), 3.4), layout="constrained")
        axes = figure.subplots()
        slots = len(answers) + 2  # one slot for the whiskers, one for the gap between outcomes
        width = 1 / slots
        centres = np.arange(len(labels), dtype=float)
        for place, (name, probs) in enumerate(answers.items()):
            axes.bar(centres + (place + 1) * width, probs, width * 0.92, color=palette[name], label=_literal(name))
        _whiskers(axes, centres - 0.35 * width, *bounds, "black", "any mechanism")
        _whiskers(axes, centres + 0.2 * width, *stable_bounds, "#0072B2", "any stable mechanism")
        axes.set_xticks(centres + (slots - 2) * width / 2, [_literal(label) for label in labels])
        axes.tick_params(axis="x", length=0)
        axes.set_ylim(0, 1.02)
        axes.set_ylabel("probability, given what was seen")
        axes.grid(axis="y", color="0.9")
        axes.set_title(_literal(title), loc="left")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)
    return figure


def draw_couplings(joints: Mapping[str, Floats], p: Floats, q: Floats, labels: Sequence[str], title: str) -> Figure:
    """Heatmaps: P(X=row, Y=column) under each mechanism, `p` on the left margin and `q` on top."""
    columns = min(3, len(joints))
    rows = -(-len(joints) // columns)
    brightest = max(float(joint.max()) for joint in joints.values())
    palette = colours(list(joints))
    with house_style():
        figure = Figure(figsize=(2.75 * columns + 0.4, 2.75 * rows + 0.5), layout="constrained")
        panels = figure.subfigures(rows, columns, squeeze=False)
        for panel, (name, joint) in zip(panels.flat, joints.items(), strict=False):
            grid = panel.subplots(
                2, 2, width_ratios=(1, 4.5), height_ratios=(1, 4.5), gridspec_kw={"wspace": 0, "hspace": 0}
            )
            grid[0, 0].axis("off")
            _margins(grid[1, 0], grid[0, 1], p, q, labels)
            _heatmap(grid[1, 1], joint, brightest)
            panel.suptitle(_literal(name), fontsize=10, color=palette[name], fontweight="bold")
        figure.suptitle(_literal(title), fontsize=10)
    return figure


def draw_variances(variances: Mapping[str, float], title: str, label: str) -> Figure:
    """Horizontal bars, the smallest on top."""
    names = sorted(variances, key=lambda name: variances[name], reverse=True)
    palette = colours(list(variances))
    with house_style():
        figure = Figure(figsize=(5.6, 0.6 + 0.32 * len(names)), layout="constrained")
        axes = figure.subplots()
        bars = axes.barh(
            [_literal(name) for name in names],
            [variances[name] for name in names],
            color=[palette[name] for name in names],
        )
        axes.bar_label(bars, fmt=" {:.3g}", fontsize=8)
        axes.margins(x=0.12)
        axes.set_xlabel(_literal(label))
        axes.set_title(_literal(title), loc="left")
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


def draw_curves(
    curves: Mapping[str, tuple[Sequence[int], Sequence[float]]], optimum: float | None, title: str
) -> Figure:
    """Held-out loss against steps, one line for each seed; the optimum as a dashed line where it is known."""
    with house_style():
        figure = Figure(figsize=(4.6, 3.0), layout="constrained")
        axes = figure.subplots()
        palette = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
        for index, (name, (steps, losses)) in enumerate(curves.items()):
            axes.plot(steps, losses, color=palette[index % len(palette)], linewidth=1.4, label=name)
        if optimum is not None:
            axes.axhline(optimum, color="black", linewidth=1, linestyle="--", label="optimum")
        axes.set_xlabel("step")
        axes.set_ylabel("expected loss, held-out pairs")
        axes.grid(color="0.9")
        axes.set_title(title, loc="left")
        axes.legend(fontsize=8)
    return figure


def checked_format(path: str | Path) -> Path:
    """The path, if its ending names a format that can be written."""
    target = Path(path)
    if target.suffix.lower() not in _FORMATS:
        raise InputError(f"cannot tell the picture's format from {target.name!r}; end it in {', '.join(_FORMATS)}")
    return target


def picture(figure: Figure, suffix: str = ".png") -> bytes:
    """The figure as the bytes of a file, the same bytes for the same figure."""
    buffer = io.BytesIO()
    undated = {".png": {}, ".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    with house_style(), warnings.catch_warnings():
        # A script that the font lacks shows as boxes, as everywhere else; a warning for each letter helps nobody.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(buffer, format=suffix.lstrip("."), metadata=undated[suffix])
    return buffer.getvalue()


def _literal(text: str) -> str:
    """The text with dollar signs that matplotlib shows instead of reading a formula between two of them."""
    return text.replace("$", r"\$")


def _whiskers(axes: Axes, places: Floats, lower: Floats, upper: Floats, colour: str, label: str) -> None:
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    axes.errorbar(places, middle, half, fmt="none", ecolor=colour, elinewidth=1.4, capsize=3, capthick=1.4, label=label)


def _margins(left: Axes, top: Axes, p: Floats, q: Floats, labels: Sequence[str]) -> None:
    positions = np.arange(len(labels))
    shown = [_literal(label) for label in labels] if len(labels) <= 2 * _MOST_ANNOTATED else [""] * len(labels)
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
