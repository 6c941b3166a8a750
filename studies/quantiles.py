"""Vector quantiles at tens and hundreds of outcomes, beside fixed couplings and beside gadgets that start from them."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple, final

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage

from countermax._core.page import Sheet, Value
from countermax._pairs import AbstractPairs, draw_pairs
from countermax.couplings import AbstractCoupling, GumbelMax, Independent, InverseCDF, NestedGumbelMax, VectorQuantile
from countermax.couplings._reference import lloyd, scores_of_loss
from countermax.intervals._interval import ratio_error, standard_error
from countermax.learning import (
    Disagreement,
    FixedPair,
    MatrixLoss,
    ObservedPairs,
    RandomPairs,
    SquaredDifference,
    Training,
    fit,
)
from countermax.learning._losses import Loss, expected_losses, least_losses
from countermax.learning._recipe import Recipe
from studies.experiments import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset
from studies.floors import Search, barycenter_limit
from studies.sepsis import trials_of
from studies.synthetic import FITTED_TO_ALL, FLOOR, PROJECTED
from studies.training import train

Floats = NDArray[np.float64]


class QuantileTask(NamedTuple):
    """Pairs of worlds and a loss that is a squared distance of scores."""

    num_outcomes: int
    kind: str
    """`independent`, `mirrored` or `fixed` pairs; `disagreement` of independent ones, or the `steep` loss of them."""
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
        if self.kind == "steep":
            squares = ((self.scores[:, None] - self.scores[None]) ** 2).sum(axis=2)
            return MatrixLoss(squares**2)
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

STEEP: dict[str, QuantileTask] = {"fourth power, 10 outcomes": QuantileTask(10, "steep", 2000)}
"""The fourth power of the distance of three scores, which is no squared distance of any: there is nothing to fit."""

LIMIT = "lower limit of every mechanism"
LIMITED = ("three scores, 10 outcomes", "three scores, 50 outcomes")
"""With 150 outcomes it takes eleven minutes; disagreement has more dimensions than cubes can fill."""
RECORDS = "ICU records, 47 features and fate, one pair each"
"""The most frequent choices of clinicians that the best policy would not make, all outcomes that either can reach."""
QUICK = ("three scores, 10 outcomes", "one fixed pair, 50 outcomes")
RECIPES: dict[str, Recipe] = {  # what learns beside vector quantiles, from where they end
    name: Recipe("gadget-2", steps, rate, start="vector-quantile", num_latents=None, rounds=None, batch_size=batch)
    for name, steps, rate, batch in (
        ("three scores, 10 outcomes", 3000, 3e-3, 128),
        ("three scores, 50 outcomes", 3000, 1e-3, 64),
        ("three scores, 150 outcomes", 3000, 1e-3, 32),
        ("mirrored, 10 outcomes", 3000, 3e-3, 128),
        ("mirrored, 50 outcomes", 8000, 3e-3, 64),
        ("fourth power, 10 outcomes", 3000, 3e-3, 128),
    )
}


_NUM_DIRECTIONS = 100  # on which vector scores are projected, besides the axes
_NUM_CHOOSING = {10: 500}  # pairs, none of them held out, by which the best of them is chosen, where they are cheap
_LEAST_CHOOSING = 50


def _held_out(task: QuantileTask, key: int) -> tuple[Any, Any]:
    return draw_pairs(task.pairs, task.num_held_out, key=jax.random.key(key))


def measure_fixed(task: QuantileTask, held_out_key: int, *, floor_rounds: int | None = None) -> Result:
    """Fixed couplings, the optimum, and where rounds are asked for, points fitted to the held-out worlds."""
    scores = task.scores
    fixed: dict[str, AbstractCoupling] = {"independent": Independent(), "Gumbel-max": GumbelMax()}
    log_p, log_q = _held_out(task, held_out_key)
    if task.kind != "disagreement":
        ways = np.concatenate([np.eye(3), np.random.default_rng(1).normal(size=(_NUM_DIRECTIONS, 3))])
        orders = [InverseCDF.sorted_by(scores @ way) for way in ways]
        number = _NUM_CHOOSING.get(task.num_outcomes, _LEAST_CHOOSING)
        others = draw_pairs(task.pairs, number, key=jax.random.key(0))
        fixed[PROJECTED] = min(orders, key=lambda each: float(expected_losses(each, task.loss, *others).mean()))
    rows = {name: measure(task, held_out_key, [each]) for name, each in fixed.items()}
    optimum = least_losses(task.loss, log_p, log_q)
    rows["optimal"] = {"value": float(optimum.mean()), "error": _error(optimum), "above": 0.0, "above_error": 0.0}
    if floor_rounds is not None:
        rows[FLOOR] = measure(task, held_out_key, [_floor(task, held_out_key, floor_rounds)[0]])
    return {"rows": rows}


def _floor(task: QuantileTask, held_out_key: int, num_rounds: int) -> tuple[VectorQuantile, float]:
    """Transport from the barycenter of the held-out worlds themselves, and how far these are at most.

    On the very pairs that all else is measured on: whether these are easy or hard moves this as it moves the rest.
    `implicit_floor`, which has other pairs for its optimum, differs by up to a point from key to key.
    """
    log_p, log_q = _held_out(task, held_out_key)
    fitted = VectorQuantile.fit(task.scores, ObservedPairs(log_p, log_q), key=jax.random.key(0))
    worlds = _worlds(log_p, log_q)
    weights = np.full(len(worlds), 1 / len(worlds))
    found = lloyd(task.scores, worlds, weights, np.asarray(fitted.points, np.float64), num_rounds)
    return VectorQuantile(found.points.astype(np.float32), task.scores.astype(np.float32)), found.distance


def _worlds(log_p: Any, log_q: Any) -> Floats:
    """[world, outcome] Probabilities of the first worlds of all pairs, and then of the second."""
    worlds = np.exp(np.concatenate([np.asarray(each, np.float64) for each in (log_p, log_q)]))
    return np.asarray(worlds / worlds.sum(axis=1, keepdims=True))


def measure_limit(task: QuantileTask, held_out_key: int, floor_rounds: int) -> Result:
    """What every mechanism loses at least, by the share of what the fitted points lose.

    The share is that of pairs of any two of the held-out worlds, not only of the pairs that were drawn: twice the
    limit alone, beside the optimum of those, would be off by a point for which world happened to meet which.
    """
    log_p, log_q = _held_out(task, held_out_key)
    fitted, distance = _floor(task, held_out_key, floor_rounds)
    reached = measure(task, held_out_key, [fitted])
    share = barycenter_limit(task.scores, _worlds(log_p, log_q), Search()) / distance
    limited = {name: share * reached[name] for name in ("value", "error", "above_error")}
    return {"rows": {LIMIT: {**limited, "above": share * (1 + reached["above"]) - 1}}, "share": share}


def measure_records() -> Result:
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


def measure(task: QuantileTask, held_out_key: int, couplings: list[Any]) -> Result:
    """The mean loss of couplings on the held-out pairs, beside the optimum of the same pairs."""
    log_p, log_q = _held_out(task, held_out_key)
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


_ALL = TASKS | STEEP
_ATOMS = (256, 1024)
_FIT = {"num_worlds": 5000, "num_rounds": 12}
_HELD_OUT_KEY = 20_261_116  # nobody had seen its pairs when the settings were chosen
_FLOOR = {"floor_rounds": 10}  # where no mechanism does better than transport from a barycenter
_OWN = "VectorQuantile, its own reference"
_ORDER = (
    "independent",
    "Gumbel-max",
    "nested Gumbel-max",
    "best projected",
    "VectorQuantile",
    "Gadget 2",
    FITTED_TO_ALL,
    LIMIT,
    "optimal",
)
_NUM_NESTS = 2, 5  # clusters of outcomes by their scores, the second within the first
_NESTED_TRAINING = {"steps": 200, "batch_size": 32, "learning_rate": 0.03}
_NUM_SEEDS = {"quick": 1, "published": 3, "best": 3}


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
            if preset == "quick" and name not in QUICK:
                continue
            common = {**task._asdict(), "held_out_key": _HELD_OUT_KEY}
            size = task.num_outcomes * task.num_held_out / 1000
            floor = _FLOOR if task.kind in ("independent", "disagreement") else {}
            found.append(Cell(self.name, f"{name}; fixed", {**common, **floor}, cost=size))
            if preset != "quick" and name in LIMITED:
                settings = {**common, **_FLOOR, "search": Search()._asdict()}
                found.append(Cell(self.name, f"{name}; lower limit", settings, cost=5 * task.num_outcomes))
            for atoms in _ATOMS[:1] if task.kind == "fixed" or preset == "quick" else _ATOMS:
                settings = {**common, "num_atoms": atoms, "num_seeds": number, **_FIT}
                found.append(Cell(self.name, f"{name}; {_atoms(atoms)}", settings, cost=size * atoms / 50))
        if preset != "quick" and find_spec("icu_sepsis") is not None:
            found.append(Cell(self.name, f"{RECORDS}; fixed", {"world": "icu-features", "most_outcomes": None}))
        return found

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Losses on the held-out pairs."""
        if context.train_only:
            return None
        if "world" in cell.settings:
            return measure_records()
        task = TASKS[cell.name.partition("; ")[0]]
        if "search" in cell.settings:
            return measure_limit(task, cell.settings["held_out_key"], cell.settings["floor_rounds"])
        if "num_atoms" not in cell.settings:
            return measure_fixed(task, cell.settings["held_out_key"], floor_rounds=cell.settings.get("floor_rounds"))
        return _measure_fits(task, cell.settings)

    def section(self, stored: Mapping[str, Result]) -> Section:
        """How far above the optimum, by task."""
        rows = _rows(stored, lambda task, name: _OWN if _ALL[task].kind == "fixed" else f"VectorQuantile, {name}")
        words = [
            "Three standard normal scores for each outcome, or disagreement; logits uniform on [0, 8]. Every row of a "
            "task is measured exactly on the same held-out pairs, which nothing was fitted to, but for the two columns "
            "with one pair, where the reference is the pair's own; ± is the standard error over pairs, and for vector "
            "quantiles three fits are averaged. Points fitted to the held-out worlds themselves are an upper estimate "
            "of what any mechanism can reach on pairs drawn alike and independently; 1,024 atoms can go below. The "
            "lower limit is a share of what these points lose, and certain where both worlds are any of the held-out."
        ]
        return Section(self.title, words, {"quantiles": _sheet("% above the optimum on held-out pairs", rows)})


