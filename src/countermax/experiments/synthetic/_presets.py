"""Which gadgets each preset trains, and how: all settings of the paper's experiments in one place."""

from dataclasses import replace

from countermax.experiments.engine import Recipe, checked_preset


def published(gadget: str, steps: int, learning_rate: float, num_latents: int = 20) -> Recipe:
    """A gadget as the paper trained it."""
    return Recipe(
        gadget,
        steps,
        learning_rate,
        num_latents=num_latents,
        hidden=(1024, 1024),
        rounds=10,
        as_published=True,
        objective="relaxed",
        batch_size=64,
    )


_ONE_PAIR = [
    Recipe("Gadget 1", 3000, 1e-1, table=True, restarts=8),
    Recipe("Gadget 2", 1500, 1e-2, num_latents=32, hidden=(128, 128), rounds=10, restarts=4),
]
_QUICK_ONE_PAIR = [
    replace(_ONE_PAIR[0], steps=400, restarts=1),
    replace(_ONE_PAIR[1], steps=400, num_latents=20, hidden=(64, 64), restarts=1),
]
_QUICK_MANY_PAIRS = [
    Recipe("Gadget 1", 200, 1e-2, hidden=(64, 64), batch_size=8),
    Recipe("Gadget 2", 300, 1e-2, hidden=(64, 64), batch_size=16, rounds=10),
]
_SORTED_START = replace(_ONE_PAIR[1], start="sorted inverse CDF", steps=1000, learning_rate=3e-3, rounds=20, restarts=1)
_VECTOR = Recipe("Gadget 2", 1200, 1e-2, num_latents=64, batch_size=64)
# Gumbel-max is a stationary point of the probability of a changed outcome: a network that starts near it stays there.
_MAXIMAL = Recipe("Gadget 2", 1500, 3e-3, start="scattered", num_latents=100, batch_size=64)


def table1_recipes(preset: str) -> dict[str, list[Recipe]]:
    """By column."""
    if checked_preset(preset) == "paper":
        many = [published("Gadget 1", 50_000, 1e-4), published("Gadget 2", 50_000, 1e-3)]
        one = [published(gadget, 3_000, 1e-5) for gadget in ("Gadget 1", "Gadget 2")]
        return {"independent": many, "mirrored": many, "monotone": one, "non-monotone": one, "vector": many[1:]}
    if preset == "quick":
        many, one = _QUICK_MANY_PAIRS, _QUICK_ONE_PAIR
        vector = [replace(many[1], num_latents=32)]
        return {"independent": many, "mirrored": many, "monotone": one, "non-monotone": one, "vector": vector}
    many = [
        Recipe("Gadget 1", 3000, 3e-3),
        Recipe("Gadget 2", 2400, 1e-2, num_latents=32),
        Recipe("Gadget 2", 800, 3e-3, start="inverse CDF"),
    ]
    one = [*_ONE_PAIR, _SORTED_START]
    return {
        "independent": [*many, Recipe("Gadget 1", 3000, 1e-3, start="Gumbel-max")],
        "mirrored": many,
        "monotone": one,
        "non-monotone": one,
        "vector": [_VECTOR, replace(_VECTOR, start="barycenter", steps=800, learning_rate=3e-3)],
    }


def maximality_recipe(preset: str) -> Recipe:
    """The same at every noise scale."""
    return {
        "quick": replace(
            _MAXIMAL, steps=150, learning_rate=1e-2, num_latents=20, hidden=(64, 64), batch_size=16, rounds=10
        ),
        "paper": published("Gadget 2", 10_000, 1e-5, num_latents=100),
        "best": _MAXIMAL,
    }[checked_preset(preset)]


def couplings_recipes(preset: str) -> list[Recipe]:
    """Both gadgets, on one pair."""
    return {
        "quick": _QUICK_ONE_PAIR,
        "paper": [published(gadget, 2_000, 1e-5) for gadget in ("Gadget 1", "Gadget 2")],
        "best": _ONE_PAIR,
    }[checked_preset(preset)]
