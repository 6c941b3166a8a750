"""The page's JavaScript gives the library's numbers."""

from functools import cache

import jax
import numpy as np
import pytest
from questions import dial, library_answer, library_intervals, random_counts
from scipy.special import betainc, ndtr, ndtri, owens_t, stdtrit
from shared_cases import FOUND, log_probs, random_questions

import countermax
from countermax._kernel import row_bounds, row_probabilities, row_score_bounds
from countermax.couplings import GumbelMax, InverseCDF, Maximal

TOLERANCE = 1e-12
OF_LIMITS = 1e-7  # derivatives are numerical, and lose half of the digits


def _worst(got, want, path=""):
    """The largest difference, and where; what the library has and the page lacks is infinitely far off."""
    if isinstance(want, dict):
        return max(
            (_worst((got or {}).get(key), each, f"{path}/{key}") for key, each in want.items()), default=(0.0, path)
        )
    if want is None or got is None:
        return (0.0 if want is None and got is None else np.inf), path
    differences = np.abs(np.asarray(got, np.float64) - np.asarray(want, np.float64))
    return float(np.nan_to_num(differences, nan=np.inf).max()), path


@cache
def _asked():
    questions = random_questions(1000, seed=0)
    return questions, [library_answer(each) for each in questions]


def test_javascript_equals_python_on_a_thousand_questions_with_zeros_and_ties(calculate):
    questions, want = _asked()
    got = calculate("(each) => Countermax.solve(each)", questions)
    assert max(map(_worst, got, want)) <= (TOLERANCE, "~")


def test_cases_that_went_wrong_somewhere_are_right_on_the_page(calculate):
    """The same that JAX and the compiled loops are asked."""
    got = calculate("(each) => Countermax.solve({ ...each, rho: 0.5 })", FOUND)
    for answer, each in zip(got, FOUND, strict=True):
        with np.errstate(divide="ignore"):
            asked = *(log_probs(np.log([each[name]])) for name in "pq"), np.array([each["x"]])
        for name, stable in (("bounds", False), ("stable", True)):
            want = np.array(row_bounds(*asked, stable=stable))[:, 0]
            np.testing.assert_allclose(answer[name]["probabilities"], want, atol=TOLERANCE)
            want = np.array(row_score_bounds(*asked, np.array(each["score"]), stable=stable))[:, 0]
            np.testing.assert_allclose(answer[name]["expected_score"], want, atol=TOLERANCE)
        for name, coupling in (("Gumbel-max", GumbelMax()), ("maximal", Maximal()), ("inverse CDF", InverseCDF())):
            want = row_probabilities(coupling, *asked)[0]
            np.testing.assert_allclose(answer["answers"][name]["probabilities"], want, atol=TOLERANCE, err_msg=name)


def test_the_questions_have_zeros_and_ties_of_every_kind():
    questions, _ = _asked()
    pairs = [(np.array(each["p"]), np.array(each["q"]), np.array(each["score"])) for each in questions]
    shared = [(p > 0) & (q > 0) for p, q, _ in pairs]
    assert sum((p == 0).any() and (q == 0).any() for p, q, _ in pairs) > 100
    assert sum(((p == 0) & (q == 0)).any() for p, q, _ in pairs) > 50
    assert sum(np.array_equal(p, q) for p, q, _ in pairs) > 10
    assert sum(len(set(score)) < len(score) for _, _, score in pairs) > 100
    ratios = [np.round(q[some] / p[some], 12) for (p, q, _), some in zip(pairs, shared, strict=True)]
    assert sum(len(set(each)) < len(each) for each in ratios) > 100
    assert {len(p) for p, _, _ in pairs} == set(range(2, 9))


@cache
def _counted():
    """Random samples, and of the questions that all implementations are asked those that count people."""
    shared = [each for each in [*FOUND, *random_questions(60, seed=3)] if not np.mod(each["p"] + each["q"], 1).any()]
    questions = random_counts(150, seed=1) + [{**each, "rho": 0.5, "level": 0.95} for each in shared]
    return questions, [library_intervals(each) for each in questions]


def test_intervals_in_javascript_equal_pythons(calculate):
    questions, want = _counted()
    got = calculate("(each) => Intervals.solve(each)", questions)
    assert max(map(_worst, got, want)) <= (OF_LIMITS, "~")


def test_the_samples_have_tiny_arms_zeros_and_every_number_of_outcomes():
    questions, _ = _counted()
    counts = [(np.array(each["p"]), np.array(each["q"])) for each in questions]
    assert {len(p) for p, _ in counts} == set(range(2, 9))
    assert {each["level"] for each in questions} == {0.9, 0.95, 0.999}
    assert sum(min(p.sum(), q.sum()) <= 10 for p, q in counts) > 20
    assert sum(max(p.sum(), q.sum()) >= 30 * min(p.sum(), q.sum()) for p, q in counts) > 20
    assert sum((p == 0).any() and (q == 0).any() for p, q in counts) > 25
    assert sum(np.array_equal(p, q) for p, q in counts) > 10
    assert sum(each["p"][each["x"]] == 0 for each in questions) > 2  # nobody had what was seen


