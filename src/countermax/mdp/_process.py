"""Finite Markov decision processes as checked, immutable values.

Transition rows are kept as supports, padded to the widest one: most rows of a clinical model can reach a handful of
states out of hundreds, and everything downstream costs what the supports cost.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from scipy import sparse

from countermax._core.errors import InputError
from countermax.mdp._arrays import (
    Floats,
    Ints,
    Values,
    as_booleans,
    as_counts,
    as_floats,
    as_index,
    as_indices,
    as_integers,
    as_mask,
    as_start,
    as_whole,
    check_sizes,
    checked_discount,
    frozen,
)
from countermax.mdp._labels import Names, as_names, named
from countermax.mdp._transitions import PaddedRows, check_rows, entries_of_dense, pack, transitions_from

MODEL_GIVEN = "The model is taken as given: intervals leave out how well it was estimated."
"""What is assumed where there are no posterior draws."""

_CHECKS: dict[str, Callable[[str, Values], NDArray]] = {
    "successors": as_integers,
    "probs": as_floats,
    "rewards": as_floats,
    "start": as_floats,
    "absorbing": as_booleans,
    "allowed": as_booleans,
    "counts": lambda _, values: as_counts(values),
    "reward_variances": as_floats,
    "never_left": as_booleans,
}
_OPTIONAL = ("counts", "reward_variances", "never_left")


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class FiniteMDP:
    """States, actions, transition rows, rewards and a start: make one with `from_dense` or `from_transitions`.

    An episode ends on arrival in an absorbing state, so the rows of absorbing states are self-loops without reward. In
    every row the reachable successors come first, in ascending order; the padding behind them has probability zero.
    """

    successors: Int[np.ndarray, "s a w"]
    """Which state each slot of a row leads to; zero where there is padding."""
    probs: Float[np.ndarray, "s a w"]
    """How likely; zero where there is padding."""
    rewards: Float[np.ndarray, "s a w"]
    """What the step earns, on average where it varies."""
    start: Float[np.ndarray, " s"]
    """Distribution of the first state."""
    discount: float
    """What a reward is worth one step later."""
    absorbing: Bool[np.ndarray, " s"]
    """Where episodes end."""
    allowed: Bool[np.ndarray, "s a"]
    """Which actions can be taken where; the rows of the others are empty. Estimates allow what was seen."""
    counts: Int[np.ndarray, "s a w"] | None = None
    """How often each slot was seen, where the rows are estimates."""
    reward_variances: Float[np.ndarray, "s a w"] | None = None
    """How much the reward of each slot varies from one time to the next; None where it never does."""
    state_names: Names | None = None
    """Numbers or text; only for readers."""
    action_names: Names | None = None
    never_left: Bool[np.ndarray, " s"] | None = None
    """Which absorbing states nobody named: the log behind an estimate reaches them, but never leaves them."""

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            value = getattr(self, name)
            if value is not None or name not in _OPTIONAL:
                object.__setattr__(self, name, frozen(check(name, value)))
        check_process(self)

    @classmethod
    def from_dense(
        cls,
        transitions: Values,
        rewards: Values,
        *,
        start: Values,
        action_axis: int = 1,
        discount: float = 1.0,
        absorbing: Values | None = None,
        allowed: Bool[np.ndarray, "s a"] | None = None,
        counts: Values | None = None,
        reward_variances: Values | None = None,
        state_names: Sequence[Hashable] | None = None,
        action_names: Sequence[Hashable] | None = None,
    ) -> "FiniteMDP":
        """Packs full arrays.

        Args:
            transitions: Probabilities [state, action, next state].
            rewards: Rewards by [state, action, next state], by [state, action], or by [next state] alone.
            start: Distribution of the first state, or the one state that all episodes start in.
            action_axis: 0 where `transitions` and `rewards` have the action before the state.
            discount: Discount factor for each step.
            absorbing: States where episodes end, as indices or as a mask; their rows are not looked at.
            allowed: [state, action], which rows there are; the others are not looked at. By default all of them.
            counts: Number of times that each transition was seen, in the shape of `transitions`.
            reward_variances: Variances of the rewards, in the same shape, if rewards vary.
            state_names: One for each state.
            action_names: One for each action.
        """
        entries, (num_states, num_actions) = entries_of_dense(
            transitions,
            rewards,
            counts,
            reward_variances,
            absorbing=absorbing,
            allowed=allowed,
            action_axis=action_axis,
        )
        return cls.from_transitions(
            entries._asdict(),
            num_states=num_states,
            num_actions=num_actions,
            start=start,
            discount=discount,
            absorbing=absorbing,
            state_names=state_names,
            action_names=action_names,
        )

    @classmethod
    def from_transitions(
        cls,
        transitions: Mapping[str, Values | None],
        *,
        num_states: int,
        num_actions: int,
        start: Values,
        discount: float = 1.0,
        absorbing: Values | None = None,
        state_names: Sequence[Hashable] | None = None,
        action_names: Sequence[Hashable] | None = None,
        never_left: Bool[np.ndarray, " s"] | None = None,
    ) -> "FiniteMDP":
        """Packs a list of transitions, one entry for each (state, action, successor) that is possible.

        An action without any entry is not allowed in that state.

        Args:
            transitions: Columns of one length: `state`, `action` and `successor` of each transition (each once), its
                `probs` and `rewards`; and, where there are any, `counts`, how often it was seen, and
                `reward_variances`.
            num_states: Number of states.
            num_actions: Number of actions.
            start: Distribution of the first state, or the one state that all episodes start in.
            discount: Discount factor for each step.
            absorbing: States where episodes end, as indices or as a mask; transitions out of them are left out.
            state_names: One for each state.
            action_names: One for each action.
            never_left: [state]: which of the absorbing states nobody named, in an estimate.
        """
        check_sizes(as_whole("num_states", num_states, least=1), as_whole("num_actions", num_actions, least=1))
        ends = as_mask("absorbing", absorbing, num_states)
        entries = transitions_from(transitions, num_states=num_states, num_actions=num_actions)
        rows = pack(entries, num_states=num_states, num_actions=num_actions, absorbing=ends)
        return cls(
            successors=rows.successors,
            probs=rows.probs,
            rewards=rows.rewards,
            counts=rows.counts,
            reward_variances=rows.reward_variances,
            start=as_start(start, num_states),
            discount=checked_discount(discount),
            absorbing=ends,
            allowed=rows.probs.sum(axis=2) > 0,
            state_names=as_names("state_names", state_names, num_states),
            action_names=as_names("action_names", action_names, num_actions),
            never_left=never_left,
        )

    @property
    def num_states(self) -> int:
        """How many states, absorbing ones included."""
        return self.probs.shape[0]

    @property
    def num_actions(self) -> int:
        """How many actions."""
        return self.probs.shape[1]

    @property
    def ends(self) -> Bool[np.ndarray, " s"]:
        """The absorbing states that somebody named, or all if nobody did; who stops in others is censored."""
        named = self.absorbing if self.never_left is None else self.absorbing & ~self.never_left
        return named if named.any() else self.absorbing

    @property
    def width(self) -> int:
        """How many successors the widest row has."""
        return self.probs.shape[2]

    @cached_property
    def expected_rewards(self) -> Floats:
        """[state, action]: what a step earns on average; zero where an action is not allowed."""
        by_action = [
            (self.probs[:, action] * self.rewards[:, action]).sum(axis=1) for action in range(self.num_actions)
        ]
        return np.stack(by_action, axis=1)

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """The rows as a sparse matrix [state * num_actions + action, next state]."""
        flat, possible = self.probs.reshape(-1, self.width), self.possible
        starts = np.concatenate([[0], np.cumsum(possible.sum(axis=1))]).astype(np.int32)
        columns = self.successors.reshape(-1, self.width)[possible].astype(np.int32)
        return sparse.csr_array((flat[possible], columns, starts), shape=(len(flat), self.num_states))

    @property
    def possible(self) -> Bool[np.ndarray, "rows w"]:
        """Which slots lead somewhere, by [state * num_actions + action, slot]; the order is that of `matrix`."""
        return self.probs.reshape(-1, self.width) > 0

    def support(self, state: int, action: int) -> tuple[Ints, Floats]:
        """The states that a step can lead to, in ascending order, and their probabilities."""
        self._check_pair(state, action)
        size = int((self.probs[state, action] > 0).sum())
        return self.successors[state, action, :size], self.probs[state, action, :size]

    def row(self, state: int, action: int) -> Floats:
        """The probabilities of all next states."""
        successors, probs = self.support(state, action)
        dense = np.zeros(self.num_states)
        dense[successors] = probs
        return dense

    def name_of_state(self, state: int) -> str:
        """For messages: the index, and the name where there is one."""
        return named("state", state, self.state_names)

    def name_of_action(self, action: int) -> str:
        """For messages: the index, and the name where there is one."""
        return named("action", action, self.action_names)

    def __repr__(self) -> str:
        ends = int(self.absorbing.sum())
        return (
            f"FiniteMDP({self.num_states} states, {ends} of them absorbing; {self.num_actions} actions; "
            f"at most {self.width} successors; discount {self.discount:g})"
        )

    def _check_pair(self, state: int, action: int) -> None:
        as_index("state", state, self.num_states)
        as_index("action", action, self.num_actions)
        if not self.allowed[state, action]:
            raise InputError(
                f"{self.name_of_action(action)} is not allowed in {self.name_of_state(state)}: it has no transition row"
            )


def as_discount(mdp: FiniteMDP, discount: float | None) -> float:
    """The discount asked for, or the process's own: the one rule wherever rewards are summed."""
    return mdp.discount if discount is None else checked_discount(discount)


