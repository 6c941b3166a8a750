"""Section 7.3: treatment effects in the sepsis process, as published and repaired, and beyond it."""

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import final

import jax.numpy as jnp

from countermax.experiments.engine import AbstractExperiment, Cell, Recipe, Result, Section, Workshop, train
from countermax.experiments.sepsis._document import faithful_section, repaired_section
from countermax.experiments.sepsis._losses import AfterOneOutcome, ScoreProducts, VarianceGivenSeen
from countermax.experiments.sepsis._measuring import (
    PANELS,
    is_counterfactual,
    is_generalised,
    measure_fixed,
    measure_learned,
)
from countermax.experiments.sepsis._pipeline import AskedQuery, pipeline_settings, run_pipeline
from countermax.experiments.sepsis._presets import sepsis_preset
from countermax.experiments.sepsis._trials import Trials, trials_of
from countermax.learning import (
    AbstractLoss,
    AbstractObjective,
    AbstractPairs,
    Exact,
    FixedPair,
    PerturbedPair,
    Relaxed,
    SquaredDifference,
)

_SINGLE_PAIR = tuple(panel for panel in PANELS if not is_generalised(panel))
_PANELS_OF = {"states": PANELS, "vitals": _SINGLE_PAIR, "icu-sofa": PANELS, "icu-features": _SINGLE_PAIR}
_SEED = 1


@final
class Sepsis(AbstractExperiment):
    """The repaired experiment: on states, on vital signs, and on intensive-care records."""

    name = "sepsis"
    title = "Section 7.3: treatment effects in sepsis"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """The queries, then every world and panel: fixed mechanisms, then gadgets; `seeds` counts rewards."""
        there = [world for world in _PANELS_OF if not world.startswith("icu") or find_spec("icu_sepsis") is not None]
        return _cells(self.name, preset, seeds, there, faithful=False)

    def compute(self, cell: Cell, workshop: Workshop) -> Result | None:
        """Exact variances of one kind of mechanism in one panel."""
        return _compute(cell, workshop)

    def section(self, stored: Mapping[str, Result]) -> Section:
        """The four panels, what coupling vital signs gains, and the records."""
        return repaired_section(self.title, stored)


@final
class FaithfulSepsis(AbstractExperiment):
    """The published pipeline, flaws included, to compare with its ranking."""

    name = "sepsis-faithful"
    title = "Section 7.3 as published: treatment effects in sepsis"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """The queries, then every panel: fixed mechanisms, then gadgets; `seeds` counts rewards."""
        return _cells(self.name, preset, seeds, ["states"], faithful=True)

    def compute(self, cell: Cell, workshop: Workshop) -> Result | None:
        """Exact variances of one kind of mechanism in one panel."""
        return _compute(cell, workshop)

    def section(self, stored: Mapping[str, Result]) -> Section:
        """The four panels as in the paper."""
        return faithful_section(self.title, stored)


def sepsis_queries(*, faithful: bool = False) -> tuple[AskedQuery, ...]:
    """The queries of the experiment: pairs of rows, what was seen, and how much data stand behind them.

    Args:
        faithful: Those of the published pipeline instead of the repaired one.
    """
    return run_pipeline(faithful=faithful).queries


def _cells(name: str, preset: str, seeds: int | None, worlds: list[str], *, faithful: bool) -> list[Cell]:
    chosen = sepsis_preset(preset)
    common: Result = {"faithful": faithful, "pipeline": pipeline_settings(faithful=faithful)}
    plan = [Cell(name, "queries", common)]
    for world in worlds:
        for panel in _PANELS_OF[world]:
            records = world.startswith("icu")
            recipes = chosen.recipes(records=records, generalised=is_generalised(panel))
            if not recipes:
                continue
            settings: Result = {
                **common,
                "world": world,
                "panel": panel,
                "num_scores": seeds or chosen.num_scores,
                "num_noisy": chosen.num_noisy if is_generalised(panel) else 1,
                "most_outcomes": chosen.most_outcomes if records else None,
            }
            plan.append(Cell(name, f"{world}-{panel}-fixed", settings, cost=4.0))
            for recipe in recipes:
                learned = {**settings, "recipe": recipe.settings(), "seed": _SEED}
                label = f"{world}-{panel}-{recipe.gadget}".lower().replace(" ", "-")
                plan.append(Cell(name, label, learned, cost=_cost(world, recipe, generalised=is_generalised(panel))))
    return plan


