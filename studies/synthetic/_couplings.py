"""Figure 1b: the couplings themselves, for two worlds that lean opposite ways."""

from collections.abc import Mapping
from typing import final

import numpy as np
from numpy.typing import NDArray

from countermax._core.sheet import Sheet, Value
from countermax.couplings import AbstractCoupling, InverseCDF
from countermax.couplings._named import named_couplings
from countermax.effects import effect_from_joint
from countermax.learning import Recipe, SquaredDifference
from studies import plots
from studies.engine import (
    GADGET_NAMES,
    AbstractExperiment,
    Cell,
    CellContext,
    Result,
    Section,
    train,
)
from studies.synthetic._recipes import couplings_recipes
from studies.synthetic._tasks import opposed_pair, published_scores

_SCORE_SEED = 100  # of the figure; none of the ten draws of Table 1
_KINDS = ("monotone", "non-monotone")
_FIXED = ("independent", "gumbel-max", "inverse-cdf")
_PUBLISHED = {  # second moments in the titles of the published figure
    "independent": (4.98, 0.88),
    "Gumbel-max": (4.73, 0.52),
    "inverse CDF": (3.10, 0.63),
    "Gadget 1": (3.88, 0.38),
    "Gadget 2": (4.36, 0.27),
    "optimal": (3.10, 0.19),
}


@final
class Couplings(AbstractExperiment):
    """Every method's joint law on the same pair, for a monotone and a non-monotone score."""

    name = "couplings"
    title = "Figure 1b: what the couplings look like"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """The fixed couplings, then the gadgets; seeds play no part, restarts do."""
        plan = [Cell(self.name, "fixed", {"score_seed": _SCORE_SEED})]
        for recipe in couplings_recipes(preset):
            settings = {"score_seed": _SCORE_SEED, "recipe": recipe.settings(), "seed": 1}
            plan.append(Cell(self.name, recipe.gadget, settings, cost=1 + recipe.steps * recipe.restarts * 5e-4))
        return plan

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Joint law, variance and second moment for both scores."""
        scores = published_scores(cell.settings["score_seed"])
        if "recipe" in cell.settings:
            recipe = Recipe.of(cell.settings["recipe"])
            couplings, trained = train(
                recipe,
                [score for score in scores for _ in range(recipe.restarts)],
                opposed_pair(),
                [SquaredDifference(score) for score in scores for _ in range(recipe.restarts)],
                seed=cell.settings["seed"],
                context=context,
            )
            if context.train_only:
                return None
            shares = [couplings[: recipe.restarts], couplings[recipe.restarts :]]
            laws = [
                min((_law(each, score) for each in share), key=lambda law: law["variance"])
                for share, score in zip(shares, scores, strict=True)
            ]
            return {"trained": trained, "laws": {GADGET_NAMES[recipe.gadget]: dict(zip(_KINDS, laws, strict=True))}}
        if context.train_only:
            return None
        fixed: Result = {}
        for kind, score in zip(_KINDS, scores, strict=True):
            fixed_ones = named_couplings(_FIXED) | {"optimal": InverseCDF.sorted_by(score)}
            for name, coupling in fixed_ones.items():
                fixed.setdefault(name, {})[kind] = _law(coupling, score)
        return {"laws": fixed}

    def section(self, stored: Mapping[str, Result]) -> Section:
        """The gallery, and its numbers beside the published ones."""
        laws = {name: law for result in stored.values() for name, law in result["laws"].items()}
        laws = {name: laws[name] for name in _PUBLISHED if name in laws}
        rows: list[list[Value]] = []
        for place, kind in enumerate(_KINDS):
            for name, law in laws.items():
                moment, theirs = law[kind]["second_moment"], _PUBLISHED[name][place]
                rows.append([kind, name, law[kind]["variance"], moment, theirs, moment - theirs])
        sheet = Sheet(
            "Exact variance and second moment of the effect, beside the second moment in the published titles",
            ("score", "coupling", "variance", "second moment", "published", "difference"),
            ("", "", ".4f", ".4f", ".2f", "+.3f"),
            rows,
        )
        gallery = {
            kind: {name: (np.asarray(law[kind]["joint"]), law[kind]["variance"]) for name, law in laws.items()}
            for kind in _KINDS
        }
        words = [
            "Low outcomes are likely in one world, high ones in the other. The score rises with the outcome in the "
            "upper row and jumps about in the lower. Each panel is titled with the exact variance of the effect. "
            "The published titles are second moments estimated from 1,000 draws; the sheet has both.",
        ]
        figures = {"couplings": plots.draw_gallery(gallery)}
        return Section(self.title, words, {"couplings": sheet}, figures)


def _law(coupling: AbstractCoupling, score: NDArray[np.float64]) -> Result:
    pair = opposed_pair()
    joint = coupling.joint(pair.p, pair.q)
    effect = effect_from_joint(joint, score)
    return {
        "variance": float(effect.variance),
        "second_moment": float(effect.variance + effect.mean**2),
        "joint": np.asarray(joint, np.float64).round(7).tolist(),
    }
