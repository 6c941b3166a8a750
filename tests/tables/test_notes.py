"""Results and files name the coupling, the bounds beside it, and the order that decides."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from asking import counterfactuals, counterfactuals_file, effects, transitions
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from countermax import InputError, Rows
from countermax._tables.writing import write_table
from countermax.cli import app
from countermax.tables import Predicted

ORDER = ["lost", "kept", "gained"]  # not that of the alphabet
ASK = {"outcome": "status", "factual": "p_", "counterfactual": "q_"}


def people(count=30):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"status": np.array(ORDER)[np.arange(count) % 3]})
    for world in "pq":
        frame[[f"{world}_{label}" for label in sorted(ORDER)]] = rng.dirichlet([2, 3, 4], count)
    return frame


def ordered(frame):
    return frame.assign(status=pd.Categorical(frame["status"], ORDER, ordered=True))


def of_library(frame, library):
    if library == "polars":
        return pl.from_pandas(frame.astype({"status": str})).cast({"status": pl.Enum(ORDER)})
    return pa.Table.from_pandas(frame, preserve_index=False) if library == "arrow" else frame


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_an_ordered_category_is_the_order_of_outcomes(library):
    frame = of_library(ordered(people()), library)
    expected = transitions(people(), **ASK, labels=ORDER, coupling="inverse-cdf", num_resamples=0)
    found = transitions(frame, **ASK, coupling="inverse-cdf", num_resamples=0)
    assert list(found.labels) == ORDER
    assert_allclose(found.counts, expected.counts)
    assert "none was given" not in str(found)
    rows = counterfactuals(frame, **ASK, coupling="inverse-cdf", score=[0, 1, 2])
    names = rows.column_names if library == "arrow" else list(rows.columns)
    assert [name for name in names if name.startswith("counterfactual_")][:3] == [f"counterfactual_{x}" for x in ORDER]
    by_rank = effects(frame, **ASK)
    assert_allclose(by_rank.mean, effects(people(), **ASK, labels=ORDER, score=[0, 1, 2]).mean)
    in_order = transitions(frame, **ASK, coupling="inverse-cdf-by-score", num_resamples=0)
    assert_allclose(in_order.counts, expected.counts)


def test_categories_that_nobody_has_a_probability_of_do_not_count():
    frame = people()
    more = frame.assign(status=pd.Categorical(frame["status"], ["dead", *ORDER], ordered=True))
    assert list(transitions(more, **ASK, num_resamples=0).labels) == ORDER
    fewer = frame.assign(status=pd.Categorical(frame["status"].replace("lost", "kept"), ORDER[1:], ordered=True))
    assert list(transitions(fewer, **ASK, num_resamples=0).labels) == sorted(ORDER)


def test_probabilities_without_labels_keep_the_order_of_the_others():
    frame = people()
    array = frame[[f"q_{label}" for label in sorted(ORDER)]].to_numpy()
    found = transitions(ordered(frame), **(ASK | {"counterfactual": array}), num_resamples=0)
    assert_allclose(found.counts, transitions(ordered(frame), **ASK, num_resamples=0).counts)
    own = frame[[f"p_{label}" for label in ORDER]].to_numpy()  # nobody else says: as the category has them
    assert list(transitions(ordered(frame), **(ASK | {"factual": own}), num_resamples=0).labels) == ORDER


def test_where_an_order_decides_that_nobody_gave_the_result_says_so():
    frame, words = people(), "none was given, so it is 'gained', 'kept', 'lost'"
    found = transitions(frame, **ASK, coupling="inverse-cdf", num_resamples=0)
    assert words in " ".join(str(found).split())
    assert words in " ".join(found.to_dict()["notes"])
    asked = effects(frame, **ASK, score=[0, 1, 2], couplings=["inverse-cdf"])
    assert words in " ".join(asked.to_dict()["notes"])
    assert "inverse CDF" not in effects(frame, **ASK, score=[0, 1, 2]).variances  # unless somebody asks for it
    assert "inverse CDF" in effects(frame, **ASK, score=[0, 1, 2], labels=ORDER).variances
    rows = counterfactuals(frame, **ASK, coupling="inverse-cdf")
    assert words in " ".join(rows.attrs["countermax"]["notes"])
    for settings in ({"coupling": "maximal"}, {"coupling": "inverse-cdf", "labels": ORDER}):
        assert "none was given" not in str(transitions(frame, **ASK, **settings, num_resamples=0))
    with pytest.raises(InputError, match="`score` must say what each outcome is worth"):
        effects(frame, **ASK)


def test_a_classifiers_classes_come_in_the_order_of_the_category():
    rng = np.random.default_rng(0)
    frame = ordered(people(60)).assign(age=rng.normal(size=60), treated=rng.integers(0, 2, 60))
    model = LogisticRegression().fit(frame[["age", "treated"]], frame["status"])
    worlds = {"outcome": "status", "factual": model, "counterfactual": Predicted(model, {"treated": 1})}
    assert list(transitions(frame, **worlds, num_resamples=0).labels) == ORDER


def test_counts_stand_beside_their_coupling_and_bounds():
    found = transitions(people(), **ASK, num_resamples=0)
    text = str(found)
    assert "Under Gumbel-max" in text
    count = found.counts[2, 1]
    lower, upper = (limit[2, 1] for limit in found.bounds)
    assert f"{count:.1f}" in text
    assert f"{lower:.1f} to {upper:.1f}" in text
    shown = " ".join(each.get_text() for each in found.plot().axes[0].texts)
    assert "under any coupling" in shown
    assert "would have been\nunder Gumbel-max" in shown
    assert f"[{found.bounds.lower[0, 0]:,.1f} to {found.bounds.upper[0, 0]:,.1f}]" in shown


def test_comonotone_says_for_what_and_least_variance_is_no_evidence():
    frame = people()
    found = effects(frame, **ASK, score=[0, 1, 2], counterfactual_score=[0, 2, 1])
    assert found.choice == "comonotone"
    for text in (" ".join(str(found).split()), json.dumps(found.to_dict())):
        assert "comonotone (least variance of the effect)" in text
    assert "criterion of precision, not evidence that the mechanism is true" in " ".join(str(found).split())
    axes = found.plot().axes[0]
    assert "comonotone (least variance of the effect)" in [label.get_text() for label in axes.get_yticklabels()]
    assert "any coupling:" in axes.get_xlabel()
    rows = transitions(frame, **ASK, coupling="comonotone", score=[0, 1, 2], num_resamples=0)
    assert rows.coupling == "comonotone (least variance of the effect)"


def test_files_name_the_coupling(tmp_path):
    frame, source, target = people(), tmp_path / "in.csv", tmp_path / "out.parquet"
    frame.to_csv(source, index=False)
    counterfactuals_file(source, target, **ASK, coupling="maximal", bounds="stable")
    notes = json.loads(pyarrow.parquet.read_schema(target).metadata[b"countermax"])
    assert notes["coupling"] == "maximal"
    assert notes["bounds"] == "stable couplings"
    assert "probabilities are taken as known" in " ".join(notes["notes"])
    asked = ["--outcome", "status", "--factual", "p_", "--counterfactual", "q_", "--coupling", "maximal"]
    told = CliRunner().invoke(app, ["counterfactuals", str(source), *asked, "-o", str(tmp_path / "out.csv")])
    assert "coupling: maximal; bounds are over any coupling" in told.stdout
    cells = tmp_path / "cells.parquet"
    told = CliRunner().invoke(app, ["transitions", str(source), *asked, "--num-resamples", "20", "-o", str(cells)])
    assert "Under maximal" in told.stdout
    assert set(pd.read_parquet(cells)["coupling"]) == {"maximal", "any coupling"}


def test_an_ordered_category_in_a_file_is_the_order_for_all_its_rows(tmp_path, monkeypatch):
    from countermax.tables import _sources

    monkeypatch.setattr(_sources, "CHUNK_ROWS", 7)
    frame = ordered(people())
    write_table(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "in.parquet")
    counterfactuals_file(tmp_path / "in.parquet", tmp_path / "out.parquet", **ASK, coupling="inverse-cdf")
    found, expected = pd.read_parquet(tmp_path / "out.parquet"), counterfactuals(frame, **ASK, coupling="inverse-cdf")
    for label in ORDER:
        assert_allclose(found[f"counterfactual_{label}"], expected[f"counterfactual_{label}"])


def test_rows_that_are_left_as_they_were_against_their_own_probabilities_are_warned_of(tmp_path):
    """As those of a column the other way round are."""
    frame = people().assign(same=np.arange(30) < 10)
    names = [[f"{world}_{label}" for label in sorted(ORDER)] for world in "pq"]
    agreeing = frame.copy()
    agreeing.loc[agreeing["same"], names[1]] = agreeing.loc[agreeing["same"], names[0]].to_numpy()
    warned = "WARNING: `unchanged` overrules the counterfactual probabilities of 10 rows"
    assert warned in transitions(frame, **ASK, unchanged="same", num_resamples=0).summary()
    assert warned not in str(transitions(agreeing, **ASK, unchanged="same", num_resamples=0))
    agreeing.to_parquet(tmp_path / "rows.parquet")
    inverted = agreeing.assign(same=~agreeing["same"])
    inverted.to_parquet(tmp_path / "inverted.parquet")
    for source, count in (("rows", 0), ("inverted", 20)):
        written = counterfactuals_file(
            tmp_path / f"{source}.parquet", tmp_path / f"{source}_out.parquet", **ASK, unchanged="same"
        )
        assert any(f"probabilities of {count} rows" in each for each in written.notes) == (count > 0)


def test_all_couplings_may_be_asked_of_rows_too():
    rows = Rows(people(), **ASK, labels=ORDER, score=[0, 1, 2])
    by_default = {each.coupling for each in rows.effects().rows}
    assert {each.coupling for each in rows.effects(couplings="all").rows} == by_default
    asked = {each.coupling for each in rows.causes("gained", couplings="all").rows}
    assert {"Gumbel-max", "maximal", "independent", "inverse CDF by score"} <= asked
