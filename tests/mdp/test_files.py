"""Logs and policies from files: indices and names by one rule, and bad files named by their place."""

import csv
import io

import numpy as np
import pandas as pd
import pyarrow
import pytest
from processes import ACTIONS, MDP, NUM_ACTIONS, NUM_STATES, STATES, some_episodes, steps_and_decisions, write_frames

from countermax import InputError
from countermax.mdp import Cohort, EpisodeLog, StepsFile
from countermax.mdp._files import policy_from_frame, read_log, read_log_and_policy

LOG = some_episodes(MDP, 60, seed=8)
POLICY = np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0], [0.5, 0.5]])


@pytest.fixture
def files(tmp_path):
    return write_frames(steps_and_decisions(LOG, POLICY, names=True), tmp_path)


def test_names_and_indices_are_read_alike(files, tmp_path):
    named = read_log_and_policy(*files)
    indexed = read_log_and_policy(*write_frames(steps_and_decisions(LOG, POLICY), tmp_path))
    order = [named.log.state_names.index(name) for name in STATES]
    np.testing.assert_array_equal(np.array(order)[indexed.log.states], named.log.states)
    actions = [named.log.action_names.index(name) for name in ACTIONS]
    np.testing.assert_allclose(named.policy[np.ix_(order, actions)], indexed.policy)
    assert indexed.policy.shape == (NUM_STATES, NUM_ACTIONS)


def test_a_policy_without_probabilities_is_certain(tmp_path):
    steps, _ = steps_and_decisions(LOG, POLICY)
    steps.to_csv(tmp_path / "steps.csv", index=False)
    pd.DataFrame({"state": [0, 1, 2], "action": [1, 0, 1]}).to_csv(tmp_path / "policy.csv", index=False)
    read = read_log_and_policy(tmp_path / "steps.csv", tmp_path / "policy.csv")
    np.testing.assert_array_equal(read.policy[:3], np.eye(2)[[1, 0, 1]])


def test_only_an_empty_cell_is_missing(tmp_path, as_users_call):
    steps, decisions = steps_and_decisions(LOG, POLICY, names=True)
    called = {"wait": "None", "treat": "NA"}
    assert set(called) == set(ACTIONS)
    renamed = [each.assign(action=each["action"].map(called)) for each in (steps, decisions)]
    read = read_log_and_policy(*write_frames(renamed, tmp_path))
    assert set(read.log.action_names) == {"None", "NA"}
    steps.loc[3, "action"] = ""
    with pytest.raises(InputError, match=r"row 3 .*`action` must not be missing, got nothing"):
        read_log_and_policy(*write_frames((steps, decisions), tmp_path))


def test_parquet_logs_are_read_like_csv_ones(files, tmp_path):
    paths = tmp_path / "steps.parquet", tmp_path / "policy.parquet"
    for frame, path in zip(steps_and_decisions(LOG, POLICY, names=True), paths, strict=True):
        frame.to_parquet(path)
    from_csv, from_parquet = read_log_and_policy(*files), read_log_and_policy(*paths)
    assert np.array_equal(from_csv.log.states, from_parquet.log.states)
    assert np.array_equal(from_csv.policy, from_parquet.policy)
    paths[0].write_bytes(b"PAR1 but not really")
    with pytest.raises(InputError, match=r"cannot read .*steps\.parquet"):
        read_log_and_policy(*paths)


def test_numbers_beside_names_are_names_in_both_files(tmp_path):
    """The log counts its states; the policy has one more, which is called by a word. 10 must not become 2."""
    size = 12
    steps = pd.DataFrame(
        {"episode": 0, "step": range(size - 1), "state": range(size - 1), "action": 0, "next_state": range(1, size)}
    ).assign(reward=0.0)
    decisions = pd.DataFrame({"state": [*map(str, range(size)), "home"], "action": 0})
    read = read_log_and_policy(*write_frames((steps, decisions), tmp_path))
    assert [read.log.state_names[state] for state in read.log.states[0]] == [str(state) for state in range(size)]
    assert read.policy.shape == (size + 1, 1)


