"""Policies: arrays [state, action] whose rows are distributions. Checked in one place, made in a few."""

import numpy as np
from jaxtyping import Bool

from countermax._core.errors import InputError
from countermax.mdp._arrays import (
    SUM_TOLERANCE,
    Floats,
    Values,
    as_booleans,
    as_finite,
    as_floats,
    as_indices,
    as_number,
    as_whole,
    check_sizes,
)
from countermax.mdp._labels import named
from countermax.mdp._process import FiniteMDP
from countermax.mdp.log import EpisodeLog


def policy_rows(world: FiniteMDP | EpisodeLog, policy: Values, *, argument: str = "policy") -> Floats:
    """Distributions over the actions, one for each state; what is wrong is named by state and action.

    Args:
        world: The process, or a log of it: which states and actions there are.
        policy: [state, action].
        argument: Name of the argument in error messages.
    """
    probs = as_floats(argument, policy)
    shape = (world.num_states, world.num_actions)
    if probs.shape != shape:
        raise InputError(f"`{argument}` must be [state, action] of shape {shape}, got {probs.shape}")
    bad = ~((probs >= 0) & (probs < np.inf))
    if bad.any():
        state, action = divmod(int(bad.argmax()), world.num_actions)
        raise InputError(
            f"`{argument}` must be finite and not negative, got {probs[state, action]:g} in "
            f"{named('state', state, world.state_names)}, {named('action', action, world.action_names)}"
        )
    with np.errstate(over="ignore"):  # told below, in words
        sums = probs.sum(axis=1)
    off = ~(np.abs(sums - 1) <= SUM_TOLERANCE)
    if off.any():
        state = int(off.argmax())
        raise InputError(
            f"`{argument}` must sum to one in each state, got {sums[state]:.6g} in "
            f"{named('state', state, world.state_names)}; {int(off.sum())} such state(s) in all"
        )
    return probs / sums[:, None]


def as_policy(mdp: FiniteMDP, policy: Values) -> Floats:
    """A policy that keeps to the actions that the process allows."""
    probs = policy_rows(mdp, policy)
    unknown = (probs > 0) & ~mdp.allowed
    if unknown.any():
        state, action = divmod(int(unknown.argmax()), mdp.num_actions)
        raise InputError(
            f"`policy` must keep to allowed actions, but takes {mdp.name_of_action(action)} in "
            f"{mdp.name_of_state(state)}, which has no transition row; {int(unknown.sum())} such pair(s) in all"
        )
    return probs


def restricted(mdp: FiniteMDP, policy: Values) -> tuple[Floats, Floats]:
    """The policy among the actions that the process knows, and how much of it was left out in each state.

    Where a policy wants nothing that is known, it does what was done most often.
    """
    kept = policy_rows(mdp, policy) * mdp.allowed
    totals = kept.sum(axis=1, keepdims=True)
    usual = deterministic(usual_policy(mdp).argmax(axis=1), mdp.num_actions)
    return np.where(totals > 0, kept / np.where(totals > 0, totals, 1), usual), 1 - totals[:, 0]


def usual_policy(mdp: FiniteMDP) -> Floats:
    """How often each action was taken, if the process was estimated; all allowed ones alike where there is no count."""
    counts = np.zeros(mdp.allowed.shape) if mdp.counts is None else mdp.counts.sum(axis=2).astype(np.float64)
    counts *= mdp.allowed
    counts[counts.sum(axis=1) == 0] = mdp.allowed[counts.sum(axis=1) == 0]
    return counts / counts.sum(axis=1, keepdims=True)


def deterministic(actions: Values, num_actions: int) -> Floats:
    """The policy that takes these actions, one for each state, for certain."""
    chosen = as_indices("actions", actions, as_whole("num_actions", num_actions, least=1))
    if chosen.ndim != 1:
        raise InputError(f"`actions` must have one action for each state, got shape {chosen.shape}")
    check_sizes(len(chosen), num_actions)
    policy = np.zeros((len(chosen), num_actions))
    policy[np.arange(len(chosen)), chosen] = 1
    return policy


def softened(policy: Values, best: float, *, allowed: Bool[np.ndarray, "s a"] | None = None) -> Floats:
    """A policy that takes the most likely action of each state with probability `best`, and else any other one.

    Args:
        policy: [state, action]; on ties the lowest action is the most likely.
        best: The most likely action's new probability.
        allowed: [state, action]: whether the action can be taken there; by default all of them can. Where there is no
            other, `best` is one.
    """
    probs = as_finite("policy", policy)
    if probs.ndim != 2 or probs.size == 0:
        raise InputError(f"`policy` must be [state, action], got shape {probs.shape}")
    best = as_number("best", best, 0, 1)
    can = np.ones(probs.shape, bool) if allowed is None else as_booleans("allowed", allowed)
    if can.shape != probs.shape:
        raise InputError(f"`allowed` must have the shape of `policy`, {probs.shape}, got {can.shape}")
    chosen = deterministic(probs.argmax(axis=1), probs.shape[1]) > 0
    others = can & ~chosen
    number = others.sum(axis=1, keepdims=True)
    return np.where(chosen, np.where(number > 0, best, 1.0), others * (1 - best) / np.maximum(number, 1))
