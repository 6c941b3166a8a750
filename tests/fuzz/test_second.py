"""The second implementation, held against what it does not share a formula with: margins, programs and draws."""

import random
from fractions import Fraction

import numpy as np
import pytest

from fuzz.calls import vocabulary
from fuzz.second import estimates, logs, programs
from fuzz.second.laws import (
    gumbel_max,
    joint,
    law_of,
    outcome_bounds,
    score_bounds,
    world,
    world_of_logits,
    wrong_row,
)
from fuzz.second.questions import read_questions
from fuzz.second.reading import MustRefuseError, Sheet, Token, UnsureError, read_sheet

_NAMES = ("gumbel-max", "inverse-cdf", "maximal", "independent", "inverse-cdf-by-score", "comonotone")


def _questions(count, size):
    rng = random.Random(0)
    for _ in range(count):
        p, q, x = vocabulary.question(rng, size)
        yield world(p), world(q), x, vocabulary.scores(rng, size)


@pytest.mark.parametrize("name", _NAMES)
def test_every_law_has_both_margins_to_the_last_digit(name):
    for p, q, _, score in _questions(20, 4):
        cells = joint(law_of(name, 4, score, score[::-1]), p, q)
        assert [sum(row) for row in cells] == p
        assert [sum(column) for column in zip(*cells, strict=True)] == q


def test_a_race_that_is_run_agrees_with_its_integral():
    count = 200_000
    false_alarm = 4.5  # standard errors: one in a hundred thousand for each of nine cells
    p, q = world([0.2, 0.3, 0.5]), world([0.6, 0.3, 0.1])
    times = np.random.default_rng(0).exponential(size=(count, 3))
    x, y = ((times / np.array([float(each) for each in world_])).argmin(axis=1) for world_ in (p, q))
    for i in range(3):
        for j, share in enumerate(gumbel_max(p, q, i)):
            exact = float(p[i] * share)
            assert (
                abs(((x == i) & (y == j)).mean() - exact) <= false_alarm * np.sqrt(exact * (1 - exact) / count) + 1e-9
            )


def test_bounds_are_those_of_a_linear_program():
    for p, q, x, score in _questions(15, 3):
        if min(each for each in (*p, *q) if each) < 1e-3:
            continue
        floats = [float(each) for each in p], [float(each) for each in q]
        found = programs.extremes(*floats, x, score, stable=False)
        assert np.allclose(
            found, [float(each) for each in score_bounds(p, q, x, score)], atol=1e-6 * max(map(abs, score))
        )
        for j, limits in enumerate(outcome_bounds(p, q, x)):
            unit = [float(k == j) for k in range(3)]
            assert np.allclose(programs.extremes(*floats, x, unit, stable=False), [float(each) for each in limits])


def test_logits_become_probabilities():
    exact = np.exp([0.5, -2.0]) / np.exp([0.5, -2.0]).sum()
    found = world_of_logits([0.5, -2.0, float("-inf")])
    assert np.allclose([float(each) for each in found], [*exact, 0])


def test_an_answer_is_wrong_by_a_billionth_and_right_within_rounding():
    p, q = world([0.2, 0.3, 0.5]), world([0.6, 0.3, 0.1])
    law = law_of("gumbel-max", 3)
    exact = [float(each) for each in law(p, q, 2)]
    assert not wrong_row(law, p, q, 2, exact)
    assert wrong_row(law, p, q, 2, [exact[0] + 1e-8, exact[1] - 1e-8, exact[2]])
    assert wrong_row(law, p, q, 2, [float("nan")] * 3)


def test_a_rare_outcome_on_an_edge_is_held_to_its_bounds():
    p, q = world([0.5, 1e-30, 0.5]), world([0.5, 0.25, 0.25])
    law = law_of("inverse-cdf", 3)
    assert not wrong_row(law, p, q, 1, [1.0, 0.0, 0.0])
    assert not wrong_row(law, p, q, 1, [0.0, 1.0, 0.0])
    assert wrong_row(law, p, q, 1, [0.5, 0.4, 0.0])


def test_cells_are_read_as_they_are_written():
    sheet = read_sheet("x.csv", b'a,b\r\n007,"x,\ny"\r\n,1.0\r\n')
    assert sheet.rows == [["007", "x,\ny"], [None, "1.0"]]
    sheet = read_sheet("x.jsonl", b'{"a": 12345678901234567890, "b": "1"}\n{"a": 1.0}\n')
    assert sheet.rows == [[Token("12345678901234567890"), "1"], [Token("1.0"), None]]
    with pytest.raises(MustRefuseError):
        read_sheet("x.csv", b"a,b\n1\n")
    with pytest.raises(UnsureError):
        read_sheet("x.csv", b'a,b\nx"y,2\n')


def test_a_policy_that_does_what_was_done_is_worth_what_was_earned():
    log = b"episode,step,state,action,next_state,reward\n1,0,a,go,b,1\n1,1,b,go,c,2\n2,0,a,go,c,0\n"
    policy = b"state,action\na,go\nb,go\nc,go\n"
    read, decisions = logs.read_log(read_sheet("log.csv", log), read_sheet("policy.csv", policy))
    model = estimates.estimated(read)
    found = estimates.estimates(read, model, decisions, 2, Fraction(1))
    assert found["observed return"] == Fraction(3, 2)
    assert set(found.values()) == {Fraction(3, 2)}
    assert estimates.replayed(read, model, decisions, "gumbel-max", [2, 2], Fraction(1)) == [3, 0]
    assert estimates.bounds(read, model, decisions, [2, 2], Fraction(1)) == [(3, 3), (0, 0)]


@pytest.mark.parametrize(
    ("given", "order"),
    [
        (["10", "3", "20"], ["3", "10", "20"]),
        (["1.0", "2", "1", "02", "01"], ["01", "1", "1.0", "02", "2"]),
        (["b", "-1", "nan", "0.5", "#1"], ["-1", "0.5", "#1", "b", "nan"]),
    ],
)
def test_states_are_in_the_order_that_is_promised(given, order):
    log = "episode,step,state,action,next_state,reward\n" + "".join(f"{each},0,{each},go,{each},1\n" for each in given)
    policy = "state,action\n" + "".join(f"{each},go\n" for each in given)
    tables = [("log.csv", log), ("policy.csv", policy)]
    read, _ = logs.read_log(*(read_sheet(name, text.encode()) for name, text in tables))
    assert read.states == order


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("errors", ["raise", "missing"])
def test_texts_are_no_numbers_where_a_format_tells_them_apart(kind, errors):
    asked = {"outcome": "s", "factual": "p_", "counterfactual": "q_", "labels": None, "normalise": False}
    rows = [["a", 0.5, 0.5, 0.2, "0.8"]]
    columns = ["s", "p_a", "p_b", "q_a", "q_b"]
    assert read_questions(Sheet("csv", columns, rows), **asked, errors=errors).questions[0] is not None
    with pytest.raises(MustRefuseError, match="texts"):
        read_questions(Sheet(kind, columns, rows), **asked, errors=errors)
