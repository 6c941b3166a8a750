"""Three studies of whole trajectories, on the sepsis process and on intensive-care records.

How the published off-policy figures compare with their exact counterparts, what every estimate says where the truth is
known, and what a mechanism learned on the log's own pairs adds.
"""

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np

from countermax.couplings import AbstractCoupling, Gadget2, GumbelMax, Independent, InverseCDF, Maximal
from countermax.experiments.sepsis import published_model
from countermax.learning import SquaredDifference, evaluate, fit
from countermax.mdp import (
    EpisodeLog,
    FiniteMDP,
    estimate,
    evaluate_policy,
    icu_sepsis,
    importance_estimates,
    importance_ratios,
    logged_pairs,
    policy_iteration,
    policy_value,
    policy_values,
    replay,
    restricted,
    simulate,
    softened,
    state_distributions,
    trajectory_bounds,
)
from countermax.mdp.processes import sepsis
from countermax.mdp.replays import usual_policy

HORIZON, DISCOUNT, NUM_EPISODES, BEST_ACTION = 20, 0.99, 1000, 0.95
NUM_DRAWS = 5  # counterfactual trajectories for each episode in the published program
FIXED: dict[str, AbstractCoupling] = {
    "Gumbel-max": GumbelMax(),
    "inverse CDF": InverseCDF(),
    "maximal": Maximal(),
    "independent": Independent(),
}


def sepsis_log(*, faithful: bool, num_episodes: int, seed: int) -> tuple[EpisodeLog, FiniteMDP, FiniteMDP]:
    """Episodes in the projected space, the model learned from them, and the simulator behind them."""
    simulator, behaviour = _world(faithful)
    episodes = simulate(simulator, behaviour, num_episodes=num_episodes, horizon=HORIZON, key=jax.random.key(seed))
    log = episodes.with_states(
        sepsis.projection(faithful=faithful), sepsis.NUM_PROJECTED, state_names=sepsis.projected_names()
    )
    log = replace(log, action_names=sepsis.action_names())
    model = published_model(episodes, log) if faithful else learned_model(log)
    return log, model, simulator


@lru_cache
def _world(faithful: bool) -> tuple[FiniteMDP, np.ndarray]:
    """The simulator and the policy that episodes come from."""
    simulator = sepsis.process(faithful=faithful, discount=DISCOUNT)
    planned = sepsis.process(faithful=True, absorbing=False, discount=DISCOUNT) if faithful else simulator
    return simulator, softened(policy_iteration(planned).policy, BEST_ACTION)


def learned_model(log: EpisodeLog) -> FiniteMDP:
    """Every row that was seen, with the two ends as ends."""
    return estimate(log, absorbing=[sepsis.DEATH, sepsis.DISCHARGE], discount=DISCOUNT)


def cautious_policy(log: EpisodeLog, model: FiniteMDP, least_visits: int = 20) -> np.ndarray:
    """The best policy among actions that were seen often enough, in the terms of the full model."""
    known = estimate(log, absorbing=[sepsis.DEATH, sepsis.DISCHARGE], least_visits=least_visits, discount=DISCOUNT)
    return restricted(model, policy_iteration(known).policy)[0]


def true_value(simulator: FiniteMDP, policy: np.ndarray) -> float:
    """What a policy over projected states is worth in the simulator, exactly."""
    return policy_value(simulator, policy[sepsis.projection(faithful=True)], horizon=HORIZON, discount=1.0)


def oberst_sontag(num_repeats: int) -> dict[str, Any]:
    """The published pipeline, flaws included, with new episodes each time; all but the episodes is exact."""
    rows: list[dict[str, Any]] = []
    for seed in range(num_repeats):
        log, model, simulator = sepsis_log(faithful=True, num_episodes=NUM_EPISODES, seed=seed)
        target = policy_iteration(model).policy
        ratios = importance_ratios(log, target, usual_policy(model))
        replayed = replay(model, log, target, GumbelMax(), discount=1.0, progress=False)
        bounds = trajectory_bounds(model, log, target, discount=1.0, progress=False)
        planned = policy_values(model, target, horizon=HORIZON, discount=1.0)
        rollout = state_distributions(model, target, HORIZON)[-1]
        walked = state_distributions(simulator, target[sepsis.projection(faithful=True)], HORIZON)[-1]
        errors = {
            "model-based": _error(float(rollout[model.absorbing].sum()), float(model.start @ planned)),
            "counterfactual": float(np.sqrt(replayed.variances.mean() / (NUM_DRAWS * NUM_EPISODES))),
            "true": _error(float(walked[simulator.absorbing].sum()), true_value(simulator, target)),
        }
        rows.append(
            {
                "observed": float(log.returns().mean()),
                "weighted importance sampling": importance_estimates(log, ratios).weighted,
                "episodes with any weight": int((ratios[:, -1] > 0).sum()),
                "model-based": float(planned[log.states[:, 0]].mean()),
                "counterfactual": replayed.mean,
                "true": true_value(simulator, target),
                "lower": float(bounds.lower.mean()),
                "upper": float(bounds.upper.mean()),
                "errors that exactness removes": errors,
                "fates": _fates(log, replayed.last.toarray()),
            }
        )
    return {"num_repeats": num_repeats, "num_episodes": NUM_EPISODES, "rows": rows}


