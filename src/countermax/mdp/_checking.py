"""What every computation takes for granted about a process."""

from typing import Any

from countermax._core.errors import InputError
from countermax.mdp._arrays import as_indices, as_start, checked_discount
from countermax.mdp._labels import as_names
from countermax.mdp._transitions import PaddedRows, check_rows


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
