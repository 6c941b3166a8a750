"""What may be called robust: chance that persists, rewards that vary, rows that nobody visited, few draws."""

import re
from dataclasses import replace

import jax
import numpy as np
import pytest
from processes import MDP, POLICY, counted, frame_of, some_episodes

from countermax import GumbelMax, InputError
from countermax.mdp import (
    Cohort,
    Decision,
    EpisodeLog,
    FiniteMDP,
    Posterior,
    Ranking,
    estimate,
    policy_iteration,
    simulate,
)
from countermax.mdp._estimation import deterministic
from countermax.mdp._planning import policy_values
from countermax.mdp._posterior import attained

LOG = some_episodes(MDP, 12, seed=4)


def trait_log(count=2000):
    """A trait of each patient, never recorded, decides all: whichever action is taken, the end is the same."""
    start, via_a, via_b, via_c, home, dead = range(6)
    rows, rng = [], np.random.default_rng(0)
    for episode in range(count):
        action, trait = episode % 2, int(rng.integers(2))
        between = via_a if action == 0 else (via_b if trait else via_c)
        end = home if trait else dead
        rows.append((episode, 0, start, action, between, 0.0))
        rows.append((episode, 1, between, action, end, float(trait)))
    return EpisodeLog.from_frame(frame_of(*rows), num_states=6, num_actions=2)


def all_b(process):
    wanted = np.where(process.allowed[:, 1], 1, 0)
    return deterministic(wanted, 2)


def test_nothing_is_robust_where_a_trait_that_is_not_recorded_decides_all():
    """The effect is 0 for everybody, though the fitted process calls it .5 for all who died under the first action."""
    log = trait_log()
    model = estimate(log, absorbing=[4, 5])
    cohort = Cohort(log, all_b(model), process=model, posterior=Posterior(num_draws=40))
    found = cohort.rank(["gumbel-max"])
    assert found.agreed.sum() > 400
    assert found.robust.sum() == 0
    assert (found.persistent.lower <= 1e-9).all()
    assert (found.persistent.upper >= -1e-9).all()
    patient = int(np.flatnonzero(found.agreed)[0])
    story = cohort.explain(patient)
    assert story.depends_on == ("chance not persisting across steps",)
    assert "draws afresh at each step" in story.summary()
    assert "obust" not in story.summary()
    assert not any(each.robust for each in story.decisions)


