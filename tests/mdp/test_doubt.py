"""Processes that a log could have come from, and what is said when the model is doubted."""

import json

import numpy as np
import pytest
from processes import MDP, NUM_STATES, POLICY, frame_of, some_episodes

from countermax import GumbelMax, InputError
from countermax.mdp import Doubt, EpisodeLog, estimate, rank_episodes, replay, single_decisions, trajectory_bounds
from countermax.mdp._estimation import deterministic
from countermax.mdp._process import MODEL_GIVEN

LOG = some_episodes(MDP, 60, seed=4)
MODEL = estimate(LOG, absorbing=MDP.absorbing, discount=0.9)
FEW = LOG.select(range(8))


def test_draws_have_the_moments_of_their_dirichlet_distribution():
    """With nothing unseen possible: mean n_j / n and variance m (1 - m) / (n + 1) in every row."""
    drawn = np.array([each.row(0, 0) for each in Doubt(num_resamples=400, prior="seen").processes(MODEL)])
    counts = np.zeros(NUM_STATES)
    np.add.at(counts, MODEL.successors[0, 0], MODEL.counts[0, 0])
    visits = counts.sum()
    mean = counts / visits
    variance = mean * (1 - mean) / (visits + 1)
    assert (np.abs(drawn.mean(axis=0) - mean) < 5 * np.sqrt(variance / 400) + 1e-12).all()  # 4 x 6e-7 false alarms
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.4, atol=1e-12)


def test_what_was_never_seen_may_happen_and_what_was_seen_must_stay_possible():
    some = FEW
    model = estimate(some, absorbing=MDP.absorbing)
    wider = 0
    for each in Doubt(num_resamples=30, strength=4.0).processes(model):
        wider += int(((each.probs > 0).sum(axis=2) > (model.probs > 0).sum(axis=2)).sum())
        for state, action in np.argwhere(model.allowed & ~model.absorbing[:, None]).tolist():
            assert (each.row(state, action)[model.support(state, action)[0]] > 0).all()
        np.testing.assert_array_equal(each.allowed, model.allowed)
        replay(each, some, np.where(model.allowed, 1, 0) / model.allowed.sum(axis=1, keepdims=True), GumbelMax())
    assert wider > 30
    assert all(
        ((each.probs > 0).sum(axis=2) == (model.probs > 0).sum(axis=2)).all()
        for each in Doubt(num_resamples=5, prior="seen").processes(model)
    )


def test_rows_that_nobody_visited_stay_as_the_model_has_them():
    model = estimate(FEW, absorbing=MDP.absorbing, unseen=3)
    unseen = np.argwhere((model.counts.sum(axis=2) == 0) & ~model.absorbing[:, None])
    if not len(unseen):
        model = estimate(FEW.select([0]), absorbing=MDP.absorbing, unseen=3)
        unseen = np.argwhere((model.counts.sum(axis=2) == 0) & ~model.absorbing[:, None])
    assert len(unseen)
    for each in Doubt(num_resamples=3).processes(model):
        for state, action in unseen:
            np.testing.assert_array_equal(each.row(int(state), int(action)), model.row(int(state), int(action)))


def test_the_strength_is_what_makes_the_counts_likeliest():
    """Rows that all follow one distribution deserve a strong belief, rows that have nothing in common a weak one."""
    from countermax.mdp._posterior import _believed

    random = np.random.default_rng(0)
    alike = random.multinomial(50, [0.4, 0.3, 0.2, 0.1], size=30).astype(float)
    apart = np.eye(4)[random.integers(0, 4, 30)] * 50
    state = np.repeat(np.arange(10), 3)
    assert _believed(alike, state, 10, None)[1] > 50 * _believed(apart, state, 10, None)[1]
    assert _believed(alike, state, 10, 3.0)[1] == 3


