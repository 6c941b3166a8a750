"""Drawn trajectories against the exact law."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure
from processes import LOG, MDP, NUM_STATES, POLICY

from countermax import GumbelMax, InverseCDF
from countermax.mdp import Cohort


@pytest.mark.parametrize("coupling", [GumbelMax(), InverseCDF()], ids=lambda each: type(each).__name__)
def test_drawn_trajectories_follow_the_exact_law(coupling):
    """False-alarm level 1e-6 for all episodes together; two moments each."""
    log, num_samples = LOG.select([0, 1, 2]), 4000
    exact = Cohort(log, POLICY, process=MDP).replay(coupling, path=True)
    drawn = Cohort(log, POLICY, process=MDP).sample(coupling, num_samples=num_samples, seed=3)
    error = np.sqrt(exact.variances / num_samples)
    assert (np.abs(drawn.returns.mean(axis=1) - exact.values) <= 5.2 * error + 1e-12).all()
    shares = (drawn.states[:, :, :, None] == np.arange(NUM_STATES)).mean(axis=1)
    spread = np.sqrt(exact.path * (1 - exact.path) / num_samples)
    assert (np.abs(shares - exact.path) <= 5.7 * spread + 1e-12).all()


def test_a_seed_means_the_same_trajectories_whatever_the_default_precision():
    asked = {"num_samples": 50, "seed": 6}
    found = []
    for wide in (False, True):
        with jax.enable_x64(wide):
            found.append(Cohort(LOG, POLICY, process=MDP).sample(GumbelMax(), **asked))
    np.testing.assert_array_equal(found[0].states, found[1].states)
    np.testing.assert_array_equal(found[0].actions, found[1].actions)


def test_drawn_trajectories_show_themselves_in_every_form():
    drawn = Cohort(LOG, POLICY, process=MDP).sample(GumbelMax(), num_samples=5)
    frame = drawn.to_frame()
    of_episodes = frame[frame["about"].str.startswith("episode")]
    by = {each: part["value"].to_numpy() for each, part in of_episodes.groupby(["quantity", "coupling"])}
    np.testing.assert_allclose(by["return", "Gumbel-max"], drawn.returns.mean(axis=1))
    np.testing.assert_allclose(by["return", "observed"], LOG.returns(MDP.discount))
    np.testing.assert_allclose(by["return", "observed"] + by["effect", "Gumbel-max"], by["return", "Gumbel-max"])
    plain = json.loads(drawn.to_json())
    np.testing.assert_allclose(plain["returns"], drawn.returns)
    for word in ("6 episodes under the other policy, 5 draws each, by Gumbel-max", "discount 0.9"):
        assert word in str(drawn)
    assert str(drawn).count("The model is taken as given") == 1
    assert json.loads(replace(drawn, observed=np.full(len(LOG), np.nan)).to_json())["observed"][0] is None
    assert isinstance(drawn.plot(), Figure)