def random_process(seed):
    """Eight states, one of them the end; rows lead to three states each, and rewards go by where they lead."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((8, 3, 8))
    for state, action in np.ndindex(7, 3):
        rows[state, action, rng.choice(8, 3, replace=False)] = rng.dirichlet(np.ones(3))
    rows[7, :, 7] = 1
    worth = np.append(rng.normal(size=7), 0)
    return FiniteMDP.from_dense(rows, worth, start=0, absorbing=[7])


def returns_of(mdp, policy, state, steps, discount, first=None):
    """Every path from a state: its probability and its return, by enumeration."""
    if steps == 0 or mdp.absorbing[state]:
        return [(1.0, 0.0)]
    found = []
    for action in range(mdp.num_actions):
        share = policy[state, action] if first is None else first[action]
        for place, (after, chance) in enumerate(zip(*mdp.support(state, action), strict=True)):
            for weight, later in returns_of(mdp, policy, int(after), steps - 1, discount) if share > 0 else ():
                found.append((share * chance * weight, mdp.rewards[state, action, place] + discount * later))
    return found


def tail_mean(paths, share, sign):
    left, total = share, 0.0
    for weight, value in sorted(paths, key=lambda each: -sign * each[1]):
        taken = min(weight, left)
        total, left = total + taken * value, left - taken
    return total / share


def persistent_value(mdp, log, policy, episode, horizon, discount, sign):
    length, earned, together, found = int(log.lengths[episode]), 0.0, 1.0, 0.0
    steps = horizon if mdp.absorbing[log.last_states[episode]] else length
    states, actions = log.states[episode].tolist(), log.actions[episode].tolist()
    for step in range(length):
        same = policy[states[step], actions[step]]
        if same < 1:
            rest = range(step, length)
            share = np.prod([mdp.row(states[each], actions[each])[states[each + 1]] for each in rest])
            first = np.where(np.arange(mdp.num_actions) == actions[step], 0, policy[states[step]]) / (1 - same)
            paths = returns_of(mdp, policy, states[step], steps - step, discount, first)
            found += together * (1 - same) * (earned + discount**step * tail_mean(paths, share, sign))
        together, earned = together * same, earned + discount**step * log.rewards[episode, step]
    rest = returns_of(mdp, policy, states[length], steps - length, discount)
    return found + together * (earned + discount**length * sum(weight * value for weight, value in rest))


@pytest.mark.parametrize("policy", [POLICY, deterministic([0, 1, 0, 0], 2)], ids=["by chance", "for certain"])
def test_chance_that_persists_leaves_the_tail_means_of_enumerated_paths(policy):
    cohort = Cohort(LOG, policy, process=MDP)
    found, each_step = cohort.bounds(persistent=True), cohort.bounds()
    for sign, limits in ((-1, found.lower), (1, found.upper)):
        sizes = (cohort.horizon, cohort.discount, sign)
        exact = np.array([persistent_value(MDP, LOG, policy, each, *sizes) for each in range(len(LOG))])
        assert (sign * (limits - exact) >= -1e-9).all()  # the grid may widen ranges, never narrow them
        np.testing.assert_allclose(limits, exact, atol=0.1)
    assert (found.lower <= each_step.lower + 1e-9).all()
    assert (found.upper >= each_step.upper - 1e-9).all()


def test_tail_means_are_exact_where_rewards_are_multiples_of_one_number():
    mdp = FiniteMDP.from_dense(
        np.stack([MDP.row(s, a) for s in range(4) for a in range(2)]).reshape(4, 2, 4),
        np.array([0.0, -1.0, 2.0, 1.0]),
        start=0,
        absorbing=[3],
    )
    log = some_episodes(mdp, 12, seed=2)
    found = Cohort(log, POLICY, process=mdp).bounds(persistent=True)
    for sign, limits in ((-1, found.lower), (1, found.upper)):
        exact = [persistent_value(mdp, log, POLICY, each, log.longest, 1.0, sign) for each in range(len(log))]
        np.testing.assert_allclose(limits, exact, atol=1e-9)
    with pytest.raises(InputError, match="`stable` must be left out where chance may persist"):
        Cohort(log, POLICY, process=mdp).bounds(persistent=True, stable=True)


def noisy_log(count=400):
    """One step; either action earns the same noise, so that the effect of the other one is 0 for everybody."""
    rng = np.random.default_rng(0)
    rows = [(episode, 0, 0, episode % 2, 1, float(rng.normal())) for episode in range(count)]
    return EpisodeLog.from_frame(frame_of(*rows))


def test_rewards_that_vary_within_a_transition_are_not_robust_effects():
    log = noisy_log()
    model = estimate(log)
    found = Cohort(log, deterministic([1, 1], 2), process=model, posterior=Posterior(num_draws=40)).rank(["maximal"])
    assert (np.abs(found.effects["maximal"]) > 0.5).sum() > 50  # regression to the mean
    assert found.agreed.sum() <= 2  # the least reward of one arm may lie above that of the other
    assert not found.robust.any()
    seen = log.rewards[log.actions == 1]
    np.testing.assert_allclose(found.bounds.lower[0], seen.min() - log.rewards[0, 0], atol=0.2)


def test_a_transition_seen_once_has_an_unknown_reward_error():
    rng, rows = np.random.default_rng(1), []
    for episode in range(100):  # in states 0..49 each action was taken once; in state 50 often
        rows.append((episode, 0, episode // 2, episode % 2, 51, float(rng.normal())))
    rows += [(100 + each, 0, 50, each % 2, 51, float(rng.normal())) for each in range(40)]
    log = EpisodeLog.from_frame(frame_of(*rows), num_states=52, num_actions=2)
    found = Cohort(log, deterministic([1] * 52, 2), posterior=Posterior(num_draws=40)).rank(["maximal"])
    once = np.arange(100)[::2]
    assert found.agreed[once].mean() < 0.05
    draws = [each.rewards[0, 1, 0] for each in Posterior(num_draws=60).draws(estimate(log))]
    assert 0.3 < np.std(draws) < 3


def test_rewards_of_an_action_taken_seldom_vary_as_much_as_those_of_others():
    """One noise for all and no effect for anybody; what a few people earned is not all that may be earned."""
    rng = np.random.default_rng(5)
    rows = [(episode, 0, 0, int(episode % 20 == 0), 1, float(rng.normal())) for episode in range(440)]
    log = EpisodeLog.from_frame(frame_of(*rows))
    found = Cohort(log, deterministic([1, 1], 2), posterior=Posterior(num_draws=40)).rank(["gumbel-max"])
    least = log.rewards[log.actions == 1].min()
    assert (log.rewards[:, 0] < least).sum() > 8
    assert found.agreed.sum() <= 2


def test_what_was_seen_once_is_not_constant_because_rewards_elsewhere_are():
    rng = np.random.default_rng(1)
    rows = [(each, 0, each // 2, each % 2, 50, float(rng.normal())) for each in range(100)]
    rows += [(100 + each, 0, 51, each % 2, 52, 1.0) for each in range(100)]
    log = EpisodeLog.from_frame(frame_of(*rows), num_states=53, num_actions=2)
    found = Cohort(log, deterministic([1] * 53, 2), posterior=Posterior(num_draws=40)).rank(["maximal"])
    assert not found.agreed.any()
    constant = [each.rewards[51, 1, 0] for each in Posterior(num_draws=20).draws(estimate(log))]
    np.testing.assert_array_equal(constant, 1.0)


def test_untried_actions_earn_what_their_end_earns_and_nothing_that_rests_on_them_is_robust():
    rng, rows = np.random.default_rng(0), []
    for episode in range(60):
        died = bool(rng.random() < 0.5)
        rows.append((episode, 0, 0, 0, 2 if died else 1, -1.0 if died else 1.0))
    log = EpisodeLog.from_frame(frame_of(*rows), num_states=3, num_actions=2)
    model = estimate(log, absorbing=[1, 2], unseen=2)
    assert model.rewards[0, 1, 0] == -1
    assert policy_iteration(model).policy[0].tolist() == [1, 0]
    drawn = [each.row(0, 1) for each in Posterior(num_draws=40).draws(model)]
    assert np.ptp(np.array(drawn)[:, 2]) > 0.05  # from the prior, not death for certain
    cohort = Cohort(log, deterministic([1, 0, 0], 2), process=model, posterior=Posterior(num_draws=40))
    found = cohort.rank(["gumbel-max"])
    assert found.untried.all()
    assert not found.agreed.any()
    assert not found.robust.any()
    story = cohort.explain(0)
    assert "actions that nobody took" in story.depends_on
    assert "guess" in story.summary()
    assert all(each.untried and not each.robust for each in story.decisions)
    hopeful = estimate(log, absorbing=[1, 2], unseen=1)  # what nobody tried sends everybody home, for certain
    cohort = Cohort(log, deterministic([1, 0, 0], 2), process=hopeful, posterior=Posterior(num_draws=4, prior="seen"))
    found, died = cohort.rank(["gumbel-max"]), log.last_states == 2
    assert (found.any_interval.lower[died] > 1).all()
    assert (found.persistent.lower[died] > 1).all()
    assert not found.agreed.any()
    assert not found.robust.any()
    story = cohort.explain(int(died.argmax()), couplings=["gumbel-max"])
    assert story.depends_on == ("actions that nobody took",)
    assert not any(each.robust for each in story.decisions)


def test_an_action_replaced_by_an_identical_one_adds_nothing_however_episodes_are_carried_on():
    rng = np.random.default_rng(2)
    row = rng.dirichlet(np.ones(3), 2)
    same = np.stack([np.stack([row[state]] * 3) for state in range(2)] + [np.eye(3)[[2, 2, 2]]])
    other = same.copy()
    other[0, 2], other[1, 2] = [0, 0, 1], [0, 0, 1]
    worth = np.zeros((3, 3, 3))
    worth[:2] = [1.0, 3.0, 0.0]
    counts = np.round(100 * other).astype(int) * np.array([2, 1, 2])[None, :, None]
    mdp = counted(FiniteMDP.from_dense(other, worth, start=0, absorbing=[2]), counts)
    rows = [(0, 0, 0, 0, 1, 3.0), (0, 1, 1, 0, 0, 1.0)]
    log = EpisodeLog.from_frame(frame_of(*rows), num_states=3, num_actions=3)
    anything = np.full((3, 3), 1 / 3)
    cohort = Cohort(log, anything, process=mdp, horizon=12, censored="model", posterior=Posterior(num_draws=0))
    for decisions in (cohort.decisions(0), cohort.decisions(0, otherwise=deterministic([2, 0, 0], 3))):
        identical = [each for each in decisions if each.other_action == 1]
        assert len(identical) == 2
        for each in identical:
            assert each.effect == pytest.approx(0, abs=1e-12)
    assert all(abs(each.effect) < 1e-12 for each in cohort.explain(0).decisions if each.other_action == 1)


def test_values_are_posterior_means_within_their_intervals_and_ranges_never_get_narrower():
    log = some_episodes(MDP, 25, seed=9)
    model = estimate(log, absorbing=MDP.absorbing)
    policy = policy_iteration(replace(model, discount=0.9)).policy
    cohort = Cohort(log, policy, process=model, posterior=Posterior(num_draws=60))
    ranking, replay, given = cohort.rank(), cohort.replay(GumbelMax()), cohort.bounds().shifted(-log.returns())
    drawn = [
        Cohort(log, policy, process=each).replay(GumbelMax()).effects for each in Posterior(num_draws=60).draws(model)
    ]
    np.testing.assert_allclose(ranking.effects["Gumbel-max"], np.mean(drawn, axis=0), atol=1e-12)
    np.testing.assert_allclose(replay.effects, np.mean(drawn, axis=0), atol=1e-12)
    for name, effects in ranking.effects.items():
        limits = ranking.intervals[name]
        assert ((limits.lower <= effects) & (effects <= limits.upper)).all()
        assert ranking.bounds.contains(effects, 1e-9).all()
    for each in (ranking.bounds, given):
        assert (ranking.any_interval.lower <= each.lower).all()
        assert (ranking.any_interval.upper >= each.upper).all()
    firsts, observed = log.states[:, 0], replay.observed.mean()
    means = np.array(
        [
            policy_values(each, policy, horizon=log.longest, discount=1.0)[firsts].mean() - observed
            for each in Posterior(num_draws=60).draws(model)
        ]
    )
    for found in (replay, ranking):
        row = found.row("effect", "any coupling", "mean of 25 episodes")
        assert (row.value, row.ci_lower, row.ci_upper) == pytest.approx(
            (means.mean(), *np.quantile(means, [0.025, 0.975], method="weibull"))
        )
    numbers = [((np.array(drawn) > 1e-9).sum(axis=1), "gain"), ((np.array(drawn) < -1e-9).sum(axis=1), "lose")]
    for count, what in numbers:
        limits = tuple(np.quantile(count, [0.025, 0.975], method="weibull"))
        for found in (replay, ranking):
            row = found.row(f"number expected to {what}", "Gumbel-max")
            assert (row.value, row.ci_lower, row.ci_upper) == pytest.approx((count.mean(), *limits))
        told = f"{count.mean():.0f} (95 % interval {limits[0]:.0f} to {limits[1]:.0f})"
        assert told in ranking.summary()
        assert told in replay.summary()


def doubted(num_draws):
    log = some_episodes(MDP, 25, seed=9)
    model = estimate(log, absorbing=MDP.absorbing)
    return Cohort(log, POLICY, process=model, posterior=Posterior(num_draws=num_draws))


ASKED = {
    "replay": lambda cohort: cohort.replay("gumbel-max"),
    "rank": lambda cohort: cohort.rank(["gumbel-max"]),
    "decisions": lambda cohort: cohort.decisions(0),
    "explain": lambda cohort: cohort.explain(0, couplings=["gumbel-max"]),
}


def test_few_draws_say_less_than_95_percent():
    assert [attained(0.95, each) for each in (2, 3, 20, 39, 40, 100)] == [0, 0.33, 0.9, 0.94, 0.95, 0.95]
    cohort = doubted(8)
    for name, ask in ASKED.items():
        said = str(ask(cohort))
        assert "95 %" not in said, name
        assert "75 %" in said, name
    found = cohort.rank(["gumbel-max"])
    assert found.any_interval.level == 0.75
    assert "75 % confidence" in found.summary()
    for found in (
        cohort.evaluate(["gumbel-max"], num_resamples=8),
        cohort.returns(num_resamples=8),
    ):
        assert found.level == 0.75
        assert not re.search("95 % (confidence|interval)", str(found))


def test_wherever_a_range_is_printed_it_is_said_over_which_couplings():
    """Chance that persists is in none of the ranges called `any coupling`."""
    cohort = doubted(4)
    for name, ask in ASKED.items():
        said = " ".join(str(ask(cohort)).split())
        assert "any coupling" in said, name
        assert "draw afresh at each step" in said, name
        assert "chance may persist" in said, name
    for each in (Cohort.bounds, Ranking.agreed, Ranking.robust, Decision.robust):
        assert "afresh" in each.__doc__ or "adapted" in each.__doc__ or "persist" in each.__doc__
    stable = " ".join(Cohort.bounds.__doc__.split()).partition("stable: ")[2]
    assert "each pair of the logged row and a row of the other world is stable, step by step" in stable


def test_estimates_of_stories_and_decisions_lie_in_their_own_intervals():
    cohort = doubted(12)
    for episode in range(6):
        story = cohort.explain(episode, couplings=["gumbel-max"])
        for row in story.rows:
            if row.ci_lower is not None and row.value is not None:
                assert row.ci_lower - 1e-12 <= row.value <= row.ci_upper + 1e-12, row
            if row.ci_lower is not None and row.lower is not None:
                assert row.ci_lower - 1e-12 <= row.lower <= row.upper <= row.ci_upper + 1e-12, row
        for each in story.decisions:
            assert each.interval.lower - 1e-12 <= each.effect <= each.interval.upper + 1e-12


def test_the_best_claims_of_a_ranking_promise_less_than_the_estimate_and_are_nearer_to_the_truth():
    """Of processes that are known: the ten largest claims, about a policy that was planned on the same log."""
    claimed, raw, true = [], [], []
    for seed in range(8):
        mdp = random_process(seed)
        log = simulate(mdp, np.full((8, 3), 1 / 3), num_episodes=40, horizon=6, key=jax.random.key(seed))
        model = estimate(log, absorbing=mdp.absorbing)
        policy = policy_iteration(replace(model, discount=0.9)).policy
        found = Cohort(log, policy, process=model, posterior=Posterior(num_draws=10)).rank(["gumbel-max"])
        known = Cohort(log, policy, process=mdp).replay("gumbel-max").effects
        given = Cohort(log, policy, process=model).replay("gumbel-max").effects
        best, best_raw = found.order[:10], np.argsort(-given)[:10]
        claimed.append(found.effects["Gumbel-max"][best].mean())
        raw.append((given[best_raw].mean(), known[best_raw].mean()))
        true.append(known[best].mean())
        assert (np.diff(found.effects["Gumbel-max"][found.order]) <= 1e-12).all()
    promised, kept = np.mean(raw, axis=0)
    assert promised > np.mean(claimed)
    assert abs(np.mean(claimed) - np.mean(true)) < 0.5 * (promised - kept)


def test_a_log_that_earned_other_rewards_than_the_process_pays_is_told():
    other = FiniteMDP.from_dense(
        np.stack([MDP.row(s, a) for s in range(4) for a in range(2)]).reshape(4, 2, 4),
        np.ones(4),
        start=0,
        absorbing=[3],
    )
    assert "rewards of the log and of the process disagree" in str(Cohort(LOG, POLICY, process=other).replay())
    assert "disagree" not in str(Cohort(LOG, POLICY, process=MDP).replay())
    noisy = noisy_log()
    model = estimate(noisy)
    assert "disagree" not in str(Cohort(noisy, process=model).replay())
    shifted = replace(model, rewards=model.rewards + (model.probs > 0) * ~model.absorbing[:, None, None])
    assert "disagree at 400 of 400 steps" in str(Cohort(noisy, process=shifted).replay())
