"""Whole trajectories: published values beside exact ones, estimates beside the truth, a learned coupling."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, final

import jax
import numpy as np

from countermax._core.page import Sheet, Value
from countermax.couplings import AbstractCoupling, Gadget2, GumbelMax
from countermax.couplings._named import named_couplings
from countermax.couplings._words import LEARNED
from countermax.intervals._interval import percentile_interval
from countermax.learning import SquaredDifference, Training, evaluate, fit
from countermax.mdp import (
    Cohort,
    EpisodeLog,
    FiniteMDP,
    estimate,
    logged_pairs,
    policy_iteration,
    policy_value,
    simulate,
)
from countermax.mdp._estimation import restricted, usual_policy
from countermax.mdp._importance import importance_estimates, importance_ratios
from countermax.mdp._planning import policy_values, state_distributions
from studies.experiments import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset
from studies.processes import sepsis
from studies.processes.icu import icu_sepsis
from studies.sepsis import (
    DISCOUNT,
    HORIZON,
    estimated_model,
    in_the_simulator,
    published_model,
    simulated_cohort,
)

NUM_EPISODES = 1000
_NUM_DRAWS = 5  # counterfactual trajectories for each episode in the published program


def sepsis_log(*, as_published: bool, num_episodes: int, seed: int) -> tuple[EpisodeLog, FiniteMDP, FiniteMDP]:
    """Episodes in the projected space, the model learned from them, and the simulator behind them.

    Args:
        as_published: Whether to follow the published pipeline, flaws included, instead of the repaired one.
        num_episodes: Number of patients.
        seed: Seed of the draw.
    """
    episodes, log, simulator = simulated_cohort(as_published=as_published, num_episodes=num_episodes, seed=seed)
    return log, published_model(episodes, log) if as_published else estimated_model(log), simulator


def cautious_policy(log: EpisodeLog, model: FiniteMDP, least_visits: int = 20) -> np.ndarray:
    """The best policy among actions that were seen often enough, in the terms of the full model."""
    return restricted(model, policy_iteration(estimated_model(log, least_visits)).policy)[0]


def true_value(simulator: FiniteMDP, policy: np.ndarray) -> float:
    """What a policy over projected states is worth in the simulator, exactly."""
    return policy_value(simulator, in_the_simulator(policy), horizon=HORIZON, discount=1.0)


def oberst_sontag(num_repeats: int) -> dict[str, Any]:
    """The published pipeline, flaws included, with new episodes each time; all but the episodes is exact."""
    logs = (sepsis_log(as_published=True, num_episodes=NUM_EPISODES, seed=seed) for seed in range(num_repeats))
    return {
        "num_repeats": num_repeats,
        "num_episodes": NUM_EPISODES,
        "rows": [published_values(*each) for each in logs],
    }


def published_values(log: EpisodeLog, model: FiniteMDP, simulator: FiniteMDP) -> dict[str, Any]:
    """What the published pipeline says of the policy that is best in its model.

    Args:
        log: Episodes in the projected space, ends recorded by their vital signs.
        model: The published model of them.
        simulator: The process behind them.
    """
    target = policy_iteration(model).policy
    ratios = importance_ratios(log, target, usual_policy(model))
    # Ends are recorded by their vital signs there: no episode comes to an end, the model carries all of them on, and it
    # alone pays for ends; what the log earned would be paid for twice.
    unpaid = replace(log, rewards=np.zeros(log.rewards.shape))
    asked = Cohort(unpaid, target, process=model, discount=1.0, censored="model")
    replayed = asked.replay(GumbelMax())
    planned = policy_values(model, target, horizon=HORIZON, discount=1.0)
    truth = true_value(simulator, target)
    rollout = state_distributions(model, target, HORIZON)[-1]
    walked = state_distributions(simulator, in_the_simulator(target), HORIZON)[-1]
    errors = {
        "model-based": _error_of_draws(float(rollout[model.absorbing].sum()), float(model.start @ planned)),
        "counterfactual": float(np.sqrt(replayed.variances.mean() / (_NUM_DRAWS * NUM_EPISODES))),
        "true": _error_of_draws(float(walked[simulator.absorbing].sum()), truth),
    }
    return {
        "observed": float(log.returns().mean()),
        "weighted importance sampling": importance_estimates(log, ratios, discount=1.0).weighted,
        "episodes with any weight": int((ratios[:, -1] > 0).sum()),
        "model-based": float(planned[log.states[:, 0]].mean()),
        "counterfactual": replayed.mean,
        "true": truth,
        "errors that exactness removes": errors,
        "fates": _fates(log, replayed.last.toarray()),
    }


def _error_of_draws(ended: float, mean: float) -> float:
    """The standard error of a mean of 1,000 drawn returns, each -1, 0 or 1; `ended` is how often it is not 0."""
    return float(np.sqrt((ended - mean**2) / NUM_EPISODES))


def _fates(log: EpisodeLog, last: np.ndarray) -> list[list[int]]:
    """Observed by most likely counterfactual outcome: death, neither, discharge; ties go to the worse."""
    chances = np.stack([last[:, sepsis.DEATH], np.zeros(len(last)), last[:, sepsis.DISCHARGE]], axis=1)
    chances[:, 1] = 1 - chances.sum(axis=1)
    observed, claimed = np.sign(log.returns()).astype(int) + 1, np.round(chances, 12).argmax(axis=1)
    counts = np.zeros((3, 3), int)
    np.add.at(counts, (observed, claimed), 1)
    return counts.tolist()


def cohort(num_resamples: int) -> dict[str, Any]:
    """Every estimate beside the truth, on the repaired sepsis process and on intensive-care records."""
    found: dict[str, Any] = {}
    log, model, simulator = sepsis_log(as_published=False, num_episodes=NUM_EPISODES, seed=0)
    target = cautious_policy(log, model)
    evaluation = Cohort(
        log, target, process=estimated_model, outcomes=sepsis.projected_outcomes(), discount=1.0
    ).evaluate(named_couplings(["gumbel-max", "inverse-cdf", "maximal"]), num_resamples=num_resamples, seed=1)
    found["sepsis, learned policy"] = evaluation.to_dict() | {"truth": true_value(simulator, target)}
    icu = icu_sepsis()
    best = policy_iteration(icu.mdp).policy
    records = simulate(icu.mdp, icu.expert_policy, num_episodes=NUM_EPISODES, horizon=HORIZON, key=jax.random.key(2))
    learn = partial(estimate, absorbing=np.flatnonzero(icu.mdp.absorbing))
    # A replay here asks about a million questions, too many to repeat for every resample: it has no interval. The
    # experts' own policy, spread over 25 actions, would ask many more, and say little beyond the observed return.
    targets: dict[str, tuple[np.ndarray, dict[str, AbstractCoupling]]] = {
        "icu, the experts' own policy": (icu.expert_policy, {}),
        "icu, the optimal policy": (best, named_couplings(["gumbel-max", "inverse-cdf"])),
    }
    for name, (policy, couplings) in targets.items():
        asked = Cohort(records, policy, process=learn, horizon=HORIZON, discount=1.0)
        told = asked.evaluate({}, num_resamples=num_resamples, seed=3).to_dict()
        if couplings:
            once = asked.evaluate(couplings, num_resamples=0).to_dict()
            told["estimates"] += [each for each in once["estimates"] if each["kind"] == "counterfactual"]
        found[name] = told | {"truth": policy_value(icu.mdp, policy, horizon=HORIZON, discount=1.0)}
    return found


def learned(steps: int) -> dict[str, Any]:
    """A coupling trained on the pairs of a log, beside the fixed ones: one step, and whole trajectories."""
    log, model, _ = sepsis_log(as_published=False, num_episodes=NUM_EPISODES, seed=0)
    target = cautious_policy(log, model)
    labels = sepsis.projected_outcomes()
    size = int(labels.max()) + 1
    first = np.array([int((labels == label).argmax()) for label in range(size)])
    score = np.stack(list(sepsis.projected_features().values()), axis=1)[first]
    pairs = logged_pairs(model, log, target, outcomes=labels)
    loss = SquaredDifference(score)
    gadget = Gadget2(size, 20, key=jax.random.key(4), hidden=(64, 64))
    result = fit(gadget, pairs, loss, Training(steps=steps, batch_size=64), key=jax.random.key(5))
    couplings = named_couplings() | {LEARNED: result.coupling}
    one_step = evaluate(couplings, pairs, loss, key=jax.random.key(6), num_pairs=2000)
    asked = Cohort(log, target, process=model, outcomes=labels, discount=1.0)
    replays = {name: asked.replay(each) for name, each in couplings.items()}
    whole = {
        name: {
            "mean": each.mean,
            "variance within a patient": float(each.variances.mean()),
            "variance between patients": float(each.values.var()),
            "median variance": float(np.median(each.variances)),
            "patients below half the variance of Gumbel-max": float(
                (each.variances < 0.5 * replays["Gumbel-max"].variances).mean()
            ),
        }
        for name, each in replays.items()
    }
    return {"steps": steps, "one step": {"rows": one_step.by_coupling}, "whole trajectories": whole}


PUBLISHED = {
    "observed": (0.3240, (0.3097, 0.2694, 0.3510)),
    "weighted importance sampling": (0.6286, (0.6074, -0.4217, 0.9903)),
    "model-based": (0.9164, (0.8128, 0.5700, 0.9625)),
    "counterfactual": (0.9531, None),
    "true": (-0.4907, (-0.2743, -0.5850, 0.0549)),
}
"""Oberst and Sontag (2019): the value, and mean and 95 % range over 100 repeats where the appendix has them."""

_LEVEL = 0.95


def published_sheet(result: Result) -> Sheet:
    """The published off-policy values beside ours."""
    rows = result["rows"]
    lines: list[list[Value]] = []
    for name, (value, repeats) in PUBLISHED.items():
        values = np.array([row[name] for row in rows])
        before = "" if repeats is None else "{:.3f} ({:.3f}, {:.3f})".format(*repeats)
        errors = [row["errors that exactness removes"].get(name) for row in rows]
        gone = "" if errors[0] is None else f"{np.mean(errors):.4f}"
        span = percentile_interval(values, _LEVEL)
        assert span is not None
        here = f"{values.mean():.3f} ({span.lower:.3f}, {span.upper:.3f})"
        lines.append([name, f"{value:.4f}", before, here, f"{(values < value).mean():.0%} of repeats", gone])
    columns = (
        "estimate",
        "published",
        "published, 100 repeats",
        f"here, {result['num_repeats']} repeats",
        "published lies above",
        "sampling error that is gone",
    )
    return Sheet("Oberst and Sontag's values, and ours: mean and 95 % range", columns, ("",) * 6, lines)


def cohort_sheet(result: Result) -> Sheet:
    """Every estimate beside the truth."""
    by_name = [{each["name"]: each for each in found["estimates"]} for found in result.values()]
    wanted = dict.fromkeys(estimate for each in by_name for estimate in each)
    lines: list[list[Value]] = [[name, *(_entry(each.get(name)) for each in by_name)] for name in wanted]
    lines.append(["**truth**", *(f"**{found['truth']:.3f}**" for found in result.values())])
    lines.append(["effective sample size", *(f"{found['effective_sample_size']:.1f}" for found in result.values())])
    columns = ("estimate", *result)
    return Sheet("What each estimate says, with its 95 % bootstrap interval", columns, ("",) * len(columns), lines)


def learned_sheet(result: Result) -> Sheet:
    """What a coupling learned on the log's pairs leaves of the variance."""
    lines: list[list[Value]] = []
    for name, row in result["whole trajectories"].items():
        above = result["one step"]["rows"][name]["above_optimum"]
        lines.append([name, above, row["variance within a patient"], row["variance between patients"]])
    columns = ("coupling", "one step, above the optimum", "variance within a patient", "variance between patients")
    return Sheet("Variance of what the other policy would have earned", columns, ("", ".2%", ".4f", ".4f"), lines)


