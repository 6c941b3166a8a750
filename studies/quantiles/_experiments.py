"""The two plans: what is fitted in seconds, and what is trained from there, which wants an accelerator."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import final

import jax

from countermax._core.sheet import Sheet, Value
from countermax.couplings import VectorQuantile
from countermax.learning import Recipe
from studies.engine import (
    AbstractExperiment,
    Cell,
    CellContext,
    Result,
    Section,
    checked_preset,
    train,
)
from studies.quantiles._measuring import measure, measure_fixed, measure_records
from studies.quantiles._tasks import QUICK, RECIPES, RECORDS, STEEP, TASKS, QuantileTask

_ALL = TASKS | STEEP
_ATOMS = (256, 1024)
_FIT = {"num_worlds": 5000, "num_rounds": 12}
_HELD_OUT_KEY = 20_261_116  # nobody had seen its pairs when the settings were chosen
_FLOOR = {"floor_rounds": 10}  # where no mechanism does better than transport from a barycenter
_OWN = "VectorQuantile, its own reference"
_ORDER = ("independent", "Gumbel-max", "best projected", "VectorQuantile", "Gadget 2", "floor", "optimal")
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
            "quantiles three fits are averaged. The floor holds for pairs that are drawn alike and independently. "
            "It is estimated by 256 points that are fitted to the held-out worlds themselves, so that 1,024 atoms can "
            "go below it."
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
        return found

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Trains, then measures on the held-out pairs."""
        task = _ALL[cell.name.partition("; ")[0]]
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


def _atoms(number: int) -> str:
    return f"{number:,} atoms"


def _rows(stored: Mapping[str, Result], shown: Callable[[str, str], str]) -> list[tuple[str, str, Result]]:
    """Task, coupling and numbers."""
    found = list[tuple[str, str, Result]]()
    for name, result in stored.items():
        task, _, what = name.partition("; ")
        if "rows" in result:
            found += [(task, each, numbers) for each, numbers in result["rows"].items()]
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
