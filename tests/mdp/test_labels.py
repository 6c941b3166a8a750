"""States, actions and episodes are labels: in frames the value, in files the exact text; never a position instead."""

import numpy as np
import pandas as pd
import pytest

from countermax import InputError
from countermax.mdp import EpisodeLog
from countermax.mdp._files import policy_from_frame, read_log_and_policy, read_policy
from countermax.mdp._importance import importance_estimates, importance_ratios

NUM_STATES = 12
AS_TEXT = sorted(map(str, range(NUM_STATES)))  # "10" before "2"


def chain_and_its_policy(label):
    """Episodes of reward 1, beside the very policy that they were made with, so that any estimate must say 1."""
    rng = np.random.default_rng(0)
    chances = rng.uniform(0.1, 0.9, NUM_STATES)
    steps = [(each, 0, state, state < 6, 0, 1.0) for each, state in enumerate(range(1, NUM_STATES))]
    log = pd.DataFrame(steps, columns=["episode", "step", "state", "action", "next_state", "reward"])
    decisions = pd.DataFrame(
        [
            (state, action, chance)
            for state, treated in enumerate(chances)
            for action, chance in enumerate((1 - treated, treated))
        ],
        columns=["state", "action", "probability"],
    )
    for frame in (log, decisions):
        frame["action"] = frame["action"].astype(int)
        for column in frame.columns.intersection(["state", "next_state"]):
            frame[column] = [label(state) for state in frame[column]]
    behaviour = np.stack([1 - chances, chances], axis=1)
    return log, decisions, behaviour


def importance_sampling(log, target, behaviour):
    return importance_estimates(log, importance_ratios(log, target, behaviour), discount=1.0).ordinary


@pytest.mark.parametrize(
    ("label", "names"),
    [
        (str, AS_TEXT),
        (int, [int(name) for name in AS_TEXT]),
        (float, [int(name) for name in AS_TEXT]),
        (np.int32, [float(name) for name in AS_TEXT]),
    ],
)
def test_importance_sampling_of_a_logs_own_policy_is_its_return_in_whatever_order_names_are(label, names):
    frame, decisions, behaviour = chain_and_its_policy(label)
    log = EpisodeLog.from_frame(frame, state_names=names, num_actions=2)
    order = [int(name) for name in names]
    target = policy_from_frame(decisions, log)
    np.testing.assert_allclose(target, behaviour[order])
    assert importance_sampling(log, target, behaviour[order]) == pytest.approx(1.0)
    pd.testing.assert_frame_equal(log.to_frame(), frame, check_dtype=False)


def test_numbers_beside_names_in_words_are_refused_not_taken_for_positions():
    frame, decisions, _ = chain_and_its_policy(int)
    with pytest.raises(InputError, match=r"`state` must be one of '0', '1', '10', .*, got 1; a number is no name"):
        EpisodeLog.from_frame(frame, state_names=AS_TEXT)
    named = EpisodeLog.from_frame(chain_and_its_policy(str)[0], state_names=AS_TEXT, num_actions=2)
    with pytest.raises(InputError, match="`state` must be one of .*, got 0; a number is no name, and no position"):
        policy_from_frame(decisions, named)


def test_text_beside_numbers_and_text_without_names_are_refused():
    frame, _, _ = chain_and_its_policy("{:02}".format)
    with pytest.raises(InputError, match=r"`state` must be one of 0, 1, .*, got '01'; 1 is a label, but a number"):
        EpisodeLog.from_frame(frame, state_names=range(NUM_STATES))
    with pytest.raises(InputError, match="`state` must hold whole numbers, or give `state_names`, got '01'"):
        EpisodeLog.from_frame(frame)
    with pytest.raises(InputError, match="`action` must hold whole numbers, or give `action_names`, got True"):
        EpisodeLog.from_frame(chain_and_its_policy(int)[0].assign(action=True))
    boolean = EpisodeLog.from_frame(chain_and_its_policy(int)[0].assign(action=True), action_names=[False, True])
    assert (boolean.actions == 1).all()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("home", [True, False])
def test_files_are_read_by_the_same_rule_whether_or_not_a_word_is_among_the_numbers(suffix, home, tmp_path):
    frame, decisions, behaviour = chain_and_its_policy(str if home or suffix == "csv" else int)
    if home:
        decisions = pd.concat([decisions, pd.DataFrame({"state": ["home"], "action": [1], "probability": [1.0]})])
    read = read_log_and_policy(*written((frame, decisions), tmp_path, suffix))
    assert [str(name) for name in read.log.state_names] == [*map(str, range(NUM_STATES)), *["home"] * home]
    behaviour = np.append(behaviour, np.full((int(home), 2), 0.5), axis=0)
    assert importance_sampling(read.log, read.policy, behaviour) == pytest.approx(1.0)