def test_a_policy_is_by_name_where_its_log_is_and_else_by_index():
    named = EpisodeLog.from_frame(
        steps_and_decisions(LOG, POLICY, names=True)[0], state_names=STATES, action_names=ACTIONS
    )
    for log, names in ((named, True), (LOG, False)):
        found = policy_from_frame(steps_and_decisions(LOG, POLICY, names=names)[1], log)
        np.testing.assert_allclose(found[:3], POLICY[:3])
    _, unknown = steps_and_decisions(LOG, POLICY)
    with pytest.raises(InputError, match=r"row 5: `state` must lie in 0\.\.3, got 7"):
        policy_from_frame(unknown.assign(state=[0, 0, 1, 1, 2, 7]), LOG)


def test_names_may_be_longer_than_what_another_reader_in_this_process_allows(tmp_path):
    name = "s" * 200_000
    (tmp_path / "log.csv").write_text(f"episode,step,state,action,next_state,reward\n1,0,{name},go,end,1\n")
    (tmp_path / "policy.csv").write_text(f"state,action\n{name},go\nend,go\n")
    before = csv.field_size_limit(100)
    try:
        read = read_log_and_policy(tmp_path / "log.csv", tmp_path / "policy.csv")
        assert csv.field_size_limit() == 100
    finally:
        csv.field_size_limit(before)
    assert name in read.log.state_names


ROWS = """patient,day,state,action,status
ann,1,ward,oral,home
ann,3.5,worse,iv,home
bob,0,ward,oral,dead
bob,2,ward,iv,dead
"""


def test_columns_go_by_their_own_names_and_what_follows_from_others_is_made(tmp_path):
    (tmp_path / "steps.csv").write_text(ROWS)
    (tmp_path / "policy.csv").write_text("state,action\nward,iv\nworse,iv\n")
    called = {"episode": "patient", "time": "day", "outcome": "status"}
    path, policy = tmp_path / "steps.csv", tmp_path / "policy.csv"
    steps = StepsFile(path, columns=called, score={"home": 1, "dead": 0})
    log, _ = read_log_and_policy(steps, policy)
    plain = log.to_frame()
    assert plain[["episode", "step"]].values.tolist() == [["ann", 0], ["ann", 1], ["bob", 0], ["bob", 1]]
    assert plain["next_state"].tolist() == ["worse", "home", "ward", "dead"]
    assert plain["reward"].tolist() == [0, 1, 0, 0]
    cohort = Cohort(steps, policy)
    np.testing.assert_array_equal(cohort.log.states, log.states)
    with pytest.raises(InputError, match="`score` must have a number for each final outcome, but has none for dead"):
        read_log_and_policy(StepsFile(path, columns=called, score={"home": 1}), policy)
    with pytest.raises(
        InputError,
        match=r"no column `reward`: give `score`, e.g. score=\{'alive': 1, 'dead': 0\} \(on the command line `--score",
    ):
        read_log_and_policy(StepsFile(path, columns=called), policy)
    with pytest.raises(InputError, match="`columns` must map columns of a log .*got 'patient'"):
        read_log_and_policy(StepsFile(path, columns={"patient": "episode"}), policy)
    with pytest.raises(InputError, match="`policy` must name states and actions, as a file, a dataframe or {state: ac"):
        Cohort(steps, np.full((log.num_states, log.num_actions), 0.5))


def test_a_policy_that_asks_for_what_is_not_in_the_log_is_warned_of_before_the_answer(tmp_path):
    (tmp_path / "steps.csv").write_text(ROWS)
    (tmp_path / "policy.csv").write_text("state,action\nward,surgery\nworse,iv\n")
    called = {"episode": "patient", "time": "day", "outcome": "status"}
    steps = StepsFile(tmp_path / "steps.csv", columns=called, score={"home": 1, "dead": 0})
    cohort = Cohort(steps, tmp_path / "policy.csv")
    for found in (cohort.rank(["maximal"]), cohort.replay("maximal"), cohort.explain("ann")):
        assert found.summary().startswith("WARNING: your policy asks for what is not in the log: surgery in ward")
        assert str(found).count("WARNING: your policy") == 1


