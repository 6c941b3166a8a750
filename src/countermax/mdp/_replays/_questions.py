"""Counterfactual questions between any two rows of a process, put to a coupling in bulk, and their answers kept.

A question is (s, a, s', c, b): in state s, action a led to s'; where would action b have led from state c? The first
three are what a log says about the process; the answer is one row of a coupling over the outcomes that either row can
reach, which are few, whatever the number of states.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from countermax._core.errors import InputError
from countermax._core.labels import Labels
from countermax._core.memory import check_memory
from countermax._core.quantities import shown
from countermax.couplings import AbstractCoupling, AbstractSampler, Independent
from countermax.couplings._named import as_coupling
from countermax.mdp._arrays import Floats, Ints, Values, as_indices, plainly
from countermax.mdp._estimation import as_policy, visits
from countermax.mdp._log import EpisodeLog
from countermax.mdp._process import FiniteMDP

if TYPE_CHECKING:
    from countermax.learning import ObservedPairs


class Facts(NamedTuple):
    """The distinct observed transitions of a log, and which of them each step is."""

    state: Ints
    action: Ints
    next_slot: Ints
    """The slot of the observed successor in its row."""
    of_step: Int[np.ndarray, "n t"]
    """The number of the transition at each step; -1 after an episode's end."""


def facts_of(mdp: FiniteMDP, log: EpisodeLog) -> Facts:
    """The log in terms of the process; a step that the process calls impossible is named."""
    steps = log.steps()
    cells = (steps.state * mdp.num_actions + steps.action) * mdp.num_states + steps.next_state
    distinct, first, which = np.unique(cells, return_index=True, return_inverse=True)
    rows, successor = np.divmod(distinct, mdp.num_states)
    state, action = np.divmod(rows, mdp.num_actions)
    here = (mdp.successors[state, action] == successor[:, None]) & (mdp.probs[state, action] > 0)
    impossible = ~here.any(axis=1)
    if impossible.any():
        at = int(first[impossible].min())
        episode = plainly(log.name_of(int(steps.episode[at])))
        raise InputError(
            f"`log` must be possible under the process, but episode {episode}, step "
            f"{steps.step[at]}, goes from {mdp.name_of_state(int(steps.state[at]))} by "
            f"{mdp.name_of_action(int(steps.action[at]))} to {mdp.name_of_state(int(steps.next_state[at]))}, which has "
            f"probability zero; {int(impossible[which].sum())} step(s) in all"
        )
    of_step = np.full(log.actions.shape, -1)
    of_step[steps.episode, steps.step] = which
    return Facts(state, action, here.argmax(axis=1), of_step)


_CHUNKS = (256, 4_096, 16_384)  # questions for one call: few shapes, each compiled once
_ROUND = 8  # numbers of outcomes are rounded up to a multiple of this, so that few shapes are compiled
_NOBODY = np.iinfo(np.int64).max


class Questions(NamedTuple):
    """What was seen, and what is asked; vectors of one length."""

    state: Ints
    action: Ints
    next_slot: Ints
    """The slot of the row (state, action) that the observed successor has."""
    other_state: Ints
    other_action: Ints


def questions(facts: Facts, fact: Ints, other_state: Ints, other_action: Ints) -> Questions:
    """What would have been, given each of these facts."""
    return Questions(facts.state[fact], facts.action[fact], facts.next_slot[fact], other_state, other_action)


def exact_rows(coupling: AbstractCoupling, p: Floats, q: Floats, x: Ints) -> Floats:
    """The answers of a coupling to plain questions, one for each row of probabilities."""
    coupling.check_size(p.shape[1])
    answers = np.empty(q.shape)
    with jax.enable_x64(True), np.errstate(divide="ignore"):
        for part in _parts(len(q)):
            count = part.stop - part.start
            filler = np.zeros(next(size for size in _CHUNKS if count <= size) - count, np.int64)
            chosen = np.concatenate([np.arange(part.start, part.stop), filler])
            found = _exact(coupling, np.log(p[chosen]), np.log(q[chosen]), x[chosen])
            answers[part] = np.asarray(found)[:count]
    return answers / answers.sum(axis=1, keepdims=True)


