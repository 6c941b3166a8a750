"""What is replayed: which steps of which episodes, with which choices, and what follows where the log says nothing."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from scipy import sparse

from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling
from countermax.mdp._arrays import MOST_REWARD, Floats, Ints, Values, as_finite
from countermax.mdp._log import EpisodeLog, follow_up, steps_compared
from countermax.mdp._planning import policy_matrix
from countermax.mdp._process import FiniteMDP
from countermax.mdp._replays._questions import Facts, exact_rows

_FAR = 1e3  # times the range of rewards: from there on they are moved to zero before they are squared
_ENOUGH = 4  # rewards beyond their means, from which on those into a state say how far they lie from them
_ROUNDING = 1e-10  # of rewards: what means of equal ones may be off by
_BY_EPISODE = ("first", "seen", "steps", "censored", "earned")


class VaryingRewards(NamedTuple):
    """How far rewards lie from their means, and the least and the largest one of every transition of a log.

    A reward of any transition into a state may be as far from its mean as one was that was seen there. Where too few
    were seen to say so, it may be as far as anywhere. A transition seen once says nothing: where none into a state was
    seen twice, all of them count as one.
    """

    cells: Ints
    """(state * num_actions + action) * num_states + next state of each transition, in ascending order."""
    seen: Bounds
    """The least and the largest reward of each."""
    room: Bounds
    """By next state: how far below and above the mean."""
    known: tuple[float, float]
    """Nothing is paid beyond what was ever seen."""

    @classmethod
    def of_log(cls, log: EpisodeLog) -> "VaryingRewards | None":
        """From all steps; None where rewards of one transition did not vary."""
        steps, size = log.steps(), log.num_states
        cells = (steps.state * log.num_actions + steps.action) * size + steps.next_state
        cells, where, times = np.unique(cells, return_inverse=True, return_counts=True)
        arrivals, into = np.bincount(steps.next_state, minlength=size), cells % size
        spare = np.bincount(into, times - 1, minlength=size)
        repeated = spare > 0
        group = np.where(repeated[into], np.arange(len(cells)), len(cells) + into)[where]
        number = np.bincount(group)
        off = steps.reward - (np.bincount(group, steps.reward) / np.maximum(number, 1))[group]
        off = np.where(np.abs(off) > _ROUNDING * np.abs(steps.reward), off, 0)
        off *= np.sqrt(number / np.maximum(number - 1, 1))[group]  # means are nearer to what they are made of
        limits = np.zeros((2, size))
        np.maximum.at(limits[0], steps.next_state, -off)
        np.maximum.at(limits[1], steps.next_state, off)
        widest = limits[:, repeated if repeated.any() else slice(None)].max(axis=1)
        few = np.where(repeated, spare, arrivals - 1) < _ENOUGH
        limits = np.where(few, np.maximum(limits, widest[:, None]), limits)
        if not limits.any():
            return None
        least, most = np.full(len(cells), np.inf), np.full(len(cells), -np.inf)
        np.minimum.at(least, where, steps.reward)
        np.maximum.at(most, where, steps.reward)
        known = float(steps.reward.min()), float(steps.reward.max())
        return cls(cells, Bounds(least, most), Bounds(*limits), known)

    def of(self, mdp: FiniteMDP) -> tuple[Floats, Floats]:
        """[state, action, slot]: the limits in a process, some of whose transitions the log may not have."""
        row = np.arange(mdp.num_states * mdp.num_actions).reshape(mdp.num_states, mdp.num_actions, 1)
        cells = row * mdp.num_states + mdp.successors
        place = np.minimum(np.searchsorted(self.cells, cells), len(self.cells) - 1)
        seen, live = self.cells[place] == cells, (mdp.probs > 0) & ~mdp.absorbing[:, None, None]
        found = []
        for sign, own, room in zip((-1, 1), self.seen, self.room, strict=True):
            outer = np.fmin if sign < 0 else np.fmax
            far = np.clip(mdp.rewards + sign * room[mdp.successors], *self.known)
            limits = outer(np.where(seen, own[place], far), outer(far, mdp.rewards))
            found.append(np.where(live, limits, mdp.rewards))
        return found[0], found[1]


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Setting:
    """What is asked of a log, whatever the process; checked by the cohort."""

    log: EpisodeLog
    policy: Floats
    outcomes: Values | None
    horizon: int
    discount: float
    censored: str
    behaviour: Floats | None
    """What the log was made with, where actions are coupled; None where they are drawn afresh."""
    usual: Floats
    """How episodes go on in the factual world where the log says nothing, [state, action]."""
    varying: "VaryingRewards | None"
    """Where rewards of one transition vary."""


class Choices(NamedTuple):
    """Probabilities of actions while episodes last, one table for each thing that may have been seen, and after."""

    tables: Float[np.ndarray, "k s a"]
    of_fact: Int[np.ndarray, " f"]
    """Which table holds at a step, by what was seen there."""
    after: Float[np.ndarray, "s a"]
    """What is done where the log says nothing."""
    doing: Float[np.ndarray, " f"] | None = None
    """How likely the logged action was; then tables hold the policy, and actions have any coupling with what was done.

    None where the tables are all that there is to know.
    """
    steady: Bool[np.ndarray, " f"] | None = None
    """Where both policies are the same in the logged state, so that there the same is done; beside `doing`."""


def fresh(policy: Floats, facts: Facts) -> Choices:
    """The policy, whatever was done."""
    return Choices(policy[None], np.zeros(len(facts.state), np.int64), policy)


def as_logged(mdp: FiniteMDP, facts: Facts, otherwise: Floats) -> Choices:
    """What was logged, whatever the state; `otherwise` where that is not known, and after an episode's end."""
    check_memory(
        f"choices of {mdp.num_actions} actions in {mdp.num_states} states",
        16 * mdp.num_actions**2 * mdp.num_states,
        "merge actions",
    )
    every = np.eye(mdp.num_actions)[:, None]  # [logged action, any state, action]
    tables = np.where(mdp.allowed.T[:, :, None], every, otherwise)
    return Choices(tables, facts.action, otherwise)


