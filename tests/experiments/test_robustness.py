"""Gains called robust are gains in truth, as stored; and a trial of it from start to end."""

from pathlib import Path

import pytest

from countermax.experiments import EXPERIMENTS
from countermax.experiments.engine import Store
from countermax.experiments.robustness._trials import FAMILIES, Family, robust_gains

STORED = Path(__file__).parents[2] / "results" / "robustness"


@pytest.fixture(scope="module")
def stored():
    return Store(STORED).records()["robustness"]


def test_at_most_five_percent_of_the_gains_called_robust_are_none(stored):
    assert set(FAMILIES) < set(stored)
    for name in FAMILIES:
        found = stored[name]
        assert found["robust"] > 20
        assert found["robust_wrongly"] <= 0.05 * found["robust"]
        assert found["agreed_wrongly"] / found["agreed"] > 3 * found["robust_wrongly"] / found["robust"]


def test_true_gains_are_still_found(stored):
    assert sum(stored[name]["found"] for name in FAMILIES) > 0.4 * sum(stored[name]["true"] for name in FAMILIES)


def test_few_sepsis_patients_are_told_of_a_robust_gain(stored):
    """The policy looks best on the estimate, and is worse than what was done."""
    found = stored["sepsis"]
    assert found["true_value"] < found["observed"]
    assert found["robust"] < 0.5 * found["agreed"]


def test_a_trial_runs_from_start_to_end():
    found = robust_gains(Family(5, 2, 20), 1, 10)
    assert found["robust"] <= found["agreed"]
    assert found["found"] <= found["true"]
    section = EXPERIMENTS["robustness"].section({"some": found})
    assert "of these wrong" in section.sheets["robustness"].markdown()
