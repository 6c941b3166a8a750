"""All estimates of an evaluation are of one policy and cover the same steps of each episode."""

import json

import jax
import numpy as np
import pytest
from processes import MDP, NUM_ACTIONS, NUM_STATES, doubly_robust, frame_of, some_episodes
from scipy.stats import CensoredData, ecdf

from countermax import InputError
from countermax.intervals._interval import student_interval
from countermax.mdp import Cohort, EpisodeLog, Posterior, estimate, simulate
from countermax.mdp._estimation import restricted
from countermax.mdp._importance import importance_estimates, importance_ratios
from countermax.mdp._log import follow_up, steps_compared
from countermax.mdp._planning import policy_values

KEY = jax.random.key(0)
SURE = np.eye(NUM_ACTIONS)[[0, 1, 0, 0]]
END = 3
NO_MODEL = ("ordinary importance sampling", "per-decision importance sampling", "weighted importance sampling")


def cut(log, lengths):
    """The same episodes, seen no further than so many steps."""
    return EpisodeLog(
        states=log.states,
        actions=log.actions,
        rewards=log.rewards,
        lengths=np.minimum(log.lengths, lengths),
        num_states=log.num_states,
        num_actions=log.num_actions,
    )


@pytest.fixture(scope="module")
def censored():
    whole = simulate(MDP, SURE, num_episodes=60, horizon=8, key=jax.random.key(4))
    return cut(whole, np.random.default_rng(0).integers(1, 9, len(whole)))


@pytest.mark.parametrize("horizon", [2, 3, 8, 12])
def test_the_policy_that_was_followed_earns_what_was_observed_whatever_the_horizon(censored, horizon):
    """Ratios are one and values telescope, if and only if each episode is compared as far as it was seen."""
    found = Cohort(censored, SURE, absorbing=[END], horizon=horizon).evaluate(["gumbel-max"], num_resamples=0)
    observed = censored.returns(horizon=horizon).mean()
    for each in found.estimates:
        if each.kind != "model":
            assert each.value == pytest.approx(observed, abs=1e-12), each.name
    steps = steps_compared(censored, MDP.absorbing, horizon)
    assert found.num_censored == (steps < horizon).sum()
    told = [each for each in found.notes if f"{found.num_censored} of 60 episodes are censored" in each]
    assert len(told) == (found.num_censored > 0)


def test_the_model_is_asked_for_as_many_steps_as_somebody_would_have_been_followed_for(censored):
    found = Cohort(censored, SURE, absorbing=[END], horizon=12).evaluate({}, num_resamples=0)
    model = estimate(censored, absorbing=[END])
    cut_off = censored.last_states != END
    shares = follow_up(censored.lengths, cut_off, 12)
    by_hand = sum(
        share * policy_values(model, SURE, horizon=steps)[censored.states[:, 0]].mean()
        for steps, share in enumerate(shares)
        if steps
    )
    assert found["model-based"].value == pytest.approx(by_hand)


def test_follow_up_is_the_kaplan_meier_estimate_of_censoring():
    """Of scipy, with ends shortly before whoever is cut off at the same step."""
    rng = np.random.default_rng(1)
    seen, cut_off = rng.integers(1, 9, 200), rng.random(200) < 0.4
    cut_off[seen == 8] = False
    times = np.where(cut_off, seen, seen - 0.5)
    survival = ecdf(CensoredData(uncensored=times[cut_off], right=times[~cut_off])).sf
    shares = follow_up(seen, cut_off, 8)
    assert shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(1 - shares.cumsum()[:-1], survival.evaluate(np.arange(8)), atol=1e-12)
    assert follow_up(seen, np.zeros(200, bool), 8).tolist() == [0.0] * 8 + [1.0]


@pytest.mark.parametrize("others", [1, 4])
def test_the_policy_that_was_followed_brings_as_many_to_an_end_as_came_there_however_many_are_cut_off(others):
    """Whoever ended was not followed to the horizon: a process of one state, where half are followed for few steps."""
    rng, rows = np.random.default_rng(2), []
    for episode in range(2_000):
        for step in range(12 if episode % 2 else others):
            ends = rng.random() < 0.3
            rows.append((episode, step, 0, 0, 1 if ends else 0, float(ends)))
            if ends:
                break
    log = EpisodeLog.from_frame(frame_of(*rows), num_states=2, num_actions=1)
    cohort = Cohort(log, np.ones((2, 1)), absorbing=[1], horizon=12, posterior=Posterior(num_draws=0))
    came = int((log.last_states == 1).sum())
    ranking = cohort.rank(["gumbel-max"])
    assert ranking.fates.expected[0].number == pytest.approx(came, abs=3 * np.sqrt(2_000 * 0.25))
    assert abs(ranking.mean_effect.number) < 0.02
    assert abs(cohort.evaluate([], num_resamples=0)["model-based"].value - came / 2_000) < 0.02
    assert not ranking.effects["Gumbel-max"].any()


def test_steps_are_those_of_the_horizon_unless_an_episode_stops_elsewhere():
    log = EpisodeLog.from_frame(
        frame_of(
            ("ends", 0, 0, 0, END, 1.0),
            ("stops", 0, 0, 0, 1, 1.0),
            ("stops", 1, 1, 0, 0, 1.0),
            *(("lasts", step, 0, 0, 0, 1.0) for step in range(5)),
        ),
        num_states=NUM_STATES,
        num_actions=NUM_ACTIONS,
    )
    assert steps_compared(log, MDP.absorbing, 4).tolist() == [4, 2, 4]
    assert steps_compared(log, MDP.absorbing, 2).tolist() == [2, 2, 2]
    assert steps_compared(log, np.zeros(NUM_STATES, bool), 9).tolist() == [1, 2, 5]


