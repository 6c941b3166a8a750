"""Missing outcomes with two sources: limits hold whatever they were, and no others that hold are narrower."""

import itertools

import numpy as np
import pandas as pd
import pytest
from quantities import quantities, quantity
from scipy.optimize import linprog

from countermax import Design, InputError, Trial, Worlds
from countermax._core.labels import Labels
from countermax.causation._limits import limits
from countermax.causation._questions import Arms, Choosers, Evidence, questions_about

READ = {"outcome": "outcome", "arm": "arm", "labels": range(2), "score": range(2)}


def population(stream, size, *, elsewhere):
    """Joint laws of both outcomes in each group, and what is lost of what data show of them."""
    joint = stream.dirichlet(np.ones(3 * size * size)).reshape(3, size, size)
    if not elsewhere:
        joint[2] = 0
        joint /= joint.sum()
    shown = joint.sum(axis=(0, 2)), joint.sum(axis=(0, 1)), joint[0].sum(axis=1), joint[1].sum(axis=0)
    lost = [each * stream.uniform(0, 0.4, size) for each in shown]
    return joint, shown, lost


def evidence_of(shown, lost, others):
    laws = [np.append(each - gone, gone.sum()) for each, gone in zip(shown, lost, strict=True)]
    return of_laws(laws, others)._replace(unknown=True)


def of_laws(laws, others):
    return Evidence(Arms(*laws[:2]), Choosers(*laws[2:], np.asarray(others)), 0.4)


def largest(worth, weights, evidence):
    """The largest total worth over joint laws of three groups, as a program that knows nothing of duals."""
    size = len(worth)
    shape = (3, size, size)
    rows, least = [], []
    for i in range(size):
        for mask, number in (
            (np.s_[:, i, :], evidence.arms.control[i]),
            (np.s_[:, :, i], evidence.arms.treated[i]),
            (np.s_[0, i, :], evidence.chosen.control[i]),
            (np.s_[1, :, i], evidence.chosen.treated[i]),
        ):
            row = np.zeros(shape)
            row[mask] = 1
            rows.append(row.ravel())
            least.append(number)
    groups = np.repeat(np.eye(3), size * size, axis=1)
    totals = [evidence.chosen.control.sum(), evidence.chosen.treated.sum(), float(evidence.chosen.elsewhere)]
    cost = -(np.array(weights)[:, None, None] * worth).ravel()
    found = linprog(cost, A_ub=-np.array(rows), b_ub=-np.array(least), A_eq=groups, b_eq=totals)
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_limits_are_sharp_for_questions_about_everybody_and_hold_the_truth_for_all(size, elsewhere):
    stream = np.random.default_rng(size)
    gain = stream.normal(size=(size, size))
    questions = questions_about(
        Labels(tuple(range(size))), ("a", "b"), [1], (np.arange(float(size)),) * 2, None, gain, True
    )
    for _ in range(3):
        joint, shown, lost = population(stream, size, elsewhere=elsewhere)
        evidence = evidence_of(shown, lost, joint[2].sum())
        full = of_laws(shown, joint[2].sum())
        for question in questions:
            lower, upper = limits(question, evidence, "chosen")
            inner = limits(question, full, "chosen")
            assert lower <= inner[0] + 1e-9 <= inner[1] + 2e-9 <= upper + 3e-9, question.name
            if question.of_everybody:
                weights = (1.0, 1.0, 1.0)
                assert upper == pytest.approx(largest(question.worth, weights, evidence), abs=1e-8)
                assert lower == pytest.approx(-largest(-question.worth, weights, evidence), abs=1e-8)


def test_nothing_missing_gives_the_limits_of_both_sources():
    stream = np.random.default_rng(0)
    joint, shown, _ = population(stream, 3, elsewhere=True)
    nothing = [np.zeros(3)] * 4
    evidence, full = evidence_of(shown, nothing, joint[2].sum()), of_laws(shown, joint[2].sum())
    for question in questions_about(Labels((0, 1, 2)), ("a", "b"), [1], (np.arange(3.0),) * 2, None, None, True):
        for people in ("chosen", "trial"):
            np.testing.assert_allclose(limits(question, evidence, people), limits(question, full, people), atol=1e-8)


def people(stream, cells, number, lost):
    """A trial or people who chose, as (arm, outcome) with missing outcomes."""
    law = np.array(list(cells.values()))
    drawn = stream.choice(len(law), number, p=law / law.sum())
    frame = pd.DataFrame(np.array(list(cells))[drawn], columns=["arm", "outcome"])
    return frame.assign(outcome=frame["outcome"].astype("Int64").mask(stream.random(number) < lost))


def two_sources(lost):
    stream = np.random.default_rng(1)
    trial = people(stream, {(0, 0): 0.35, (0, 1): 0.15, (1, 0): 0.2, (1, 1): 0.3}, 600, lost)
    seen = people(stream, {(0, 0): 0.45, (0, 1): 0.1, (1, 0): 0.1, (1, 1): 0.35}, 600, lost)
    return trial.assign(place=np.arange(600) % 2), seen.assign(place=np.arange(600) % 2)


@pytest.mark.parametrize(("strata", "people"), [(None, None), ("place", None), (None, "trial")])
def test_missing_outcomes_of_two_sources_widen_bounds_and_intervals(strata, people):
    trial, seen = two_sources(0.1)
    design = Design(strata=strata)
    worst, dropped = (
        Trial(trial, observational=seen, **READ, missing=rule, design=design).causes(1, couplings=[], people=people)
        for rule in ("worst", "drop")
    )
    for answer in quantities(worst):
        inner = quantity(dropped, answer.name)
        assert answer.bounds.lower <= inner.bounds.lower + 0.02
        assert answer.bounds.upper >= inner.bounds.upper - 0.02
        assert answer.interval()[0] <= answer.bounds.lower
        assert answer.interval()[1] >= answer.bounds.upper
    assert quantity(worst, "PNS").bounds.width > quantity(dropped, "PNS").bounds.width + 0.05
    assert worst.observational[:2].sum() == pytest.approx(1)
    assert "Of those who chose: " in " ".join(worst.notes)


def test_sources_contradict_each_other_only_if_no_missing_outcome_repairs_it():
    wrong = {"factual": [10, 60], "counterfactual": [20, 10]}
    with pytest.raises(InputError, match="cannot both be right"):
        Worlds([60, 40], [50, 50], observational=wrong, normalise=True).causes(1, couplings=[])
    rows = [(arm, outcome) for arm, outcome in itertools.product((0, 1), (0, 1)) for _ in range(50)]
    trial = pd.DataFrame(rows * 4, columns=["arm", "outcome"]).astype({"outcome": "Int64"})
    seen = pd.DataFrame([(0, 1)] * 320 + [(1, 0)] * 80, columns=["arm", "outcome"]).astype({"outcome": "Int64"})
    with pytest.raises(InputError, match="cannot both be right"):
        Trial(trial, observational=seen, **READ, missing="worst").causes(1)
    gone = trial.assign(outcome=trial["outcome"].mask((trial["outcome"] == 0) & (np.arange(800) % 4 < 3)))
    found = Trial(gone, observational=seen, **READ, missing="worst").causes(1)
    assert quantity(found, "PNS").bounds.lower <= quantity(found, "PNS").bounds.upper