@final
@dataclass(frozen=True, eq=False)
class TransitionCoupling:
    """One coupling, applied to the transition rows of one process; make one with `of` or `exact`."""

    mdp: FiniteMDP
    coupling: AbstractSampler
    labels: Int[np.ndarray, " s"]
    """What a state is called as an outcome: outcomes of two rows are the same if their labels are."""
    num_labels: int

    @classmethod
    def of(
        cls, mdp: FiniteMDP, coupling: str | Path | AbstractSampler, outcomes: Values | None = None, exact: bool = False
    ) -> "TransitionCoupling":
        """Checks that the coupling, or that of this name or file, fits the process.

        One that is made for a number of outcomes is asked over all of them, others over those that the two rows at hand
        can reach. `outcomes` has the label of each state as an outcome; by default its own index. One that can only be
        drawn from is refused where answers must be `exact`.
        """
        if isinstance(coupling, str | Path):
            coupling = as_coupling(coupling, outcome_labels(mdp, outcomes))
        if not isinstance(coupling, AbstractSampler):
            hint = "; make an instance of it" if isinstance(coupling, type) else ""
            raise InputError(f"`coupling` must be a coupling, got {shown(coupling)}{hint}")
        if exact and not isinstance(coupling, AbstractCoupling):
            name = type(coupling).__name__
            raise InputError(f"`coupling` must have an exact law, but {name} can only draw; use `Cohort.sample`")
        labels = _as_labels(mdp, outcomes)
        num_labels = int(labels.max()) + 1
        if coupling.num_outcomes not in (None, num_labels):
            raise InputError(
                f"`coupling` must be for as many outcomes as there are, {num_labels}, but this "
                f"{type(coupling).__name__} is for {coupling.num_outcomes}"
            )
        return cls(mdp, coupling, labels, num_labels)

    @property
    def answering(self) -> AbstractCoupling:
        """The coupling, where it has exact answers."""
        assert isinstance(self.coupling, AbstractCoupling)  # `of` has seen to it
        return self.coupling

    def answers(self, questions: Questions) -> Float[np.ndarray, "n w"]:
        """The exact answers: probabilities of the slots of the rows (other_state, other_action)."""
        answers = np.zeros((len(questions.state), self.mdp.width))
        with jax.enable_x64(True):
            for part, _, (log_p, log_q, x, places) in self._asked(questions):
                found = np.asarray(_exact(self.answering, log_p, log_q, x))[: len(places)]
                answers[part] = np.take_along_axis(found, places, axis=1)
        answers *= self.mdp.probs[questions.other_state, questions.other_action] > 0
        totals = answers.sum(axis=1, keepdims=True)
        self._check(questions, (answers >= 0).all(axis=1) & (totals[:, 0] > 0) & (totals[:, 0] < np.inf))
        return answers / totals

    def draws(self, questions: Questions, *, key: PRNGKeyArray) -> Ints:
        """One drawn answer for each question: a slot of the row (other_state, other_action)."""
        slots = np.zeros(len(questions.state), np.int64)
        with jax.enable_x64(True):
            for part, asked, (log_p, log_q, x, places) in self._asked(questions):
                keys = jax.random.split(jax.random.fold_in(key, part.start), len(log_p))
                found = np.asarray(_drawn(self.coupling, log_p, log_q, x, keys))[: len(places)]
                drawn = (places == found[:, None]) & (self.mdp.probs[asked.other_state, asked.other_action] > 0)
                self._check(asked, drawn.any(axis=1))
                slots[part] = drawn.argmax(axis=1)
        return slots

    def _asked(self, questions: Questions) -> Iterator[tuple[slice, Questions, tuple[Floats, Floats, Ints, Ints]]]:
        """Questions that are asked at once, and their logits."""
        for part in _parts(len(questions.state)):
            some = Questions(*(each[part] for each in questions))
            logits = self.logits(some)
            self.coupling.check_size(logits[0].shape[1])
            yield part, some, logits

    def logits(self, asked: Questions) -> tuple[Floats, Floats, Ints, Ints]:
        """Logits of both worlds, what was seen, and where the slots of the other world's row are among the outcomes."""
        count = next(size for size in _CHUNKS if len(asked.state) <= size)
        first, second = (asked.state, asked.action), (asked.other_state, asked.other_action)
        places_p, places_q, size = self._places(first, second)
        log_p, log_q = (np.full((count, size + 1), -np.inf) for _ in range(2))
        with np.errstate(divide="ignore"):
            for logits, places, row in ((log_p, places_p, first), (log_q, places_q, second)):
                np.put_along_axis(logits[: len(places)], places, np.log(self.mdp.probs[row]), axis=1)
        x = np.zeros(count, np.int64)
        x[: len(places_p)] = np.take_along_axis(places_p, asked.next_slot[:, None], axis=1)[:, 0]
        log_p[len(places_p) :, 0] = log_q[len(places_p) :, 0] = 0  # filler: one certain outcome
        return log_p[:, :size], log_q[:, :size], x, np.minimum(places_q, size - 1)

    def _check(self, questions: Questions, answered: Bool[np.ndarray, " n"]) -> None:
        """Refuses a coupling that has no answer, or an impossible one; an argmax would make one up."""
        if not answered.all():
            at = int((~answered).argmax())
            state, action, _, other_state, other_action = (int(each[at]) for each in questions)
            mdp = self.mdp
            raise InputError(
                f"`coupling` must answer with outcomes that are possible, but {type(self.coupling).__name__} does not: "
                f"after {mdp.name_of_action(action)} in {mdp.name_of_state(state)}, for "
                f"{mdp.name_of_action(other_action)} in {mdp.name_of_state(other_state)}; "
                f"{int((~answered).sum())} such question(s)"
            )

    def _places(self, first: tuple[Ints, Ints], second: tuple[Ints, Ints]) -> tuple[Ints, Ints, int]:
        """Where each slot is among the outcomes, in the order of their labels; padding is one place behind them all."""
        named = [
            np.where(self.mdp.probs[row] > 0, self.labels[self.mdp.successors[row]], _NOBODY) for row in (first, second)
        ]
        if self.coupling.num_outcomes is not None:
            places = [np.minimum(each, self.num_labels) for each in named]
            return places[0], places[1], self.num_labels
        both = np.concatenate(named, axis=1)
        order = np.argsort(both, axis=1, kind="stable")
        ordered = np.take_along_axis(both, order, axis=1)
        fresh = np.ones_like(ordered)
        fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        ranks = fresh.cumsum(axis=1) - 1
        everywhere = np.empty_like(ranks)
        np.put_along_axis(everywhere, order, ranks, axis=1)
        most = int((fresh * (ordered < _NOBODY)).sum(axis=1).max(initial=1))
        size = -(-most // _ROUND) * _ROUND
        everywhere[both == _NOBODY] = size
        return everywhere[:, : self.mdp.width], everywhere[:, self.mdp.width :], size


def _parts(count: int) -> Iterator[slice]:
    for start in range(0, count, _CHUNKS[-1]):
        yield slice(start, min(start + _CHUNKS[-1], count))


def outcome_labels(mdp: FiniteMDP, outcomes: Values | None) -> Labels | int:
    """What couplings by name call outcomes: as states are called, else by index."""
    if outcomes is None and mdp.state_names is not None:
        return Labels(mdp.state_names)
    return int(_as_labels(mdp, outcomes).max()) + 1


def _as_labels(mdp: FiniteMDP, outcomes: Values | None) -> Ints:
    if outcomes is None:
        return np.arange(mdp.num_states)
    labels = as_indices("outcomes", outcomes, _NOBODY)
    if labels.shape != (mdp.num_states,):
        raise InputError(f"`outcomes` must have one label for each of {mdp.num_states} states, got {labels.shape}")
    named = np.sort(np.where(mdp.probs > 0, labels[mdp.successors], -1 - np.arange(mdp.width)), axis=2)
    twice = (np.diff(named, axis=2) == 0).any(axis=2)
    if twice.any():
        state, action = divmod(int(twice.argmax()), mdp.num_actions)
        raise InputError(
            f"`outcomes` must distinguish the successors of a row, but two of {mdp.name_of_state(state)}, "
            f"{mdp.name_of_action(action)} share a label"
        )
    return labels


@eqx.filter_jit
def _exact(coupling: AbstractCoupling, log_p: ArrayLike, log_q: ArrayLike, x: ArrayLike) -> Array:
    return jax.vmap(coupling._counterfactual_probs)(jnp.asarray(log_p), jnp.asarray(log_q), jnp.asarray(x))


@eqx.filter_jit
def _drawn(coupling: AbstractSampler, log_p: ArrayLike, log_q: ArrayLike, x: ArrayLike, keys: Array) -> Array:
    def one(log_p: Array, log_q: Array, x: Array, key: PRNGKeyArray) -> Array:
        return coupling._counterfactual(log_p, log_q, x, key=key)

    return jax.vmap(one)(jnp.asarray(log_p), jnp.asarray(log_q), jnp.asarray(x), keys)


class AnswerCache:
    """Remembers the answer to every question that was asked about a log."""

    def __init__(self, coupling: TransitionCoupling, facts: Facts):
        self._coupling, self._facts = coupling, facts
        self._keys, self._answers = np.zeros(0, np.int64), np.zeros((0, coupling.mdp.width))

    def rows(self, fact: Ints, state: Ints, action: Ints) -> Float[np.ndarray, "n w"]:
        """The chances of all slots, from these states under these actions, given what was seen."""
        mdp = self._coupling.mdp
        keys = (fact * mdp.num_states + state) * mdp.num_actions + action
        new = np.unique(keys[np.append(self._keys, -1)[np.searchsorted(self._keys, keys)] != keys])
        if len(new):
            fact, world = np.divmod(new, mdp.num_states * mdp.num_actions)
            answers = self._coupling.answers(questions(self._facts, fact, *np.divmod(world, mdp.num_actions)))
            everything = np.concatenate([self._keys, new])
            order = np.argsort(everything)
            self._keys, self._answers = everything[order], np.concatenate([self._answers, answers])[order]
        return self._answers[np.searchsorted(self._keys, keys)]


def logged_pairs(mdp: FiniteMDP, log: EpisodeLog, policy: Values, *, outcomes: Values | None = None) -> "ObservedPairs":
    """Rows of what was done beside rows of what the policy would have done there, weighted by how often it came up.

    Train a gadget with `fit(gadget, logged_pairs(...), loss, key=...)` and replay with the same `outcomes`. Steps at
    which the policy agrees with the log are left out: there is nothing to learn from them. The process must know the
    logged actions, and the gadget needs as many outcomes as there are labels.
    """
    from countermax.learning import ObservedPairs  # a second, which questions about episodes do not take

    probs = as_policy(mdp, policy)
    labelled = TransitionCoupling.of(mdp, Independent(), outcomes)  # any will do: only its labels are asked for
    check_memory(
        f"{mdp.num_states} states with {mdp.num_actions} actions for each of {mdp.num_actions}",
        16 * mdp.num_states * mdp.num_actions**2,
        "describe states and actions more coarsely",
    )
    seen = visits(log) * mdp.allowed * ~mdp.absorbing[:, None]
    weights = seen[:, :, None] * probs[:, None, :] * ~np.eye(mdp.num_actions, dtype=bool)
    state, action, other = np.nonzero(weights)
    if len(state) == 0:
        raise InputError("`policy` must differ from what was done somewhere in the log; it never does")
    check_memory(
        f"{len(state)} pairs of {labelled.num_labels} outcomes",
        32 * len(state) * labelled.num_labels,
        "give states that are one outcome one label in `outcomes`",
    )
    logits = np.full((2, len(state), labelled.num_labels), -np.inf)
    for rows, chosen in zip(logits, (action, other), strict=True):
        row, slot = np.nonzero(mdp.probs[state, chosen])
        successor = mdp.successors[state[row], chosen[row], slot]
        rows[row, labelled.labels[successor]] = np.log(mdp.probs[state[row], chosen[row], slot])
    return ObservedPairs(logits[0].astype(np.float32), logits[1].astype(np.float32), weights[state, action, other])
