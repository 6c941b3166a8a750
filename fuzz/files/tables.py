"""Damaged tables, logs and policies: what can still be read is answered as the second implementation reads it."""

import random
from dataclasses import replace

from fuzz.calls import tables, trajectories
from fuzz.case import Case
from fuzz.files.damage import damaged
from fuzz.shelf import Shelf


def make_rows(rng: random.Random, shelf: Shelf) -> Case:
    """A table after an accident."""
    del shelf
    return _damaged(rng, rng.choice((tables.make_counterfactuals, tables.make_transitions))(rng))


def make_log(rng: random.Random, shelf: Shelf) -> Case:
    """A log, or a policy, after an accident."""
    del shelf
    return _damaged(rng, rng.choice((trajectories.make_evaluation, trajectories.make_explanation))(rng))


def _damaged(rng: random.Random, case: Case) -> Case:
    name = rng.choice(list(case.files))
    if case.judge in ("counterfactuals", "transitions") and rng.random() < 0.5:  # what can still be read is answered
        more = (each for each in ("--normalise", "--errors=missing") if each not in case.argv)
        case = replace(case, argv=(*(each for each in case.argv if not each.startswith("--errors")), *more))
    content, words = damaged(rng, case.files[name] or b"\n")
    return replace(
        case, files={**case.files, name: content}, means={**case.means, "damage": f"{name}: {words}"}, process=False
    )
