"""The trajectory experiments: exact against draws on sepsis, and documents that show what is stored."""

from pathlib import Path

import jax
import numpy as np
import pytest

from countermax import GumbelMax
from countermax.experiments._trajectory_tables import tables
from countermax.experiments.trajectories import cautious_policy, sepsis_log
from countermax.mdp import replay, sample_replay, sepsis

ROOT = Path(__file__).parent.parent
STORED = ROOT / "results/trajectories"


def test_exact_answers_on_sepsis_are_those_of_draws():
    """False-alarm level 1e-6 for the mean over patients, and for each of twenty patients."""
    log, model, _ = sepsis_log(faithful=False, num_episodes=200, seed=0)
    policy, labels = cautious_policy(log, model, least_visits=5), sepsis.projected_outcomes()
    some = log.select(np.arange(20))
    exact = replay(model, some, policy, GumbelMax(), outcomes=labels, discount=1.0)
    drawn = sample_replay(
        model, some, policy, GumbelMax(), num_samples=400, outcomes=labels, discount=1.0, key=jax.random.key(1)
    )
    # Returns lie in [-1, 1], so Bernstein's inequality holds whatever their law: each mean is off by more than this
    # with probability 1e-6 / 42 at most.
    log_term = np.log(2 * 42 / 1e-6)
    allowed = np.sqrt(2 * exact.variances * log_term / 400) + 4 * log_term / (3 * 400)
    assert (np.abs(drawn.returns.mean(axis=1) - exact.values) <= allowed).all()
    overall = np.sqrt(2 * exact.variances.mean() * log_term / 8000) + 4 * log_term / (3 * 8000)
    assert abs(drawn.returns.mean() - exact.mean) <= overall
    assert (exact.variances > 0.01).any()


@pytest.mark.parametrize("name", ["oberst_sontag", "cohort", "learned"])
def test_tables_in_the_document_are_made_from_the_stored_results(name):
    assert tables(STORED)[name] in (ROOT / "docs/trajectories.md").read_text()
