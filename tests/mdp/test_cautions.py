"""What is said beside the numbers: ends that nobody named, labels that look alike, actions that nobody took."""

import jax
import numpy as np
import pandas as pd
import pytest
from processes import frame_of

from countermax import GumbelMax, InputError
from countermax.mdp import Cohort, EpisodeLog, FiniteMDP, Posterior, estimate
from countermax.mdp._cautions import told_of_ends, told_of_labels, told_of_restriction, told_of_undone
from countermax.mdp._estimation import deterministic, restricted
from countermax.mdp._files import read_log_and_policy

STATES = ("dead", "home", "ill", "lost", "worse")
ACTIONS = ("treat", "wait")
KEY, GIVEN = jax.random.key(0), Posterior(num_draws=0)
TAKEN = (
    "Taken as ends, because nobody was seen to leave them: home (4 of 9 episodes), dead (3), lost (2). If that is "
    "wrong, name the ends with `absorbing`."
)
UNKNOWN = "Nothing is known beyond lost (2 of 9 episodes): whoever comes there, in any world, stays and earns nothing."


def _frame():
    rows = []
    for episode, last in enumerate(["home"] * 4 + ["dead"] * 3 + ["lost"] * 2):
        action = ACTIONS[episode % 2]
        rows.append((episode, 0, "ill", action, "worse", 0.0))
        if episode != 8:
            rows.append((episode, 1, "worse", "wait", "ill", 0.0))
            rows.append((episode, 2, "ill", action, last, float(last == "home")))
        else:
            rows.append((episode, 1, "worse", "wait", last, 0.0))
    return frame_of(*rows)


def _log(frame, actions=ACTIONS, states=STATES):
    return EpisodeLog.from_frame(frame, state_names=states, action_names=actions)


LOG = _log(_frame())
WAIT = deterministic([1] * 5, 2)


def _notes(model, log):
    cohort = Cohort(log, WAIT, process=model, posterior=GIVEN)
    yield cohort.replay(GumbelMax()).notes
    yield cohort.sample(GumbelMax(), num_samples=1).notes
    yield cohort.rank(["maximal"]).notes
    yield cohort.explain(0, couplings=["maximal"]).notes
    yield cohort.decisions(0).notes


def test_every_result_says_which_states_it_took_for_ends():
    for notes in _notes(estimate(LOG), LOG):
        assert notes.count(TAKEN) == 1
    evaluated = Cohort(LOG, WAIT).evaluate([], num_resamples=0)
    for result in (evaluated, Cohort(LOG, WAIT).returns()):
        assert result.notes.count(TAKEN) == 1
        assert "Taken as ends" in str(result)
        assert TAKEN in result.to_dict()["notes"]


def test_episodes_that_stop_beside_the_named_ends_are_censored():
    model = estimate(LOG, absorbing=[0, 1])
    assert model.absorbing[3]
    assert not model.ends[3]
    for notes in _notes(model, LOG):
        assert not any(note.startswith("Taken") for note in notes)
        assert notes.count(UNKNOWN) == 1
    replayed = Cohort(LOG, WAIT, process=model, horizon=5).replay(GumbelMax())
    np.testing.assert_array_equal(replayed.censored, LOG.last_states == 3)
    np.testing.assert_array_equal(replayed.steps, np.where(LOG.last_states == 3, LOG.lengths, 5))
    drawn = next(Posterior(num_draws=1).draws(model))
    np.testing.assert_array_equal(drawn.ends, model.ends)
    evaluated = Cohort(LOG, WAIT, absorbing=[0, 1], horizon=5).evaluate([], num_resamples=0)
    assert evaluated.num_censored == 2
    assert evaluated.notes.count(UNKNOWN) == 1


def test_ends_of_a_process_that_was_not_estimated_are_not_spoken_of():
    known = FiniteMDP.from_dense(np.full((2, 1, 2), 0.5), np.zeros((2, 1, 2)), start=[1, 0], absorbing=[1])
    assert known.never_left is None
    np.testing.assert_array_equal(known.ends, known.absorbing)
    assert told_of_ends(LOG, known.ends, None) == ()
    with pytest.raises(InputError, match="`never_left` must be among the absorbing states, but state 0 is not"):
        FiniteMDP(
            **{name: value for name, value in vars(known).items() if name != "never_left"},
            never_left=np.array([True, False]),
        )


@pytest.mark.parametrize("other", ["Wait", "wait ", "w ait", "ｗait", "wait\u200b"])
def test_actions_that_look_alike_are_named_with_how_often_they_occur(other):
    frame = _frame()
    frame.loc[0, "action"] = other
    log = _log(frame, ("treat", "wait", other))
    (told,) = told_of_labels(log)
    assert "(17 cells)" in told
    assert "(1 cell) are two actions: labels are compared letter by letter" in told
    policy = deterministic([1] * 5, 3)
    assert told in Cohort(log, policy, process=estimate(log)).replay(GumbelMax()).notes
    assert told in Cohort(log, policy).evaluate([], num_resamples=0).notes
    assert told in Cohort(log, policy).returns().notes


