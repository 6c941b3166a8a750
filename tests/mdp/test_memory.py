"""Sizes that nobody can have are refused in words before anything is allocated."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import jax
import numpy as np
import pytest
from processes import LOG, MDP, POLICY, doubly_robust, frame_of

from countermax import InputError, Maximal
from countermax.mdp import Cohort, EpisodeLog, FiniteMDP, estimate, estimate_policy, logged_pairs
from countermax.mdp._estimation import deterministic
from countermax.mdp._importance import importance_ratios
from countermax.mdp._planning import policy_values, state_distributions
from countermax.mdp._story import earned_at

HUGE = 10**9
FAR = EpisodeLog.from_frame(frame_of(("a", 0, 0, 0, HUGE, 0.0)))
KEY = jax.random.key(0)
RATIOS = importance_ratios(LOG, POLICY, POLICY)


@pytest.fixture(autouse=True)
def a_machine_of_known_size(monkeypatch):
    monkeypatch.setenv("COUNTERMAX_MAX_MEMORY", "16")


def process_of(num_states, num_actions):
    return FiniteMDP.from_transitions(
        {"state": [0], "action": [0], "successor": [0], "probs": [1.0], "rewards": [0.0]},
        num_states=num_states,
        num_actions=num_actions,
        start=0,
    )


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: process_of(HUGE, 2), "1000000000 states and 2 actions with 1 successors each would need about"),
        (lambda: process_of(2, HUGE), "2 states and 1000000000 actions"),
        (lambda: estimate(FAR), "1000000001 states and 1 actions"),
        (lambda: estimate_policy(FAR), "1000000001 states and 1 actions"),
        (lambda: deterministic(np.zeros(1000, int), HUGE), "1000 states and 1000000000 actions"),
        (
            lambda: Cohort(LOG, POLICY, process=MDP).sample(Maximal(), num_samples=HUGE),
            "1000000000 draws of 6 episodes over 3 steps would need about .*; lower `num_samples` or `horizon`",
        ),
        (
            lambda: Cohort(LOG, POLICY).evaluate(num_resamples=HUGE),
            "1000000000 resamples of 12 estimates would need about 1.8 TB of memory.*; lower `num_resamples`",
        ),
        (lambda: logged_pairs(MDP, LOG, POLICY, outcomes=[0, 1, 2, 10**12]), "pairs of 1000000000001 outcomes"),
    ],
)
def test_sizes_that_nobody_can_have_are_refused_with_the_number_and_the_limit(ask, message):
    with pytest.raises(InputError, match=message) as refused:
        ask()
    assert "and the limit is 16 GB" in str(refused.value)


@pytest.mark.parametrize(
    "ask",
    [
        lambda horizon: policy_values(MDP, POLICY, horizon=horizon),
        lambda horizon: state_distributions(MDP, POLICY, horizon),
        lambda horizon: Cohort(LOG, POLICY, process=MDP, horizon=horizon).replay(Maximal(), path=True),
        lambda horizon: Cohort(LOG, POLICY, process=MDP, horizon=horizon).sample(Maximal(), num_samples=1),
        lambda horizon: Cohort(LOG, POLICY, process=MDP, horizon=horizon).bounds(),
        lambda horizon: Cohort(LOG, POLICY, process=MDP, horizon=horizon).rank(["maximal"]),
        lambda horizon: doubly_robust(MDP, LOG, POLICY, RATIOS, horizon=horizon),
        lambda horizon: Cohort(LOG, POLICY, horizon=horizon).evaluate(num_resamples=0),
    ],
)
def test_a_horizon_without_end_is_refused_everywhere(ask):
    with pytest.raises(InputError, match=r"`horizon` must be at most 1000000, got 1000000000"):
        ask(HUGE)


def test_paths_and_distributions_over_long_horizons_are_estimated_first(monkeypatch):
    monkeypatch.setenv("COUNTERMAX_MAX_MEMORY", "0.001")
    for ask in (
        lambda: state_distributions(MDP, POLICY, 10**6),
        lambda: Cohort(LOG, POLICY, process=MDP, horizon=10**6).replay(Maximal(), path=True),
        lambda: Cohort(LOG, POLICY, horizon=10**6).evaluate(num_resamples=0),
    ):
        with pytest.raises(InputError, match=r"would need about .*, and the limit is 1 MB; .*lower `horizon`"):
            ask()


def test_values_that_no_longer_change_end_the_recursion():
    endless = policy_values(MDP, POLICY, discount=0.5)
    np.testing.assert_allclose(policy_values(MDP, POLICY, discount=0.5, horizon=10**6), endless, atol=1e-12)


def test_a_log_whose_episodes_differ_too_much_in_length_is_refused(monkeypatch):
    rows = [("long", step, 0, 0, 0, 0.0) for step in range(3000)] + [(each, 0, 0, 0, 0, 0.0) for each in range(3000)]
    monkeypatch.setenv("COUNTERMAX_MAX_MEMORY", "0.01")
    with pytest.raises(InputError, match="3001 episodes of up to 3000 steps would need about 576 MB of memory"):
        EpisodeLog.from_frame(frame_of(*rows))


def test_questions_about_episodes_bring_along_nothing_that_they_do_not_need():
    """Each of these takes tens of megabytes, and up to a second."""
    told = "import sys, countermax.mdp; print([each for each in sys.argv[1:] if each in sys.modules])"
    heavy = ["scipy.stats", "scipy.optimize", "optax", "pandas", "matplotlib", "numba"]
    found = subprocess.run([sys.executable, "-c", told, *heavy], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


def test_what_ends_earn_is_found_in_little_more_memory_than_two_arrays_of_the_process():
    rows = np.random.default_rng(0).dirichlet(np.ones(120), (120, 6))
    wide = FiniteMDP.from_dense(rows, (np.arange(120) == 119) * 1.0, start=0, absorbing=[119])
    one = EpisodeLog.from_frame(frame_of(("a", 0, 0, 0, 119, 1.0)), num_states=120, num_actions=6)
    assert wide.slot_rewards.size + wide.matrix.indices.size <= 2 * wide.probs.size  # a process keeps what replays need
    tracemalloc.start()
    try:
        found = earned_at(wide, one, np.array([119]))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == pytest.approx([1.0])
    assert most < 2.8 * wide.probs.nbytes


_TEN_THOUSAND = """
import resource
import numpy as np
from countermax.mdp import Cohort, EpisodeLog, Posterior, estimate

