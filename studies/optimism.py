"""Are the best changes gains in truth? Random processes that are known, and plans made on estimates of them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, final

import jax
import numpy as np

from countermax._core.page import Sheet, Value
from countermax.mdp import Changes, Cohort, EpisodeLog, FiniteMDP, Posterior, estimate, simulate
from countermax.mdp._improving import ChangedEpisodes
from countermax.mdp._replays._trajectories import Trajectories
from countermax.mdp._results import SMALL
from studies.experiments import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset
from studies.robustness import NUM_ACTIONS, Family, random_process

HORIZON, MOST, NUM_DRAWS, FRESH = 8, 3, 100, 1000


class Noisy(NamedTuple):
    """A family of processes, how much rewards vary, and how often an action must have been seen to be taken."""

    family: Family
    noise: float
    min_visits: int


FAMILIES: dict[str, Noisy] = {
    "10 states, 4 successors": Noisy(Family(10, 4, 40), 0.0, 0),
    "10 states, 2 successors": Noisy(Family(10, 2, 40), 0.0, 0),
    "10 states, 4 successors, rewards vary": Noisy(Family(10, 4, 40), 0.5, 0),
    "20 states, 4 successors": Noisy(Family(20, 4, 40), 0.0, 0),
    "20 states, 4 successors, min_visits=5": Noisy(Family(20, 4, 40), 0.0, 5),
}


def true_gains(family: Noisy, num_processes: int, advance: Callable[[float], None] = lambda _: None) -> Result:
    """For one, two and three changes: plans that promise a gain, and how many of them are none in truth.

    Args:
        family: The processes.
        num_processes: Number of processes, each logged once by random actions.
        advance: Function that is told which fraction is done.
    """
    counts, sums = np.zeros((8, MOST), np.int64), np.zeros((3, MOST))
    for seed in range(num_processes):
        process = random_process(family.family, FRESH + seed)
        usual = np.full((process.num_states, NUM_ACTIONS), 1 / NUM_ACTIONS)
        draw = jax.random.fold_in(jax.random.key(1), seed)
        log = simulate(process, usual, num_episodes=family.family.num_episodes, horizon=HORIZON, key=draw)
        if family.noise:
            noise = family.noise * np.random.default_rng(seed).normal(size=log.rewards.shape)
            log = replace(log, rewards=log.rewards + noise * log.mask)
        more, total = _counted(process, log, Changes(most=MOST, min_visits=family.min_visits))
        counts, sums = counts + more, sums + total
        advance((seed + 1) / num_processes)
    names = ("plans", "wrong", "confident", "confident_wrong", "agreed", "agreed_wrong", "robust", "robust_wrong")
    found: Result = dict(zip(names, counts.tolist(), strict=True))
    return found | dict(zip(("promised", "judged", "true"), sums.tolist(), strict=True))


def _counted(process: FiniteMDP, log: EpisodeLog, changes: Changes) -> tuple[np.ndarray, np.ndarray]:
    """[what; changes]: counts and sums over the plans of one log that promise a gain."""
    model = estimate(log, absorbing=process.absorbing)
    cohort = Cohort(log, process=model, posterior=Posterior(num_draws=NUM_DRAWS))
    found = cohort.rank_changes(changes=changes)
    plan = ChangedEpisodes(Trajectories(model, cohort._setting, quiet=True), "gumbel-max", changes).best()[1]
    # The same rule in truth: what nobody did in a state is not known there, and stays what was usual.
    known = model.allowed | ~model.allowed.any(axis=1, keepdims=True)
    kept = replace(process, probs=process.probs * known[:, :, None], allowed=known)
    truth = ChangedEpisodes(Trajectories(kept, cohort._setting, quiet=True), "gumbel-max", Changes(most=MOST))
    values = truth.values(plan)
    true = values[:, 1:] - values[:, :1]
    promised, gain = found.in_sample > SMALL, true > SMALL
    assert found.interval is not None
    called = promised, promised & (found.interval.lower > SMALL), promised & found.agreed, promised & found.robust
    kinds = [each for some in called for each in (some, some & ~gain)]
    sums = [np.where(promised, each, 0).sum(axis=0) for each in (found.in_sample, found.effects, true)]
    return np.array([each.sum(axis=0) for each in kinds]), np.array(sums)


_NUM_PROCESSES = {"quick": 1, "published": 10, "best": 10}
_COST_OF_A_PROCESS = 20.0


@final
class Optimism(AbstractExperiment):
    """Random processes that are known, and plans of changes made on estimates of them."""

    name = "optimism"
    title = "Are the best changes gains in truth?"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """One for each family; `seeds` counts the processes."""
        number = _NUM_PROCESSES[checked_preset(preset)] if seeds is None else seeds
        common = {"horizon": HORIZON, "num_processes": number, "num_draws": NUM_DRAWS, "most": MOST}
        return [
            Cell(
                self.name,
                name,
                {**each.family._asdict(), "noise": each.noise, "min_visits": each.min_visits, **common},
                cost=number * _COST_OF_A_PROCESS,
            )
            for name, each in FAMILIES.items()
        ]

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Counts of plans."""
        if context.train_only:
            return None
        asked = cell.settings
        family = Family(asked["num_states"], asked["num_successors"], asked["num_episodes"])
        return true_gains(Noisy(family, asked["noise"], asked["min_visits"]), asked["num_processes"], context.advance)

    def section(self, stored: Mapping[str, Result]) -> Section:
        """Plans by what was asked of them."""
        headers = (
            "processes",
            "changes",
            "plans",
            "of these no gain",
            "confident",
            "of these no gain",
            "agreed",
            "of these no gain",
            "robust",
            "of these no gain",
            "promised",
            "judged",
            "in truth",
        )
        lines: list[list[Value]] = [
            [
                name if place == 0 else "",
                str(place + 1),
                *_of(each, "plans", "wrong", place),
                *_of(each, "confident", "confident_wrong", place),
                *_of(each, "agreed", "agreed_wrong", place),
                *_of(each, "robust", "robust_wrong", place),
                *(f"{each[what][place] / max(each['plans'][place], 1):.2f}" for what in ("promised", "judged", "true")),
            ]
            for name, each in sorted(stored.items())
            for place in range(len(each["plans"]))
        ]
        sheet = Sheet("Plans that promise a gain", headers, ("",) * len(headers), lines)
        words = [
            "Processes are drawn at random and known; a log is drawn from each, a process is estimated from it, and "
            "the best plan of at most so many changes is made on the estimate for every episode. A plan is no gain if "
            "it adds nothing under the true process, by Gumbel-max too. Confident: the posterior's 95 % interval is "
            "above zero; agreed: under every coupling that draws afresh at each step; robust: even if chance persists. "
            "Promised, judged on the posterior, and true are mean effects."
        ]
        return Section(self.title, words, {"optimism": sheet})


def _of(found: Result, called: str, wrong: str, place: int) -> tuple[str, str]:
    """How many there are, and the share of them that are no gains."""
    many = found[called][place]
    return str(many), f"{found[wrong][place] / many:.1%}" if many else "none"
