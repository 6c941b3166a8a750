"""Gains called robust are gains in truth, as stored; and a trial of it from start to end."""

from pathlib import Path

import pytest

from studies.experiments import Store
from studies.registry import EXPERIMENTS
from studies.robustness import FAMILIES, Family, robust_gains

STORED = Path(__file__).parents[2] / "results" / "robustness"


@pytest.fixture(scope="module")
def stored():
    return {name: each.result for name, each in Store(STORED).records()["robustness"].items()}


def test_at_most_three_percent_of_the_gains_called_robust_are_none(stored):
    assert set(FAMILIES) < set(stored)
    for called in ("agreed", "robust"):
        found, wrong = (sum(stored[name][each] for name in FAMILIES) for each in (called, f"{called}_wrongly"))
        assert found > 500
        assert wrong <= 0.03 * found
    for name in FAMILIES:
        assert stored[name]["agreed_wrongly"] <= 0.03 * stored[name]["agreed"]
        assert stored[name]["robust_wrongly"] <= 0.03 * stored[name]["robust"]
        assert stored[name]["given_wrongly"] >= stored[name]["agreed_wrongly"]


def test_no_more_than_half_of_the_true_gains_are_lost_unless_who_knows_the_prior_loses_as_many(stored):
    assert 3 * sum(stored[name]["found"] for name in FAMILIES) >= 2 * sum(stored[name]["true"] for name in FAMILIES)
    for name in FAMILIES:
        found, informed, true = (stored[name][each] for each in ("found", "informed_found", "true"))
        assert 2 * found >= true or 2 * informed < true
        assert found >= 0.8 * informed


def test_intervals_of_single_episodes_cover(stored):
    for name in FAMILIES:
        assert round(stored[name]["covered"] / stored[name]["changed"], 2) >= 0.92


def test_what_the_states_hide_no_resample_doubts(stored):
    """The policy looks best on the estimate, is worse than what was done, and many gains are still agreed on."""
    found = stored["sepsis"]
    assert found["true_value"] < found["observed"]
    assert 0 < found["agreed"] < found["given"]
    shown = (Path(__file__).parents[2] / "docs" / "replays.md").read_text()
    for number in (
        found["given"],
        found["agreed"],
        found["robust"],
        f"{found['true_value']:.3f}",
        f"{found['observed']:.3f}",
    ):
        assert str(number) in shown


def test_a_trial_runs_from_start_to_end():
    found = robust_gains(Family(5, 2, 20, 0.1), 1, 10)
    assert found["robust"] <= found["agreed"] <= found["given"]
    assert found["found"] <= found["true"]
    assert found["informed_found"] == found["informed"] - found["informed_wrongly"] <= found["true"]
    assert found["covered"] <= found["changed"]
    section = EXPERIMENTS["robustness"].section({"some": found})
    assert "of these wrong" in section.sheets["robustness"].markdown()