def test_normal_quantiles_and_owens_t_are_scipys(calculate):
    tails = np.append(np.geomspace(1e-12, 0.5, 40), [0.7, 0.999, 1 - 1e-6])
    got = calculate("(each) => Intervals.exceeded(each)", tails.tolist())
    np.testing.assert_allclose(got, -ndtri(tails), rtol=1e-13, atol=1e-13)
    pairs = [(h, a) for h in (0.5, 1.28, 1.96, 3.3, 5.0) for a in (1e-6, 1e-3, 0.1, 0.9, 1.0, 3.0, 50.0, 4e4)]
    got = calculate("([h, a]) => Intervals.owen(h, a)", pairs)
    np.testing.assert_allclose(got, owens_t(*np.transpose(pairs)), atol=1e-14)


def test_beta_probabilities_are_scipys(calculate):
    cases = [(a, b, x) for a in (0.5, 1, 7, 300) for b in (1, 12.5, 701) for x in (1e-6, 0.02, 0.3, 0.9)]
    got = calculate("([a, b, x]) => Intervals.beta(a, b, x)", cases)
    np.testing.assert_allclose(got, betainc(*np.transpose(cases)), rtol=1e-10, atol=1e-12)


def test_student_quantiles_are_scipys(calculate):
    pairs = [(n, z) for n in (1, 2, 3, 4, 9, 30, 101, 999, 1000, 1001, 60_000, 10**9) for z in (0.68, 1.96, 3.3, 4.3)]
    got = calculate("([freedom, z]) => Intervals.student(freedom, z)", pairs)
    freedom, z = np.transpose(pairs)
    np.testing.assert_allclose(got, -stdtrit(freedom, ndtr(-z)), rtol=1e-10)


def test_an_outcome_that_nobody_had_has_no_answer_and_the_widest_bounds(calculate):
    (got,) = calculate(
        "(each) => Countermax.solve(each)", [{"p": [0, 4, 6], "q": [1, 2, 7], "x": 0, "score": [0, 1, 2]}]
    )
    found = countermax.Trial.from_counts([0, 4, 6], [1, 2, 7], score=[0, 1, 2]).compare(0, couplings="all")
    assert got["answers"]["Gumbel-max"]["probabilities"] is None
    assert got["bounds"]["probabilities"] == [found.bounds.lower.tolist(), found.bounds.upper.tolist()]
    effect = found.row("effect", "any coupling")
    assert got["bounds"]["effect"] == [effect.lower, effect.upper]
    agreement = found.row("agreement", "maximal").value
    assert got["answers"]["maximal"]["agreement"] == pytest.approx(agreement, abs=TOLERANCE)


def test_the_dial_runs_from_independent_to_gumbel_max_with_both_margins():
    p, q = np.array([0.5, 0.2, 0.3, 0.0]), np.array([0.1, 0.2, 0.3, 0.4])
    with np.errstate(divide="ignore"):
        logs = np.log(p), np.log(q)
    np.testing.assert_allclose(dial(p, q, 0.0), np.outer(p, q), atol=1e-15)
    np.testing.assert_allclose(dial(p, q, 1.0), countermax.GumbelMax().joint(*logs), atol=1e-6)
    for rho in (0.1, 0.5, 0.9):
        np.testing.assert_allclose(dial(p, q, rho).sum(axis=1), p, atol=1e-15)
        np.testing.assert_allclose(dial(p, q, rho).sum(axis=0), q, atol=1e-15)


def test_the_dial_is_the_librarys():
    for question in random_questions(50, seed=2):
        p, q = (np.array(question[key]) / np.sum(question[key]) for key in ("p", "q"))
        with jax.enable_x64(True), np.errstate(divide="ignore"):
            law = np.asarray(countermax.SharedGumbelMax(question["rho"]).joint(np.log(p), np.log(q)))
        np.testing.assert_allclose(dial(p, q, question["rho"]), law, atol=TOLERANCE)


def test_one_nest_on_the_page_is_the_librarys(calculate):
    asked, want, rng = [], [], np.random.default_rng(3)
    for question in random_questions(150, seed=4):
        p, q = (np.array(question[key]) / np.sum(question[key]) for key in ("p", "q"))
        inside = rng.random(len(p)) < 0.5
        scale = float(rng.choice([0.0, 0.02, 0.1, 0.3, 0.5, 0.8, 0.99, 1.0]))
        if p[question["x"]] == 0 or not inside.any():
            continue
        asked.append({"p": p.tolist(), "q": q.tolist(), "x": question["x"], "inside": inside.tolist(), "scale": scale})
        with np.errstate(divide="ignore"), jax.enable_x64(True):
            model = countermax.NestedGumbelMax({"alike": np.flatnonzero(inside).tolist()}, scale, labels=len(p))
            rows = (np.log(each)[None] for each in (p, q))
            want.append(row_probabilities(model, *rows, np.array([question["x"]]))[0])
    assert len(asked) > 100
    got = calculate("(each) => Countermax.nestRow(each.p, each.q, each.x, each.inside, each.scale)", asked)
    for question, found, expected in zip(asked, got, want, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-11, err_msg=str(question))


def test_a_broken_formula_is_noticed():
    """The comparison can fail: with one cell of one law moved by a millionth it does."""
    _, want = _asked()
    moved = {**want[0], "win_probability": want[0]["win_probability"] + 1e-6}
    assert _worst(moved, want[0])[0] > TOLERANCE
    assert _worst({}, want[0])[0] == np.inf
