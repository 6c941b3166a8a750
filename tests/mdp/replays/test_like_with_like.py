"""Both worlds cover the same steps, and what is not changed does not change."""

import itertools

import jax
import numpy as np
import pytest
from processes import LOG, MDP, NUM_ACTIONS, NUM_STATES, POLICY, counted, single_decisions, some_episodes

from countermax import Gadget1, Gadget2, GumbelMax, Independent, InputError, InverseCDF, Maximal
from countermax.mdp import Cohort, EpisodeLog, FiniteMDP, Posterior, estimate, simulate
from countermax.mdp._estimation import deterministic
from countermax.mdp._planning import policy_values

COUPLINGS = [
    GumbelMax(),
    InverseCDF(),
    Maximal(),
    Independent(),
    Gadget2(NUM_STATES, 3, key=jax.random.key(0), hidden=(4,)),
    Gadget1(NUM_STATES, key=jax.random.key(0), hidden=(4,)),
]
IDS = [type(each).__name__ for each in COUPLINGS]
CHOSEN = deterministic([0, 1, 0, 0], NUM_ACTIONS)


def logged(policy, count, seed=0, horizon=8):
    return simulate(MDP, policy, num_episodes=count, horizon=horizon, key=jax.random.key(seed))


def cut(log, lengths):
    """The same episodes, seen up to some step only."""
    lengths = np.minimum(log.lengths, lengths)
    return EpisodeLog(
        states=log.states, actions=log.actions, rewards=log.rewards, lengths=lengths,
        num_states=log.num_states, num_actions=log.num_actions,
    )  # fmt: skip


@pytest.mark.parametrize("coupling", COUPLINGS, ids=IDS)
@pytest.mark.parametrize("horizon", [1, 3, None, 12])
def test_the_logged_policy_changes_nothing_at_any_horizon(coupling, horizon):
    log = cut(logged(CHOSEN, 40), np.random.default_rng(0).integers(1, 8, 40))
    found = Cohort(log, CHOSEN, process=MDP, horizon=horizon).replay(coupling)
    np.testing.assert_allclose(found.effects, 0, atol=1e-12)
    np.testing.assert_allclose(found.variances, 0, atol=1e-12)
    bounds = Cohort(log, CHOSEN, process=MDP, horizon=horizon).bounds()
    np.testing.assert_allclose(bounds.lower, found.observed, atol=1e-12)
    np.testing.assert_allclose(bounds.upper, found.observed, atol=1e-12)


def test_censored_episodes_stop_where_they_were_seen_and_others_run_to_the_horizon():
    log = logged(POLICY, 30, horizon=3)
    found = Cohort(log, POLICY, process=MDP, horizon=9).replay(Independent())
    ended = MDP.absorbing[log.last_states]
    assert ended.any()
    assert not ended.all()
    np.testing.assert_array_equal(found.steps, np.where(ended, 9, log.lengths))
    np.testing.assert_array_equal(found.censored, ~ended)
    told = f"{int((~ended).sum())} of 30 episodes are censored: compared up to "
    assert any(each.startswith(told) for each in found.notes)
    assert any(each.startswith(told) for each in found.to_dict()["notes"])
    carried = Cohort(log, POLICY, process=MDP, horizon=9, censored="model").replay(Independent())
    np.testing.assert_array_equal(carried.steps, 9)
    assert any("carried on with the model in both worlds" in each for each in carried.notes)
    np.testing.assert_allclose(carried.observed[ended], found.observed[ended])
    with pytest.raises(InputError, match=r'`censored` must be "stop" or "model"'):
        Cohort(log, POLICY, process=MDP, censored="drop").replay(GumbelMax())


def test_the_model_carries_both_worlds_on():
    """With the one policy that ever acted, the logged one, nothing changes after the end of the log either."""
    log = cut(logged(CHOSEN, 40), 2)
    model = estimate(log, discount=MDP.discount, absorbing=MDP.absorbing)
    target = np.where(model.allowed, CHOSEN, 0)
    target = np.where(target.sum(axis=1, keepdims=True) > 0, target, np.eye(NUM_ACTIONS)[0])
    found = Cohort(log, target, process=model, horizon=6, censored="model").replay(GumbelMax())
    assert any("carried on with the model" in each for each in found.notes)
    np.testing.assert_allclose(found.effects, 0, atol=1e-12)
    later = policy_values(model, target, horizon=4)[log.last_states]
    expected = log.returns(model.discount) + model.discount**2 * np.where(found.censored, later, 0)
    np.testing.assert_allclose(found.observed, expected, atol=1e-12)


