"""What each coupling answers, beside the bounds."""

import numpy as np
import pytest

from countermax.plotting import draw_answers


@pytest.mark.parametrize("size", [3, 30])
def test_answers_show_every_coupling_and_the_outcomes_that_could_be_likeliest(size):
    upper = np.linspace(0, 1, size)
    answers = {"Gumbel-max": np.full(size, 1 / size), "mine": upper / upper.sum()}
    labels = [f"${place}" for place in range(size)]
    figure = draw_answers(answers, labels, (0 * upper, upper), (0 * upper, upper / 2), "a title")
    axes = figure.axes[0]
    shown = [label.get_text() for label in axes.get_xticklabels()]
    assert shown == [rf"\${place}" for place in range(size)][-12:]
    assert ("12 of 30" in axes.get_title(loc="left")) == (size == 30)
    said = {text.get_text() for text in axes.get_legend().get_texts()}
    assert said == {"Gumbel-max", "mine", "any coupling", "any stable coupling"}
