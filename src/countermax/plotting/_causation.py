"""Probabilities of causation, one line each: what data alone leave open, and what other data could have shown."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from countermax.plotting._style import colours, house_style, literal

_BAND, _ANY, _STABLE = "0.85", "black", "#CC3311"


class CausationLine(NamedTuple):
    """One number."""

    name: str
    bounds: tuple[float, float] | None
    stable: tuple[float, float] | None
    monotone: tuple[float, float] | None
    interval: tuple[float, float] | None
    by_coupling: Mapping[str, float]


def draw_causation(lines: Sequence[CausationLine], title: str, label: str) -> Figure:
    """Ranges from the top down: all couplings in black, stable ones in red, under monotonicity as diamonds.

    Args:
        lines: The numbers.
        title: Title of the picture.
        label: Quantity that is measured.
    """
    palette = colours(list(lines[0].by_coupling)) if lines else {}
    with house_style():
        figure = Figure(figsize=(7.0, 1.2 + 0.55 * len(lines)), layout="constrained")
        axes = figure.subplots()
        for place, line in enumerate(lines):
            if line.interval is not None:
                low, high = line.interval
                axes.barh(place, high - low, left=low, height=0.62, color=_BAND, linewidth=0)
            if line.bounds is None:
                continue
            axes.plot(line.bounds, [place - 0.08] * 2, color=_ANY, linewidth=2.2, marker="|", markersize=9)
            words = f"{line.bounds[0]:z.2f} to {line.bounds[1]:z.2f}"
            axes.annotate(words, (1, place), (6, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                          va="center", fontsize=8, annotation_clip=False)  # fmt: skip
            if line.stable is not None:
                axes.plot(line.stable, [place + 0.1] * 2, color=_STABLE, linewidth=1.4, marker="|", markersize=6)
            if line.monotone is not None:
                axes.plot(line.monotone, [place + 0.24] * 2, color="#AA3377", linewidth=1, marker="D", markersize=4)
            for name, value in line.by_coupling.items():
                axes.plot([value], [place - 0.08], "o", color=palette[name], markersize=3.5)
        axes.set_yticks(range(len(lines)), [literal(line.name) for line in lines])
        axes.set_ylim(len(lines) - 0.45, -0.55)
        if all(line.bounds is None or (line.bounds[0] >= 0 and line.bounds[1] <= 1) for line in lines):
            axes.set_xlim(-0.01, 1.01)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="0.93")
        axes.set_xlabel(literal(label))
        axes.set_title(literal(title), loc="left", wrap=True)
        figure.legend(handles=_handles(lines, palette), loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _handles(lines: Sequence[CausationLine], palette: Mapping[str, str]) -> list[Any]:
    handles: list[Any] = [Line2D([], [], color=_ANY, linewidth=2.2, label="any coupling")]
    if any(line.stable is not None for line in lines):
        handles.append(Line2D([], [], color=_STABLE, linewidth=1.4, label="any stable coupling"))
    if any(line.monotone is not None for line in lines):
        handles.append(Line2D([], [], color="#AA3377", marker="D", markersize=4, label="if it harms nobody"))
    if any(line.interval is not None for line in lines):
        handles.append(Patch(color=_BAND, label="confidence, whole range"))
    for name, colour in palette.items():
        handles.append(Line2D([], [], color=colour, marker="o", linestyle="", markersize=4, label=literal(name)))
    return handles
