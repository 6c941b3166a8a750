"""Ray Datasets: the bits of the local answer, the sums of the local sums, whatever the blocks and whoever is killed."""

import json
import os
import re
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from asking import counterfactuals, effects, transitions
from lake import ASK, COUNT, LABELS, cut, patients, plain, together
from sklearn.linear_model import LogisticRegression

from countermax import InputError
from countermax.tables import Predicted, _datasets

SPLITS = [(), (1, 700, 4096, 9_999), tuple(range(900, COUNT, 900))]
SCORE = dict(zip(LABELS, (0.0, 0.37, 1.1), strict=True))


def in_order(dataset):
    dataset.context.execution_options.preserve_order = True
    return dataset


def rows_of(ray, dataset):
    return together(ray.get(dataset.to_arrow_refs()))


@pytest.fixture(scope="module")
def table():
    return patients()


@pytest.mark.parametrize("places", SPLITS, ids=["one block", "uneven blocks", "many blocks"])
def test_rows_are_those_of_the_local_answer_to_the_last_bit_and_in_order(ray, table, places):
    options = ASK | {"score": SCORE, "bounds": "stable", "unchanged": "same"}
    found = counterfactuals(in_order(ray.data.from_arrow(cut(table, *places))), **options)
    assert rows_of(ray, found).equals(plain(counterfactuals(table, **options)))


def test_blocks_carry_the_coupling_and_the_notes(ray, table):
    found = counterfactuals(ray.data.from_arrow(table.slice(0, 5)), **ASK)
    notes = json.loads(ray.get(found.to_arrow_refs())[0].schema.metadata[b"countermax"])
    assert notes["coupling"] == "Gumbel-max"


@pytest.mark.parametrize("places", SPLITS, ids=["one block", "uneven blocks", "many blocks"])
@pytest.mark.parametrize("part", [1, 3000], ids=["a task for each block", "blocks together"])
def test_sums_do_not_depend_on_blocks(ray, table, places, part, monkeypatch):
    monkeypatch.setattr(_datasets, "_PART_ROWS", part)
    dataset = ray.data.from_arrow(cut(table, *places))
    options = ASK | {"num_resamples": 50, "unchanged": "same"}
    found, local = transitions(dataset, **options), transitions(table, **options)
    for name in ("counts", "bounds", "counts_interval", "shares_interval"):
        for here, there in zip(_limits(getattr(found, name)), _limits(getattr(local, name)), strict=True):
            np.testing.assert_allclose(here, there, rtol=1e-12, atol=0)
    assert (found.num_rows, found.num_unchanged, found.notes) == (COUNT, local.num_unchanged, local.notes)


def _limits(value):
    return (value.lower, value.upper) if hasattr(value, "lower") else (value,)


@pytest.mark.parametrize("score", [SCORE, {"quality": SCORE, "cost": [3.0, 1.0, 2.0]}], ids=["one score", "two scores"])
def test_effects_do_not_depend_on_blocks(ray, table, score, monkeypatch):
    monkeypatch.setattr(_datasets, "_PART_ROWS", 1)
    few = table.slice(0, 300)  # few enough for a vector quantile and for bounds by transport
    options = {"factual": "p_", "counterfactual": "q_", "outcome": "status", "score": score, "unchanged": "same"}
    found, local = effects(ray.data.from_arrow(cut(few, 10, 150)), **options), effects(few, **options)
    np.testing.assert_allclose(found.mean, local.mean, rtol=1e-12)
    np.testing.assert_allclose(found.mean_error, local.mean_error, rtol=1e-12)
    assert list(found.variances) == list(local.variances)
    np.testing.assert_allclose([*found.variances.values()], [*local.variances.values()], rtol=1e-12)
    np.testing.assert_allclose(found.variance_bounds, local.variance_bounds, rtol=1e-12)
    assert found.choice == local.choice
    here, there = (each.to_pandas() for each in (rows_of(ray, found.individual), local.individual))
    here, there = (each.sort_values(list(each.columns), ignore_index=True) for each in (here, there))
    pd.testing.assert_frame_equal(here, there, rtol=1e-12)


def test_a_worker_that_is_killed_changes_nothing(ray, table, tmp_path, monkeypatch):
    """A classifier kills the process that asks it, twice in each of two questions."""
    monkeypatch.setattr(_datasets, "_PART_ROWS", 1)
    mortal = mortal_classifier(tmp_path)
    few = table.slice(0, 4000)
    dataset = ray.data.from_arrow(cut(few, 1000, 2000, 3000))
    options = {"outcome": "status", "factual": mortal, "counterfactual": Predicted(mortal, {"id": 7})}
    found = counterfactuals(in_order(dataset), **options)
    answered = rows_of(ray, found)
    assert len(list(tmp_path.iterdir())) == 2
    assert answered.equals(plain(counterfactuals(few, **options)))
    for path in tmp_path.iterdir():
        path.unlink()
    summed = transitions(dataset, **options, num_resamples=50)
    assert len(list(tmp_path.iterdir())) == 2
    np.testing.assert_allclose(summed.counts, transitions(few, **options, num_resamples=0).counts, rtol=1e-12)


