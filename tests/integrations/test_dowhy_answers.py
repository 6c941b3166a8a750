"""Exact answers for the nodes of a DoWhy model, and mechanisms for all of its categorical nodes in one line."""

import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from asking import counterfactuals
from matplotlib.text import Text
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from trial import DATA, GRAPH, TO_B, fitted, gcm

from countermax import InputError
from countermax.integrations.dowhy import (
    CategoricalMechanism,
    assign_categorical_mechanisms,
    counterfactual_probabilities,
    counterfactual_table,
)


def test_an_outcome_of_zeros_and_ones_stays_one_where_dowhys_own_mechanism_invents_a_class():
    """From DoWhy's tracker: heart rate raised by a tenth, and exercise angina (0 or 1) comes out as -1."""
    rng = np.random.default_rng(1)
    rate = rng.normal(150, 20, 300)
    angina = (rng.random(300) < 1 / (1 + np.exp((rate - 140) / 10))).astype(int)
    sick = (rng.random(300) < 0.2 + 0.5 * angina).astype(int)
    data = pd.DataFrame({"rate": rate, "angina": angina, "sick": sick})
    raised = {"rate": lambda value: 1.1 * value}
    edges = [("rate", "angina"), ("angina", "sick")]
    stock = gcm.InvertibleStructuralCausalModel(nx.DiGraph(edges))
    stock.set_causal_mechanism("rate", gcm.EmpiricalDistribution())
    for node in ("angina", "sick"):  # what gcm.auto assigns to whole numbers
        own = gcm.causal_mechanisms.DiscreteAdditiveNoiseModel(gcm.ml.create_linear_regressor())
        stock.set_causal_mechanism(node, own)
    gcm.fit(stock, data)
    assert -1 in set(gcm.counterfactual_samples(stock, raised, data)["angina"])
    with pytest.warns(UserWarning, match="'angina', 'sick' keep .*for numbers and may answer with classes that do not"):
        assign_categorical_mechanisms(stock, data)

    model = gcm.InvertibleStructuralCausalModel(nx.DiGraph(edges))
    found = assign_categorical_mechanisms(model, data, classifier=LogisticRegression())
    assert set(found) == {"rate", "angina", "sick"}
    assert "two whole numbers" in found["angina"]
    gcm.fit(model, data)
    samples = gcm.counterfactual_samples(model, raised, data)
    assert set(samples["angina"]) == {0, 1}
    assert set(samples["sick"]) == {0, 1}
    assert (samples["angina"] <= angina).all()  # Gumbel-max: a change that makes angina rarer gives it to nobody
    exact = counterfactual_probabilities(model, raised, data)
    assert list(exact) == ["angina", "sick"]
    assert list(exact["angina"].probabilities.columns) == [0, 1]
    assert exact["angina"].most_likely.dtype == data["angina"].dtype


def test_exact_probabilities_are_those_of_the_classifier_and_the_mechanism(model):
    rows = DATA.set_index(DATA.index + 1000)
    mechanism = model.causal_mechanism("status")
    before, after = DATA[["age", "drug"]], DATA[["age", "drug"]].assign(drug="B")
    p, q = (mechanism.classifier_model.predict_probabilities(table.to_numpy()) for table in (before, after))
    p, q = ((1 - 1e-6) * probs + 1e-6 / 4 for probs in (p, q))
    labels = list(mechanism.classifier_model.classes)
    changed = (rows["drug"] == "A").to_numpy()
    expected = counterfactuals(rows, outcome="status", factual=p, counterfactual=q, labels=labels)[changed]
    found = counterfactual_probabilities(model, TO_B, rows, nodes=["status"])["status"].probabilities
    assert list(found.columns) == labels
    assert_allclose(found[changed], expected[[f"counterfactual_{label}" for label in labels]])
    assert found.index.equals(rows.index)
    table = counterfactual_table(model, TO_B, rows, "status")
    assert set(table["counterfactual_bounds"]) == {"sharp"}
    pd.testing.assert_frame_equal(table.drop(columns="counterfactual_bounds")[changed], expected)
    other = counterfactual_probabilities(model, TO_B, rows, coupling="inverse-cdf")["status"].probabilities
    assert (np.abs(other - found) > 0.01).any(axis=None)
    half = counterfactual_probabilities(model, TO_B, rows, coupling="gumbel-max-shared-0.5")["status"].probabilities
    assert (np.abs(half - found) > 0.01).any(axis=None)
    for answer in (found, other, half):
        for label in labels:
            assert (answer[label] >= table[f"counterfactual_{label}_lower"] - 1e-9).all()
            assert (answer[label] <= table[f"counterfactual_{label}_upper"] + 1e-9).all()
    kept = found[~changed].to_numpy() == (rows.loc[~changed, ["status"]].to_numpy() == np.array(labels))
    assert kept.all()  # who had drug B already


