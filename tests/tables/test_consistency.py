"""Who would have been treated as they were has the outcome that they had: every question, every coupling."""

import json

import jax
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from asking import counterfactuals, counterfactuals_file, effects, transitions
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from countermax import Gadget1, InputError, save
from countermax.cli import app
from countermax.tables import Predicted

LABELS = ["gained", "kept", "lost"]
ASK = {"outcome": "status", "factual": "p_", "counterfactual": "q_"}


def people(count=12, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"status": np.array(LABELS)[np.arange(count) % 3], "same": np.arange(count) % 2 == 0})
    for world in "pq":
        frame[[f"{world}_{label}" for label in LABELS]] = rng.dirichlet([2, 3, 4], count)
    return frame


@pytest.fixture(scope="module")
def couplings(tmp_path_factory):
    gadget = Gadget1(3, key=jax.random.key(0), hidden=(4,))
    path = tmp_path_factory.mktemp("stored") / "gadget.npz"
    return ["gumbel-max", "inverse-cdf", "maximal", "independent", gadget, save(gadget, path)]


@pytest.mark.parametrize(("place", "bounds"), [(0, "stable"), *((place, "any") for place in range(6))])
def test_rows_that_are_left_as_they_were_have_the_outcome_that_they_had(couplings, place, bounds):
    frame = people()
    asked = ASK | {"coupling": couplings[place], "score": [0, 1, 3], "bounds": bounds}
    found = counterfactuals(frame, **asked, unchanged="same")
    same = found[found["same"]]
    certain = pd.get_dummies(same["status"])[LABELS].to_numpy(float)
    for side in ("", "_lower", "_upper"):
        assert_array_equal(same[[f"counterfactual_{label}{side}" for label in LABELS]], certain)
        assert_array_equal(same[f"counterfactual_score{side}"], same["status"].map({"gained": 0, "kept": 1, "lost": 3}))
    assert (same["counterfactual_most_likely"] == same["status"]).all()
    assert not same["counterfactual_coupling_matters"].any()
    others = counterfactuals(frame, **asked)[~frame["same"]]
    pd.testing.assert_frame_equal(found[~found["same"]], others, check_dtype=False)
    pd.testing.assert_frame_equal(counterfactuals(frame, **asked, unchanged=frame["same"].to_numpy()), found)


def test_transitions_count_them_where_they_were(couplings):
    frame = people(60)
    before = frame.loc[frame["same"], "status"].value_counts()[LABELS].to_numpy()
    for coupling in couplings[:4]:
        found = transitions(frame, **ASK, coupling=coupling, unchanged="same", num_resamples=20)
        assert (np.diag(found.bounds.lower) >= before - 1e-9).all()
        assert (found.bounds.upper.sum(axis=1) - np.diag(found.bounds.upper)).max() <= 2 * (20 - before.min()) + 1e-9
        assert found.num_unchanged == found.to_dict()["num_unchanged"] == 30
    assert "30 rows are unchanged" in " ".join(str(found).split())
    everybody = transitions(frame, **ASK, unchanged=np.ones(60, bool), coupling="independent", num_resamples=0)
    for cells in (everybody.counts, *everybody.bounds):
        assert_array_equal(cells, np.diag([20.0, 20, 20]))


