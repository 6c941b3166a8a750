"""Mechanisms for all categorical nodes in one line, on graphs that were used before too; levels and categories."""

import pickle

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from trial import DATA, GRAPH, TO_B, gcm

from countermax import GumbelMax, InputError, InverseCDF
from countermax.integrations.dowhy import (
    CategoricalMechanism,
    assign_categorical_mechanisms,
    counterfactual_probabilities,
    counterfactual_samples,
    counterfactual_table,
)

ORDER = ["lost", "dead", "ill", "well"]
OPTIONS = {"classifier": LogisticRegression(max_iter=300), "random_state": 1}


def after_auto():
    """What `gcm.auto` leaves behind: a mechanism on every node."""
    model = gcm.InvertibleStructuralCausalModel(nx.DiGraph(GRAPH))
    for root in ("drug", "age"):
        model.set_causal_mechanism(root, gcm.EmpiricalDistribution())
    for node in ("status", "home"):
        own = gcm.ClassifierFCM(gcm.ml.create_logistic_regression_classifier(max_iter=300))
        model.set_causal_mechanism(node, own)
    return with_cost(model)


def with_cost(model):
    """So that DoWhy need not choose among regressors, which takes seconds."""
    model.set_causal_mechanism("cost", gcm.AdditiveNoiseModel(gcm.ml.create_linear_regressor()))
    return model


def test_after_gcm_auto_the_work_is_done_or_said_not_to_be():
    model = after_auto()
    gcm.auto.assign_causal_mechanisms(model, DATA)  # keeps all of them
    with pytest.warns(
        UserWarning, match="nodes 'status', 'home' keep .*cannot explain what was seen; pass `override=T"
    ):
        found = assign_categorical_mechanisms(model, DATA)
    assert "keeps Classifier FCM" in found["status"]
    assert "which cannot explain what was seen" in found["home"]
    assert not isinstance(model.causal_mechanism("status"), CategoricalMechanism)
    gcm.fit(model, DATA)
    with pytest.warns(UserWarning, match="nodes 'home' keep"):
        found = assign_categorical_mechanisms(model, DATA, override=["status"])
    assert "in place of Classifier FCM" in found["status"]
    # The classifier of the node that was replaced is kept, unfitted.
    assert "max_iter=300" in str(model.causal_mechanism("status"))
    found = assign_categorical_mechanisms(model, DATA, override=True)
    assert {node for node in found if "in place of" in found[node]} == {"status", "home"}
    with pytest.raises(RuntimeError, match="not fitted"):  # the graph was; these nodes are not any more
        gcm.counterfactual_samples(model, TO_B, DATA)
    with pytest.raises(InputError, match=r"`model` must be fitted, but node 'status' is not; call `gcm.fit"):
        counterfactual_probabilities(model, TO_B, DATA)
    gcm.fit(model, DATA)
    assert set(counterfactual_probabilities(model, TO_B, DATA[:5])) == {"status", "home"}


def test_a_graph_that_another_model_used_says_what_it_keeps():
    graph = nx.DiGraph(GRAPH)
    first = with_cost(gcm.InvertibleStructuralCausalModel(graph))
    assign_categorical_mechanisms(first, DATA, mechanism=InverseCDF(), **OPTIONS)
    second = gcm.InvertibleStructuralCausalModel(graph)  # mechanisms live in the graph
    kept = assign_categorical_mechanisms(second, DATA, **OPTIONS)
    assert "keeps CategoricalMechanism" in kept["status"]
    assert isinstance(second.causal_mechanism("status").mechanism, InverseCDF)
    with pytest.warns(UserWarning, match="'status', 'home' keep .*not the GumbelMax asked for"):
        assign_categorical_mechanisms(second, DATA, mechanism=GumbelMax(), **OPTIONS)
    with pytest.warns(UserWarning, match="nodes 'home' keep"):
        assign_categorical_mechanisms(second, DATA, mechanism={"home": GumbelMax()}, **OPTIONS)
    assign_categorical_mechanisms(second, DATA, mechanism=GumbelMax(), override=True, **OPTIONS)
    assert isinstance(second.causal_mechanism("home").mechanism, GumbelMax)


