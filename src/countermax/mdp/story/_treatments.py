"""What actions are made of, read from their names: `antibiotic + ventilation`, `fluid 2, vasopressor 0`."""

import re
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from countermax.mdp._labels import spoken
from countermax.mdp._process import FiniteMDP

_BETWEEN = re.compile(r" \+ |, ")
_LEVEL = re.compile(r"(.*\S)\s+(\d{1,6}(?:\.\d{1,6})?)")
_NOTHING = ("", "none", "nothing")


class Treatments(NamedTuple):
    """The parts of all actions."""

    names: tuple[str, ...]
    graded: tuple[bool, ...]
    """Which of them come in levels, as in `fluid 2`; level 0 is none of it."""
    levels: Float[np.ndarray, "a p"]
    """How much of each part is in each action; 1 for parts without levels."""


def treatments_of(mdp: FiniteMDP) -> Treatments:
    """The parts by their names; an action without a name is a part of its own."""
    names = [spoken("action", action, mdp.action_names) for action in range(mdp.num_actions)]
    unnamed = [mdp.action_names is None or name != str(mdp.action_names[at]) for at, name in enumerate(names)]
    split = [
        [name] if whole else [part for part in _BETWEEN.split(name) if part not in _NOTHING]
        for name, whole in zip(names, unnamed, strict=True)
    ]
    read = [
        [(part, None) if whole else _as_level(part) for part in parts]
        for parts, whole in zip(split, unnamed, strict=True)
    ]
    twice = {name for parts in read for name, level in parts if [each for each, _ in parts].count(name) > 1}
    found: dict[str, dict[int, float]] = {}
    graded: dict[str, bool] = {}
    for action, (parts, texts) in enumerate(zip(read, split, strict=True)):
        for (name, level), text in zip(parts, texts, strict=True):
            own = level is None or name in twice  # two levels of one thing at a time are two things
            called = text if own else name
            found.setdefault(called, {})[action] = 1.0 if own or level is None else level
            graded[called] = graded.get(called, False) or not own
    levels = np.zeros((mdp.num_actions, len(found)))
    for place, amounts in enumerate(found.values()):
        levels[list(amounts), place] = list(amounts.values())
    return Treatments(tuple(found), tuple(graded[name] for name in found), levels)


def _as_level(part: str) -> tuple[str, float | None]:
    read = _LEVEL.fullmatch(part)
    return (part, None) if read is None else (read[1], float(read[2]))
