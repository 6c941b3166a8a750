"""Intervals of answers within strata, from halves of the people and people who were drawn again."""

import numpy as np
import pytest
from scipy.stats import binom

from countermax.causation._crossing import Crossing, halved_intervals, without_effects
from countermax.causation._questions import Arms, Evidence


@pytest.mark.parametrize("effect", [0.0, 3.0])
def test_bias_at_a_kink_is_told_by_halves(effect):
    """The mean distance over 40 strata, each known up to a standard error: the estimates are .8 too large at 0.

    False alarms: 1e-4 for a coverage of 95 %.
    """
    stream, trials, held, plain = np.random.default_rng(0), 200, 0, 0
    for _ in range(trials):
        gap = effect + stream.normal(size=40)
        found = np.abs(gap).mean()
        halves, again = (np.abs(gap + stream.normal(size=(number, 40))).mean(axis=1) for number in (40, 400))
        unknown = {"a": float("nan")}  # nothing is known about strata without an effect
        interval = halved_intervals({"a": found}, {"a": halves}, {"a": again}, unknown, (0.0, 9.0), 0.95, 1e6)["a"]
        held += interval.lower <= effect <= interval.upper
        plain += abs(found - effect) < 1.96 * again.std()
    assert held >= binom.ppf(1e-4, trials, 0.95)
    assert (plain < 0.05 * trials) == (effect == 0)


def test_an_answer_that_few_draws_have_can_be_anything():
    few = np.array([0.5] + [np.nan] * 9)
    found = halved_intervals({"a": 0.5}, {"a": few}, {"a": few}, {"a": 0.5}, (0.0, 1.0), 0.95, 10.0)
    assert found["a"][:2] == (0.0, 1.0)


def test_only_strata_that_may_have_no_effect_lose_theirs():
    stream = np.random.default_rng(0)
    control, treated = np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([[0.52, 0.48], [0.9, 0.1]])
    drawn = [each + 0.03 * stream.normal(size=(400, 2, 1)) * [1, -1] for each in (control, treated)]
    strata = np.full(2, 0.5)
    whole, again = (
        Evidence(Arms(*pair), None, 0.25, weight)
        for pair, weight in (((control, treated), strata), (drawn, np.full((400, 2), 0.5)))
    )
    found = without_effects(Crossing(whole, whole, again, 100.0), 0.95)
    np.testing.assert_allclose(found.arms.control[0], [0.505, 0.495])
    np.testing.assert_allclose(found.arms.treated[0], [0.505, 0.495])
    np.testing.assert_allclose(found.arms.treated[1], treated[1])