def test_states_that_look_alike_are_named_and_others_are_not():
    assert told_of_labels(LOG) == ()
    assert told_of_labels(EpisodeLog.from_frame(frame_of((0, 0, 0, 0, 1, 0.0)))) == ()
    frame = _frame()
    frame["next_state"] = frame["next_state"].replace("dead", "Home")
    log = _log(frame, states=("Home", *STATES[1:]))
    assert told_of_labels(log) == (
        "WARNING: 'Home' (3 cells) and 'home' (4 cells) are two states: labels are compared letter by letter. If they "
        "mean the same, write them alike.",
    )


def test_what_nobody_did_is_named_with_the_state_and_where_it_occurs_at_all():
    log = _log(_frame(), (*ACTIONS, "surgery"))
    wanted = deterministic([0, 0, 2, 0, 0], 3)
    assert told_of_undone(log, wanted) == "surgery in ill, treat in worse (surgery occurs nowhere in the log)"
    warned = Cohort(log, wanted).evaluate([], num_resamples=0).notes
    assert any(told_of_undone(log, wanted) in each for each in warned)
    model = estimate(log)
    assert told_of_restriction(model, log, wanted) == (
        "WARNING: your policy asks for what is not in the log: surgery in ill, treat in worse (surgery occurs nowhere "
        "in the log). In its place was used what was done there most often, treat in ill, wait in worse, so that this "
        "is not your policy.",
    )
    half = (deterministic([1] * 5, 3) + wanted) / 2
    (told,) = told_of_restriction(model, log, half)
    assert told.endswith("Where it asks for other actions as well, it was replaced by those.")
    assert told in Cohort(log, half).rank(["maximal"]).notes
    assert told_of_restriction(model, log, restricted(model, wanted)[0]) == ()


def test_a_state_that_a_policy_writes_another_way_is_named_beside_the_one_it_lacks(tmp_path):
    _frame().to_csv(tmp_path / "log.csv", index=False)
    decisions = pd.DataFrame({"state": ["Ill", "worse"], "action": ["wait", "wait"]})
    decisions.to_csv(tmp_path / "policy.csv", index=False)
    with pytest.raises(InputError, match="has none for 'ill'; 'Ill', 'ill' differ in how they are written"):
        read_log_and_policy(tmp_path / "log.csv", tmp_path / "policy.csv")


def test_many_are_counted_instead_of_named():
    rows = [(each, 0, f"s{each}", "a", f"t{each}", 0.0) for each in range(9)]
    names = [f"s{each}" for each in range(9)] + [f"t{each}" for each in range(9)]
    log = EpisodeLog.from_frame(pd.DataFrame(frame_of(*rows)), state_names=names, action_names=["a", "b"])
    policy = deterministic([1] * 18, 2)
    assert "s5 and 3 more (b occurs nowhere in the log)" in told_of_undone(log, policy)
    (told,) = told_of_ends(log, estimate(log).ends, estimate(log).never_left)
    assert "t0 (1 of 9 episodes), t1 (1), t2 (1), t3 (1), t4 (1), t5 (1) and 3 more" in told


def test_of_long_names_fewer_are_named():
    """A warning that comes before the answer stays short enough to be read."""
    rows = [(each, 0, f"{each} {'very ' * 9}ill", "a", "well", 0.0) for each in range(9)]
    names = [row[2] for row in rows] + ["well"]
    log = EpisodeLog.from_frame(pd.DataFrame(frame_of(*rows)), state_names=names, action_names=["a", "b"])
    told = told_of_undone(log, deterministic([1] * 10, 2))
    assert f"b in {names[1]} and 7 more" in told
    assert names[2] not in told


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ({"dead": 1.0, "home": 0.0}, "WARNING: higher is better, and dead is not the worst score."),
        ({"home": 1.0, "censored": 0.0}, "WARNING: censored counts as an end that is known."),
        ({"dead": -1.0, "home": 1.0}, "WARNING: the process is estimated from 2 episodes: read it as a guess."),
    ],
)
def test_a_score_that_was_turned_around_and_an_outcome_that_is_not_known_are_asked_about(scores, told):
    rows = [(end, 0, "ill", "wait", end, score) for end, score in scores.items()]
    frame = pd.DataFrame(rows, columns=["episode", "step", "state", "action", "next_state", "reward"])

    def warnings_of(some):
        policy = pd.DataFrame({"state": ["ill"], "action": ["wait"]})
        notes = Cohort(some, policy, posterior=Posterior(num_draws=0)).rank(["maximal"]).notes
        return [each for each in notes if each.startswith("WARNING")]

    assert any(each.startswith(told) for each in warnings_of(frame))
    many = pd.concat([frame.assign(episode=frame["episode"] + str(copy)) for copy in range(20)])
    usual = many.replace({"censored": "ward"}).assign(reward=(many["next_state"] == "home") * 1.0)
    assert warnings_of(usual) == []
