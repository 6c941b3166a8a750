"""Classifiers that are fitted again: intervals that know how well they were fitted, and words where they do not."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from asking import counterfactuals, effects, transitions
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from countermax import InputError, Interval
from countermax import Rows as Table
from countermax.tables import Predicted
from countermax.tables._reading import Chunk, RowReader, WorldRows
from countermax.tables._refit import Refit, Refitted

LABELS = ["lost", "kept", "gained"]
REFIT = {"refit": True, "num_resamples": 12}


class Counted(LogisticRegression):
    """Counts how often it is fitted, and with which weights."""

    fits: list = []  # noqa: RUF012 (shared on purpose)

    def fit(self, features, outcome, sample_weight=None):
        self.fits.append((np.asarray(features), np.asarray(outcome), sample_weight))
        return super().fit(features, outcome, sample_weight)


class Rows(RowReader):
    """Some rows that are known already."""

    def __init__(self, chunk):
        self.chunk = chunk

    def chunks(self):
        yield self.chunk


def people(count=150, effect=1.5, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(size=count), "treated": rng.integers(0, 2, count)})
    logits = np.stack([0 * frame["age"], 0.5 * frame["age"], effect * frame["treated"]], axis=1)
    frame["status"] = np.array(LABELS)[(logits + rng.gumbel(size=logits.shape)).argmax(axis=1)]
    frame["town"] = np.arange(count) // 5
    frame["weight"] = rng.integers(1, 4, count)
    return frame


def question(frame, model=None):
    model = LogisticRegression() if model is None else model
    model = model.fit(frame[["age", "treated"]], frame["status"])
    return {"outcome": "status", "factual": model, "counterfactual": Predicted(model, {"treated": 1}), "labels": LABELS}


def test_every_number_of_transitions_has_an_interval_that_holds_it():
    frame = people()
    asked = question(frame)
    found = transitions(frame, **asked, **REFIT)
    for values, interval in (
        (found.counts, found.counts_interval),
        (found.shares, found.shares_interval),
        (found.bounds.lower, found.bounds_interval),
        (found.bounds.upper, found.bounds_interval),
        (found.share_bounds.upper, found.share_bounds_interval),
    ):
        assert isinstance(interval, Interval)
        assert ((interval.lower <= values + 1e-9) & (values <= interval.upper + 1e-9)).all()
    assert (found.shares_interval.upper <= 1).all()
    assert found.num_unchanged == (frame["treated"] == 1).sum()
    known = transitions(frame, **asked, num_resamples=50)
    assert_allclose(known.counts, found.counts)
    # Those who are treated already are certain; of the others the probabilities themselves are estimates.
    assert found.shares_interval.width[0, 2] > 1.3 * known.shares_interval.width[0, 2]
    assert found.to_frame()["ci_lower"].notna().all()
    assert json.loads(found.to_json())["rows"][1]["ci_upper"] == found.bounds_interval.upper[0, 0]
    text = " ".join(str(found).split())
    assert "the classifier was refitted on every resample" in text
    assert "misspecification of the classifier is left out" in text
    assert "for that whole range" in text


def test_every_number_of_effects_has_an_interval_that_holds_it():
    frame = people()
    found = effects(frame, **question(frame), score=[0, 1, 2], **REFIT)
    assert found.mean_error is None
    assert found.mean_interval.lower[0] <= found.mean[0] <= found.mean_interval.upper[0]
    for name, variance in found.variances.items():
        assert found.variance_intervals[name].lower <= variance <= found.variance_intervals[name].upper
    whole = found.variance_bounds_interval
    assert whole.lower <= found.variance_bounds.lower <= found.variance_bounds.upper <= whole.upper
    plain = effects(frame, **question(frame), score=[0, 1, 2])
    assert found.mean_interval.width[0] / (2 * 1.96) > 1.5 * plain.mean_error[0]
    text = " ".join(str(found).split())
    for words in ("the classifier was refitted on every resample", "95 % confidence interval"):
        assert words in text
    assert found.row("mean effect").ci_lower == found.mean_interval.lower[0]
    assert found.row("effect variance", "any coupling").ci_upper == whole.upper


def test_several_scores_have_intervals_too():
    frame = people(40)
    scores = {"a": [0.0, 1.0, 2.0], "b": [1.0, 0.0, 1.0]}
    found = effects(frame, **question(frame), score=scores, couplings=["maximal"], **(REFIT | {"num_resamples": 3}))
    assert len(found.mean_interval.lower) == 2
    assert found.variance_bounds_interval.lower <= found.variance_bounds.lower
    assert found.variance_bounds.upper <= found.variance_bounds_interval.upper


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_every_row_has_intervals_and_those_left_as_they_were_are_certain(library):
    frame = people()
    native = pl.from_pandas(frame) if library == "polars" else frame
    asked = question(native)
    found = counterfactuals(native, **asked, score=[0, 1, 2], **REFIT)
    rows = found.to_pandas() if library == "polars" else found
    for what, ceiling in [(label, 1) for label in LABELS] + [("score", 2)]:
        name = f"counterfactual_{what}"
        for limits, least, largest in (("ci", "", ""), ("bounds_ci", "_lower", "_upper")):
            lower, upper = rows[f"{name}_{limits}_lower"], rows[f"{name}_{limits}_upper"]
            assert ((lower <= rows[name + least] + 1e-9) & (rows[name + largest] <= upper + 1e-9)).all()
            assert ((lower >= 0) & (upper <= ceiling)).all()
            assert_array_equal((upper - lower)[rows["treated"] == 1], 0)
        assert (rows[f"{name}_ci_upper"] - rows[f"{name}_ci_lower"])[rows["treated"] == 0].mean() > 0.02
    alone = counterfactuals(native, **asked, bounds="none", **REFIT)
    assert not [name for name in alone.columns if "bounds_ci" in name]
    assert [name for name in alone.columns if name.endswith("_ci_lower")]


def test_intervals_reach_no_effect_where_the_refits_do_not_exclude_it():
    """Under Gumbel-max nobody changes if the change does nothing: percentiles of refits never reach that."""
    frame = people(200, effect=0.0, seed=3)
    found = transitions(frame, **question(frame), **REFIT)
    assert_array_equal(np.diag(found.shares_interval.upper), 1)
    assert_array_equal(found.shares_interval.lower[~np.eye(3, dtype=bool)], 0)
    variances = effects(frame, **question(frame), score=[0, 1, 2], **REFIT).variance_intervals
    assert variances["Gumbel-max"].lower == variances["inverse CDF by score"].lower == 0
    assert variances["independent"].lower > 0
    clear = people(200, effect=3.0)
    found = transitions(clear, **question(clear), **REFIT)
    assert found.shares_interval.upper[0, 0] < 1


def test_no_effect_widens_intervals_to_what_it_would_bring_and_no_further():
    """Where an answer has a kink that is a known number; how far it varies itself is no part of the interval."""
    stream = np.random.default_rng(0)

    def rows(p, q):
        worlds = [WorldRows(np.array([[each, 1 - each]])) for each in (p, q)]
        nobody = np.zeros(1, bool)
        chunk = Chunk(
            0,
            *worlds,
            np.zeros(1, int),
            nobody,
            nobody,
            np.ones(1),
            nobody,
            np.full(1, None, object),
            str,
            errors="raise",
        )
        return Rows(chunk)

    def other_world(chunks):
        return np.exp(chunks[0].log_q[:, 0])

    again = [rows(*pair) for pair in stream.normal([0.4, 0.5], [0.1, 0.01], (200, 2))]
    found = Refitted(rows(0.4, 0.5), again, other_world, Refit(), [])
    assert found.could_do_nothing
    lower, upper = found.limits(0.0, 1.0)
    assert lower[0] == pytest.approx(0.4)
    assert 0.515 < upper[0] < 0.54
    again = [rows(*pair) for pair in stream.normal([0.4, 0.5], 0.01, (200, 2))]
    clear = Refitted(rows(0.4, 0.5), again, other_world, Refit(), [])
    assert not clear.could_do_nothing
    assert 0.46 < clear.limits(0.0, 1.0)[0][0] < 0.485


def test_what_classifiers_are_asked_does_not_depend_on_the_refit():
    frame, changes = people(), []

    def treat(column):
        changes.append(len(column))
        return np.ones(len(column))

    asked = question(frame)
    asked["counterfactual"] = Predicted(asked["factual"], {"treated": treat})
    counted = []
    for number in (2, 6):
        changes.clear()
        transitions(frame, **asked, **(REFIT | {"num_resamples": number}))
        counted.append(len(changes))
    assert counted[0] == counted[1]


def test_a_shared_classifier_is_fitted_once_for_each_resample():
    frame = people()
    asked = question(frame, Counted())
    Counted.fits.clear()
    transitions(frame, **asked, **(REFIT | {"num_resamples": 3}))
    assert len(Counted.fits) == 3
    Counted.fits.clear()
    two = asked | {"factual": Counted().fit(frame[["age", "treated"]], frame["status"])}
    Counted.fits.clear()
    transitions(frame, **two, **(REFIT | {"num_resamples": 3}))
    assert len(Counted.fits) == 6


def test_clusters_are_drawn_together_and_weights_go_into_the_fit():
    frame = people()
    asked = question(frame, Counted())
    Counted.fits.clear()
    settings = REFIT | {"num_resamples": 3, "clusters": "town", "weights": "weight"}
    found = transitions(frame, **asked, **settings)
    towns = dict(zip(frame["age"], frame["town"], strict=True))
    weights = dict(zip(frame["age"], frame["weight"], strict=True))
    for features, outcome, sample_weight in Counted.fits:
        drawn = pd.Series([towns[age] for age in features[:, 0]]).value_counts()
        assert (drawn % 5 == 0).all()
        assert drawn.max() > 5
        assert_array_equal(sample_weight, [weights[age] for age in features[:, 0]])
        assert len(outcome) == len(features)
    assert found.counts.sum() == pytest.approx(frame["weight"].sum())
    rows = counterfactuals(frame, **asked)
    lost = frame["status"] == "lost"
    assert found.counts[0, 2] == pytest.approx((rows["counterfactual_gained"] * frame["weight"])[lost].sum())
    pipeline = question(frame, make_pipeline(StandardScaler(), Counted()))
    Counted.fits.clear()
    transitions(frame, **pipeline, **settings)
    assert all(sample_weight is not None for _, _, sample_weight in Counted.fits)


def test_results_depend_on_the_seed_alone_and_not_on_how_many_fit_at_once():
    from joblib import parallel_config
    from sklearn.ensemble import RandomForestClassifier

    frame = people(60)
    forest = question(frame, RandomForestClassifier(5, max_depth=2, min_samples_leaf=10))
    settings = REFIT | {"num_resamples": 4}

    def limits(seed, n_jobs):
        with parallel_config(backend="threading"):  # processes would have to start first
            found = transitions(frame, **forest, **settings, seed=seed, n_jobs=n_jobs)
        return np.stack([*found.counts_interval[:2], *found.bounds_interval[:2]])

    assert_array_equal(limits(1, None), limits(1, 2))
    assert not np.array_equal(limits(1, None), limits(2, None))


def test_without_refit_results_say_what_they_leave_out():
    frame = people()
    asked = question(frame)
    words = "The classifier is taken as known"
    found = transitions(frame, **asked, num_resamples=10)
    assert words in " ".join(str(found).split())
    assert words in " ".join(found.to_dict()["assumptions"])
    found = effects(frame, **asked, score=[0, 1, 2])
    assert words in " ".join(str(found).split())
    assert words in " ".join(found.to_dict()["assumptions"])
    rows = counterfactuals(frame, **asked)
    assert rows.attrs["countermax"]["coupling"] == "Gumbel-max"
    assert rows.attrs["countermax"]["bounds"] == "any coupling"
    assert words in " ".join(rows.attrs["countermax"]["notes"])
    assert not frame.attrs


class Uncopied:
    """A classifier of no library."""

    classes_ = np.array(sorted(LABELS))
    feature_names_in_ = np.array(["age", "treated"])

    def predict_proba(self, inputs):
        return np.full((len(inputs), 3), 1 / 3)


class Fickle(ClassifierMixin, BaseEstimator):
    """Forgets a class when it is fitted again."""

    def fit(self, features, outcome):
        self.classes_ = np.unique(outcome)[: 3 if not hasattr(type(self), "again") else 2]
        type(self).again = True
        self.feature_names_in_ = np.array(["age", "treated"])
        return self

    def predict_proba(self, inputs):
        return np.full((len(inputs), 3), 1 / 3)


def test_what_cannot_be_fitted_again_is_refused_in_one_line():
    frame = people(60)
    model = LogisticRegression().fit(frame[["age", "treated"]], frame["status"])
    array = model.predict_proba(frame[["age", "treated"]])
    own, frozen = Uncopied(), FrozenEstimator(model)
    fickle = Fickle().fit(frame[["age", "treated"]], frame["status"])
    change = {"treated": 1}
    cases = [
        ({"factual": array, "counterfactual": Predicted(model, change)}, "a classifier in both worlds"),
        ({"factual": own, "counterfactual": Predicted(own, change)}, "sklearn.base.clone can copy, got Uncopied"),
        ({"factual": frozen, "counterfactual": Predicted(frozen, change)}, "is frozen"),
        ({"factual": fickle, "counterfactual": Predicted(fickle, change)}, "fitted again it has the classes"),
    ]
    for worlds, words in cases:
        with pytest.raises(InputError, match=words) as caught:
            transitions(frame, outcome="status", **worlds, labels=sorted(LABELS), **REFIT)
        assert "\n" not in str(caught.value)
    asked = question(frame)
    with pytest.raises(InputError, match="are those of `Refit`; leave them out here"):
        Table(frame, **asked, refit=Refit(num_resamples=2)).transitions(seed=3)
    for settings, words in [
        (REFIT | {"num_resamples": 1}, "`num_resamples` of `Refit` must be at least 2, got 1"),
        (REFIT | {"weights": -np.ones(60)}, "finite, not negative"),
        (REFIT | {"clusters": np.zeros(60)}, "at least two clusters"),
        (REFIT | {"seed": -1}, "`seed` must be a whole number"),
    ]:
        with pytest.raises(InputError, match=words):
            transitions(frame, **asked, **settings)
    with pytest.raises(InputError, match="needs `outcome`"):
        effects(frame, **(asked | {"outcome": None}), score=[0, 1, 2], **REFIT)


def test_a_classifier_that_takes_no_weights_is_named():
    frame = people(60)
    settings = REFIT | {"num_resamples": 2, "weights": "weight"}
    words = "KNeighborsClassifier takes no weights, so it was fitted without them."
    asked = question(frame, KNeighborsClassifier(30))
    assert words in transitions(frame, **asked, **settings).assumptions[0]
    assert words in effects(frame, **asked, score=[0, 1, 2], couplings=["independent"], **settings).assumptions[0]
    assert words in " ".join(counterfactuals(frame, **asked, **settings).attrs["countermax"]["notes"])
    assert words not in " ".join(transitions(frame, **question(frame), **settings).notes)
