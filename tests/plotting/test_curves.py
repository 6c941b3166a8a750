"""Lines and marks: training curves, verdicts."""

from countermax._plotting import draw_curves, draw_verdicts


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