def test_an_episode_by_itself_has_as_many_steps_as_it_has():
    log = logged(POLICY, 30)
    short = int(np.argmin(log.lengths))
    one = log.select([short])
    assert one.longest == log.lengths[short] < log.longest
    assert single_decisions(MDP, one, GumbelMax()).horizon == one.longest
    assert len(Cohort(one, POLICY, process=MDP)._model.step_bounds(GumbelMax()).lower) == one.longest


def test_two_actions_that_are_the_same_are_worth_the_same():
    """Padding used to let the copy of an action earn what the rest of the log had room for."""
    transitions = np.zeros((3, 2, 3))
    transitions[:, :, 0], transitions[:, :, 1], transitions[:, :, 2] = 0.5, 0.3, 0.2
    mdp = FiniteMDP.from_dense(transitions, np.array([1.0, 0.0, 0.0]), start=0, absorbing=[2])
    log = simulate(mdp, np.full((3, 2), 0.5), num_episodes=40, horizon=9, key=jax.random.key(0))
    short = log.select([int(np.argmin(log.lengths))])
    for each in single_decisions(mdp, short, GumbelMax()):
        assert each.effect == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("coupling", COUPLINGS, ids=IDS)
def test_no_coupling_leaves_the_bounds(coupling):
    log = logged(POLICY, 25, seed=3)
    values = Cohort(log, CHOSEN, process=MDP).replay(coupling).values
    bounds = Cohort(log, CHOSEN, process=MDP).bounds()
    assert (values >= bounds.lower - 1e-12).all()
    assert (values <= bounds.upper + 1e-12).all()


def random_rewards(log, seed=0):
    noise = np.random.default_rng(seed).normal(size=log.rewards.shape)
    return EpisodeLog(
        states=log.states, actions=log.actions, rewards=log.rewards + noise, lengths=log.lengths,
        num_states=log.num_states, num_actions=log.num_actions,
    )  # fmt: skip


def test_where_nothing_is_changed_the_logged_reward_is_earned():
    log = random_rewards(logged(CHOSEN, 20))
    found = Cohort(log, CHOSEN, process=MDP).replay(Independent())
    np.testing.assert_allclose(found.effects, 0, atol=1e-12)
    drawn = Cohort(log, CHOSEN, process=MDP).sample(Independent(), num_samples=3)
    np.testing.assert_allclose(drawn.returns, np.repeat(found.observed[:, None], 3, axis=1), atol=1e-12)


def test_elsewhere_rewards_are_means_and_their_variance_is_carried():
    """Two steps, another action at each: means and variances of the transitions add up along every path."""
    log = random_rewards(logged(np.full((NUM_STATES, NUM_ACTIONS), 1 / NUM_ACTIONS), 400))
    model = estimate(log, absorbing=MDP.absorbing, discount=0.9)
    assert model.reward_variances is not None
    one = log.select([0])
    first, action = int(one.states[0, 0]), int(one.actions[0, 0])
    policy = deterministic(np.where(np.arange(NUM_STATES) == first, 1 - action, 0), NUM_ACTIONS)
    found = Cohort(one, policy, process=model, horizon=1).replay(Independent())
    row = model.probs[first, 1 - action]
    mean = row @ model.rewards[first, 1 - action]
    square = row @ (model.rewards[first, 1 - action] ** 2 + model.reward_variances[first, 1 - action])
    assert found.values[0] == pytest.approx(mean, abs=1e-12)
    assert found.variances[0] == pytest.approx(square - mean**2, abs=1e-12)


