"""The sepsis process against an enumeration of its steps written down separately, and against known numbers."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from countermax import InputError
from countermax.mdp import policy_iteration, policy_value, simulate
from countermax.mdp._estimation import softened
from countermax.mdp._planning import state_distributions
from studies.processes import sepsis


@pytest.fixture(scope="module")
def published():
    """As published: with the slip in glucose, and with patients who are treated after death and discharge."""
    return sepsis.process(as_published=True, absorbing=False)


@pytest.fixture(scope="module")
def repaired():
    return sepsis.process()


# ---------------------------------------------------------------------------------------------------------- codings


@pytest.mark.parametrize("coding", [sepsis.OBSERVED, sepsis.FULL, sepsis.PROJECTED, sepsis.ACTIONS])
@given(data=st.data())
def test_codings_round_trip(coding, data):
    index = data.draw(st.integers(0, coding.count - 1))
    assert coding.index(coding.values(index)) == index
    values = [data.draw(st.integers(0, size - 1)) for size in coding.sizes]
    assert coding.values(coding.index(values)).tolist() == values


def test_codings_have_the_published_strides():
    assert [each.count for each in (sepsis.OBSERVED, sepsis.FULL, sepsis.PROJECTED, sepsis.ACTIONS)] == [
        720,
        1440,
        144,
        8,
    ]
    for index, values, projected in (
        (376, [1, 1, 1, 2, 0, 0, 0], 72),
        (719, [2, 2, 1, 4, 1, 1, 1], 143),
        (240, [1, 0, 0, 0, 0, 0, 0], 48),
    ):
        assert sepsis.OBSERVED.values(index).tolist() == values
        assert sepsis.projected(index) == projected
        assert sepsis.FULL.index([1, *values]) == 720 + index
    every = np.arange(720)
    np.testing.assert_array_equal(sepsis.projected(every), 8 * (every // 40) + every % 8)
    assert sepsis.ACTIONS.index([1, 0, 1]) == 5
    assert [sepsis.flags_after(action) for action in range(8)] == [0, 2, 1, 3, 4, 6, 5, 7]


@pytest.mark.usefixtures("as_users_call")
def test_what_no_coding_has_is_refused():
    with pytest.raises(InputError, match=r"`index` must lie in 0\.\.719, got 720"):
        sepsis.OBSERVED.values(720)
    with pytest.raises(InputError, match=r"`oxygen` must lie in 0\.\.1, got 2"):
        sepsis.OBSERVED.index([0, 0, 2, 0, 0, 0, 0])
    with pytest.raises(InputError, match="must end in one of each: antibiotic, ventilation, vasopressor"):
        sepsis.ACTIONS.index([0, 1])
    with pytest.raises(InputError, match="`vital` must be one of heart rate"):
        sepsis.kernel("pulse", sepsis.treatment_modes(0, 0), diabetic=False)
    with pytest.raises(InputError, match="`prob_diabetes` must lie in"):
        sepsis.start(1.5)


# ------------------------------------------------------------------------------------------------ ends and beginning


def test_ends_and_rewards_are_counted():
    rewards = sepsis.rewards()
    assert [(rewards == each).sum() for each in (-1, 1, 0)] == [416, 1, 303]
    assert np.flatnonzero(rewards > 0).tolist() == [376]
    assert np.bincount(sepsis.num_abnormal()).tolist() == [8, 72, 224, 288, 128]
    members = rewards[np.argsort(sepsis.projected(np.arange(720)), kind="stable")].reshape(144, 5)
    deaths = np.bincount((members < 0).sum(axis=1), minlength=6)
    assert deaths.tolist() == [48, 0, 0, 0, 64, 32]
    assert np.flatnonzero((members > 0).any(axis=1)).tolist() == [72]


def test_the_start_is_drawn_again_where_an_episode_would_end():
    start = sepsis.start(0.2)
    np.testing.assert_allclose(start[720:].sum(), 0.18973, atol=5e-6)
    assert [(half > 0).sum() for half in start.reshape(2, 720)] == [37, 37]
    odds = {}
    for heart, h in enumerate((0.25, 0.5, 0.25)):
        for pressure, b in enumerate((0.25, 0.5, 0.25)):
            for oxygen, o in enumerate((0.2, 0.8)):
                for glucose, g in enumerate((0.01, 0.05, 0.15, 0.6, 0.19)):
                    abnormal = (heart != 1) + (pressure != 1) + (oxygen != 1) + (glucose != 2)
                    if 0 < abnormal < 3:
                        odds[720 + 240 * heart + 80 * pressure + 40 * oxygen + 8 * glucose] = h * b * o * g
    accepted = sum(odds.values())
    np.testing.assert_allclose(accepted, 0.665, atol=5e-4)
    for state, chance in odds.items():
        np.testing.assert_allclose(start[state] / start[720:].sum(), chance / accepted, rtol=1e-12)


def test_everything_alive_can_be_reached(published):
    ends = np.tile(sepsis.rewards() != 0, 2)
    reached = published.start > 0
    for _ in range(60):
        reached = reached | (published.matrix.T @ np.repeat(reached & ~ends, 8) > 0)
    assert (reached.sum(), (reached & ~ends).sum()) == (1247, 606)


# ------------------------------------------------------------------------------------------------------------ a step


def enumerate_step(diabetic, state, action, as_published):
    """All ways in which a step can go, stage by stage, as the program does them: {observed state: probability}."""
    antibiotic, ventilation, vasopressor = action >> 2, (action >> 1) & 1, action & 1
    before = dict(zip(("h", "b", "o", "g", "abx", "vaso", "vent"), sepsis.OBSERVED.values(state).tolist(), strict=True))
    ways = [(1.0, (before["h"], before["b"], before["o"], before["g"]))]
    free = {"h", "b", "o", "g"}

    def apply(place, rule):
        nonlocal ways
        after = []
        for chance, vitals in ways:
            moves = rule(vitals[place])
            after += [
                (chance * share, (*vitals[:place], level, *vitals[place + 1 :])) for level, share in moves if share
            ]
            after.append((chance * (1 - sum(share for _, share in moves)), vitals))
        ways = after

    def only(level, target, share):
        return lambda value: [(target, share)] if value == level else []

    def clipped(change, share, top):
        return lambda value: [(min(max(value + change, 0), top), share)]

    if antibiotic:
        apply(0, only(2, 1, 0.5))
        apply(1, only(2, 1, 0.5))
        free -= {"h", "b"}
    elif before["abx"]:
        apply(0, only(1, 2, 0.1))
        apply(1, only(1, 2, 0.1))
        free -= {"h", "b"}
    if ventilation:
        apply(2, only(0, 1, 0.7))
        free -= {"o"}
    elif before["vent"]:
        apply(2, only(1, 0, 0.1))
        free -= {"o"}
    if vasopressor:
        if diabetic:
            apply(1, lambda value: {0: [(1, 0.5), (2, 0.4)], 1: [(2, 0.9)], 2: []}[value])
            apply(3, clipped(1, 0.5, 4))
        else:
            apply(1, clipped(1, 0.7, 2))
        free -= {"b", "g"}
    elif before["vaso"]:
        apply(1, clipped(-1, 0.05 if diabetic else 0.1, 2))
        free -= {"b"}
    for place, name, top, chance in ((0, "h", 2, 0.1), (1, "b", 2, 0.1), (2, "o", 1, 0.1)):
        if name in free:
            apply(
                place,
                lambda value, top=top, chance=chance: [(max(value - 1, 0), chance), (min(value + 1, top), chance)],
            )
    if "g" in free:
        share, most = (0.3, 4) if diabetic else (0.1, 1 if as_published else 4)
        apply(3, lambda value: [(max(value - 1, 0), share), (min(most, value + 1), share)])
    found = {}
    for chance, vitals in ways:
        h, b, o, g = vitals
        index = 240 * h + 80 * b + 40 * o + 8 * g + 4 * antibiotic + 2 * vasopressor + ventilation
        found[index] = found.get(index, 0) + chance
    return {index: chance for index, chance in found.items() if chance > 1e-12}


@pytest.mark.parametrize("as_published", [True, False])
def test_every_row_is_the_enumeration_of_its_step(as_published):
    mdp = sepsis.process(as_published=as_published, absorbing=False)
    rng = np.random.default_rng(0)
    for diabetic, flags, action in np.ndindex(2, 8, 8):
        for vitals in rng.choice(90, 10, replace=False):
            state = int(8 * vitals + flags)
            expected = enumerate_step(diabetic, state, action, as_published)
            successors, probs = mdp.support(720 * diabetic + state, action)
            assert (successors - 720 * diabetic).tolist() == sorted(expected)
            np.testing.assert_allclose(probs, [expected[each] for each in sorted(expected)], atol=1e-14)


@pytest.mark.parametrize(
    ("diabetic", "action", "state", "size", "likely"),
    [
        (0, 0, 384, 54, {384: 0.4608, 624: 0.0576, 376: 0.0576, 144: 0.0576, 464: 0.0576}),
        (1, 1, 60, 12, {138: 0.225, 146: 0.225, 226: 0.18, 218: 0.18, 66: 0.045}),
        (0, 4, 675, 18, {356: 0.2, 596: 0.2, 676: 0.18, 436: 0.18, 588: 0.025}),
    ],
)
def test_rows_have_the_known_probabilities(published, diabetic, action, state, size, likely):
    assert len(published.support(720 * diabetic + state, action)[0]) == size
    row = published.row(720 * diabetic + state, action)
    np.testing.assert_allclose([row[720 * diabetic + after] for after in likely], list(likely.values()), atol=1e-12)


def test_the_published_process_has_its_known_support(published):
    assert (published.probs > 0).sum() == 108_238
    assert published.width == 54


@pytest.mark.parametrize(
    ("diabetic", "antibiotic", "vasopressor", "rows"),
    [
        (False, "given", "given", [[0.3, 0.7, 0], [0, 0.3, 0.7], [0, 0.15, 0.85]]),
        (False, "given", "withdrawn", [[1, 0, 0], [0.1, 0.9, 0], [0.05, 0.5, 0.45]]),
        (False, "withdrawn", "withdrawn", [[1, 0, 0], [0.09, 0.82, 0.09], [0, 0.1, 0.9]]),
        (True, "withdrawn", "given", [[0.1, 0.5, 0.4], [0, 0.09, 0.91], [0, 0, 1]]),
        (True, "given", "withdrawn", [[1, 0, 0], [0.05, 0.95, 0], [0.025, 0.5, 0.475]]),
        (True, "absent", "absent", [[0.9, 0.1, 0], [0.1, 0.8, 0.1], [0, 0.1, 0.9]]),
    ],
)
def test_blood_pressure_feels_antibiotics_first(diabetic, antibiotic, vasopressor, rows):
    modes = {"antibiotic": antibiotic, "ventilation": "absent", "vasopressor": vasopressor}
    np.testing.assert_allclose(sepsis.kernel("blood pressure", modes, diabetic=diabetic), rows, atol=1e-15)


def test_only_the_published_glucose_traps_people_without_diabetes():
    modes = sepsis.treatment_modes(0, 0)
    published = sepsis.kernel("glucose", modes, diabetic=False, as_published=True)
    expected = [[0.9, 0.1, 0, 0, 0], [0.1, 0.9, 0, 0, 0], [0, 0.2, 0.8, 0, 0], [0, 0.1, 0.1, 0.8, 0]]
    np.testing.assert_allclose(published, [*expected, [0, 0.1, 0, 0.1, 0.8]], atol=1e-15)
    repaired = sepsis.kernel("glucose", modes, diabetic=False)
    np.testing.assert_allclose(np.diag(repaired, 1), 0.1)
    np.testing.assert_allclose(np.diag(repaired, -1), 0.1)


def test_different_actions_never_lead_to_the_same_state(published):
    """The treatment flags are part of the state, so the successors of two actions are disjoint everywhere."""
    for action in range(8):
        reachable = published.successors[:, action][published.probs[:, action] > 0]
        assert (reachable % 8 == sepsis.flags_after(action)).all()


# --------------------------------------------------------------------------------------------------------- policies


def outcome_shares(mdp, policy, horizon=20):
    rewards = np.tile(sepsis.rewards(), 2)
    last = state_distributions(mdp, policy, horizon)[-1]
    return [last[rewards == each].sum() for each in (-1, 0, 1)]


def test_the_published_plan_comes_back(published):
    """The published one comes from a matrix of 10,000 draws a row; with the exact one 18 of 1440 actions differ."""
    plan = policy_iteration(published)
    assert plan.rounds == 7
    known = np.array([21, 0, 92, 190, 24, 0, 748, 365])
    assert np.abs(np.bincount(plan.actions, minlength=8) - known).sum() <= 2 * 18
    ended = sepsis.process(as_published=True)
    soft = softened(plan.policy, 0.95)
    # Outcomes of the published policy; a few actions in rarely visited states make a small difference.
    np.testing.assert_allclose(outcome_shares(ended, plan.policy), [0.0473, 0.4917, 0.4609], atol=0.004)
    np.testing.assert_allclose(outcome_shares(ended, soft), [0.1184, 0.4512, 0.4303], atol=0.004)
    np.testing.assert_allclose(policy_value(ended, soft, horizon=20, discount=1.0), 0.3119, atol=1e-3)


def test_the_episodic_optimum_has_its_known_outcomes():
    ended = sepsis.process(as_published=True)
    np.testing.assert_allclose(
        outcome_shares(ended, policy_iteration(ended).policy), [0.0203, 0.5296, 0.4501], atol=5e-5
    )


def test_repairing_glucose_lets_more_people_go_home(repaired):
    trapped = sepsis.process(as_published=True)
    shares = [outcome_shares(each, policy_iteration(each).policy)[2] for each in (trapped, repaired)]
    assert shares[1] > shares[0] + 0.1


# ------------------------------------------------------------------------------------------------------- projection


def test_projection_sends_ends_to_the_ends(repaired):
    policy = softened(policy_iteration(repaired).policy, 0.7)
    log = simulate(repaired, policy, num_episodes=2000, horizon=20, key=jax.random.key(0))
    seen = log.with_states(sepsis.projection(), sepsis.NUM_PROJECTED, state_names=sepsis.projected_names())
    last = seen.last_states
    np.testing.assert_array_equal(last == sepsis.DEATH, log.returns() < 0)
    np.testing.assert_array_equal(last == sepsis.DISCHARGE, log.returns() > 0)
    assert (log.with_states(sepsis.projection(as_published=True), 146).states < 144).all()


def test_sepsis_states_are_read_as_a_clinician_would():
    features = sepsis.projected_features()
    assert list(features) == ["heart rate normal", "blood pressure normal", "oxygen normal", "death", "discharge"]
    state = sepsis.PROJECTED.index([1, 0, 1, 1, 0, 0])
    assert [values[state] for values in features.values()] == [1, 0, 1, 0, 0]
    assert [values[sepsis.DISCHARGE] for values in features.values()] == [1, 1, 1, 0, 1]
    labels = sepsis.projected_outcomes()
    assert labels[sepsis.DEATH] != labels[sepsis.DISCHARGE]
    assert labels[sepsis.PROJECTED.index([1, 0, 1, 1, 0, 0])] == labels[sepsis.PROJECTED.index([1, 0, 1, 0, 1, 1])]
    assert len(np.unique(labels)) == 20
