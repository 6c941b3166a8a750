"""Section 7.3: the plan, and what is shown of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import final

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from countermax._core.page import Sheet, Value
from countermax._pairs import AbstractPairs
from countermax.intervals._interval import ratio_error, standard_error
from countermax.learning import FixedPair, GivenOutcome, PerturbedPair, Relaxed, SquaredDifference
from countermax.learning._losses import AbstractLoss, AbstractObjective, Exact
from countermax.learning._recipe import Recipe
from studies import plots
from studies.experiments import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset
from studies.sepsis._queries import WORLDS, AskedQuery, Trials, pipeline_settings, run_pipeline, trials_of
from studies.sepsis._variances import (
    BY_SCORE,
    PANELS,
    ScoreProducts,
    VarianceGivenSeen,
    is_counterfactual,
    is_generalised,
    measure_fixed,
    measure_learned,
)
from studies.synthetic import published_recipe
from studies.training import GADGET_NAMES, train


@dataclass(frozen=True)
class SepsisPreset:
    """Sizes and recipes; for a single pair and for perturbed ones."""

    fixed: tuple[Recipe, ...]
    generalised: tuple[Recipe, ...]
    fixed_records: tuple[Recipe, ...]
    """Recipes for the ICU records, with several times as many outcomes; Gadget 1 costs the cube of their number."""
    generalised_records: tuple[Recipe, ...]
    """Empty for no such panels."""
    num_noisy: int
    """Perturbed pairs that each trial is measured on."""
    num_scores: int = 5
    """Draws of the reward for each query."""
    most_outcomes: int = 64
    """The largest number of outcomes that a query to the ICU records may have."""

    def recipes(self, *, records: bool, generalised: bool) -> tuple[Recipe, ...]:
        """The recipes of a panel."""
        if records:
            return self.generalised_records if generalised else self.fixed_records
        return self.generalised if generalised else self.fixed


_GADGET_2 = Recipe("gadget-2", 1000, 1e-2, num_latents=32, hidden=(64, 64))
_BEST = SepsisPreset(
    fixed=(Recipe("gadget-1", 2000, 1e-1, part="constant", restarts=4), replace(_GADGET_2, restarts=4)),
    generalised=(
        Recipe("gadget-1", 800, 3e-3, hidden=(128, 128), batch_size=8),
        replace(_GADGET_2, steps=800, num_latents=20, hidden=(128, 128), batch_size=8),
    ),
    fixed_records=(replace(_GADGET_2, steps=600),),
    generalised_records=(replace(_GADGET_2, steps=400, num_latents=20, hidden=(128, 128), batch_size=4),),
    num_noisy=500,
)
_QUICK = SepsisPreset(
    fixed=(
        replace(_BEST.fixed[0], steps=300, restarts=1),
        replace(_BEST.fixed[1], steps=300, num_latents=16, hidden=(32, 32), rounds=10, restarts=1),
    ),
    generalised=(
        replace(_BEST.generalised[0], steps=150, learning_rate=1e-2, hidden=(64, 64), batch_size=4),
        replace(_BEST.generalised[1], steps=200, num_latents=16, hidden=(64, 64), rounds=10),
    ),
    fixed_records=(replace(_GADGET_2, steps=200, num_latents=16, hidden=(32, 32), rounds=10),),
    generalised_records=(),
    num_noisy=100,
    num_scores=2,
    most_outcomes=48,
)
_PUBLISHED_GADGETS = (published_recipe("gadget-1", 32_016, 1e-5), published_recipe("gadget-2", 2_000, 1e-5))
_PUBLISHED = SepsisPreset(
    fixed=_PUBLISHED_GADGETS,
    generalised=_PUBLISHED_GADGETS,
    fixed_records=_PUBLISHED_GADGETS[1:],
    generalised_records=_PUBLISHED_GADGETS[1:],
    num_noisy=2000,
)


def sepsis_preset(preset: str) -> SepsisPreset:
    """The preset of this name."""
    return {"quick": _QUICK, "published": _PUBLISHED, "best": _BEST}[checked_preset(preset)]


_ORDER = ("independent", "Gumbel-max", "inverse CDF", BY_SCORE, *GADGET_NAMES.values(), "optimal")
_TITLES = {panel: panel.replace("-", ", ") + (" pairs" if is_generalised(panel) else " pair") for panel in PANELS}
_LABEL = "variance of the treatment effect"
_TOO_EARLY = "The queries or the fixed couplings are not computed yet; the command that began this resumes with them."


class _Panel:
    """All stored rows of one world and panel."""

    def __init__(self, world: str, panel: str, stored: Mapping[str, Result], *, as_published: bool):
        self.world, self.panel, self.as_published = world, panel, as_published
        self.rows: dict[str, Result] = {}
        self.overlap: list[float] = []
        for name, result in stored.items():
            if name.startswith(f"{world}-{panel}-"):
                self.rows |= result["rows"]
                self.pair = np.asarray(result["pair"])
                self.overlap = result.get("overlap", self.overlap)
        self.rows = {name: self.rows[name] for name in _ORDER if name in self.rows}

    def values(self, name: str) -> NDArray[np.float64]:
        """One number for each pair, or as published for each trial, between-query variance included."""
        row = self.rows[name]
        within = np.asarray(row["within"])
        if self.as_published:
            return within + np.asarray(row["between"])
        return np.array([within[self.pair == each].mean() for each in np.unique(self.pair)])

    def bars(self) -> dict[str, tuple[float, float | None]]:
        """Mean and standard error of each row."""
        return {name: (float(self.values(name).mean()), standard_error(self.values(name))) for name in self.rows}

    def share(self, name: str) -> tuple[float, float | None]:
        """The share of the independent coupling's variance, with its paired standard error."""
        row, whole = self.values(name), self.values("independent")
        return float(row.mean() / whole.mean()), ratio_error(row, whole)

    def between(self, name: str) -> float | None:
        """The mean of what differs between queries, or between observations."""
        found = self.rows[name]["between"]
        return None if found is None else float(np.mean(found))


