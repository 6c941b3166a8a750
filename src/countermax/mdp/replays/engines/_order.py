"""The order in which episodes are walked: neighbours have much in common, and what they share is walked once."""

import numpy as np
from numpy.typing import NDArray

from countermax.mdp._arrays import Ints
from countermax.mdp.replays._course import Course


def numbered(course: Course) -> NDArray[np.int32]:
    """[episode, step]: steps that are the same, in what was seen and in what it earned, have one number; -1 behind."""
    fact, earned = course.facts.of_step, course.earned
    walked = np.arange(fact.shape[1]) < course.seen[:, None]
    usual = np.zeros(len(course.facts.state) + 1)  # the last one is for steps that there are not
    usual[fact] = earned
    number, unusual = fact, walked & (usual[fact] != earned)
    if unusual.any():  # one transition earned this and that
        _, amount = np.unique(earned[unusual], return_inverse=True)
        _, pair = np.unique(fact[unusual] * (int(amount.max()) + 1) + amount, return_inverse=True)
        number = fact.copy()
        number[unusual] = len(course.facts.state) + pair
    return np.where(walked, number, -1).astype(np.int32)


def common(keys: NDArray, lengths: Ints) -> tuple[Ints, Ints]:
    """An order in which neighbours begin alike, and how many steps each has in common with the one before."""
    rows = np.ascontiguousarray(keys + 1).astype(">u4")
    order = np.argsort(rows.view(np.dtype((np.void, 4 * rows.shape[1]))).ravel(), kind="stable")
    ordered, length = rows[order], lengths[order]
    alike = np.cumprod(ordered[1:] == ordered[:-1], axis=1).sum(axis=1) - 1  # the first key is where it begins
    shared = np.minimum(np.minimum(alike, length[1:]), length[:-1])
    return order, np.concatenate([[0], np.maximum(shared, 0)])
