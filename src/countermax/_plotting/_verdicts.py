"""What holds and what does not."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from countermax._plotting._style import house_style, literal

_HOLDS, _BROKEN = "#009E73", "#D55E00"


def draw_verdicts(verdicts: Mapping[str, bool], title: str) -> Figure:
    """A line for each claim: a green dot where it holds, an orange cross where it does not."""
    with house_style():
        figure = Figure(figsize=(4.6, 0.6 + 0.26 * len(verdicts)), layout="constrained")
        axes = figure.subplots()
        for place, holds in enumerate(verdicts.values()):
            colour, marker, word = (_HOLDS, "o", "holds") if holds else (_BROKEN, "X", "broken")
            axes.plot(0, place, marker, color=colour, markersize=7)
            axes.annotate(word, (0, place), (10, 0), textcoords="offset points", va="center", color=colour, fontsize=8)
        axes.set_yticks(range(len(verdicts)), [literal(name) for name in verdicts])
        axes.set_ylim(len(verdicts) - 0.5, -0.5)
        axes.set_xlim(-0.2, 1)
        axes.set_xticks([])
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.set_title(literal(title), loc="left", wrap=True)
    return figure
