"""The sepsis process against an enumeration of its steps written down separately, and against known figures."""

import subprocess
import sys

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from countermax import InputError
from countermax.integrations.gymnasium import SepsisEnv
from countermax.mdp import (
    EpisodeLog,
    FiniteMDP,
    estimate,
    icu_sepsis,
    policy_iteration,
    policy_value,
    simulate,
    softened,
    state_distributions,
)
from countermax.mdp.processes import sepsis

FALSE_ALARM = 1e-4  # of each statistical test below


@pytest.fixture(scope="module")
def published():
    """As published: with the slip in glucose, and with patients who walk on after death and discharge."""
    return sepsis.process(faithful=True, absorbing=False)


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


def enumerate_step(diabetic, state, action, faithful):
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
        share, most = (0.3, 4) if diabetic else (0.1, 1 if faithful else 4)
        apply(3, lambda value: [(max(value - 1, 0), share), (min(most, value + 1), share)])
    found = {}
    for chance, vitals in ways:
        h, b, o, g = vitals
        index = 240 * h + 80 * b + 40 * o + 8 * g + 4 * antibiotic + 2 * vasopressor + ventilation
        found[index] = found.get(index, 0) + chance
    return {index: chance for index, chance in found.items() if chance > 1e-12}


@pytest.mark.parametrize("faithful", [True, False])
def test_every_row_is_the_enumeration_of_its_step(faithful):
    mdp = sepsis.process(faithful=faithful, absorbing=False)
    rng = np.random.default_rng(0)
    for diabetic, flags, action in np.ndindex(2, 8, 8):
        for vitals in rng.choice(90, 10, replace=False):
            state = int(8 * vitals + flags)
            expected = enumerate_step(diabetic, state, action, faithful)
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
    published = sepsis.kernel("glucose", modes, diabetic=False, faithful=True)
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
    ended = sepsis.process(faithful=True)
    soft = softened(plan.policy, 0.95)
    # Outcomes of the published policy; a few actions in rarely visited states make a small difference.
    np.testing.assert_allclose(outcome_shares(ended, plan.policy), [0.0473, 0.4917, 0.4609], atol=0.004)
    np.testing.assert_allclose(outcome_shares(ended, soft), [0.1184, 0.4512, 0.4303], atol=0.004)
    np.testing.assert_allclose(policy_value(ended, soft, horizon=20, discount=1.0), 0.3119, atol=1e-3)


def test_the_episodic_optimum_has_its_known_outcomes():
    ended = sepsis.process(faithful=True)
    np.testing.assert_allclose(
        outcome_shares(ended, policy_iteration(ended).policy), [0.0203, 0.5296, 0.4501], atol=5e-5
    )


def test_repairing_glucose_lets_more_people_go_home(repaired):
    trapped = sepsis.process(faithful=True)
    shares = [outcome_shares(each, policy_iteration(each).policy)[2] for each in (trapped, repaired)]
    assert shares[1] > shares[0] + 0.1


# ------------------------------------------------------------------------------------------------------- simulation


@pytest.fixture(scope="module")
def simulated(repaired):
    policy = softened(policy_iteration(repaired).policy, 0.7)
    return policy, simulate(repaired, policy, num_episodes=20_000, horizon=20, key=jax.random.key(0))


def test_simulated_steps_follow_the_exact_rows(repaired, simulated):
    """Pearson's statistic over all rows at the level `FALSE_ALARM`; rare outcomes of a row are taken together."""
    _, log = simulated
    seen = estimate(log)
    totals = seen.counts.sum(axis=2)
    statistic, freedom = 0.0, 0
    for state, action in np.argwhere(totals).tolist():
        successors, probs = repaired.support(state, action)
        counts = np.bincount(seen.successors[state, action], seen.counts[state, action], minlength=1440)
        assert counts.sum() == counts[successors].sum(), "a step led where it cannot"
        order = np.argsort(-probs)
        expected, found = totals[state, action] * probs[order], counts[successors[order]]
        large = max(1, int((expected >= 10).sum()))
        if expected[large:].sum() < 10:  # too little is left for a cell of its own: the last large one takes it
            large -= 1
        wanted = np.append(expected[:large], expected[large:].sum())
        cells = np.append(found[:large], found[large:].sum())
        statistic += ((cells - wanted) ** 2 / wanted).sum()
        freedom += large
    assert freedom > 1000
    assert stats.chi2.sf(statistic, freedom) > FALSE_ALARM
    assert stats.chi2.cdf(statistic, freedom) > FALSE_ALARM


