"""From simulated patients to queries and trials: against published shares, and against each other."""

import jax.numpy as jnp
import numpy as np
import pytest

from countermax.couplings import Comonotone, GumbelMax, Independent
from countermax.learning import SquaredDifference
from countermax.learning._losses import expected_losses
from studies.processes import sepsis
from studies.sepsis._queries import random_reward, run_pipeline, trials_of


def test_the_published_pipeline_loses_discharges_and_the_repaired_one_keeps_them():
    """With 20,000 episodes the published model discharges .1 % where the data say 43.4 %."""
    published, repaired = run_pipeline(as_published=True), run_pipeline(as_published=False)
    np.testing.assert_allclose(published.shares["data"], [0.1153, 0.4336], atol=0.01)
    assert published.shares["model"][1] < 0.005
    np.testing.assert_allclose(repaired.shares["model"], repaired.shares["data"], atol=0.04)
    assert len(published.queries) == len(repaired.queries) == 6
    np.testing.assert_allclose(published.shares["target"], [0.442, 0.359], atol=0.06)


def test_the_published_model_is_thin_and_sends_what_it_never_saw_to_death():
    """Of 8 x 144 rows 294 were never seen in the published log, and some twenty distinct queries passed the filter."""
    published = run_pipeline(as_published=True)
    unseen = published.model.counts[:144].sum(axis=2) == 0
    assert 240 < unseen.sum() < 340
    for state, action in np.argwhere(unseen).tolist():
        np.testing.assert_array_equal(published.model.row(state, action), np.eye(146)[sepsis.DEATH])
    assert 10 <= published.num_candidates <= 30
    for asked in published.queries:
        assert min(np.isfinite(asked.query.p).sum(), np.isfinite(asked.query.q).sum()) >= 5


def test_repaired_queries_are_well_supported_and_of_different_states():
    repaired = run_pipeline(as_published=False)
    assert len({asked.query.state for asked in repaired.queries}) == 6
    assert min(min(asked.visits) for asked in repaired.queries) >= 20


@pytest.mark.parametrize("as_published", [True, False])
def test_actions_share_no_outcomes_but_the_ends(as_published):
    model = run_pipeline(as_published=as_published).model
    for state in range(144):
        reached = [
            set(model.support(state, action)[0][model.support(state, action)[0] < 144].tolist())
            for action in np.flatnonzero(model.allowed[state]).tolist()
            if not model.absorbing[state]
        ]
        assert sum(map(len, reached)) == len(set().union(*reached))


def test_rewards_add_up_over_variables():
    reward = random_reward(3, as_published=False)
    assert reward[144:].tolist() == [-4, 4]
    table = reward[:144].reshape(3, 3, 2, 2, 2, 2)
    for axis in range(6):
        difference = np.diff(table, axis=axis)
        moved = np.moveaxis(difference, axis, 0).reshape(difference.shape[axis], -1)
        np.testing.assert_allclose(moved, moved[:, :1] * np.ones((1, moved.shape[1])), atol=1e-12)
    shift = random_reward(3, as_published=True)[:144] - reward[:144]
    np.testing.assert_allclose(shift, shift[0])


@pytest.mark.usefixtures("double")
def test_trials_in_vital_signs_are_the_same_trials_with_other_names():
    """Independent and sorted couplings, whose variance names cannot change, say so; and worlds then overlap."""
    states = trials_of("states", as_published=False, num_scores=2)
    vitals = trials_of("vitals", as_published=False, num_scores=2)
    assert len(states) == len(vitals) == 12
    assert states.overlap.max() < 0.2 < vitals.overlap.min()
    for index in range(12):
        found = []
        for trials in (states, vitals):
            scores = trials.score[index], trials.other_score[index]
            pair = [jnp.asarray(each[index : index + 1]) for each in (trials.log_p, trials.log_q)]
            by_score = Comonotone(*(each[:, 0] for each in scores))
            loss = SquaredDifference(*scores)
            found.append([float(expected_losses(each, loss, *pair)[0]) for each in (Independent(), by_score)])
        np.testing.assert_allclose(*found, rtol=1e-9)
        seen = states.score[index, states.outcome[index]], vitals.score[index, vitals.outcome[index]]
        np.testing.assert_allclose(*seen)


@pytest.mark.usefixtures("double")
def test_where_nothing_is_shared_gumbel_max_is_independent_sampling():
    states = trials_of("states", as_published=False, num_scores=1)
    disjoint = np.flatnonzero(states.overlap == 0)
    assert len(disjoint) >= 2
    for index in disjoint:
        pair = states.log_p[index], states.log_q[index]
        np.testing.assert_allclose(GumbelMax().joint(*pair), Independent().joint(*pair), atol=1e-12)


def test_records_overlap_and_have_scores_for_their_ends():
    trials = trials_of("icu-sofa", as_published=False, num_scores=1, most_outcomes=64)
    assert trials.log_p.shape[0] == 6
    assert trials.log_p.shape[1] <= 64
    assert trials.overlap.min() > 0.2
    assert trials.score.max() == 24
