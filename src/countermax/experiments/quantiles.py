"""How near mechanisms come to the optimum at tens and hundreds of outcomes: vector quantiles beside fixed couplings."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple, final

import jax
import numpy as np
from numpy.typing import NDArray

from countermax._core.sheet import Sheet, Value
from countermax.couplings import (
    AbstractCoupling,
    GumbelMax,
    Independent,
    InverseCDF,
    VectorQuantile,
    scores_of_loss,
)
from countermax.experiments.engine import (
    AbstractExperiment,
    Cell,
    CellContext,
    Result,
    Section,
    checked_preset,
    train,
)
from countermax.experiments.sepsis import trials_of
from countermax.intervals import ratio_error, standard_error
from countermax.learning import (
    AbstractPairs,
    Disagreement,
    FixedPair,
    Loss,
    RandomPairs,
    Recipe,
    SquaredDifference,
    draw_pairs,
    expected_losses,
    implicit_floor,
    least_losses,
)

Floats = NDArray[np.float64]

FLOOR = "floor of any mechanism (estimate)"
_PROJECTED = "best projected inverse CDF"
_ATOMS = (256, 1024)
_HELD_OUT_KEY = 77
_FLOOR_WORLDS = 600  # at most; from too few of them a floor comes out too low
_NUM_SEEDS = {"quick": 1, "published": 3, "best": 3}
_NUM_DIRECTIONS = 100  # on which vector scores are projected, besides the axes


class QuantileTask(NamedTuple):
    """Pairs of worlds and a loss that is a squared distance of scores."""

    num_outcomes: int
    kind: str
    """`independent`, `mirrored` or `fixed` pairs; or `disagreement` of independent ones."""
    num_held_out: int

    @property
    def scores(self) -> Floats:
        """Three standard normal scores for each outcome; those behind disagreement."""
        if self.kind == "disagreement":
            return scores_of_loss(1 - np.eye(self.num_outcomes))
        return np.random.default_rng(0).normal(size=(self.num_outcomes, 3))

    @property
    def loss(self) -> Loss:
        """What is to be small."""
        return Disagreement() if self.kind == "disagreement" else SquaredDifference(self.scores)

    @property
    def pairs(self) -> AbstractPairs:
        """Logits uniform on [0, 8]."""
        pairs = RandomPairs(self.num_outcomes, mirrored=self.kind == "mirrored")
        return FixedPair(*pairs(jax.random.key(1))) if self.kind == "fixed" else pairs


TASKS: dict[str, QuantileTask] = {
    "three scores, 10 outcomes": QuantileTask(10, "independent", 2000),
    "three scores, 50 outcomes": QuantileTask(50, "independent", 600),
    "three scores, 150 outcomes": QuantileTask(150, "independent", 200),
    "disagreement, 50 outcomes": QuantileTask(50, "disagreement", 300),
    "mirrored, 10 outcomes": QuantileTask(10, "mirrored", 2000),
    "mirrored, 50 outcomes": QuantileTask(50, "mirrored", 600),
    "one fixed pair, 50 outcomes": QuantileTask(50, "fixed", 1),
}
"""Pairs drawn alike and independently, for which there is a floor; mirrored pairs, for which there is none; and one."""

RECORDS = "ICU records, 47 features and fate, one pair each"
"""The most frequent choices of clinicians that the best policy would not make, all outcomes that either can reach."""
_QUICK = ("three scores, 10 outcomes", "one fixed pair, 50 outcomes")
_RECIPES: dict[str, Recipe] = {  # what learns beside vector quantiles, from where they end
    name: Recipe("gadget-2", steps, rate, start="vector-quantile", num_latents=None, rounds=None, batch_size=batch)
    for name, steps, rate, batch in (
        ("three scores, 10 outcomes", 3000, 3e-3, 128),
        ("three scores, 50 outcomes", 3000, 1e-3, 64),
        ("three scores, 150 outcomes", 3000, 1e-3, 32),
        ("mirrored, 10 outcomes", 3000, 3e-3, 128),
        ("mirrored, 50 outcomes", 3000, 1e-3, 64),
    )
}


@final
class Quantiles(AbstractExperiment):
    """Fixed couplings and vector quantiles on common held-out pairs."""

    name = "quantiles"
    title = "Vector quantiles beside fixed couplings, on held-out pairs"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """For each task one of fixed couplings, and one for each number of atoms."""
        number = _NUM_SEEDS[checked_preset(preset)] if seeds is None else seeds
        found = list[Cell]()
        for name, task in TASKS.items():
            if preset == "quick" and name not in _QUICK:
                continue
            common = {**task._asdict(), "held_out_key": _HELD_OUT_KEY}
            size = task.num_outcomes * task.num_held_out / 1000
            floor_worlds = min(task.num_held_out, _FLOOR_WORLDS)
            found.append(Cell(self.name, f"{name}: fixed", {**common, "floor_worlds": floor_worlds}, cost=size))
            for atoms in _ATOMS[:1] if task.kind == "fixed" or preset == "quick" else _ATOMS:
                settings = {**common, "num_atoms": atoms, "num_seeds": number}
                found.append(Cell(self.name, f"{name}: {_atoms(atoms)}", settings, cost=size * atoms / 50))
        if preset != "quick" and find_spec("icu_sepsis") is not None:
            found.append(Cell(self.name, f"{RECORDS}: fixed", {"world": "icu-features", "most_outcomes": None}))
        return found

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Losses on the held-out pairs."""
        if context.train_only:
            return None
        if "world" in cell.settings:
            return _measure_records()
        task = TASKS[cell.name.partition(": ")[0]]
        if "num_atoms" not in cell.settings:
            return _measure_fixed(task, cell.settings["floor_worlds"])
        fitted = [
            VectorQuantile.fit(task.scores, task.pairs, key=jax.random.key(seed), num_atoms=cell.settings["num_atoms"])
            for seed in range(cell.settings["num_seeds"])
        ]
        return _measure(task, fitted)

    def section(self, stored: Mapping[str, Result]) -> Section:
        """How far above the optimum, by task."""
        rows = _rows(stored, lambda name: name if name == "fixed" else f"VectorQuantile, {name}")
        words = [
            "Three standard normal scores for each outcome, or disagreement; logits uniform on [0, 8]. Every row of a "
            "task is measured exactly on the same held-out pairs, which nothing was fitted to; ± is the standard error "
            "over pairs, and for vector quantiles three fits are averaged. The floor holds for pairs that are drawn "
            "alike and independently; it is estimated on held-out worlds themselves, and comes out too low where "
            "these are few: 200 at 150 outcomes."
        ]
        return Section(self.title, words, {"quantiles": _sheet("% above the optimum on held-out pairs", rows)})


