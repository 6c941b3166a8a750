"""Bounds against linear programs over response types, which know nothing of closed forms."""

import itertools

import numpy as np
import pytest
from quantities import quantity
from scipy.optimize import linprog

from countermax import Trial, Worlds
from countermax._core.errors import InputError
from countermax._core.labels import Labels
from countermax._core.words import ANY, STABLE
from countermax.bounds._pieces import largest_worth
from countermax.causation._answering import Strata, check_sources
from countermax.causation._limits import CHOSEN, MONOTONE, TRIAL, Memo, has_kind, known_part, limits
from countermax.causation._questions import Arms, Choosers, Evidence, questions_about
from countermax.causation._stable import pieces_of_order, ratio_ranks, stable_cells

TOLERANCE = 1e-9


def response_types(num_outcomes, num_arms):
    """(arm chosen, outcome in each arm), as columns."""
    return np.array(list(itertools.product(range(num_arms), *[range(num_outcomes)] * num_arms)))


def programme(types, law, weights, *, trial, choices, allowed=None):
    """The least and the largest sum of weights over laws of response types that give the same data."""
    arms, size = types.shape[1] - 1, types.max() + 1
    rows, values = [], []
    own = types[np.arange(len(types)), 1 + types[:, 0]]
    for arm, outcome in itertools.product(range(arms), range(size)):
        if trial:
            rows.append(types[:, 1 + arm] == outcome)
        if choices:
            rows.append((types[:, 0] == arm) & (own == outcome))
    rows = np.array(rows, float) if rows else np.ones((1, len(types)))
    values = rows @ law
    open_to = [(0, None if allowed is None or fine else 0) for fine in (allowed if allowed is not None else types)]
    found = []
    for sign in (1, -1):
        solved = linprog(sign * weights, A_eq=rows, b_eq=values, bounds=open_to, method="highs")
        found.append(sign * solved.fun if solved.status == 0 else None)
    return found


def drawn_law(rng, types):
    """Some types are impossible; none is so rare that a solver of programmes takes it for impossible."""
    law = rng.dirichlet(np.full(len(types), rng.choice([0.05, 0.3, 1])))
    law = np.where(law > 1e-3, law, 0)
    return law / law.sum()


def data_of(types, law, num_outcomes):
    size, own = num_outcomes, types[np.arange(len(types)), 1 + types[:, 0]]
    worlds = [np.bincount(types[:, 1 + arm], law, size) for arm in (0, 1)]
    seen = [np.bincount(own[types[:, 0] == arm], law[types[:, 0] == arm], size) for arm in (0, 1)]
    elsewhere = np.asarray(max(0.0, law[types[:, 0] > 1].sum()))
    share = seen[1].sum() / (seen[0].sum() + seen[1].sum())
    return Evidence(Arms(*worlds), Choosers(*seen, elsewhere), float(share))


def asked_of(size, rng, groups=True):
    event = sorted(rng.choice(size, rng.integers(1, size), replace=False).tolist())
    scores = np.arange(size, dtype=float)
    gain = rng.normal(size=(size, size))
    return questions_about(Labels(tuple(range(size))), ("old", "new"), event, (scores, scores), 1.0, gain, groups)


def weights_of(question, types):
    counted = np.array([question.of_control, question.of_treated, question.of_others])[np.minimum(types[:, 0], 2)]
    return question.worth[types[:, 1], types[:, 2]] * counted


CASES = [(2, 2), (2, 3), (2, 4), (3, 2), (3, 3), (3, 4)]


@pytest.mark.parametrize(("num_arms", "num_outcomes"), CASES)
@pytest.mark.parametrize("source", ["both", "choices"])
def test_bounds_for_people_who_chose_are_those_of_all_response_types(num_arms, num_outcomes, source):
    rng = np.random.default_rng(num_arms * 10 + num_outcomes)
    types = response_types(num_outcomes, num_arms)
    for _ in range(4 if num_arms == 2 else 2):
        law = drawn_law(rng, types)
        whole = data_of(types, law, num_outcomes)
        evidence = whole if source == "both" else whole._replace(trial=None)
        for question in asked_of(num_outcomes, rng):
            if (num_arms, num_outcomes) == (3, 4) and question.name[:2] not in ("PN", "PS", "di", "en"):
                continue  # thousands of pieces: seconds for each question
            lower, upper = limits(question, evidence, CHOSEN)
            low, high = programme(types, law, weights_of(question, types), trial=source == "both", choices=True)
            asked = (
                whole.chosen.control @ question.among_control
                + whole.chosen.treated @ question.among_treated
                + question.among_others * whole.chosen.elsewhere
            )
            if asked == 0:
                assert np.isnan(lower)
                assert np.isnan(upper)
                continue
            assert lower * asked == pytest.approx(low, abs=TOLERANCE), question.name
            assert upper * asked == pytest.approx(high, abs=TOLERANCE), question.name