def repaired_section(title: str, stored: Mapping[str, Result]) -> Section:
    """The four panels, what coupling vital signs gains, and the records."""
    panels = _panels(stored, as_published=False)
    if not _of("states", panels) or "queries" not in stored:
        return Section(title, [_TOO_EARLY])
    words = [_about_the_data(stored["queries"], repaired=True), *_about_overlap(panels), *_reading()]
    sheets = {
        "sepsis": _compact(_of("states", panels), "Variance of the effect ± standard error over queries (share)"),
        "sepsis_queries": _queries(stored["queries"]),
    }
    figures = {
        "sepsis": plots.draw_panels(_drawn(_of("states", panels)), _LABEL),
        "sepsis_shares": _shares(_of("states", panels)),
    }
    vitals = {panel: each for panel, each in _of("vitals", panels).items() if panel in _of("states", panels)}
    if vitals:
        sheets["sepsis_vitals"] = _gains(_of("states", panels), vitals)
        sides = {
            f"{panel.split('-')[0]},\n{what}": group[panel].bars()
            for panel in vitals
            for what, group in (("states", _of("states", panels)), ("vital signs", vitals))
        }
        figures["sepsis_vitals"] = plots.draw_panels(sides, _LABEL)
    for world in ("icu-sofa", "icu-features"):
        group = _of(world, panels)
        if group:
            name = f"sepsis_{world.replace('-', '_')}"
            sheets[name] = _compact(group, f"{WORLDS[world]}: variance of the effect ± standard error (share)")
            figures[name] = plots.draw_panels(_drawn(group), _LABEL)
    if not _of("icu-sofa", panels):
        words.append("Left out: the ICU records. Install icu-sepsis and run the same command again.")
    sheets["sepsis_details"] = _details(panels)
    return Section(title, words, sheets, figures)