VISITS = "patient,day,state,action,status\nann,0,ward,oral,dead\nann,1,worse,oral,dead\nbob,0,ward,iv,home\n"
CALLED = {"episode": "patient", "time": "day", "outcome": "status"}


def test_an_episode_without_an_outcome_is_censored_where_it_was_last_seen(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text(VISITS + "cy,0,ward,iv,\ncy,1,worse,iv,\ncy,2,ward,oral,\n")
    log = read_log(StepsFile(path, CALLED, {"home": 1, "dead": 0}))
    names = [
        [log.state_names[state] for state in row[: length + 1]]
        for row, length in zip(log.states, log.lengths, strict=True)
    ]
    assert names == [["ward", "worse", "dead"], ["ward", "home"], ["ward", "worse", "ward"]]
    assert log.rewards.sum(axis=1).tolist() == [0, 1, 0]
    assert log.notes == (
        "1 episode has no outcome: its last row says where the patient was seen last, and what was done there is not "
        "counted.",
    )
    path.write_text(VISITS + "cy,0,ward,iv,\n")
    log = read_log(StepsFile(path, CALLED, {"home": 1, "dead": 0}))
    assert log.names == ("ann", "bob")
    left_out = "Left out: 1 episode ('cy') of one row and without an outcome, so that no step is known."
    assert log.notes == (left_out,)
    assert left_out in Cohort(StepsFile(path, CALLED, {"home": 1, "dead": 0})).rank(["maximal"]).notes
    path.write_text("patient,day,state,action,status\ncy,0,ward,iv,\n")
    with pytest.raises(InputError, match="`outcome` must be known of some episode, .*: no step is known"):
        read_log(StepsFile(path, CALLED, {"home": 1, "dead": 0}))


def test_a_dataframe_is_read_as_the_same_file_would_be(tmp_path):
    """Of pandas, of polars, with a policy that is a file or a dataframe, beside a log that was read already."""
    (tmp_path / "steps.csv").write_text(VISITS)
    (tmp_path / "policy.csv").write_text("state,action\nward,iv\nworse,iv\n")
    frame, policy = pd.read_csv(tmp_path / "steps.csv"), pd.read_csv(tmp_path / "policy.csv")
    score = {"home": 1, "dead": 0}
    wanted = Cohort(StepsFile(tmp_path / "steps.csv", CALLED, score), tmp_path / "policy.csv")
    plain = wanted.log.to_frame()
    for log, chosen in (
        (StepsFile(frame, CALLED, score), policy),
        (StepsFile(pyarrow.Table.from_pandas(frame), CALLED, score), tmp_path / "policy.csv"),
        (StepsFile(tmp_path / "steps.csv", CALLED, score), policy),
        (plain, policy),
        (plain, {"ward": "iv", "worse": "iv"}),
        (wanted.log, {"ward": "iv", "worse": {"iv": 1.0}}),
        (wanted.log, policy),
        (wanted.log, tmp_path / "policy.csv"),
    ):
        found = Cohort(log, chosen)
        np.testing.assert_array_equal(found.policy, wanted.policy)
        assert found.log.to_frame().equals(plain)
    with pytest.raises(InputError, match="the policy must have the columns state, action"):
        Cohort(plain, policy[["state"]])


def test_what_is_wrong_with_a_dataframe_is_said_in_words_that_help():
    frame = pd.read_csv(io.StringIO(VISITS))
    score = {"home": 1, "dead": 0}

    def told(changed, called=CALLED, score=score):
        with pytest.raises(InputError) as caught:
            read_log(StepsFile(changed, called, score))
        return str(caught.value)

    again = told(pd.concat([frame, frame.iloc[:2]], ignore_index=True))
    assert "but is 0.0 as in row 0 (episode ann); 2 such rows, all repeated in full: drop_duplicates()" in again
    assert "got 'patient': episode=patient, the other way round" in told(frame, {"patient": "episode"})
    unknown = told(frame.assign(action=[None, "oral", None]))
    assert (
        "row 0 (episode ann, step 0): `action` must not be missing, got nothing; 2 such rows, in 2 episodes" in unknown
    )
    assert "`score['home']` must be" in told(frame, score={"home": "good", "dead": 0})
    wide = told(pd.DataFrame({"patient": ["ann"], "state_0": ["ward"], "state_1": ["worse"]}), {"episode": "patient"})
    assert "a row for each step is needed: pandas.wide_to_long" in wide
    assert "dates are read as 2026-01-31 08:00" in told(frame.assign(day="31.01.2026 08:00"))


def test_dates_are_hours_since_an_episode_began():
    frame = pd.read_csv(io.StringIO(VISITS))
    for start in ("2026-01-01 08:00", pd.Timestamp("2026-01-01 08:00")):
        dates = pd.Timestamp(start) + pd.to_timedelta(6 * frame["day"], unit="h")
        if isinstance(start, str):
            dates = dates.dt.strftime("%Y-%m-%d %H:%M")
        log = read_log(StepsFile(frame.assign(day=dates), CALLED, {"home": 1, "dead": 0}))
        assert log.clock.times.values[0].tolist() == [0, 6]
        assert (log.when(0, 1), log.clock.times.unit) == ("hour 6", "hour")


def test_states_of_a_policy_where_nobody_was_are_told(tmp_path):
    frame = pd.read_csv(io.StringIO(VISITS))
    policy = pd.DataFrame({"state": ["ward", "worse", "shock"], "action": "iv"})
    cohort = Cohort(StepsFile(frame, CALLED, {"home": 1, "dead": 0}), policy)
    assert "The policy also speaks of 'shock', where nobody was." in cohort.rank(["maximal"]).notes


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("bob,0,ward,iv,home\n", "`time` must be different in each row of an episode"),
        ("bob,1,worse,iv,dead\n", "`outcome` must be the same in all rows of an episode, or empty"),
    ],
)
def test_rows_that_contradict_each_other_are_refused(tmp_path, more, words):
    path = tmp_path / "visits.csv"
    path.write_text(VISITS + more)
    with pytest.raises(InputError, match=words):
        read_log(StepsFile(path, CALLED, {"home": 1, "dead": 0}))