def coupled(coupling: AbstractCoupling, facts: Facts, policy: Floats, behaviour: Floats) -> Choices:
    """The policy's actions as outcomes of the coupling, given what was done by the behaviour policy."""
    num_states, num_actions = policy.shape
    if coupling.num_outcomes not in (None, num_actions):
        raise InputError(
            f"`coupling` must be for as many outcomes as there are actions, {num_actions}, for them to be coupled, but "
            f'is for {coupling.num_outcomes}; use `actions="fresh"`'
        )
    done, of_fact = np.unique(facts.state * num_actions + facts.action, return_inverse=True)
    check_memory(
        f"coupled choices of {num_actions} actions in {num_states} states after {len(done)} logged ones",
        48 * len(done) * num_states * num_actions,
        'use `actions="fresh"`, or fewer episodes at once',
    )
    distinct, place = np.unique(policy, axis=0, return_inverse=True)
    state, action = np.divmod(done, num_actions)
    number = np.repeat(np.arange(len(done)), len(distinct))
    rows = exact_rows(coupling, behaviour[state[number]], np.tile(distinct, (len(done), 1)), action[number])
    tables = rows.reshape(len(done), len(distinct), num_actions)[:, place.ravel()]
    steady = np.flatnonzero((policy[state] == behaviour[state]).all(axis=1))
    tables[steady, state[steady]] = np.arange(num_actions) == action[steady, None]
    return Choices(tables, of_fact, policy)


