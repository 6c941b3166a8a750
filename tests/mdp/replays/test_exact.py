"""Whole trajectories: the exact chain against enumeration of all paths and of all noise."""

import functools
import itertools
import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from processes import HORIZON, LOG, MDP, NUM_ACTIONS, NUM_STATES, POLICY, single_decisions, small_mdp, some_episodes

from countermax import Gadget2, GumbelMax, Independent, InputError, InverseCDF, Maximal, Optimal
from countermax.couplings import AbstractSampler
from countermax.mdp import Cohort, EpisodeLog, FiniteMDP, estimate, estimate_policy, simulate
from countermax.mdp._estimation import deterministic
from countermax.mdp._planning import policy_values


@functools.cache
def row_of(coupling, fact, world):
    """One step of the chain from the public couplings, over all states."""
    (state, action, successor), (other, choice) = fact, world
    with jax.enable_x64(True), np.errstate(divide="ignore"):
        p, q = np.log(MDP.row(state, action)), np.log(MDP.row(other, choice))
        return np.asarray(ROWS[coupling](p, q, successor))


COUPLINGS = [GumbelMax(), InverseCDF(), Maximal(), Independent()]
ROWS = {type(each): jax.jit(lambda p, q, x, each=each: each.counterfactual_probs(p, q, x)) for each in COUPLINGS}


def enumerated(coupling, mdp, log, policy, horizon, discount):
    """Return and its square, over all counterfactual paths of each episode, one by one."""
    moments = []
    for episode in range(len(log)):
        total = np.zeros(2)
        for path in itertools.product(range(NUM_ACTIONS), range(NUM_STATES), repeat=horizon):
            actions, states = path[::2], path[1::2]
            chance, earned, state = 1.0, 0.0, int(log.states[episode, 0])
            for step, (action, successor) in enumerate(zip(actions, states, strict=True)):
                row = mdp.row(state, action)
                if not mdp.absorbing[state]:
                    chance *= policy[state, action]
                    if step < log.lengths[episode]:
                        seen = log.states[episode, step], log.actions[episode, step], log.states[episode, step + 1]
                        fact = tuple(map(int, seen))
                        same = (state, action) == fact[:2]  # nothing is changed, so nothing changes
                        row = np.eye(NUM_STATES)[fact[2]] if same else row_of(type(coupling), fact, (state, action))
                elif action:
                    chance = 0  # where nothing is left to decide, one action stands for all
                chance *= row[successor]
                if chance == 0:
                    break
                slot = list(mdp.successors[state, action]).index(successor)
                earned += discount**step * mdp.rewards[state, action, slot]
                state = successor
            total += chance * np.array([earned, earned**2])
        moments.append(total)
    first, second = np.array(moments).T
    return first, second - first**2


@pytest.mark.parametrize("coupling", COUPLINGS, ids=lambda each: type(each).__name__)
def test_values_and_variances_are_sums_over_all_paths(coupling):
    """One step longer than the log, so that the plain rows after its end are walked too."""
    log = LOG.select([0, 1, 2])
    found = Cohort(log, POLICY, process=MDP, horizon=HORIZON + 1, censored="model").replay(coupling)
    values, variances = enumerated(coupling, MDP, log, POLICY, HORIZON + 1, MDP.discount)
    np.testing.assert_allclose(found.values, values, atol=1e-12)
    np.testing.assert_allclose(found.variances, variances, atol=1e-12)