def mortal_classifier(folder):
    driver = os.getpid()

    class Mortal:  # in here, so that it is pickled as it is
        classes_ = np.array(LABELS)
        feature_names_in_ = np.array(["id"])

        def predict_proba(self, inputs):
            if os.getpid() != driver and len(inputs):
                for place in range(2):
                    try:
                        (folder / str(place)).touch(exist_ok=False)
                    except FileExistsError:
                        continue
                    os.kill(os.getpid(), signal.SIGKILL)
            odds = 1 + np.stack([inputs["id"] % 3, inputs["id"] % 5, inputs["id"] % 7], axis=1)
            return odds / odds.sum(axis=1, keepdims=True)

    return Mortal()


def fitted(count=400):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.normal(size=count), "treated": rng.integers(0, 2, count)})
    frame["status"] = np.array(LABELS)[(rng.gumbel(size=(count, 3)) + frame[["age"]].to_numpy() * [0, 1, 2]).argmax(1)]
    return frame, LogisticRegression().fit(frame[["age", "treated"]], frame["status"])


def test_classifiers_are_asked_on_workers(ray):
    frame, model = fitted()
    dataset = ray.data.from_arrow(cut(pa.Table.from_pandas(frame, preserve_index=False), 100))
    options = {"outcome": "status", "factual": model, "counterfactual": Predicted(model, {"treated": 1})}
    found = rows_of(ray, counterfactuals(in_order(dataset), **options)).to_pandas()
    pd.testing.assert_frame_equal(found, counterfactuals(frame, **options), rtol=1e-12, check_dtype=False)


def test_refits_on_ray_are_those_of_joblib(ray):
    frame, model = fitted(80)
    options = {"outcome": "status", "factual": model, "counterfactual": Predicted(model, {"treated": 1})}
    options |= {"refit": True, "num_resamples": 4, "seed": 3}
    found, local = transitions(frame, **options, engine="ray"), transitions(frame, **options)
    assert np.array_equal(found.bounds_interval.lower, local.bounds_interval.lower)
    assert np.array_equal(found.counts_interval.upper, local.counts_interval.upper)
    with pytest.raises(InputError, match='`n_jobs` must be left out with engine="ray"'):
        transitions(frame, **options, engine="ray", n_jobs=2)


def test_an_ordered_category_is_known_in_every_block(ray, table):
    kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    codes = pa.array([LABELS[::-1].index(value) for value in table["status"].to_pylist()], pa.int8())
    status = pa.DictionaryArray.from_arrays(codes, pa.array(LABELS[::-1]), ordered=True)
    assert status.type == kind
    ordered = table.set_column(1, "status", status).slice(0, 600)
    dataset = ray.data.from_arrow(cut(ordered, 200))
    options = ASK | {"coupling": "inverse-cdf", "num_resamples": 0}
    found, local = transitions(dataset, **options), transitions(ordered, **options)
    assert found.labels == local.labels == LABELS[::-1]
    np.testing.assert_allclose(found.counts, local.counts, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"outcome": "stauts"}, "`outcome` must name a column, got 'stauts'"),
        ({"factual": "r_"}, "none begins with 'r_'"),
        ({"factual": {"dead": "status", "ill": "p_ill", "well": "p_well"}}, "`outcome` must not be a column"),
        ({"counterfactual": {"dead": "q_dead", "ill": "q_ill", "well": "no"}}, "must name a column, got 'no'"),
        ({"factual": np.ones((COUNT, 3))}, "must name columns of the dataset, or be a classifier, got ndarray"),
        ({"outcome": list(LABELS)}, "`outcome` must name a column of the dataset, got list"),
        ({"unchanged": np.ones(COUNT, bool)}, "`unchanged` must name a column"),
        ({"prefix": "p_"}, "would be written over one that is there"),
        ({"coupling": "gumbel"}, "gumbel"),
    ],
)
def test_what_does_not_fit_the_columns_is_refused_before_any_row_is_read(ray, table, options, words, as_users_call):
    dataset = ray.data.from_arrow(table.slice(0, 3))
    with pytest.raises(InputError, match=words):
        counterfactuals(dataset, **(ASK | options))


def test_rows_without_an_answer_are_left_missing_or_named(ray, table):
    broken = table.slice(0, 300).set_column(2, "p_dead", pa.array([None if row == 150 else 0.2 for row in range(300)]))
    dataset = ray.data.from_arrow(cut(broken, 100))
    options = ASK | {"normalise": True}
    found = counterfactuals(in_order(dataset), **options, errors="missing")
    assert rows_of(ray, found).equals(plain(counterfactuals(broken, **options, errors="missing")))
    with pytest.raises(InputError, match=r"^row 150 \(counted from 0\) cannot be answered: .*'dead' is missing"):
        transitions(dataset, **options)
    with pytest.raises(Exception, match=r"row \d+ \(counted from 0\) of a batch of \d+ rows cannot be answered"):
        counterfactuals(dataset, **options).materialize()


def test_the_examples_in_the_document_run(ray, table, tmp_path):
    frame, model = fitted(50)
    for name, rows in (("lake", table.slice(0, 50)), ("people", pa.Table.from_pandas(frame, preserve_index=False))):
        (tmp_path / name).mkdir()
        pa.parquet.write_table(rows, tmp_path / name / "rows.parquet")
    document = (Path(__file__).parents[2] / "docs/ray.md").read_text()
    names = {"model": model}
    for block in re.findall(r"^```py\n(.*?)^```", document, re.DOTALL | re.MULTILINE):
        exec(block.replace("/data", str(tmp_path)), names)
    assert names["answers"].take(1)[0]["counterfactual_most_likely"] in LABELS
    assert names["rows"].transitions().num_rows == 50
    assert pa.parquet.read_table(tmp_path / "answers").num_rows == 50
