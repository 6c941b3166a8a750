"""Flows from what was seen to what would have been."""

import numpy as np
from numpy.testing import assert_allclose

from countermax._plotting import draw_flows
from countermax._plotting._flows import _others_together


def test_flows_of_many_outcomes_keep_their_total():
    counts = np.random.default_rng(0).random((20, 20))
    together, labels = _others_together(counts, [f"label {index}" for index in range(20)], counts)
    assert_allclose(together.sum(), counts.sum())
    assert labels[-1] == "13 others"


def test_nothing_may_flow_and_labels_are_no_formulas():
    figure = draw_flows(np.zeros((2, 2)), ["a", "$b$"], "nothing flows", "Gumbel-max")
    assert [text.get_text() for text in figure.axes[0].texts].count(r"\$b\$  0") == 2


def test_ranges_of_outcomes_drawn_as_one_stay_within_what_was_seen():
    generator = np.random.default_rng(1)
    counts = generator.dirichlet(np.ones(12), 12) * 10
    totals = counts.sum(axis=1, keepdims=True)
    figure = draw_flows(
        counts, [f"outcome {index}" for index in range(12)], "flows", "mine", [0 * counts, 0 * counts + totals]
    )
    words = [text.get_text() for text in figure.axes[0].texts]
    (others,) = (each for each in words if each.startswith("5 others") and each.endswith("50"))
    assert others
    assert "would have been\nunder mine" in words
    assert any("[0 to 50]" in each for each in words)
    assert not any("[0 to 250]" in each for each in words)


def test_few_people_are_written_in_tenths():
    figure = draw_flows(np.array([[0.3, 0.7], [0.0, 1.0]]), ["a", "b"], "few", "mine")
    words = [text.get_text() for text in figure.axes[0].texts]
    assert "0.3  (30 %)" in words
    assert "b  1.7" in words