@final
class LearnedQuantiles(AbstractExperiment):
    """Gadget 2, trained from where vector quantiles end, beside them on the same pairs."""

    name = "quantiles-learned"
    title = "Gadget 2, trained from a vector quantile's reference"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """One for each task and seed, and what there is to compare with on the same pairs.

        That is the vector quantile, and where the loss is none that it is for, all fixed couplings besides.
        """
        number = _NUM_SEEDS[checked_preset(preset)] if seeds is None else seeds
        found = list[Cell]()
        for name, recipe in RECIPES.items():
            if preset == "quick" and name not in QUICK:
                continue
            task = _ALL[name]
            common = {**task._asdict(), "held_out_key": _HELD_OUT_KEY}
            fits = {**common, "num_atoms": _ATOMS[0], "num_seeds": number, **_FIT}
            beside = "fixed" if name in STEEP else f"VectorQuantile, {_atoms(_ATOMS[0])}"
            found.append(Cell(self.name, f"{name}; {beside}", fits, cost=task.num_outcomes / 4))
            for seed in range(number):
                settings = {**common, "recipe": recipe.settings(), "seed": seed}
                found.append(Cell(self.name, f"{name}; Gadget 2, seed {seed}", settings, cost=float(task.num_outcomes)))
            if task.num_outcomes == 10 and preset != "quick":
                settings = {**common, "nests": list(_NUM_NESTS), "training": _NESTED_TRAINING}
                found.append(Cell(self.name, f"{name}; nested Gumbel-max, trained", settings, cost=10.0))
        return found

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Trains, then measures on the held-out pairs."""
        task = _ALL[cell.name.partition("; ")[0]]
        if "nests" in cell.settings:
            return None if context.train_only else _measure_nests(task, cell.settings)
        if "recipe" not in cell.settings:
            return None if context.train_only else self._measure_untrained(task, cell)
        recipe = Recipe.of(cell.settings["recipe"])
        fitted, _ = train(recipe, [task.scores], task.pairs, task.loss, seed=cell.settings["seed"], context=context)
        if context.train_only:
            return None
        return measure(task, cell.settings["held_out_key"], fitted)

    def _measure_untrained(self, task: QuantileTask, cell: Cell) -> Result:
        fits = _measure_fits(task, cell.settings)
        if task.kind != "steep":
            return fits
        fixed = measure_fixed(task, cell.settings["held_out_key"])
        return {"rows": {**fixed["rows"], "VectorQuantile of the scores": fits}}

    def section(self, stored: Mapping[str, Result]) -> Section:
        """How far above the optimum, by task and seed."""
        rows = _rows(stored, lambda _, name: name)
        words = [
            "The tasks, held-out pairs and errors are those of the vector quantiles, which stand beside the gadgets. "
            "Each seed is a training of its own."
        ]
        return Section(self.title, words, {"quantiles_learned": _sheet("% above the optimum on held-out pairs", rows)})


def _measure_fits(task: QuantileTask, settings: Result) -> Result:
    """Vector quantiles fitted with several seeds."""
    options = {name: settings[name] for name in ("num_atoms", *_FIT)}
    fitted = [
        VectorQuantile.fit(task.scores, task.pairs, key=jax.random.key(seed), **options)
        for seed in range(settings["num_seeds"])
    ]
    return measure(task, settings["held_out_key"], fitted)


def _measure_nests(task: QuantileTask, settings: Result) -> Result:
    """Nested Gumbel-max with trained dissimilarities; its tree is that of Ward's clusters of the scores."""
    clusters = linkage(task.scores, "ward")
    outer, inner = (fcluster(clusters, number, "maxclust") for number in settings["nests"])
    tree: dict[str, Any] = {}
    for place, (large, small) in enumerate(zip(outer.tolist(), inner.tolist(), strict=True)):
        (within,) = tree.setdefault(f"group {large}", [{}])
        within.setdefault(f"cluster {small}", []).append(place)
    start = NestedGumbelMax(tree, 0.7, labels=task.num_outcomes)
    training = Training(**settings["training"])
    fitted = fit(start, task.pairs, task.loss, training, key=jax.random.key(0)).coupling
    return measure(task, settings["held_out_key"], [fitted]) | {"dissimilarity": fitted.dissimilarity.tolist()}


