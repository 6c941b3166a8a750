"""Estimates are frequencies, and keep to what was seen."""

import numpy as np
import pytest
from processes import frame_of, random_log

from countermax import InputError
from countermax.mdp import EpisodeLog, estimate, estimate_policy
from countermax.mdp._estimation import visits


def test_estimates_are_frequencies_with_their_counts():
    frame = random_log(0)
    log = EpisodeLog.from_frame(frame, num_states=4, num_actions=2)
    mdp = estimate(log, absorbing=[3], discount=0.9)
    for (state, action), group in frame.groupby(["state", "action"]):
        expected = group.next_state.value_counts().sort_index()
        successors, probs = mdp.support(state, action)
        assert successors.tolist() == expected.index.tolist()
        np.testing.assert_allclose(probs, expected / len(group))
        assert mdp.counts[state, action, : len(successors)].tolist() == expected.tolist()
        means = group.groupby("next_state").reward.mean()
        np.testing.assert_allclose(mdp.rewards[state, action, : len(successors)], means)
    assert mdp.counts.sum() == len(frame) == visits(log).sum()
    starts = frame[frame.step == 0].state.value_counts(normalize=True)
    np.testing.assert_allclose(mdp.start[starts.index], starts)
    assert mdp.absorbing.tolist() == [False, False, False, True]
    taken = frame.groupby("state").action.mean()
    np.testing.assert_allclose(estimate_policy(log)[taken.index, 1], taken)


def test_what_was_never_seen_is_not_allowed_or_goes_where_it_is_sent():
    frame = frame_of(("a", 0, 0, 0, 1, 0.0), ("a", 1, 1, 1, 2, 1.0))
    log = EpisodeLog.from_frame(frame, num_states=5, num_actions=2)
    careful = estimate(log)
    assert careful.allowed.tolist() == [[True, False], [False, True], *[[True, True]] * 3]
    assert careful.absorbing.tolist() == [False, False, True, True, True]
    feared = estimate(log, absorbing=[2], unseen=4)
    assert feared.allowed.all()
    assert feared.absorbing.tolist() == [False, False, True, False, True]
    np.testing.assert_array_equal(feared.row(3, 0), np.eye(5)[4])
    np.testing.assert_array_equal(feared.row(0, 1), np.eye(5)[4])
    assert feared.counts.sum() == 2
    alone = estimate(log, unseen=4)  # who came to state 2, which nobody left, stays there
    assert alone.absorbing.tolist() == [False, False, True, False, True]
    assert alone.ends.tolist() == alone.absorbing.tolist()
    with pytest.raises(InputError, match="`least_visits` must be at least 1"):
        estimate(log, least_visits=0)
    with pytest.raises(InputError, match="episode a continues from state 1 at step 1"):
        estimate(log, absorbing=[1])


def test_rows_from_too_few_visits_do_not_count():
    log = EpisodeLog.from_frame(random_log(1), num_states=4, num_actions=2)
    seen = visits(log)
    least = int(np.median(seen[:3]))
    mdp = estimate(log, absorbing=[3], least_visits=least)
    often = seen >= least
    known = often.any(axis=1)
    np.testing.assert_array_equal(mdp.allowed[known], often[known])
    assert mdp.absorbing[~known].all()
    full = estimate(log, absorbing=[3])
    for state, action in np.argwhere(often).tolist():
        np.testing.assert_array_equal(mdp.row(state, action), full.row(state, action))