def test_stable_bounds_and_scores_of_a_node_are_those_of_a_table(model):
    rows = DATA[DATA["drug"] == "A"][:40]
    mechanism = model.causal_mechanism("status")
    worlds = (rows[["age", "drug"]].assign(drug=drug).to_numpy() for drug in "AB")
    p, q = map(mechanism.probabilities, worlds)
    options = {"bounds": "stable", "score": {"dead": 0.0, "ill": 2, "lost": 1, "well": 5}}
    options |= {"coupling": "comonotone", "tolerance": 0.3}
    expected = counterfactuals(
        rows, outcome="status", factual=p, counterfactual=q, labels=mechanism.labels.values, **options
    )
    found = counterfactual_table(model, TO_B, rows, "status", **options)
    plain = found.drop(columns="counterfactual_bounds")
    pd.testing.assert_frame_equal(plain, expected, check_exact=False, rtol=1e-7, atol=1e-12)
    twice = pd.concat([rows[:2]] * 2)  # an index that repeats
    again = counterfactual_table(model, TO_B, twice, "status", **options)
    pd.testing.assert_frame_equal(again, pd.concat([found[:2]] * 2), rtol=1e-7)
    with pytest.raises(InputError, match="columns named like new ones, got 'counterfactual_dead'; rename it"):
        counterfactual_table(model, TO_B, found, "status", **options)


def test_what_cannot_be_answered_is_named_with_the_reason(model, as_users_call):
    for change, words in (
        ({"cost": lambda cost: 2 * cost}, "no categorical node can be answered for .*the change reaches none"),
        ({"drug": "B"}, "must be functions of the old value, got 'B' for 'drug'"),
        ({"dose": lambda _: 1}, "must change nodes of the model"),
    ):
        with pytest.raises(InputError, match=words):
            counterfactual_probabilities(model, change, DATA)
    with pytest.raises(
        InputError, match="a column for each node that the answer for 'home' needs, got none for 'home'"
    ):
        counterfactual_probabilities(model, TO_B, DATA.drop(columns="home"))
    for options, words in (
        ({"nodes": ["age"]}, "'age' cannot be answered for exactly: the change does not reach it, or sets it"),
        ({"nodes": ["state"]}, "`nodes` must be nodes of the model .*got 'state'"),
        ({"bounds": "wide"}, "`bounds` must be one of any, stable, none, got 'wide'"),
        ({"tolerance": -1}, "`tolerance` must not be negative"),
        ({"coupling": {"cost": "maximal"}}, r"nodes with a CategoricalMechanism \('status', 'home'\), got 'cost'"),
        ({"coupling": "comonotone"}, "coupling of node 'status'` can be 'comonotone' only with a `score`"),
    ):
        with pytest.raises(InputError, match=words):
            counterfactual_probabilities(model, TO_B, DATA, **options)
    gaps = DATA.copy()
    gaps.loc[7, "status"] = None
    for observed, words in (
        (DATA[:0], "a pandas DataFrame with at least one row, got none"),
        (DATA.to_dict("list"), "a pandas DataFrame with at least one row, got a dict"),
        (gaps, "must not be missing where the answer for 'status' needs it, but 'status' is in row 7"),
    ):
        with pytest.raises(InputError, match=words):
            counterfactual_probabilities(model, TO_B, observed)
    set_anyway = counterfactual_probabilities(model, TO_B | {"status": lambda _: "well"}, DATA)
    assert list(set_anyway) == ["home"]