def published_section(title: str, stored: Mapping[str, Result]) -> Section:
    """The four panels as in the paper."""
    panels = _panels(stored, as_published=True)
    if not panels or "queries" not in stored:
        return Section(title, [_TOO_EARLY])
    words = [
        _about_the_data(stored["queries"], repaired=False),
        "The pipeline is the published one, point by point: behaviour planned as if death could be left again, ends "
        "recorded as ordinary states, one pseudo-count for each end, the first six distinct queries, rewards with "
        "glucose always at its highest level. Counterfactual variances are given one observed outcome, and gadgets are "
        "trained there on the second moment; generalised values add how the effect differs between perturbed pairs. "
        "Not followed are slips inside the published gadgets: logits that are not normalised, by which they miss their "
        "marginals, and one noise for a whole batch. Every value is exact where the paper has 2,000 draws.",
        *_about_overlap(panels),
        "The paper prints no numbers for this figure. Its text says that both gadgets beat the fixed couplings, and "
        "that Gadget 2 does so by a wide margin where outcomes are known. " + _ranking(panels),
    ]
    group = _of("states", panels)
    sheets = {
        "sepsis_as_published": _compact(group, "Variance of the effect ± standard error over trials (share)"),
        "sepsis_as_published_queries": _queries(stored["queries"]),
        "sepsis_as_published_details": _details(panels),
    }
    figures = {
        "sepsis_as_published": plots.draw_panels(_drawn(group), _LABEL),
        "sepsis_as_published_shares": _shares(group),
    }
    return Section(title, words, sheets, figures)


def _panels(stored: Mapping[str, Result], *, as_published: bool) -> list[_Panel]:
    found = [_Panel(world, panel, stored, as_published=as_published) for world in WORLDS for panel in PANELS]
    return [each for each in found if "independent" in each.rows]


def _of(world: str, panels: Sequence[_Panel]) -> dict[str, _Panel]:
    return {each.panel: each for each in panels if each.world == world}


def _drawn(group: Mapping[str, _Panel]) -> dict[str, dict[str, tuple[float, float | None]]]:
    return {_TITLES[panel].replace(", ", "\n"): each.bars() for panel, each in group.items()}


def _shares(group: Mapping[str, _Panel]) -> Figure:
    """What is left of independent sampling's variance; errors are paired, so that rows can be compared."""
    shares = {
        _TITLES[panel].replace(", ", "\n"): {name: each.share(name) for name in each.rows if name != "independent"}
        for panel, each in group.items()
    }
    return plots.draw_panels(shares, "share of independent sampling's variance", ".0%")


def _compact(group: Mapping[str, _Panel], caption: str) -> Sheet:
    """Couplings down, panels across."""
    names = [name for name in _ORDER if any(name in each.rows for each in group.values())]
    rows: list[list[Value]] = [[name, *(_entry(each, name) for each in group.values())] for name in names]
    caption += "; the share is of independent sampling"
    return Sheet(caption, ("coupling", *(_TITLES[panel] for panel in group)), ("",) * (1 + len(group)), rows)


def _entry(panel: _Panel, name: str) -> str:
    if name not in panel.rows:
        return ""
    mean, error = panel.bars()[name]
    spread = "" if error is None else f" ± {error:.2f}"
    return f"{mean:.3f}{spread} ({panel.share(name)[0]:.0%})"


def _details(panels: Sequence[_Panel]) -> Sheet:
    """A line for each world, panel and coupling."""
    rows: list[list[Value]] = []
    for panel in panels:
        for name, (mean, error) in panel.bars().items():
            line: list[Value] = [WORLDS[panel.world], _TITLES[panel.panel], name, mean, error]
            rows.append([*line, *panel.share(name), panel.between(name)])
    columns = ("outcomes", "panel", "coupling", "variance", "error", "share of independent", "its error", "between")
    return Sheet("Everything that was measured", columns, ("", "", "", ".4f", ".4f", ".1%", ".1%", ".4f"), rows)