def test_a_state_that_nobody_left_is_an_end_unless_told_otherwise():
    log = cut(some_episodes(MDP, 40, seed=5, horizon=6), np.full(40, 6))
    inner = log.select(np.flatnonzero(~((log.states[:, :-1] == 2) & log.mask).any(axis=1)))
    policy = np.full((NUM_STATES, NUM_ACTIONS), 0.5)
    unknown = Cohort(inner, policy, horizon=9).evaluate({}, num_resamples=0)
    known = Cohort(inner, policy, absorbing=[END], horizon=9).evaluate({}, num_resamples=0)
    assert known.num_censored - unknown.num_censored == (inner.last_states == 2).sum()


def test_every_estimate_is_of_the_policy_that_the_result_names():
    """Known behaviour, and a target that wants what nobody did: ratios and values of one and the same policy."""
    log = some_episodes(MDP, 300, seed=3)
    log = log.select(np.flatnonzero(~((log.states[:, :-1] == 1) & (log.actions == 1) & log.mask).any(axis=1)))
    target = np.array([[0.3, 0.7], [0.4, 0.6], [0.8, 0.2], [0.5, 0.5]])
    behaviour = np.full((NUM_STATES, NUM_ACTIONS), 0.5)
    found = Cohort(log, target, behaviour=behaviour).evaluate({}, num_resamples=0)
    model = estimate(log)
    within, _ = restricted(model, target)
    assert within[1].tolist() == [1, 0]
    np.testing.assert_array_equal(found.policy, within)
    ratios = importance_ratios(log, within, behaviour)
    sampled = importance_estimates(log, ratios, discount=1.0)
    assert [found[name].value for name in NO_MODEL] == pytest.approx(sampled[:3])
    for weighted, name in ((False, "doubly robust"), (True, "weighted doubly robust")):
        expected = doubly_robust(model, log, within, ratios, weighted=weighted)
        assert found[name].value == pytest.approx(expected)
    assert found.target == "the target policy among the actions that the model knows"
    assert any("the model knows no such action; every estimate is of the policy" in each for each in found.notes)
    assert f"of {found.target}," in found.summary()
    asked = Cohort(log, within, behaviour=behaviour).evaluate({}, num_resamples=0)
    assert asked.target == "the target policy"
    assert [each.value for each in asked.estimates] == [each.value for each in found.estimates]


def test_rows_that_a_cautious_model_leaves_out_do_not_stop_doubly_robust():
    log = some_episodes(MDP, 60, seed=3)
    counts = np.zeros((NUM_STATES, NUM_ACTIONS))
    np.add.at(counts, (log.steps().state, log.steps().action), 1)
    least = int(counts[:3].min()) + 1
    model = estimate(log, least_visits=least)
    within, left_out = restricted(model, np.full((NUM_STATES, NUM_ACTIONS), 0.5))
    assert left_out.any()
    ratios = importance_ratios(log, within, np.full((NUM_STATES, NUM_ACTIONS), 0.5))
    assert np.isfinite(doubly_robust(model, log, within, ratios))
    with pytest.raises(InputError, match="`mdp` must know every logged action that `target` can take"):
        doubly_robust(model, log, within, np.ones(log.actions.shape))


def nobody():
    """Both actions are known in both states, but nobody did what the target does in one after the other."""
    rows = []
    for episode in range(40):
        first = episode % 2
        rows += [(episode, 0, 0, first, 1, 0.0), (episode, 1, 1, 1 - first, 2, 1.0 + first)]
    return EpisodeLog.from_frame(frame_of(*rows))


def test_where_nobody_has_any_weight_there_is_no_number_but_a_reason():
    target = np.array([[1.0, 0], [1, 0], [1, 0]])
    found = Cohort(nobody(), target).evaluate(["gumbel-max"], num_resamples=5)
    names = "weighted importance sampling", "weighted per-decision importance sampling", "ordinary importance sampling"
    for name in names:
        assert found[name].value is None
        assert found[name].interval is None
        assert (
            found[name].reason
            == "no episode has a weight of 1e-300 or more: nobody did what the target policy would do"
        )
        assert f"{name}: no episode has a weight" in str(found)
    assert found["weighted doubly robust"].value == pytest.approx(found["model-based"].value)
    assert "nan" not in str(found)
    assert "NaN" not in found.to_json()
    assert json.loads(found.to_json())["estimates"][3]["value"] is None
    with pytest.raises(InputError, match="`policy` must give some episode a weight, but nobody did what"):
        Cohort(nobody(), target).returns()


def test_an_interval_is_refused_where_resamples_have_no_value():
    drawn = np.random.default_rng(0).normal(size=1000).tolist()
    interval, reason = student_interval(0.0, [*drawn, *[None] * 20], 0.95, 1e9)
    assert (interval.lower, interval.upper) == pytest.approx((-1.96, 1.96), abs=0.2)
    assert reason is None
    assert student_interval(0.0, [*drawn, *[None] * 40], 0.95, 1e9) == (
        None,
        "no interval: in 40 of 1040 resamples no episode has any weight",
    )
    few, _ = student_interval(0.0, drawn, 0.95, 5.0)
    assert few.width > 1.4 * interval.width
    assert student_interval(None, [None], 0.95, 5.0) == student_interval(1.0, [], 0.95, 5.0) == (None, None)
    skewed, _ = student_interval(0.0, np.random.default_rng(0).exponential(size=1000).tolist(), 0.95, 1e9)
    assert skewed.upper == pytest.approx(3.7, abs=0.4)
    assert skewed.lower < -1.8
