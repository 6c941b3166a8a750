"""Rows of the counterfactual chain, each computed once however often it is met."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from countermax.mdp._arrays import Ints
from countermax.mdp.replays._facts import Facts
from countermax.mdp.replays._questions import TransitionCoupling, questions


class ChainRows(NamedTuple):
    """Rows of the counterfactual chain: [row, state]."""

    chances: sparse.csr_array
    gains: sparse.csr_array
    """Chances times rewards."""
    squares: sparse.csr_array
    """Chances times squared rewards."""


class AnswerCache:
    """Remembers the answer to every question that was asked about a log."""

    def __init__(self, coupling: TransitionCoupling, facts: Facts):
        self.mdp = coupling.mdp
        self._coupling = coupling
        self._facts = facts
        self._keys = np.zeros(0, np.int64)
        nothing = sparse.csr_array((0, coupling.mdp.num_states))
        self._rows = ChainRows(nothing, nothing, nothing)

    def rows(self, fact: Ints, state: Ints, action: Ints) -> ChainRows:
        """The chain's rows from these states under these actions, given what was seen."""
        keys = (fact * self.mdp.num_states + state) * self.mdp.num_actions + action
        place = self._find(keys)
        unknown = place < 0
        if unknown.any():
            self._learn(np.unique(keys[unknown]))
            place = self._find(keys)
        return ChainRows(*(each[place] for each in self._rows))

    def _find(self, keys: Ints) -> Ints:
        if len(self._keys) == 0:
            return np.full(len(keys), -1)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, place, -1)

    def _learn(self, keys: Ints) -> None:
        mdp = self.mdp
        fact, world = np.divmod(keys, mdp.num_states * mdp.num_actions)
        state, action = np.divmod(world, mdp.num_actions)
        chances = self._coupling.answers(questions(self._facts, fact, state, action))
        successors, rewards = mdp.successors[state, action], mdp.rewards[state, action]
        squares = rewards**2 if mdp.reward_variances is None else rewards**2 + mdp.reward_variances[state, action]
        everything = np.concatenate([self._keys, keys])
        order = np.argsort(everything)
        self._keys = everything[order]
        self._rows = ChainRows(
            *(
                sparse.csr_array(sparse.vstack([known, _packed(values, successors, mdp.num_states)], format="csr"))[
                    order
                ]
                for known, values in zip(self._rows, (chances, chances * rewards, chances * squares), strict=True)
            )
        )


def _packed(values: Float[np.ndarray, "m w"], successors: Int[np.ndarray, "m w"], num_states: int) -> sparse.csr_array:
    row, slot = np.nonzero(values)
    return sparse.csr_array((values[row, slot], (row, successors[row, slot])), shape=(len(values), num_states))