def written(frames, folder, suffix):
    paths = [folder / f"{name}.{suffix}" for name in ("steps", "policy")]
    for frame, path in zip(frames, paths, strict=True):
        if suffix == "csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_parquet(path)
    return paths


def test_in_csv_a_name_is_the_exact_text_of_its_cell(tmp_path):
    """`01`, `1`, `1.0`, ` 1` and `1e0` are five states, and so are `None`, `nan`, `NA`, `null` and `True`."""
    names = ["01", "1", "1.0", " 1", "1e0", "None", "nan", "NA", "null", "True", "true", "12345678901234567890"]
    rows = [f"{name},0,{name},None,{name},0" for name in names]
    log, policy = tmp_path / "steps.csv", tmp_path / "policy.csv"
    log.write_text("\n".join(["episode,step,state,action,next_state,reward", *rows]))
    policy.write_text("\n".join(["state,action", *(f"{name},{name}" for name in names)]))
    read = read_log_and_policy(log, policy)
    assert sorted(read.log.state_names) == sorted(names)
    assert read.log.episodes == tuple(names)
    assert set(read.log.action_names) == {*names, "None"}
    for place, state in enumerate(read.log.state_names):
        assert read.log.action_names[int(read.policy[place].argmax())] == state


def test_names_may_be_given_in_another_order_and_more_than_occur(tmp_path):
    frame, decisions, behaviour = chain_and_its_policy(str)
    paths = written((frame, decisions), tmp_path, "csv")
    names = ["nowhere", *AS_TEXT]
    log = EpisodeLog.from_frame(pd.read_csv(paths[0], dtype=str), state_names=names, action_names=["1", "0"])
    assert log.state_names == tuple(names)
    np.testing.assert_allclose(read_policy(paths[1], log)[1:, ::-1], behaviour[[int(name) for name in AS_TEXT]])
    with pytest.raises(InputError, match=r"row 0 .*`state` must be one of 0, .*, got '1'; 1 is a label, but"):
        EpisodeLog.from_frame(pd.read_csv(paths[0], dtype=str), state_names=range(NUM_STATES))


def test_a_text_in_one_file_and_a_number_in_the_other_are_refused(tmp_path):
    frame, decisions, _ = chain_and_its_policy(int)
    log = written((frame, decisions), tmp_path, "parquet")[0]
    policy = written((frame, decisions), tmp_path, "csv")[1]
    with pytest.raises(
        InputError, match=r"one kind, got 1 in the log .*steps\.parquet beside '0' in the policy .*csv, and"
    ):
        read_log_and_policy(log, policy)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_only_what_is_missing_is_missing(missing):
    frame, _, _ = chain_and_its_policy(str)
    called = frame.assign(action=["None", "nan", "NA", "NaT", "<NA>", "null", "N/A", "", "none", "-", "NaN"])
    log = EpisodeLog.from_frame(called, state_names=AS_TEXT, action_names=tuple(called["action"]))
    assert log.actions[:, 0].tolist() == list(range(11))
    called.loc[4, "action"] = missing
    with pytest.raises(InputError, match=r"row 4 .*`action` must not be missing, got nothing"):
        EpisodeLog.from_frame(called, state_names=AS_TEXT, action_names=tuple(frame["action"].unique()))


@pytest.mark.usefixtures("as_users_call")
def test_names_that_are_no_names_are_refused():
    frame, _, _ = chain_and_its_policy(int)
    for names, message in (
        ([*range(11), 10.0], "`state_names` must hold 12 different names, got 11 in 12"),
        ([*range(11)], "`state_names` must hold 12 different names, got 11 in 11"),
        ([*range(11), None], "`state_names` must not be missing"),
        ([*range(11), [1]], "`state_names` must be a list of names"),
        (7, "`state_names` must be a list of names, got 7"),
        ([], "`state_names` must hold"),
    ):
        with pytest.raises(InputError, match=message):
            EpisodeLog.from_frame(frame, state_names=names, num_states=12)
    with pytest.raises(InputError, match=r"`state` must hold numbers or text, got \[1\]"):
        EpisodeLog.from_frame(frame.assign(state=[[1]] * 11), state_names=range(12))