def test_estimated_variances_are_those_of_the_log():
    log = random_rewards(LOG)
    model = estimate(log)
    steps = log.steps()
    for state, action, successor in list(zip(steps.state, steps.action, steps.next_state, strict=True))[:20]:
        here = (steps.state == state) & (steps.action == action) & (steps.next_state == successor)
        slot = list(model.successors[state, action]).index(successor)
        assert model.reward_variances[state, action, slot] == pytest.approx(steps.reward[here].var(), abs=1e-12)
    assert estimate(LOG).reward_variances is None  # rewards that never vary


BEHAVIOUR = np.array([[0.3, 0.7], [0.6, 0.4], [0.5, 0.5], [1.0, 0.0]])


@pytest.mark.parametrize("coupling", COUPLINGS[:4], ids=IDS[:4])
def test_with_the_noise_of_what_was_done_the_same_policy_changes_nothing(coupling):
    log = random_rewards(logged(BEHAVIOUR, 30))
    found = Cohort(log, BEHAVIOUR, process=MDP, actions="coupled", behaviour=BEHAVIOUR).replay(coupling)
    np.testing.assert_allclose(found.effects, 0, atol=1e-12)
    assert any("with the noise that explains what was done" in note for note in found.notes)
    bounds = Cohort(log, BEHAVIOUR, process=MDP, actions="coupled", behaviour=BEHAVIOUR).bounds()
    np.testing.assert_allclose(bounds.lower, found.observed, atol=1e-12)
    np.testing.assert_allclose(bounds.upper, found.observed, atol=1e-12)
    afresh = Cohort(log, BEHAVIOUR, process=MDP).replay(coupling)
    assert np.abs(afresh.effects).max() > 0.1
    assert any("drawn afresh" in note for note in afresh.notes)


def test_coupled_actions_are_rows_of_the_coupling():
    """One step, by hand: the action's row times the transition's row, with what was done and what was seen."""
    log = logged(BEHAVIOUR, 12, seed=5).select(range(12))
    target = np.array([[0.8, 0.2], [0.1, 0.9], [0.5, 0.5], [1.0, 0.0]])
    for coupling in (GumbelMax(), InverseCDF(), Maximal()):
        found = Cohort(log, target, process=MDP, actions="coupled", behaviour=BEHAVIOUR, horizon=1).replay(coupling)
        bounds = Cohort(log, target, process=MDP, actions="coupled", behaviour=BEHAVIOUR, horizon=1).bounds()
        for episode, (state, action) in enumerate(zip(log.states[:, 0], log.actions[:, 0], strict=True)):
            with jax.enable_x64(True), np.errstate(divide="ignore"):
                wanted = coupling.counterfactual_probs(np.log(BEHAVIOUR[state]), np.log(target[state]), int(action))
                value = 0.0
                for other, chance in enumerate(np.asarray(wanted)):
                    p, q = np.log(MDP.row(int(state), int(action))), np.log(MDP.row(int(state), other))
                    row = np.asarray(coupling.counterfactual_probs(p, q, int(log.states[episode, 1])))
                    if other == action:
                        row = np.eye(NUM_STATES)[log.states[episode, 1]]
                    gains = np.zeros(NUM_STATES)
                    reached, _ = MDP.support(int(state), other)
                    gains[reached] = MDP.rewards[state, other, : len(reached)]
                    value += chance * (row @ gains)
            assert found.values[episode] == pytest.approx(value, abs=1e-12)
            assert bounds.lower[episode] - 1e-12 <= value <= bounds.upper[episode] + 1e-12


def test_sampled_coupled_actions_have_the_exact_mean():
    log = logged(BEHAVIOUR, 4, seed=1)
    target = np.array([[0.8, 0.2], [0.1, 0.9], [0.5, 0.5], [1.0, 0.0]])
    exact = Cohort(log, target, process=MDP, actions="coupled", behaviour=BEHAVIOUR).replay(GumbelMax())
    drawn = Cohort(log, target, process=MDP, actions="coupled", behaviour=BEHAVIOUR).sample(
        GumbelMax(), num_samples=4000, seed=2
    )
    errors = np.sqrt(exact.variances / 4000) + 1e-12
    assert (np.abs(drawn.returns.mean(axis=1) - exact.values) < 5 * errors).all()  # 4 x 6e-7 false alarms