def _error(ended: float, mean: float) -> float:
    """The standard error of a mean of 1,000 drawn returns, each -1, 0 or 1; `ended` is how often it is not 0."""
    return float(np.sqrt((ended - mean**2) / NUM_EPISODES))


def _fates(log: EpisodeLog, last: np.ndarray) -> list[list[int]]:
    """Observed by most likely counterfactual outcome: death, neither, discharge; ties go to the worse."""
    chances = np.stack([last[:, sepsis.DEATH], np.zeros(len(last)), last[:, sepsis.DISCHARGE]], axis=1)
    chances[:, 1] = 1 - chances.sum(axis=1)
    observed, claimed = np.sign(log.returns()).astype(int) + 1, np.round(chances, 12).argmax(axis=1)
    table = np.zeros((3, 3), int)
    np.add.at(table, (observed, claimed), 1)
    return table.tolist()


def cohort(num_bootstrap: int) -> dict[str, Any]:
    """Every estimate beside the truth, on the repaired sepsis process and on intensive-care records."""
    found: dict[str, Any] = {}
    log, model, simulator = sepsis_log(faithful=False, num_episodes=NUM_EPISODES, seed=0)
    target = cautious_policy(log, model)
    fixed = {name: FIXED[name] for name in ("Gumbel-max", "inverse CDF", "maximal")}
    evaluation = evaluate_policy(
        log,
        target,
        mechanisms=fixed,
        model=learned_model,
        outcomes=sepsis.projected_outcomes(),
        num_bootstrap=num_bootstrap,
        key=jax.random.key(1),
    )
    found["sepsis, learned policy"] = evaluation.to_dict() | {"truth": true_value(simulator, target)}
    icu = icu_sepsis()
    best = policy_iteration(icu.mdp).policy
    records = simulate(icu.mdp, icu.expert_policy, num_episodes=NUM_EPISODES, horizon=HORIZON, key=jax.random.key(2))
    learn = partial(estimate, absorbing=np.flatnonzero(icu.mdp.absorbing))
    # A replay here asks about a million questions, too many to repeat for every resample: it has no interval. The
    # experts' own policy, spread over 25 actions, would ask many more, and say little beyond the observed return.
    targets: dict[str, tuple[np.ndarray, dict[str, AbstractCoupling]]] = {
        "icu, the experts' own policy": (icu.expert_policy, {}),
        "icu, the optimal policy": (best, {name: FIXED[name] for name in ("Gumbel-max", "inverse CDF")}),
    }
    for name, (policy, mechanisms) in targets.items():
        key = jax.random.key(3)
        settings: dict[str, Any] = {"model": learn, "horizon": HORIZON, "key": key, "progress": False}
        resampled = evaluate_policy(records, policy, mechanisms={}, num_bootstrap=num_bootstrap, **settings).to_dict()
        if mechanisms:
            once = evaluate_policy(records, policy, mechanisms=mechanisms, num_bootstrap=0, **settings).to_dict()
            resampled["estimates"] += [each for each in once["estimates"] if each["kind"] == "counterfactual"]
        truth = policy_value(icu.mdp, policy, horizon=HORIZON, discount=1.0)
        found[name] = resampled | {"truth": truth}
    return found


def learned(steps: int) -> dict[str, Any]:
    """A mechanism trained on the pairs of a log, beside the fixed ones: one step, and whole trajectories."""
    log, model, _ = sepsis_log(faithful=False, num_episodes=NUM_EPISODES, seed=0)
    target = cautious_policy(log, model)
    labels = sepsis.projected_outcomes()
    size = int(labels.max()) + 1
    first = np.array([int((labels == label).argmax()) for label in range(size)])
    score = np.stack(list(sepsis.projected_features().values()), axis=1)[first]
    pairs = logged_pairs(model, log, target, outcomes=labels)
    loss = SquaredDifference(score)
    gadget = Gadget2(size, 20, key=jax.random.key(4), hidden=(64, 64))
    result = fit(gadget, pairs, loss, key=jax.random.key(5), steps=steps, batch_size=64, progress=False)
    mechanisms = FIXED | {"learned Gadget 2": result.mechanism}
    one_step = evaluate(mechanisms, pairs, loss, key=jax.random.key(6), num_pairs=2000)
    replays = {
        name: replay(model, log, target, each, outcomes=labels, discount=1.0, progress=False)
        for name, each in mechanisms.items()
    }
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
    return {"steps": steps, "one step": one_step.to_dict(), "whole trajectories": whole}
