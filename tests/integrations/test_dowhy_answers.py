"""Exact answers for the nodes of a DoWhy model, and mechanisms for all of its categorical nodes in one line."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from trial import DATA, TO_B, gcm

from countermax import InputError, InverseCDF
from countermax.integrations.dowhy import (
    CategoricalMechanism,
    assign_categorical_mechanisms,
    counterfactual_probabilities,
    counterfactual_table,
)
from countermax.tables import counterfactuals


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

    model = gcm.InvertibleStructuralCausalModel(nx.DiGraph(edges))
    found = assign_categorical_mechanisms(model, data, classifier=LogisticRegression())
    assert set(found) == {"angina", "sick"}
    assert "two whole numbers" in found["angina"]
    gcm.fit(model, data)
    samples = gcm.counterfactual_samples(model, raised, data)
    assert set(samples["angina"]) == {0, 1}
    assert set(samples["sick"]) == {0, 1}
    assert (samples["angina"] <= angina).all()  # Gumbel-max: a change that makes angina rarer gives it to nobody
    exact = counterfactual_probabilities(model, raised, data)
    assert list(exact) == ["angina"]
    assert list(exact["angina"].columns) == [0, 1]


def test_exact_probabilities_are_those_of_the_classifier_and_the_mechanism(model):
    rows = DATA.set_index(DATA.index + 1000)
    mechanism = model.causal_mechanism("status")
    before, after = DATA[["age", "drug"]], DATA[["age", "drug"]].assign(drug="B")
    p, q = (mechanism.classifier_model.predict_probabilities(table.to_numpy()) for table in (before, after))
    p, q = ((1 - 1e-6) * probs + 1e-6 / 4 for probs in (p, q))
    labels = list(mechanism.classifier_model.classes)
    expected = counterfactuals(rows, outcome="status", factual=p, counterfactual=q, labels=labels)
    found = counterfactual_probabilities(model, TO_B, rows, nodes=["status"])["status"]
    assert list(found.columns) == labels
    assert_allclose(found, expected[[f"counterfactual_{label}" for label in labels]])
    assert found.index.equals(rows.index)
    table = counterfactual_table(model, TO_B, rows, "status")
    pd.testing.assert_frame_equal(table, expected)
    other = counterfactual_probabilities(model, TO_B, rows, coupling="inverse-cdf")["status"]
    assert (np.abs(other - found) > 0.01).any(axis=None)
    for answer in (found, other):
        for label in labels:
            assert (answer[label] >= table[f"counterfactual_{label}_lower"] - 1e-9).all()
            assert (answer[label] <= table[f"counterfactual_{label}_upper"] + 1e-9).all()


def test_nodes_whose_parents_are_known_in_probability_only_are_refused(model, as_users_call):
    with pytest.raises(InputError, match="'home' cannot be answered for exactly: its parent 'status' is known in prob"):
        counterfactual_probabilities(model, TO_B, DATA, nodes=["home"])
    with pytest.raises(InputError, match="no categorical node can be answered for .*the change reaches none"):
        counterfactual_probabilities(model, {"cost": lambda cost: 2 * cost}, DATA)
    with pytest.raises(InputError, match="must be functions of the old value, got 'B' for 'drug'"):
        counterfactual_probabilities(model, {"drug": "B"}, DATA)
    with pytest.raises(InputError, match="must change nodes of the model"):
        counterfactual_probabilities(model, {"dose": lambda _: 1}, DATA)
    with pytest.raises(InputError, match="a column for each node, got none for 'home'"):
        counterfactual_probabilities(model, TO_B, DATA.drop(columns="home"))
    set_anyway = counterfactual_probabilities(model, TO_B | {"status": lambda _: "well"}, DATA)
    assert list(set_anyway) == ["home"]
    by_old_value = TO_B | {"status": lambda status: "ill" if status == "dead" else status}
    with pytest.raises(InputError, match="a function of a value that is known in probability only"):
        counterfactual_probabilities(model, by_old_value, DATA)


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
    found = counterfactual_table(model, more, data, "ill", bounds="none")
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


def test_classes_of_other_kinds_are_found_and_kept():
    rng = np.random.default_rng(0)
    count = 120
    data = pd.DataFrame({"group": pd.Categorical(rng.choice(["a", "b"], count)), "x": rng.normal(size=count)})
    data["grade"] = rng.integers(1, 4, count) * 10  # whole numbers that are classes, if somebody says so
    data["passed"] = data["grade"] + 10 * data["x"] > 20
    edges = [("group", "grade"), ("x", "grade"), ("grade", "passed"), ("x", "passed")]
    model = gcm.InvertibleStructuralCausalModel(nx.DiGraph(edges))
    options = {"classifier": LogisticRegression(), "random_state": 1}
    named = assign_categorical_mechanisms(
        model, data, nodes=["grade"], mechanism={"grade": InverseCDF()}, others=False, **options
    )
    assert list(named) == ["grade"]
    rest = assign_categorical_mechanisms(model, data, **options)
    assert set(rest) == {"group", "passed"}
    gcm.fit(model, data)
    samples = gcm.counterfactual_samples(model, {}, data)
    assert samples["grade"].tolist() == data["grade"].tolist()
    assert samples["passed"].dtype == bool
    changed = gcm.counterfactual_samples(model, {"x": lambda x: x + 1}, data)
    assert set(changed["grade"]) <= {10, 20, 30}
    assert isinstance(model.causal_mechanism("grade").mechanism, InverseCDF)
    with pytest.raises(InputError, match="each node that is named, got 'grades'"):
        assign_categorical_mechanisms(model, data, nodes=["grades"])
    with pytest.raises(InputError, match="a column for each node, got none for 'group'"):
        assign_categorical_mechanisms(model, data.drop(columns="group"))
