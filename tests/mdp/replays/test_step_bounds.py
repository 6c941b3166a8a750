"""One step left open: within the bounds of the whole, and all of it where there is one step only."""

import numpy as np
from processes import MDP, POLICY, some_episodes

from countermax import GumbelMax
from countermax.mdp import Cohort

LOG = some_episodes(MDP, 12, seed=4)
ONE = LOG.select([int(LOG.lengths.argmax())])


def test_one_open_step_holds_the_value_and_lies_within_the_bounds_of_all():
    found = Cohort(ONE, POLICY, process=MDP)._model.step_bounds(GumbelMax())
    value = Cohort(ONE, POLICY, process=MDP).replay(GumbelMax()).values[0]
    assert (found.lower - 1e-12 <= value).all()
    assert (value <= found.upper + 1e-12).all()
    whole = Cohort(ONE, POLICY, process=MDP).bounds()
    assert (whole.lower[0] - 1e-9 <= found.lower).all()
    assert (found.upper <= whole.upper[0] + 1e-9).all()
    short = some_episodes(MDP, 8, seed=6, horizon=1)
    for episode in range(8):
        alone = short.select([episode])
        step, bounds = (
            Cohort(alone, POLICY, process=MDP)._model.step_bounds(GumbelMax()),
            Cohort(alone, POLICY, process=MDP).bounds(),
        )
        # With one step only, leaving that step open leaves everything open.
        np.testing.assert_allclose([step.lower[0], step.upper[0]], [bounds.lower[0], bounds.upper[0]], atol=1e-12)
