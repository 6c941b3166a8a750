"""Coverage of the intervals of a policy's value: the trials run, and what is stored holds its promise."""

from functools import lru_cache
from inspect import signature
from pathlib import Path

import pytest

from countermax.mdp import Cohort
from studies.experiments import Store
from studies.policies import HORIZON, NUM_RESAMPLES, OVERLAPS, interval_coverage
from studies.registry import EXPERIMENTS

STORED = Path(__file__).parents[2] / "results" / "policies"


@lru_cache
def stored():
    return Store(STORED).records()["policies"]


def test_trials_tell_coverage_width_and_warnings():
    told = []
    found = interval_coverage(OVERLAPS["poor overlap"], 30, (), 2, 0, told.append, num_resamples=4)
    assert told == [0.5, 1.0]
    assert found["warned"] == 1
    assert found["effective_sample_size"] < 30
    assert {each["coverage"] for each in found["estimates"].values()} <= {0.0, 0.5, 1.0}
    assert found["estimates"]["model-based"]["width"] > 0
    section = EXPERIMENTS["policies"].section({"poor overlap, 30 episodes": found})
    assert "model-based" in section.sheets["policies_chosen"].markdown()
    assert list(section.sheets) == ["policies_chosen"]


def test_trials_use_the_default_number_of_resamples():
    assert signature(Cohort.evaluate).parameters["num_resamples"].default == NUM_RESAMPLES
    for name, record in stored().items():
        assert record.settings["num_resamples"] == NUM_RESAMPLES
        number = 1000 if name.endswith("new logs") else 400
        assert (record.settings["num_trials"], record.settings["horizon"]) == (number, HORIZON)


def test_new_logs_are_others_than_those_on_which_the_rule_was_chosen():
    for cell in EXPERIMENTS["policies"].cells("best", None):
        assert cell.settings.get("seed", 0) == int(cell.name.endswith("new logs"))


@pytest.mark.parametrize("logs", ["", ", new logs"])
@pytest.mark.parametrize("size", [200, 400])
def test_with_good_overlap_every_interval_holds_the_truth_in_93_of_100_logs(size, logs):
    estimates = stored()[f"good overlap, {size} episodes{logs}"].result["estimates"]
    assert len(estimates) >= 8
    assert {name: each["coverage"] for name, each in estimates.items() if each["coverage"] < 0.93} == {}


@pytest.mark.parametrize("logs", ["", ", new logs"])
@pytest.mark.parametrize("size", [200, 400])
def test_with_poor_overlap_the_result_warns(size, logs):
    assert stored()[f"poor overlap, {size} episodes{logs}"].result["warned"] > 0.95
