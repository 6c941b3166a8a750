"""Confidence limits by linearisation and score tests: against textbook intervals, tests, simulation; coherence."""

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from countermax import Design, GumbelMax, Trial
from countermax.intervals._linearised import (
    CONCAVE,
    CONVEX,
    MIXED,
    Answers,
    _moved,
    _tangents,
    joint_reach,
    limits_of,
    win_limits,
)
from countermax.intervals._sampling import of_counts

Z = stats.norm.ppf(0.975)


def counted(*counts):
    return of_counts([np.asarray(each, float) for each in counts], "people")


def asked(sampling, functions, *, whom=0, denominators=None, level=0.95):
    """Limits of functions of both arms, (function, shape) each."""
    cells = len(sampling.laws)
    kinds = np.array([(shape, whom, 0.0, 1.0) for _, shape in functions]).T

    def ask(laws):
        arms = sampling.split(laws)
        values = np.stack([function(*arms) for function, _ in functions], axis=1)
        return values, Answers(kinds[0].astype(int), kinds[1].astype(int), kinds[2], kinds[3])

    weights = np.full((1, cells), 1 / len(sampling.cells)) if denominators is None else denominators
    return limits_of(sampling, ask, weights, level)


def score_statistic(counts, sizes, coefficients, value):
    """Of `a p + b q = value` for two proportions: the fit under the constraint by a plain optimiser."""
    (x, y), (n, m), (a, b) = counts, sizes, coefficients
    if b == 0:
        fit = (value / a, 0.5)
    else:

        def loss(p):
            q = (value - a * p) / b
            if not (0 < p < 1 and 0 < q < 1):
                return np.inf
            return -(x * np.log(p) + (n - x) * np.log(1 - p) + y * np.log(q) + (m - y) * np.log(1 - q))

        grid = np.linspace(1e-9, 1 - 1e-9, 4001)
        best = grid[np.argmin([loss(p) for p in grid])]
        found = optimize.minimize_scalar(loss, bounds=(max(best - 3e-4, 1e-12), min(best + 3e-4, 1 - 1e-12)),
                                         method="bounded", options={"xatol": 1e-12})  # fmt: skip
        fit = (found.x, (value - a * found.x) / b)
    variance = a**2 * fit[0] * (1 - fit[0]) / n + b**2 * fit[1] * (1 - fit[1]) / m
    total = n + m
    return (a * x / n + b * y / m - value) / np.sqrt(variance * total / (total - 1))


@pytest.mark.parametrize(("x", "n", "y", "m"), [(30, 100, 45, 100), (3, 40, 12, 35), (0, 25, 6, 30), (70, 80, 10, 90)])
def test_a_difference_of_proportions_has_miettinen_and_nurminens_limits(x, n, y, m):
    sampling = counted([n - x, x], [m - y, y])
    for side, shape in enumerate((CONVEX, CONCAVE)):
        found = asked(sampling, [(lambda p, q: 0.5 + (q[:, 1] - p[:, 1]) / 2, shape)])[side][0] * 2 - 1
        assert abs(score_statistic((x, y), (n, m), (-1, 1), found)) == pytest.approx(Z, rel=2e-3)


@pytest.mark.parametrize(("x", "n", "y", "m"), [(30, 100, 20, 100), (12, 30, 210, 1000), (5, 60, 4, 50)])
def test_a_ratio_of_proportions_has_koopmans_limits(x, n, y, m):
    """The largest P(Y = event | X = event) over all couplings is `q / p`, where that is below one."""
    sampling = counted([n - x, x], [m - y, y])
    denominators = np.array([[0.5] * 4, [0, 1, 0, 0]])
    lower, upper = asked(
        sampling, [(lambda p, q: np.minimum(1, q[:, 1] / p[:, 1]), CONCAVE)], whom=1, denominators=denominators
    )
    for found in (lower[0], upper[0]):
        if 0 < found < 1:
            assert abs(score_statistic((x, y), (n, m), (-found, 1), 0.0)) == pytest.approx(Z, rel=2e-3)
    assert lower[0] < 1


@pytest.mark.parametrize(("x", "n"), [(0, 40), (3, 50), (200, 400)])
def test_one_proportion_has_clopper_and_pearsons_limits(x, n):
    """Exact ones: those of a score test cover less than 94 % for some proportions, whatever the size."""
    sampling = counted([5, 20, 15], [n - x, 0, x])
    found = [each[0] for each in asked(sampling, [(lambda p, q: q[:, 2], MIXED)])]
    exact = stats.binomtest(x, n).proportion_ci(0.95, method="exact")
    np.testing.assert_allclose(found, exact, atol=1e-6)


