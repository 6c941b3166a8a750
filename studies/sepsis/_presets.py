"""Which gadgets the sepsis experiment trains, and how: all settings in one place."""

from dataclasses import dataclass, replace

from countermax.learning import Recipe
from studies.engine import checked_preset
from studies.synthetic import published_recipe


@dataclass(frozen=True)
class SepsisPreset:
    """Sizes and recipes; for a single pair and for perturbed ones."""

    fixed: tuple[Recipe, ...]
    generalised: tuple[Recipe, ...]
    fixed_records: tuple[Recipe, ...]
    """Recipes for the ICU records, with several times as many outcomes; Gadget 1 costs the cube of their number."""
    generalised_records: tuple[Recipe, ...]
    """Empty for no such panels."""
    num_noisy: int
    """Perturbed pairs that each trial is measured on."""
    num_scores: int = 5
    """Draws of the reward for each query."""
    most_outcomes: int = 64
    """The largest number of outcomes that a query to the ICU records may have."""

    def recipes(self, *, records: bool, generalised: bool) -> tuple[Recipe, ...]:
        """The recipes of a panel."""
        if records:
            return self.generalised_records if generalised else self.fixed_records
        return self.generalised if generalised else self.fixed


_GADGET_2 = Recipe("gadget-2", 1000, 1e-2, num_latents=32, hidden=(64, 64))
_BEST = SepsisPreset(
    fixed=(Recipe("gadget-1", 2000, 1e-1, part="constant", restarts=4), replace(_GADGET_2, restarts=4)),
    generalised=(
        Recipe("gadget-1", 800, 3e-3, hidden=(128, 128), batch_size=8),
        replace(_GADGET_2, steps=800, num_latents=20, hidden=(128, 128), batch_size=8),
    ),
    fixed_records=(replace(_GADGET_2, steps=600),),
    generalised_records=(replace(_GADGET_2, steps=400, num_latents=20, hidden=(128, 128), batch_size=4),),
    num_noisy=500,
)
_QUICK = SepsisPreset(
    fixed=(
        replace(_BEST.fixed[0], steps=300, restarts=1),
        replace(_BEST.fixed[1], steps=300, num_latents=16, hidden=(32, 32), rounds=10, restarts=1),
    ),
    generalised=(
        replace(_BEST.generalised[0], steps=150, learning_rate=1e-2, hidden=(64, 64), batch_size=4),
        replace(_BEST.generalised[1], steps=200, num_latents=16, hidden=(64, 64), rounds=10),
    ),
    fixed_records=(replace(_GADGET_2, steps=200, num_latents=16, hidden=(32, 32), rounds=10),),
    generalised_records=(),
    num_noisy=100,
    num_scores=2,
    most_outcomes=48,
)
_PUBLISHED_GADGETS = (published_recipe("gadget-1", 32_016, 1e-5), published_recipe("gadget-2", 2_000, 1e-5))
_PUBLISHED = SepsisPreset(
    fixed=_PUBLISHED_GADGETS,
    generalised=_PUBLISHED_GADGETS,
    fixed_records=_PUBLISHED_GADGETS[1:],
    generalised_records=_PUBLISHED_GADGETS[1:],
    num_noisy=2000,
)


def sepsis_preset(preset: str) -> SepsisPreset:
    """The preset of this name."""
    return {"quick": _QUICK, "published": _PUBLISHED, "best": _BEST}[checked_preset(preset)]