def test_the_chain_is_the_enumeration_of_all_noise():
    """Of inverse CDF, whose noise is one number: between two cuts of [0, 1] no row can distinguish its values."""
    log = some_episodes(MDP, 4, seed=5)
    found = Cohort(log, deterministic([1, 0, 1, 0], NUM_ACTIONS), process=MDP).replay(InverseCDF())
    cuts = np.unique(np.append(0, [MDP.row(s, a).cumsum() for s in range(NUM_STATES) for a in range(NUM_ACTIONS)]))
    cuts = np.unique(np.clip(np.round(cuts, 15), 0, 1))
    middles, widths = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts)

    def respond(uniform, state, action):
        return int(np.searchsorted(MDP.row(state, action).cumsum(), uniform))

    for episode in range(len(log)):
        chain = {int(log.states[episode, 0]): (1.0, 0.0)}
        for step in range(HORIZON):
            after = {}
            for other, (mass, earned) in chain.items():
                choice = [1, 0, 1, 0][other]
                for uniform, width in zip(middles, widths, strict=True):
                    share = width
                    if step < log.lengths[episode]:
                        state, action = int(log.states[episode, step]), int(log.actions[episode, step])
                        successor = int(log.states[episode, step + 1])
                        agrees = respond(uniform, state, action) == successor
                        share = width / MDP.row(state, action)[successor] if agrees else 0
                    if share == 0:
                        continue
                    target = respond(uniform, other, choice) if other != 3 else 3
                    slot = list(MDP.successors[other, choice]).index(target)
                    gain = MDP.discount**step * MDP.rewards[other, choice, slot]
                    before = after.get(target, (0.0, 0.0))
                    after[target] = (before[0] + mass * share, before[1] + share * (earned + mass * gain))
            chain = after
        assert found.values[episode] == pytest.approx(sum(earned for _, earned in chain.values()), abs=1e-9)
        for state, (mass, _) in chain.items():
            assert found.last[[episode], [state]][0] == pytest.approx(mass, abs=1e-9)


def test_without_a_change_of_policy_nothing_changes():
    """The policy that does what was done, where the log says what that was."""
    transitions = np.eye(5)[[[1], [2], [3], [4], [4]]] * 0.6 + np.eye(5)[[[2], [3], [4], [4], [4]]] * 0.4
    mdp = FiniteMDP.from_dense(transitions, np.arange(5.0), start=0, absorbing=[4])
    log = simulate(mdp, np.ones((5, 1)), num_episodes=30, horizon=6, key=jax.random.key(0))
    for coupling in COUPLINGS:
        found = Cohort(log, np.ones((5, 1)), process=mdp).replay(coupling)
        np.testing.assert_allclose(found.values, found.observed, atol=1e-12)
        np.testing.assert_allclose(found.variances, 0, atol=1e-12)
        np.testing.assert_allclose(found.effects, 0, atol=1e-12)


def test_averaged_over_what_could_have_been_seen_every_coupling_gives_the_policys_value():
    """One step: the facts follow p, so their counterfactuals follow q whatever the coupling."""
    for coupling in COUPLINGS:
        total = 0.0
        for state, action in itertools.product(range(3), range(NUM_ACTIONS)):
            successors, probs = MDP.support(state, action)
            log = EpisodeLog(
                states=np.stack([np.full(len(successors), state), successors], axis=1),
                actions=np.full((len(successors), 1), action),
                rewards=MDP.rewards[state, action, : len(successors), None],
                lengths=np.ones(len(successors), int),
                num_states=NUM_STATES,
                num_actions=NUM_ACTIONS,
            )
            total += MDP.start[state] / NUM_ACTIONS * probs @ Cohort(log, POLICY, process=MDP).replay(coupling).values
        assert total == pytest.approx(MDP.start @ policy_values(MDP, POLICY, horizon=1), abs=1e-12)


def test_labels_decide_what_two_worlds_have_in_common():
    """Two actions lead to twins of the same two states; called by one name they agree, by two names they cannot."""
    transitions = np.zeros((5, 2, 5))
    transitions[0, 0, [1, 2]] = transitions[0, 1, [3, 4]] = [0.5, 0.5]
    transitions[1:, :, 0] = 1
    mdp = FiniteMDP.from_dense(transitions, np.array([0, 1.0, 0, 1.0, 0]), start=0)
    log = EpisodeLog(
        states=np.array([[0, 1]]), actions=np.array([[0]]), rewards=np.array([[1.0]]), lengths=np.array([1]),
        num_states=5, num_actions=2,
    )  # fmt: skip
    policy = deterministic([1, 0, 0, 0, 0], 2)
    assert Cohort(log, policy, process=mdp).replay(GumbelMax()).values[0] == pytest.approx(0.5)
    assert Cohort(log, policy, process=mdp, outcomes=[0, 1, 2, 1, 2]).replay(GumbelMax()).values[0] == pytest.approx(1)
    with pytest.raises(InputError, match=r"two of state 0, action 1 share a label"):
        Cohort(log, policy, process=mdp, outcomes=[0, 1, 2, 3, 3]).replay(GumbelMax())


