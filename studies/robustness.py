"""Are gains called robust gains in truth? Random processes that are known, and policies optimised on estimates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, final

import jax
import numpy as np

from countermax._core.page import Sheet, Value
from countermax.mdp import Cohort, EpisodeLog, FiniteMDP, Posterior, estimate, policy_iteration, simulate
from countermax.mdp._arrays import Floats
from countermax.mdp._results import SMALL
from studies.experiments import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset
from studies.trajectories import sepsis_log, true_value

NUM_ACTIONS = 3
HORIZON = 8
NUM_RESAMPLES = 100
_PATIENCE = 0.95  # discount while planning, so that every policy has a value
_POSSIBLE = 1e-9  # what was seen is at least as likely as this


class Family(NamedTuple):
    """Random processes: every row leads to some of the states, with probabilities from a flat Dirichlet."""

    num_states: int
    num_successors: int
    num_episodes: int
    noise: float = 0.0
    """Rewards lie as far as this from their means, on either side, uniformly."""


FAMILIES: dict[str, Family] = {
    "10 states, 2 successors, 100 episodes": Family(10, 2, 100),
    "10 states, 4 successors, 100 episodes": Family(10, 4, 100),
    "20 states, 2 successors, 100 episodes": Family(20, 2, 100),
    "20 states, 2 successors, 100 episodes, noisy rewards": Family(20, 2, 100, 0.25),
    "20 states, 4 successors, 100 episodes": Family(20, 4, 100),
    "20 states, 4 successors, 100 episodes, noisy rewards": Family(20, 4, 100, 0.25),
    "20 states, 8 successors, 100 episodes": Family(20, 8, 100),
}


def random_process(family: Family, seed: int) -> FiniteMDP:
    """One of the family: the last state ends episodes, every other one may start them.

    Args:
        family: Sizes of the process.
        seed: Seed that picks the process.
    """
    random = np.random.default_rng([3, *family[:3], seed])
    size = family.num_states
    transitions = np.zeros((size, NUM_ACTIONS, size))
    for state in range(size):
        for action in range(NUM_ACTIONS):
            reached = random.choice(size, family.num_successors, replace=False)
            transitions[state, action, reached] = random.dirichlet(np.ones(family.num_successors))
    start = np.append(np.full(size - 1, 1 / (size - 1)), 0)
    return FiniteMDP.from_dense(transitions, random.normal(size=size), start=start, absorbing=[size - 1])


def logged(process: FiniteMDP, family: Family, seed: int) -> EpisodeLog:
    """Episodes of random actions."""
    usual = np.full((family.num_states, NUM_ACTIONS), 1 / NUM_ACTIONS)
    draw = jax.random.fold_in(jax.random.key(1), seed)
    log = simulate(process, usual, num_episodes=family.num_episodes, horizon=HORIZON, key=draw)
    noise = np.random.default_rng([4, seed]).uniform(-family.noise, family.noise, log.rewards.shape)
    return replace(log, rewards=log.rewards + noise * log.mask) if family.noise else log


def robust_gains(
    family: Family, seeds: Sequence[int], num_resamples: int, advance: Callable[[float], None] = lambda _: None
) -> Result:
    """How many gains are called what, how many of those are none in truth, and how many true ones are found.

    True is what holds under every adapted coupling of the true process, with every reward that it may pay, for the very
    episodes of the log; of robust ones, what holds in the true process even if chance may persist. Beside it, of how
    many episodes that the policy changes the interval of the effect by Gumbel-max has the effect in the true process.

    Args:
        family: The processes.
        seeds: Seeds that pick the processes, each logged once by random actions.
        num_resamples: Number of models drawn from the posterior of an estimate.
        advance: Function that is told which fraction is done.
    """
    counts = dict[str, np.ndarray]()
    for done, seed in enumerate(seeds):
        process = random_process(family, seed)
        log = logged(process, family, seed)
        model = estimate(log, absorbing=process.absorbing)
        policy = policy_iteration(replace(model, discount=_PATIENCE)).policy
        informed = [_drawn_by_who_knows(family, log, np.random.default_rng([5, seed, n])) for n in range(num_resamples)]
        found = _counted(process, model, log, policy, family.noise, informed)
        counts = {name: counts.get(name, 0) + number for name, number in found.items()}
        advance((done + 1) / len(seeds))
    return {name: number.tolist() for name, number in counts.items()}


def _drawn_by_who_knows(family: Family, log: EpisodeLog, random: np.random.Generator) -> FiniteMDP:
    """A process from the posterior of somebody who knows how the family is drawn.

    A row leads to what was seen and to other states at random, as many as rows have, and has a Dirichlet posterior; a
    state's mean reward is a normal variable, and all rewards seen lie within the noise of it.
    """
    size, steps = family.num_states, log.steps()
    counts = np.zeros((size, NUM_ACTIONS, size))
    np.add.at(counts, (steps.state, steps.action, steps.next_state), 1)
    least, most = np.full(size, -np.inf), np.full(size, np.inf)
    np.maximum.at(least, steps.next_state, steps.reward - family.noise)
    np.minimum.at(most, steps.next_state, steps.reward + family.noise)
    seen = np.isfinite(least)
    rewards = np.where(
        seen, random.uniform(np.where(seen, least, 0), np.where(seen, most, 0)), random.normal(size=size)
    )
    rows = np.zeros_like(counts)
    for row, count in zip(rows.reshape(-1, size), counts.reshape(-1, size), strict=True):
        order = np.lexsort((random.random(size), count == 0))[: family.num_successors]
        row[order] = np.maximum(random.dirichlet(1 + count[order]), _POSSIBLE)
    return FiniteMDP.from_dense(
        rows / rows.sum(axis=2, keepdims=True), rewards, start=np.eye(size)[0], absorbing=[size - 1]
    )


def _paying_least(process: FiniteMDP, noise: float) -> FiniteMDP:
    there = process.possible.reshape(process.probs.shape) & ~process.absorbing[:, None, None]
    return replace(process, rewards=process.rewards - noise * there)


def _counted(
    process: FiniteMDP, model: FiniteMDP, log: EpisodeLog, policy: np.ndarray, noise: float, informed: list[FiniteMDP]
) -> dict[str, np.ndarray]:
    posterior = Posterior(num_draws=len(informed))
    cohort = Cohort(log, policy, process=model, posterior=posterior)
    found, name = cohort.rank(["gumbel-max"]), "Gumbel-max"

    def gains(those: FiniteMDP, *, persistent: bool = False) -> Floats:
        least = Cohort(log, policy, process=_paying_least(those, noise)).bounds(persistent=persistent).lower
        return least - found.observed

    known = Cohort(log, policy, process=process)
    effects, bounds = known.replay().effects, known.bounds()
    changed = (bounds.width > SMALL) | (np.abs(effects) > SMALL)
    truth, each_gain = gains(process) > SMALL, np.array([gains(each) for each in informed])
    called = {
        "given": cohort.bounds().lower - found.observed > SMALL,
        "agreed": found.agreed,
        "robust": found.robust,
        "informed": np.quantile(each_gain, 1 - posterior.attained, axis=0, method="weibull") > SMALL,
    }
    lasting = gains(process, persistent=True) > SMALL
    answers = {"true": truth, "lasting": lasting, "changed": changed, **called}
    answers |= {f"{each}_found": called[each] & truth for each in ("agreed", "informed")}
    answers["lasting_found"] = found.robust & lasting
    tail = (1 - posterior.attained) / 2
    models = [Cohort(log, policy, process=each).replay().effects for each in informed]
    informed_limits = np.quantile(models, [tail, 1 - tail], axis=0, method="weibull")
    for each, (low, high) in (("covered", found.intervals[name][:2]), ("informed_covered", informed_limits)):
        answers[each] = changed & (low <= effects + SMALL) & (effects <= high + SMALL)
    answers |= {f"{each}_wrongly": gains & ~truth for each, gains in called.items()}
    sure = (each_gain > SMALL).sum(axis=0)  # models with a gain
    return {
        **{each: those.sum() for each, those in answers.items()},
        "informed_sure": np.bincount(sure[truth], minlength=len(informed) + 1),
        "informed_sure_wrongly": np.bincount(sure[~truth], minlength=len(informed) + 1),
    }


def sepsis_gains(num_episodes: int, num_resamples: int) -> Result:
    """Sepsis patients, and the policy that looks best on the estimate: how many are told of a gain, and of what worth.

    Args:
        num_episodes: Number of patients.
        num_resamples: Number of models drawn from the posterior.
    """
    log, model, simulator = sepsis_log(as_published=False, num_episodes=num_episodes, seed=0)
    policy = policy_iteration(model).policy
    posterior = Posterior(num_draws=num_resamples)
    cohort = Cohort(log, policy, process=model, discount=1.0, posterior=posterior)
    found = cohort.rank(["gumbel-max"])
    return {
        "episodes": num_episodes,
        "given": int((cohort.bounds().lower - found.observed > SMALL).sum()),
        "agreed": int(found.agreed.sum()),
        "robust": int(found.robust.sum()),
        "observed": float(found.observed.mean()),
        "true_value": true_value(simulator, policy),
    }


_SEPSIS = "sepsis"
_WRONG = 0.03  # of claims; more than that is too many
_NUM_PROCESSES = {"quick": 2, "published": 60, "best": 60}
_NUM_PATIENTS = {"quick": 50, "published": 1000, "best": 1000}
_COST_OF_A_PROCESS = 5.0


@final
class Robustness(AbstractExperiment):
    """Random processes that are known, and policies optimised on estimates of them."""

    name = "robustness"
    title = "Are gains called robust gains in truth?"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """One for each family, and one for the sepsis patients; `seeds` counts the processes."""
        number = _NUM_PROCESSES[checked_preset(preset)] if seeds is None else seeds
        asked = {"num_resamples": NUM_RESAMPLES, "claimed_at": Posterior().level}
        common = {"horizon": HORIZON, **asked}
        families = []
        for name, family in FAMILIES.items():
            # of rows with many successors few gains are known, so it takes more processes to count them
            many = number * (4 if family.num_successors > 4 else 1)
            settings = {**family._asdict(), **common, "num_processes": many}
            families.append(Cell(self.name, name, settings, cost=many * _COST_OF_A_PROCESS))
        patients = {"num_episodes": _NUM_PATIENTS[preset], **asked}
        return [*families, Cell(self.name, _SEPSIS, patients, cost=60.0)]

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Counts of gains."""
        if context.train_only:
            return None
        settings = cell.settings
        if cell.name == _SEPSIS:
            return sepsis_gains(settings["num_episodes"], settings["num_resamples"])
        family = Family(*(settings[each] for each in Family._fields))
        return robust_gains(family, range(settings["num_processes"]), settings["num_resamples"], context.advance)

    def section(self, stored: Mapping[str, Result]) -> Section:
        """Gains by what was asked for: every coupling of the estimate, or every model too."""
        headers = (
            "processes",
            "every coupling of the estimate",
            "of these wrong",
            "agreed: with 95 % confidence in the model too",
            "of these wrong",
            "true gains found",
            "by who knows how processes are drawn",
            "the most with 3 % wrong",
            "robust: if chance may persist too",
            "of these wrong",
            "such gains found",
            "95 % intervals that cover",
            "of who knows",
        )
        lines: list[list[Value]] = [
            [
                name,
                *_called(each, "given"),
                *_called(each, "agreed"),
                _share(each["agreed_found"], each["true"]),
                _share(each["informed_found"], each["true"]),
                _share(_most_found(each), each["true"]),
                *_called(each, "robust"),
                _share(each["lasting_found"], each["lasting"]),
                _share(each["covered"], each["changed"]),
                _share(each["informed_covered"], each["changed"]),
            ]
            for name, each in sorted(stored.items())
            if name != _SEPSIS
        ]
        sheet = Sheet("Gains of episodes that are called robust", headers, ("",) * len(headers), lines)
        words = [
            "Processes are drawn at random and known; a log is drawn from each, a process is estimated from the log, "
            "and the policy is the one that looks best on the estimate: the hardest case for claims about it. A gain "
            "is wrong if it is not one under every coupling of the true process and for every reward that it may pay. "
            "True gains that are found are compared with what is found, by the same rule, by somebody who knows how "
            "many successors rows have, the laws of probabilities and rewards, and how far these vary; and with the "
            "most that this person could find, had they known which share of their models to ask for so that 3 % are "
            "wrong. Robust gains are compared with those of the true process if chance may persist. The last two "
            "columns count episodes that the policy changes: whether the interval of the effect by Gumbel-max has the "
            "effect by Gumbel-max in the true process.",
        ]
        if _SEPSIS in stored:
            found = stored[_SEPSIS]
            words.append(
                f"Of {found['episodes']} sepsis patients, {found['given']} are told of a gain by every coupling of "
                f"the estimate, {found['agreed']} of one with confidence in the model, and {found['robust']} of one "
                f"that is there even if chance may persist; the policy is worth "
                f"{found['true_value']:.3f} in truth where {found['observed']:.3f} was observed."
            )
        return Section(self.title, words, {"robustness": sheet})


def _called(found: Result, called: str) -> tuple[str, str]:
    """How many gains are called so, and the share of them that are none."""
    return str(found[called]), _share(found[f"{called}_wrongly"], found[called])


def _most_found(found: Result) -> int:
    """True gains among those that the most informed models have, so many that no more than 3 % of all are wrong."""
    gains, wrong = (np.cumsum(found[each][:0:-1]) for each in ("informed_sure", "informed_sure_wrongly"))
    return int(gains[wrong <= _WRONG * (gains + wrong)].max(initial=0))


def _share(some: int, whole: int) -> str:
    return f"{some / whole:.1%}" if whole else "none"
