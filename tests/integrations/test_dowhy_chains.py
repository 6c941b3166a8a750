"""Through chains of categorical nodes: exact mixtures, bounds that are sharp or say that they may not be."""

import functools
import itertools

import jax
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from networks import TO_ON, built, by_noise, every_row, extreme, gcm, levels, random_network
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.linear_model import LogisticRegression

from countermax import Gadget1, GumbelMax, Independent, InputError, InverseCDF, Maximal
from countermax.integrations.dowhy import CategoricalMechanism, counterfactual_probabilities, counterfactual_table

FALSE_ALARM = 1e-6  # of each statistical test; the seeds are fixed

CHAIN = {"a": ["t"], "b": ["a"], "c": ["b"]}
SKIPPING = {"a": ["t"], "b": ["a", "t"], "c": ["a", "b"]}  # paths meet again, but each node's parents say all
DIAMOND = {"a": ["t"], "b": ["t"], "c": ["a", "b"]}
FORK = {"a": ["t"], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
SIZES = {"a": 3, "b": 2, "c": 3}


def by_hand(graph, network, row, couplings):
    """The mixture written out: all states, each node's row between its parents as they were and as they would be."""
    nodes = list(graph)

    @functools.cache
    def answer(node, before, after):
        return np.asarray(
            couplings[node].counterfactual_probs(
                *(np.log(network[node][each]) for each in (before, after)), int(row[node])
            )
        )

    found = {node: np.zeros(len(levels(network, node))) for node in nodes}
    for states in itertools.product(*(levels(network, node) for node in nodes)):
        world, weight = {"t": "on"} | dict(zip(nodes, states, strict=True)), 1.0
        for node in nodes:
            before, after = (tuple(each[parent] for parent in graph[node]) for each in (row, world))
            if before == after:
                weight *= world[node] == row[node]
            else:
                weight *= answer(node, before, after)[int(world[node])]
        for node in nodes:
            found[node][int(world[node])] += weight
    return found


@pytest.mark.parametrize("graph", [CHAIN, SKIPPING, DIAMOND], ids=["chain", "skipping", "diamond"])
def test_by_inverse_cdf_the_mixture_is_what_all_noise_together_says(graph):
    network = random_network(graph, SIZES, 0)
    model = built(graph, network, dict.fromkeys(graph, InverseCDF()))
    rows = every_row(graph, network)
    found = counterfactual_probabilities(model, TO_ON, rows, bounds="none")
    assert list(found) == list(graph)
    for place, row in rows.iterrows():
        for node, law in by_noise(graph, network, row).items():
            assert_allclose(found[node].probabilities.loc[place], law, atol=1e-12)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", ["Gumbel-max", "independent", "maximal", "Gadget 1"])
def test_pairwise_couplings_are_mixed_as_written_out_by_hand(name):
    network = random_network(SKIPPING, dict.fromkeys(SIZES, 3), 1)
    made = {
        "Gumbel-max": GumbelMax(),
        "independent": Independent(),
        "maximal": Maximal(),
        "Gadget 1": Gadget1(3, key=jax.random.key(0), hidden=(4,)),
    }[name]
    model = built(SKIPPING, network)
    rows = every_row(SKIPPING, network).iloc[[0, 5, 13, 22]]
    found = counterfactual_probabilities(model, TO_ON, rows, coupling=made, bounds="none")
    mixed = counterfactual_probabilities(model, TO_ON, rows, coupling={"b": made}, bounds="none")
    for place, row in rows.iterrows():
        for answers, couplings in (
            (found, dict.fromkeys("abc", made)),
            (mixed, {"a": GumbelMax(), "b": made, "c": GumbelMax()}),
        ):
            for node, law in by_hand(SKIPPING, network, row, couplings).items():
                assert_allclose(answers[node].probabilities.loc[place], law, atol=1e-9)


def test_samples_through_a_chain_and_a_diamond_have_the_exact_probabilities():
    for graph in (CHAIN, DIAMOND):
        network = random_network(graph, SIZES, 2)
        model = built(graph, network, {"b": InverseCDF()})
        gcm.util.general.set_random_seed(0)
        rows = every_row(graph, network)
        laws = counterfactual_probabilities(model, TO_ON, rows, bounds="none")
        open_most = np.max([each.probabilities.max(axis=1) for each in laws.values()], axis=0).argmin()
        seen = rows.iloc[[open_most]]
        exact = counterfactual_probabilities(model, TO_ON, seen, bounds="none")
        many = gcm.counterfactual_samples(model, TO_ON, pd.concat([seen] * 4000, ignore_index=True))
        for node in graph:
            law = exact[node].probabilities.to_numpy()[0]
            counts = many[node].value_counts().reindex(levels(network, node), fill_value=0).to_numpy()
            assert law.max() < 0.95  # something is left to the noise
            assert counts[law == 0].sum() == 0
            assert stats.chisquare(counts[law > 0], 4000 * law[law > 0]).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("graph", "sizes"),
    [
        ({"a": ["t"], "b": ["a"]}, {"a": 3, "b": 3}),
        ({"a": ["t"], "b": ["a", "t"]}, {"a": 2, "b": 2}),
        (CHAIN, {"a": 2, "b": 2, "c": 2}),
        (CHAIN, {"a": 3, "b": 2, "c": 2}),
        ({"a": ["t"], "b": ["a"], "c": ["a", "b"]}, {"a": 2, "b": 2, "c": 2}),
    ],
    ids=["two of three", "with the root", "three of two", "three, two, two", "skipping"],
)
def test_bounds_on_a_chain_are_those_of_all_response_types(graph, sizes):
    network = random_network(graph, sizes, 0)
    rows = every_row(graph, network).sample(3, random_state=0)
    target = list(graph)[-1]
    found = counterfactual_probabilities(built(graph, network), TO_ON, rows, nodes=[target])[target]
    assert found.is_sharp.all()
    for place, row in rows.iterrows():
        for level in levels(network, target):
            for sign, limit in ((-1, found.bounds.lower), (1, found.bounds.upper)):
                assert_allclose(limit.loc[place, level], extreme(graph, network, row, target, level, sign), atol=1e-7)