def check_process(mdp: Any) -> None:
    """What every later computation takes for granted, for those who call the constructor of `FiniteMDP` themselves."""
    if mdp.probs.ndim != 3 or mdp.probs.size == 0:
        raise InputError(f"`probs` must be [state, action, slot], got shape {mdp.probs.shape}")
    num_states, num_actions, _ = mdp.probs.shape
    shapes = {
        "successors": mdp.probs.shape,
        "rewards": mdp.probs.shape,
        "counts": mdp.probs.shape,
        "reward_variances": mdp.probs.shape,
        "start": (num_states,),
        "absorbing": (num_states,),
        "allowed": (num_states, num_actions),
        "never_left": (num_states,),
    }
    for name, shape in shapes.items():
        value = getattr(mdp, name)
        if value is not None and value.shape != shape:
            raise InputError(f"`{name}` must have shape {shape}, got {value.shape}")
    as_names("state_names", mdp.state_names, num_states)
    as_names("action_names", mdp.action_names, num_actions)
    checked_discount(mdp.discount)
    as_start(mdp.start, num_states)
    as_indices("successors", mdp.successors, num_states)
    check_rows(
        PaddedRows(mdp.successors, mdp.probs, mdp.rewards, mdp.counts, mdp.reward_variances),
        mdp.absorbing,
        mdp.allowed,
        lambda state, action: f"{mdp.name_of_state(state)}, {mdp.name_of_action(action)}",
    )
    if mdp.never_left is not None and (mdp.never_left & ~mdp.absorbing).any():
        state = int((mdp.never_left & ~mdp.absorbing).argmax())
        raise InputError(f"`never_left` must be among the absorbing states, but {mdp.name_of_state(state)} is not")
    stuck = ~mdp.allowed.any(axis=1)
    if stuck.any():
        raise InputError(
            f"{mdp.name_of_state(int(stuck.argmax()))} must allow an action or be absorbing, but has no transitions; "
            f"{int(stuck.sum())} state(s) in all"
        )