def test_an_interval_excludes_no_effect_exactly_where_the_chi_square_test_rejects():
    """Campbell's form of it, with N - 1 in place of N."""
    stream = np.random.default_rng(1)
    decided = 0
    for _ in range(150):
        n, m = stream.integers(20, 200, 2)
        p = stream.uniform(0.1, 0.9)
        x, y = stream.binomial(n, p), stream.binomial(m, np.clip(p + stream.normal(0, 0.12), 0.02, 0.98))
        if not 0 < x + y < n + m:
            continue
        table = np.array([[n - x, x], [m - y, y]])
        square = stats.chi2_contingency(table, correction=False).statistic * (n + m - 1) / (n + m)
        lower, _ = asked(counted(*table), [(lambda p, q: np.maximum(0, q[:, 1] - p[:, 1]), CONVEX)])
        rejects = square > Z**2 and y / m > x / n
        assert (lower[0] > 1e-9) == rejects
        decided += rejects
    assert decided > 20


def test_a_win_probability_excludes_one_half_exactly_where_mann_and_whitneys_test_rejects():
    stream = np.random.default_rng(2)
    decided = 0
    for _ in range(150):
        size = stream.integers(2, 7)
        n, m = stream.integers(15, 150, 2)
        p = stream.dirichlet(np.ones(size))
        q = p * np.exp(stream.normal(0, 0.5) * np.arange(size))
        here, there = stream.multinomial(n, p), stream.multinomial(m, q / q.sum())
        score = np.arange(size)
        wins = (score[None, :] > score[:, None]) + 0.5 * (score[None, :] == score[:, None])
        found = win_limits(counted(here, there), wins, 0.95)
        if len(np.unique(np.repeat(score, here + there))) < 2:
            continue
        test = stats.mannwhitneyu(
            np.repeat(score, there), np.repeat(score, here), method="asymptotic", use_continuity=False
        )
        rejects = test.pvalue < 0.05
        assert (found[0] > 0.5 or found[1] < 0.5) == rejects
        decided += rejects
    assert decided > 30


def test_the_joint_correction_holds_and_costs_less_than_bonferronis():
    """200,000 normal vectors: the share beyond the reach is at most 2.5 % but for 5 standard errors."""
    stream = np.random.default_rng(3)
    for size in (2, 5, 9):
        root = np.tril(np.ones((size, size))) @ np.diag(stream.uniform(0.5, 1.5, size))  # like cumulative shares
        covariance = root @ root.T
        spread = np.sqrt(np.diag(covariance))
        correlation = covariance / np.outer(spread, spread)
        reach = joint_reach(correlation, 0.025)
        assert Z < reach < -stats.norm.ppf(0.025 / size)
        drawn = stream.standard_normal((200_000, size)) @ np.linalg.cholesky(correlation).T
        assert (drawn.max(axis=1) > reach).mean() < 0.025 + 5 * np.sqrt(0.025 / 200_000)
    assert joint_reach(np.ones((1, 1)), 0.025) == pytest.approx(Z)


def test_tangents_are_those_of_exact_gradients(double):
    sampling = counted([30, 40, 30], [10, 30, 60])
    point = sampling.smooth

    def agreement(laws):
        p, q = np.split(laws, 2, axis=-1)
        return np.asarray(jax.vmap(lambda p, q: GumbelMax().joint(p, q).trace())(np.log(p), np.log(q)))

    moved = _moved(sampling, point[None])
    values = agreement(moved.reshape(-1, 6)).reshape(1, 7, 1)
    (tangent,) = _tangents(sampling, values, point[None])
    exact = jax.grad(lambda laws: GumbelMax().joint(jax.numpy.log(laws[:3]), jax.numpy.log(laws[3:])).trace())(point)
    assert tangent[:, 0] @ point == pytest.approx(values[0, -1, 0], abs=1e-9)
    for some in (slice(0, 3), slice(3, 6)):  # along the simplex; a constant more in all cells of an arm changes nothing
        slopes = np.asarray(exact)[some]
        np.testing.assert_allclose(np.diff(tangent[some, 0]), np.diff(slopes), atol=1e-4)


def step_up(size):
    """Everybody gains one step: the effect does not vary, and many thresholds are equally good."""
    p = np.append(np.full(size - 1, 1 / (size - 1)), 0.0)
    return p, np.roll(p, 1)