def test_named_nodes_are_added_to_those_that_are_found():
    rng = np.random.default_rng(0)
    count = 120
    data = pd.DataFrame({"group": pd.Categorical(rng.choice(["a", "b"], count)), "x": rng.normal(size=count)})
    data["grade"] = rng.integers(1, 4, count) * 10  # whole numbers that are classes, if somebody says so
    data["passed"] = data["grade"] + 10 * data["x"] > 20
    edges = [("group", "grade"), ("x", "grade"), ("grade", "passed"), ("x", "passed")]
    for named in ({"nodes": ["grade"]}, {"nodes": "grade"}, {"mechanism": {"grade": InverseCDF()}}):
        model = gcm.InvertibleStructuralCausalModel(nx.DiGraph(edges))
        found = assign_categorical_mechanisms(model, data, **named, **OPTIONS)
        assert set(found) == {"group", "x", "grade", "passed"}
        assert found["x"].startswith("left as it is: numeric; ")
        assert found["grade"].startswith("named; ")
        assert isinstance(model.causal_mechanism("passed").mechanism, GumbelMax)
    assert isinstance(model.causal_mechanism("grade").mechanism, InverseCDF)
    gcm.fit(model, data)
    samples = gcm.counterfactual_samples(model, {}, data)
    assert samples["grade"].tolist() == data["grade"].tolist()
    assert samples["passed"].dtype == bool
    changed = gcm.counterfactual_samples(model, {"x": lambda x: x + 1}, data)
    assert set(changed["grade"]) <= {10, 20, 30}
    with pytest.raises(InputError, match="each node that is named, got 'grades'"):
        assign_categorical_mechanisms(model, data, nodes=["grades"])
    with pytest.raises(InputError, match="a column for each node, got none for 'group'"):
        assign_categorical_mechanisms(model, data.drop(columns="group"))
    with pytest.raises(InputError, match="`random_state` must be a whole number from 0"):
        CategoricalMechanism(LogisticRegression(), random_state=-1)


@pytest.fixture(scope="module")
def in_categories():
    """The trial with category columns: an unordered root, an ordered node, an unordered one of whole numbers."""
    data = DATA.assign(
        drug=pd.Categorical(DATA["drug"], ["B", "A"]),
        status=pd.Categorical(DATA["status"], ORDER, ordered=True),
        home=pd.Categorical(DATA["home"].astype(int), [1, 0]),
    )
    model = with_cost(gcm.InvertibleStructuralCausalModel(nx.DiGraph(GRAPH)))
    found = assign_categorical_mechanisms(model, data, mechanism=InverseCDF(), **OPTIONS)
    assert found["status"].startswith("ordered categories; ")
    gcm.fit(model, data)
    return data, model


def test_an_ordered_category_is_the_order_of_the_classes(in_categories):
    data, model = in_categories
    assert model.causal_mechanism("status").labels.values == tuple(ORDER)
    assert model.causal_mechanism("home").labels.values == (1, 0)
    found = counterfactual_probabilities(model, TO_B, data)
    assert list(found["status"].probabilities.columns) == ORDER
    assert found["status"].notes_on_couplings == ()  # the order was given
    by_hand = gcm.InvertibleStructuralCausalModel(nx.DiGraph([("drug", "status"), ("age", "status")]))
    for root in ("drug", "age"):
        by_hand.set_causal_mechanism(root, gcm.EmpiricalDistribution())
    ranked = CategoricalMechanism(LogisticRegression(max_iter=300), InverseCDF(), labels=ORDER)
    by_hand.set_causal_mechanism("status", ranked)
    gcm.fit(by_hand, DATA)
    same = counterfactual_probabilities(by_hand, TO_B, DATA)["status"].probabilities
    pd.testing.assert_frame_equal(found["status"].probabilities, same)


