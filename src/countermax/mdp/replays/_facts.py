"""What a log says about a process: which transition each step was."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from countermax._core.errors import InputError
from countermax.mdp._arrays import Ints, plainly
from countermax.mdp._log import EpisodeLog
from countermax.mdp._process import FiniteMDP


class Facts(NamedTuple):
    """The distinct observed transitions of a log, and which of them each step is."""

    state: Ints
    action: Ints
    next_slot: Ints
    """The slot of the observed successor in its row."""
    of_step: Int[np.ndarray, "n t"]
    """The number of the transition at each step; -1 after an episode's end."""

    def at(self, episode: Ints, step: int) -> Ints:
        """What was seen in each episode at this step; -1 after its end."""
        return self.of_step[episode, step] if step < self.of_step.shape[1] else np.full(len(episode), -1)


def facts_of(mdp: FiniteMDP, log: EpisodeLog) -> Facts:
    """The log in terms of the process; a step that the process calls impossible is named."""
    if (log.num_states, log.num_actions) != (mdp.num_states, mdp.num_actions):
        raise InputError(
            f"`log` must have the states and actions of the process, {mdp.num_states} and {mdp.num_actions}, got "
            f"{log.num_states} and {log.num_actions}"
        )
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
