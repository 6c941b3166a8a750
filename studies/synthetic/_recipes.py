"""Which gadgets each preset trains, and how: all settings of the paper's synthetic experiments in one place."""

from dataclasses import replace

from countermax.learning import Recipe
from studies.engine import checked_preset

_GADGETS = ("gadget-1", "gadget-2")


def published_recipe(gadget: str, steps: int, learning_rate: float, num_latents: int = 20) -> Recipe:
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
    Recipe("gadget-1", 3000, 1e-1, part="constant", restarts=8),
    Recipe("gadget-2", 1500, 1e-2, num_latents=32, hidden=(128, 128), rounds=10, restarts=4),
]
_QUICK_ONE_PAIR = [
    replace(_ONE_PAIR[0], steps=400, restarts=1),
    replace(_ONE_PAIR[1], steps=400, num_latents=20, hidden=(64, 64), restarts=1),
]
_QUICK_MANY_PAIRS = [
    Recipe("gadget-1", 200, 1e-2, hidden=(64, 64), batch_size=8),
    Recipe("gadget-2", 300, 1e-2, hidden=(64, 64), batch_size=16, rounds=10),
]
_BY_SCORE = replace(_ONE_PAIR[1], start="inverse-cdf-by-score", steps=1000, learning_rate=3e-3, rounds=20, restarts=1)
_VECTOR = Recipe("gadget-2", 1200, 1e-2, num_latents=64, batch_size=64)
# Gumbel-max is a stationary point of the probability of a changed outcome: a network that starts near it stays there.
_MAXIMAL = Recipe("gadget-2", 1500, 3e-3, start="scattered", num_latents=100, batch_size=64)


def table1_recipes(preset: str) -> dict[str, list[Recipe]]:
    """The recipes of each column."""
    if checked_preset(preset) == "published":
        many = [published_recipe("gadget-1", 50_000, 1e-4), published_recipe("gadget-2", 50_000, 1e-3)]
        one = [published_recipe(gadget, 3_000, 1e-5) for gadget in _GADGETS]
        return {"independent": many, "mirrored": many, "monotone": one, "non-monotone": one, "vector": many[1:]}
    if preset == "quick":
        many, one = _QUICK_MANY_PAIRS, _QUICK_ONE_PAIR
        vector = [replace(many[1], num_latents=32)]
        return {"independent": many, "mirrored": many, "monotone": one, "non-monotone": one, "vector": vector}
    many = [
        Recipe("gadget-1", 3000, 3e-3),
        Recipe("gadget-2", 2400, 1e-2, num_latents=32),
        Recipe("gadget-2", 800, 3e-3, start="inverse-cdf"),
    ]
    one = [*_ONE_PAIR, _BY_SCORE]
    return {
        "independent": [*many, Recipe("gadget-1", 3000, 1e-3, start="gumbel-max")],
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
        "published": published_recipe("gadget-2", 10_000, 1e-5, num_latents=100),
        "best": _MAXIMAL,
    }[checked_preset(preset)]


def couplings_recipes(preset: str) -> list[Recipe]:
    """Both gadgets, on one pair."""
    return {
        "quick": _QUICK_ONE_PAIR,
        "published": [published_recipe(gadget, 2_000, 1e-5) for gadget in _GADGETS],
        "best": _ONE_PAIR,
    }[checked_preset(preset)]
