"""Table 1 of the paper: how much variance does each coupling leave? With a fifth column where no order is optimal."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np
from jaxtyping import ArrayLike, PRNGKeyArray
from matplotlib.figure import Figure
from numpy.typing import NDArray

from countermax._core.page import Sheet, Value
from countermax._core.transport import transport_plan
from countermax._pairs import Pairs, draw_pairs
from countermax.couplings import AbstractCoupling, GumbelMax, InverseCDF
from countermax.couplings._named import named_couplings
from countermax.intervals._interval import ratio_error, standard_error
from countermax.learning import FixedPair
from countermax.learning._losses import expected_losses, least_losses
from countermax.learning._recipe import Recipe, barycenter
from studies import plots
from studies.experiments import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset
from studies.synthetic import (
    FITTED_TO_ALL,
    FLOOR,
    NUM_OUTCOMES,
    PROJECTED,
    TASKS,
    Published,
    Table1Task,
    squared_mean_effect,
    table1_recipes,
    task,
)
from studies.training import GADGET_NAMES, train

Losses = NDArray[np.float64]

BY_SCORE = "inverse CDF by score"
_FIXED = ("independent", "gumbel-max", "inverse-cdf")
_BATCH = 50_000  # pairs that are drawn and measured at once
_NUM_DIRECTIONS = 200  # on which vector scores are projected, besides the axes
_NUM_PARTNERS = 10


@dataclass(frozen=True)
class ImplicitFloor:
    """The least found for a mechanism, beside what couplings lose that may see both worlds; on the same worlds."""

    loss: float
    optimum: float

    @property
    def above_optimum(self) -> float:
        """The distance as a fraction of the optimum; worlds that are easy or hard move both alike."""
        return self.loss / self.optimum - 1


def implicit_floor(
    scores: ArrayLike,
    pairs: Pairs,
    *,
    key: PRNGKeyArray,
    num_points: int = 256,
    num_worlds: int = 400,
    num_rounds: int = 10,
) -> ImplicitFloor:
    """Estimates from above the least expected squared distance that any *mechanism* can have, for p and q drawn alike.

    That is twice the barycenter's objective, which Lloyd's algorithm reaches up to local optima and the number of
    points; a coupling that sees both worlds can do better. For the optimum each world is paired with ten others.
    """
    _, value, worlds = barycenter(scores, num_points, pairs, key=key, num_worlds=num_worlds, num_rounds=num_rounds)
    vectors = np.asarray(scores, np.float64)
    costs = ((vectors[:, None, :] - vectors[None, :, :]) ** 2).sum(axis=2)
    shifts = range(1, min(_NUM_PARTNERS, num_worlds - 1) + 1)
    least = [
        (transport_plan(world, other, costs).plan * costs).sum()
        for shift in shifts
        for world, other in zip(worlds, np.roll(worlds, shift, axis=0), strict=True)
    ]
    # The barycenter is that of these very worlds, each of which is also paired with itself, at no loss.
    return ImplicitFloor(2 * value * num_worlds / (num_worlds - 1), float(np.mean(least)))


def _held_out(this: Table1Task, settings: Result) -> tuple[Any, Any]:
    return draw_pairs(this.pairs, settings["num_held_out"], key=jax.random.key(settings["held_out_key"]))


def measure_fixed(this: Table1Task, settings: Result) -> Result:
    """All couplings that are not learned; what is cheap on many more pairs than the others."""
    log_p, log_q = _held_out(this, settings)
    losses: dict[str, list[Losses]] = {}
    floors: list[float] = []
    fixed: dict[str, AbstractCoupling] = {}
    for score, loss in zip(this.scores, this.losses, strict=True):
        if score.ndim == 1:
            fixed = named_couplings([*_FIXED, "inverse-cdf-by-score"], score=score)
        else:
            fixed = named_couplings(_FIXED)
            ways = np.concatenate([np.eye(3), np.random.default_rng(1).normal(size=(_NUM_DIRECTIONS, 3))])
            orders = [InverseCDF.sorted_by(score @ way) for way in ways]
            fixed[PROJECTED] = min(
                orders, key=lambda each: float(expected_losses(each, loss, log_p[:1000], log_q[:1000]).mean())
            )
            keys = jax.random.split(jax.random.key(settings["held_out_key"]), settings["num_floors"])
            floors = [implicit_floor(score, this.pairs, key=key).above_optimum for key in keys]
        for name, coupling in fixed.items():
            losses.setdefault(name, []).append(_exact(coupling, loss, log_p, log_q))
        losses.setdefault("optimal", []).append(least_losses(loss, log_p, log_q))
    rows = {name: _summary(this, np.stack(each)[:, None], np.stack(losses["optimal"])) for name, each in losses.items()}
    if "num_reference" in settings:
        few = {name: each[0] for name, each in losses.items()}
        _with_control_variates(rows, few, _on_many_pairs(this, fixed, settings))
    if floors:
        above = float(np.mean(floors))
        value = (1 + above) * rows["optimal"]["value"]  # estimated on other worlds, so carried over as a ratio
        rows[FLOOR] = {"value": value, "above": above, "above_error": standard_error(np.asarray(floors))}
    return {"rows": rows}


def _on_many_pairs(this: Table1Task, couplings: Mapping[str, AbstractCoupling], settings: Result) -> dict[str, Losses]:
    """The exact loss of each coupling on pairs of their own, batch by batch."""
    key = jax.random.fold_in(jax.random.key(settings["held_out_key"]), 1)
    found: dict[str, list[Losses]] = {name: [] for name in couplings}
    for start in range(0, settings["num_reference"], _BATCH):
        size = min(_BATCH, settings["num_reference"] - start)
        log_p, log_q = draw_pairs(this.pairs, size, key=jax.random.fold_in(key, start))
        for name, coupling in couplings.items():
            found[name].append(_exact(coupling, this.losses[0], log_p, log_q))
    return {name: np.concatenate(each) for name, each in found.items()}


def _with_control_variates(rows: dict[str, Result], few: Mapping[str, Losses], many: Mapping[str, Losses]) -> None:
    """Replaces values on few pairs by those on many, and the optimum by what many pairs say about the few.

    For one score an order of the outcomes is optimal; else the best order is the control variate.
    """
    best = BY_SCORE if BY_SCORE in many else PROJECTED
    rows["optimal"]["value"], rows["optimal"]["error"] = _controlled(few["optimal"], few[best], many[best])
    for name, losses in many.items():
        rows[name]["value"], rows[name]["error"] = float(losses.mean()), standard_error(losses)
        if best == BY_SCORE:
            rows[name]["above"] = float(losses.mean() / many[best].mean() - 1)
            rows[name]["above_error"] = ratio_error(losses, many[best])


def _controlled(few: Losses, control: Losses, many: Losses) -> tuple[float, float]:
    """The mean of losses known on few pairs, and its error, by a control that is known on many others as well."""
    slope = float(np.cov(few, control)[0, 1] / control.var(ddof=1))
    value = few.mean() - slope * (control.mean() - many.mean())
    variance = (few - slope * control).var(ddof=1) / few.size + slope**2 * many.var(ddof=1) / many.size
    return float(value), float(np.sqrt(variance))


def measure_learned(this: Table1Task, couplings: Sequence[Sequence[AbstractCoupling]], settings: Result) -> Result:
    """Learned couplings; of several restarts on one pair the best by its own exact loss, which training knows."""
    log_p, log_q = _held_out(this, settings)
    losses = np.stack(
        [
            np.stack([_exact(each, loss, log_p, log_q) for each in members])
            for members, loss in zip(couplings, this.losses, strict=True)
        ]
    )
    optimum = np.stack([least_losses(loss, log_p, log_q) for loss in this.losses])
    everything = losses
    if this.is_fixed:
        losses = np.take_along_axis(losses, losses.mean(axis=2).argmin(axis=1)[:, None, None], axis=1)
    result = _summary(this, losses, optimum)
    if this.is_fixed and everything.shape[1] > 1:
        result["above_without_choosing"] = _summary(this, everything, optimum)["above"]
    gumbel = np.stack([_exact(GumbelMax(), loss, log_p, log_q) for loss in this.losses])
    result["saved_against_gumbel_max"] = _paired(this, losses.mean(axis=1), gumbel)
    return result


def _exact(coupling: AbstractCoupling, loss: Any, log_p: Any, log_q: Any) -> Losses:
    return np.asarray(expected_losses(coupling, loss, log_p, log_q), np.float64)


def _summary(this: Table1Task, losses: Losses, optimum: Losses) -> Result:
    """Value and distance to the optimum, with errors, from losses [scores, seeds, pairs] and optima [scores, pairs].

    With one pair the scores are the sample, else the pairs are; either way row and optimum are compared on the same.
    """
    if this.is_fixed:
        assert isinstance(this.pairs, FixedPair)
        shift = np.asarray([squared_mean_effect(this.pairs, score) for score in this.scores])
        sample, best = losses.mean(axis=(1, 2)) - shift, optimum.mean(axis=1) - shift
    else:
        sample, best = losses[0].mean(axis=0), optimum[0]
    result: Result = {
        "value": float(sample.mean()),
        "error": standard_error(sample),
        "above": float(sample.mean() / best.mean() - 1),
        "above_error": ratio_error(sample, best),
    }
    if not this.is_fixed:
        seeds = losses[0].mean(axis=1)
        result["by_seed"] = seeds.tolist()
        result["spread_over_seeds"] = float(seeds.std(ddof=1)) if len(seeds) > 1 else None
    else:
        result["by_draw"] = sample.tolist()
    return result


def _paired(this: Table1Task, losses: Losses, others: Losses) -> Result:
    difference = (others - losses).mean(axis=1) if this.is_fixed else (others - losses)[0]
    return {"mean": float(difference.mean()), "error": standard_error(difference)}


_ROUNDING = 0.005  # the paper prints two decimals
_FIXED_ROWS = (
    "independent",
    "Gumbel-max",
    "inverse CDF",
    "inverse CDF by score",
    PROJECTED,
    FITTED_TO_ALL,
    "optimal",
)
_STARTS = {
    "random": "random",
    "gumbel-max": "Gumbel-max",
    "inverse-cdf": "inverse CDF",
    "inverse-cdf-by-score": "inverse CDF by score",
    "vector-quantile": "vector quantile",
    "barycenter": "barycenter",
}
_SAME_START = {"inverse CDF": "inverse CDF by score"}  # it is started from only where the score is the index


def cell_name(column: str, gadget: str, start: str) -> str:
    """The cell of a gadget in a column."""
    return f"{column}-{gadget}" + ("" if start == "random" else f"-from-{start}")


def _rows(column: str, stored: Mapping[str, Result]) -> Iterator[tuple[str, str, Result]]:
    """Coupling, start and result of every row of a column that is stored."""
    fixed = stored[f"{column}-fixed"]["rows"]
    for name in _FIXED_ROWS:
        key = FLOOR if name == FITTED_TO_ALL else name
        if key in fixed:
            yield name, "", fixed[key]
    for gadget, shown in GADGET_NAMES.items():
        for start, origin in _STARTS.items():
            name = cell_name(column, gadget, start)
            if name in stored:
                yield shown, origin, stored[name] if task(column).is_fixed else _carried(stored[name], fixed)


def _carried(row: Result, fixed: Mapping[str, Result]) -> Result:
    """A learned coupling's value where others are known better than on the pairs that it was measured on.

    By its ratio to the optimum or by what it saves against Gumbel-max, both on the same pairs: whichever errs less.
    """
    optimum, gumbel, saved = fixed["optimal"], fixed["Gumbel-max"], row["saved_against_gumbel_max"]
    ratio = 1 + row["above"]
    ways = (
        (float(np.hypot(row["above_error"] * optimum["value"], ratio * optimum["error"])), ratio * optimum["value"]),
        (float(np.hypot(saved["error"], gumbel["error"])), gumbel["value"] - saved["mean"]),
    )
    error, value = min(ways)
    return {**row, "value": value, "error": error}


def detailed_sheet(columns: Sequence[str], stored: Mapping[str, Result]) -> Sheet:
    """A line for each coupling and start, with errors, the paper's value and whether it was reproduced."""
    lines: list[list[Value]] = []
    for column in columns:
        published = task(column).published
        for coupling, start, row in _rows(column, stored):
            line: list[Value] = [column, coupling, start]
            line += [row.get(key) for key in ("value", "error", "above", "above_error")]
            theirs = published.get(coupling)
            if theirs is None:
                lines.append([*line, None, None, None, ""])
                continue
            above = theirs.value / published["optimal"].value - 1
            lines.append([*line, theirs.value, theirs.error, above, _verdict(row, theirs)])
    columns_and_formats = {
        "column": "",
        "coupling": "",
        "start": "",
        "value": ".4f",
        "error": ".4f",
        "above the optimum": ".2%",
        "its error": ".2%",
        "published": ".2f",
        "published error": ".2f",
        "published above optimum": ".1%",
        "reproduced": "",
    }
    caption = "Table 1 with everything that was measured"
    return Sheet(caption, list(columns_and_formats), list(columns_and_formats.values()), lines)