@pytest.mark.parametrize(("graph", "target"), [(DIAMOND, "c"), (FORK, "d")], ids=["diamond", "fork"])
def test_where_paths_meet_again_bounds_are_valid_and_say_that_they_may_be_wide(graph, target):
    gaps = []
    for seed in range(4):
        network = random_network(graph, dict.fromkeys(graph, 2), seed)
        rows = every_row(graph, network).sample(2, random_state=seed)
        found = counterfactual_probabilities(built(graph, network), TO_ON, rows)
        assert not found[target].is_sharp.any()
        assert found["a"].is_sharp.all()
        assert found["b"].is_sharp.all()
        for place, row in rows.iterrows():
            for sign, limit in ((-1, found[target].bounds.lower), (1, found[target].bounds.upper)):
                gaps.append(sign * (limit.loc[place, "0"] - extreme(graph, network, row, target, "0", sign)))
    assert min(gaps) > -1e-9  # no mechanism is outside
    assert max(gaps) > 1e-3  # and the label is deserved
    assert "outer bounds" in str(found[target])
    assert "outer bounds" in " ".join(found[target].notes)
    assert set(counterfactual_table(built(graph, network), TO_ON, rows, target)["counterfactual_bounds"]) == {"outer"}
    assert "outer" in _words(found.plot())


def _words(figure):
    import matplotlib.text

    return " ".join(each.get_text() for each in figure.findobj(matplotlib.text.Text))


def test_every_mechanism_lies_within_the_bounds_and_stable_ones_within_narrower_ones():
    network = random_network(SKIPPING, SIZES, 3)
    rows = every_row(SKIPPING, network)
    model = built(SKIPPING, network)
    score = {"0": 1.0, "1": -2.0, "2": 0.5}
    any_, stable = (
        counterfactual_table(model, TO_ON, rows, "c", bounds=each, score=score) for each in ("any", "stable")
    )
    for coupling in ("gumbel-max", "inverse-cdf", "maximal", "independent"):
        given = counterfactual_table(model, TO_ON, rows, "c", coupling=coupling, bounds="none", score=score)
        for name in ("0", "1", "2", "score"):
            value = given[f"counterfactual_{name}"]
            for table in (any_, stable) if coupling == "gumbel-max" else (any_,):
                assert (value > table[f"counterfactual_{name}_lower"] - 1e-9).all()
                assert (value < table[f"counterfactual_{name}_upper"] + 1e-9).all()
    for name in ("0", "1", "2", "score"):
        assert (stable[f"counterfactual_{name}_lower"] > any_[f"counterfactual_{name}_lower"] - 1e-9).all()
        assert (stable[f"counterfactual_{name}_upper"] < any_[f"counterfactual_{name}_upper"] + 1e-9).all()
    width = (any_["counterfactual_0_upper"] - any_["counterfactual_0_lower"]) - (
        stable["counterfactual_0_upper"] - stable["counterfactual_0_lower"]
    )
    assert width.max() > 0.1