def test_simulated_episodes_start_act_and_end_as_computed(repaired, simulated):
    policy, log = simulated
    assert log.lengths.min() >= 1
    for observed, exact in (
        (log.states[:, 0], repaired.start),
        (log.last_states, state_distributions(repaired, policy, 20)[-1]),
    ):
        likely = exact * len(log) > 10
        counts = np.bincount(observed, minlength=1440)
        assert counts[exact == 0].sum() == 0
        cells = np.append(counts[likely], counts[~likely].sum())
        wanted = len(log) * np.append(exact[likely], exact[~likely].sum())
        assert stats.chisquare(cells, wanted).pvalue > FALSE_ALARM
    steps = log.steps()
    chosen = np.bincount(steps.state * 8 + steps.action, minlength=1440 * 8).reshape(1440, 8)
    visits = chosen.sum(axis=1, keepdims=True)
    often = visits[:, 0] > 1000
    pearson = ((chosen - visits * policy)[often] ** 2 / (visits * policy)[often]).sum()
    assert stats.chi2.sf(pearson, 7 * often.sum()) > FALSE_ALARM
    standard_error = log.returns().std() / np.sqrt(len(log))
    value = policy_value(repaired, policy, horizon=20, discount=1.0)
    assert abs(log.returns().mean() - value) < stats.norm.isf(FALSE_ALARM / 2) * standard_error


def test_episodes_end_on_arrival_and_not_before(repaired, simulated):
    _, log = simulated
    last = np.take_along_axis(log.states, log.lengths[:, None], axis=1)[:, 0]
    assert (repaired.absorbing[last] | (log.lengths == 20)).all()
    assert not repaired.absorbing[log.states[:, :-1][log.mask]].any()
    np.testing.assert_array_equal(log.returns() != 0, repaired.absorbing[last])


def test_simulation_repeats_with_its_key_and_survives_the_frame(repaired, simulated):
    policy, log = simulated
    again = simulate(repaired, policy, num_episodes=20_000, horizon=20, key=jax.random.key(0))
    np.testing.assert_array_equal(again.states, log.states)
    with jax.enable_x64(True):
        doubled = simulate(repaired, policy, num_episodes=20_000, horizon=20, key=jax.random.key(0))
    np.testing.assert_array_equal(doubled.states, log.states)
    few = log.select(np.arange(50))
    back = EpisodeLog.from_frame(few.to_frame(), num_states=1440, num_actions=8)
    np.testing.assert_array_equal(back.states[:, : back.longest + 1], few.states[:, : back.longest + 1])


def test_projection_sends_ends_to_the_ends(simulated):
    _, log = simulated
    seen = log.with_states(sepsis.projection(), sepsis.NUM_PROJECTED, state_names=sepsis.projected_names())
    last = seen.last_states
    np.testing.assert_array_equal(last == sepsis.DEATH, log.returns() < 0)
    np.testing.assert_array_equal(last == sepsis.DISCHARGE, log.returns() > 0)
    assert (log.with_states(sepsis.projection(faithful=True), 146).states < 144).all()


@pytest.mark.usefixtures("as_users_call")
def test_impossible_simulations_are_refused():
    mdp = FiniteMDP.from_dense(np.ones((2, 1, 2)) / 2, [0, 1.0], start=[0.5, 0.5], absorbing=[1])
    with pytest.raises(InputError, match="state 1 is absorbing: its episodes are empty"):
        simulate(mdp, np.ones((2, 1)), num_episodes=2, horizon=2, key=jax.random.key(0))
    with pytest.raises(InputError, match="`num_episodes` and `horizon` must be at least 1"):
        simulate(mdp, np.ones((2, 1)), num_episodes=0, horizon=2, key=jax.random.key(0))