def any_coupled(facts: Facts, policy: Floats, behaviour: Floats) -> Choices:
    """For bounds: the policy's actions, coupled with what was done in whatever way."""
    steady = (policy == behaviour).all(axis=1)[facts.state]
    return fresh(policy, facts)._replace(doing=behaviour[facts.state, facts.action], steady=steady)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Course:
    """Episodes of a log as chains of the other world."""

    mdp: FiniteMDP
    facts: Facts
    choices: Choices
    horizon: int
    discount: float
    first: Int[np.ndarray, " n"]
    """Where each episode starts, in both worlds."""
    seen: Int[np.ndarray, " n"]
    """How many of its steps were logged and are replayed."""
    steps: Int[np.ndarray, " n"]
    """How many steps are compared: as many or, on plain rows of the process, more."""
    censored: Bool[np.ndarray, " n"]
    """Which episodes stop before the horizon without having come to an end."""
    earned: Float[np.ndarray, "n t"]
    """What each logged step earned."""
    gains: Float[np.ndarray, "s a w"]
    """What other steps earn on average."""
    spreads: Float[np.ndarray, "s a w"] | None
    """How much that varies."""

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def follow_up(self) -> Float[np.ndarray, " c"]:
        """How likely somebody is followed for no step, for one, ..., and for all of the horizon."""
        return follow_up(self.seen, self.steps < self.horizon, self.horizon)

    @cached_property
    def chain(self) -> sparse.csr_array:
        """Where the log says nothing."""
        return policy_matrix(self.mdp, self.choices.after)

    @cached_property
    def slot_gains(self) -> Floats:
        """What steps earn on average, for the entries of the process's `matrix`."""
        return self.mdp.slot_rewards if self.gains is self.mdp.rewards else self.gains[self.mdp.probs > 0]

    @cached_property
    def reachable(self) -> Bool[np.ndarray, " s"]:
        """Where some chain can be at all."""
        return self.within(self.mdp.num_states)

    def within(self, steps: int) -> Bool[np.ndarray, " s"]:
        """Where some chain can be after at most so many steps."""
        used = (self.choices.tables > 0).any(axis=0) | (self.choices.after > 0)
        found = np.zeros(self.mdp.num_states, bool)
        found[self.first] = True
        for _ in range(steps):
            rows = (used & found[:, None]).ravel().astype(np.float64)
            more = found | (rows @ self.mdp.matrix > 0)
            if (more == found).all():
                break
            found = more
        return found

    def part(self, episodes: Ints) -> dict[str, NDArray]:
        """What there is to know of some episodes, by position."""
        return {name: getattr(self, name)[episodes] for name in _BY_EPISODE} | {"of_step": self.facts.of_step[episodes]}

    def of_part(self, part: dict[str, NDArray]) -> "Course":
        """The same for these episodes; what was ever seen, and where chains can be, stays that of the whole log."""
        own: dict[str, Any] = {name: part[name] for name in _BY_EPISODE}
        found = replace(self, facts=self.facts._replace(of_step=part["of_step"]), **own)
        vars(found).update(chain=self.chain, reachable=self.reachable)  # as if computed
        return found

    def to_come(self, last: Floats | None = None) -> tuple[Floats, Ints]:
        """What is still to come when the log ends: [row, state], and which row each episode has."""
        rest = self.steps - self.seen
        now = self._rewards_after()
        if last is None or last.ndim == 1:
            numbers, rows = np.unique(rest, return_inverse=True)
            worth = np.broadcast_to(0.0 if last is None else last, (len(numbers), self.mdp.num_states)).copy()
        else:
            numbers, rows, worth = rest, np.arange(len(rest)), last.copy()
        by_state = np.ascontiguousarray(worth.T)  # [state, row], so that the chain need not be turned
        for step in range(int(numbers.max(initial=0))):
            left = numbers > step
            before = by_state[:, left]
            after = now[:, None] + self.discount * (self.chain @ before)
            by_state[:, left] = after
            if (after == before).all():  # and so it stays
                break
        return np.ascontiguousarray(by_state.T), rows

    def squares_to_come(self) -> tuple[Floats, Floats, Ints]:
        """First and second moment of what is still to come when the log ends."""
        numbers, rows = np.unique(self.steps - self.seen, return_inverse=True)
        mdp, (state, action) = self.mdp, np.nonzero(self.choices.after)
        squares = self.gains[state, action] ** 2
        if self.spreads is not None:
            squares += self.spreads[state, action]
        weights = self.choices.after[state, action, None] * mdp.probs[state, action]
        now = self._rewards_after()
        its_square = np.bincount(state, (weights * squares).sum(axis=1), minlength=mdp.num_states)
        weights *= self.gains[state, action]
        row, slot = np.nonzero(weights)
        entries = weights[row, slot], (state[row], mdp.successors[state[row], action[row], slot])
        earning = sparse.csr_array(entries, shape=(mdp.num_states, mdp.num_states))
        first, second = np.zeros((2, mdp.num_states, len(numbers)))
        for step in range(int(numbers.max(initial=0))):
            left = numbers > step
            one, two = first[:, left], second[:, left]
            later, later_square = self.discount * (self.chain @ one), self.discount**2 * (self.chain @ two)
            first[:, left] = now[:, None] + later
            second[:, left] = its_square[:, None] + 2 * self.discount * (earning @ one) + later_square
            if (first[:, left] == one).all() and (second[:, left] == two).all():
                break
        return np.ascontiguousarray(first.T), np.ascontiguousarray(second.T), rows

    def _rewards_after(self) -> Floats:
        """[state]: what a step earns on average where the log says nothing."""
        state, action = np.nonzero(self.choices.after)
        worth = (self.mdp.probs[state, action] * self.gains[state, action]).sum(axis=1)
        weighted = self.choices.after[state, action] * worth
        return np.bincount(state, weighted, minlength=self.mdp.num_states).astype(np.float64)