@pytest.mark.parametrize(("num_arms", "num_outcomes"), CASES)
def test_bounds_for_units_of_a_trial_are_those_of_all_response_types(num_arms, num_outcomes):
    rng = np.random.default_rng(num_arms * 10 + num_outcomes)
    types = response_types(num_outcomes, num_arms)
    for _ in range(4 if num_arms == 2 else 2):
        law = drawn_law(rng, types)
        both = data_of(types, law, num_outcomes)
        evidence = Evidence(both.trial, None, 0.4)
        for question in asked_of(num_outcomes, rng, groups=False):
            share = {(True, True): 1.0, (True, False): 0.6, (False, True): 0.4}[
                question.of_control, question.of_treated
            ]
            weights = share * question.worth[types[:, 1], types[:, 2]]
            asked = 1.0
            if not question.of_everybody:
                control, treated = both.arms
                asked = 0.6 * control @ question.among_control + 0.4 * treated @ question.among_treated
            low, high = programme(types, law, weights, trial=True, choices=False)
            lower, upper = limits(question, evidence, TRIAL)
            if asked > 0:
                assert (lower * asked, upper * asked) == pytest.approx((low, high), abs=TOLERANCE), question.name


@pytest.mark.parametrize("kind", [MONOTONE, STABLE])
@pytest.mark.parametrize("num_outcomes", [2, 3, 4])
def test_bounds_under_monotonicity_and_stability_are_those_of_a_programme(kind, num_outcomes):
    rng = np.random.default_rng(num_outcomes)
    types = response_types(num_outcomes, 2)
    for _ in range(4):
        law = drawn_law(rng, types)
        for question in asked_of(num_outcomes, rng, groups=False):
            some = law * (question.allowed[types[:, 1], types[:, 2]] if kind == MONOTONE else 1)
            some = some / some.sum()
            both = data_of(types, some, num_outcomes)
            evidence = Evidence(both.trial, None, 0.5)
            if not has_kind(question, evidence, kind):
                continue
            ranks = ratio_ranks(*both.arms)
            fine = question.allowed if kind == MONOTONE else stable_cells(ranks)
            weights = question.worth[types[:, 1], types[:, 2]]
            low, high = programme(
                types, some, weights, trial=True, choices=False, allowed=fine[types[:, 1], types[:, 2]]
            )
            lower, upper = limits(question, evidence, TRIAL, kind)
            asked = 1.0
            if question.name == "PN":
                asked = both.arms.treated @ question.among_treated
            elif not question.of_everybody:
                continue
            assert (lower * asked, upper * asked) == pytest.approx((low, high), abs=TOLERANCE), question.name


def test_an_experiment_alone_says_nothing_of_the_cause_in_people_who_chose():
    questions = {each.name: each for each in questions_about(Labels((0, 1)), ("a", "b"), [1], None, None, None, False)}
    evidence = Evidence(Arms(np.array([0.8, 0.2]), np.array([0.4, 0.6])), None, None)
    for name in ("PN", "PS", "disablement", "enablement"):
        assert limits(questions[name], evidence, CHOSEN) == (0, 1)
    assert limits(questions["PN"], evidence, TRIAL) == pytest.approx((2 / 3, 1))
    assert limits(questions["PNS"], evidence, CHOSEN) == pytest.approx((0.4, 0.6))
    certain = evidence._replace(trial=evidence.arms._replace(control=np.array([1.0, 0.0])))  # never without it
    assert limits(questions["PN"], certain, CHOSEN) == (1, 1)


def programme_of_choices(question, control, treated, fine):
    """The least and the largest answer over whatever people choose, one arm, the other, or something else."""
    size = len(control)
    types = np.array(list(itertools.product(range(3), range(size), range(size))))
    chose, without, with_it = types.T
    asked = np.select([chose == 0, chose == 1], [question.among_control[without], question.among_treated[with_it]], 0.0)
    sums = [(types[:, 1 + arm] == outcome) for arm in (0, 1) for outcome in range(size)]
    margins = np.column_stack([np.array(sums, float), -np.concatenate([control, treated])])  # of people times a scale
    equalities, values = np.vstack([margins, np.append(asked, 0)]), np.append(np.zeros(2 * size), 1.0)
    limit = [(0, None if each else 0) for each in fine[without, with_it]] + [(0, None)]
    weights = np.append(weights_of(question, types), 0)
    solved = [linprog(sign * weights, A_eq=equalities, b_eq=values, bounds=limit) for sign in (1, -1)]
    return [sign * each.fun if each.status == 0 else np.nan for sign, each in zip((1, -1), solved, strict=True)]


