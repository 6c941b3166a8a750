"""Section 7.3: treatment effects in the sepsis process, as published and repaired, and beyond it."""

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import final

import jax.numpy as jnp

from countermax.learning import (
    AbstractLoss,
    AbstractObjective,
    AbstractPairs,
    Exact,
    FixedPair,
    GivenOutcome,
    PerturbedPair,
    Recipe,
    Relaxed,
    SquaredDifference,
)
from studies.engine import GADGET_NAMES, AbstractExperiment, Cell, CellContext, Result, Section, train
from studies.sepsis._document import published_section, repaired_section
from studies.sepsis._losses import ScoreProducts, VarianceGivenSeen
from studies.sepsis._measuring import (
    PANELS,
    is_counterfactual,
    is_generalised,
    measure_fixed,
    measure_learned,
)
from studies.sepsis._pipeline import AskedQuery, pipeline_settings, run_pipeline
from studies.sepsis._presets import sepsis_preset
from studies.sepsis._trials import Trials, trials_of

_SINGLE_PAIR = tuple(panel for panel in PANELS if not is_generalised(panel))
_PANELS_OF = {"states": PANELS, "vitals": _SINGLE_PAIR, "icu-sofa": PANELS, "icu-features": _SINGLE_PAIR}
_SEED = 1


@final
class Sepsis(AbstractExperiment):
    """The repaired experiment: on states, on vital signs, and on intensive-care records."""

    name = "sepsis"
    title = "Section 7.3: treatment effects in sepsis"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """The queries, then every world and panel: fixed couplings, then gadgets; `seeds` counts rewards."""
        there = [world for world in _PANELS_OF if not world.startswith("icu") or find_spec("icu_sepsis") is not None]
        return _cells(self.name, preset, seeds, there, as_published=False)

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Exact variances of one kind of coupling in one panel."""
        return _compute(cell, context)

    def section(self, stored: Mapping[str, Result]) -> Section:
        """The four panels, what coupling vital signs gains, and the records."""
        return repaired_section(self.title, stored)


@final
class SepsisAsPublished(AbstractExperiment):
    """The published pipeline, flaws included, to compare with its ranking."""

    name = "sepsis-as-published"
    title = "Section 7.3 as published: treatment effects in sepsis"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """The queries, then every panel: fixed couplings, then gadgets; `seeds` counts rewards."""
        return _cells(self.name, preset, seeds, ["states"], as_published=True)

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Exact variances of one kind of coupling in one panel."""
        return _compute(cell, context)

    def section(self, stored: Mapping[str, Result]) -> Section:
        """The four panels as in the paper."""
        return published_section(self.title, stored)


def sepsis_queries(*, as_published: bool = False) -> tuple[AskedQuery, ...]:
    """The queries of the experiment: pairs of rows, what was seen, and how much data stand behind them.

    Args:
        as_published: Whether to ask those of the published pipeline instead of the repaired one.
    """
    return run_pipeline(as_published=as_published).queries


def _cells(name: str, preset: str, seeds: int | None, worlds: list[str], *, as_published: bool) -> list[Cell]:
    chosen = sepsis_preset(preset)
    common: Result = {"as_published": as_published, "pipeline": pipeline_settings(as_published=as_published)}
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
                cost = _cost(world, recipe, generalised=is_generalised(panel))
                plan.append(Cell(name, f"{world}-{panel}-{recipe.gadget}", learned, cost=cost))
    return plan


def _compute(cell: Cell, context: CellContext) -> Result | None:
    settings = cell.settings
    as_published = settings["as_published"]
    if "world" not in settings:
        return None if context.train_only else _describe_queries(as_published)
    panel = settings["panel"]
    trials = trials_of(
        settings["world"],
        as_published=as_published,
        num_scores=settings["num_scores"],
        most_outcomes=settings["most_outcomes"],
    )
    if "recipe" not in settings:
        if context.train_only:
            return None
        return measure_fixed(trials, panel, as_published=as_published, num_noisy=settings["num_noisy"])
    recipe = Recipe.of(settings["recipe"])
    known = is_counterfactual(panel)
    objective = _objective(recipe, known=known, as_published=as_published)
    if not is_generalised(panel) and not isinstance(objective, Relaxed):
        recipe = replace(recipe, batch_size=1)  # more of the same pair would change nothing where nothing is sampled
    members = [index for index in range(len(trials)) for _ in range(_restarts(recipe, panel))]
    scores = [score[:, 0] if score.shape[1] == 1 else score for score in trials.score]
    couplings, trained = train(
        recipe,
        [scores[index] for index in members],
        [_pairs(trials, index, panel) for index in members],
        [_loss(trials, index, known=known, as_published=as_published) for index in members],
        seed=settings["seed"],
        context=context,
        objective=objective,
        num_held_out=8,
    )
    if context.train_only:
        return None
    rows = measure_learned(
        couplings, members, trials, panel, as_published=as_published, num_noisy=settings["num_noisy"]
    )
    if isinstance(objective, VarianceGivenSeen):
        trained = {key: value for key, value in trained.items() if key != "history"}  # of a loss that is not trained
    return {"trained": trained, "rows": {GADGET_NAMES[recipe.gadget]: rows}, "pair": trials.pair.tolist()}


def _restarts(recipe: Recipe, panel: str) -> int:
    """How often a gadget is trained for each trial; on perturbed pairs choosing the best would be choosing by luck."""
    return 1 if is_generalised(panel) else recipe.restarts


def _pairs(trials: Trials, index: int, panel: str) -> AbstractPairs:
    if is_generalised(panel):
        return PerturbedPair(trials.log_p[index], trials.log_q[index], 1.0)
    return FixedPair(trials.log_p[index], trials.log_q[index])


def _objective(recipe: Recipe, *, known: bool, as_published: bool) -> AbstractObjective:
    """The relaxed objective is the paper's only where nothing is known of the outcome."""
    if known:
        return Exact() if as_published else VarianceGivenSeen()
    return recipe.make_objective()


def _loss(trials: Trials, index: int, *, known: bool, as_published: bool) -> AbstractLoss:
    """What is reported is what is trained; as published, a second moment stands for the variance where x is known."""
    score, other = (jnp.asarray(each[index], float) for each in (trials.score, trials.other_score))
    if known and not as_published:
        return ScoreProducts(other)
    squares = SquaredDifference(score, other)
    return GivenOutcome(squares, trials.outcome[index]) if known else squares


def _describe_queries(as_published: bool) -> Result:
    found = run_pipeline(as_published=as_published)
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
    work = size**2 * recipe.latents(size) if recipe.gadget == "gadget-2" else 2 * size**3
    return 10 + recipe.steps * members * (recipe.batch_size if generalised else 1) * work * 2e-8
