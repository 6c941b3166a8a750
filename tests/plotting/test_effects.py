"""Effects by episode: what the picture says is what the numbers say."""

import numpy as np
import pytest

from countermax import _plotting as plotting


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
    figure = plotting.draw_effects(
        ["17", "x" * 40], effects, (np.array([0.2, 0.1]), np.array([1.5, 0.9])), title="", label=""
    )
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["17", "x" * 23 + "…"]
    drawn = [list(line.get_xdata()) for line in axes.lines]
    assert [1.0, 0.5] in drawn
    assert [0.8, 0.6] in drawn
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first on top
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Gumbel-max", "mine", "any coupling"]
    assert figure.axes[0].collections[0].get_segments()[0][:, 0].tolist() == [0.2, 1.5]