def _gains(states: Mapping[str, _Panel], vitals: Mapping[str, _Panel]) -> Sheet:
    """What each coupling gains when vital signs are coupled and the flags follow the action."""
    rows: list[list[Value]] = []
    for panel, coupled in vitals.items():
        for name in (each for each in coupled.rows if each in states[panel].rows):
            before, after = states[panel].values(name), coupled.values(name)
            saved = 1 - after.mean() / before.mean() if before.mean() > 0 else None
            rows.append([_TITLES[panel], name, float(before.mean()), float(after.mean()), saved])
    columns = ("panel", "coupling", "states coupled", "vital signs coupled", "saved")
    caption = "Variance of the effect with states as outcomes, and with vital signs"
    return Sheet(caption, columns, ("", "", ".4f", ".4f", ".1%"), rows)


def _queries(result: Result) -> Sheet:
    rows: list[list[Value]] = [
        [each["state"], each["action"], each["other_action"], *map(float, each["visits"] + each["num_outcomes"])]
        for each in result["queries"]
    ]
    columns = ("state", "done", "instead", "visits", "visits instead", "outcomes", "outcomes instead")
    return Sheet("The queries", columns, ("", "", "", ".0f", ".0f", ".0f", ".0f"), rows)


def _about_the_data(result: Result, *, repaired: bool) -> str:
    data, model, target = (result["shares"][name] for name in ("data", "model", "target"))
    flaw = "" if repaired else " The difference is the projection's doing: it records ends as ordinary states."
    return (
        f"Of 20,000 simulated episodes {data[0]:.1%} end in death and {data[1]:.1%} in discharge within 20 steps. "
        f"Under the same behaviour the estimated model says {model[0]:.1%} and {model[1]:.1%}.{flaw} The target "
        f"policy, planned in that model, would in truth lose {target[0]:.1%} and discharge {target[1]:.1%}. "
        f"{result['num_candidates']} distinct queries pass the filter."
    )


def _about_overlap(panels: Sequence[_Panel]) -> list[str]:
    """What the values cannot show: that the two worlds hardly share an outcome."""
    found = _of("states", panels).get("joint-fixed")
    if found is None:
        return []
    overlap = np.asarray(found.overlap)
    share = found.share("Gumbel-max")[0]
    words = [
        "Successors under different actions are disjoint, because the treatment flags are part of the state: only "
        f"death and discharge can be shared. In the queries at hand both worlds have {overlap.mean():.1%} of their "
        f"probability in common on average, and at most {overlap.max():.1%}. With nothing in common Gumbel-max is "
        f"independent sampling; here it leaves {share:.1%} of independent sampling's variance."
    ]
    coupled = _of("vitals", panels).get("joint-fixed")
    if coupled is not None:
        words.append(
            "The remedy is to couple vital signs and to let the flags follow the action. Both worlds then have "
            f"{np.mean(coupled.overlap):.1%} of their probability in common, and Gumbel-max leaves "
            f"{coupled.share('Gumbel-max')[0]:.1%} of independent sampling's variance. Names of outcomes make no "
            "difference to independent sampling, to pairing by score or to the optimum."
        )
    return words


def _reading() -> list[str]:
    return [
        "Joint: the variance of the effect over everybody. Counterfactual: the variance that is left once the factual "
        "outcome is known, averaged over that outcome; gadgets are trained on exactly this. Generalised: pairs whose "
        "logits are perturbed by standard normal noise, the mean over perturbed pairs; how the mean effect differs "
        "between them is reported separately (`between` in the details). Comonotone by score pairs quantiles of the "
        "two scores: with one scalar score it is optimal over everybody and needs no training. It is not the optimum "
        "once the outcome is known, which is found over all orders of outcomes. Errors are over queries, which differ "
        "far more than couplings do on the same query: compare shares, whose errors are paired. Queries share no "
        "state, but they do share the log."
    ]


def _ranking(panels: Sequence[_Panel]) -> str:
    parts = []
    for panel, each in _of("states", panels).items():
        ranked = sorted((name for name in each.rows if name != "optimal"), key=lambda name: each.bars()[name][0])
        parts.append(f"{_TITLES[panel]}: {', '.join(ranked)}")
    return "Ours, least variance first. " + "; ".join(parts) + "."


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
    """How often a gadget is trained for each trial; on perturbed pairs choosing the best would bias the result."""
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