def test_what_cannot_be_coupled_is_refused():
    log = logged(BEHAVIOUR, 5)
    with pytest.raises(InputError, match=r'`actions` must be "fresh" or "coupled", got'):
        Cohort(log, BEHAVIOUR, process=MDP, actions="new").replay(GumbelMax())
    never = deterministic(1 - log.actions[0, 0] + np.zeros(NUM_STATES, int), NUM_ACTIONS)
    with pytest.raises(InputError, match=r"`behaviour` must give what was done a positive probability"):
        Cohort(log, BEHAVIOUR, process=MDP, actions="coupled", behaviour=never).replay(GumbelMax())
    with pytest.raises(InputError, match=r"for as many outcomes as there are actions, 2, for them to be coupled"):
        Cohort(log, BEHAVIOUR, process=MDP, actions="coupled", behaviour=BEHAVIOUR).replay(COUPLINGS[4])


def test_after_the_end_actions_are_as_frequent_as_they_were():
    """After the end of an absorbed episode nothing is logged: there both worlds go by frequencies, here 7 of 12."""
    counts = {(0, 0): 9, (0, 1): 1}
    steps = [(s, a) for (s, a), times in counts.items() for _ in range(times)]
    states = np.array([[s, 1] for s, _ in steps])
    log = EpisodeLog(
        states=states, actions=np.array([[a] for _, a in steps]), rewards=np.zeros((10, 1)),
        lengths=np.ones(10, int), num_states=3, num_actions=2,
    )  # fmt: skip
    transitions = np.zeros((3, 2, 3))
    transitions[0, :, 1] = transitions[0, :, 2] = 0.5
    transitions[2, 0, 2] = transitions[2, 1, 1] = 1.0
    seen = np.zeros(transitions.shape, int)
    seen[2, 0, 2], seen[2, 1, 1] = 6, 4
    mdp = FiniteMDP.from_dense(transitions, np.array([0.0, 0.0, 1.0]), start=0, absorbing=[1])
    mdp = counted(mdp, seen + (transitions > 0))
    found = single_decisions(mdp, log.select([0]), Independent(), horizon=3, posterior=Posterior(num_draws=0))
    other = next(iter(found))
    stays = 7 / 12  # and earns one a step while it stays in 2
    assert other.value == pytest.approx(0.5 * (1 + stays + stays**2))


@pytest.mark.slow
def test_all_of_it_holds_without_compiled_loops(monkeypatch):
    """The same numbers from the formulas of the couplings themselves."""
    from chains import ReferenceChains

    from countermax.mdp._replays import _trajectories

    log, target = random_rewards(logged(BEHAVIOUR, 25, seed=7)), np.array([[0.8, 0.2], [0.1, 0.9], [0.5, 0.5], [1, 0]])
    laws = [GumbelMax(), InverseCDF([2, 0, 3, 1]), Maximal()]
    common = {"actions": "coupled", "behaviour": BEHAVIOUR, "horizon": 9, "censored": "model"}

    def everything():
        for coupling in laws:
            coupled = common if coupling.num_outcomes is None else {}
            for options in ({}, coupled, {"outcomes": [1, 0, 3, 2], "horizon": 4}):
                found = Cohort(log, target, process=MODEL, **options).replay(coupling, path=True)
                yield from (found.values, found.variances, found.path, found.last.toarray())
            one = single_decisions(MODEL, log.select([1]), coupling, outcomes=[1, 0, 3, 2])
            yield np.array([[each.value, *each.effect_bounds] for each in one])
            yield np.array(Cohort(log.select([1]), target, process=MODEL)._model.step_bounds(coupling))
        for stable, options in itertools.product((False, True), ({}, common)):
            yield np.array(Cohort(log, target, process=MODEL, **options).bounds(stable=stable))
            final = np.random.default_rng(0).normal(size=(25, NUM_STATES))
            yield np.array(Cohort(log, target, process=MODEL).bounds(stable=stable, rewards=0.0, final=final))

    MODEL = estimate(random_rewards(some_episodes(MDP, 500, seed=1)), absorbing=MDP.absorbing, discount=0.9)
    quick = list(everything())
    monkeypatch.setattr(_trajectories, "chains_for", ReferenceChains)
    for fast, slow in zip(quick, everything(), strict=True):
        np.testing.assert_allclose(fast, slow, atol=1e-12)
