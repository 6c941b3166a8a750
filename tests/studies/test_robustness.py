"""Gains called robust are gains in truth, as stored; and a trial of it from start to end."""

from pathlib import Path

import pytest

from studies.experiments import Store
from studies.registry import EXPERIMENTS
from studies.robustness import FAMILIES, Family, _most_found, robust_gains

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


def test_no_more_than_half_of_the_true_gains_are_lost_unless_who_knows_how_processes_are_drawn_loses_as_many(stored):
    def share(found, name):
        return stored[name][found] / stored[name]["true"]

    whole = {each: sum(stored[name][each] for name in FAMILIES) for each in ("agreed_found", "true", "lasting")}
    assert 3 * whole["agreed_found"] >= 2 * whole["true"]
    assert 2 * sum(stored[name]["lasting_found"] for name in FAMILIES) >= whole["lasting"]
    for name in FAMILIES:
        assert share("agreed_found", name) >= 0.5 or share("informed_found", name) < 0.5
        assert share("agreed_found", name) >= 0.9 * share("informed_found", name)
        assert _most_found(stored[name]) >= stored[name]["informed_found"]


def test_intervals_of_single_episodes_cover(stored):
    for name in FAMILIES:
        assert stored[name]["covered"] >= 0.92 * stored[name]["changed"]
        assert stored[name]["covered"] >= stored[name]["informed_covered"] - 0.02 * stored[name]["changed"]


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
    found = robust_gains(Family(5, 2, 20, 0.1), [0], 10)
    assert found["robust"] <= found["agreed"] <= found["given"]
    assert found["agreed_found"] == found["agreed"] - found["agreed_wrongly"] <= found["true"]
    assert found["informed_found"] == found["informed"] - found["informed_wrongly"] <= found["true"]
    assert found["lasting_found"] <= found["lasting"] <= found["true"] == sum(found["informed_sure"])
    assert sum(found["informed_sure"] + found["informed_sure_wrongly"]) == 20
    sure = {"informed_sure": [9, 1, 50, 97], "informed_sure_wrongly": [9, 9, 2, 3]}
    assert _most_found(sure) == 97  # 3 of 100 are wrong, then 5 of 152
    assert found["covered"] <= found["changed"]
    section = EXPERIMENTS["robustness"].section({"some": found})
    assert "of these wrong" in section.sheets["robustness"].markdown()
