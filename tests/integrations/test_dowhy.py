"""The real DoWhy with categorical nodes: what fails with its own mechanism works with ours, and has the exact law."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from trial import CLASSES, DATA, TO_B, fitted, gcm

from countermax import (
    Gadget1,
    Gadget2,
    GumbelMax,
    Independent,
    InputError,
    InverseCDF,
    Maximal,
    NestedGumbelMax,
    SharedGumbelMax,
    VectorQuantile,
)
from countermax.couplings import AbstractMechanism
from countermax.integrations.dowhy import CategoricalMechanism, counterfactual_probabilities

FALSE_ALARM = 1e-6  # of each statistical test; the seeds are fixed


@pytest.fixture(scope="module")
def gadget():
    return Gadget2(4, 2, key=jax.random.key(0), hidden=(4,), rounds=1)


def test_a_text_outcome_has_counterfactuals_where_dowhys_own_mechanism_has_none(model):
    """From DoWhy's tracker: a categorical node in an invertible model has no `estimate_noise`."""
    stock = fitted()
    own = gcm.ClassifierFCM(gcm.ml.create_logistic_regression_classifier(max_iter=300))
    stock.set_causal_mechanism("status", own)
    gcm.fit(stock, DATA)
    with pytest.raises((AttributeError, ValueError), match=r"estimate_noise|invertible"):
        gcm.counterfactual_samples(stock, TO_B, DATA)
    samples = gcm.counterfactual_samples(model, TO_B, DATA)
    assert set(samples["status"]) <= {*CLASSES, "lost"}
    assert (samples["status"] != DATA["status"]).any()
    assert (samples["drug"] == "B").all()


@pytest.mark.parametrize("mechanism", ["Gumbel-max", "inverse CDF", "gadget", "nested", "vector quantile"])
def test_no_intervention_returns_the_data(mechanism, gadget, model):
    vectors = np.random.default_rng(0).normal(size=(9, 2))
    made = {
        "Gumbel-max": None,
        "inverse CDF": InverseCDF([2, 0, 3, 1]),
        "gadget": gadget,
        "nested": NestedGumbelMax({"pair": [1, 2]}, 0.5, labels=4),
        "vector quantile": VectorQuantile(vectors[:5], vectors[5:]),
    }[mechanism]
    used = model if made is None else fitted(made)
    for rows in (DATA, DATA[:1], DATA[5:8]):
        samples = gcm.counterfactual_samples(used, {}, rows)
        for node in ("drug", "status", "home"):
            assert samples[node].tolist() == rows[node].tolist()
        assert_allclose(samples["cost"], rows["cost"])


class TwoFaced(AbstractMechanism):
    """A mechanism that this library does not have: half of all people have the outcomes in the opposite order."""

    @property
    def num_outcomes(self):
        return None

    def noise(self, num_outcomes, *, key, dtype=float):
        key_face, key_place = jax.random.split(key)
        return {"opposed": jax.random.bernoulli(key_face), "place": jax.random.uniform(key_place, (), dtype)}

    def _respond(self, noise, log_p):
        backwards = InverseCDF(jnp.arange(log_p.size)[::-1])
        responses = (each._respond(noise["place"], log_p) for each in (backwards, InverseCDF()))
        return jnp.where(noise["opposed"], *responses)

    def _abduct(self, log_p, x, *, key):
        raise NotImplementedError  # not needed here


def test_a_mechanism_of_ones_own_works_like_the_others():
    used = fitted(TwoFaced())
    gcm.util.general.set_random_seed(5)
    for rows in (DATA, DATA[:1]):
        assert gcm.counterfactual_samples(used, {}, rows)["status"].tolist() == rows["status"].tolist()
    seen = DATA[(DATA["drug"] == "A") & (DATA["status"] == "ill")][:1]
    orders = [InverseCDF(), InverseCDF([3, 2, 1, 0])]
    answers = [counterfactual_probabilities(used, TO_B, seen, coupling={"status": each})["status"] for each in orders]
    law = sum(each.probabilities.to_numpy()[0] for each in answers)
    many = gcm.counterfactual_samples(used, TO_B, pd.concat([seen] * 5000, ignore_index=True))["status"]
    labels = used.causal_mechanism("status").labels.values
    counts = many.value_counts().reindex(list(labels), fill_value=0).to_numpy()
    assert counts[law == 0].sum() == 0
    assert stats.chisquare(counts[law > 0], law[law > 0] / 2 * 5000).pvalue > FALSE_ALARM
    with pytest.raises(InputError, match="mechanism of node 'status', TwoFaced, has no exact law; draw samples"):
        counterfactual_probabilities(used, TO_B, seen)


