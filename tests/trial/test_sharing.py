"""How much two worlds must share for an answer to turn: the curve, its turning points, and how it shows itself."""

import json

import jax
import numpy as np
import pytest
from scipy.optimize import brentq

from countermax import InputError, NestedGumbelMax, SharedGumbelMax, Trial, Worlds, treatment_effect
from countermax.comparison import _sensitivity
from countermax.couplings._gumbel_max import noise_correlation

P, Q, LABELS, SCORE = [0.3, 0.4, 0.3], [0.1, 0.3, 0.6], ["dead", "ill", "well"], [0.0, 1.0, 2.0]


def curve_of(p, q, seen, **read):
    return Worlds(p, q, **read).compare(seen, sharing=True).sharing


@pytest.fixture(scope="module")
def curve():
    return curve_of(P, Q, "ill", labels=LABELS, score=SCORE)


@pytest.fixture(scope="module")
def counted():
    trial = Trial.from_counts([30, 40, 30], [10, 30, 60], labels=LABELS, score=SCORE)
    return trial.compare("ill", sharing=True, couplings=["gumbel-max"])


def row(rate, p=P, q=Q, seen=1):
    with jax.enable_x64(True):
        return np.asarray(SharedGumbelMax(rate).counterfactual_probs(np.log(p), np.log(q), seen))


def test_the_curve_is_what_the_family_says(curve):
    assert (curve.numbers[0], curve.numbers[-1], len(curve.numbers)) == (0, 1, 101)
    np.testing.assert_allclose(curve.noise_correlation, noise_correlation(curve.numbers))
    for place in (0, 37, 100):
        rate, expected = curve.numbers[place], row(curve.numbers[place])
        np.testing.assert_allclose(curve.probabilities[place], expected, atol=1e-12)
        assert curve.curve("effect")[place] == pytest.approx(expected @ SCORE - 1)
        assert curve.curve("better")[place] == pytest.approx(expected[2])
        with jax.enable_x64(True):
            joint = np.asarray(SharedGumbelMax(rate).joint(np.log(P), np.log(Q)))
            variance = float(treatment_effect(SharedGumbelMax(rate), np.log(P), np.log(Q), SCORE).variance)
        assert curve.curve("agreement", "everybody")[place] == pytest.approx(np.trace(joint))
        assert curve.curve("better", "everybody")[place] == pytest.approx(joint[np.triu_indices(3, 1)].sum())
        assert curve.curve("worse", "everybody")[place] == pytest.approx(joint[np.tril_indices(3, -1)].sum())
        spreads = [np.array(world) @ np.square(SCORE) - (np.array(world) @ SCORE) ** 2 for world in (P, Q)]
        covariance = (sum(spreads) - variance) / 2
        assert curve.curve("score correlation", "everybody")[place] == pytest.approx(
            covariance / np.sqrt(np.prod(spreads)), abs=1e-9
        )
    np.testing.assert_allclose(curve.probabilities[0], Q, atol=1e-12)


def test_turning_points_are_roots(curve):
    found = {each.what: each for each in curve.turning_points}
    assert list(found) == ["better off", "most likely outcome"]  # in the order of their rates; the effect has none
    leader = found["most likely outcome"]
    assert leader.number == pytest.approx(brentq(lambda rate: row(rate)[1] - row(rate)[2], 0.1, 0.9), abs=1e-8)
    assert (leader.before, leader.after) == ("well", "ill")
    even = found["better off"]
    assert even.number == pytest.approx(brentq(lambda rate: row(rate)[2] - 0.5, 0.1, 0.9), abs=1e-8)
    assert (even.before, even.after) == ("likelier than not", "less likely than not")


def test_an_effect_can_change_its_sign_and_change_it_back():
    p, q, score = [0.75, 0.22, 0.01, 0.02], [0.05, 0.83, 0.05, 0.07], np.array([1.0, 2.0, 0.0, 4.0])
    found = curve_of(p, q, 1, score=score)
    points = [each for each in found.turning_points if each.what == "sign of the effect"]
    assert [(each.before, each.after) for each in points] == [("negative", "positive"), ("positive", "negative")]
    for point, (start, end) in zip(points, ((0.1, 0.6), (0.6, 1.0)), strict=True):
        assert point.number == pytest.approx(brentq(lambda rate: row(rate, p, q) @ score - 2, start, end), abs=1e-6)
    assert found.summary().count("the effect is") == 3


