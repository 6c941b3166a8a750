"""Whole trajectories: each task in a process of its own, with its time and its memory; loops beside formulas."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from benchmarks.measure import Row
from countermax import GumbelMax
from countermax.mdp import Cohort, EpisodeLog, FiniteMDP, Posterior, estimate, policy_iteration, simulate
from countermax.mdp._estimation import softened
from countermax.mdp._replays import _trajectories
from countermax.mdp._replays._chains import GeneralChains
from studies.processes.icu import icu_sepsis

NUM_EPISODES, RECORDS, SOME, FEW, NUM_DRAWS, HORIZON = 20_000, 200, 500, 20, 200, 20
RANKED, NUM_RESAMPLES, NUM_MODELS = 1000, 20, 100


def rows() -> Iterator[Row]:
    """All measurements of this file."""
    for what in _TASKS:
        _in_a_process(what)  # compiles what is not compiled yet; what counts is every process after the first
        found = _in_a_process(what)
        note = (
            f"asked again in one process: {found['again']:.2f} s; {found['most']:.0f} MB at most, "
            f"{found['before']:.0f} of them before the task: libraries and preparation"
        )
        yield Row(what, found["seconds"], "s", note)
    yield from _both_ways()
    yield from _drawn()


def _in_a_process(what: str) -> dict[str, float]:
    """Seconds of a task in a fresh process, of the same again, and memory in MB: before it, and at most."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.trajectories", what], check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _megabytes() -> float:
    """The most memory that this process has had, libraries included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _icu() -> tuple[FiniteMDP, EpisodeLog, np.ndarray, np.ndarray]:
    icu = icu_sepsis()
    log = simulate(icu.mdp, icu.expert_policy, num_episodes=RECORDS, horizon=HORIZON, key=jax.random.key(0))
    return icu.mdp, log, policy_iteration(icu.mdp).policy, icu.expert_policy


def _sepsis() -> tuple[FiniteMDP, EpisodeLog, np.ndarray]:
    from studies.trajectories import sepsis_log  # not where it is not needed: it brings the study along

    log, model, _ = sepsis_log(as_published=True, num_episodes=NUM_EPISODES, seed=0)
    return model, log, policy_iteration(model).policy


def _random() -> tuple[FiniteMDP, EpisodeLog, np.ndarray]:
    mdp = _random_process(800)
    best = policy_iteration(mdp).policy
    return mdp, simulate(mdp, softened(best, 0.7), num_episodes=SOME, horizon=HORIZON, key=jax.random.key(0)), best


def _replay_records(*, experts: bool = False) -> Callable[[], Any]:
    mdp, log, best, expert_policy = _icu()
    return lambda: Cohort(log, expert_policy if experts else best, process=mdp).replay(GumbelMax())


def _bound_records(*, stable: bool = False) -> Callable[[], Any]:
    mdp, log, best, _ = _icu()
    asked = log.select(np.arange(FEW)) if stable else log
    return lambda: Cohort(asked, best, process=mdp).bounds(stable=stable)


def _explain() -> Callable[[], Any]:
    mdp, log, best, _ = _icu()
    return lambda: Cohort(log, best, process=mdp).explain(3)


def _with_models() -> Callable[[], Any]:
    mdp, log, _, _ = _icu()
    model = estimate(log, absorbing=mdp.absorbing)
    best = policy_iteration(replace(model, discount=0.99)).policy

    def asked() -> Any:
        cohort = Cohort(log, best, process=model, posterior=Posterior(num_draws=NUM_MODELS))
        return cohort.replay(GumbelMax()), cohort.rank(), cohort.explain(3)

    return asked


def _replay_random() -> Callable[[], Any]:
    mdp, log, best = _random()
    return lambda: Cohort(log, best, process=mdp).replay(GumbelMax())


def _replay_sepsis() -> Callable[[], Any]:
    mdp, log, best = _sepsis()
    return lambda: Cohort(log, best, process=mdp, censored="model").replay(GumbelMax())


def _bound_sepsis() -> Callable[[], Any]:
    mdp, log, best = _sepsis()
    return lambda: Cohort(log, best, process=mdp, censored="model").bounds()


def _rank_sepsis() -> Callable[[], Any]:
    mdp, log, best = _sepsis()
    some, posterior = log.select(np.arange(RANKED)), Posterior(num_draws=NUM_RESAMPLES)
    return lambda: Cohort(some, best, process=mdp, posterior=posterior).rank()


_TASKS: dict[str, Callable[[], Callable[[], Any]]] = {
    f"ICU: {RECORDS} episodes replayed exactly, optimal policy, Gumbel-max": _replay_records,
    f"ICU: {RECORDS} episodes, the experts' stochastic policy": lambda: _replay_records(experts=True),
    f"800 states, 6 successors: {SOME} episodes replayed exactly": _replay_random,
    f"sepsis: {NUM_EPISODES} episodes replayed exactly, Gumbel-max": _replay_sepsis,
    f"ICU: bounds over all couplings for {RECORDS} episodes": _bound_records,
    f"sepsis: bounds over all couplings for {NUM_EPISODES} episodes": _bound_sepsis,
    f"ICU: bounds over stable couplings for {FEW} episodes": lambda: _bound_records(stable=True),
    "ICU: one patient explained": _explain,
    f"ICU: {RECORDS} episodes replayed, ranked and bounded, one explained, {NUM_MODELS} models drawn": _with_models,
    f"sepsis: {RANKED} episodes ranked by two couplings, {NUM_RESAMPLES} resamples": _rank_sepsis,
}


def _both_ways() -> Iterator[Row]:
    """The same replay by compiled loops and by formulas of the couplings, in one process."""
    mdp, log, best = _random()
    some = log.select(np.arange(100))

    def spent() -> float:
        Cohort(some, best, process=mdp).replay(GumbelMax())
        start = time.perf_counter()
        Cohort(some, best, process=mdp).replay(GumbelMax())
        return time.perf_counter() - start

    quick, chosen = spent(), _trajectories.chains_for
    try:
        _trajectories.chains_for = GeneralChains
        slow = spent()
    finally:
        _trajectories.chains_for = chosen
    note = "100 episodes over 800 states; any coupling by JAX, against closed forms by compiled loops"
    yield Row("a replay by formulas takes", slow / quick, "times as long", note)


def _drawn() -> Iterator[Row]:
    model, log, target = _sepsis()
    few = log.select(np.arange(RECORDS))

    def once(function: Callable[[], Any]) -> float:
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    def exact() -> Any:
        return Cohort(few, target, process=model).replay(GumbelMax())

    exact()
    sampled = once(lambda: Cohort(few, target, process=model).sample(GumbelMax(), num_samples=NUM_DRAWS))
    yield Row(
        f"drawn with {NUM_DRAWS} trajectories each, against exact",
        sampled / once(exact),
        "times as long",
        f"{RECORDS} episodes; and the drawn answers have sampling error",
    )


def _random_process(num_states: int, num_actions: int = 4, width: int = 6) -> FiniteMDP:
    random = np.random.default_rng(0)
    transitions = np.zeros((num_states, num_actions, num_states))
    for state in range(num_states):
        for action in range(num_actions):
            reached = random.choice(num_states, width, replace=False)
            transitions[state, action, reached] = random.dirichlet(np.ones(width))
    return FiniteMDP.from_dense(transitions, random.normal(size=num_states), start=0, discount=0.95)


if __name__ == "__main__":
    task = _TASKS[sys.argv[1]]()
    prepared = _megabytes()
    begun = time.perf_counter()
    task()
    took, most = time.perf_counter() - begun, _megabytes()
    begun = time.perf_counter()
    task()
    again = time.perf_counter() - begun
    sys.stdout.write(json.dumps({"seconds": took, "again": again, "before": prepared, "most": most}))