def _compute(cell: Cell, workshop: Workshop) -> Result | None:
    settings = cell.settings
    faithful = settings["faithful"]
    if "world" not in settings:
        return None if workshop.train_only else _describe_queries(faithful)
    panel = settings["panel"]
    trials = trials_of(
        settings["world"],
        faithful=faithful,
        num_scores=settings["num_scores"],
        most_outcomes=settings["most_outcomes"],
    )
    if "recipe" not in settings:
        if workshop.train_only:
            return None
        return measure_fixed(trials, panel, faithful=faithful, num_noisy=settings["num_noisy"])
    recipe = Recipe.of(settings["recipe"])
    known = is_counterfactual(panel)
    objective = _objective(recipe, known=known, faithful=faithful)
    if not is_generalised(panel) and not isinstance(objective, Relaxed):
        recipe = replace(recipe, batch_size=1)  # more of the same pair would change nothing where nothing is sampled
    members = [index for index in range(len(trials)) for _ in range(_restarts(recipe, panel))]
    scores = [score[:, 0] if score.shape[1] == 1 else score for score in trials.score]
    mechanisms, trained = train(
        recipe,
        [scores[index] for index in members],
        [_pairs(trials, index, panel) for index in members],
        [_loss(trials, index, known=known, faithful=faithful) for index in members],
        seed=settings["seed"],
        workshop=workshop,
        objective=objective,
        num_held_out=8,
    )
    if workshop.train_only:
        return None
    rows = measure_learned(mechanisms, members, trials, panel, faithful=faithful, num_noisy=settings["num_noisy"])
    if isinstance(objective, VarianceGivenSeen):
        trained = {key: value for key, value in trained.items() if key != "history"}  # of a loss that is not trained
    return {"trained": trained, "rows": {recipe.gadget: rows}, "pair": trials.pair.tolist()}


def _restarts(recipe: Recipe, panel: str) -> int:
    """How often a gadget is trained for each trial; on perturbed pairs choosing the best would be choosing by luck."""
    return 1 if is_generalised(panel) else recipe.restarts


def _pairs(trials: Trials, index: int, panel: str) -> AbstractPairs:
    if is_generalised(panel):
        return PerturbedPair(trials.log_p[index], trials.log_q[index], 1.0)
    return FixedPair(trials.log_p[index], trials.log_q[index])


def _objective(recipe: Recipe, *, known: bool, faithful: bool) -> AbstractObjective:
    """The relaxed objective is the paper's only where nothing is known of the outcome."""
    if known:
        return Exact() if faithful else VarianceGivenSeen()
    return Relaxed(1.0, 16) if recipe.objective == "relaxed" else Exact()


def _loss(trials: Trials, index: int, *, known: bool, faithful: bool) -> AbstractLoss:
    """What is reported is what is trained; as published, a second moment stands for the variance where x is known."""
    score, other = (jnp.asarray(each[index], float) for each in (trials.score, trials.other_score))
    if not known:
        return SquaredDifference(score, other)
    return AfterOneOutcome(score, other, jnp.asarray(trials.outcome[index])) if faithful else ScoreProducts(other)


def _describe_queries(faithful: bool) -> Result:
    found = run_pipeline(faithful=faithful)
    names = found.model.state_names, found.model.action_names
    return {
        "num_candidates": found.num_candidates,
        "shares": {name: list(both) for name, both in found.shares.items()},
        "queries": [
            {
                "state": names[0][asked.query.state] if names[0] else asked.query.state,
                "action": names[1][asked.query.action] if names[1] else asked.query.action,
                "other_action": names[1][asked.query.other_action] if names[1] else asked.query.other_action,
                "visits": list(asked.visits),
                "num_outcomes": [int((each > -jnp.inf).sum()) for each in (asked.query.p, asked.query.q)],
            }
            for asked in found.queries
        ],
    }


def _cost(world: str, recipe: Recipe, *, generalised: bool) -> float:
    members = 6 if world.startswith("icu") else 30
    size = 60 if world.startswith("icu") else 16
    work = size**2 * recipe.num_latents if recipe.gadget == "Gadget 2" else 2 * size**3
    return 10 + recipe.steps * members * (recipe.batch_size if generalised else 1) * work * 2e-8