def _atoms(number: int) -> str:
    return f"{number:,} atoms"


def _rows(stored: Mapping[str, Result], shown: Callable[[str, str], str]) -> list[tuple[str, str, Result]]:
    """Task, coupling and numbers."""
    found = list[tuple[str, str, Result]]()
    for name, result in stored.items():
        task, _, what = name.partition("; ")
        if "rows" in result:
            called = {FLOOR: FITTED_TO_ALL}
            found += [(task, called.get(each, each), numbers) for each, numbers in result["rows"].items()]
        else:
            found.append((task, shown(task, what), result))
    return found


def _sheet(caption: str, rows: list[tuple[str, str, Result]]) -> Sheet:
    """Tasks across, couplings down."""
    tasks = [each for each in (*TASKS, *STEEP, RECORDS) if any(task == each for task, _, _ in rows)]
    names = sorted(dict.fromkeys(name for _, name, _ in rows), key=_rank)
    by_place = {(task, name): numbers for task, name, numbers in rows}

    def text(task: str, name: str) -> Value:
        numbers = by_place.get((task, name))
        if numbers is None:
            return None
        error = "" if not numbers["above_error"] else f" ± {numbers['above_error']:.1%}"
        return f"{numbers['above']:z.1%}{error}"

    lines: list[list[Value]] = [[name, *(text(task, name) for task in tasks)] for name in names]
    return Sheet(caption, ("coupling", *tasks), ("",) * (1 + len(tasks)), lines)


def _rank(name: str) -> tuple[int, int]:
    """Fixed couplings first, what nothing can do better than last; fewer atoms before more."""
    place = next(place for place, start in enumerate(_ORDER) if name.startswith(start))
    return place, len(name)