@pytest.mark.parametrize("size", [4, pytest.param(8, marks=pytest.mark.slow)])
def test_truths_on_kinks_are_covered(size):
    """20 samples: less than 14 of them would be covered once in 10,000 times if each were with probability 95 %."""
    p, q = step_up(size)
    stream = np.random.default_rng(4)
    score = list(range(size))
    held = {}
    for _ in range(20):
        trial = Trial.from_counts(*stream.multinomial(400, [p, q]), labels=score, score=score)
        found = trial.compare(0, couplings=["inverse-cdf", "gumbel-max"])
        for quantity, truth in (("effect variance", 0.0), ("better", 1.0)):
            row = found.row(quantity, "inverse CDF", "everybody")
            held.setdefault(quantity, []).append(row.ci_lower <= truth + 1e-9 and truth <= row.ci_upper + 1e-9)
        row = found.row("worse", "Gumbel-max", "everybody")
        assert row.ci_lower <= row.value <= row.ci_upper
    assert min(map(sum, held.values())) >= 14


def share_covered(function, shape, size, count, samples):
    """How many samples without an effect have limits that hold its answer; the law is that of a die."""
    stream, law = np.random.default_rng(8), np.full(size, 1 / size)
    truth = float(function(law[None], law[None])[0])
    found = [asked(counted(*stream.multinomial(count, [law, law])), [(function, shape)]) for _ in range(samples)]
    return sum(lower[0] <= truth + 1e-9 and truth <= upper[0] + 1e-9 for lower, upper in found)


def test_a_sum_of_minima_is_covered_with_more_pieces_than_points():
    """30 outcomes, a billion pieces. 12 samples: less than 8 would be covered once in 100,000 times, at 97.5 % each."""
    assert share_covered(lambda p, q: np.minimum(p, q).sum(axis=-1), CONCAVE, 30, 300, 12) >= 8


def test_no_effect_is_covered_where_many_outcomes_leave_it():
    """The distance of two laws, zero in truth. 12 samples: less than 8 once in 5,000 times, at 95 % each."""
    assert share_covered(lambda p, q: np.sqrt(((p - q) ** 2).sum(axis=-1)), MIXED, 60, 600, 12) >= 8


def trial_frame(stream, count=240):
    arm = stream.integers(0, 2, count)
    outcome = np.array(
        [stream.choice(4, p=[0.3, 0.3, 0.25, 0.15] if each == 0 else [0.2, 0.25, 0.3, 0.25]) for each in arm]
    )
    ordered = pd.Categorical(outcome, range(4), ordered=True)
    return pd.DataFrame({"arm": arm, "outcome": ordered, "one": 1.0, "same": "a", "person": np.arange(count)})


READ = {"outcome": "outcome", "arm": "arm"}


def limits(result):
    return np.array([[each.ci_lower, each.ci_upper] for each in result.rows], float)


@pytest.mark.parametrize("design", [{"weights": "one"}, {"strata": "same"}, {"clusters": "person"}])
def test_a_design_without_content_changes_nothing(design):
    frame = trial_frame(np.random.default_rng(5))
    plain, designed = Trial(frame, **READ), Trial(frame, **READ, design=Design(**design))
    for first, second in (
        (plain.compare(1), designed.compare(1)),
        (plain.causes([2, 3]), designed.causes([2, 3])),
    ):
        np.testing.assert_allclose(limits(first), limits(second), atol=1e-9)


@pytest.mark.parametrize("more", [{}, {"weights": "weight"}, {"clusters": "town"}])
def test_the_order_of_rows_and_names_of_strata_and_clusters_change_nothing(more):
    stream = np.random.default_rng(8)
    frame = trial_frame(stream, 150)
    frame["stratum"], frame["town"] = stream.integers(0, 3, 150), stream.integers(0, 30, 150)
    frame["weight"] = stream.choice([0.5, 1.0, 2.0], 150)
    renamed = frame.assign(stratum=frame.stratum.map({0: "c", 1: "a", 2: "b"}), town=99 - frame.town)
    asked = {**READ, "design": Design(strata="stratum", **more)}
    first, *others = (
        limits(Trial(each, **asked).causes([2, 3], couplings=["inverse-cdf"]))
        for each in (frame, frame.sample(frac=1, random_state=1), renamed)
    )
    for other in others:
        np.testing.assert_allclose(other, first, atol=1e-12)


