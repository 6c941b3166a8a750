"""Which gadgets the sepsis experiment trains, and how: all settings in one place."""

from dataclasses import dataclass, replace

from countermax.experiments._base import checked_preset
from countermax.experiments._presets import published
from countermax.experiments._recipes import Recipe


@dataclass(frozen=True)
class SepsisPreset:
    """Sizes and recipes; for a single pair and for perturbed ones."""

    fixed: tuple[Recipe, ...]
    generalised: tuple[Recipe, ...]
    num_noisy: int
    """Perturbed pairs that each trial is measured on."""
    num_scores: int = 5
    """Draws of the reward for each query."""
    most_outcomes: int | None = None
    """Of the queries to the ICU records."""
    perturb_records: bool = True
    """Whether the ICU records have generalised panels too."""

    def recipes(self, *, generalised: bool) -> tuple[Recipe, ...]:
        """Those of a panel."""
        return self.generalised if generalised else self.fixed


_BEST = SepsisPreset(
    fixed=(
        Recipe("Gadget 1", 2000, 1e-1, table=True),
        Recipe("Gadget 2", 1500, 1e-2, num_latents=32, hidden=(64, 64)),
    ),
    generalised=(
        Recipe("Gadget 1", 1500, 3e-3, hidden=(128, 128), batch_size=16),
        Recipe("Gadget 2", 1500, 1e-2, num_latents=32, hidden=(128, 128), batch_size=16),
    ),
    num_noisy=1000,
)
_QUICK = SepsisPreset(
    fixed=(
        replace(_BEST.fixed[0], steps=300),
        replace(_BEST.fixed[1], steps=300, num_latents=16, hidden=(32, 32), rounds=10),
    ),
    generalised=(
        replace(_BEST.generalised[0], steps=150, learning_rate=1e-2, hidden=(64, 64), batch_size=4),
        replace(_BEST.generalised[1], steps=200, num_latents=16, hidden=(64, 64), batch_size=8, rounds=10),
    ),
    num_noisy=100,
    num_scores=2,
    most_outcomes=48,
    perturb_records=False,
)
_PAPER = SepsisPreset(
    fixed=(published("Gadget 1", 32_016, 1e-5), published("Gadget 2", 2_000, 1e-5)),
    generalised=(published("Gadget 1", 32_016, 1e-5), published("Gadget 2", 2_000, 1e-5)),
    num_noisy=2000,
)


def sepsis_preset(preset: str) -> SepsisPreset:
    """By name."""
    return {"quick": _QUICK, "paper": _PAPER, "best": _BEST}[checked_preset(preset)]
