"""Logged episodes replayed under another policy: exact counterfactual distributions, returns and their variances.

Given a logged episode, the counterfactual state is a Markov chain. While the episode lasts, its row from state c under
action b is the coupling's answer given what was seen at that step; after its end, the process's own row. A forward
recursion over the chain carries three numbers for each state: the probability, and the first two moments of the reward
so far. Nothing is sampled.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Bool, Float, Int
from rich.console import Group
from scipy import sparse

from countermax._core.extras import import_pandas, on_ray
from countermax._core.progress import ProgressBar
from countermax._core.results import AbstractOldResult, plain
from countermax.couplings import AbstractCoupling
from countermax.couplings._named import name_of
from countermax.intervals import Interval
from countermax.intervals._interval import percentile_interval
from countermax.mdp._arrays import Floats, Ints, Values
from countermax.mdp._cautions import told_of_log
from countermax.mdp._log import EpisodeLog
from countermax.mdp._posterior import Doubt, doubted
from countermax.mdp._process import FiniteMDP
from countermax.mdp.replays._choices import choices_of, told
from countermax.mdp.replays._course import centred, check_path, course_of, observed_returns
from countermax.mdp.replays._facts import facts_of
from countermax.mdp.replays._questions import TransitionCoupling
from countermax.mdp.replays._showing import ByEpisode, notes
from countermax.mdp.replays._walks import replayed
from countermax.mdp.replays.engines import engine_for, walk_all

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Replay(AbstractOldResult):
    """What would have become of each logged episode."""

    episodes: tuple[Hashable, ...]
    observed: Float[np.ndarray, " n"]
    """What each episode earned in the steps that are compared."""
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
    steps: Int[np.ndarray, " n"]
    """How many steps of each episode are compared, in both worlds."""
    censored: Bool[np.ndarray, " n"]
    """Which episodes stop before the horizon without having come to an end."""
    carried_on: bool
    """Whether those are carried on with the model; else they are compared up to where they stop."""
    actions: str
    """How actions that the policy leaves to chance are drawn, in words; empty where it leaves none."""
    interval: Interval | None
    """What the effects would be with other data; None where the model is taken as given."""
    doubt: str
    """How the model was doubted, in words."""
    of_log: tuple[str, ...]
    """Which ends nobody named, and which labels look alike, in words."""

    @property
    def effects(self) -> Float[np.ndarray, " n"]:
        """What the other policy would have added to each episode, on average."""
        return self.values - self.observed

    @property
    def notes(self) -> tuple[str, ...]:
        """What the numbers leave out, and what was chosen, in words."""
        return notes(self.of_log, self.censored, self.carried_on, self.actions, self.doubt)

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
                "notes": self.notes,
                "observed": self.observed.mean(),
                "counterfactual": self.mean,
                "episodes": self._by_episode.records(),
            }
        )

    def plot(self) -> "Figure":
        """The effects of all episodes, from the largest to the smallest."""
        return self._by_episode.plot(f"{self._title}: what the other policy would have added")

    def __rich__(self) -> Group:
        title = f"{self._title}; horizon {self.horizon}, discount {self.discount:g}"
        return self._by_episode.shown(title, self.notes)

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
        return ByEpisode(
            self.episodes, self.observed, self.values, self.effects, np.sqrt(self.variances), self.interval
        )


def replay(
    mdp: FiniteMDP,
    log: EpisodeLog,
    policy: Values,
    coupling: str | Path | AbstractCoupling,
    *,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    censored: str = "stop",
    actions: str = "fresh",
    behaviour: Values | None = None,
    doubt: Doubt | None = None,
    path: bool = False,
    engine: str = "local",
    progress: bool | None = None,
) -> Replay:
    """Replays every episode under another policy, exactly.

    Each episode starts in its own first state, and both worlds cover the same steps. Where the other world is in the
    logged state and does what was done, it goes where the log went and earns what the log earned, whatever the
    coupling; elsewhere rewards are the process's means, and their variances are carried.

    Args:
        mdp: The process, often an estimate from the same log.
        log: Logged episodes; every step must be possible under the process.
        policy: [state, action]: what would have been done.
        coupling: One with an exact law, fixed or learned; or its name or file, as `as_coupling` takes them. For others
            there is `sample_replay`.
        outcomes: Label of each state as an outcome. Two worlds agree where their outcomes have one label, so states
            that differ by the action alone (a treatment flag, say) deserve a common one; couplings that go by order
            (`InverseCDF`) take the order of the labels. By default each state is an outcome of its own.
        horizon: Number of steps, also of the logged episodes; by default that of the longest episode.
        discount: Discount factor for each step; by default the process's own; 1 for the plain return.
        censored: Treatment of an episode that stops before the horizon without having come to an absorbing state:
            "stop" compares both worlds up to there; "model" carries both on with the process's own rows, the factual
            one by what was usually done, the other one by the policy.
        actions: Way in which a policy that leaves something to chance draws its actions: "fresh", whatever was done, or
            "coupled", as outcomes of the same coupling, with the noise that explains what was done.
        behaviour: [state, action]: what the log was made with, for coupled actions; by default frequencies.
        doubt: Doubt about the process, which gives effects intervals for other data; by default none.
        path: Whether to keep the distributions of all times, not the last one only.
        engine: "local", or "ray" to walk parts of the episodes, and the processes of a doubt, on the Ray cluster that
            is connected, else on one inside this machine. The numbers are the same.
        progress: Whether to show a progress bar; by default if the output is a terminal.
    """
    spread = on_ray(engine)
    law = TransitionCoupling.exact(mdp, coupling, outcomes)
    facts = facts_of(mdp, log)
    choices = choices_of(mdp, log, facts, policy, actions, behaviour, law.answering)
    course = course_of(mdp, log, facts, choices, horizon=horizon, discount=discount, censored=censored)
    if path:
        check_path(course)
    walked, taken = centred(course)
    law = law if walked is course else TransitionCoupling.exact(walked.mdp, law.answering, outcomes)
    walker, count = engine_for(walked, law), len(course)
    first, second = np.zeros(count), np.zeros(count)
    paths = np.zeros((count, course.horizon + 1, mdp.num_states)) if path else None
    ends: list[tuple[Ints, sparse.csr_array]] = []
    with ProgressBar("replaying", count, progress, unit="episodes") as bar:
        for episodes, one, two, last in replayed(walker, walked, paths, spread=spread):
            first[episodes], second[episodes] = one, two
            ends.append((episodes, last))
            bar.advance(len(episodes))
    order = np.argsort(np.concatenate([episodes for episodes, _ in ends]))
    last = sparse.csr_array(sparse.vstack([each for _, each in ends], format="csr"))
    ends.clear()
    observed = observed_returns(course, log)
    options: dict[str, Any] = {
        "outcomes": outcomes,
        "horizon": course.horizon,
        "discount": course.discount,
        "censored": censored,
        "actions": actions,
        "behaviour": behaviour,
        "progress": False,
    }
    asked = doubt or Doubt(num_resamples=0)
    effects = partial(_effects, log=log, policy=policy, coupling=law.answering, **options)
    others = doubted(mdp, asked, effects, progress, outcomes=outcomes, engine=engine)
    return Replay(
        episodes=log.names,
        observed=observed,
        values=first + taken,
        variances=np.maximum(second - first**2, 0),
        last=last[order],
        path=paths,
        coupling=name_of(law.answering),
        horizon=course.horizon,
        discount=course.discount,
        steps=course.steps,
        censored=course.censored,
        carried_on=censored == "model",
        actions=told(mdp, actions, choices.after),
        interval=percentile_interval(others, asked.level),
        doubt=asked.told(mdp),
        of_log=told_of_log(mdp, log),
    )


def replayed_values(
    mdp: FiniteMDP,
    log: EpisodeLog,
    policy: Values,
    coupling: str | Path | AbstractCoupling,
    *,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    censored: str = "stop",
    actions: str = "fresh",
    behaviour: Values | None = None,
    engine: str = "local",
) -> Floats:
    """The values of `replay` and nothing else, for those who put one question to many processes."""
    if on_ray(engine):
        options: dict[str, Any] = {"censored": censored, "actions": actions, "behaviour": behaviour, "engine": engine}
        options |= {"outcomes": outcomes, "horizon": horizon, "discount": discount, "progress": False}
        return replay(mdp, log, policy, coupling, **options).values
    law = TransitionCoupling.exact(mdp, coupling, outcomes)
    facts = facts_of(mdp, log)
    choices = choices_of(mdp, log, facts, policy, actions, behaviour, law.answering)
    course = course_of(mdp, log, facts, choices, horizon=horizon, discount=discount, censored=censored)
    walker, found = engine_for(course, law), np.zeros(len(course))
    later, rows = course.to_come()
    for walked in walk_all(walker, lambda batch: walker.forwards(batch, path=False)):
        to_come = (walked.moments[:, :, 0] * later[rows[walked.episodes]]).sum(axis=1)
        earned = walked.moments[:, :, 1].sum(axis=1)
        found[walked.episodes] = earned + course.discount ** course.seen[walked.episodes] * to_come
    return found


def _effects(mdp: FiniteMDP, **options: Any) -> Floats:
    return replay(mdp, **options).effects
