"""Where the work is done: in this process unless Ray is asked for."""

import subprocess
import sys

import jax
import numpy as np
import pytest
from processes import LOG, MDP, POLICY

from countermax import GumbelMax
from countermax._core.errors import InputError
from countermax.mdp import evaluate_policy, rank_episodes, replay, trajectory_bounds
from countermax.mdp.replays import _bounds, _walks
from countermax.mdp.replays._choices import choices_of
from countermax.mdp.replays._course import course_of
from countermax.mdp.replays._facts import facts_of
from countermax.mdp.replays._questions import TransitionCoupling
from countermax.mdp.replays.engines import GeneralEngine, _spread, engine_for

QUESTIONS = {
    "replay": lambda **options: replay(MDP, LOG, POLICY, GumbelMax(), **options),
    "trajectory_bounds": lambda **options: trajectory_bounds(MDP, LOG, POLICY, **options),
    "evaluate_policy": lambda **options: evaluate_policy(
        LOG, POLICY, model=MDP, num_resamples=0, key=jax.random.key(0), **options
    ),
    "rank_episodes": lambda **options: rank_episodes(MDP, LOG, POLICY, **options),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_engine_that_does_not_exist_is_refused(question):
    with pytest.raises(InputError, match='`engine` must be "local" or "ray", got \'spark\''):
        QUESTIONS[question](engine="spark")


@pytest.mark.parametrize("question", QUESTIONS)
def test_without_ray_the_extra_is_named(question, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"countermax\[ray\]"):
        QUESTIONS[question](engine="ray")


def test_local_work_imports_no_ray():
    code = (
        "import sys\nimport countermax.mdp, countermax.cli, countermax._ray\n"
        "assert not {'ray', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("choose", [engine_for, GeneralEngine])
@pytest.mark.parametrize("censored", ["stop", "model"])
def test_a_part_is_walked_as_it_is_among_all(choose, censored):
    facts = facts_of(MDP, LOG)
    choices = choices_of(MDP, LOG, facts, POLICY, "fresh", None, None)
    course = course_of(MDP, LOG, facts, choices, horizon=5, discount=None, censored=censored)
    law, batch = TransitionCoupling.exact(MDP, GumbelMax()), np.array([4, 1, 5])
    for engine, walk, to_come in (
        (choose(course, law), lambda *asked: _walks._walked(*asked, None), course.squares_to_come()),
        (choose(course, None), _bounds._walked, course.to_come()),
    ):
        there = course.part(batch), engine.part(batch), _spread._some(to_come, batch)
        part = _spread._walking(engine, course, walk)(*there)
        alone = walk(engine, course, batch, to_come)
        np.testing.assert_array_equal(batch[part.episodes], alone.episodes)
        for one, other in zip(part[1:3], alone[1:3], strict=True):
            np.testing.assert_array_equal(one, other)
