"""Logged episodes replayed under another policy: exact counterfactual distributions, returns and their variances.

Given a logged episode, the counterfactual state is a Markov chain. While the episode lasts, its row from state c under
action b is the coupling's answer given what was seen at that step; after its end, the process's own row. A forward
recursion over the chain carries three numbers for each state: the probability, and the first two moments of the reward
so far. Nothing is sampled.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Float
from rich.console import Group
from scipy import sparse

from countermax._core.extras import import_pandas
from countermax._core.memory import check_memory
from countermax._core.progress import ProgressBar
from countermax._core.results import AbstractResult, plain
from countermax.couplings import AbstractCoupling, name_of
from countermax.mdp._arrays import Floats, Ints, Values
from countermax.mdp._process import FiniteMDP, as_discount
from countermax.mdp.log import EpisodeLog, steps_of
from countermax.mdp.policies import as_policy
from countermax.mdp.replays._cache import AnswerCache
from countermax.mdp.replays._questions import TransitionCoupling, facts_of
from countermax.mdp.replays._showing import ByEpisode

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Choose: TypeAlias = Callable[[int, Ints, Ints], Floats]
"""The probabilities of the actions at a step, for episodes (by position) in states."""

_CELLS_AT_ONCE = 2**18  # episodes times states that are replayed together: what fits the processor's cache


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Replay(AbstractResult):
    """What would have become of each logged episode."""

    episodes: tuple[Hashable, ...]
    observed: Float[np.ndarray, " n"]
    """What each episode earned."""
    values: Float[np.ndarray, " n"]
    """What it would have earned on average, over the randomness that the log leaves open."""
    variances: Float[np.ndarray, " n"]
    """How much that varies."""
    last: sparse.csr_array
    """[episode, state]: where it would have been at the end."""
    path: Float[np.ndarray, "n times s"] | None
    """Where it would have been at every time, if asked for."""
    coupling: str
    """What kind of coupling answered."""
    horizon: int
    discount: float

    @property
    def effects(self) -> Float[np.ndarray, " n"]:
        """What the other policy would have added to each episode, on average."""
        return self.values - self.observed

    @property
    def mean(self) -> float:
        """The average over episodes of what they would have earned."""
        return float(self.values.mean())

    def to_frame(self) -> "pd.DataFrame":
        """One row for each episode."""
        return import_pandas().DataFrame(self._by_episode.columns())

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers: the means, and one record for each episode."""
        return plain(
            {
                "coupling": self.coupling,
                "horizon": self.horizon,
                "discount": self.discount,
                "observed": self.observed.mean(),
                "counterfactual": self.mean,
                "episodes": self._by_episode.records(),
            }
        )

    def plot(self) -> "Figure":
        """The effects of all episodes, from the largest to the smallest."""
        return self._by_episode.plot(f"{self._title}: what the other policy would have added")

    def __rich__(self) -> Group:
        return self._by_episode.shown(f"{self._title}; horizon {self.horizon}, discount {self.discount:g}")

    def __repr__(self) -> str:
        spread = float(self.variances.mean())
        return (
            f"Replay({len(self.values)} episodes by {self.coupling}: observed {self.observed.mean():.4g}, "
            f"counterfactual {self.mean:.4g} on average; variance within an episode {spread:.4g})"
        )

    @property
    def _title(self) -> str:
        return f"{len(self.values)} episodes by {self.coupling}"

    @property
    def _by_episode(self) -> ByEpisode:
        return ByEpisode(self.episodes, self.observed, self.values, self.effects, np.sqrt(self.variances))


def replay(
    mdp: FiniteMDP,
    log: EpisodeLog,
    policy: Values,
    coupling: AbstractCoupling,
    *,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    path: bool = False,
    progress: bool | None = None,
) -> Replay:
    """Replays every episode under another policy, exactly.

    Each episode starts in its own first state. Answers are computed once for every distinct question, over the
    outcomes that the two rows at hand can reach.

    Args:
        mdp: The process, often an estimate from the same log.
        log: What happened; every step must be possible under the process.
        policy: [state, action]: what would have been done.
        coupling: One with an exact law, fixed or learned; for others there is `sample_replay`.
        outcomes: What each state is called as an outcome. Two worlds agree where their outcomes have one label, so
            states that differ by the action alone (a treatment flag, say) deserve a common one; couplings that go by
            order (`InverseCDF`) take the order of the labels. By default each state is an outcome of its own.
        horizon: How many steps, of what happened too; by default as many as the longest episode has.
        discount: Factor by which a reward is worth less one step later; by default the process's own; 1 for the plain
            return.
        path: Whether to keep the distributions of all times, not the last one only.
        progress: Whether to show a progress bar; by default if the output is a terminal.
    """
    probs = as_policy(mdp, policy)
    return forward(
        TransitionCoupling.exact(mdp, coupling, outcomes),
        log,
        lambda _, __, state: probs[state],
        horizon=horizon,
        discount=discount,
        path=path,
        progress=progress,
    )


