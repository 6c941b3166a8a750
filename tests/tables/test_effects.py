"""Effects in tables: exact means and variances, what any coupling allows, and which coupling to choose."""

from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from asking import counterfactuals, effects
from numpy.testing import assert_allclose

from countermax import Bounds, Gadget2, GumbelMax, Independent, InputError, InverseCDF, Optimal, individual_effect
from countermax.couplings._words import LEARNED
from countermax.effects import effect_from_joint
from countermax.intervals import Interval
from countermax.learning import Training

LABELS = ["churned", "downgraded", "stayed"]
SCORE = np.array([0.0, 3.0, 1.0])


def customers(count, seed=0):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet([2, 3, 4], count), rng.dirichlet([1, 3, 5], count)
    x = (p.cumsum(axis=1) > rng.random((count, 1))).argmax(axis=1)
    return pd.DataFrame({"status": np.array(LABELS)[x]}), p, q, x


def ask(p, q):
    return {"outcome": "status", "factual": p, "counterfactual": q, "labels": LABELS}


def transport_costs(loss, p, q):
    """An independent oracle: the least expected loss of each pair, by POT."""
    return [float(Optimal(loss).cost(*map(np.log, pair))) for pair in zip(p, q, strict=True)]


@pytest.fixture(scope="module")
def scored():
    frame, p, q, x = customers(60)
    return p, q, x, effects(frame, **ask(p, q), score=dict(zip(LABELS, SCORE, strict=True)))


def test_effects_are_those_of_the_average_joint_law(scored, double):
    p, q, _, found = scored
    for name, coupling in (("Gumbel-max", GumbelMax()), ("independent", Independent())):
        joint = eqx.filter_jit(jax.vmap(coupling.joint))(np.log(p), np.log(q)).mean(axis=0)
        effect = effect_from_joint(joint, SCORE)
        assert found.mean[0] == pytest.approx(float(effect.mean))
        assert found.variances[name] == pytest.approx(float(effect.variance))
    rows = (q - p) @ SCORE
    assert found.mean_error[0] == pytest.approx(rows.std(ddof=1) / np.sqrt(60))


def test_an_effect_is_what_the_change_would_have_added():
    """Everybody churns in the factual world and stays in the other, which is worth more: the effect is positive."""
    frame = pd.DataFrame({"status": ["churned"] * 3})
    worlds = ask(np.tile([1.0, 0, 0], (3, 1)), np.tile([0, 0, 1.0], (3, 1)))
    found = effects(frame, **worlds, score=[0, 1, 5])
    assert found.mean == pytest.approx(5)
    assert (found.individual == 5).all(axis=None)


def test_bounds_of_the_variance_are_those_of_optimal_transport(scored, double):
    p, q, _, found = scored
    loss = (SCORE[:, None] - SCORE) ** 2
    least, most = np.mean(transport_costs(loss, p, q)), 100 - np.mean(transport_costs(100 - loss, p, q))
    assert isinstance(found.variance_bounds, Bounds)
    assert_allclose(found.variance_bounds, np.array([least, most]) - found.mean[0] ** 2, rtol=1e-6)
    assert found.choice == "inverse CDF by score"
    assert found.variances[found.choice] == pytest.approx(found.variance_bounds.lower)
    assert isinstance(found.coupling, InverseCDF)


def test_individual_effects_lie_within_their_bounds(scored, double):
    p, q, x, found = scored
    frame = pd.DataFrame({"status": np.array(LABELS)[x]})
    rows = counterfactuals(frame, **ask(p, q), score=SCORE)
    assert_allclose(found.individual["effect_Gumbel-max"], rows["counterfactual_score"] - SCORE[x], atol=1e-12)
    first = individual_effect(GumbelMax(), np.log(p[0]), np.log(q[0]), x[0], SCORE)
    assert found.individual["effect_Gumbel-max"][0] == pytest.approx(float(first.mean))
    for side in ("lower", "upper"):
        expected = rows[f"counterfactual_score_{side}"] - SCORE[x]
        assert_allclose(found.individual[f"effect_{side}"], expected, atol=1e-12)
    names = ("Gumbel-max", "inverse_CDF", "inverse_CDF_by_score", "maximal", "independent")
    assert list(found.individual) == [*(f"effect_{name}" for name in names), "effect_lower", "effect_upper"]
    bounds = Bounds(found.individual["effect_lower"], found.individual["effect_upper"])
    for name in names:
        assert bounds.contains(found.individual[f"effect_{name}"]).all()


