"""Effects by episode, and one trajectory over time."""

import numpy as np
import pytest

from countermax import _plotting as plotting
from countermax._plotting import draw_trajectory


@pytest.mark.parametrize("size", [5, 200])
def test_a_waterfall_counts_gains_and_losses_and_shows_all_of_them(size):
    effects = np.concatenate([np.linspace(-1, -0.1, size - 3), [0.0, 0.5, 2.0]])
    figure = plotting.draw_waterfall(effects, np.full(size, 0.25), title="a $ title", label="effect")
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said[:3] == ["better on average: 2", f"worse on average: {size - 3}", "the same: 1"]
    assert said[-1] == f"mean, {effects.mean():.3g}"
    low, high = figure.axes[0].get_ylim()
    assert low < -1.25
    assert high > 2.25
    assert figure.axes[0].get_xlim() == (0, size)


def test_effects_stand_in_the_order_of_their_episodes():
    effects = {"Gumbel-max": np.array([1.0, 0.5]), "mine": np.array([0.8, 0.6])}
    bounds = np.array([0.2, 0.1]), np.array([1.5, 0.9])
    figure = plotting.draw_effects(plotting.Effects(["17", "x" * 40], effects, bounds), title="", label="")
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["17", "x" * 23 + "…"]
    drawn = [list(line.get_xdata()) for line in axes.lines]
    assert [1.0, 0.5] in drawn
    assert [0.8, 0.6] in drawn
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first on top
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Gumbel-max", "mine", "any coupling"]
    assert figure.axes[0].collections[0].get_segments()[0][:, 0].tolist() == [0.2, 1.5]


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_what_the_rows_are_is_not_cut_however_few_there_are(rows):
    ones = np.ones(rows)
    shown = plotting.Effects(["0: oral antibiotics"] * rows, {"Gumbel-max": ones}, (0 * ones, 2 * ones))
    shown = shown._replace(below=["(was: wait)"] * rows, visits=[7] * rows)
    words = {"title": "Episode 3: the best other decision at each step, the rest as it was", "label": "effect"}
    figure = plotting.draw_effects(shown, **words, kind="step: best other decision")
    figure.draw_without_rendering()
    label = figure.axes[0].yaxis.label.get_window_extent()
    assert 0 <= label.y0 < label.y1 <= figure.bbox.height


@pytest.mark.parametrize("decision", [None, 1])
def test_a_trajectory_has_a_panel_for_each_feature_and_one_for_the_coupling(decision):
    times, steps = 4, 3
    lower, upper = np.zeros((times, 2)), np.full((times, 2), 3.0)
    treatments = tuple(f"drug {place}" for place in range(10))
    given, wanted = np.zeros((2, 10)), np.zeros((steps, 10))
    given[:, 9], wanted[:, 3] = 1, 0.5
    figure = draw_trajectory(
        plotting.Features(("dead", "home"), np.ones((3, 2)), {"mine": np.full((times, 2), 0.5)}, (lower, upper)),
        plotting.Care(treatments, (False,) * 10, given, wanted, wanted),
        visits=np.array([np.nan, 2, 7]),
        measure="return",
        step_bounds=(np.zeros(steps), np.array([0.0, 0.5, 0.1])),
        decision=decision,
        title="a title",
    )
    assert len(figure.axes) == 1 + 2 + 1
    shown = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(shown) == 8
    assert {"drug 9", "drug 3"} <= set(shown)
    assert figure.axes[1].get_ylim()[1] > 3
    plain, hatched = figure.axes[-1].containers
    assert [bar.get_height() for bar in plain] == [0, 0, 0.1]
    assert [bar.get_height() for bar in hatched] == [0, 0.5, 0]
    assert all(bar.get_hatch() for bar in hatched)
    assert [text.get_text() for text in figure.axes[-1].texts] == ["2", "7"]
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert ("the decision that mattered most" in said) == (decision is not None)
    assert "hatched, dashed: fewer than 5 visits behind it" in said


def test_levels_are_written_into_dots_and_rings():
    given, wanted, levels = np.array([[2.0], [0.0]]), np.array([[1.0], [0.5]]), np.array([[3.0], [0.5]])
    nothing = np.zeros((3, 1))
    figure = draw_trajectory(
        plotting.Features(("dead",), nothing, {"mine": nothing}, (nothing, nothing + 1)),
        plotting.Care(("fluid",), (True,), given, wanted, levels),
        visits=np.array([np.nan, 1.0]),
        measure="chance of survival",
        step_bounds=(np.zeros(2), np.ones(2)),
        decision=None,
        title="a title",
    )
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.texts] == ["2", "3", "0.5"]
    dots, surely, guessed = axes.collections
    assert dots.get_sizes()[1] < 5 < dots.get_sizes()[0]
    np.testing.assert_array_equal(surely.get_offsets()[:, 0], [0])
    np.testing.assert_array_equal(guessed.get_offsets()[:, 0], [1])
    assert surely.get_linestyles() != guessed.get_linestyles()
    assert "of survival" in figure.axes[-1].get_ylabel()


def test_gains_have_bounds_doubt_and_hollow_marks_where_visits_are_few():
    shown = plotting.Effects(
        ["0: treat", "1: stop"],
        {"mine": np.array([0.1, 0.2]), "yours": np.array([0.3, 0.0])},
        (np.array([0.0, -0.1]), np.array([0.5, 0.2])),
        limits=(np.array([-0.2, -0.3]), np.array([0.7, 0.4]), 0.95),
        below=["(was: wait)", "(was: wait)"],
        visits=[1, 12],
    )
    figure = plotting.draw_effects(shown, title="a title", label="gain")
    axes = figure.axes[0]
    hollow = [line.get_xdata().tolist() for line in axes.lines if line.get_markerfacecolor() == "white"]
    assert hollow == [[0.1], [0.3]]
    ends = sorted(tuple(segment[:, 0].tolist()) for each in axes.collections for segment in each.get_segments())
    assert ends == [(-0.3, 0.4), (-0.2, 0.7), (-0.1, 0.2), (0.0, 0.5)]
    assert [text.get_text() for text in axes.texts] == ["1 visit", "12 visits"]
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said[-2:] == ["any coupling, 95% model uncertainty", "hollow: rests on fewer than 5 visits"]
    assert axes.get_yticklabels()[0].get_text() == "0: treat\n(was: wait)"
