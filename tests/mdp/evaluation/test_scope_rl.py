"""Estimates and distributions beside those of scope-rl, stored with their input by make_scope_rl.py."""

import json
from pathlib import Path

import numpy as np
import pytest
from processes import doubly_robust

from countermax.mdp import Cohort, EpisodeLog, FiniteMDP
from countermax.mdp._importance import importance_estimates, importance_ratios, model_values

STORED = json.loads(Path(__file__).with_name("scope_rl.json").read_text())
CLOSE = {"rel": 0, "abs": 1e-8}  # scope-rl adds 1e-10 to what it divides by


@pytest.fixture(params=STORED["cases"])
def case(request):
    given, theirs = (STORED["cases"][request.param][part] for part in ("input", "scope_rl"))
    log = EpisodeLog(
        states=np.array(given["states"]),
        actions=np.array(given["actions"]),
        rewards=np.array(given["rewards"]),
        lengths=np.array(given["lengths"]),
        num_states=len(given["target"]),
        num_actions=len(given["target"][0]),
    )
    process = FiniteMDP.from_dense(
        given["transitions"],
        given["process_rewards"],
        start=0,
        absorbing=given["absorbing"],
        discount=given["discount"],
    )
    return log, process, np.array(given["target"]), np.array(given["behaviour"]), theirs


def test_estimates_are_those_of_scope_rl(case):
    log, process, target, behaviour, theirs = case
    ratios = importance_ratios(log, target, behaviour)
    found = importance_estimates(log, ratios, discount=process.discount)._asdict()
    for weighted in (False, True):
        name = "weighted_doubly_robust" if weighted else "doubly_robust"
        found[name] = doubly_robust(process, log, target, ratios, weighted=weighted, horizon=STORED["horizon"])
    steps = np.full(len(log), STORED["horizon"])
    found["model"] = model_values(process, log, target, steps, STORED["horizon"])[0].mean()
    assert found == {name: pytest.approx(theirs[name], **CLOSE) for name in found}


@pytest.mark.parametrize("weighted", [False, True])
def test_distributions_of_the_return_are_those_of_scope_rl(case, weighted):
    log, _, target, behaviour, theirs = case
    expected = theirs["weighted_distribution" if weighted else "distribution"]
    found = Cohort(log, target, behaviour=behaviour).returns(weighted=weighted)
    np.testing.assert_allclose(found.cdf(np.array(expected["returns"]) + 1e-9), expected["cdf"], rtol=0, atol=1e-8)
    assert found.mean == pytest.approx(expected["mean"], **CLOSE)
    assert found.variance == pytest.approx(expected["variance"], **CLOSE)
    theirs_at = dict(zip(STORED["shares"], expected["cvar"], strict=True))
    for share, value in theirs_at.items():
        assert found.mean_up_to_quantile(share) == pytest.approx(value, **CLOSE)
        assert found.cvar(share) <= value + 1e-12
    for share in found.probabilities.cumsum()[:-1]:  # where no episode lies on the edge both are the same
        assert found.cvar(share) == pytest.approx(found.mean_up_to_quantile(share - 1e-9), abs=1e-6)


def test_the_stored_numbers_say_how_they_were_made():
    assert STORED["scope-rl"] == "0.2.1"
    assert (Path(__file__).parents[3] / STORED["made_by"]).is_file()