@pytest.mark.parametrize("kind", [ANY, STABLE, MONOTONE])
@pytest.mark.parametrize("num_outcomes", [2, 3])
def test_of_people_who_chose_unseen_all_may_be_whatever_a_coupling_of_the_kind_allows(kind, num_outcomes):
    rng = np.random.default_rng(num_outcomes)
    types = response_types(num_outcomes, 2)
    seen = set()
    for number in range(12):
        law = drawn_law(rng, types)
        for question in asked_of(num_outcomes, rng, groups=False):
            if question.of_everybody:
                continue
            some = law * (question.allowed[types[:, 1], types[:, 2]] if kind == MONOTONE else 1)
            worlds = data_of(types, some / some.sum(), num_outcomes).arms
            control, treated = worlds if number % 3 else (worlds[0], worlds[0])  # no effect
            fine = {ANY: np.ones_like(question.allowed), MONOTONE: question.allowed}.get(kind)
            fine = stable_cells(ratio_ranks(control, treated)) if fine is None else fine
            found = limits(question, Evidence(Arms(control, treated), None, 0.5), CHOSEN, kind)
            expected = programme_of_choices(question, control, treated, fine)
            assert found == pytest.approx(expected, abs=1e-7, nan_ok=True), question.name
            seen.add(tuple(map(float, found)))
    assert kind == ANY or (0.0, 0.0) in seen


def test_all_who_chose_unseen_may_be_of_one_stratum_and_have_had_a_missing_outcome():
    question = questions_about(Labels((0, 1)), ("a", "b"), [1], None, None, None, False)[0]
    control, treated = np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[0.6, 0.4], [0.5, 0.5]])
    strata = Evidence(Arms(control, treated), None, None, strata=np.array([0.5, 0.5]))
    for kind, expected in ((ANY, (0, 1)), (MONOTONE, (0, 1))):
        assert limits(question, strata, CHOSEN, kind) == expected
    assert limits(question, strata._replace(strata=np.array([1.0, 0.0])), CHOSEN) == (1, 1)
    assert limits(question, strata._replace(strata=np.array([0.0, 1.0])), CHOSEN, MONOTONE) == (0, 0)
    lost = Evidence(Arms(np.array([0.8, 0.0, 0.2]), np.array([0.6, 0.4, 0.0])), None, None, unknown=True)
    assert limits(question, known_part(lost), CHOSEN) == (1, 1)
    assert limits(question, lost, CHOSEN) == (0, 1)
    both = lost._replace(trial=Arms(*(each[None] for each in lost.arms)), strata=np.array([1.0]))
    assert limits(question, both, CHOSEN, MONOTONE) == (0, 1)


def test_a_coupling_alone_says_nothing_of_those_who_chose_unseen():
    """It fixes how two worlds go together in everybody, not who of them chose what."""
    found = Trial.from_counts([80, 20], [40, 60]).causes(1, people="chosen", couplings=["gumbel-max"])
    assert quantity(found, "PN").by_coupling == {}
    assert quantity(found, "PN").interval("Gumbel-max") is None
    assert quantity(found, "PNS").by_coupling == {"Gumbel-max": pytest.approx(0.4)}
    assert quantity(found, "PNS").interval("Gumbel-max") is not None


def test_two_sources_are_never_wider_than_one():
    rng = np.random.default_rng(5)
    types = response_types(3, 2)
    for _ in range(20):
        both = data_of(types, rng.dirichlet(np.full(len(types), 0.3)), 3)
        alone = both._replace(choices=None)
        for question in asked_of(3, rng, groups=False):
            if question.of_everybody:
                lower, upper = limits(question, both, CHOSEN)
                low, high = limits(question, alone, TRIAL)
                assert low - 1e-12 <= lower <= upper <= high + 1e-12