def _verdict(row: Result, theirs: Published) -> str:
    """Whether the paper's value lies within two errors of ours; only where its settings were used."""
    if not row.get("as_published", True):
        return "other settings"
    combined = float(np.sqrt(row["error"] ** 2 + theirs.error**2 + _ROUNDING**2))
    away = (row["value"] - theirs.value) / combined
    return "yes" if abs(away) <= 2 else f"no: {abs(away):.1f} errors {'above' if away > 0 else 'below'}"


def compact_sheet(columns: Sequence[str], stored: Mapping[str, Result]) -> Sheet:
    """Couplings down, tasks across; each entry: value, its error, ratio to the optimum, and the paper's value."""
    entries: dict[str, dict[str, str]] = {}
    for column in columns:
        published = task(column).published
        for coupling, start, row in _rows(column, stored):
            name = coupling if start in ("", "random") else f"{coupling} from {_SAME_START.get(start, start)}"
            error = f" ± {row['error']:#.2g}" if row.get("error") is not None else ""
            theirs = f"; paper {published[coupling].value:.2f}" if coupling in published else ""
            entries.setdefault(name, {})[column] = f"{row['value']:#.4g}{error} ({1 + row['above']:.3f}{theirs})"
    order = [*(name for name in _FIXED_ROWS if name in entries), *(name for name in entries if name not in _FIXED_ROWS)]
    rows = [[name, *(entries[name].get(column, "") for column in columns)] for name in order]
    caption = "Value ± standard error (ratio to the optimum; the paper's value)"
    return Sheet(caption, ("coupling", *columns), ("",) * (1 + len(columns)), rows)


