"""The trajectory experiments: exact against draws on sepsis, and a study from start to end."""

import numpy as np

from countermax.couplings import GumbelMax
from countermax.mdp import Cohort
from studies.experiments import Store, run_plan
from studies.processes import sepsis
from studies.registry import EXPERIMENTS
from studies.trajectories import cautious_policy, sepsis_log, true_value


def test_exact_answers_on_sepsis_are_those_of_draws():
    """False-alarm level 1e-6 for the mean over patients, and for each of twenty patients."""
    log, model, _ = sepsis_log(as_published=False, num_episodes=200, seed=0)
    policy, labels = cautious_policy(log, model, least_visits=5), sepsis.projected_outcomes()
    some = log.select(np.arange(20))
    exact = Cohort(some, policy, process=model, outcomes=labels, discount=1.0).replay(GumbelMax())
    drawn = Cohort(some, policy, process=model, outcomes=labels, discount=1.0).sample(
        GumbelMax(), num_samples=400, seed=1
    )
    # Returns lie in [-1, 1], so Bernstein's inequality holds whatever their law: each mean is off by more than this
    # with probability 1e-6 / 42 at most.
    log_term = np.log(2 * 42 / 1e-6)
    allowed = np.sqrt(2 * exact.variances * log_term / 400) + 4 * log_term / (3 * 400)
    assert (np.abs(drawn.returns.mean(axis=1) - exact.values) <= allowed).all()
    overall = np.sqrt(2 * exact.variances.mean() * log_term / 8000) + 4 * log_term / (3 * 8000)
    assert abs(drawn.returns.mean() - exact.mean) <= overall
    assert (exact.variances > 0.01).any()


def test_a_policy_is_worth_less_in_truth_than_in_the_model_it_was_planned_in():
    log, model, simulator = sepsis_log(as_published=False, num_episodes=1000, seed=0)
    policy = cautious_policy(log, model)
    assert (
        true_value(simulator, policy)
        < 0.5
        < 0.8
        < Cohort(log, policy, process=model, discount=1.0).replay(GumbelMax()).mean
    )


def test_a_study_runs_and_is_stored(tmp_path):
    cells = [cell for cell in EXPERIMENTS["trajectories"].cells("quick", 1) if cell.name == "oberst-sontag"]
    run_plan(EXPERIMENTS, cells, Store(tmp_path))
    found = Store(tmp_path).records()["trajectories"]["oberst-sontag"].result
    assert len(found["rows"]) == found["num_repeats"] == 1
