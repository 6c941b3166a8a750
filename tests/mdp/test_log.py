"""Logged episodes: frames in and out, padding, and what is wrong named by row and column."""

import numpy as np
import pandas as pd
import pytest
from processes import frame_of

from countermax import InputError
from countermax.mdp import EpisodeLog


def small_frame():
    return frame_of(("b", 0, 0, 1, 2, 0.5), ("b", 1, 2, 0, 1, -1.0), ("a", 0, 1, 1, 1, 0.0), ("a", 1, 1, 0, 3, 1.0))


def test_frames_and_logs_round_trip_whatever_the_order_of_rows():
    frame = small_frame()
    log = EpisodeLog.from_frame(frame.sample(frac=1, random_state=1), num_states=5)
    assert (len(log), log.num_steps, log.num_states, log.num_actions) == (2, 4, 5, 2)
    assert set(log.episodes) == {"a", "b"}
    again = log.to_frame().sort_values(["episode", "step"]).reset_index(drop=True)
    pd.testing.assert_frame_equal(again, frame.sort_values(["episode", "step"]).reset_index(drop=True))


def test_padding_repeats_the_last_state_and_earns_nothing():
    log = EpisodeLog.from_frame(frame_of(("a", 0, 0, 1, 2, 1.0), ("b", 0, 1, 1, 0, 2.0), ("b", 1, 0, 1, 1, 3.0)))
    assert log.states.tolist() == [[0, 2, 2], [1, 0, 1]]
    assert log.actions.tolist() == [[1, 0], [1, 1]]
    assert log.mask.tolist() == [[True, False], [True, True]]
    assert log.last_states.tolist() == [2, 1]
    np.testing.assert_allclose(log.returns(0.5), [1, 3.5])
    with pytest.raises(InputError, match="`discount` must be at least 0.0, got -1"):
        log.returns(-1.0)
    assert log.steps().next_state.tolist() == [2, 0, 1]
    assert log.select([1, 1, 0]).states.tolist() == [[1, 0, 1], [1, 0, 1], [0, 2, 2]]
    assert log.with_states([0, 1, 1], 2).states.tolist() == [[0, 1, 1], [1, 0, 1]]


def test_names_are_looked_up():
    frame = small_frame()
    frame["state"] = frame["state"].map(lambda index: "wxyz"[index])
    frame["next_state"] = frame["next_state"].map(lambda index: "wxyz"[index])
    log = EpisodeLog.from_frame(frame, state_names=list("wxyz"), action_names=[0, 1])
    np.testing.assert_array_equal(log.states, EpisodeLog.from_frame(small_frame()).states)
    frame.loc[2, "next_state"] = "v"
    with pytest.raises(
        InputError, match=r"row 2 \(episode a, step 0\): `next_state` must be one of 'w', 'x', 'y', 'z', got 'v'"
    ):
        EpisodeLog.from_frame(frame, state_names=list("wxyz"))


def with_cell(row, column, value):
    frame = small_frame().astype({column: object})
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (small_frame().drop(columns=["action", "reward"]), "lacks action, reward; it has 'episode', 'step'"),
        (small_frame().iloc[:0], "at least one step, got a frame without rows"),
        (with_cell(3, "next_state", 9), r"row 3 \(episode a, step 1\): `next_state` must lie in 0\.\.3, got 9"),
        (with_cell(0, "state", -1), r"row 0 \(episode b, step 0\): `state` must lie in 0\.\.3, got -1"),
        (with_cell(2, "action", 2), r"row 2 \(episode a, step 0\): `action` must lie in 0\.\.1, got 2"),
        (with_cell(2, "action", "yes"), r"row 2 .*`action` must hold whole numbers, or give `action_names`, got 'yes'"),
        (with_cell(2, "state", 1.5), r"row 2 .*`state` must hold whole numbers.* got 1\.5"),
        (with_cell(1, "reward", None), r"row 1 .*`reward` must hold finite numbers, got nothing"),
        (with_cell(1, "episode", None), r"row 1 .*`episode` must name an episode, got nothing"),
        (
            with_cell(1, "step", 2),
            r"row 1 \(episode b, step 2\): `step` must count 0, 1, 2, \.\.\. without a gap, got 2",
        ),
        (with_cell(1, "step", 0), r"row 1 .*`step` must be different in each row of an episode, got 0"),
        (small_frame().assign(step=lambda each: each.step + 2), "`step` must count from 0 or from 1, got 2"),
        (with_cell(1, "state", 3), r"row 1 \(episode b, step 1\): `state` must be where the step before it led \(2\)"),
    ],
)
def test_what_is_wrong_with_a_log_is_named_by_row_and_column(frame, message):
    with pytest.raises(InputError, match=message):
        EpisodeLog.from_frame(frame, num_states=4, num_actions=2)


@pytest.mark.usefixtures("as_users_call")
def test_empty_episodes_and_wrong_arrays_are_refused():
    good = {
        "states": np.zeros((2, 3), int),
        "actions": np.zeros((2, 2), int),
        "rewards": np.zeros((2, 2)),
        "lengths": np.array([2, 1]),
        "num_states": 2,
        "num_actions": 2,
    }
    EpisodeLog(**good)
    for change, message in (
        ({"lengths": np.array([2, 0])}, "no episode is empty, got 0 in episode 1"),
        ({"states": np.array([[0, 1, 2], [0, 0, 9]])}, r"`states` must lie in 0\.\.1, got 2 in episode 0, step 2"),
        ({"actions": np.array([[0, -1], [0, -1]])}, r"`actions` must lie in 0\.\.1, got -1 in episode 0, step 1"),
        (
            {"rewards": np.full((2, 2), np.nan)},
            "`rewards` must be finite, and lie within .*, got nan in episode 0, step 0",
        ),
        ({"states": np.zeros((2, 2), int)}, r"`states` must have shape \(2, 3\), got \(2, 2\)"),
    ):
        with pytest.raises(InputError, match=message):
            EpisodeLog(**good | change)
    with pytest.raises(InputError, match=r"`episodes` must lie in 0\.\.1, got 5"):
        EpisodeLog(**good).select([5])