def picture(columns: Sequence[str], stored: Mapping[str, Result]) -> Figure:
    """Percent above the optimum; where a gadget has several starts the random one stands for it."""
    ours: dict[str, dict[str, float]] = {}
    published: dict[str, dict[str, float]] = {}
    for column in columns:
        theirs = task(column).published
        for coupling, start, row in _rows(column, stored):
            if coupling in ("optimal", FITTED_TO_ALL) or start not in ("", "random"):
                continue
            ours.setdefault(coupling, {})[column] = 100 * row["above"]
            if coupling in theirs:
                above = 100 * (theirs[coupling].value / theirs["optimal"].value - 1)
                published.setdefault(coupling, {})[column] = above
    order = [name for name in (*_FIXED_ROWS, *GADGET_NAMES.values()) if name in ours]
    return plots.draw_distances({name: ours[name] for name in order}, published, columns, "Percent above the optimum")


_HELD_OUT_KEY = 20_211_206  # no training and no choice of settings has seen these pairs
_SEEDS = {"quick": 1, "published": 5, "best": 3}
_FLOORS = {"quick": 2, "published": 8, "best": 8}  # independent estimates of what a mechanism can reach at best
_HELD_OUT = {"quick": 1_000, "published": 10_000, "best": 10_000}
_REFERENCE = {"quick": 10_000, "published": 1_000_000, "best": 1_000_000}  # pairs for what is cheap


