"""Recipes: every gadget and start is built, and settings come back as they were."""

import jax
import numpy as np
import pytest

from countermax import Gadget1, Gadget2, InputError
from countermax.couplings import BinnedInverseCDF, Constant
from countermax.couplings._named import is_same
from countermax.learning import FixedPair, RandomPairs, Reinforce, Relaxed
from countermax.learning._losses import Exact
from countermax.learning._recipe import STARTS, Recipe

SMALL = {"hidden": (4,), "num_latents": 3, "rounds": 2, "steps": 5}
VECTORS = np.random.default_rng(0).normal(size=(4, 2))


@pytest.mark.parametrize(
    ("gadget", "start"), [(gadget, start) for gadget, starts in STARTS.items() for start in starts]
)
def test_every_start_gives_a_gadget_with_exact_marginals(gadget, start):
    recipe = Recipe(gadget, start=start, **SMALL)
    score = VECTORS if start in ("barycenter", "vector-quantile") else np.arange(4.0)
    built = recipe.build(score, RandomPairs(4), seed=0)
    assert isinstance(built, {"gadget-1": Gadget1, "gadget-2": Gadget2}[gadget])
    p, q = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.4, 0.1, 0.4, 0.1])
    joint = np.asarray(built.joint(np.log(p), np.log(q)))
    np.testing.assert_allclose(joint.sum(axis=1), p, atol=1e-5)
    np.testing.assert_allclose(joint.sum(axis=0), q, atol=1e-5)


def test_latents_rounds_and_blur_are_chosen_where_they_are_not_said():
    few, many = (Recipe("gadget-2", num_latents=None).latents(size) for size in (10, 150))
    assert (few, many, Recipe("gadget-2", num_latents=7).latents(150)) == (64, 256, 7)
    start = {"start": "vector-quantile", "hidden": (4,), "num_latents": 3}
    sharp = Recipe("gadget-2", rounds=None, **start).build(VECTORS, RandomPairs(4), seed=0)
    assert sharp.rounds > 100
    assert sharp.part.start.blur < 0.05
    assert Recipe("gadget-2", rounds=None, hidden=(4,)).build(VECTORS, RandomPairs(4), seed=0).rounds == 20
    for pairs in (FixedPair([0.0, 1.0, 2.0, 3.0], [3.0, 1.0, 2.0, 0.0]), RandomPairs(4)):
        built = Recipe("gadget-2", **start).build(np.arange(4.0), pairs, seed=0)
        assert isinstance(built.part.start, BinnedInverseCDF)
        assert Recipe("gadget-2", **start).build(VECTORS, pairs, seed=0).part.start.points.shape == (3, 2)


def test_settings_give_the_same_recipe_and_the_same_gadget():
    recipe = Recipe("gadget-2", part="constant", **SMALL)
    again = Recipe.of(recipe.settings())
    assert again == recipe
    first, second = (each.build(np.arange(4.0), RandomPairs(4), seed=3) for each in (recipe, again))
    for leaf, other in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(leaf, other)


def test_objectives_have_the_settings_of_the_recipe():
    assert Recipe("gadget-2", objective="relaxed", temperature=0.3).make_objective() == Relaxed(0.3)
    assert Recipe("gadget-2", objective="reinforce").make_objective() == Reinforce()
    assert Recipe("gadget-2").training().objective == Exact()


def test_starts_that_a_gadget_cannot_have_are_refused():
    with pytest.raises(InputError, match="`start` must be one of random, gumbel-max for gadget-1, got 'barycenter'"):
        Recipe("gadget-1", start="barycenter")
    with pytest.raises(InputError, match="needs one scalar score"):
        Recipe("gadget-2", start="inverse-cdf-by-score", **SMALL).build(VECTORS, RandomPairs(4), seed=0)


def test_a_seed_means_the_parameters_that_stored_results_were_trained_from():
    """Stored cells name a seed alone, so what it stands for must not change."""
    score, pairs = np.arange(4.0), RandomPairs(4)
    built = Recipe("gadget-2", num_latents=3, hidden=(5,)).build(score, pairs, 7)
    assert is_same(built, Gadget2(4, 3, key=jax.random.key(1007), hidden=(5,)))
    first = Recipe("gadget-1", hidden=(5,)).build(score, pairs, 7)
    assert is_same(first, Gadget1(4, key=jax.random.key(1007), hidden=(5,)))
    scattered = Recipe("gadget-2", num_latents=3, hidden=(5,), start="scattered").build(score, pairs, 7)
    start = Constant(3, 4, key=jax.random.key(2007), scale=3.0)
    assert is_same(scattered, Gadget2(4, 3, key=jax.random.key(1007), hidden=(5,), start=start))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "`steps` must be at least 1, got 0"),
        ({"steps": 1.5}, "`steps` must be a whole number, got 1.5"),
        ({"batch_size": -1}, "`batch_size` must be at least 1, got -1"),
        ({"num_latents": True}, "`num_latents` must be a whole number, got True"),
        ({"rounds": -1}, "`rounds` must be at least 0, got -1"),
        ({"restarts": 0}, "`restarts` must be at least 1, got 0"),
        ({"hidden": (0,)}, "every entry of `hidden` must be at least 1, got 0"),
        ({"learning_rate": float("nan")}, "`learning_rate` must be a finite number, got nan"),
        ({"objective": "guess"}, "`objective` must be one of exact, relaxed, reinforce, got 'guess'"),
        ({"gadget": "gadget-3"}, "`gadget` must be one of gadget-1, gadget-2, got 'gadget-3'"),
    ],
)
def test_recipes_check_themselves(settings, message, as_users_call):
    with pytest.raises(InputError, match=message):
        Recipe(**{"gadget": "gadget-2", **settings})


def test_seeds_that_would_be_other_ones_are_refused(as_users_call):
    for seed in (-1, 2**32, 2**64, 1.5, None):
        with pytest.raises(InputError, match="`seed` must be a whole number from 0 to 4294967295"):
            Recipe("gadget-2", **SMALL).build(np.arange(4.0), RandomPairs(4), seed)
    last, first = (Recipe("gadget-2", **SMALL).build(np.arange(4.0), RandomPairs(4), seed) for seed in (2**32 - 1, 0))
    assert not is_same(last, first)


@pytest.mark.parametrize(
    "settings", [{"hidden": (10**9,)}, {"num_latents": 10**9}, {"part": "constant", "num_latents": 10**9}]
)
def test_gadgets_that_no_memory_holds_are_refused(settings):
    with pytest.raises(InputError, match="of memory, and the limit is"):
        Recipe("gadget-2", **settings).build(np.arange(4.0), RandomPairs(4), 0)