def test_all_crossings_are_found_and_ties_are_none():
    """Three leaders within one cell of the grid, and two outcomes that are equal throughout."""

    def leaders(rates):
        return np.stack([np.full_like(rates, 0.3), 0.3 + rates - 0.5001, 0.3 + 3 * (rates - 0.5003)], axis=1)

    assert [pair[1:] for pair in _sensitivity._leaders(leaders)] == [(0, 1), (1, 2)]
    np.testing.assert_allclose([pair[0] for pair in _sensitivity._leaders(leaders)], [0.5001, 0.5004], atol=1e-8)
    signs = _sensitivity._signs(lambda rates: np.sin(7 * np.pi * rates))
    np.testing.assert_allclose([rate for rate, _ in signs], np.arange(1, 7) / 7, atol=1e-8)
    assert [sign for _, sign in signs] == [-1, 1, -1, 1, -1, 1]
    same = curve_of([0.5, 0.25, 0.25], [0.2, 0.4, 0.4], 0)
    assert not any({each.before, each.after} == {"1", "2"} for each in same.turning_points)
    assert curve_of([0.5, 0.5], [0.5, 0.5], 0).turning_points == ()


def test_the_verdict_says_where_it_turns_and_what_that_does_not_say(curve):
    assert "If the two worlds share nothing, the most likely outcome is 'well'; from 0.557 on" in curve.summary()
    assert "(noise correlation 0.511) the most likely outcome is 'ill'." in curve.summary()
    assert "However much the two worlds share, the effect is positive." in curve.summary()
    text = " ".join(str(curve).split())
    assert "says nothing about other couplings" in text
    assert "the probabilities are known" in text
    assert "noise correlation" in text


def test_an_effect_that_ends_at_zero_has_not_turned():
    found = curve_of(P, Q, "well", labels=LABELS, score=SCORE)
    assert found.curve("effect")[0] < 0
    assert found.curve("effect")[-1] == pytest.approx(0, abs=1e-12)
    assert "However much the two worlds share, the effect is never positive." in found.summary()


def test_without_a_score_there_are_probabilities_only():
    found = curve_of(P, Q, 0)
    assert {each.quantity for each in found.rows} == {"P(0)", "P(1)", "P(2)", "agreement"}
    with pytest.raises(InputError, match="there is no curve of 'effect'"):
        found.curve("effect")
    assert Worlds(P, Q).compare(0).sharing is None


def test_frame_json_and_listing_say_the_same(curve):
    frame = curve.to_frame()
    effects = frame[(frame["quantity"] == "effect") & frame["coupling"].str.startswith("Gumbel-max shared")]
    np.testing.assert_allclose(effects["value"], curve.curve("effect"))
    assert curve.row("P(well)", "Gumbel-max shared 0").value == pytest.approx(Q[2])
    stored = json.loads(curve.to_json())
    assert stored["seen"] == "ill"
    assert stored["turning_points"][0]["what"] == "better off"
    assert len(stored["rows"]) == len(curve.rows)
    assert f"{curve.probabilities[50, 1]:.3f}" in str(curve)


def test_the_picture_holds_curves_bands_and_turning_points(curve):
    figure = curve.plot()
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in panels] == ["P(dead)", "P(ill)", "P(well)", "effect"]
    lines = panels[1].lines
    assert any(
        len(line.get_xdata()) == 101 and np.allclose(line.get_ydata(), curve.probabilities[:, 1]) for line in lines
    )
    upright = [line.get_xdata()[0] for line in lines if len(set(line.get_xdata())) == 1 and len(line.get_xdata()) == 2]
    np.testing.assert_allclose(sorted(upright), [each.number for each in curve.turning_points])
    many = curve_of(np.full(20, 0.05), np.arange(1, 21) / 210, 0).plot()
    assert "Shown: the 11 of 20 outcomes" in many.get_suptitle()


def test_counts_have_intervals_at_each_rate(counted):
    curve, found = counted.sharing, counted.sharing.intervals
    for key, values in curve.curves.items():
        interval = found[key]
        assert len(interval.lower) == 11
        assert (interval.lower <= values[::10] + 1e-9).all()
        assert (interval.upper >= values[::10] - 1e-9).all()
    # At 1 it is Gumbel-max's own interval, from the same draws.
    for label in LABELS:
        own = counted.row(f"P({label})", "Gumbel-max")
        interval = found[f"P({label})", "this person"]
        assert (interval.lower[-1], interval.upper[-1]) == pytest.approx((own.ci_lower, own.ci_upper), abs=1e-9)
    frame = curve.to_frame()
    at_rates = frame[(frame["quantity"] == "P(ill)") & frame["coupling"].str.startswith("Gumbel-max shared")]
    assert at_rates["ci_lower"].notna().sum() == 11
    assert "turning points have none" in " ".join(curve.notes)
    assert "95% confidence interval, pointwise" in [text.get_text() for text in curve.plot().legends[0].get_texts()]