def test_other_data_and_other_couplings_are_told_apart_and_together():
    found = rank_episodes(MODEL, FEW, POLICY, doubt=Doubt(num_resamples=40, seed=1))
    assert set(found.intervals) == {"Gumbel-max", "inverse CDF"}
    again = np.array(
        [
            trajectory_bounds(each, FEW, POLICY).lower - found.observed
            for each in Doubt(num_resamples=40, seed=1).processes(MODEL)
        ]
    )
    np.testing.assert_allclose(found.doubted.lower, np.quantile(again, 0.025, axis=0), atol=1e-12)
    np.testing.assert_array_equal(found.robust, (found.bounds.lower > 1e-9) & (found.doubted.lower > 1e-9))
    frame = found.to_frame()
    assert {"effect_Gumbel-max_ci_lower", "effect_any_ci_lower", "effect_lower"} < set(frame.columns)
    plain = json.loads(found.to_json())
    assert plain["episodes"][0]["doubted"]["level"] == 0.95
    assert "with 95% confidence in the model too" in repr(found)
    for word in ("other data", "40 processes that the log could have come from", "what the states hide"):
        assert word in str(found)
    assert MODEL_GIVEN not in str(found)
    labels = [each.get_text() for each in found.plot().legends[0].get_texts()]
    assert "any coupling, other data" in labels


def test_a_known_process_is_not_doubted_unless_asked():
    found = rank_episodes(MDP, FEW, POLICY)
    assert found.doubted is None
    assert "if the model is right" in repr(found)
    assert MODEL_GIVEN in str(found)
    with pytest.raises(InputError, match="`mdp` must have counts to be doubted"):
        rank_episodes(MDP, FEW, POLICY, doubt=Doubt())


def test_single_decisions_have_visits_and_intervals():
    one = LOG.select([int(LOG.lengths.argmax())])
    found = single_decisions(MODEL, one, GumbelMax(), doubt=Doubt(num_resamples=30))
    visits = MODEL.counts.sum(axis=2)
    for each in found:
        assert each.visits == visits[each.state, each.other_action]
        assert each.doubted.lower <= each.interval.lower <= each.interval.upper <= each.doubted.upper
        assert each.robust == (min(each.effect_bounds.lower, each.doubted.lower) > 1e-9)
    assert "visits" in str(found)
    assert {"visits", "robust", "effect_ci_lower", "effect_any_ci_upper"} < set(found.to_frame().columns)
    assert found.plot() is not None


def test_a_replay_can_be_doubted():
    found = replay(MODEL, FEW, POLICY, GumbelMax(), doubt=Doubt(num_resamples=20))
    assert found.interval.lower.shape == (8,)
    assert {"effect_ci_lower", "effect_ci_upper"} < set(found.to_frame().columns)
    assert "effect_ci_lower" in found.to_dict()["episodes"][0]
    plain = replay(MODEL, FEW, POLICY, GumbelMax())
    assert plain.interval is None
    assert MODEL_GIVEN in plain.notes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_resamples": -1}, "`num_resamples` must be at least 0"),
        ({"prior": "flat"}, "`prior` must be one of pooled, seen, got 'flat'"),
        ({"strength": -1.0}, "`strength` must lie in"),
        ({"level": 1.5}, "`level` must lie between 0 and 1"),
        ({"seed": -1}, "`seed` must be a whole number"),
    ],
)
def test_bad_doubts_are_named(options, message):
    with pytest.raises(InputError, match=message):
        Doubt(**options)


def test_more_data_leave_less_doubt():
    some, many = (estimate(some_episodes(MDP, count, seed=2), absorbing=MDP.absorbing) for count in (60, 6000))
    log = some_episodes(MDP, 60, seed=2).select(range(5))
    widths = [
        replay(each, log, POLICY, GumbelMax(), doubt=Doubt(num_resamples=30)).interval.width for each in (some, many)
    ]
    assert (widths[1] < 0.5 * widths[0] + 1e-9).all()


def test_drawn_rows_lead_to_one_state_of_each_name():
    """Treatments in force are part of a state, and follow from the action: no action leads to the flags of another."""
    rng = np.random.default_rng(0)
    rows = []
    for episode in range(60):
        state = 0
        for step in range(3):
            action, ill = int(rng.integers(2)), int(rng.random() < 0.5)
            rows.append((episode, step, state, action, 2 * ill + action, 1.0))
            state = 2 * ill + action
    log = EpisodeLog.from_frame(frame_of(*rows))
    model, labels = estimate(log), [0, 0, 1, 1]
    drawn = list(Doubt(num_resamples=3).processes(model, labels))
    for process in drawn:
        state, action, slot = np.nonzero(process.probs)
        assert (process.successors[state, action, slot] % 2 == action).all()
    ranking = rank_episodes(
        model, log, deterministic([0] * 4, 2), outcomes=labels, doubt=Doubt(num_resamples=3), progress=False
    )
    assert ranking.doubted is not None