rng, size, length = np.random.default_rng(0), 10_000, 6
states = (rng.integers(size, size=(60, 1)) * 7 + rng.integers(40, size=(60, length + 1)) * 13) % (size - 1)
states[:, 0], states[:, -1] = np.arange(60) % 5, size - 1
actions, rewards = rng.integers(3, size=(60, length)), np.zeros((60, length))
rewards[:, -1] = np.arange(60) % 2
log = EpisodeLog(
    states=states, actions=actions, rewards=rewards, lengths=np.full(60, length), num_states=size, num_actions=3
)
model = estimate(log, absorbing=[size - 1])
policy = np.eye(3)[model.counts.sum(axis=2).argmax(axis=1)]
cohort = Cohort(log, policy, process=model, posterior=Posterior(num_draws=2))
cohort.rank(["gumbel-max"])
cohort.explain(0, couplings=["gumbel-max"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


@pytest.mark.slow
def test_ten_thousand_states_fit_into_four_gigabytes():
    found = subprocess.run([sys.executable, "-c", _TEN_THOUSAND], check=True, capture_output=True, text=True)
    assert float(found.stdout) < 4


def test_doubt_at_the_size_of_intensive_care_takes_less_than_a_minute_as_measured():
    stored = Path(__file__).parents[2] / "benchmarks" / "results" / "trajectories.json"
    rows = {row["what"]: row for row in json.loads(stored.read_text())["rows"]}
    found = rows["ICU: 200 episodes replayed, ranked and bounded, one explained, 100 models drawn"]
    assert found["unit"] == "s"
    assert found["value"] < 60
