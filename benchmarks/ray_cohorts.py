"""Cohorts on Ray: what a second worker adds, and what Ray costs beside one thread of this process.

    python -m benchmarks ray_cohorts     # on two quiet cores

It is not among the default benchmarks: Ray is an extra.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax

from benchmarks.measure import Row
from countermax import GumbelMax
from countermax.mdp import Cohort, Posterior, policy_iteration, simulate
from studies.processes.icu import icu_sepsis

NUM_EPISODES, NUM_RESAMPLES, HORIZON = 2_000, 24, 20
SOME = 1_000


def rows() -> Iterator[Row]:
    """All measurements of this file."""
    yield from cohort_rows()


def cohort_rows() -> Iterator[Row]:
    """Each question by one thread, by one worker and by two, in processes of their own."""
    for what in _TASKS:
        alone, one, two = (_in_a_process(what, workers) for workers in (0, 1, 2))
        yield Row(f"{what}: two workers against one", one / two, "times as fast", f"{one:.2f} s and {two:.2f} s")
        yield Row(f"{what}: one worker against one local thread", one / alone, "times as long", f"{alone:.2f} s local")


def _in_a_process(what: str, workers: int) -> float:
    """Seconds of a question that was asked once before; without workers by one thread of that process."""
    one_thread = {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.ray_cohorts", what, str(workers)],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | one_thread,
    )
    return float(json.loads(done.stdout.splitlines()[-1]))


def _replayed() -> Callable[[str], Any]:
    icu = icu_sepsis()
    log = simulate(icu.mdp, icu.expert_policy, num_episodes=NUM_EPISODES, horizon=HORIZON, key=jax.random.key(0))
    best = policy_iteration(icu.mdp).policy
    return lambda engine: Cohort(log, best, process=icu.mdp, engine=engine).replay(GumbelMax())


def _evaluated() -> Callable[[str], Any]:
    log, _, best = _sepsis()
    return lambda engine: Cohort(log, best, engine=engine).evaluate(num_resamples=NUM_RESAMPLES, seed=1)


def _ranked() -> Callable[[str], Any]:
    log, model, best = _sepsis()
    posterior = Posterior(num_draws=NUM_RESAMPLES)
    return lambda engine: Cohort(log, best, process=model, posterior=posterior, engine=engine).rank()


def _sepsis() -> tuple[Any, Any, Any]:
    from studies.trajectories import sepsis_log  # not where it is not needed: it brings the study along

    log, model, _ = sepsis_log(as_published=True, num_episodes=SOME, seed=0)
    return log, model, policy_iteration(model).policy


_TASKS: dict[str, Callable[[], Callable[[str], Any]]] = {
    f"ICU: {NUM_EPISODES} episodes replayed, Gumbel-max": _replayed,
    f"sepsis: a policy evaluated from {SOME} episodes, {NUM_RESAMPLES} resamples": _evaluated,
    f"sepsis: {SOME} episodes ranked, {NUM_RESAMPLES} models drawn": _ranked,
}

if __name__ == "__main__":
    asked, count = _TASKS[sys.argv[1]](), int(sys.argv[2])
    if count:
        import ray

        ray.init(address="local", num_cpus=count, include_dashboard=False, log_to_driver=False)
    chosen = "ray" if count else "local"
    asked(chosen)  # processes start, import and compile
    begun = time.perf_counter()
    asked(chosen)
    sys.stdout.write("\n" + json.dumps(time.perf_counter() - begun))