def test_nodes_below_one_that_cannot_be_explained_do_not_vanish_silently(model):
    stock = fitted()
    stock.set_causal_mechanism("status", gcm.ClassifierFCM(gcm.ml.create_logistic_regression_classifier(max_iter=300)))
    gcm.fit(stock, DATA)
    with pytest.raises(
        InputError, match="no categorical node can be answered for .*'status': the mechanism of 'status'"
    ):
        counterfactual_probabilities(stock, TO_B, DATA)
    found = counterfactual_probabilities(stock, {"status": lambda _: "well"}, DATA)  # what is set needs no mechanism
    assert list(found) == ["home"]
    graph = nx.DiGraph([*GRAPH, ("drug", "ward")])
    data = DATA.assign(ward=np.where(np.arange(len(DATA)) % 3 == 0, "north", "south"))
    both = gcm.InvertibleStructuralCausalModel(graph)
    both.set_causal_mechanism("cost", gcm.AdditiveNoiseModel(gcm.ml.create_linear_regressor()))
    assign_categorical_mechanisms(both, data, classifier=LogisticRegression(max_iter=300))
    both.set_causal_mechanism("status", gcm.ClassifierFCM(gcm.ml.create_logistic_regression_classifier(max_iter=300)))
    gcm.fit(both, data)
    found = counterfactual_probabilities(both, TO_B, data, bounds="none")
    assert list(found) == ["ward"]
    assert set(found.unanswered) == {"status", "home", "cost"}
    assert "home" not in found
    with pytest.raises(KeyError, match="of its parent 'status': the mechanism of 'status' is DoWhy's own"):
        found["home"]
    assert "No answer for home: of its parent 'status'" in " ".join(str(found).split())
    assert set(found.to_dict()["unanswered"]) == {"status", "home", "cost"}


def test_numbers_that_the_change_reaches_are_named_as_unanswered(model):
    found = counterfactual_probabilities(model, TO_B, DATA)
    assert found.unanswered == {"cost": "it holds numbers, and only classes have probabilities here"}
    assert "No answer for cost: it holds numbers" in " ".join(str(found).split())
    with pytest.raises(InputError, match="'cost' cannot be answered for exactly: it holds numbers"):
        counterfactual_probabilities(model, TO_B, DATA, nodes=["cost"])


def test_only_columns_that_an_answer_needs_are_demanded(model):
    whole = counterfactual_probabilities(model, TO_B, DATA, nodes=["status"])
    rows = DATA.drop(columns=["home", "cost"])
    found = counterfactual_probabilities(model, TO_B, rows, nodes=["status"])
    pd.testing.assert_frame_equal(found["status"].probabilities, whole["status"].probabilities)
    assert list(counterfactual_probabilities(model, TO_B, DATA.drop(columns="cost"))) == ["status", "home"]
    assert len(counterfactual_table(model, TO_B, rows, "status")) == len(rows)
    for gone, words in (("age", "that the answer for 'status' needs, got none for 'age'"), ("drug", "that is changed")):
        with pytest.raises(InputError, match=f"`observed` must have a column for each node {words}"):
            counterfactual_probabilities(model, TO_B, DATA.drop(columns=gone), nodes=["status"])


def test_every_node_is_in_the_report_of_what_was_assigned():
    data = DATA.assign(grade=np.arange(len(DATA)) % 5)
    model = gcm.InvertibleStructuralCausalModel(nx.DiGraph([*GRAPH, ("status", "grade")]))
    model.set_causal_mechanism("cost", gcm.AdditiveNoiseModel(gcm.ml.create_linear_regressor()))
    found = assign_categorical_mechanisms(model, data, classifier=LogisticRegression(max_iter=300), others=False)
    assert set(found) == set(model.graph.nodes)
    assert found["age"] == "left as it is: numeric"
    assert found["cost"].startswith("left as it is: numeric; keeps AdditiveNoiseModel")
    assert found["grade"] == "left as it is: numeric (name it in `nodes` if its numbers are classes)"


def test_results_name_their_couplings_and_what_they_take_as_given(model):
    found = counterfactual_probabilities(model, TO_B, DATA, coupling={"home": "maximal"})
    home = found["home"]
    assert (home.coupling, dict(home.above)) == ("maximal", {"status": "Gumbel-max"})
    printed = " ".join(str(found).split())
    for words in (
        "What status, home would have been",
        "Under Gumbel-max for status, maximal for home, ",
        "any coupling",
        "Summed exactly over what status would have been.",
        "fitted classifiers are taken as known",
    ):
        assert words in printed
    assert "status, 300 rows: what was seen, and what would have been under Gumbel-max" in str(found["status"])
    said = json.loads(found.to_json())
    assert said["nodes"]["home"]["coupling"] == "maximal"
    assert said["nodes"]["home"]["couplings_above"] == {"status": "Gumbel-max"}
    assert "taken as known" in said["assumptions"][0]
    assert len(found.rows) == 2 * (4 * 4 + 2 * 2)
    assert {row.coupling for row in home.rows} == {"Gumbel-max for status, maximal for home", "any coupling"}
    table = counterfactual_table(model, TO_B, DATA, "home")
    assert table.attrs["coupling"] == "Gumbel-max"
    assert "taken as known" in table.attrs["assumptions"][0]
    for figure in (found.plot(), home.plot(), counterfactual_probabilities(model, TO_B, DATA[:1]).plot()):
        words = " ".join(each.get_text() for each in figure.findobj(Text)).replace("\n", " ")
        assert "under Gumbel-max" in words
        assert "taken as known" in words
        assert "any coupling" in words
    # The counts are expectations over those seen, beside bounds that hold them.
    seen = DATA["status"].value_counts().reindex(list(found["status"].labels))
    assert_allclose(found["status"].counts.sum(axis=1), seen)
    assert (found["status"].count_bounds.lower <= found["status"].counts + 1e-9).all()
    assert (found["status"].counts <= found["status"].count_bounds.upper + 1e-9).all()


