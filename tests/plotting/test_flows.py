"""Flows from what was seen to what would have been."""

import numpy as np
from numpy.testing import assert_allclose

from countermax.plotting import draw_flows
from countermax.plotting._flows import _others_together


def test_flows_of_many_outcomes_keep_their_total():
    counts = np.random.default_rng(0).random((20, 20))
    together, labels = _others_together(counts, [f"label {index}" for index in range(20)], counts)
    assert_allclose(together.sum(), counts.sum())
    assert labels[-1] == "13 others"


def test_nothing_may_flow_and_labels_are_no_formulas():
    figure = draw_flows(np.zeros((2, 2)), ["a", "$b$"], "nothing flows")
    assert [text.get_text() for text in figure.axes[0].texts].count(r"\$b\$  0") == 2