def test_sources_that_contradict_each_other_name_the_inequality():
    trial = Arms(np.array([0.9, 0.1]), np.array([0.5, 0.5]))
    evidence = Evidence(trial, Choosers(np.array([0.3, 0.2]), np.array([0.2, 0.3]), np.asarray(0.0)), 0.5)
    with pytest.raises(
        InputError, match=r"P\('ill' if old\) in the experiment, 0.1, must be at least P\(chose old and"
    ):
        check_sources(evidence, Labels(("well", "ill")), ("old", "new"))
    notes = check_sources(evidence, Labels(("well", "ill")), ("old", "new"), Strata(("",), np.full((1, 3), 10.0)))
    assert "by chance" in notes[0]


def test_many_worlds_are_answered_as_each_alone():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(4), 50), rng.dirichlet(np.ones(4), 50)
    for question in asked_of(4, rng, groups=False):
        for kind in (ANY, STABLE):
            lower, upper = limits(question, Evidence(Arms(p, q), None, 0.5), TRIAL, kind)
            for place in range(0, 50, 7):
                alone = limits(question, Evidence(Arms(p[place], q[place]), None, 0.5), TRIAL, kind)
                assert (lower[place], upper[place]) == pytest.approx(tuple(map(float, alone)))


@pytest.mark.parametrize("others", [0.0, 0.2])
def test_what_questions_have_in_common_is_found_once(others):
    rng = np.random.default_rng(0)
    control, treated = rng.dirichlet(np.ones(3), (2, 50))
    chose = 0.5 * (1 - others) * np.stack([control, treated])
    evidence = Evidence(Arms(control, treated), Choosers(*chose, np.full(50, others)), 0.5)
    questions, memo = (
        questions_about(Labels((0, 1, 2)), ("a", "b"), [2], (np.arange(3.0),) * 2, None, None, True),
        Memo(),
    )
    for question in questions:
        for people in (CHOSEN, TRIAL):
            found = limits(question, evidence, people, ANY, memo)
            np.testing.assert_allclose(found, limits(question, evidence, people), atol=1e-12)
    if not others:  # an event, its prevention, benefit, harm and tie, least and largest, in two groups
        assert len(memo.means) == 20


def test_a_worth_with_too_many_pieces_is_refused():
    with pytest.raises(InputError, match="at most 4,000 linear pieces"):
        largest_worth(np.random.default_rng(0).normal(size=(9, 9)))


@pytest.mark.parametrize("num_outcomes", [2, 4, 5, 6])
def test_pieces_in_whole_numbers_give_the_stable_bounds(num_outcomes):
    stream = np.random.default_rng(0)
    ranks = np.arange(num_outcomes)
    worths = [ranks[None] > ranks[:, None], ranks[None] < ranks[:, None], ranks[None] == ranks[:, None]]
    worths.append(np.outer(ranks < 2, ranks >= 2))
    for _ in range(12):
        p, q = stream.dirichlet(np.ones(num_outcomes), 2)
        order = ratio_ranks(p, q)
        for worth in (sign * each for each in worths for sign in (1.0, -1.0)):
            allowed = stable_cells(order)
            found = linprog(
                -worth.ravel(),
                A_eq=np.concatenate([np.kron(np.eye(num_outcomes), np.ones(num_outcomes)),
                                     np.kron(np.ones(num_outcomes), np.eye(num_outcomes))]),
                b_eq=np.concatenate([p, q]),
                bounds=[(0, None if fine else 0) for fine in allowed.ravel()],
            )  # fmt: skip
            assert pieces_of_order(worth, order).least(p, q) == pytest.approx(-found.fun, abs=1e-8)


def test_stable_bounds_have_intervals_up_to_six_outcomes_and_a_note_beyond():
    counts = {"control": [40, 30, 20, 10, 10], "treated": [10, 10, 20, 30, 40]}
    gain = np.arange(25.0).reshape(5, 5) % 7
    found = Trial.from_counts(**counts).causes(4, gain=gain, couplings=[])
    span, interval = quantity(found, "PNS").stable_bounds, quantity(found, "PNS").interval("stable couplings")
    assert interval[0] <= span.lower <= span.upper <= interval[1]
    assert "Stable bounds of gain have no confidence interval: with more than 4 outcomes" in " ".join(found.notes)
    tied = Trial.from_counts([40, 20, 20, 10, 10], [10, 20, 20, 25, 25]).causes(4, couplings=[])
    merged = Trial.from_counts([40, 40, 10, 10], [10, 40, 25, 25]).causes(3, couplings=[])
    assert quantity(tied, "PNS").stable_bounds == pytest.approx(quantity(merged, "PNS").stable_bounds)
    many = Worlds(np.full(7, 1 / 7), np.full(7, 1 / 7)).causes(4, couplings=[])
    assert "up to 6 outcomes, not 7; merge some" in " ".join(many.notes)