@final
class Table1(AbstractExperiment):
    """All rows and columns, measured exactly on common held-out pairs."""

    name = "table1"
    title = "Table 1: how much variance each coupling leaves"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """For each column the fixed couplings, then each gadget."""
        seeds = _SEEDS[checked_preset(preset)] if seeds is None else seeds
        plan = []
        for column, recipes in table1_recipes(preset).items():
            common = {"task": column, "num_held_out": _HELD_OUT[preset], "held_out_key": _HELD_OUT_KEY}
            extra = {} if task(column).is_fixed else {"num_reference": _REFERENCE[preset]}
            if column == "vector":
                extra["num_floors"] = _FLOORS[preset]
            plan.append(Cell(self.name, f"{column}-fixed", {**common, **extra}))
            for recipe in recipes:
                settings = {**common, "recipe": recipe.settings(), "seed": 1, "seeds": seeds}
                plan.append(
                    Cell(
                        self.name,
                        cell_name(column, recipe.gadget, recipe.start),
                        settings,
                        cost=_cost(column, recipe, seeds),
                    )
                )
        return plan

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Measures the fixed couplings, or trains a gadget and measures it."""
        this = task(cell.settings["task"])
        if "recipe" not in cell.settings:
            return None if context.train_only else measure_fixed(this, cell.settings)
        recipe = Recipe.of(cell.settings["recipe"])
        restarts = recipe.restarts if this.is_fixed else cell.settings["seeds"]
        scores = [score for score in this.scores for _ in range(restarts)]
        losses = this.losses[0] if len(this.losses) == 1 else [loss for loss in this.losses for _ in range(restarts)]
        couplings, trained = train(recipe, scores, this.pairs, losses, seed=cell.settings["seed"], context=context)
        if context.train_only:
            return None
        by_score = [couplings[index * restarts : (index + 1) * restarts] for index in range(len(this.scores))]
        return {
            "trained": trained,
            "as_published": recipe.as_published,
            **measure_learned(this, by_score, cell.settings),
        }

    def section(self, stored: Mapping[str, Result]) -> Section:
        """The sheet as the paper has it, and one with everything."""
        columns = [column for column in TASKS if f"{column}-fixed" in stored]
        words = [
            "Where pairs are random the value is the mean of the squared difference over held-out pairs, as in the "
            "paper; where the pair is fixed it is the variance of the difference, averaged over ten draws of the "
            "score. Every value is an exact sum; errors are standard errors, over pairs or over the ten draws. The "
            "distance to the optimum is paired: its error is that of the difference on the same pairs.",
            f"Where pairs are random, what is cheap is measured on {_REFERENCE['best']:,} pairs (in the quick preset "
            f"{_REFERENCE['quick']:,}). Learned couplings and linear programs are measured on fewer, common to all of "
            "them, with a control variate: a learned coupling's value is its ratio to the optimum on "
            "the same pairs times the optimum on all, or Gumbel-max on all less what it saves against it there, "
            "whichever errs less; where only linear programs know the optimum, it is controlled by the best order of "
            "the outcomes.",
            "The paper's errors are standard deviations over five seeds where pairs are random, and standard errors "
            "over ten draws where the pair is fixed. A value counts as reproduced if it is within two errors of the "
            "published one, the errors being ours, the paper's and that of rounding to two decimals, combined.",
        ]
        sheets = {"table1": compact_sheet(columns, stored), "table1_details": detailed_sheet(columns, stored)}
        figures = {"table1": picture(columns, stored)}
        return Section(self.title, words, sheets, figures)


def _cost(column: str, recipe: Recipe, seeds: int) -> float:
    members = 10 * recipe.restarts if column in ("monotone", "non-monotone") else seeds * recipe.batch_size
    width = recipe.latents(NUM_OUTCOMES) if recipe.gadget == "gadget-2" else 40
    return 1 + recipe.steps * members * width * 3e-7