@pytest.mark.parametrize("mechanism", ["Gumbel-max", "inverse CDF", "gadget"])
def test_samples_have_the_exact_probabilities(mechanism, gadget):
    made = {"Gumbel-max": GumbelMax(), "inverse CDF": InverseCDF(), "gadget": gadget}[mechanism]
    used = fitted(made)
    gcm.util.general.set_random_seed(3)
    seen = DATA[(DATA["drug"] == "A") & (DATA["status"] == "dead")][:1]
    exact = counterfactual_probabilities(used, TO_B, seen)["status"].probabilities
    assert_allclose(exact.sum(axis=1), 1)
    many = gcm.counterfactual_samples(used, TO_B, pd.concat([seen] * 5000, ignore_index=True))
    counts = many["status"].value_counts().reindex(exact.columns, fill_value=0).to_numpy()
    law = exact.to_numpy()[0]
    possible = law > 1e-6
    assert counts[~possible].sum() <= 1
    expected = law[possible] / law[possible].sum() * counts[possible].sum()
    assert stats.chisquare(counts[possible], expected).pvalue > FALSE_ALARM


def test_dowhys_seed_and_a_seed_of_its_own_reproduce_samples(model):
    def draw(used):
        return gcm.counterfactual_samples(used, TO_B, DATA)["status"].tolist()

    def seeded(seed):
        gcm.util.general.set_random_seed(seed)
        return draw(model)

    assert seeded(1) == seeded(1) != seeded(2)
    first, second = fitted(random_state=7), fitted(random_state=7)
    one, two = draw(first), draw(first)
    assert one != two  # every call draws again
    assert [draw(second), draw(second)] == [one, two]
    again = first.causal_mechanism("status").clone()
    again.fit(DATA[["age", "drug"]].to_numpy(), DATA["status"].to_numpy())
    mechanism = fitted(random_state=7).causal_mechanism("status")
    assert_allclose(again.draw_noise_samples(5), mechanism.draw_noise_samples(5))


def test_nodes_with_one_seed_do_not_share_their_noise():
    used = fitted(random_state=7)
    status, home = (used.causal_mechanism(node).draw_noise_samples(500)[:, 0] for node in ("status", "home"))
    assert stats.pearsonr(status, home).pvalue > FALSE_ALARM
    assert not np.array_equal(status, home)


def test_one_noise_shows_the_same_individual_in_every_world(model):
    from dowhy.gcm._noise import compute_noise_from_data

    noise = compute_noise_from_data(model, DATA)
    assert noise["status"].dtype == np.float64
    first, second = (gcm.counterfactual_samples(model, TO_B, noise_data=noise) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)
    same = gcm.counterfactual_samples(model, {}, noise_data=noise)
    assert same["status"].tolist() == DATA["status"].tolist()


def test_noise_that_was_stored_shows_the_same_individual_again(model, tmp_path):
    from dowhy.gcm._noise import compute_noise_from_data

    noise = compute_noise_from_data(model, DATA)
    expected = gcm.counterfactual_samples(model, TO_B, noise_data=noise)
    for digits in (None, "%.15g"):  # as pandas writes numbers, and as a spreadsheet keeps them
        noise.to_csv(tmp_path / "noise.csv", index=False, float_format=digits)
        stored = pd.read_csv(tmp_path / "noise.csv")
        found = gcm.counterfactual_samples(model, TO_B, noise_data=stored)
        for node in ("status", "home"):
            assert found[node].tolist() == expected[node].tolist()