@final
class LearnedQuantiles(AbstractExperiment):
    """Gadget 2, trained from where vector quantiles end, beside them on the same pairs."""

    name = "quantiles-learned"
    title = "Gadget 2, trained from a vector quantile's reference"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """One for each task and seed."""
        number = _NUM_SEEDS[checked_preset(preset)] if seeds is None else seeds
        return [
            Cell(
                self.name,
                f"{name}: Gadget 2, seed {seed}",
                {**TASKS[name]._asdict(), "held_out_key": _HELD_OUT_KEY, "recipe": recipe.settings(), "seed": seed},
                cost=float(TASKS[name].num_outcomes),
            )
            for name, recipe in _RECIPES.items()
            if preset != "quick" or name in _QUICK
            for seed in range(number)
        ]

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Trains, then measures on the held-out pairs."""
        task = TASKS[cell.name.partition(": ")[0]]
        recipe = Recipe.of(cell.settings["recipe"])
        fitted, made_with = train(
            recipe, [task.scores], task.pairs, task.loss, seed=cell.settings["seed"], context=context
        )
        if context.train_only:
            return None
        return {**_measure(task, fitted), "training_seconds": made_with["seconds"]}

    def section(self, stored: Mapping[str, Result]) -> Section:
        """How far above the optimum, by task and seed."""
        rows = _rows(stored, lambda name: name)
        words = ["The tasks, pairs and errors are those of the vector quantiles; each seed is a training of its own."]
        return Section(self.title, words, {"quantiles_learned": _sheet("% above the optimum on held-out pairs", rows)})


def _atoms(number: int) -> str:
    return f"{number:,} atoms"


def _held_out(task: QuantileTask) -> tuple[Any, Any]:
    return draw_pairs(task.pairs, task.num_held_out, key=jax.random.key(_HELD_OUT_KEY))


def _measure_fixed(task: QuantileTask, floor_worlds: int) -> Result:
    """Fixed couplings, the optimum, and the floor where there is one."""
    scores = task.scores
    fixed: dict[str, AbstractCoupling] = {"independent": Independent(), "Gumbel-max": GumbelMax()}
    log_p, log_q = _held_out(task)
    if task.kind != "disagreement":
        ways = np.concatenate([np.eye(3), np.random.default_rng(1).normal(size=(_NUM_DIRECTIONS, 3))])
        orders = [InverseCDF.sorted_by(scores @ way) for way in ways]
        some = slice(0, 50)
        fixed[_PROJECTED] = min(
            orders, key=lambda each: float(expected_losses(each, task.loss, log_p[some], log_q[some]).mean())
        )
    rows = {name: _measure(task, [each]) for name, each in fixed.items()}
    optimum = least_losses(task.loss, log_p, log_q)
    rows["optimal"] = {"value": float(optimum.mean()), "error": _error(optimum), "above": 0.0, "above_error": 0.0}
    if task.kind in ("independent", "disagreement"):
        floor = implicit_floor(scores, task.pairs, key=jax.random.key(_HELD_OUT_KEY), num_worlds=floor_worlds)
        rows[FLOOR] = {"above": floor.above_optimum, "above_error": None}
    return {"rows": rows}


def _measure_records() -> Result:
    """Variances of effects on the records' features, added up over features and averaged over queries."""
    trials = trials_of("icu-features", as_published=False, num_scores=1)
    assert np.array_equal(trials.score, trials.other_score)
    found: dict[str, list[float]] = {}
    for log_p, log_q, scores in zip(trials.log_p, trials.log_q, trials.score, strict=True):
        with jax.enable_x64(True):
            pair, loss = FixedPair(log_p, log_q), SquaredDifference(scores)
            both = pair.p[None], pair.q[None]
            mean = (np.exp(both[1][0]) - np.exp(both[0][0])) @ scores
            asked: dict[str, AbstractCoupling] = {"independent": Independent(), "Gumbel-max": GumbelMax()}
            asked["VectorQuantile, its own reference"] = VectorQuantile.fit(scores, pair, key=jax.random.key(0))
            squares = {name: float(expected_losses(each, loss, *both)[0]) for name, each in asked.items()}
            squares["optimal"] = float(least_losses(loss, *both)[0])
        for name, square in squares.items():
            found.setdefault(name, []).append(square - float(mean @ mean))
    means = {name: float(np.mean(each)) for name, each in found.items()}
    above = {name: value / means["optimal"] - 1 for name, value in means.items()}
    size = [int((each > -np.inf).sum()) for each in np.maximum(trials.log_p, trials.log_q)]
    rows = {name: {"value": means[name], "above": above[name], "above_error": None} for name in means}
    return {"rows": rows, "num_outcomes": size}


