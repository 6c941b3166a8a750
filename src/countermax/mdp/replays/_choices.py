"""How actions are chosen in the other world: by a policy, afresh or with the noise of what was done, or as logged."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax.couplings import AbstractCoupling
from countermax.mdp._arrays import Floats, Values, shortened
from countermax.mdp._estimation import as_policy, deterministic, estimate_policy, policy_rows
from countermax.mdp._log import EpisodeLog
from countermax.mdp._process import FiniteMDP
from countermax.mdp.replays._facts import Facts
from countermax.mdp.replays._questions import exact_rows

_DRAWN: dict[str, str] = {
    "fresh": "Where the policy leaves the action to chance, it is drawn afresh, whatever was done.",
    "coupled": "Where the policy leaves the action to chance, it is drawn with the noise that explains what was done.",
}


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
    tables = np.stack(
        [
            np.where(
                mdp.allowed[:, [action]],
                deterministic(np.full(mdp.num_states, action), mdp.num_actions),
                otherwise,
            )
            for action in range(mdp.num_actions)
        ]
    )
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
    return Choices(
        policy[None],
        np.zeros(len(facts.state), np.int64),
        policy,
        behaviour[facts.state, facts.action],
        steady,
    )


def choices_of(
    mdp: FiniteMDP,
    log: EpisodeLog,
    facts: Facts,
    policy: Values,
    actions: str,
    behaviour: Values | None,
    coupling: AbstractCoupling | None,
) -> Choices:
    """What was asked for, checked; without a coupling, for bounds."""
    probs = as_policy(mdp, policy)
    if actions not in _DRAWN:
        raise InputError(f'`actions` must be "fresh" or "coupled", got {shortened(actions)}')
    if actions == "fresh":
        return fresh(probs, facts)
    done = estimate_policy(log) if behaviour is None else policy_rows(mdp, behaviour, argument="behaviour")
    never = done[facts.state, facts.action] <= 0
    if never.any():
        at = int(never.argmax())
        raise InputError(
            "`behaviour` must give what was done a positive probability, but has none for "
            f"{mdp.name_of_action(int(facts.action[at]))} in {mdp.name_of_state(int(facts.state[at]))}"
        )
    return any_coupled(facts, probs, done) if coupling is None else coupled(coupling, facts, probs, done)


def told(mdp: FiniteMDP, actions: str, policy: Floats) -> str:
    """What is said about actions that are left to chance; nothing where none is before an episode's end."""
    policy = policy[~mdp.absorbing]
    return _DRAWN[actions] if ((policy > 0) & (policy < 1)).any() else ""
