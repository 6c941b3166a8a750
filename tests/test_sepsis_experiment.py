"""The sepsis experiment: its pipeline against known figures, its variances and optima against brute force."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from countermax.couplings import GumbelMax, Independent
from countermax.experiments import _sepsis_variances as variances
from countermax.experiments._sepsis_pipeline import run_pipeline
from countermax.experiments._sepsis_trials import random_reward, trials_of
from countermax.mdp import sepsis


def random_problem(seed, size=5):
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.ones(size * size)).reshape(size, size)
    return joint, rng.normal(size=(size, 2)), rng.normal(size=(size, 2)), rng


# ------------------------------------------------------------------------------------------------------ the pipeline


def test_the_published_pipeline_loses_discharges_and_the_repaired_one_keeps_them():
    """With 20,000 episodes the published model discharges .1 % where the data say 43.4 %."""
    published, repaired = run_pipeline(faithful=True), run_pipeline(faithful=False)
    np.testing.assert_allclose(published.shares["data"], [0.1153, 0.4336], atol=0.01)
    assert published.shares["model"][1] < 0.005
    np.testing.assert_allclose(repaired.shares["model"], repaired.shares["data"], atol=0.04)
    assert len(published.queries) == len(repaired.queries) == 6
    np.testing.assert_allclose(published.shares["target"], [0.442, 0.359], atol=0.06)


def test_the_published_model_is_thin_and_sends_what_it_never_saw_to_death():
    """Of 8 x 144 rows 294 were never seen in the published log, and some twenty distinct queries passed the filter."""
    published = run_pipeline(faithful=True)
    unseen = published.model.counts[:144].sum(axis=2) == 0
    assert 240 < unseen.sum() < 340
    for state, action in np.argwhere(unseen).tolist():
        np.testing.assert_array_equal(published.model.row(state, action), np.eye(146)[sepsis.DEATH])
    assert 10 <= published.num_candidates <= 30
    for asked in published.queries:
        assert min(np.isfinite(asked.query.p).sum(), np.isfinite(asked.query.q).sum()) >= 5


def test_repaired_queries_are_well_supported_and_of_different_states():
    repaired = run_pipeline(faithful=False)
    assert len({asked.query.state for asked in repaired.queries}) == 6
    assert min(min(asked.visits) for asked in repaired.queries) >= 20


@pytest.mark.parametrize("faithful", [True, False])
def test_actions_share_no_outcomes_but_the_ends(faithful):
    model = run_pipeline(faithful=faithful).model
    for state in range(144):
        reached = [
            set(model.support(state, action)[0][model.support(state, action)[0] < 144].tolist())
            for action in np.flatnonzero(model.allowed[state]).tolist()
            if not model.absorbing[state]
        ]
        assert sum(map(len, reached)) == len(set().union(*reached))


def test_rewards_add_up_over_variables():
    reward = random_reward(3, faithful=False)
    assert reward[144:].tolist() == [-4, 4]
    table = reward[:144].reshape(3, 3, 2, 2, 2, 2)
    for axis in range(6):
        difference = np.diff(table, axis=axis)
        moved = np.moveaxis(difference, axis, 0).reshape(difference.shape[axis], -1)
        np.testing.assert_allclose(moved, moved[:, :1] * np.ones((1, moved.shape[1])), atol=1e-12)
    shift = random_reward(3, faithful=True)[:144] - reward[:144]
    np.testing.assert_allclose(shift, shift[0])


# -------------------------------------------------------------------------------------------------------- the trials


def test_trials_in_vital_signs_are_the_same_trials_with_other_names():
    """Independent and sorted couplings, whose variance names cannot change, say so; and worlds then overlap."""
    states = trials_of("states", faithful=False, num_scores=2)
    vitals = trials_of("vitals", faithful=False, num_scores=2)
    assert len(states) == len(vitals) == 12
    assert states.overlap.max() < 0.2 < vitals.overlap.min()
    for index in range(12):
        for coupling in ("independent", "sorted"):
            found = []
            for trials in (states, vitals):
                p, q = np.exp(trials.log_p[index]), np.exp(trials.log_q[index])
                scores = trials.score[index], trials.other_score[index]
                joint = (
                    p[:, None] * q[None, :]
                    if coupling == "independent"
                    else variances.sorted_joint(p, q, scores[0][:, 0], scores[1][:, 0])
                )
                np.testing.assert_allclose(joint.sum(axis=1), p, atol=1e-12)
                np.testing.assert_allclose(joint.sum(axis=0), q, atol=1e-12)
                found.append(variances.over_everybody(joint[None], *scores).within)
            np.testing.assert_allclose(*found, rtol=1e-9)
        seen = states.score[index, states.outcome[index]], vitals.score[index, vitals.outcome[index]]
        np.testing.assert_allclose(*seen)


@pytest.mark.usefixtures("double")
def test_where_nothing_is_shared_gumbel_max_is_independent_sampling():
    states = trials_of("states", faithful=False, num_scores=1)
    disjoint = np.flatnonzero(states.overlap == 0)
    assert len(disjoint) >= 2
    for index in disjoint:
        pair = states.log_p[index], states.log_q[index]
        np.testing.assert_allclose(GumbelMax().joint(*pair), Independent().joint(*pair), atol=1e-12)


def test_records_overlap_and_have_scores_for_their_ends():
    trials = trials_of("icu-sofa", faithful=False, num_scores=1, most_outcomes=64)
    assert trials.log_p.shape[0] == 6
    assert trials.log_p.shape[1] <= 64
    assert trials.overlap.min() > 0.2
    assert trials.score.max() == 24


# --------------------------------------------------------------------------------------------------------- variances


@pytest.mark.parametrize("seed", range(3))
def test_variances_are_those_of_the_enumerated_effect(seed):
    joint, score, other, _ = random_problem(seed)
    effects = score[:, None, :] - other[None, :, :]
    mean = np.einsum("xy,xyd->d", joint, effects)
    total = np.einsum("xy,xyd->", joint, (effects - mean) ** 2)
    everybody = variances.over_everybody(joint[None], score, other)
    np.testing.assert_allclose(everybody, [total, 0], atol=1e-12)
    split = variances.given_what_was_seen(joint[None], score, other)
    np.testing.assert_allclose(split.within + split.between, total)
    rows = joint / joint.sum(axis=1, keepdims=True)
    within = 0.0
    for x, row in enumerate(rows):
        spread = row @ ((other - row @ other) ** 2).sum(axis=1)
        within += joint[x].sum() * spread
        np.testing.assert_allclose(variances.given_one_outcome(joint[None], other, x).within, spread)
    np.testing.assert_allclose(split.within, within)


def test_several_queries_add_the_variance_of_their_means():
    first, score, other, _ = random_problem(0)
    second = random_problem(1)[0]
    parts = [variances.over_everybody(each[None], score, other).within for each in (first, second)]
    both = variances.over_everybody(np.stack([first, second]), score, other)
    np.testing.assert_allclose(both.within, np.mean(parts))
    mixed = (first + second) / 2
    np.testing.assert_allclose(sum(both), variances.over_everybody(mixed[None], score, other).within)


@pytest.mark.parametrize("seed", range(4))
def test_sorting_attains_the_least_variance_over_everybody(seed):
    joint, score, other, _ = random_problem(seed)
    p, q = joint.sum(axis=1), joint.sum(axis=0)
    cost = (score[:, :1] - other[:, 0][None, :]) ** 2
    marginals = [np.kron(np.eye(5), np.ones(5)), np.kron(np.ones(5), np.eye(5))]
    solved = linprog(cost.ravel(), A_eq=np.concatenate(marginals), b_eq=np.concatenate([p, q]))
    ours = variances.sorted_joint(p, q, score[:, 0], other[:, 0])
    np.testing.assert_allclose((ours * cost).sum(), solved.fun, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_least_variance_given_what_was_seen_is_that_of_the_best_order(seed):
    """Brute force over all orders of stretches, and no vertex of the transport polytope does better."""
    joint, _, other, rng = random_problem(seed, size=4)
    p, q, h = joint.sum(axis=1), joint.sum(axis=0), other[:, 0]
    found = []
    for order in itertools.permutations(range(4)):
        rank = np.argsort(order).astype(float)
        found.append(
            variances.given_what_was_seen(variances.sorted_joint(p, q, rank, h)[None], h[:, None], h[:, None]).within
        )
    least = variances.least_given_what_was_seen(p[None], q[None], h)
    np.testing.assert_allclose(least, [min(found)], atol=1e-12)
    marginals = np.concatenate([np.kron(np.eye(4), np.ones(4)), np.kron(np.ones(4), np.eye(4))])
    for _ in range(60):
        vertex = linprog(rng.normal(size=16), A_eq=marginals, b_eq=np.concatenate([p, q])).x.reshape(4, 4)
        assert variances.given_what_was_seen(vertex[None], h[:, None], h[:, None]).within > least[0] - 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_the_least_variance_given_one_outcome_is_that_of_the_best_part_of_q(seed):
    """No part of q of the right mass, at the vertices of all such parts, has less variance."""
    joint, _, other, rng = random_problem(seed)
    p, q, h = joint.sum(axis=1), joint.sum(axis=0), other[:, 0]
    outcome = int(p.argmax())
    least = variances.least_given_one_outcome(p[None], q[None], h, outcome)[0]
    reached = np.inf
    for centre in np.linspace(h.min(), h.max(), 400):
        solved = linprog(
            (h - centre) ** 2, A_eq=np.ones((1, 5)), b_eq=[1.0], bounds=[(0, each / p[outcome]) for each in q]
        )
        share = solved.x
        reached = min(reached, share @ (h - share @ h) ** 2)
    np.testing.assert_allclose(least, reached, atol=1e-6)