def course_of(
    mdp: FiniteMDP, setting: Setting, facts: Facts, choices: Choices, rewards: Values | None = None
) -> Course:
    """The episodes with these choices."""
    log, horizon = setting.log, setting.horizon
    known = steps_compared(log, mdp.ends, horizon)
    gains, spreads, earned = mdp.rewards, mdp.reward_variances, log.rewards
    if rewards is not None:
        gains, spreads = as_shape("rewards", rewards, mdp.rewards.shape), None
        seen = np.maximum(facts.of_step, 0)
        earned = np.where(log.mask, gains[facts.state[seen], facts.action[seen], facts.next_slot[seen]], 0)
    return Course(
        mdp=mdp,
        facts=facts,
        choices=choices,
        horizon=horizon,
        discount=setting.discount,
        first=log.states[:, 0],
        seen=np.minimum(log.lengths, horizon),
        steps=np.full(len(log), horizon) if setting.censored == "model" else known,
        censored=known < horizon,
        earned=earned,
        gains=gains,
        spreads=spreads,
    )


def centred(course: Course) -> tuple[Course, Floats]:
    """The same with rewards about zero, where all of them lie far from it, and what that takes from each return.

    Squares of large numbers swallow how little they differ. One number less at every step is the same sum less for
    every chain of an episode, if none ends before its last step. If some do, how many steps they earn for varies too,
    and by more than is swallowed.
    """
    mdp, nothing = course.mdp, np.zeros(len(course))
    if (course.within(int(course.steps.max()) - 1) & mdp.absorbing).any():
        return course, nothing
    counted = (mdp.probs > 0) & ~mdp.absorbing[:, None, None]
    logged = np.arange(course.earned.shape[1]) < course.seen[:, None]
    rewards = np.concatenate([course.gains[counted], course.earned[logged]])
    middle = float(rewards.min() / 2 + rewards.max() / 2)
    if abs(middle) <= _FAR * float(np.ptp(rewards)):
        return course, nothing
    moved = replace(mdp, rewards=np.where(counted, course.gains - middle, 0))
    sums = np.concatenate([[0], np.cumsum(course.discount ** np.arange(course.horizon))])
    found = replace(course, mdp=moved, gains=moved.rewards, earned=course.earned - middle)
    return found, middle * sums[course.steps]


def as_shape(name: str, values: Values, *shapes: tuple[int, ...]) -> Floats:
    """Numbers in the first of the shapes, from any of them or from one number."""
    array = as_finite(name, values)
    if not (np.abs(array) <= MOST_REWARD).all():
        raise InputError(f"`{name}` must lie within {MOST_REWARD:g}, got {np.abs(array).max():g}")
    if array.shape not in ((), *shapes):
        raise InputError(f"`{name}` must be a number or have shape {' or '.join(map(str, shapes))}, got {array.shape}")
    return array if array.shape in shapes else np.broadcast_to(array, shapes[0])