# -------------------------------------------------------------------------------------------------------- gymnasium


@pytest.mark.parametrize("observation", ["index", "variables"])
def test_the_environment_passes_gymnasiums_checker(observation):
    made = gymnasium.make("countermax/Sepsis-v0", observation=observation, render_mode="ansi")
    check_env(made.unwrapped)


def test_the_environment_stops_at_ends_and_at_twenty_steps():
    env = gymnasium.make("countermax/Sepsis-v0")
    lengths, rewards = [], []
    for seed in range(60):
        observed, info = env.reset(seed=seed)
        assert info["full_state"] % 720 == observed
        for step in range(1, 21):
            observed, reward, terminated, truncated, _ = env.step(6 * (seed % 2))
            assert reward == sepsis.rewards()[observed]
            if terminated or truncated:
                lengths.append(step)
                rewards.append(reward)
                break
        assert terminated == (reward != 0)
    assert max(lengths) == 20
    assert {-1.0, 0.0, 1.0} == set(rewards)


def test_the_environment_refuses_what_it_does_not_know():
    env = SepsisEnv(render_mode="ansi")
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        env.step(0)
    _, info = env.reset(seed=0, options={"diabetic": True, "state": 384})
    assert info == {"diabetic": True, "full_state": 720 + 384}
    assert "glucose high; on nothing; diabetic" in env.render()
    with pytest.raises(InputError, match=r"`action` must be an integer in 0\.\.7, got 8"):
        env.step(8)
    with pytest.raises(InputError, match="`options` must be among state, diabetic, got sugar"):
        env.reset(options={"sugar": 1})
    with pytest.raises(InputError, match="observed index in which an episode goes on, got 376"):
        env.reset(options={"state": 376})
    with pytest.raises(InputError, match="`observation` must be one of index, variables, got 'picture'"):
        SepsisEnv(observation="picture")
    with pytest.raises(InputError, match="`render_mode` must be None or ansi"):
        SepsisEnv(render_mode="human")


@pytest.mark.parametrize("missing", ["gymnasium", "icu_sepsis"])
def test_missing_extras_are_named(missing):
    use = {
        "gymnasium": "import countermax.integrations.gymnasium",
        "icu_sepsis": "from countermax.mdp import icu_sepsis; icu_sepsis()",
    }[missing]
    hide = "sys.modules['gymnasium'] = None" if missing == "gymnasium" else "extras.find_spec = lambda name: None"
    code = f"import sys, countermax._core.extras as extras\n{hide}\n{use}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"pip install 'countermax[{missing.replace('_', '-')}]'" in done.stderr


# ------------------------------------------------------------------------------------------------------- icu-sepsis


def test_the_icu_process_has_its_published_baselines():
    """Returns .78, .78, .88 and lengths 9.45, 9.22, 10.99 of the random, the expert and the optimal policy."""
    icu = icu_sepsis()
    assert icu.mdp.probs.shape[:2] == (716, 25)
    assert icu.mdp.absorbing.nonzero()[0].tolist() == [713, 714, 715]
    assert icu.admissible.sum() == 2313
    policies = [np.full((716, 25), 1 / 25), icu.expert_policy, policy_iteration(icu.mdp).policy]
    for policy, value, length in zip(policies, (0.78, 0.78, 0.88), (9.45, 9.22, 10.99), strict=True):
        assert abs(policy_value(icu.mdp, policy) - value) < 0.005
        going_on = state_distributions(icu.mdp, policy, 400)[:, ~icu.mdp.absorbing].sum()
        assert abs(going_on - length) < 0.03


def test_the_icu_process_can_keep_to_what_was_seen():
    icu = icu_sepsis(admissible_only=True)
    np.testing.assert_array_equal(icu.mdp.allowed, icu.admissible | icu.mdp.absorbing[:, None])
    assert icu.admissible[np.arange(716), policy_iteration(icu.mdp).actions][:713].all()
