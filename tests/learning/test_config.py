"""Trainings described in TOML files: what is read, and what is said of a wrong key."""

import numpy as np
import pytest

from countermax import InputError
from countermax.learning import Disagreement, FixedPair, RandomPairs, SquaredDifference
from countermax.learning._config import read_config

FIXED = "[task]\npairs = 'fixed'\np = [0.0, 2.0]\nq = [2.0, 0.0]\n"
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
        (FIXED + RECIPE + "steps = 'many'\n", "recipe.steps must be a whole number, got 'many'"),
        (FIXED + RECIPE + "steps = true\n", "recipe.steps must be a whole number, got True"),
        (FIXED + RECIPE + "steps = 3.0\n", "recipe.steps must be a whole number, got 3.0"),
        (FIXED + RECIPE + f"steps = {10**30}\n", "recipe.steps must be at most 2147483647"),
        (FIXED + RECIPE + "learning_rate = inf\n", "recipe.learning_rate must be a finite number"),
        (FIXED + RECIPE + "learning_rate = '1'\n", "recipe.learning_rate must be a finite number"),
        (FIXED + RECIPE + "temperature = nan\n", "recipe.temperature must be a finite number"),
        (FIXED + RECIPE + "as_published = 1\n", "recipe.as_published must be true or false"),
        (FIXED + RECIPE + "hidden = 8\n", "recipe.hidden must be a list of positive whole numbers"),
        (FIXED + RECIPE + "hidden = [8, [8]]\n", "every entry of recipe.hidden must be a whole number"),
        (FIXED + RECIPE + "start = 1979-05-27\n", "recipe.start must be one of random"),
        (
            FIXED + RECIPE + "[repeats]\nseed = -1\n",
            "`repeats.seed` must be a whole number from 0 to 4294967295, got -1",
        ),
        (FIXED + RECIPE + f"[repeats]\nseed = {2**32}\n", "`repeats.seed` must be a whole number from 0 to 4294967295"),
        (FIXED + RECIPE + f"[repeats]\nseed = {2**63}\n", "`repeats.seed` must be a whole number from 0 to 4294967295"),
        (FIXED + RECIPE + f"[repeats]\nseed = {2**32 - 1}\nseeds = 2\n", r"`seed \+ seeds - 1` must be a whole number"),
        (FIXED + RECIPE + "[repeats]\nevaluate_every = -1\n", "repeats.evaluate_every must be at least 1, got -1"),
        (FIXED + RECIPE + "[repeats]\npatience = 0\n", "repeats.patience must be at least 1, got 0"),
        (FIXED + RECIPE + "[repeats]\nheld_out = 0\n", "repeats.held_out must be at least 1, got 0"),
        (FIXED + RECIPE + f"[repeats]\nseeds = {'1' * 5000}\n", "is not valid TOML"),
        (FIXED + RECIPE + "start = " + "[" * 5000, "is not valid TOML"),
        (FIXED + RECIPE + f"{'x' * 99} = 3\n", "unknown key recipe.x"),
        (FIXED + "score = [[1.0, 2.0], [3.0]]\n" + RECIPE, "the lists in task.score must have one length, got 1, 2"),
        (FIXED + "score = [[1.0], 3.0]\n" + RECIPE, "every entry of task.score must be a list of numbers, got 3.0"),
        (FIXED + "score = [1.0, [3.0]]\n" + RECIPE, r"task.score must be a list of numbers, but \[3.0\] is among them"),
        (FIXED + "score = ['a', 'b']\n" + RECIPE, "task.score must be a list of numbers, but 'a' is among them"),
        (FIXED + "score = 'low'\n" + RECIPE, "task.score must be a list of numbers, or of lists of numbers, got 'low'"),
        (
            FIXED + "score = {a = 1}\n" + RECIPE,
            "task.score must be a list of numbers, or of lists of numbers, got {'a'",
        ),
        (FIXED + "score = [{a = 1}, {a = 2}]\n" + RECIPE, "task.score must be a list of numbers, but {'a': 1}"),
        (FIXED + "score = [1979-05-27, 1979-05-28]\n" + RECIPE, "task.score must be a list of numbers, but datetime"),
        (FIXED + "score = [true, false]\n" + RECIPE, "task.score must be a list of numbers, but True is among them"),
        (FIXED + "score = [nan, 1]\n" + RECIPE, "task.score must be a list of numbers, but nan is among them"),
        (FIXED + "score = [inf, 1]\n" + RECIPE, "task.score must be a list of numbers, but inf is among them"),
        (FIXED + f"score = [1{'0' * 400}, 1]\n" + RECIPE, "task.score must be a list of numbers, but 1000"),
        (
            FIXED + "score = [[[1]], [[2]]]\n" + RECIPE,
            r"every entry of task.score must be a list of numbers, but \[1\]",
        ),
        (FIXED + "score = []\n" + RECIPE, "task.score must be a list of numbers"),
        (FIXED + "loss = 'matrix'\nmatrix = [[1, 2], [3]]\n" + RECIPE, "the lists in task.matrix must have one length"),
        (FIXED + "matrix = [[1, 2], [3, 4]]\n" + RECIPE, "`matrix` says nothing where `loss` is 'squared-difference'"),
        (FIXED + "num_outcomes = 3\n" + RECIPE, "`num_outcomes` says nothing where `pairs` is 'fixed'"),
        (FIXED.replace("[0.0, 2.0]", "[nan, 1.0]") + RECIPE, "task.p must be a list of numbers, but nan is among them"),
        (FIXED.replace("[0.0, 2.0]", "'ab'") + RECIPE, "task.p must be a list of numbers, got 'ab'"),
        (FIXED.replace("[0.0, 2.0]", "[]") + RECIPE, "task.p must be a list of numbers"),
        (FIXED + RECIPE + "steps = 0\n", "recipe.steps must be at least 1, got 0"),
        (FIXED + RECIPE + "learning_rate = 0\n", "recipe.learning_rate must be above 0.0"),
        (FIXED + RECIPE + "hidden = [0]\n", "every entry of recipe.hidden must be at least 1, got 0"),
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
        ("pairs = 'fixed'\np = [0, 2]\nq = [0]", "must have the same number of outcomes, got 2 and 1"),
        ("pairs = 'fixed'\np = [0, inf]\nq = [0, 2]", r"must not contain \+inf"),
        ("pairs = 'fixed'\np = [-inf, -inf]\nq = [0, 2]", "must leave at least one outcome possible"),
        ("pairs = 'independent'\nnum_outcomes = 2\nscore = [1e300, 0]", "`score` must be finite"),
        ("pairs = 'independent'\nnum_outcomes = 2\nloss = 'matrix'\nmatrix = [[1]]", "a row for each of 2 outcomes"),
        ("pairs = 'independent'\nnum_outcomes = 1\nloss = 'matrix'\nmatrix = [[1, 2]]", "must be square"),
        ("pairs = 'independent'\nnum_outcomes = 2147483647", "of memory, and the limit is"),
    ],
)
def test_what_a_task_lacks_is_named(task, message, read, monkeypatch, as_users_call):
    made = read(f"[task]\n{task}\n{RECIPE}").task
    monkeypatch.setenv("COUNTERMAX_MAX_MEMORY", "4")
    with pytest.raises(InputError, match=message):
        _ = made.make_pairs(), made.make_loss()


def test_files_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "run.toml"
    path.write_bytes((FIXED + RECIPE + "# caf\u00e9\n").encode("latin-1"))
    with pytest.raises(InputError, match="must be encoded as UTF-8, but byte"):
        read_config(path)
    path.write_bytes(b"\xef\xbb\xbf" + (FIXED + RECIPE + "# caf\u00e9\n").encode())  # as some editors write it
    assert read_config(path).recipe.gadget == "gadget-2"
    path.write_bytes(b"#" * 10**7 + b"#")
    with pytest.raises(InputError, match="more than 10 MB"):
        read_config(path)
    for missing in (tmp_path / "missing.toml", tmp_path, "/dev/zero"):
        with pytest.raises(InputError, match="cannot read"):
            read_config(missing)