def test_arms_of_a_trial_have_a_curve_too():
    import pandas as pd

    people = pd.DataFrame({"arm": ["a"] * 100 + ["b"] * 100, "y": [0] * 30 + [1] * 70 + [0] * 10 + [1] * 90})
    trial = Trial(people, outcome="y", arm="arm", control="a", treated="b")
    found = trial.compare(0, couplings=["gumbel-max"], sharing=True)
    np.testing.assert_allclose(found.sharing.probabilities[-1], found.probabilities["Gumbel-max"], atol=1e-12)
    assert found.sharing.worlds == ("a", "b")


def test_what_cannot_be_asked_is_refused(as_users_call):
    with pytest.raises(InputError, match="`sharing` must be asked about somebody, but nobody under control had '0'"):
        Trial.from_counts([0, 10], [5, 5]).compare(0, sharing=True)


NESTS = {"alive": ["ill", "well"]}


def test_the_dial_of_nests_runs_from_the_limit_to_gumbel_max():
    found = Worlds(P, Q, labels=LABELS, score=SCORE).compare("ill", nests=NESTS, sharing=True)
    curve = found.nesting
    with jax.enable_x64(True):
        for place in (0, 1, 40, 100):
            model = NestedGumbelMax(NESTS, float(curve.numbers[place]), labels=LABELS)
            expected = np.asarray(model.counterfactual_probs(np.log(P), np.log(Q), 1))
            np.testing.assert_allclose(curve.probabilities[place], expected, atol=1e-12)
            joint = np.asarray(model.joint(np.log(P), np.log(Q)))
            assert curve.curve("agreement", "everybody")[place] == pytest.approx(np.trace(joint), abs=1e-12)
    np.testing.assert_allclose(curve.probabilities[-1], found.sharing.probabilities[-1], atol=1e-12)
    assert "However unlike outcomes of a nest are, the effect is positive." in curve.summary()
    assert "nested Gumbel-max 0.4" in {each.coupling for each in curve.rows}
    assert "dissimilarity" in str(found)
    assert json.loads(found.to_json())["nesting"]["dissimilarity"][-1] == 1
    assert len(curve.plot().axes) >= 4


def test_turning_points_of_nests_are_roots_and_counts_have_intervals():
    p, q = [0.3, 0.3, 0.4], [0.32, 0.5, 0.18]
    labels, nests = ["a", "b", "c"], {"like": ["b", "c"]}
    found = Worlds(p, q, labels=labels).compare("c", nests=nests).nesting

    def lead(number):
        with jax.enable_x64(True):
            model = NestedGumbelMax(nests, number, labels=labels)
            row = np.asarray(model.counterfactual_probs(np.log(p), np.log(q), 2))
        return row[1] - row[2]

    for point in found.turning_points:
        assert lead(point.number - 1e-4) * lead(point.number + 1e-4) < 0
    assert bool(found.turning_points) == (lead(0.01) * lead(1.0) < 0)
    counted = Trial.from_counts([30, 30, 40], [32, 50, 18], labels=labels).compare("c", nests=nests).nesting
    for key, interval in counted.intervals.items():
        assert (interval.lower <= counted.curves[key][::10]).all()
        assert (interval.upper >= counted.curves[key][::10]).all()
    with pytest.raises(InputError, match="must be one of the labels"):
        Worlds(p, q, labels=labels).compare("c", nests={"like": ["b", "d"]})


@pytest.mark.parametrize("scored", [True, False])
def test_of_many_outcomes_the_likeliest_come_first_in_print_and_picture_unless_a_score_orders_them(scored):
    p = np.random.default_rng(0).dirichlet(np.ones(40))
    own = {"score": np.arange(40.0)} if scored else {}
    found = Worlds(p, np.roll(p, 1), **own).compare(3, sharing=True).sharing
    heads = [each for each in found.tables()[0].columns if each.startswith("P(")]
    titles = [axes.get_title(loc="left") for axes in found.plot().axes if axes.get_title(loc="left").startswith("P(")]
    for names in (heads, titles):
        chances = [found.probabilities.max(axis=0)[int(each[2:-1])] for each in names]
        assert len(names) >= 11
        assert (sorted(chances, reverse=True) == chances) is not scored
        assert (sorted(names, key=lambda each: int(each[2:-1])) == names) is scored