def test_category_columns_come_back_as_categories_with_their_order(in_categories):
    data, model = in_categories
    with_index = data.set_index(data.index + 7)
    samples = counterfactual_samples(model, TO_B, with_index)
    categories = ["drug", "status", "home"]
    assert (samples[categories].dtypes == data[categories].dtypes).all()
    assert samples["status"].cat.ordered
    assert samples.index.equals(with_index.index)
    pd.testing.assert_frame_equal(counterfactual_samples(model, {}, data)[categories], data[categories])
    # DoWhy's own functions: all but root nodes and nodes that are set.
    for drawn in (
        gcm.counterfactual_samples(model, TO_B, data),
        gcm.draw_samples(model, 3),
        gcm.draw_samples(model, 1),
    ):
        assert (drawn[["status", "home"]].dtypes == data[["status", "home"]].dtypes).all()
    drawn = gcm.interventional_samples(model, TO_B, data)
    assert drawn["status"].dtype == data["status"].dtype
    again = pickle.loads(pickle.dumps(model.clone()))
    gcm.fit(again, data)
    again = pickle.loads(pickle.dumps(again))
    assert gcm.counterfactual_samples(again, TO_B, data)["status"].dtype == data["status"].dtype
    table = counterfactual_table(model, TO_B, data, "status")
    assert table["counterfactual_most_likely"].dtype == data["status"].dtype
    assert table["drug"].dtype == data["drug"].dtype
    report = gcm.evaluate_causal_model(
        model,
        data[:150].assign(home=data["home"].astype(int)),
        evaluate_causal_structure=False,
        compare_mechanism_baselines=False,
        evaluate_overall_kl_divergence=False,
    )
    assert report.mechanism_performances["status"].f1 is not None
    with pytest.raises(InputError, match="`labels` must name the categories"):
        CategoricalMechanism(LogisticRegression(), labels=pd.CategoricalDtype())


def test_an_unknown_level_is_an_error_that_lists_the_levels(model, in_categories):
    to_c = {"drug": lambda _: "C"}
    for asked in (counterfactual_probabilities, counterfactual_samples):
        with pytest.raises(InputError, match="must keep 'drug' among the levels .*'A', 'B', got 'C'"):
            asked(model, to_c, DATA)
        with pytest.raises(
            InputError, match="must keep 'status' among the levels .*'dead', 'ill', 'lost', 'well', got 'c"
        ):
            asked(model, {"status": lambda _: "cured"}, DATA)
        for column, value, listing in (("drug", "C", "'A', 'B'"), ("status", "cured", "'dead', 'ill', 'lost', 'well'")):
            wrong = DATA.copy()
            wrong.loc[3, column] = value
            with pytest.raises(InputError, match=f"'{column}' has '{value}' in row 3 .*none of {listing}"):
                asked(model, TO_B, wrong)
    # Through DoWhy's own functions too.
    with pytest.raises(InputError, match="one of the levels it was fitted with, 'A', 'B', got 'C'"):
        gcm.counterfactual_samples(model, to_c, DATA)
    with pytest.raises(InputError, match="one of the levels it was fitted with, 'A', 'B', got 'C'"):
        gcm.interventional_samples(model, to_c, DATA)
    with pytest.raises(InputError, match="the class 'cured', which is none of 'dead', 'ill', 'lost', 'well'"):
        gcm.counterfactual_samples(model, TO_B, DATA[:1].assign(status="cured"))
    data, categories = in_categories
    with pytest.raises(InputError, match="must keep 'home' among the levels .*1, 0, got 2"):
        counterfactual_probabilities(categories, TO_B | {"home": lambda _: 2}, data)
    numbers = counterfactual_probabilities(model, {"age": lambda age: age + 1000}, DATA[:2])  # numbers have no levels
    assert set(numbers) == {"status", "home"}