def test_neither_end_of_a_score_nor_which_arm_is_first_nor_who_is_asked_about_changes_a_number():
    counts = np.random.default_rng(3).multinomial(60, [[0.4, 0.3, 0.2, 0.1], [0.3, 0.2, 0.25, 0.25]])

    def found(arms, score, seen=1):
        trial = Trial.from_counts(*arms, labels=list("abcd"), score=score)
        result = trial.compare("abcd"[seen])
        return {(each.quantity, each.about, each.coupling): (each.ci_lower, each.ci_upper) for each in result.rows}

    turned = {"better": "worse", "worse": "better"}
    plain, reversed_ = found(counts, [0, 1, 2, 3]), found(counts, [3, 2, 1, 0])
    swapped, other = found(counts[::-1], [0, 1, 2, 3]), found(counts, [0, 1, 2, 3], seen=2)
    for (quantity, about, coupling), limits_ in plain.items():
        key = (turned.get(quantity, quantity), about, coupling)
        if quantity not in ("expected score", "effect", "win probability"):
            assert reversed_[key] == pytest.approx(limits_, abs=1e-8), key
        if about == "everybody":
            assert swapped[key] == pytest.approx(limits_, abs=1e-8), key
            assert other[quantity, about, coupling] == pytest.approx(limits_, abs=1e-8), key


def test_one_number_has_one_interval_and_no_coupling_leaves_that_of_all():
    stream = np.random.default_rng(6)
    for _ in range(4):
        counts = [stream.multinomial(stream.integers(40, 200), stream.dirichlet(2 * np.ones(3))) for _ in range(2)]
        if not counts[0][0]:
            continue
        trial = Trial.from_counts(*counts, labels=[0, 1, 2], score=[0, 1, 2])
        compared, causes = trial.compare(0, couplings="all"), trial.causes([2], couplings="all")
        for result in (compared, causes):
            whole = {(row.quantity, row.about): row for row in result.rows if row.coupling == "any coupling"}
            for row in result.rows:
                every = whole.get((row.quantity, row.about), row)
                assert every.ci_lower <= row.ci_lower <= row.ci_upper <= every.ci_upper
        if any(row.coupling == "monotone" and row.quantity == "PNS" for row in causes.rows):
            assert limits_at(causes, "PNS", "monotone") == pytest.approx(limits_at(causes, "PNS", "inverse CDF"))
        for kind in ("any coupling", "Gumbel-max"):
            better = compared.row("better", kind, "everybody")
            assert limits_at(causes, "benefit", kind) == pytest.approx((better.ci_lower, better.ci_upper), abs=1e-9)


def limits_at(result, quantity, coupling):
    row = result.row(quantity, coupling)
    return row.ci_lower, row.ci_upper


def test_more_confidence_is_never_shorter_and_goes_up_to_a_tenth_of_a_percent():
    trial = Trial.from_counts([30, 40, 30], [10, 30, 60], labels=[0, 1, 2], score=[0, 1, 2])
    found = [limits(trial.compare(0, level=level)) for level in (0.5, 0.9, 0.95, 0.99, 0.999)]
    for shorter, longer in zip(found, found[1:], strict=False):
        assert (longer[:, 0] <= shorter[:, 0] + 1e-9).all()
        assert (longer[:, 1] >= shorter[:, 1] - 1e-9).all()


def test_few_clusters_lengthen_both_sides_of_a_win_probability_alike():
    """Clusters without anything in common: five of them leave four degrees of freedom on either side."""
    stream = np.random.default_rng(3)
    arm = stream.permutation(np.repeat([0, 1], 300))
    people = pd.DataFrame({"arm": arm, "outcome": stream.integers(0, 4, 600) + arm * stream.integers(0, 2, 600)})
    people["town"] = np.arange(600) % 5
    asked = {"outcome": "outcome", "arm": "arm", "score": {each: each for each in range(5)}}
    below, above = [], []
    for design in (None, Design(clusters="town")):
        row = Trial(people, **asked, design=design).compare(1).row("win probability")
        below.append(row.value - row.ci_lower)
        above.append(row.ci_upper - row.value)
    assert below[1] / above[1] == pytest.approx(below[0] / above[0], rel=0.25)


def test_clusters_that_agree_count_as_one_person_each():
    """Everybody of a cluster had the same: limits are those of as many people as there are clusters."""
    stream = np.random.default_rng(7)
    frame = trial_frame(stream, 120)
    again = pd.concat([frame] * 5, ignore_index=True)
    few = Trial(frame, **READ).compare(1)
    many = Trial(again, **READ, design=Design(clusters="person")).compare(1)
    plain = Trial(again, **READ).compare(1)
    first, second, third = (np.diff(limits(each), axis=1).sum() for each in (few, many, plain))
    assert second == pytest.approx(first, rel=0.04)  # Student's distribution, with 118 degrees of freedom
    assert third < 0.8 * first