def forward(
    coupling: TransitionCoupling,
    log: EpisodeLog,
    choose: Choose,
    *,
    horizon: int | None = None,
    discount: float | None = None,
    path: bool = False,
    progress: bool | None = None,
) -> Replay:
    """The recursion, for policies that may change with time and from one episode to the next."""
    mdp = coupling.mdp
    steps = steps_of(log, horizon)
    factor = as_discount(mdp, discount)
    if path:
        check_memory(
            f"the paths of {len(log)} episodes over {mdp.num_states} states and {steps} steps",
            16 * len(log) * mdp.num_states * (steps + 1),
            "leave out `path`, or lower `horizon`",
        )
    known = AnswerCache(coupling, facts_of(mdp, log))
    at_once = max(1, _CELLS_AT_ONCE // mdp.num_states)
    parts = []
    with ProgressBar("replaying", len(log) * steps, progress, unit="steps") as bar:
        for start in range(0, len(log), at_once):
            episodes = np.arange(start, min(start + at_once, len(log)))
            parts.append(_run(known, log, choose, episodes, steps, factor, path, bar))
    values, seconds = (np.concatenate([getattr(part, name) for part in parts]) for name in ("first", "second"))
    return Replay(
        episodes=tuple(log.name_of(each) for each in range(len(log))),
        observed=log.returns(factor, horizon=steps),
        values=values,
        variances=np.maximum(seconds - values**2, 0),
        last=sparse.csr_array(sparse.vstack([part.last for part in parts])),
        path=np.concatenate([part.path for part in parts if part.path is not None]) if path else None,
        coupling=name_of(coupling.coupling),
        horizon=steps,
        discount=factor,
    )


class _Part(NamedTuple):
    first: Floats
    second: Floats
    last: sparse.csr_array
    path: Floats | None


def _run(
    known: AnswerCache,
    log: EpisodeLog,
    choose: Choose,
    episodes: Ints,
    steps: int,
    factor: float,
    keep: bool,
    bar: ProgressBar,
) -> _Part:
    mdp = known.mdp
    shape = (len(episodes), mdp.num_states)
    moments = np.zeros((*shape, 3))  # of the reward so far: its powers 0, 1 and 2, where the chain is in each state
    moments[np.arange(len(episodes)), log.states[episodes, 0], 0] = 1
    path = np.zeros((len(episodes), steps + 1, mdp.num_states)) if keep else None
    live, cells = ~mdp.absorbing, len(episodes) * mdp.num_states
    for step in range(steps + 1):
        if path is not None:
            path[:, step] = moments[:, :, 0]
        if step == steps:
            break
        place, state = np.nonzero((moments[:, :, 0] > 0) & live)
        entry, action = np.nonzero(choices := choose(step, episodes[place], state))
        place, state = place[entry], state[entry]
        rows = known.rows(episodes[place], step, state, action)
        before = moments[place, state] * choices[entry, action][:, None]
        moments *= mdp.absorbing[:, None]
        shifts = place * mdp.num_states
        after = _spread(rows.chances, shifts, cells) @ before
        # In the expansion of (reward so far + gain) ** power; few entries, since most rewards are for reaching an end.
        gains, squares = (factor**step * _spread(rows.gains, shifts, cells), _spread(rows.squares, shifts, cells))
        after[:, 1] += gains @ before[:, 0]
        after[:, 2] += 2 * (gains @ before[:, 1]) + factor ** (2 * step) * (squares @ before[:, 0])
        moments += after.reshape(moments.shape)
        bar.advance(len(episodes))
    _, first, second = moments.sum(axis=1).T
    return _Part(first, second, sparse.csr_array(moments[:, :, 0]), path)


def _spread(rows: sparse.csr_array, shifts: Ints, cells: int) -> sparse.csc_array:
    """A matrix that takes what leaves each entry to the cells (episode, state) where it arrives."""
    cell = rows.indices + np.repeat(shifts, np.diff(rows.indptr))
    return sparse.csc_array((rows.data, cell, rows.indptr), shape=(cells, len(shifts)))