def test_couplings_made_for_a_number_of_outcomes_see_all_of_them():
    gadget = Gadget2(NUM_STATES, 3, key=jax.random.key(0), hidden=(4,))
    found = Cohort(LOG.select([0]), POLICY, process=MDP, horizon=1).replay(gadget)
    state, action, successor = (int(each) for each in (LOG.states[0, 0], LOG.actions[0, 0], LOG.states[0, 1]))
    expected = 0.0
    with np.errstate(divide="ignore"), jax.enable_x64(True):
        for choice in range(NUM_ACTIONS):
            p, q = np.log(MDP.row(state, action)), np.log(MDP.row(state, choice))
            row = np.asarray(jax.jit(lambda p, q: gadget.counterfactual_probs(p, q, successor))(p, q))
            reached, _ = MDP.support(state, choice)
            expected += POLICY[state, choice] * row[reached] @ MDP.rewards[state, choice, : len(reached)]
    assert found.values[0] == pytest.approx(expected, abs=1e-6)
    with pytest.raises(InputError, match="as many outcomes as there are, 4, but this Optimal is for 3"):
        Cohort(LOG, POLICY, process=MDP).replay(Optimal(np.zeros((3, 3))))


def test_bad_input_is_named(as_users_call):
    with pytest.raises(InputError, match=r"sum to one in each state, got 0.5 in state 2"):
        Cohort(LOG, np.where(np.arange(4)[:, None] == 2, POLICY / 2, POLICY), process=MDP).replay(GumbelMax())
    with pytest.raises(InputError, match="make an instance"):
        Cohort(LOG, POLICY, process=MDP).replay(GumbelMax)
    other = small_mdp(0, sparse=False)
    with pytest.raises(
        InputError, match=r"episode \d+, step \d+, goes from state . by action . to state ., which has prob"
    ):
        Cohort(some_episodes(other, 200), POLICY, process=MDP).replay(GumbelMax())
    with pytest.raises(InputError, match="states and actions of the process, 4 and 2, got 5 and 2"):
        Cohort(EpisodeLog(**{**LOG.__dict__, "num_states": 5}), POLICY, process=MDP).replay(GumbelMax())

    class Drawn(AbstractSampler):
        @property
        def num_outcomes(self):
            return None

        def _pair(self, log_p, log_q, *, key):
            return Independent()._pair(log_p, log_q, key=key)

        def _counterfactual(self, log_p, log_q, x, *, key):
            return Independent()._counterfactual(log_p, log_q, x, key=key)

    one = LOG.select([0])
    for exact in (
        lambda: Cohort(LOG, POLICY, process=MDP).replay(Drawn()),
        lambda: Cohort(one, POLICY, process=MDP)._model.step_bounds(Drawn()),
        lambda: single_decisions(MDP, one, Drawn()),
    ):
        with pytest.raises(InputError, match="Drawn can only draw; use `Cohort.sample`"):
            exact()
    assert Cohort(LOG, POLICY, process=MDP).sample(Drawn(), num_samples=2).returns.shape == (
        6,
        2,
    )


def test_a_replay_shows_itself_in_every_form():
    found = Cohort(LOG, _seen(LOG), process=estimate(LOG)).replay(GumbelMax())
    frame = found.to_frame()
    effects = frame[frame["quantity"] == "effect"]
    np.testing.assert_allclose(effects["value"], [found.mean_effect.number, *found.effects])
    assert found.row("return", "observed", about="episode 3").value == found.observed[3]
    assert "6 episodes by Gumbel-max" in repr(found)
    for word in ("6 episodes under the other policy, by Gumbel-max", "horizon 3, discount 1", "mean total reward"):
        assert word in str(found)
    plain = json.loads(found.to_json())
    np.testing.assert_allclose(plain["values"], found.values)
    np.testing.assert_allclose(plain["variances"], found.variances)
    assert [text.get_text() for text in found.plot().legends[0].get_texts()][-1].startswith("mean")
    assert str(found).count("The model is taken as given") == 1
    broken = json.loads(replace(found, observed=np.full(len(LOG), np.nan)).to_json())
    first = next(each for each in broken["rows"] if (each["quantity"], each["coupling"]) == ("return", "observed"))
    assert broken["observed"][0] is first["value"] is None


def _seen(log):
    """A policy that keeps to what the log has seen."""
    model = estimate(log)
    return np.where(model.absorbing[:, None], model.allowed / model.allowed.sum(axis=1)[:, None], estimate_policy(log))


