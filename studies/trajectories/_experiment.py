"""Whole trajectories: published values beside exact ones, all estimates beside the truth, a learned coupling."""

from collections.abc import Callable, Mapping
from typing import final

from studies.engine import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset
from studies.sepsis import DISCOUNT, HORIZON
from studies.trajectories._document import cohort_sheet, learned_sheet, published_sheet
from studies.trajectories._studies import NUM_EPISODES, cohort, learned, oberst_sontag

_STUDIES: dict[str, tuple[Callable[[int], Result], str]] = {
    "oberst-sontag": (oberst_sontag, "num_repeats"),
    "cohort": (cohort, "num_resamples"),
    "learned": (learned, "steps"),
}
_AMOUNTS = {
    "quick": {"oberst-sontag": 5, "cohort": 5, "learned": 300},
    "published": {"oberst-sontag": 50, "cohort": 20, "learned": 1500},
    "best": {"oberst-sontag": 50, "cohort": 20, "learned": 1500},
}


@final
class Trajectories(AbstractExperiment):
    """Logged patients, another policy, and what is said of them."""

    name = "trajectories"
    title = "Whole trajectories: what another policy would have done"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """One for each study; `seeds` counts the repeats of the published pipeline."""
        amounts = dict(_AMOUNTS[checked_preset(preset)])
        if seeds is not None:
            amounts["oberst-sontag"] = seeds
        common = {"horizon": HORIZON, "discount": DISCOUNT, "num_episodes": NUM_EPISODES}
        return [
            Cell(self.name, study, {**common, amount: amounts[study]}, cost=float(amounts[study]))
            for study, (_, amount) in _STUDIES.items()
        ]

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """The study's numbers."""
        if context.train_only:
            return None
        study, amount = _STUDIES[cell.name]
        return study(cell.settings[amount])

    def section(self, stored: Mapping[str, Result]) -> Section:
        """A sheet for each study that is stored."""
        makers = {"oberst-sontag": published_sheet, "cohort": cohort_sheet, "learned": learned_sheet}
        sheets = {
            f"trajectories_{name}".replace("-", "_"): makers[name](stored[name]) for name in makers if name in stored
        }
        words = [
            "Everything but the logged episodes is exact: values, counterfactual chains, bounds and the truth. The "
            "published values rest on one set of 1,000 episodes and on sampling; here new episodes are drawn in each "
            "repeat, so the range is that of the episodes alone.",
        ]
        return Section(self.title, words, sheets)
