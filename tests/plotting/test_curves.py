"""Lines and marks: training curves, points of the paper, verdicts."""

from countermax._plotting import draw_curves, draw_distances, draw_noise_scales, draw_verdicts


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


def test_distances_stand_beside_the_published_ones():
    figure = draw_distances({"Gadget 2": {"a": 3.0, "b": -1e-9}}, {"Gadget 2": {"b": 4.0}}, ["a", "b"], "a title")
    axes = figure.axes[0]
    assert [bar.get_height() for bar in axes.patches] == [3, 0]
    assert list(axes.lines[0].get_ydata()) == [4]
    assert axes.get_legend().get_texts()[-1].get_text() == "published"


def test_noise_scales_are_evenly_spaced():
    axes = draw_noise_scales(
        [(0.0, 0.2, 0.01), (4.0, 0.3, 0.02)], {0.0: 0.21, 1.0: 0.25, 4.0: 0.31}, {"mine": 0.4}
    ).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "4"]
    ours = next(line for line in axes.lines if list(line.get_ydata()) == [0.2, 0.3])
    assert list(ours.get_xdata()) == [0, 2]
