"""Sums over rows in parts: merged, they are the sums over all rows. No Ray is needed for them, nor imported."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from asking import counterfactuals, transitions
from sklearn.linear_model import LogisticRegression

from countermax import InputError
from countermax._core.labels import Labels
from countermax.tables import Predicted
from countermax.tables._effects import EffectSums
from countermax.tables._reading import RowCounts
from countermax.tables._scores import together


def test_sums_about_different_shifts_merge():
    rng = np.random.default_rng(0)
    effects, weights = 1e6 + rng.normal(size=(2, 500)), rng.random(500)

    def added(rows, shift):
        centred, weight = effects[:, rows] - shift[:, None], weights[rows]
        within = np.array([weight.sum(), 1.0, 2.0])
        counts = RowCounts(len(weight), 1, 2)
        return EffectSums(centred @ weight, centred**2 @ weight, within, shift, weight.sum(), 0.5, counts)

    whole = added(slice(None), effects[:, 0])
    merged = EffectSums(np.zeros(2), np.zeros(2), np.zeros(3))
    for rows in (slice(0, 10), slice(10, 400), slice(400, None)):
        merged.merge(added(rows, effects[:, rows].mean(axis=1)))
    merged.merge(
        EffectSums(np.zeros(2), np.zeros(2), np.zeros(3), counts=RowCounts(num_left_out=5))
    )  # rows without an answer
    mean, other = (each.shift + each.sum / each.total for each in (whole, merged))
    np.testing.assert_allclose(other, mean, rtol=1e-15)
    spread, other = (each.squares / each.total - (each.sum / each.total) ** 2 for each in (whole, merged))
    np.testing.assert_allclose(other, spread, rtol=1e-8)
    assert merged.counts == RowCounts(500, 3, 11)


def test_distinct_pairs_of_parts_are_counted_together():
    first = (np.array([[0.0, 1.0]]), np.array([[2.0, 3.0]]), np.array([2.0]))
    found = together([first, first], 5)
    assert found is not None
    assert [each.tolist() for each in found] == [[[0.0, 1.0]], [[2.0, 3.0]], [4.0]]
    assert together([first, None], 5) is None
    assert together([first, tuple(each + 1 for each in first)], 1) is None


def test_labels_travel_after_they_were_used():
    import pickle

    labels = Labels(("a", "b"))
    assert labels.places(["b"]).tolist() == [1]
    assert pickle.loads(pickle.dumps(labels)) == labels


def test_arrow_tables_are_asked_like_frames_of_pandas():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=60), "dose": rng.integers(0, 3, 60)})
    frame["status"] = np.array(["bad", "good"])[(frame["age"] + rng.normal(size=60) > 0).astype(int)]
    model = LogisticRegression().fit(frame[["age", "dose"]], frame["status"])
    options = {
        "outcome": "status",
        "factual": model,
        "counterfactual": Predicted(model, {"dose": lambda dose: dose + 1}),
    }
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pd.testing.assert_frame_equal(
        counterfactuals(table, **options).to_pandas(), counterfactuals(frame, **options), check_exact=True
    )


def test_an_arrow_part_need_not_list_the_category_that_rows_are_changed_to():
    frame = pd.DataFrame({"arm": pd.Categorical(["old", "new"] * 20), "status": ["bad", "good", "good", "bad"] * 10})

    class ByArm:
        classes_ = np.array(["bad", "good"])
        feature_names_in_ = np.array(["arm"])

        def predict_proba(self, inputs):
            good = np.where(inputs["arm"] == "new", 0.7, 0.4)
            return np.stack([1 - good, good], axis=1)

    table = pa.Table.from_pandas(
        frame[frame["arm"] == "old"].assign(arm=lambda rows: rows["arm"].cat.remove_unused_categories())
    )
    found = counterfactuals(table, outcome="status", factual=ByArm(), counterfactual=Predicted(ByArm(), {"arm": "new"}))
    assert found["counterfactual_good"].to_pylist()[1] == pytest.approx(1.0)


def test_an_engine_must_be_known_and_have_something_to_do():
    frame = pd.DataFrame({"x": ["a", "b"], "p_a": 0.5, "p_b": 0.5, "q_a": 0.2, "q_b": 0.8})
    ask = {"outcome": "x", "factual": "p_", "counterfactual": "q_"}
    with pytest.raises(InputError, match='`engine` must be "local" or "ray", got \'spark\''):
        transitions(frame, **ask, engine="spark")
    with pytest.raises(InputError, match="in memory, without `refit`"):
        transitions(frame, **ask, engine="ray")
