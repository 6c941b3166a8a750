"""Figure 1 of the paper: Gadget 2 trained on ever more diffuse pairs, and what the couplings look like."""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from countermax import _plotting as plotting
from countermax._core.page import Sheet, Value
from countermax.couplings import AbstractCoupling, InverseCDF
from countermax.couplings._named import named_couplings
from countermax.effects import effect_from_joint
from countermax.intervals._interval import standard_error
from countermax.learning import Disagreement, PerturbedPair, SquaredDifference
from countermax.learning._losses import expected_losses
from countermax.learning._recipe import Recipe
from studies import plots
from studies.experiments import AbstractExperiment, Cell, CellContext, Result, Section
from studies.synthetic import NUM_OUTCOMES, couplings_recipes, maximality_recipe, opposed_pair, published_scores
from studies.training import GADGET_NAMES, train

_PUBLISHED_LOSSES = {0.0: 0.2473, 0.1: 0.2648, 0.4: 0.2714, 1.6: 0.2825, 6.4: 0.2987, 25.6: 0.2972, 102.4: 0.2982}
"""Published loss for each noise scale: the mean of five seeds."""
SCALES = tuple(_PUBLISHED_LOSSES)
_SEEDS = {"quick": 1, "published": 5, "best": 5}
_FIXED_MAXIMALITY = ("maximal", "gumbel-max", "inverse-cdf", "independent")


@final
class Maximality(AbstractExperiment):
    """Gadget 2 trained at each noise scale, tested where there is no noise."""

    name = "maximality"
    title = "Figure 1a: learning to keep the outcome"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """The fixed couplings, then one training of all seeds for each scale."""
        recipe = maximality_recipe(preset)
        seeds = _SEEDS[preset] if seeds is None else seeds
        plan = [Cell(self.name, "fixed", {})]
        for scale in SCALES:
            settings = {"scale": scale, "recipe": recipe.settings(), "seed": 1, "seeds": seeds}
            cost = 1 + recipe.steps * recipe.batch_size * seeds * recipe.latents(NUM_OUTCOMES) * 3e-7
            plan.append(Cell(self.name, f"scale-{scale:g}", settings, cost=cost))
        return plan

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Exact probability of a changed outcome at the test pair."""
        if "recipe" not in cell.settings:
            if context.train_only:
                return None
            return {name: _at_test_pair(each) for name, each in named_couplings(_FIXED_MAXIMALITY).items()}
        recipe = Recipe.of(cell.settings["recipe"])
        score = np.arange(NUM_OUTCOMES, dtype=float)  # only its length matters here
        couplings, trained = train(
            recipe,
            [score] * cell.settings["seeds"],
            _pairs(cell.settings["scale"]),
            Disagreement(),
            seed=cell.settings["seed"],
            context=context,
        )
        if context.train_only:
            return None
        at_test = [_at_test_pair(each) for each in couplings]
        return {"trained": trained, "losses": [each["loss"] for each in at_test], "joint": at_test[0]["joint"]}

    def section(self, stored: Mapping[str, Result]) -> Section:
        """Loss against noise scale, and the couplings where there is none."""
        fixed = stored["fixed"]
        learned = {scale: stored[f"scale-{scale:g}"] for scale in SCALES if f"scale-{scale:g}" in stored}
        rows: list[list[Value]] = []
        points = []
        for scale, result in learned.items():
            losses = np.asarray(result["losses"])
            mean, error, theirs = float(losses.mean()), standard_error(losses), _PUBLISHED_LOSSES[scale]
            rows.append([scale, mean, error, theirs, mean - theirs])
            points.append((scale, mean, error or 0.0))
        references: list[list[Value]] = [[name, each["loss"]] for name, each in fixed.items()]
        sheets = {
            "maximality": Sheet(
                "Probability that the outcome changes, at the test pair, by noise scale in training",
                ("noise scale", "Gadget 2", "standard error", "published", "difference"),
                ("g", ".4f", ".4f", ".4f", "+.4f"),
                rows,
            ),
            "maximality_references": Sheet(
                "The same of the couplings that are not learned", ("coupling", "loss"), ("", ".5f"), references
            ),
        }
        figures: dict[str, Any] = {
            "maximality": plots.draw_noise_scales(
                points,
                _PUBLISHED_LOSSES,
                {name: fixed[name]["loss"] for name in ("maximal", "Gumbel-max")},
            )
        }
        if 0.0 in learned:
            p, q = (np.exp(np.asarray(each, np.float64)) for each in (_pairs(0.0).p, _pairs(0.0).q))
            joints = {
                "maximal": (fixed["maximal"]["joint"], fixed["maximal"]["loss"]),
                "Gadget 2": (learned[0.0]["joint"], learned[0.0]["losses"][0]),
                "Gumbel-max": (fixed["Gumbel-max"]["joint"], fixed["Gumbel-max"]["loss"]),
            }
            figures["maximality_couplings"] = plotting.draw_couplings(
                {name: np.asarray(joint) for name, (joint, _) in joints.items()},
                p / p.sum(),
                q / q.sum(),
                [str(index) for index in range(NUM_OUTCOMES)],
                "P(X, Y) at the test pair, and the probability that the outcome changes",
                notes={name: f": {loss:.4f}" for name, (_, loss) in joints.items()},
            )
        words = [
            "Gadget 2 is trained on a pair whose logits are perturbed by Gaussian noise of a given scale, and tested "
            "at the unperturbed pair. Trained on one pair it can be as good as the maximal coupling; the more pairs "
            "one mechanism has to serve, the nearer it comes to Gumbel-max, since no mechanism can be maximal for all.",
            "Errors are standard errors over seeds. The published points are means of five seeds.",
        ]
        return Section(self.title, words, sheets, figures)


def _pairs(scale: float) -> PerturbedPair:
    tilt = 0.1 * (np.arange(NUM_OUTCOMES) - (NUM_OUTCOMES - 1) / 2)
    return PerturbedPair(tilt, -tilt, scale)


def _at_test_pair(coupling: AbstractCoupling) -> Result:
    pair = _pairs(0.0)
    (loss,) = expected_losses(coupling, Disagreement(), pair.p[None], pair.q[None]).tolist()
    joint = np.asarray(coupling.joint(pair.p, pair.q), np.float64)
    return {"loss": loss, "joint": joint.round(7).tolist()}


_SCORE_SEED = 100  # of the figure; none of the ten draws of Table 1
_KINDS = ("monotone", "non-monotone")
_FIXED_COUPLINGS = ("independent", "gumbel-max", "inverse-cdf")
_PUBLISHED_MOMENTS = {  # second moments in the titles of the published figure
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
            fixed_ones = named_couplings(_FIXED_COUPLINGS) | {"optimal": InverseCDF.sorted_by(score)}
            for name, coupling in fixed_ones.items():
                fixed.setdefault(name, {})[kind] = _law(coupling, score)
        return {"laws": fixed}

    def section(self, stored: Mapping[str, Result]) -> Section:
        """The gallery, and its numbers beside the published ones."""
        laws = {name: law for result in stored.values() for name, law in result["laws"].items()}
        laws = {name: laws[name] for name in _PUBLISHED_MOMENTS if name in laws}
        rows: list[list[Value]] = []
        for place, kind in enumerate(_KINDS):
            for name, law in laws.items():
                moment, theirs = law[kind]["second_moment"], _PUBLISHED_MOMENTS[name][place]
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