def test_misspelt_columns_and_states_are_named(tmp_path):
    path, policy = tmp_path / "visits.csv", tmp_path / "policy.csv"
    path.write_text(VISITS.replace("state", "condition"))
    called = {**CALLED, "state": "condtion"}
    with pytest.raises(InputError, match="`columns` calls state 'condtion', but the columns are 'patient', 'day'"):
        read_log(StepsFile(path, called, {"home": 1, "dead": 0}))
    file = StepsFile(path, called | {"state": "condition"}, {"home": 1, "dead": 0})
    policy.write_text("condition,action\nward,iv\nwrose,iv\n")  # called as in the log
    with pytest.raises(InputError, match="in which the log acts, but has none for 'worse'; the log has no 'wrose'"):
        read_log_and_policy(file, policy)
    policy.write_text("condition,action\nward,iv\nworse,iv\n")
    assert read_log_and_policy(file, policy).policy.shape == (4, 2)


def test_steps_that_count_from_one_are_told_by_their_own_numbers(tmp_path):
    path, policy = tmp_path / "visits.csv", tmp_path / "policy.csv"
    path.write_text(
        "episode,day,state,action,outcome\nann,1,ward,oral,dead\nann,2,worse,oral,dead\nbob,1,ward,iv,home\n"
    )
    policy.write_text("state,action\nward,iv\nworse,oral\n")
    story = Cohort(StepsFile(path, {"step": "day"}, {"home": 1, "dead": 0}), policy).explain("ann")
    assert "day 1 ward (oral), 2 worse (oral)" in story.summary()
    assert story.record.when(0) == "day 1"
