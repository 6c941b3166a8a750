"""Figure 1b: the couplings themselves, for two worlds that lean opposite ways."""

from collections.abc import Mapping
from typing import final

import numpy as np

from countermax import plotting
from countermax.couplings import AbstractCoupling, GumbelMax, Independent, InverseCDF, Optimal
from countermax.experiments.engine import (
    AbstractExperiment,
    Cell,
    Recipe,
    Result,
    Section,
    Table,
    Value,
    Workshop,
    train,
)
from countermax.experiments.synthetic._presets import couplings_recipes
from countermax.experiments.synthetic._tasks import NUM_OUTCOMES, opposed_pair, published_scores, squared_mean_effect
from countermax.learning import SquaredDifference

_SCORE_SEED = 100  # of the figure; none of the ten draws of Table 1
_KINDS = ("monotone", "non-monotone")
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
        """The fixed mechanisms, then the gadgets; seeds play no part, restarts do."""
        plan = [Cell(self.name, "fixed", {"score_seed": _SCORE_SEED})]
        for recipe in couplings_recipes(preset):
            settings = {"score_seed": _SCORE_SEED, "recipe": recipe.settings(), "seed": 1}
            name = recipe.gadget.lower().replace(" ", "-")
            plan.append(Cell(self.name, name, settings, cost=1 + recipe.steps * recipe.restarts * 5e-4))
        return plan

    def compute(self, cell: Cell, workshop: Workshop) -> Result | None:
        """Joint law, variance and second moment for both scores."""
        scores = published_scores(cell.settings["score_seed"])
        if "recipe" in cell.settings:
            recipe = Recipe.of(cell.settings["recipe"])
            mechanisms, trained = train(
                recipe,
                [score for score in scores for _ in range(recipe.restarts)],
                opposed_pair(),
                [SquaredDifference(score) for score in scores for _ in range(recipe.restarts)],
                seed=cell.settings["seed"],
                workshop=workshop,
            )
            if workshop.train_only:
                return None
            shares = [mechanisms[: recipe.restarts], mechanisms[recipe.restarts :]]
            laws = [
                min((_law(each, score) for each in share), key=lambda law: law["variance"])
                for share, score in zip(shares, scores, strict=True)
            ]
            return {"trained": trained, "laws": {recipe.gadget: dict(zip(_KINDS, laws, strict=True))}}
        if workshop.train_only:
            return None
        fixed: dict[str, list[AbstractCoupling]] = {
            "independent": [Independent(), Independent()],
            "Gumbel-max": [GumbelMax(), GumbelMax()],
            "inverse CDF": [InverseCDF(), InverseCDF()],
            "optimal": [Optimal((score[:, None] - score[None, :]) ** 2) for score in scores],
        }
        return {
            "laws": {
                name: {kind: _law(each, score) for kind, each, score in zip(_KINDS, both, scores, strict=True)}
                for name, both in fixed.items()
            }
        }

    def section(self, stored: Mapping[str, Result]) -> Section:
        """The gallery, and its numbers beside the published ones."""
        laws = {name: law for result in stored.values() for name, law in result["laws"].items()}
        laws = {name: laws[name] for name in _PUBLISHED if name in laws}
        rows: list[list[Value]] = []
        for place, kind in enumerate(_KINDS):
            for name, law in laws.items():
                moment, theirs = law[kind]["second_moment"], _PUBLISHED[name][place]
                rows.append([kind, name, law[kind]["variance"], moment, theirs, moment - theirs])
        table = Table(
            "Exact variance and second moment of the difference, beside the second moment in the published titles",
            ("score", "mechanism", "variance", "second moment", "published", "difference"),
            ("", "", ".4f", ".4f", ".2f", "+.3f"),
            rows,
        )
        gallery = {
            kind: {name: (np.asarray(law[kind]["joint"]), law[kind]["variance"]) for name, law in laws.items()}
            for kind in _KINDS
        }
        words = [
            "Low outcomes are likely in one world, high ones in the other. The score rises with the outcome in the "
            "upper row and jumps about in the lower. Each panel is titled with the exact variance of the difference. "
            "The published titles are second moments estimated from 1,000 draws; the table has both.",
        ]
        figures = {"couplings": plotting.draw_gallery(gallery)}
        return Section(self.title, words, {"couplings": table}, figures)


def _law(mechanism: AbstractCoupling, score: np.ndarray) -> Result:
    pair = opposed_pair()
    joint = np.asarray(mechanism.joint(pair.p, pair.q), np.float64)
    assert joint.shape == (NUM_OUTCOMES, NUM_OUTCOMES)
    moment = float((joint * (score[:, None] - score[None, :]) ** 2).sum())
    return {
        "variance": moment - squared_mean_effect(pair, score),
        "second_moment": moment,
        "joint": joint.round(7).tolist(),
    }
