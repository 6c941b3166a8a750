"""The study of two arms: its intervals are those that are printed, its rivals are right, and it runs."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from countermax import Trial, better_bounds
from countermax.comparison._measuring import many_solved
from countermax.couplings._named import named_couplings
from studies.coverage import (
    BENEFIT,
    BONFERRONI,
    COUPLINGS,
    HARM,
    PERCENTILE,
    SCORE,
    TESTS,
    TRUTHS,
    WIN,
    Coverage,
    better_limits,
    coverage,
    newcombe,
    score_intervals,
)


def intervals(counts, observed):
    score = np.arange(len(counts[0]), dtype=float)
    with jax.enable_x64(True):
        return score_intervals(
            tuple(np.array(each, float) for each in counts),
            observed,
            many_solved(named_couplings(COUPLINGS), observed, (score, score), False),
        )


def test_intervals_are_those_that_are_printed():
    counts = [12, 20, 18], [4, 16, 30]
    found = intervals(counts, 1)
    asked = Trial.from_counts(*counts, labels=["0", "1", "2"], score=[0, 1, 2]).compare("1", couplings=COUPLINGS)
    printed = {(row.quantity, row.about, row.coupling): (row.ci_lower, row.ci_upper) for row in asked.rows}
    names = {"everybody better": ("better", "everybody"), "everybody worse": ("worse", "everybody")}
    names |= {each: (each, "everybody") for each in ("agreement", "effect variance")}
    for name, limits in found.items():
        coupling, _, quantity = name.partition(": ")
        key = (*names.get(quantity, (quantity, "this person")), coupling) if quantity else (WIN, "two people", "")
        assert_allclose(limits, printed[key], atol=1e-12, err_msg=name)


def test_with_two_outcomes_the_benefit_is_the_probability_of_necessity_and_sufficiency():
    counts = [97, 53], [70, 80]
    row = Trial.from_counts(*counts, labels=["no", "yes"]).causes("yes").row("PNS", "any coupling")
    assert_allclose(intervals(counts, 0)[BENEFIT], (row.ci_lower, row.ci_upper), atol=1e-6)


def test_newcombe_limits_are_the_published_ones():
    """Method 10 for 56/70 and 48/80 (Newcombe 1998, table II)."""
    lower, upper = newcombe((np.array([56.0]), np.array([48.0])), (70.0, 80.0), 0.025)
    assert_allclose([*lower, *upper], [0.0524, 0.3339], atol=5e-5)


@pytest.mark.parametrize("seed", range(5))
def test_bonferroni_limits_close_in_on_the_bounds(seed):
    stream = np.random.default_rng(seed)
    p, q = stream.dirichlet(np.ones(5), 2)
    score = np.arange(5.0)
    for sign, order in ((1, slice(None)), (-1, slice(None, None, -1))):
        bounds = better_bounds(np.log(p), np.log(q), sign * score)
        lower, upper = better_limits(40 * p[order], 40 * q[order])
        assert lower <= bounds.lower + 1e-6
        assert bounds.upper <= upper + 1e-6
        assert_allclose(better_limits(1e12 * p[order], 1e12 * q[order]), (bounds.lower, bounds.upper), atol=1e-5)


@pytest.mark.parametrize(
    "name", ["two proportions, .35 and .50", pytest.param("unequal arms, clear effect", marks=pytest.mark.slow)]
)
def test_every_number_gets_its_coverage(name):
    truth = TRUTHS[name]
    found = coverage(truth, truth.sizes[0], 3, 0)
    assert set(found[SCORE]) == set(found[PERCENTILE])
    assert set(found[BONFERRONI]) == {BENEFIT, HARM}
    for method in (SCORE, PERCENTILE, BONFERRONI):
        assert all(each["coverage"] in (0, 1 / 3, 2 / 3, 1) and each["width"] >= 0 for each in found[method].values())
    assert set(found["excludes no effect"]) == set(TESTS if len(truth.p) == 2 else TESTS[:-1])
    sheets = Coverage().section({f"{name}, 30 and 1000": found}).sheets
    names = {f"coverage{part}" for part in ("", "_numbers", "_truths", "_widths", "_width_summary", "_power")}
    assert names == set(sheets)
    assert [row[0] for row in sheets["coverage_numbers"].rows].count("P(outcome)") == 1
    assert len(sheets["coverage"].rows) == 1


def test_truths_are_laws_and_each_size_has_a_cell():
    for truth in TRUTHS.values():
        assert len(truth.p) == len(truth.q) > truth.observed
        assert truth.p[truth.observed] > 0
        assert_allclose([sum(truth.p), sum(truth.q)], 1, atol=1e-12)
    names = [cell.name for cell in Coverage().cells("best", None)]
    assert len(set(names)) == len(names) == sum(len(truth.sizes) for truth in TRUTHS.values()) + 3
    assert {"unequal arms, no effect, 30 and 1000", "one step up, uniform, 8 outcomes, 200 an arm"} <= set(names)


def test_a_change_is_not_excluded_where_a_piece_that_reaches_farther_has_many_copies():
    """Five of 50 against two had the last outcome, so that nobody need have changed to the one before it."""
    assert intervals(([35, 6, 4, 5], [35, 6, 7, 2]), 3)["inverse CDF: P(2)"][0] == 0
