"""Trainings described in TOML files: what is read, and what is said of a wrong key."""

import numpy as np
import pytest

from countermax import InputError
from countermax.learning import Disagreement, FixedPair, RandomPairs, SquaredDifference, read_config

FIXED = "[task]\npairs = 'fixed'\np = [0.0, 1.0]\nq = [1.0, 0.0]\n"
RECIPE = "[recipe]\ngadget = 'gadget-2'\n"


@pytest.fixture
def read(tmp_path):
    def written(text):
        (tmp_path / "run.toml").write_text(text)
        return read_config(tmp_path / "run.toml")

    return written


def test_a_file_becomes_pairs_a_loss_and_a_recipe(read):
    config = read(FIXED + RECIPE + "hidden = [8, 8]\n[repeats]\nseeds = 3\n")
    assert isinstance(config.task.make_pairs(), FixedPair)
    assert isinstance(config.task.make_loss(), SquaredDifference)
    np.testing.assert_array_equal(config.task.scores, [0.0, 1.0])
    assert (config.recipe.hidden, config.repeats.seeds) == ((8, 8), 3)


def test_random_pairs_and_other_losses(read):
    config = read("[task]\npairs = 'mirrored'\nnum_outcomes = 3\nloss = 'disagreement'\n" + RECIPE)
    pairs = config.task.make_pairs()
    assert isinstance(pairs, RandomPairs)
    assert pairs.mirrored
    assert isinstance(config.task.make_loss(), Disagreement)
    assert config.task.scalar_score is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[task", "is not valid TOML"),
        ("task = 3", "task must be a section"),
        (FIXED + RECIPE + "[other]\n", "unknown section 'other'"),
        (FIXED + RECIPE + "speed = 3\n", "unknown key recipe.speed"),
        (FIXED + RECIPE + "steps = 'many'\n", "recipe.steps must be int, got 'many'"),
        (FIXED + RECIPE + "steps = 0\n", "recipe.steps must be at least 1, got 0"),
        (FIXED + RECIPE + "learning_rate = 0\n", "recipe.learning_rate must be above 0.0"),
        (FIXED + RECIPE + "hidden = [0]\n", "recipe.hidden must be a list of positive whole numbers"),
        (FIXED, "recipe.gadget is missing; it must be one of gadget-1, gadget-2"),
        (FIXED + "[recipe]\ngadget = 'gadget-3'\n", "recipe.gadget must be one of gadget-1, gadget-2"),
    ],
)
def test_every_error_names_the_key(text, message, read):
    with pytest.raises(InputError, match=message):
        read(text)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("pairs = 'fixed'", "needs task.p and task.q"),
        ("pairs = 'independent'", "needs task.num_outcomes"),
        ("pairs = 'independent'\nnum_outcomes = 3\nloss = 'matrix'", "needs task.matrix"),
        ("pairs = 'independent'\nnum_outcomes = 3\nscore = [1.0]", "task.score must have one entry for each of 3"),
    ],
)
def test_what_a_task_lacks_is_named(task, message, read):
    made = read(f"[task]\n{task}\n{RECIPE}").task
    with pytest.raises(InputError, match=message):
        _ = made.make_pairs(), made.make_loss()