def test_an_order_that_decides_and_that_nobody_gave_is_said(model):
    found = counterfactual_probabilities(model, TO_B, DATA[:3], coupling="inverse-cdf")["status"]
    assert "inverse CDF counts the classes in sorted order (dead, ill, lost, well)" in " ".join(str(found).split())
    assert "sorted order" in found.to_dict()["notes"][0]
    assert "sorted order" in " ".join(each.get_text() for each in found.plot().findobj(Text)).replace("\n", " ")
    assert counterfactual_probabilities(model, TO_B, DATA[:3])["status"].notes_on_couplings == ()
    ordered = DATA.assign(status=pd.Categorical(DATA["status"], ["dead", "lost", "ill", "well"], ordered=True))
    with pytest.raises(InputError, match="ordered category \\('dead' < 'lost' < 'ill' < 'well'\\), but its mechanism"):
        counterfactual_probabilities(model, TO_B, ordered, coupling="inverse-cdf")
    assert counterfactual_probabilities(model, TO_B, ordered)["status"].notes_on_couplings == ()


def test_what_follows_through_an_additive_noise_model_is_known():
    rng = np.random.default_rng(0)
    dose = rng.normal(size=200)
    level = 2 * dose + rng.normal(size=200)
    data = pd.DataFrame(
        {"dose": dose, "level": level, "ill": np.where(level + rng.logistic(size=200) > 0, "yes", "no")}
    )
    model = gcm.InvertibleStructuralCausalModel(nx.DiGraph([("dose", "level"), ("level", "ill")]))
    model.set_causal_mechanism("dose", gcm.EmpiricalDistribution())
    model.set_causal_mechanism("level", gcm.AdditiveNoiseModel(gcm.ml.create_linear_regressor()))
    model.set_causal_mechanism("ill", CategoricalMechanism(LogisticRegression()))
    gcm.fit(model, data)
    more = {"dose": lambda value: value + 1}
    found = counterfactual_table(model, more, data, "ill")
    found = found[[column for column in found if not column.endswith(("_lower", "_upper", "_bounds"))]]
    slope = model.causal_mechanism("level").prediction_model.sklearn_model.coef_[0]
    mechanism = model.causal_mechanism("ill")
    q = mechanism.probabilities((level + slope)[:, None])
    expected = counterfactuals(
        data, outcome="ill", factual=mechanism.probabilities(level[:, None]), counterfactual=q,
        labels=["no", "yes"], bounds="none",
    )  # fmt: skip
    pd.testing.assert_frame_equal(found, expected)


def test_average_effects_of_a_text_outcome_with_two_classes():
    rng = np.random.default_rng(0)
    drug = rng.integers(0, 2, 400).astype(bool)
    data = pd.DataFrame({"drug": drug, "alive": np.where(rng.random(400) < 0.4 + 0.3 * drug, "yes", "no")})
    model = gcm.InvertibleStructuralCausalModel(nx.DiGraph([("drug", "alive")]))
    found = assign_categorical_mechanisms(model, data, classifier=LogisticRegression())
    assert found["drug"].startswith("booleans; a root node")
    gcm.fit(model, data)
    gcm.util.general.set_random_seed(0)
    effect = gcm.average_causal_effect(
        model, "alive", {"drug": lambda _: True}, {"drug": lambda _: False}, num_samples_to_draw=4000
    )
    mechanism = model.causal_mechanism("alive")
    yes = mechanism.estimate_probabilities(np.array([[False], [True]]))[:, 1]
    # 4,000 draws in each world: a standard error of at most 0.011; five of them, a false alarm in 1,700,000 runs.
    assert abs(effect - (yes[1] - yes[0])) < 0.056