def test_the_result_names_couplings_bounds_and_sample(scored):
    *_, found = scored
    assert set(found.to_frame()["coupling"]) == {"", "any coupling", *found.variances}
    plain = found.to_dict()
    assert plain["rows"][-1]["lower"] == pytest.approx(found.variance_bounds.lower)
    assert plain["num_rows"] == 60
    assert plain["choice"] == found.choice
    assert found.to_json()
    for words in ("60 rows", "Whatever the coupling, the effect's variance is", "are taken as known", *found.variances):
        assert words in " ".join(str(found).split())
    assert found.plot().axes


def test_the_picture_shows_intervals_where_the_result_has_them(scored):
    *_, found = scored
    spans = {name: Interval(0.9 * value, 1.1 * value, 0.95) for name, value in found.variances.items()}
    words = " ".join(each.get_text() for each in replace(found, variance_intervals=spans).plot().axes[0].texts)
    for span in spans.values():
        assert f"({span.lower:.3g} to {span.upper:.3g})" in words


def test_several_scores_are_learned_on_the_frames_own_pairs(monkeypatch):
    from countermax import learning
    from countermax.learning import Fit
    from countermax.learning._loop import History

    frame, p, q, _ = customers(10)
    scores = {"income": [0.0, 1.0, 2.0], "effort": [1.0, 0.0, 1.0]}
    gadget = Gadget2(3, 2, key=jax.random.key(0), hidden=(4,), rounds=1)

    def untrained(coupling, pairs, loss, training, *, key, checkpoint):
        assert pairs.num_distinct == 10
        assert_allclose(loss.score, np.array(list(scores.values())).T)
        assert training.steps == 20
        return Fit(coupling, History(), "finished", None)

    monkeypatch.setattr(learning, "fit", untrained)
    asked = {"score": scores, "learn": gadget, "training": Training(steps=20), "couplings": {"own": "independent"}}
    found = effects(pl.from_pandas(frame), **ask(p, q), **asked)
    assert list(found.variances) == ["own", "learned Gadget 2"]
    assert found.fit.coupling is gadget
    loss = sum((np.subtract.outer(score, score)) ** 2 for score in np.array(list(scores.values())))
    with jax.enable_x64(True):
        least, most = np.mean(transport_costs(loss, p, q)), 100 - np.mean(transport_costs(100 - loss, p, q))
    assert_allclose(found.variance_bounds, np.array([least, most]) - (found.mean**2).sum())
    assert found.variance_bounds.contains(np.array(list(found.variances.values()))).all()
    assert found.individual.columns[:2] == ["effect_income_own", "effect_effort_own"]
    assert found.individual.columns[-1] == "effect_effort_upper"
    assert "no order of the outcomes is optimal" in str(found)


def test_several_scores_compare_an_order_for_each():
    frame, p, q, _ = customers(10)
    found = effects(frame, **ask(p, q), score={"income": [0.0, 1.0, 2.0], "effort": [1.0, 0.0, 1.0]})
    fixed = ["Gumbel-max", "inverse CDF", "vector quantile", "maximal", "independent"]
    assert list(found.variances) == [*fixed, "inverse CDF by income", "inverse CDF by effort"]
    assert found.variances["inverse CDF by income"] == found.variances["inverse CDF"]  # the labels' own order


def test_several_scores_have_a_vector_quantile_that_is_fitted_to_the_frames_own_worlds(monkeypatch):
    from countermax.tables import _scores

    frame, p, q, _ = customers(8)
    rng = np.random.default_rng(0)
    asked = {**ask(p, q), "score": rng.normal(size=(3, 2))}
    found = effects(frame, **asked, couplings=["vector-quantile", "gumbel-max"])
    assert list(found.variances) == ["vector quantile", "Gumbel-max"]
    assert found.choice == "vector quantile"
    assert found.variances["vector quantile"] < 1.3 * found.variance_bounds.lower
    one = effects(frame[:1], **{**asked, "factual": p[:1], "counterfactual": q[:1]}, couplings=["vector-quantile"])
    assert one.variances["vector quantile"] == pytest.approx(one.variance_bounds.lower, rel=1e-3)
    monkeypatch.setattr(_scores, "MOST_PLANNED", 20)
    assert "vector quantile" not in effects(frame, **asked).variances
    with pytest.raises(InputError, match="both worlds have the same scores"):
        effects(frame, **asked, counterfactual_score=rng.normal(size=(3, 2)), couplings=["vector-quantile"])


