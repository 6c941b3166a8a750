"""Figure 1a: trained on ever more diffuse pairs, does Gadget 2 still keep the outcome as often as can be?"""

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from countermax import _plotting as plotting
from countermax._core.sheet import Sheet, Value
from countermax.couplings import AbstractCoupling
from countermax.couplings._named import named_couplings
from countermax.intervals import standard_error
from countermax.learning import Disagreement, PerturbedPair, Recipe, expected_losses
from studies import plots
from studies.engine import (
    AbstractExperiment,
    Cell,
    CellContext,
    Result,
    Section,
    train,
)
from studies.synthetic._recipes import maximality_recipe
from studies.synthetic._tasks import NUM_OUTCOMES

_PUBLISHED = {0.0: 0.2473, 0.1: 0.2648, 0.4: 0.2714, 1.6: 0.2825, 6.4: 0.2987, 25.6: 0.2972, 102.4: 0.2982}
"""Published loss for each noise scale: the mean of five seeds."""
SCALES = tuple(_PUBLISHED)
_SEEDS = {"quick": 1, "published": 5, "best": 5}
_FIXED = ("maximal", "gumbel-max", "inverse-cdf", "independent")


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
            return {name: _at_test_pair(each) for name, each in named_couplings(_FIXED).items()}
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
            mean, error, theirs = float(losses.mean()), standard_error(losses), _PUBLISHED[scale]
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
                _PUBLISHED,
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
