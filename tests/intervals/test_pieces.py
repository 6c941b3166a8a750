"""Limits with many pieces that are equally good: their intervals hold them, where tests of proposed truths do not."""

import numpy as np
import pytest
from scipy.stats import binom

from countermax import InputError, Trial
from countermax.bounds import better_bounds
from countermax.bounds._pieces import largest_worth
from countermax.intervals import Interval
from countermax.intervals._inversion import inverted_intervals, reaching
from countermax.intervals._sampling import CountSampling, errors_when_drawn

P = np.array([0.05, 0.1, 0.15, 0.2, 0.2, 0.15, 0.1, 0.05])
Q = np.roll(P, 1)
BETTER = np.triu(np.ones((8, 8)), 1)


def pieces_alone(counts, level=0.95):
    nothing = Interval(np.inf, -np.inf, level)
    return reaching(nothing, CountSampling(*counts), largest_worth(-BETTER), largest_worth(BETTER))


@pytest.mark.parametrize(("size", "level"), [(50, 0.95), (400, 0.95), (100, 0.8)])
def test_a_range_whose_pieces_all_tie_is_held(size, level):
    """At least as often as stated in 1,000 samples, with a false-alarm level of 1e-6."""
    lower, upper = better_bounds(np.log(P), np.log(Q), np.arange(8.0))
    stream = np.random.default_rng(3)
    held = 0
    for _ in range(1000):
        found = pieces_alone([stream.multinomial(size, world).astype(float) for world in (P, Q)], level)
        held += found.lower <= lower + 1e-9 and found.upper >= upper - 1e-9
    assert held >= binom.ppf(1e-6, 1000, level)


def test_the_ends_are_those_of_a_calculation_by_hand():
    """The upper limit is the least of P(below h) + Q(above h); here one threshold is far below the others."""
    counts = [np.array([70.0, 10, 10, 10]), np.array([10.0, 10, 10, 70])]
    worth = np.triu(np.ones((4, 4)), 1)
    nothing = Interval(np.inf, -np.inf, 0.95)
    found = reaching(nothing, CountSampling(*counts), largest_worth(-worth), largest_worth(worth))
    smooth = [(each + 0.5) / 102 for each in counts]
    ends = []
    for h in range(4):
        parts = [smooth[0][:h].sum(), smooth[1][h + 1 :].sum()]
        value = (counts[0][:h].sum() + counts[1][h + 1 :].sum()) / 100
        ends.append((value, np.sqrt(sum(each * (1 - each) / 100 for each in parts))))
    by_four, by_two = 2.4977, 2.2414  # standard errors that 0.05 / 4 and 0.05 / 2 are beyond
    far = [value - by_four * error > min(v + by_four * e for v, e in ends) for value, error in ends]
    assert far == [False, True, True, False]
    assert found.upper == pytest.approx(min(ends[h][0] + by_two * ends[h][1] for h in (0, 3)), abs=1e-4)
    left = reaching(nothing, CountSampling(*counts), largest_worth(-worth), largest_worth(worth), fewest=4)
    assert left.upper == found.upper
    assert left.lower == np.inf  # three thresholds only


def test_errors_are_those_of_draws():
    """Within 15 %: 1,000 draws have an error of 2 %, and half a person more for each outcome adds the rest."""
    sampling = CountSampling(300 * P, 200 * Q)
    pieces = largest_worth(BETTER)
    drawn = errors_when_drawn(sampling, pieces.here, pieces.there)
    varies = drawn > 1e-9
    assert varies.sum() == 8
    np.testing.assert_allclose(sampling.errors_of(pieces.here, pieces.there)[varies], drawn[varies], rtol=0.15)


def test_a_comparison_reaches_as_far():
    counts = [np.array([10.0, 30, 40, 20]), np.array([20.0, 10, 30, 40])]
    worth = np.triu(np.ones((4, 4)), 1)
    found = Trial.from_counts(*counts, score=np.arange(4.0)).compare(1, couplings=["independent"])
    for quantity, pieces in (("better", worth), ("worse", worth.T)):
        row = found.row(quantity, "any coupling", "everybody")
        nothing = Interval(np.inf, -np.inf, 0.95)
        alone = reaching(nothing, CountSampling(*counts), largest_worth(-pieces), largest_worth(pieces))
        assert row.ci_lower <= alone.lower
        assert row.ci_upper >= alone.upper


def test_levels_that_the_draws_do_not_reach_are_refused_and_the_others_differ():
    sampling = CountSampling(np.array([70.0, 30.0]), np.array([40.0, 60.0]))

    def ask(p, q):
        return (q - p)[:, 1:]

    lows = [float(inverted_intervals(sampling, ask, level=level).lower[0]) for level in (0.9, 0.95, 0.98, 0.99)]
    assert lows[0] > lows[1] > max(lows[2:])
    assert min(lows) > 0.05  # a z-value of 4.2: no effect is excluded at these levels, too
    with pytest.raises(InputError, match=r"`level` must be at most 0.99 here"):
        inverted_intervals(sampling, ask, level=0.995)
