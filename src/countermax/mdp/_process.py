"""Finite Markov decision processes as checked, immutable values.

Transition rows are kept as supports, padded to the widest one: most rows of a clinical model can reach a handful of
states out of hundreds, and everything downstream costs what the supports cost.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from scipy import sparse

from countermax._core.errors import InputError
from countermax._core.quantities import as_count
from countermax.mdp import _arrays as arrays
from countermax.mdp._arrays import MOST_REWARD, SUM_TOLERANCE, Floats, Ints, Values
from countermax.mdp._labels import Names, as_names, named

MODEL_GIVEN = "The model is taken as given: intervals leave out how well it was estimated."
"""What is assumed where there are no posterior draws."""

_FIELDS: dict[str, tuple[Callable[[str, Values], NDArray], str]] = {  # how each is read, and its axes
    "probs": (arrays.as_floats, "saw"),
    "successors": (arrays.as_integers, "saw"),
    "rewards": (arrays.as_floats, "saw"),
    "start": (arrays.as_floats, "s"),
    "absorbing": (arrays.as_booleans, "s"),
    "allowed": (arrays.as_booleans, "sa"),
    "counts": (lambda _, values: arrays.as_counts(values), "saw"),
    "reward_variances": (arrays.as_floats, "saw"),
    "never_left": (arrays.as_booleans, "s"),
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
        for name, (check, _) in _FIELDS.items():
            value = getattr(self, name)
            if value is not None or name not in _OPTIONAL:
                object.__setattr__(self, name, arrays.frozen(check(name, value)))
        _check_process(self)

    @classmethod
    def from_dense(
        cls,
        transitions: Values,
        rewards: Values,
        *,
        start: Values,
        discount: float = 1.0,
        absorbing: Values | None = None,
        allowed: Bool[np.ndarray, "s a"] | None = None,
        state_names: Sequence[Hashable] | None = None,
        action_names: Sequence[Hashable] | None = None,
    ) -> "FiniteMDP":
        """Packs full arrays of transition probabilities, [state, action, next state]; otherwise as `from_transitions`.

        Rewards are by [state, action, next state], by [state, action], or by [next state] alone. Rows of absorbing
        states, and of actions that are not `allowed`, [state, action], are not looked at; by default all actions are.
        """
        entries, (num_states, num_actions) = _entries_of_dense(transitions, rewards, absorbing, allowed)
        return cls.from_transitions(
            entries,
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
        """
        sizes = {"num_states": num_states, "num_actions": num_actions}
        arrays.check_sizes(*(as_count(f"`{name}`", size) for name, size in sizes.items()))
        ends = arrays.as_mask("absorbing", absorbing, num_states)
        rows: dict[str, Any] = _pack(_entries(transitions, num_states, num_actions), num_states, num_actions, ends)
        return cls(
            **rows,
            start=arrays.as_start(start, num_states),
            discount=arrays.checked_discount(discount),
            absorbing=ends,
            allowed=rows["probs"].sum(axis=2) > 0,
            state_names=as_names("state_names", state_names, num_states),
            action_names=as_names("action_names", action_names, num_actions),
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
        return (self.probs * self.rewards).sum(axis=2)

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """The rows as a sparse matrix [state * num_actions + action, next state]."""
        flat, possible = self.probs.reshape(-1, self.width), self.possible
        starts = np.concatenate([[0], np.cumsum(possible.sum(axis=1))]).astype(np.int32)
        columns = self.successors.reshape(-1, self.width)[possible].astype(np.int32)
        return sparse.csr_array((flat[possible], columns, starts), shape=(len(flat), self.num_states))

    @cached_property
    def slot_rewards(self) -> Floats:
        """What the step earns, for the entries of `matrix`."""
        return self.rewards[self.probs > 0]

    @property
    def possible(self) -> Bool[np.ndarray, "rows w"]:
        """Which slots lead somewhere, by [state * num_actions + action, slot]; the order is that of `matrix`."""
        return self.probs.reshape(-1, self.width) > 0

    @cached_property
    def visits(self) -> Ints | None:
        """[state, action]: how often each was seen, where the rows are estimates."""
        return None if self.counts is None else self.counts.sum(axis=2)

    @property
    def untried(self) -> Bool[np.ndarray, "s a"]:
        """Which rows rest on no visit, though there are counts."""
        live = self.allowed & ~self.absorbing[:, None]
        return np.zeros_like(live) if self.visits is None else live & (self.visits == 0)

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
        arrays.as_index("state", state, self.num_states)
        arrays.as_index("action", action, self.num_actions)
        if not self.allowed[state, action]:
            pair = f"{self.name_of_action(action)} is not allowed in {self.name_of_state(state)}"
            raise InputError(f"{pair}: it has no transition row")


def as_discount(mdp: FiniteMDP, discount: float | None) -> float:
    """The discount asked for, or the process's own: the one rule wherever rewards are summed."""
    return mdp.discount if discount is None else arrays.checked_discount(discount)


def with_transitions(mdp: FiniteMDP, transitions: Mapping[str, Values | None]) -> FiniteMDP:
    """The same process but for its rows, which are given as in `from_transitions`."""
    rows: dict[str, Any] = _pack(
        _entries(transitions, mdp.num_states, mdp.num_actions), mdp.num_states, mdp.num_actions, mdp.absorbing
    )
    return replace(mdp, **rows, allowed=rows["probs"].sum(axis=2) > 0)


def _check_process(mdp: FiniteMDP) -> None:
    """What every later computation takes for granted, for those who call the constructor of `FiniteMDP` themselves."""
    if mdp.probs.ndim != 3 or mdp.probs.size == 0:
        raise InputError(f"`probs` must be [state, action, slot], got shape {mdp.probs.shape}")
    sizes = dict(zip("saw", mdp.probs.shape, strict=True))
    for name, (_, axes) in _FIELDS.items():
        value, shape = getattr(mdp, name), tuple(sizes[axis] for axis in axes)
        if value is not None and value.shape != shape:
            raise InputError(f"`{name}` must have shape {shape}, got {value.shape}")
    num_states, num_actions = mdp.num_states, mdp.num_actions
    as_names("state_names", mdp.state_names, num_states)
    as_names("action_names", mdp.action_names, num_actions)
    arrays.checked_discount(mdp.discount)
    arrays.as_start(mdp.start, num_states)
    arrays.as_indices("successors", mdp.successors, num_states)
    _check_rows(mdp)
    if mdp.never_left is not None and (mdp.never_left & ~mdp.absorbing).any():
        state = int((mdp.never_left & ~mdp.absorbing).argmax())
        raise InputError(f"`never_left` must be among the absorbing states, but {mdp.name_of_state(state)} is not")
    stuck = ~mdp.allowed.any(axis=1)
    if stuck.any():
        raise InputError(
            f"{mdp.name_of_state(int(stuck.argmax()))} must allow an action or be absorbing, but has no transitions; "
            f"{int(stuck.sum())} state(s) in all"
        )


def _check_rows(mdp: FiniteMDP) -> None:
    successors, probs, rewards, variances = mdp.successors, mdp.probs, mdp.rewards, mdp.reward_variances
    absorbing, allowed = mdp.absorbing, mdp.allowed

    def refuse(bad: NDArray[np.bool_], problem: str) -> None:
        if bad.any():
            state, action = divmod(int(bad.argmax()), probs.shape[1])
            raise InputError(f"{mdp.name_of_state(state)}, {mdp.name_of_action(action)}: {problem}")

    reachable = probs > 0
    at_home = np.where(absorbing[:, None], np.arange(len(probs))[:, None], successors[:, :, 0])
    unusable = ~(probs >= 0) | ~((rewards >= -MOST_REWARD) & (rewards <= MOST_REWARD))
    refuse(unusable.sum(axis=2) > 0, f"needs probabilities, and finite rewards within {MOST_REWARD:g}")
    if variances is not None:
        strange = ~((variances >= 0) & (variances <= MOST_REWARD**2))
        refuse(strange.sum(axis=2) > 0, "needs variances of rewards that are finite and not negative")
        refuse(absorbing[:, None] & (variances[:, :, 0] != 0), "an absorbing state must earn nothing")
    off = ~(np.abs(probs.sum(axis=2) - allowed) <= SUM_TOLERANCE)
    refuse(off, "probabilities must sum to one, or to zero where the action is not allowed")
    disorder = reachable[:, :, 1:] & ~(reachable[:, :, :-1] & (successors[:, :, 1:] > successors[:, :, :-1]))
    refuse(disorder.sum(axis=2) > 0, "reachable successors must come first, in ascending order")
    leaving = absorbing[:, None] & ((probs[:, :, 0] < 1) | (at_home != successors[:, :, 0]))
    refuse(leaving, "an absorbing state must lead to itself")
    refuse(absorbing[:, None] & (rewards[:, :, 0] != 0), "an absorbing state must earn nothing")


class TransitionList(NamedTuple):
    """One entry for each (state, action, successor): its probability, its reward, how often it was seen."""

    state: Ints
    action: Ints
    successor: Ints
    probs: Floats
    rewards: Floats
    counts: Ints | None
    reward_variances: Floats | None

    def take(self, entries: NDArray[np.bool_] | Ints) -> "TransitionList":
        """Some of the entries, or all of them in another order."""
        some: list[Any] = [None if each is None else each[entries] for each in self]
        return TransitionList(*some)


def _entries(columns: Mapping[str, Values | None], num_states: int, num_actions: int) -> TransitionList:
    """The entries in the order of (state, action, successor); what is wrong with one is named by these three."""
    wanted = {name: columns[name] for name in TransitionList._fields if name in columns}
    given = {name: values for name, values in wanted.items() if values is not None}
    missing = [name for name in TransitionList._fields[:5] if name not in given]
    if missing:
        raise InputError(f"`transitions` must have {', '.join(TransitionList._fields[:5])}, but lacks {missing}")
    entries = TransitionList(
        arrays.as_indices("state", given["state"], num_states),
        arrays.as_indices("action", given["action"], num_actions),
        arrays.as_indices("successor", given["successor"], num_states),
        arrays.as_floats("probs", given["probs"]),
        arrays.as_floats("rewards", given["rewards"]),
        arrays.as_counts(given["counts"]) if "counts" in given else None,
        arrays.as_floats("reward_variances", given["reward_variances"]) if "reward_variances" in given else None,
    )
    shapes = {each.shape for each in entries if each is not None}
    if len(shapes) > 1 or entries.state.ndim != 1:
        raise InputError(f"transitions must be vectors of one length, got shapes {sorted(shapes)}")
    cells = (entries.state * num_actions + entries.action) * num_states + entries.successor
    if not (cells[1:] > cells[:-1]).all():
        entries = entries.take(np.argsort(cells, kind="stable"))

    def refuse(bad: NDArray[np.bool_], rule: str, values: NDArray | None = None) -> None:
        if bad.any():
            at = int(bad.argmax())
            got = "" if values is None else f", got {values[at]:g}"
            where = f"state {entries.state[at]}, action {entries.action[at]}, next state {entries.successor[at]}"
            raise InputError(f"{where}: {rule}{got}")

    refuse(~((entries.probs >= 0) & (entries.probs < np.inf)), "`probs` must be finite and not negative", entries.probs)
    far = ~(np.abs(entries.rewards) <= MOST_REWARD)
    refuse(far, f"`rewards` must be finite, and lie within {MOST_REWARD:g}", entries.rewards)
    if entries.reward_variances is not None:
        spread = ~((entries.reward_variances >= 0) & (entries.reward_variances <= MOST_REWARD**2))
        refuse(spread, "`reward_variances` must be finite and not negative", entries.reward_variances)
    again = [each[1:] == each[:-1] for each in (entries.state, entries.action, entries.successor)]
    refuse(np.append(np.all(again, axis=0), False), "each transition must be given once, got two")
    return entries


def _entries_of_dense(
    transitions: Values, rewards: Values, absorbing: Values | None, allowed: NDArray[np.bool_] | None
) -> tuple[dict[str, NDArray], tuple[int, int]]:
    """The entries of full arrays that are not zero, still unchecked, and the numbers of states and actions."""
    array = arrays.as_floats("transitions", transitions)
    if array.ndim != 3 or array.shape[2] != array.shape[0] or array.size == 0:
        other = array.ndim == 3 and array.shape[2] == array.shape[1]
        hint = "; if actions come first, give `np.moveaxis(transitions, 0, 1)`" if other else ""
        raise InputError(f"`transitions` must be [state, action, next state], got shape {array.shape}{hint}")
    gains = arrays.as_floats("rewards", rewards)
    if gains.shape != {3: array.shape, 2: array.shape[:2], 1: array.shape[2:]}.get(gains.ndim):
        raise InputError(
            "`rewards` must be given for each transition, for each state and action, or for each next state, "
            f"got shape {gains.shape} beside transitions of shape {array.shape}"
        )
    there = np.ones(array.shape[:2], bool) if allowed is None else arrays.as_booleans("allowed", allowed)
    if there.shape != array.shape[:2]:
        raise InputError(f"`allowed` must be [state, action] of shape {array.shape[:2]}, got {there.shape}")
    empty = there & ~arrays.as_mask("absorbing", absorbing, len(array))[:, None] & ~array.any(axis=2)
    if empty.any():
        s, a = divmod(int(empty.argmax()), array.shape[1])
        raise InputError(
            f"probabilities must sum to one over next states, but state {s}, action {a} sums to 0; "
            "if the action cannot be taken there, say so with `allowed`"
        )
    entry = state, action, successor = np.nonzero(array * there[:, :, None])
    earned = gains[{3: entry, 2: (state, action), 1: (successor,)}[gains.ndim]]
    return dict(zip(TransitionList._fields, (*entry, array[entry], earned), strict=False)), array.shape[:2]


def _pack(
    transitions: TransitionList, num_states: int, num_actions: int, absorbing: NDArray[np.bool_]
) -> dict[str, NDArray | None]:
    """Rows that sum to one, padded to the widest; absorbing states keep to themselves and earn nothing."""
    leaving = absorbing[transitions.state]
    entries = transitions.take(~leaving) if leaving.any() else transitions
    row = entries.state * num_actions + entries.action
    sums = np.bincount(row, entries.probs, minlength=num_states * num_actions)
    given = np.bincount(row, minlength=num_states * num_actions) > 0
    bad = given & ~(np.abs(sums - 1) <= SUM_TOLERANCE)
    if bad.any():
        state, action = divmod(int(bad.argmax()), num_actions)
        raise InputError(
            f"probabilities must sum to one over next states, but state {state}, action {action} sums to "
            f"{sums[bad.argmax()]:.6g}; {int(bad.sum())} row(s) are wrong in all"
        )
    kept = entries.probs > 0
    sizes = np.bincount(row[kept], minlength=num_states * num_actions)
    width = max(1, int(sizes.max(initial=0)))
    arrays.check_sizes(num_states, num_actions, width)
    filled = np.arange(width) < sizes[:, None]

    def padded(values: NDArray, at_home: NDArray | int) -> NDArray:
        flat = np.zeros((num_states * num_actions, width), values.dtype)
        flat[filled] = values if kept.all() else values[kept]
        flat.reshape(num_states, num_actions, width)[absorbing, :, 0] = at_home
        flat.shape = (num_states, num_actions, width)  # in place, so that the array owns its memory
        flat.setflags(write=False)
        return flat

    return {
        "successors": padded(entries.successor, np.flatnonzero(absorbing)[:, None]),
        "probs": padded(entries.probs / sums[row], 1),
        "rewards": padded(entries.rewards, 0),
        "counts": None if entries.counts is None else padded(entries.counts, 0),
        "reward_variances": None if entries.reward_variances is None else padded(entries.reward_variances, 0),
    }