@pytest.mark.parametrize("carry", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_models_survive_being_copied_and_sent_to_other_processes(carry, model):
    from dowhy.gcm._noise import compute_noise_from_data

    noise = compute_noise_from_data(model, DATA)
    expected = gcm.counterfactual_samples(model, TO_B, noise_data=noise)
    pd.testing.assert_frame_equal(gcm.counterfactual_samples(carry(model), TO_B, noise_data=noise), expected)


def test_other_questions_of_dowhy_take_the_node_as_categorical(model):
    gcm.util.general.set_random_seed(0)
    drawn = gcm.interventional_samples(model, TO_B, num_samples_to_draw=4000)["status"]
    mechanism = model.causal_mechanism("status")
    expected = mechanism.estimate_probabilities(DATA[["age", "drug"]].assign(drug="B").to_numpy()).mean(axis=0)
    counts = drawn.value_counts().reindex(list(mechanism.classifier_model.classes), fill_value=0)
    assert stats.chisquare(counts, expected * 4000).pvalue > FALSE_ALARM
    parts = gcm.attribute_anomalies(model, "cost", DATA[:2], num_distribution_samples=50)
    assert set(parts) == {"drug", "age", "status", "cost"}
    assert np.isfinite(np.stack(list(parts.values()))).all()
    report = gcm.evaluate_causal_model(
        model,
        DATA,
        evaluate_causal_structure=False,
        compare_mechanism_baselines=False,
        evaluate_overall_kl_divergence=False,
    )
    assert report.mechanism_performances["status"].f1 is not None
    assert "status" in report.pnl_assumptions


def test_labels_give_the_order_that_the_mechanism_counts_in():
    labels = ["well", "lost", "ill", "dead", "cured"]  # one of them never seen
    used = CategoricalMechanism(LogisticRegression(max_iter=300), InverseCDF(), labels=labels)
    parents, status = DATA[["age", "drug"]].to_numpy(), DATA["status"].to_numpy()
    used.fit(parents, status)
    probs = used.probabilities(parents)
    assert_allclose(probs[:, 0], used.estimate_probabilities(parents)[:, 3])
    assert (probs[:, 4] == 0).all()
    noise = used.draw_noise_samples(1000)
    worlds = [np.array([[age, drug]] * 1000, object) for age, drug in ((-1.0, "A"), (1.0, "B"))]
    first, second = ([labels.index(label) for label in used.evaluate(world, noise)[:, 0]] for world in worlds)
    order = np.lexsort((second, first))  # ranks are preserved: who is ahead in one world is not behind in the other
    assert (np.diff(np.array(second)[order]) >= 0).all()
    assert len(set(second)) > 2
    with pytest.raises(InputError, match="must name every class in the data, but 'lost' is not there"):
        CategoricalMechanism(LogisticRegression(), labels=CLASSES).fit(parents, status)


def test_a_class_that_the_classifier_rules_out_is_explained_by_smoothing_or_named():
    parents, status = DATA[["age"]].to_numpy(), DATA["status"].to_numpy()
    tree = DecisionTreeClassifier(max_depth=6, random_state=0)
    sharp, smooth = CategoricalMechanism(tree, smoothing=0), CategoricalMechanism(tree, smoothing=1e-4)
    for used in (sharp, smooth):
        used.fit(parents, status)
    ruled_out = np.flatnonzero(sharp.probabilities(parents)[:, 0] == 0)[:3]
    seen = np.array(["dead"] * 3, object)
    with pytest.raises(InputError, match="row 0 .* the class 'dead', which has probability zero there; give the mech"):
        sharp.estimate_noise(seen, parents[ruled_out])
    noise = smooth.estimate_noise(seen, parents[ruled_out])
    assert smooth.evaluate(parents[ruled_out], noise)[:, 0].tolist() == seen.tolist()
    with pytest.raises(InputError, match="the class 'cured', which is none of 'dead', 'ill', 'lost', 'well'"):
        smooth.estimate_noise(np.array(["cured"]), parents[:1])


def test_what_cannot_work_is_refused_with_the_reason(gadget, as_users_call):
    parents, status = DATA[["age"]].to_numpy(), DATA["status"].to_numpy()
    gadget1 = Gadget1(3, key=jax.random.key(0), hidden=(4,))
    for options, words in (
        ({"mechanism": gadget1}, "got Gadget1: the other world sees its noise rearranged, so that outcomes could chan"),
        ({"mechanism": SharedGumbelMax(0.5)}, "got SharedGumbelMax: the other world sees its noise rearranged"),
        ({"mechanism": Maximal()}, "one function of noise and logits .*got Maximal: it has no noise"),
        ({"mechanism": Independent()}, "got Independent: it has no noise that all worlds share"),
        ({"mechanism": GumbelMax}, "got GumbelMax: a class; make an instance"),
        ({"classifier": object()}, "must have `fit` and `predict_proba`"),
        ({"smoothing": 1.0}, r"`smoothing` must lie in \[0, 1\)"),
    ):
        with pytest.raises(InputError, match=words):
            CategoricalMechanism(**options)
    for target, mechanism, words in (
        (DATA["cost"].to_numpy(), GumbelMax(), "must hold classes, got numbers"),
        (np.full(len(status), "well"), GumbelMax(), "at least two classes"),
        (np.where(status == "lost", "ill", status), gadget, "this Gadget2 is for 4 outcomes, but the logits have 3"),
    ):
        with pytest.raises(InputError, match=words):
            CategoricalMechanism(LogisticRegression(), mechanism).fit(parents, target)
