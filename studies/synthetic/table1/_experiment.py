"""Table 1 of the paper: how much variance does each coupling leave? With a fifth column where no order is optimal."""

from collections.abc import Mapping
from typing import final

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
from studies.synthetic._recipes import table1_recipes
from studies.synthetic._tasks import NUM_OUTCOMES, TASKS, task
from studies.synthetic.table1._document import cell_name, compact_sheet, detailed_sheet, picture
from studies.synthetic.table1._measuring import measure_fixed, measure_learned

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
            "them, and the luck of those few is taken out: a learned coupling's value is its ratio to the optimum on "
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
