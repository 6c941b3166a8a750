"""One step left open: within the bounds of the whole, and all of it where there is one step only."""

import numpy as np
import pytest
from processes import MDP, POLICY, some_episodes

from countermax import GumbelMax, InputError
from countermax.mdp import replay, trajectory_bounds
from countermax.mdp.replays import step_bounds

LOG = some_episodes(MDP, 12, seed=4)
ONE = LOG.select([int(LOG.lengths.argmax())])


def test_one_open_step_holds_the_value_and_lies_within_the_bounds_of_all():
    found = step_bounds(MDP, ONE, POLICY, GumbelMax())
    value = replay(MDP, ONE, POLICY, GumbelMax()).values[0]
    assert (found.lower - 1e-12 <= value).all()
    assert (value <= found.upper + 1e-12).all()
    whole = trajectory_bounds(MDP, ONE, POLICY)
    assert (whole.lower[0] - 1e-9 <= found.lower).all()
    assert (found.upper <= whole.upper[0] + 1e-9).all()
    short = some_episodes(MDP, 8, seed=6, horizon=1)
    for episode in range(8):
        alone = short.select([episode])
        step, bounds = step_bounds(MDP, alone, POLICY, GumbelMax()), trajectory_bounds(MDP, alone, POLICY)
        # With one step only, leaving that step open leaves everything open.
        np.testing.assert_allclose([step.lower[0], step.upper[0]], [bounds.lower[0], bounds.upper[0]], atol=1e-12)
    with pytest.raises(InputError, match="must hold one episode"):
        step_bounds(MDP, LOG, POLICY, GumbelMax())