def _entry(estimate: dict[str, Any] | None) -> str:
    if estimate is None:
        return ""
    interval = estimate["interval"]
    return f"{estimate['value']:.3f}" + ("" if interval is None else " ({lower:.3f}, {upper:.3f})".format(**interval))


_STUDIES: dict[str, tuple[Callable[[int], Result], str]] = {
    "oberst-sontag": (oberst_sontag, "num_repeats"),
    "cohort": (cohort, "num_resamples"),
    "learned": (learned, "steps"),
}
_AMOUNTS = {
    "quick": {"oberst-sontag": 5, "cohort": 5, "learned": 300},
    "published": {"oberst-sontag": 50, "cohort": 20, "learned": 1500},
    "best": {"oberst-sontag": 50, "cohort": 20, "learned": 1500},
}


@final
class Trajectories(AbstractExperiment):
    """Logged patients, another policy, and what is said of them."""

    name = "trajectories"
    title = "Whole trajectories: what another policy would have done"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """One for each study; `seeds` counts the repeats of the published pipeline."""
        amounts = dict(_AMOUNTS[checked_preset(preset)])
        if seeds is not None:
            amounts["oberst-sontag"] = seeds
        common = {"horizon": HORIZON, "discount": DISCOUNT, "num_episodes": NUM_EPISODES}
        return [
            Cell(self.name, study, {**common, amount: amounts[study]}, cost=float(amounts[study]))
            for study, (_, amount) in _STUDIES.items()
        ]

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """The study's numbers."""
        if context.train_only:
            return None
        study, amount = _STUDIES[cell.name]
        return study(cell.settings[amount])

    def section(self, stored: Mapping[str, Result]) -> Section:
        """A sheet for each study that is stored."""
        makers = {"oberst-sontag": published_sheet, "cohort": cohort_sheet, "learned": learned_sheet}
        sheets = {
            f"trajectories_{name}".replace("-", "_"): makers[name](stored[name]) for name in makers if name in stored
        }
        words = [
            "Everything but the logged episodes is exact: values, counterfactual chains, bounds and the truth. The "
            "published values rest on one set of 1,000 episodes and on sampling; here new episodes are drawn in each "
            "repeat, so the range is that of the episodes alone.",
        ]
        return Section(self.title, words, sheets)
