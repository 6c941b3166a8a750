"""Gains called robust are gains in truth, as stored; and a trial of it from start to end."""

from pathlib import Path

import pytest

from studies.engine import Store
from studies.registry import EXPERIMENTS
from studies.robustness import FAMILIES, Family, robust_gains

STORED = Path(__file__).parents[2] / "results" / "robustness"


@pytest.fixture(scope="module")
def stored():
    return {name: each.result for name, each in Store(STORED).records()["robustness"].items()}


def test_at_most_five_percent_of_the_gains_called_robust_are_none(stored):
    assert set(FAMILIES) < set(stored)
    for name in FAMILIES:
        found = stored[name]
        assert found["robust"] > 20
        assert found["robust_wrongly"] <= 0.05 * found["robust"]
        assert found["agreed_wrongly"] / found["agreed"] > 3 * found["robust_wrongly"] / found["robust"]


def test_true_gains_are_still_found(stored):
    assert sum(stored[name]["found"] for name in FAMILIES) > 0.4 * sum(stored[name]["true"] for name in FAMILIES)


def test_what_the_states_hide_no_resample_doubts(stored):
    """The policy looks best on the estimate, is worse than what was done, and most gains are still called robust."""
    found = stored["sepsis"]
    assert found["true_value"] < found["observed"]
    assert 0 < found["robust"] < found["agreed"]
    shown = (Path(__file__).parents[2] / "docs" / "replays.md").read_text()
    for number in (found["agreed"], found["robust"], f"{found['true_value']:.3f}", f"{found['observed']:.3f}"):
        assert str(number) in shown


def test_a_trial_runs_from_start_to_end():
    found = robust_gains(Family(5, 2, 20), 1, 10)
    assert found["robust"] <= found["agreed"]
    assert found["found"] <= found["true"]
    section = EXPERIMENTS["robustness"].section({"some": found})
    assert "of these wrong" in section.sheets["robustness"].markdown()
