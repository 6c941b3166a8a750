"""Bars: lengths are the numbers, and the smallest is on top."""

from countermax._plotting import draw_losses, draw_variances
from countermax.intervals import Interval

NUMBERS = {"Gumbel-max": 2.0, "maximal": 3.0, "$ mine": 1.0}


def test_the_smallest_variance_is_on_top():
    axes = draw_variances(NUMBERS, "a title", "variance", least=0.5).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["maximal", "Gumbel-max", r"\$ mine"]
    assert [bar.get_width() for bar in axes.patches] == [3, 2, 1]
    assert axes.lines[0].get_xdata()[0] == 0.5


def test_intervals_are_lines_on_the_bars_and_numbers_beside_them():
    intervals = {name: Interval(value - 0.5, value + 0.25, 0.95) for name, value in NUMBERS.items()}
    axes = draw_variances(NUMBERS, "a title", "variance", intervals=intervals).axes[0]
    assert [tuple(line.get_segments()[0][:, 0]) for line in axes.collections] == [(2.5, 3.25), (1.5, 2.25), (0.5, 1.25)]
    assert [text.get_text().strip() for text in axes.texts] == [
        "3 (2.5 to 3.25)",
        "2 (1.5 to 2.25)",
        "1 (0.5 to 1.25)",
    ]
    assert axes.get_xlim()[1] > 3.25  # room for them


def test_losses_have_the_optimum_as_a_line():
    axes = draw_losses(NUMBERS, 0.9, "a title").axes[0]
    assert axes.lines[0].get_xdata()[0] == 0.9
    assert "optimum" in [text.get_text() for text in axes.texts]