@pytest.mark.parametrize("coupling", COUPLINGS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("options", [{}, {"censored": "model", "horizon": 6, "discount": 0.7}, {"actions": "coupled"}])
def test_values_alone_are_those_of_the_replay(coupling, options):
    whole = Cohort(LOG, POLICY, process=MDP, **options).replay(coupling)
    found = Cohort(LOG, POLICY, process=MDP, **options)._model.values(coupling)
    np.testing.assert_allclose(found, whole.values, rtol=0, atol=1e-13)


def _far(seed, offset, *, vary):
    """Four states without an end; rewards of every transition, all of them moved by one number."""
    rng = np.random.default_rng(seed)
    transitions, rewards = rng.dirichlet(np.ones(4), (4, 2)), rng.normal(size=(4, 2, 4)) + offset
    spreads = rng.uniform(size=transitions.shape) if vary else None
    mdp = FiniteMDP.from_dense(transitions, rewards, start=[0.5, 0.5, 0, 0], discount=0.9)
    return replace(mdp, reward_variances=spreads)  # every row leads everywhere: slots are states


@pytest.mark.parametrize("coupling", ["gumbel-max", "gumbel-max-shared-0.5"])
@pytest.mark.parametrize("vary", [False, True])
def test_a_constant_added_to_all_rewards_changes_no_variance(coupling, vary):
    found = []
    for offset in (0.0, 1e8):
        mdp = _far(2, offset, vary=vary)
        log = simulate(mdp, np.full((4, 2), 0.5), num_episodes=3, horizon=3, key=jax.random.key(1))
        found.append(Cohort(log, POLICY, process=mdp, horizon=5, censored="model").replay(coupling, path=True))
    plain, far = found
    assert plain.variances.min() > 0.1
    np.testing.assert_allclose(far.variances, plain.variances, rtol=1e-6)
    np.testing.assert_allclose(far.values, plain.values + 1e8 * (0.9 ** np.arange(5)).sum(), rtol=1e-12)
    np.testing.assert_allclose(far.effects, plain.effects, atol=1e-5)
    np.testing.assert_allclose(far.path, plain.path, atol=1e-12)


def test_a_constant_changes_no_variance_where_every_episode_ends_after_as_many_steps():
    rng = np.random.default_rng(3)
    transitions = np.zeros((5, 2, 5))
    for before, after in (((0, 1), [2, 3]), ((2, 3), [4])):
        for state in before:
            transitions[state][:, after] = rng.dirichlet(np.ones(len(after)), 2)
    rewards, found = rng.normal(size=transitions.shape), []
    for offset in (0.0, 1e8):
        mdp = FiniteMDP.from_dense(transitions, rewards + offset, start=[0.5, 0.5, 0, 0, 0], absorbing=[4])
        log = simulate(mdp, np.full((5, 2), 0.5), num_episodes=6, horizon=2, key=jax.random.key(1))
        found.append(Cohort(log, np.full((5, 2), 0.5), process=mdp).replay(GumbelMax()))
    plain, far = found
    assert plain.variances.min() > 0.01
    np.testing.assert_allclose(far.variances, plain.variances, rtol=1e-6)
    np.testing.assert_allclose(far.values, plain.values + 2e8, rtol=1e-12)


def test_couplings_are_taken_by_name():
    one = LOG.select([0])
    np.testing.assert_array_equal(
        Cohort(LOG, POLICY, process=MDP).replay("inverse-cdf").values,
        Cohort(LOG, POLICY, process=MDP).replay(InverseCDF()).values,
    )
    assert Cohort(LOG, POLICY, process=MDP, actions="coupled").replay("gumbel-max").coupling == "Gumbel-max"
    np.testing.assert_array_equal(
        Cohort(LOG, POLICY, process=MDP)._model.values("maximal"),
        Cohort(LOG, POLICY, process=MDP)._model.values(Maximal()),
    )
    by_name, by_itself = (single_decisions(MDP, one, each) for each in ("gumbel-max", GumbelMax()))
    assert by_name.to_dict() == by_itself.to_dict()
    np.testing.assert_array_equal(
        Cohort(one, POLICY, process=MDP)._model.step_bounds("maximal"),
        Cohort(one, POLICY, process=MDP)._model.step_bounds(Maximal()),
    )
    drawn = Cohort(one, POLICY, process=MDP).sample("gumbel-max", num_samples=2)
    assert drawn.coupling == "Gumbel-max"
    with pytest.raises(InputError, match="`coupling` must be .*gumbel-max.* got 'gumbel'"):
        Cohort(LOG, POLICY, process=MDP).replay("gumbel")
