"""Plans called agreed are gains in truth, as stored; and a trial of it from start to end."""

from pathlib import Path

import pytest

from studies.experiments import Store
from studies.optimism import FAMILIES, MOST, Noisy, true_gains
from studies.registry import EXPERIMENTS
from studies.robustness import Family

STORED = Path(__file__).parents[2] / "results" / "optimism"


@pytest.fixture(scope="module")
def stored():
    return {name: each.result for name, each in Store(STORED).records()["optimism"].items()}


def test_at_most_three_percent_of_the_plans_that_every_coupling_agrees_on_are_no_gains(stored):
    assert set(FAMILIES) == set(stored)
    for found in stored.values():
        for k in range(MOST):
            for called in ("confident", "agreed", "robust"):
                assert found[f"{called}_wrong"][k] <= 0.03 * found[called][k]
            assert found["wrong"][k] / found["plans"][k] > found["confident_wrong"][k] / found["confident"][k]


def test_the_estimate_promises_too_much_and_the_posterior_less(stored):
    for found in stored.values():
        for promised, judged, true in zip(found["promised"], found["judged"], found["true"], strict=True):
            assert promised > 1.1 * true
            assert abs(judged - true) < abs(promised - true) / 2


def test_a_trial_runs_from_start_to_end():
    found = true_gains(Noisy(Family(5, 2, 10), 0.1, 0), 1)
    for few, many in (("robust", "agreed"), ("agreed", "plans")):
        assert all(each <= every for each, every in zip(found[few], found[many], strict=True))
    section = EXPERIMENTS["optimism"].section({"some": found})
    assert "of these no gain" in section.sheets["optimism"].markdown()