def _measure(task: QuantileTask, couplings: list[Any]) -> Result:
    """The mean loss of couplings on the held-out pairs, beside the optimum of the same pairs."""
    log_p, log_q = _held_out(task)
    losses = np.stack([np.asarray(expected_losses(each, task.loss, log_p, log_q), np.float64) for each in couplings])
    optimum = least_losses(task.loss, log_p, log_q)
    mean = losses.mean(axis=0)
    return {
        "value": float(mean.mean()),
        "error": _error(mean),
        "above": float(mean.mean() / optimum.mean() - 1),
        "above_error": ratio_error(mean, optimum) if len(optimum) > 1 else None,
        "above_by_seed": (losses.mean(axis=1) / optimum.mean() - 1).tolist(),
    }


def _error(values: Floats) -> float | None:
    return standard_error(values) if len(values) > 1 else None


def _rows(stored: Mapping[str, Result], shown: Any) -> list[tuple[str, str, Result]]:
    """Task, coupling and numbers."""
    found = list[tuple[str, str, Result]]()
    for name, result in stored.items():
        task, _, what = name.partition(": ")
        if "rows" in result:
            found += [(task, each, numbers) for each, numbers in result["rows"].items()]
        else:
            found.append((task, shown(what), result))
    return found


def _sheet(caption: str, rows: list[tuple[str, str, Result]]) -> Sheet:
    """Tasks across, couplings down."""
    tasks = [each for each in (*TASKS, RECORDS) if any(task == each for task, _, _ in rows)]
    names = list(dict.fromkeys(name for _, name, _ in rows))
    by_place = {(task, name): numbers for task, name, numbers in rows}

    def text(task: str, name: str) -> Value:
        numbers = by_place.get((task, name))
        if numbers is None:
            return None
        error = "" if numbers["above_error"] is None else f" ± {numbers['above_error']:.1%}"
        return f"{numbers['above']:.1%}{error}"

    lines: list[list[Value]] = [[name, *(text(task, name) for task in tasks)] for name in names]
    return Sheet(caption, ("coupling", *tasks), ("",) * (1 + len(tasks)), lines)
