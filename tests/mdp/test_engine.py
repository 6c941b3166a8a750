"""Where the work is done: in this process unless Ray is asked for."""

import subprocess
import sys

import numpy as np
import pytest
from chains import ReferenceChains
from processes import LOG, MDP, POLICY

from countermax import GumbelMax
from countermax._core.errors import InputError
from countermax.mdp import Cohort
from countermax.mdp._replays import _chains, _trajectories
from countermax.mdp._replays._chains import chains_for
from countermax.mdp._replays._course import Setting, course_of, fresh
from countermax.mdp._replays._questions import TransitionCoupling, facts_of

QUESTIONS = {
    "replay": lambda **options: Cohort(LOG, POLICY, process=MDP, **options).replay(GumbelMax()),
    "bounds": lambda **options: Cohort(LOG, POLICY, process=MDP, **options).bounds(),
    "evaluate": lambda **options: Cohort(LOG, POLICY, process=MDP, **options).evaluate(num_resamples=0),
    "rank": lambda **options: Cohort(LOG, POLICY, process=MDP, **options).rank(),
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


@pytest.mark.parametrize("choose", [chains_for, ReferenceChains])
@pytest.mark.parametrize("carried_on", [False, True])
def test_some_episodes_are_replayed_as_they_are_among_all(choose, carried_on):
    facts = facts_of(MDP, LOG)
    choices = fresh(POLICY, facts)
    asked = {"log": LOG, "policy": POLICY, "outcomes": None, "horizon": 5, "discount": 0.9, "behaviour": None}
    asked |= {"usual": POLICY, "varying": None, "censored": "model" if carried_on else "stop"}
    course = course_of(MDP, Setting(**asked), facts, choices)
    law, batch = TransitionCoupling.of(MDP, GumbelMax()), np.array([4, 1, 5])
    for chains, ask, to_come in (
        (choose(course, law), lambda *asked: _trajectories._moments_of(*asked, path=False), course.squares_to_come()),
        (choose(course, None), _trajectories._bounded, course.to_come()),
    ):
        there = course.part(batch), chains.prepared(batch), _chains._some(to_come, batch)
        part = _chains._asking(chains, course, ask)(*there)
        alone = ask(chains, course, batch, to_come)
        np.testing.assert_array_equal(batch[part[0]], alone[0])
        for one, other in zip(part[1:3], alone[1:3], strict=True):
            np.testing.assert_array_equal(one, other)