def test_expected_scores_have_the_bounds_of_a_chain():
    graph = {"a": ["t"], "b": ["a"]}
    network = random_network(graph, {"a": 2, "b": 2}, 5)
    rows = every_row(graph, network)
    table = counterfactual_table(built(graph, network), TO_ON, rows, "b", score=[2.0, 5.0])
    for limit in ("", "_lower", "_upper"):
        assert_allclose(table[f"counterfactual_score{limit}"], 2 + 3 * table[f"counterfactual_1{limit}"], atol=1e-12)


CHANGES_NOTHING = {
    "the same value": {"t": lambda t: t},
    "the value it had": {"t": lambda _: "off"},
    "no change below": {"b": lambda b: b},
}


@pytest.mark.parametrize("change", CHANGES_NOTHING)
@pytest.mark.parametrize("coupling", ["own", "independent", "maximal", "Gadget 1"])
def test_who_would_have_had_the_same_parents_has_the_outcome_that_was_seen(change, coupling):
    network = random_network(SKIPPING, dict.fromkeys(SIZES, 3), 4)
    rows = every_row(SKIPPING, network).sample(12, random_state=0)
    gadget = Gadget1(3, key=jax.random.key(0), hidden=(4,))
    given = {"own": None, "Gadget 1": gadget}.get(coupling, coupling)
    found = counterfactual_probabilities(built(SKIPPING, network), CHANGES_NOTHING[change], rows, coupling=given)
    for node, answer in found.items():
        truth = (rows[[node]].to_numpy() == np.array(answer.labels)).astype(float)
        for each in (answer.probabilities, *answer.bounds):
            assert (each.to_numpy() == truth).all()
        assert answer.unchanged.all()
        assert not answer.coupling_matters.any()
        assert answer.most_likely.tolist() == rows[node].tolist()


def test_upstream_states_that_are_the_factual_ones_keep_the_outcome():
    """Under a mechanism that nearly keeps `a`, what was seen of `b` stays, by Independent too, as often as `a` does."""
    graph = {"a": ["t"], "b": ["a"]}
    network = {
        "a": {("off",): np.array([0.5, 0.5]), ("on",): np.array([0.9, 0.1])},
        "b": {("0",): np.array([0.3, 0.7]), ("1",): np.array([0.6, 0.4])},
    }
    row = pd.DataFrame({"t": ["off"], "a": ["0"], "b": ["0"]})
    model = built(graph, network)
    independent = counterfactual_probabilities(model, TO_ON, row, coupling="independent")["b"]
    assert_allclose(independent.probabilities.loc[0, "0"], 0.9 + 0.1 * 0.6)
    kept = counterfactual_probabilities(model, TO_ON, row)  # Gumbel-max: who had the level that gains keeps it
    assert_allclose(kept["a"].probabilities.loc[0, "0"], 1)
    assert_allclose(kept["b"].probabilities.loc[0, "0"], 1)
    assert_allclose(kept["b"].bounds.lower.loc[0, "0"], 0.8 + 0.2 * 0)  # at least 1 - 0.1 / 0.5 keep `a`


