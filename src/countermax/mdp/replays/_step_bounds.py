"""Where in an episode the choice of coupling matters: one step at a time is left open, the others are held."""

from pathlib import Path

import numpy as np

from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling
from countermax.mdp._arrays import Values
from countermax.mdp._estimation import as_policy
from countermax.mdp._log import EpisodeLog, check_single
from countermax.mdp._process import FiniteMDP
from countermax.mdp.replays._choices import fresh
from countermax.mdp.replays._course import course_of
from countermax.mdp.replays._facts import facts_of
from countermax.mdp.replays._questions import TransitionCoupling
from countermax.mdp.replays.engines import engine_for


def step_bounds(
    mdp: FiniteMDP,
    log: EpisodeLog,
    policy: Values,
    coupling: str | Path | AbstractCoupling,
    *,
    outcomes: Values | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    censored: str = "stop",
) -> Bounds:
    """The bounds of one episode's value if one step's coupling is any other, one entry for each logged step.

    Exact, and sharp for each step alone.

    Args:
        mdp: The process.
        log: One episode.
        policy: [state, action]: what would have been done.
        coupling: The coupling of all the other steps, or its name or file.
        outcomes: Label of each state as an outcome; see `replay`.
        horizon: Number of steps; by default that of the episode.
        discount: Discount factor for each step; by default the process's own.
        censored: Treatment of an episode that stops before its end; see `replay`.
    """
    check_single(log)
    facts = facts_of(mdp, log)
    choices = fresh(as_policy(mdp, policy), facts)
    course = course_of(mdp, log, facts, choices, horizon=horizon, discount=discount, censored=censored)
    engine, any_coupling = (
        engine_for(course, TransitionCoupling.exact(mdp, coupling, outcomes)),
        engine_for(course, None),
    )
    nobody = np.zeros(1, np.int64)
    chain = engine.forwards(nobody, path=True).path
    values = engine.backwards(nobody, *course.to_come(), keep=True).values
    assert chain is not None
    assert values is not None
    count = int(course.seen[0])
    whole = float(values[0, 0, 0, course.first[0]])
    limits = np.full((2, count), whole)
    for step in range(count):
        fact, earned, later = int(facts.of_step[0, step]), float(course.earned[0, step]), values[0, 0, step + 1]
        for limit, sign in zip(limits, (-1, 1), strict=True):
            gained = any_coupling.one_step(fact, earned, later, sign=sign) - values[0, 0, step]
            limit[step] += course.discount**step * (chain[0, step] @ gained)
    return Bounds(np.minimum(limits[0], whole), np.maximum(limits[1], whole))
