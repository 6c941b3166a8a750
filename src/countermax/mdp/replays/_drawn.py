"""Counterfactual trajectories drawn one by one: noise that explains what was seen, put to the other policy's rows."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray
from rich.console import Group

from countermax._core.extras import import_pandas
from countermax._core.memory import check_memory
from countermax._core.results import AbstractResult, plain
from countermax.couplings import AbstractSampler, name_of
from countermax.mdp._arrays import Floats, Ints, Values, as_whole
from countermax.mdp._process import FiniteMDP, as_discount
from countermax.mdp.log import EpisodeLog, steps_of
from countermax.mdp.policies import as_policy
from countermax.mdp.replays._questions import TransitionCoupling, facts_of
from countermax.mdp.replays._showing import ByEpisode

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class SampledReplay(AbstractResult):
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
        return self._by_episode.shown(f"{self._title}; discount {self.discount:g}")

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
    coupling: AbstractSampler,
    *,
    num_samples: int,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    key: PRNGKeyArray,
) -> SampledReplay:
    """Draws trajectories of every episode under another policy; `replay` is their exact law.

    For couplings that can only be drawn from, and for looking at single stories.

    Args:
        mdp: The process.
        log: What happened; every step must be possible under the process.
        policy: [state, action]: what would have been done.
        coupling: Any that can be drawn from.
        num_samples: Trajectories for each episode.
        outcomes: What each state is called as an outcome; see `replay`.
        horizon: How many steps, of what happened too; by default as many as the longest episode has.
        discount: Factor by which a reward is worth less one step later; by default the process's own; 1 for the plain
            return.
        key: Consumed once.
    """
    as_whole("num_samples", num_samples, least=1)
    probs = as_policy(mdp, policy)
    rows = TransitionCoupling.of(mdp, coupling, outcomes)
    facts = facts_of(mdp, log)
    steps = steps_of(log, horizon)
    factor = as_discount(mdp, discount)
    count = len(log) * num_samples
    check_memory(
        f"{num_samples} draws of {len(log)} episodes over {steps} steps",
        8 * count * (2 * steps + 8 + 3 * (mdp.width + mdp.num_actions)),
        "lower `num_samples` or `horizon`",
    )
    episode = np.repeat(np.arange(len(log)), num_samples)
    states = np.zeros((count, steps + 1), np.int64)
    actions = np.zeros((count, steps), np.int64)
    returns = np.zeros(count)
    states[:, 0] = log.states[episode, 0]
    for step in range(steps):
        key_uniform, key_answers = jax.random.split(jax.random.fold_in(key, step))
        for_action, for_state = np.asarray(jax.random.uniform(key_uniform, (2, count)), np.float64)
        state = states[:, step]
        action = _pick(probs[state], for_action)
        slot = _pick(mdp.probs[state, action], for_state)
        fact = facts.at(episode, step)
        seen = np.flatnonzero((fact >= 0) & ~mdp.absorbing[state])
        slot[seen] = rows.draws(facts.questions(fact[seen], state[seen], action[seen]), key=key_answers)
        states[:, step + 1] = mdp.successors[state, action, slot]
        actions[:, step] = action
        returns += factor**step * mdp.rewards[state, action, slot]
    shape = (len(log), num_samples)
    return SampledReplay(
        episodes=tuple(log.name_of(each) for each in range(len(log))),
        observed=log.returns(factor, horizon=steps),
        states=states.reshape(*shape, -1),
        actions=actions.reshape(*shape, -1),
        returns=returns.reshape(shape),
        coupling=name_of(coupling),
        discount=factor,
    )


def _pick(probs: Floats, uniform: Floats) -> Ints:
    """An entry of each row, by its probability; rounding never picks one that has none."""
    last = probs.shape[1] - 1 - (probs > 0)[:, ::-1].argmax(axis=1)
    return np.minimum((uniform[:, None] >= probs.cumsum(axis=1)).sum(axis=1), last)