def test_scores_that_sort_differently_have_their_quantiles_matched(double):
    frame, p, q, _ = customers(30)
    other = np.array([0.0, 1.0, 3.0])
    asked = {"score": SCORE, "counterfactual_score": other}
    found = effects(frame, **(ask(p, q) | {"outcome": None}), **asked)
    costs = transport_costs((SCORE[:, None] - other) ** 2, p, q)
    assert found.variance_bounds.lower == pytest.approx(np.mean(costs) - found.mean[0] ** 2, rel=1e-6)
    assert found.choice == "comonotone"
    assert found.variances["comonotone"] == pytest.approx(found.variance_bounds.lower)
    assert found.variances["inverse CDF by score"] > 1.01 * found.variance_bounds.lower
    assert "sort the outcomes differently" in found.reason
    assert found.individual is None
    assert list(effects(frame, **ask(p, q), **asked, couplings=["maximal"]).variances) == ["maximal", "comonotone"]


def test_one_row_has_no_standard_error():
    frame, p, q, _ = customers(1)
    found = effects(frame, **ask(p, q), score=SCORE)
    assert found.mean_error is None
    assert "Standard error" not in str(found)


def test_effects_need_rows_and_sensible_settings():
    frame, p, q, _ = customers(3)
    with pytest.raises(InputError, match="need learn=True"):
        effects(frame, **ask(p, q), score=SCORE, training=Training(steps=3))
    with pytest.raises(InputError, match="none has an answer"):
        effects(frame, **ask(np.zeros((3, 3)), q), score=SCORE, errors="missing")
    with pytest.raises(InputError, match="same names"):
        effects(frame, **ask(p, q), score={"a": SCORE}, counterfactual_score={"b": SCORE})
    with pytest.raises(InputError, match="a gadget for 3 outcomes, got one for 2"):
        effects(frame, **ask(p, q), score=SCORE, learn=Gadget2(2, 2, key=jax.random.key(0)))
    with pytest.raises(InputError, match="at least one coupling"):
        effects(frame, **ask(p, q), score=SCORE, couplings={})


def test_columns_and_couplings_of_one_name_are_refused():
    frame, p, q, _ = customers(3)
    for couplings in ({"a b": GumbelMax(), "a_b": Independent()}, {"lower": GumbelMax()}):
        with pytest.raises(InputError, match="would be written twice; give the couplings and scores other names"):
            effects(frame, **ask(p, q), score=SCORE, couplings=couplings)
    with pytest.raises(InputError, match="the column '1' would be written twice; give the scores different names"):
        effects(frame, **ask(p, q), score={1: SCORE, "1": SCORE})
    with pytest.raises(InputError, match="must not reuse the name 'inverse CDF by score'"):
        effects(frame, **ask(p, q), score=SCORE, couplings={"inverse CDF by score": GumbelMax()})
    with pytest.raises(InputError, match="must not reuse the name 'learned Gadget 2'"):
        effects(frame, **ask(p, q), score=SCORE, couplings={LEARNED: GumbelMax()}, learn=True)
    same = effects(frame, **ask(p, q), score=SCORE, couplings={"inverse CDF by score": "inverse-cdf-by-score"})
    assert list(same.variances) == ["inverse CDF by score"]


def test_a_score_by_label_is_never_taken_for_several_scores():
    numbers = pd.DataFrame({"y": [1, 2], "p_1": 0.5, "p_2": 0.5, "q_1": 0.5, "q_2": 0.5})
    asked = {"outcome": "y", "factual": "p_", "counterfactual": "q_"}
    assert effects(numbers, **asked, score={1.0: 0, 2: 1}).scores == ("score",)
    with pytest.raises(
        InputError,
        match="one number for each of 1, 2: 1, 2 has none, '1', '2' is no label; 1 is a label, but a number never",
    ):
        effects(numbers, **asked, score={"1": 0, "2": 1})


@pytest.mark.parametrize("several", [False, True])
def test_a_constant_added_to_one_worlds_scores_moves_the_mean_and_no_variance(several):
    frame, p, q, x = customers(20)
    score = np.stack([SCORE, SCORE[::-1]], axis=1) if several else SCORE
    asked = {**ask(p, q), "couplings": ["independent", "gumbel-max"]}
    plain = effects(frame, **asked, score=score, counterfactual_score=score)
    shifted = effects(
        frame, **asked, score=score, counterfactual_score=score + 2.0**27
    )  # of which floats lose no digit
    assert_allclose(shifted.mean - 2.0**27, plain.mean, rtol=1e-6)
    assert_allclose(shifted.mean_error, plain.mean_error, rtol=1e-9)
    for name, variance in plain.variances.items():
        assert shifted.variances[name] == pytest.approx(variance, rel=1e-9)
    assert shifted.variance_bounds == pytest.approx(plain.variance_bounds, rel=1e-9)
    assert_allclose(shifted.individual - 2.0**27, plain.individual, atol=1e-6)
