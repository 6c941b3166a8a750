"""Counterfactual trajectories drawn one by one: noise that explains what was seen, put to the other policy's rows."""

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray
from rich.console import Group

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._core.memory import check_memory
from countermax._core.results import AbstractOldResult, plain
from countermax.couplings import AbstractCoupling, AbstractSampler
from countermax.couplings._named import name_of
from countermax.mdp._arrays import Values, as_whole
from countermax.mdp._cautions import told_of_log
from countermax.mdp._log import EpisodeLog
from countermax.mdp._planning import edges_of, pick
from countermax.mdp._process import FiniteMDP
from countermax.mdp.replays._choices import choices_of, told
from countermax.mdp.replays._course import course_of, observed_returns
from countermax.mdp.replays._facts import facts_of
from countermax.mdp.replays._questions import TransitionCoupling, questions
from countermax.mdp.replays._showing import ByEpisode, notes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class SampledReplay(AbstractOldResult):
    """Trajectories that might have been."""

    episodes: tuple[Hashable, ...]
    observed: Float[np.ndarray, " n"]
    """What each episode earned."""
    states: Int[np.ndarray, "n samples times"]
    """After the end of a trajectory its last state is repeated."""
    actions: Int[np.ndarray, "n samples t"]
    returns: Float[np.ndarray, "n samples"]
    """What each trajectory earned."""
    coupling: str
    """What kind of coupling answered."""
    discount: float
    notes: tuple[str, ...]
    """What the numbers leave out, and what was chosen, in words."""

    def to_frame(self) -> "pd.DataFrame":
        """One row for each trajectory."""
        count, samples = self.returns.shape
        columns = {
            "episode": [each for each in self.episodes for _ in range(samples)],
            "sample": np.tile(np.arange(samples), count),
            "observed": np.repeat(self.observed, samples),
            "counterfactual": self.returns.ravel(),
            "effect": (self.returns - self.observed[:, None]).ravel(),
        }
        return import_pandas().DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers: the returns of each episode's trajectories."""
        return plain(
            {
                "coupling": self.coupling,
                "discount": self.discount,
                "notes": self.notes,
                "num_samples": self.returns.shape[1],
                "episodes": self.episodes,
                "observed": self.observed,
                "returns": self.returns,
            }
        )

    def plot(self) -> "Figure":
        """The mean effects of all episodes, from the largest to the smallest."""
        return self._by_episode.plot(f"{self._title}: what the other policy would have added")

    def __rich__(self) -> Group:
        return self._by_episode.shown(f"{self._title}; discount {self.discount:g}", self.notes)

    def __repr__(self) -> str:
        count, samples = self.returns.shape
        return f"SampledReplay({count} episodes, {samples} trajectories each, by {self.coupling})"

    @property
    def _title(self) -> str:
        count, samples = self.returns.shape
        return f"{count} episodes, {samples} draws each, by {self.coupling}"

    @property
    def _by_episode(self) -> ByEpisode:
        means = self.returns.mean(axis=1)
        return ByEpisode(self.episodes, self.observed, means, means - self.observed, self.returns.std(axis=1))


def sample_replay(
    mdp: FiniteMDP,
    log: EpisodeLog,
    policy: Values,
    coupling: str | Path | AbstractSampler,
    *,
    num_samples: int,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    censored: str = "stop",
    actions: str = "fresh",
    behaviour: Values | None = None,
    key: PRNGKeyArray,
) -> SampledReplay:
    """Draws trajectories of every episode under another policy; `replay` is their exact law.

    For couplings that can only be drawn from, and for looking at single stories. Rewards are the process's means, or
    what the log earned where nothing is changed. A key means the same trajectories whatever JAX's default precision is.

    Args:
        mdp: The process.
        log: Logged episodes; every step must be possible under the process.
        policy: [state, action]: what would have been done.
        coupling: Coupling that can be drawn from, or its name or file.
        num_samples: Trajectories for each episode.
        outcomes: Label of each state as an outcome; see `replay`.
        horizon: Number of steps, also of the logged episodes; by default that of the longest episode.
        discount: Discount factor for each step; by default the process's own; 1 for the plain return.
        censored: Treatment of episodes that stop before their end; see `replay`.
        actions: Way in which actions are drawn; see `replay`.
        behaviour: [state, action]: what the log was made with, for coupled actions.
        key: Random key; consumed once.
    """
    as_whole("num_samples", num_samples, least=1)
    rows = TransitionCoupling.of(mdp, coupling, outcomes)
    facts, drawn_from = facts_of(mdp, log), rows.coupling
    if actions == "coupled" and not isinstance(drawn_from, AbstractCoupling):
        raise InputError(
            f"`coupling` must have an exact law for coupled actions, but {name_of(drawn_from)} can only draw"
        )
    law = drawn_from if isinstance(drawn_from, AbstractCoupling) else None
    choices = choices_of(mdp, log, facts, policy, actions, behaviour, law)
    course = course_of(mdp, log, facts, choices, horizon=horizon, discount=discount, censored=censored)
    steps, factor = course.horizon, course.discount
    count = len(log) * num_samples
    check_memory(
        f"{num_samples} draws of {len(log)} episodes over {steps} steps",
        8 * count * (2 * steps + 8 + 3 * (mdp.width + mdp.num_actions)),
        "lower `num_samples` or `horizon`",
    )
    episode = np.repeat(np.arange(len(log)), num_samples)
    states = np.zeros((count, steps + 1), np.int64)
    done = np.zeros((count, steps), np.int64)
    returns = np.zeros(count)
    states[:, 0] = log.states[episode, 0]
    for step in range(steps):
        key_uniform, key_answers = jax.random.split(jax.random.fold_in(key, step))
        for_action, for_state = np.asarray(jax.random.uniform(key_uniform, (2, count), jnp.float32))
        state, fact = states[:, step], facts.at(episode, step)
        wanted = np.where(
            (fact >= 0)[:, None], choices.tables[choices.of_fact[np.maximum(fact, 0)], state], choices.after[state]
        )
        action = pick(edges_of(wanted), for_action)
        slot = pick(edges_of(mdp.probs[state, action]), for_state)
        seen = np.flatnonzero((fact >= 0) & ~mdp.absorbing[state])
        asked = questions(facts, fact[seen], state[seen], action[seen])
        same = (asked.state == asked.other_state) & (asked.action == asked.other_action)
        drawn = seen[~same]
        if len(drawn):
            asked_there = questions(facts, fact[drawn], state[drawn], action[drawn])
            slot[drawn] = rows.draws(asked_there, key=key_answers)
        gain = mdp.rewards[state, action, slot]
        kept = seen[same]  # nothing is changed there, so nothing changes
        slot[kept], gain[kept] = asked.next_slot[same], log.rewards[episode[kept], min(step, log.longest - 1)]
        going = step < course.steps[episode]
        states[:, step + 1] = np.where(going, mdp.successors[state, action, slot], state)
        done[:, step] = np.where(going, action, 0)
        returns += factor**step * np.where(going, gain, 0)
    shape = (len(log), num_samples)
    return SampledReplay(
        episodes=log.names,
        observed=observed_returns(course, log),
        states=states.reshape(*shape, -1),
        actions=done.reshape(*shape, -1),
        returns=returns.reshape(shape),
        coupling=name_of(drawn_from),
        discount=factor,
        notes=notes(told_of_log(mdp, log), course.censored, censored == "model", told(mdp, actions, choices.after)),
    )