@pytest.mark.parametrize("scores", [{"score": [0, 1, 3]}, {"score": {"a": [0, 1, 3], "b": [1, 0, 1]}}])
def test_they_have_no_effect(scores):
    frame = people(40)
    found = effects(frame, **ASK, **scores, unchanged="same")
    assert found.num_unchanged == found.to_dict()["num_unchanged"] == 20
    assert (found.individual[frame["same"]] == 0).all(axis=None)
    nobody = effects(frame, **ASK, **scores, unchanged=np.ones(40, bool))
    assert_array_equal(nobody.mean, 0)
    assert max(nobody.variances.values()) == 0
    assert_array_equal(nobody.variance_bounds, 0)
    # The others alone, diluted: the mean effect halves, and so do its mean squares.
    others = effects(frame[~frame["same"]], **ASK, **scores)
    assert_allclose(found.mean, others.mean / 2)
    for name, variance in others.variances.items():
        square = variance + (others.mean**2).sum()
        assert found.variances[name] == pytest.approx(square / 2 - (found.mean**2).sum())
    for limit, other in zip(found.variance_bounds, others.variance_bounds, strict=True):
        assert limit == pytest.approx((other + (others.mean**2).sum()) / 2 - (found.mean**2).sum(), rel=1e-5)
    assert "20 rows are unchanged" in " ".join(str(found).split())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_classifier_knows_whom_the_change_leaves_as_they_were(library):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.normal(size=90), "treated": rng.integers(0, 2, 90)})
    frame["status"] = np.array(LABELS)[rng.integers(0, 3, 90)]
    native = pl.from_pandas(frame) if library == "polars" else frame
    model = LogisticRegression().fit(native[["age", "treated"]], native["status"])
    treated = frame["treated"].to_numpy() == 1
    younger = Predicted(model, {"age": lambda age: age - 1})
    cases = [
        (model, Predicted(model, {"treated": True}), treated),
        (Predicted(model), Predicted(model, {"treated": np.ones(90, int)}), treated),
        (Predicted(model, {"treated": 0}), Predicted(model), ~treated),
        (model.predict_proba(native[["age", "treated"]]), Predicted(model, {"treated": 1}), treated),
        (model, Predicted(model, {"treated": 1, "age": lambda age: age}), treated),
        (model, Predicted(model, {"treated": 1, "age": lambda age: age + 1}), ~(treated | True)),
        (younger, younger, treated | True),
        (LogisticRegression().fit(native[["age", "treated"]], native["status"]), Predicted(model), ~(treated | True)),
    ]
    for factual, counterfactual, same in cases:
        asked = {"outcome": "status", "factual": factual, "counterfactual": counterfactual, "labels": LABELS}
        found = counterfactuals(native, **asked, coupling="independent")
        rows = found.to_pandas() if library == "polars" else found
        own = rows.to_numpy()[np.arange(90), [rows.columns.get_loc(f"counterfactual_{x}") for x in frame["status"]]]
        assert_array_equal(own == 1, same)
        assert transitions(native, **asked, num_resamples=0).num_unchanged == same.sum()


def test_missing_inputs_are_as_they_were_where_they_stay_missing():
    from sklearn.ensemble import HistGradientBoostingClassifier

    frame = pd.DataFrame({"dose": [0.0, 1.0, np.nan] * 8, "status": ["a", "b", "b", "a"] * 6})
    model = HistGradientBoostingClassifier(max_iter=2).fit(frame[["dose"]], frame["status"])
    asked = {"outcome": "status", "factual": model, "num_resamples": 0}
    halved = transitions(frame, **asked, counterfactual=Predicted(model, {"dose": lambda dose: dose / 2}))
    assert halved.num_unchanged == 16  # nothing and unknown stay as they are


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_files_say_it_in_a_column(suffix, tmp_path):
    from countermax._tables.writing import write_table

    frame = people()
    source, target = tmp_path / f"in{suffix}", tmp_path / "out.csv"
    write_table(pa.Table.from_pandas(frame, preserve_index=False), source)
    written = counterfactuals_file(source, target, **ASK, unchanged="same", coupling="independent")
    assert (written.num_rows, written.num_unchanged, written.coupling) == (12, 6, "independent")
    expected = counterfactuals(frame, **ASK, unchanged="same", coupling="independent")
    new = [name for name in expected if name.startswith("counterfactual_")]
    pd.testing.assert_frame_equal(pd.read_csv(target)[new], expected[new], check_dtype=False)
    whole = transitions(frame, **ASK, unchanged="same", num_resamples=0)
    assert_allclose(transitions(source, **ASK, unchanged="same", num_resamples=0).counts, whole.counts)
    told = CliRunner().invoke(
        app,
        ["transitions", str(source), "--outcome", "status", "--factual", "p_", "--counterfactual", "q_"]
        + ["--unchanged", "same", "--num-resamples", "0", "--json"],
    )
    assert json.loads(told.stdout)["num_unchanged"] == 6
    told = CliRunner().invoke(
        app,
        ["counterfactuals", str(source), "--outcome", "status", "--factual", "p_", "--counterfactual", "q_"]
        + ["--unchanged", "same", "-o", str(target), "--overwrite"],
    )
    assert "6 rows are unchanged" in " ".join(told.stdout.split())


@pytest.mark.parametrize(
    ("unchanged", "words"),
    [
        ("nowhere", "`unchanged` must name a column"),
        (["maybe"] * 12, "true and false only, got 'maybe'"),
        ([True] * 11 + [None], "missing in row 11"),
        ([True] * 3, "one value for each of 12 rows"),
    ],
)
def test_what_says_neither_yes_nor_no_is_refused(unchanged, words):
    with pytest.raises(InputError, match=words):
        counterfactuals(people(), **ASK, unchanged=unchanged)
