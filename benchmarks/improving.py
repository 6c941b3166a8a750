"""The best changes to logged episodes: seconds of the processor, since others may use the machine too."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.measure import Row
from benchmarks.trajectories import _icu
from countermax.mdp import Changes, Cohort, Posterior
from countermax.mdp._improving import ChangedEpisodes
from countermax.mdp._replays._trajectories import Trajectories
from studies.trajectories import sepsis_log

PATIENTS, ALL, ICU_CHANGES, DRAWS = 1000, 20, 5, 100


def rows() -> Iterator[Row]:
    """All measurements of this file."""
    log, model, _ = sepsis_log(as_published=True, num_episodes=PATIENTS, seed=0)
    cohort = Cohort(log, process=model, censored="model", posterior=Posterior(num_draws=DRAWS))
    longest = int(np.argmax(log.lengths))

    def plans(setting: Any, mdp: Any, changes: Changes) -> Any:
        return ChangedEpisodes(Trajectories(mdp, setting, quiet=True), "gumbel-max", changes).best()

    one, every = cohort._one(longest), cohort._setting
    icu, records, best, _ = _icu()
    patient = Cohort(records, best, process=icu)._one(int(np.argmax(records.lengths)))
    asked: dict[str, Callable[[], Any]] = {
        f"sepsis: one patient, all numbers of changes up to {ALL}": lambda: plans(one, model, Changes(most=ALL)),
        "sepsis: one patient, 3 changes told before": lambda: plans(one, model, Changes(most=3, plan="fixed")),
        f"sepsis: {PATIENTS} patients, up to 3 changes": lambda: plans(every, model, Changes(most=3)),
        f"sepsis: {PATIENTS} patients, up to {ALL} changes": lambda: plans(every, model, Changes(most=ALL)),
        f"ICU: one patient, up to {ICU_CHANGES} changes": lambda: plans(patient, icu, Changes(most=ICU_CHANGES)),
        f"sepsis: one patient, 3 changes judged on {DRAWS} models": lambda: cohort.best_changes(longest),
        f"sepsis: {PATIENTS} patients, 3 changes judged on {DRAWS} models": cohort.rank_changes,
    }
    for what, ask in asked.items():
        if what is not next(reversed(asked)):
            ask()  # compiles what is not compiled yet
        clock, begun = time.process_time(), time.perf_counter()
        ask()
        spent, took = time.process_time() - clock, time.perf_counter() - begun
        yield Row(what, spent, "s of processor time", f"{took:.2f} s on the clock of a shared machine")
