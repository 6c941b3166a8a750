"""Bars, curves, estimates, verdicts: what the picture says is what the numbers say."""

from countermax import _plotting as plotting
from countermax._plotting import draw_curves, draw_losses, draw_variances, draw_verdicts
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


def test_curves_are_named_and_the_optimum_is_drawn_where_it_is_known():
    curves = {"seed $0": ([0, 10], [1.0, 0.5]), "seed 1": ([0, 10], [1.0, 0.4])}
    for optimum, names in ((0.3, [r"seed \$0", "seed 1", "optimum"]), (None, [r"seed \$0", "seed 1"])):
        axes = draw_curves(curves, optimum, "a title").axes[0]
        assert [text.get_text() for text in axes.get_legend().get_texts()] == names
        assert list(axes.lines[0].get_ydata()) == [1.0, 0.5]


def test_verdicts_say_what_holds():
    axes = draw_verdicts({"facts": True, "margins": False}, "a title").axes[0]
    assert [text.get_text() for text in axes.texts] == ["holds", "broken"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["facts", "margins"]


def test_estimates_out_of_all_proportion_do_not_squash_the_others():
    rows = [("observed", "observed", 0.5, 0.4, 0.6), ("wild", "importance sampling", 80.0, -15.0, 300.0)]
    figure = plotting.draw_estimates(rows, truth=None, title="", label="")
    low, high = figure.axes[0].get_xlim()
    assert high - low < 2
    assert [text.get_text() for text in figure.axes[0].texts] == ["80 →"]