def test_numbers_between_classes_follow_their_own_noise():
    """a -> z (additive noise) -> b: z moves by what the regression says, exactly, and keeps its value with `a`."""
    rng = np.random.default_rng(0)
    treated = rng.choice(["off", "on"], 400)
    a = np.where(rng.random(400) < 0.3 + 0.4 * (treated == "on"), "1", "0")
    z = 2.0 * (a == "1") + rng.normal(size=400)
    b = np.where(rng.random(400) < 1 / (1 + np.exp(-z)), "yes", "no")
    data = pd.DataFrame({"t": treated, "a": a, "z": z, "b": b})
    model = gcm.InvertibleStructuralCausalModel(nx.DiGraph([("t", "a"), ("a", "z"), ("z", "b")]))
    model.set_causal_mechanism("t", gcm.EmpiricalDistribution())
    model.set_causal_mechanism("z", gcm.AdditiveNoiseModel(gcm.ml.create_linear_regressor()))
    for node in ("a", "b"):
        model.set_causal_mechanism(node, CategoricalMechanism(LogisticRegression(), smoothing=0))
    gcm.fit(model, data)
    rows = data[(treated == "off") & (a == "0") & (b == "no")][:5]
    found = counterfactual_probabilities(model, TO_ON, rows)
    step = np.diff(model.causal_mechanism("z").prediction_model.predict(np.array([["0"], ["1"]])).ravel())[0]
    mechanism = model.causal_mechanism("b")
    for place, row in rows.iterrows():
        p, q = mechanism.probabilities(np.array([[row["z"]], [row["z"] + step]]))
        moved = GumbelMax().counterfactual_probs(np.log(p), np.log(q), 0)
        chance = found["a"].probabilities.loc[place, "1"]
        expected = chance * np.asarray(moved) + (1 - chance) * np.array([1, 0])
        assert_allclose(found["b"].probabilities.loc[place], expected, rtol=1e-5)
    assert found["b"].is_sharp.all()
    # A state with `a` as it was has `z` as it was, to the last digit: `b` is the one seen, by Independent too.
    apart = counterfactual_probabilities(model, TO_ON, rows, coupling="independent")
    q = np.stack([mechanism.probabilities(np.array([[z + step]]))[0] for z in rows["z"]])
    chance = apart["a"].probabilities["1"].to_numpy()
    assert_allclose(apart["b"].probabilities["yes"], chance * q[:, 1], rtol=1e-9)


def test_a_row_that_cannot_have_been_is_named_as_it_stands():
    network = {"a": {("off",): np.array([0.5, 0.5, 0]), ("on",): np.array([0.2, 0.3, 0.5])}}
    rows = pd.DataFrame({"t": "off", "a": ["1", "0", "0", "0", "2"]})
    with pytest.raises(
        InputError, match=r"row 4 \(counted from 0\) has the class '2', which has probability zero there"
    ):
        counterfactual_probabilities(built({"a": ["t"]}, network), TO_ON, rows)


def test_nodes_far_below_are_answered_for_and_a_mixture_too_large_names_its_option(as_users_call):
    size = 12
    graph = {f"n{place:02}": [f"n{place - 1:02}"] if place else ["t"] for place in range(size)}
    graph["sum"] = ["n03", "n07", "n11"]
    network = random_network({node: graph[node] for node in graph if node != "sum"}, dict.fromkeys(graph, 3), 0)
    rng = np.random.default_rng(0)
    network["sum"] = {world: rng.dirichlet(np.ones(2)) for world in itertools.product("012", repeat=3)}
    row = pd.DataFrame([{"t": "off"} | dict.fromkeys(network, "0")])
    model = built(graph, network)
    found = counterfactual_probabilities(model, TO_ON, row)  # 3**12 worlds, but a few dozen states at a time
    assert list(found) == list(graph)
    assert_allclose(found["sum"].probabilities.sum(axis=1), 1)
    assert counterfactual_probabilities(model, TO_ON, row, nodes=["sum"], max_states=81)
    with pytest.raises(
        InputError, match=r"exact answer for 'sum' would take 31 states .* `max_states` is 30; raise it"
    ):
        counterfactual_probabilities(model, TO_ON, row, nodes=["sum"], max_states=30)
    for wrong in (0, True, 2.5):
        with pytest.raises(InputError, match="`max_states` must be (a whole number|at least 1)"):
            counterfactual_probabilities(model, TO_ON, row, max_states=wrong)


def test_a_class_changed_as_a_function_of_what_it_would_have_been_is_mixed_too():
    network = random_network(CHAIN, SIZES, 6)
    rows = every_row(CHAIN, network)[:4]
    model = built(CHAIN, network)
    plain = counterfactual_probabilities(model, TO_ON, rows)["a"]
    cured = counterfactual_probabilities(model, TO_ON | {"a": lambda a: "1" if a == "2" else a}, rows)
    assert_allclose(cured["a"].probabilities["1"], plain.probabilities["1"] + plain.probabilities["2"])
    assert (cured["a"].probabilities["2"] == 0).all()
    assert_allclose(cured["a"].bounds.upper["0"], plain.bounds.upper["0"])
    assert (cured["a"].bounds.upper["1"] >= cured["a"].probabilities["1"] - 1e-12).all()
    assert list(cured) == ["a", "b", "c"]
    fixed = counterfactual_probabilities(model, TO_ON | {"a": lambda _: "1"}, rows)
    assert list(fixed) == ["b", "c"]  # what is set is no question
