"""One rule says which outcome a value means, for one question and for a table."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from countermax import InputError, compare
from countermax._core.labels import UNKNOWN, Labels
from countermax.tables import counterfactuals

P, Q = np.array([0.3, 0.4, 0.3]), np.array([0.1, 0.3, 0.6])


def one_row(value, labels):
    """The same question of a table with one row."""
    frame = pd.DataFrame({"seen": pd.Series([value], dtype=object)})
    asked = {"factual": P[None], "counterfactual": Q[None], "labels": labels}
    return counterfactuals(frame, outcome="seen", **asked, prefix="").iloc[0]


@pytest.mark.parametrize(
    ("labels", "value"),
    [
        ([1, 2, 3], 2),
        ([1, 2, 3], 2.0),
        ([1, 2, 3], np.int64(2)),
        ([1, 2, 3], "2"),
        (["1", "2", "3"], 2.0),
        ([1.0, 2.0, 3.0], 2),
        (np.array([1, 2, 3]), 2),
        (["maybe", "true", "false"], True),
        (["no", "yes", "perhaps"], "yes"),
    ],
)
def test_one_question_and_a_table_take_a_value_for_the_same_label(labels, value):
    one, row = compare(P, Q, value, labels=list(labels)), one_row(value, list(labels))
    assert one.observed == 1
    assert_allclose([row[name] for name in one.labels], one.answers[0].probabilities, atol=1e-12)
    assert_allclose([row[f"{name}_upper"] for name in one.labels], one.bounds.upper, atol=1e-12)


@pytest.mark.parametrize(
    ("labels", "value", "words"),
    [
        ([1, 2, 3], 9, ("9", "1, 2, 3")),
        ([1, 2, 3], 2.5, ("2.5", "1, 2, 3")),
        ([1, 2, 3], np.int64(9), ("9", "1, 2, 3")),
        (["dead", "ill", "well"], "Dead", ("'Dead'", "'dead', 'ill', 'well'")),
    ],
)
def test_one_question_and_a_table_name_unknown_labels_alike(labels, value, words):
    shown, known = words
    with pytest.raises(InputError, match=f"one of the labels {known}, got {shown}$"):
        compare(P, Q, value, labels=labels)
    with pytest.raises(InputError, match=f"the outcome {shown} is none of the labels {known}"):
        one_row(value, labels)


@pytest.mark.parametrize("labels", [["a", "a", "b"], [1, 1.0, 2], ["True", True, "x"], [None, "a", "b"], []])
def test_one_question_and_a_table_refuse_the_same_labels(labels):
    messages = []
    for ask in (lambda: compare(P, Q, "a", labels=labels), lambda: one_row("a", labels)):
        with pytest.raises(InputError) as caught:
            ask()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@given(st.lists(st.integers() | st.text(min_size=1) | st.booleans(), min_size=1, unique_by=str))
def test_labels_are_found_where_they_are(values):
    try:
        labels = Labels(tuple(values))
    except InputError:  # 'true' and True are one
        return
    assert labels.places(values).tolist() == list(range(len(values)))
    assert labels.order_of("other", values[::-1]).tolist() == list(range(len(values)))[::-1]
    assert labels.places([object()])[0] == UNKNOWN
