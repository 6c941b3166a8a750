"""Intervals within strata: what halves of the people say, without drawing them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import ndtr
from scipy.stats import binom

from countermax import Design, Trial
from countermax._core.labels import Labels
from countermax.causation._crossing import Crossing, crossed_limits, halved_interval, without_effects
from countermax.causation._questions import questions_about

PNS = questions_about(Labels((0, 1)), ("a", "b"), [1], None, None, None, False)[2]


def crossing(events, size=100):
    """Strata of independent people, as many in each arm, with the number of those who had the event."""
    events = np.asarray(events, np.float64)
    return of_totals(np.stack([size - events, events], axis=2))


def of_totals(totals):
    units = sparse.csc_array(np.diag(np.sqrt(totals.ravel())))
    return Crossing((totals,), (units,), 0.5, True, False, np.inf)


def test_the_mean_over_all_halves_is_found_without_drawing_them():
    """The lower bound of PNS is the larger of 0 and a difference, whose halves are normal: a closed form."""
    error = np.sqrt((0.5 * 0.5 + 0.6 * 0.4) / 100)
    at = np.array([0.1, -0.1]) / error  # what the treatment adds in one stratum, it takes away in the other
    expected = error * (at * ndtr(at) - np.exp(-at * at / 2) / np.sqrt(2 * np.pi))
    bounds, _ = crossed_limits(PNS, crossing([[50, 50], [60, 40]]), "trial", "any coupling")
    assert bounds.lower == pytest.approx(expected.mean(), abs=1e-3)
    assert 0 < bounds.lower < 0.045  # the mean of the two estimates, .1 and 0, is biased


def test_means_over_strata_err_as_the_people_who_were_drawn():
    """Against a simulation of a mean over three strata, whose frequencies are estimated too. False alarms: 1e-4."""
    stream, cells = np.random.default_rng(0), np.array([0.1, 0.2, 0.1, 0.3, 0.2, 0.1]).reshape(3, 2)
    slopes = np.array([[[1.0, 3.0, -2.0, 0.0], [0.0, 1.0, 1.0, 5.0], [2.0, 2.0, 4.0, -1.0]]])
    drawn, said = stream.multinomial(400, cells.ravel(), (4000, 2)).reshape(4000, 2, 3, 2).astype(float), []
    for totals in drawn:
        laws = np.concatenate(totals / totals.sum(axis=2, keepdims=True), axis=1)
        said.append((slopes[0] * laws).sum(axis=1) @ (totals.sum(axis=(0, 2)) / totals.sum()))
    expected = np.stack([400 * cells, 400 * cells])
    known = of_totals(expected)
    found = known.covariance(slopes, (slopes * known.laws).sum(axis=2))[0, 0]
    assert np.var(said) == pytest.approx(found, rel=4 * np.sqrt(2 / 4000))


@pytest.mark.parametrize("effect", [0.0, 3.0])
def test_bias_at_a_kink_is_told_by_halves(effect):
    """The mean distance over 40 strata, each known up to a standard error: the estimates are .8 too large at 0.

    False alarms: 1e-4 for a coverage of 95 %.
    """
    stream, trials, held, plain = np.random.default_rng(0), 200, 0, 0
    people = crossing(np.full((2, 40), 50.0))
    errors, ones = people.points[0][:, :, 1] - people.points[0][:, :, 3], np.ones(40)
    unit = np.sqrt(2 * 0.25 / 100)
    for _ in range(trials):
        gap = effect + stream.normal(size=40)
        found, halves = np.abs(gap), np.abs(gap + errors / unit)
        interval = halved_interval(
            (found, ones), (halves, np.ones_like(halves)), float("nan"), people, (0.0, 9.0), 0.95
        )  # nothing is known about strata without an effect
        held += interval.lower <= effect <= interval.upper
        plain += abs(found.mean() - effect) < 1.96 / np.sqrt(40)
    assert held >= binom.ppf(1e-4, trials, 0.95)
    assert (plain < 0.05 * trials) == (effect == 0)


def test_an_answer_about_nobody_can_be_anything():
    people, nobody = crossing([[50], [50]]), np.zeros(1)
    halves = np.zeros((len(people.points[0]), 1))
    assert halved_interval((nobody, nobody), (halves, halves), 0.5, people, (0.0, 1.0), 0.95)[:2] == (0.0, 1.0)


def test_only_strata_that_may_have_no_effect_lose_theirs():
    found = without_effects(replace(crossing([[48, 48], [50, 90]]), share=0.25), 0.95)
    np.testing.assert_allclose(found.arms.control[0], [0.515, 0.485])
    np.testing.assert_allclose(found.arms.treated[0], [0.515, 0.485])
    np.testing.assert_allclose(found.arms.treated[1], [0.1, 0.9])


def test_there_are_never_fewer_points_than_cells():
    """Of fewer no combination is uncorrelated, and all numbers were NaN: 28 outcomes in 30 strata, from two sources."""
    many = SimpleNamespace(laws=np.zeros((30, 140)), columns=None)
    normal = Crossing._normal.fget(many)
    np.testing.assert_allclose(normal.T @ normal / len(normal), np.eye(140), atol=1e-9)


@pytest.mark.parametrize("by", [0.0, 0.2])
def test_one_number_has_one_interval_within_strata(by):
    """With two outcomes and a gain in every stratum, Gumbel-max says what monotonicity says, else it does not."""
    rng = np.random.default_rng(3)
    stratum, arm = rng.integers(0, 3, 3000), rng.integers(0, 2, 3000)
    alive = rng.random(3000) < 0.3 + 0.1 * stratum + by * arm
    people = {"outcome": np.where(alive, "alive", "dead"), "arm": np.where(arm, "B", "A"), "stratum": stratum}
    trial = Trial(pd.DataFrame(people), outcome="outcome", arm="arm", treated="B", design=Design(strata="stratum"))
    assert {each.coupling for each in trial.causes("alive").rows} == {"monotone", "any coupling"}  # none that is biased
    found = trial.causes("alive", couplings=["gumbel-max"])
    assert sum("biased" in each for each in found.notes) == 1
    for quantity in ("PN", "PS", "PNS"):
        ends = [
            (row.ci_lower, row.ci_upper) for row in (found.row(quantity, each) for each in ("Gumbel-max", "monotone"))
        ]
        assert (ends[0] == ends[1]) == (by > 0)
