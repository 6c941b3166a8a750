"""One trajectory over time."""

import numpy as np
import pytest

from countermax.plotting import draw_trajectory


@pytest.mark.parametrize("decision", [None, 1])
def test_a_trajectory_has_a_panel_for_each_feature_and_one_for_the_coupling(decision):
    times, steps = 4, 3
    lower, upper = np.zeros((times, 2)), np.full((times, 2), 3.0)
    treatments = [f"drug {place}" for place in range(10)]
    given, wanted = np.zeros((2, 10)), np.zeros((steps, 10))
    given[:, 9], wanted[:, 3] = 1, 0.5
    figure = draw_trajectory(
        features=["dead", "home"],
        observed=np.ones((3, 2)),
        answers={"mine": np.full((times, 2), 0.5)},
        bounds=(lower, upper),
        treatments=treatments,
        given=given,
        wanted=wanted,
        step_bounds=(np.zeros(steps), np.array([0.0, 0.5, 0.1])),
        decision=decision,
        title="a title",
    )
    assert len(figure.axes) == 1 + 2 + 1
    shown = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(shown) == 8
    assert {"drug 9", "drug 3"} <= set(shown)
    assert figure.axes[1].get_ylim()[1] > 3
    assert [bar.get_height() for bar in figure.axes[-1].patches] == [0, 0.5, 0.1]
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert ("the decision that mattered most" in said) == (decision is not None)
