"""The best changes to what was done, against oracles that list every plan or every path."""

import json
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import product

import jax
import numpy as np
import pytest
from processes import random_arrays
from scipy.optimize import linprog

from countermax import GumbelMax, Independent, InputError, InverseCDF, Maximal, score_bounds
from countermax.couplings import AbstractCoupling
from countermax.mdp import Changes, Cohort, FiniteMDP, Posterior, simulate
from countermax.mdp._improving import ChangedEpisodes
from countermax.mdp._replays._questions import questions
from countermax.mdp._replays._trajectories import Trajectories

COUPLINGS = {"gumbel-max": GumbelMax(), "inverse-cdf": InverseCDF(), "independent": Independent(), "maximal": Maximal()}


def process(seed, num_states=3, num_actions=2):
    """The last state is an end, and some actions are not allowed somewhere."""
    transitions, rewards, start = random_arrays(seed, num_states, num_actions)
    random = np.random.default_rng(seed)
    allowed = random.random((num_states, num_actions)) < 0.8
    allowed[:, 0] |= ~allowed.any(axis=1)
    start[-1] = 0
    return FiniteMDP.from_dense(
        transitions, rewards, start=start / start.sum(), absorbing=[num_states - 1], discount=0.9, allowed=allowed
    )


def episode_of(mdp, seed, steps):
    """One episode of exactly so many steps, if there is one among many."""
    policy = mdp.allowed / mdp.allowed.sum(axis=1, keepdims=True)
    log = simulate(mdp, policy, num_episodes=60, horizon=steps, key=jax.random.key(seed))
    return log.select([int((log.lengths == steps).argmax())])


def changed(mdp, log, changes, coupling="gumbel-max", **options):
    policy = mdp.allowed / mdp.allowed.sum(axis=1, keepdims=True)
    cohort = Cohort(log, policy, process=mdp, **options)
    return ChangedEpisodes(Trajectories(mdp, cohort._one(log.name_of(0)), quiet=True), coupling, changes)


class Oracle:
    """One episode by lists of paths: rows from the couplings' own formulas, or from linear programs."""

    def __init__(self, mdp, log, rows, cost=0.0):
        self.mdp, self.log, self.rows, self.cost = mdp, log, cache(rows), cost
        self.steps = int(log.lengths[0])
        usual = mdp.allowed / mdp.allowed.sum(axis=1, keepdims=True)
        self.unchanged = [
            [np.eye(mdp.num_actions)[a] if mdp.allowed[c, a] else usual[c] for c in range(mdp.num_states)]
            for a in log.actions[0, : self.steps]
        ]

    def act(self, step, state, action, worth_of):
        """What one action is worth, if states after it are worth `worth_of(state)`."""
        mdp, log = self.mdp, self.log
        if (state, action) == (log.states[0, step], log.actions[0, step]):
            return log.rewards[0, step] + mdp.discount * worth_of(int(log.states[0, step + 1]))
        reached, _ = mdp.support(state, action)
        gains = mdp.rewards[state, action, : len(reached)]
        worth = [gain + mdp.discount * worth_of(int(each)) for gain, each in zip(gains, reached, strict=True)]
        return self.rows(step, state, action, tuple(worth))

    def stay(self, step, state, worth_of):
        shares = self.unchanged[step][state]
        return sum(shares[b] * self.act(step, state, int(b), worth_of) for b in np.flatnonzero(shares))

    def follow(self, plan, step, state, left):
        """The value of a plan, (step, state, left) -> action or None."""
        if step == self.steps or self.mdp.absorbing[state]:
            return 0.0
        done = plan(step, state, left)
        if done is None:
            return self.stay(step, state, lambda after: self.follow(plan, step + 1, after, left))
        return self.act(step, state, done, lambda after: self.follow(plan, step + 1, after, left - 1)) - self.cost

    def options(self, step, state):
        return [b for b in range(self.mdp.num_actions) if self.mdp.allowed[state, b] and b != self.log.actions[0, step]]

    def best(self, changes):
        """Over all plans of (step, state, changes left), listed one by one."""
        mdp, first = self.mdp, int(self.log.states[0, 0])
        points = [
            (step, state, left)
            for step in range(self.steps)
            for state in np.flatnonzero(~mdp.absorbing).tolist()
            for left in range(1, changes + 1)
            if (step > 0 or (state == first and left == changes)) and changes - left <= step
        ]
        choices = [[None, *self.options(step, state)] for step, state, _ in points]
        found = []
        for chosen in product(*choices):
            table = dict(zip(points, chosen, strict=True))
            found.append(self.follow(lambda *at, table=table: table.get(at), 0, first, changes))
        return max(found)

    def best_by_histories(self, changes):
        """Over all plans that may remember everything, by a tree of paths; fit for longer episodes."""

        def value(step, state, left):
            if step == self.steps or self.mdp.absorbing[state]:
                return 0.0
            found = [self.stay(step, state, lambda after: value(step + 1, after, left))]
            for b in self.options(step, state) if left else ():
                found.append(self.act(step, state, b, lambda after: value(step + 1, after, left - 1)) - self.cost)
            return max(found)

        return value(0, int(self.log.states[0, 0]), changes)

    def best_sequence(self, changes):
        """Over all sequences of at most so many changes; where an action is not allowed, what was done stays."""
        found = []
        for said in product([None, *range(self.mdp.num_actions)], repeat=self.steps):
            if sum(each is not None for each in said) > changes:
                continue

            def plan(step, state, left, said=said):
                return said[step] if said[step] in self.options(step, state) else None

            found.append(self.follow(plan, 0, int(self.log.states[0, 0]), 99))
        return max(found)


def answered(mdp, log, coupling: AbstractCoupling):
    """Rows of a coupling over all states."""

    def rows(step, state, action, worth):
        seen = int(log.states[0, step]), int(log.actions[0, step])
        with jax.enable_x64(True), np.errstate(divide="ignore"):
            p, q = np.log(mdp.row(*seen)), np.log(mdp.row(state, action))
            found = np.asarray(coupling.counterfactual_probs(p, q, int(log.states[0, step + 1])))
        return float(found[mdp.support(state, action)[0]] @ np.array(worth))

    return rows


def limiting(mdp, log, family, sign):
    """The least or the largest mean over a family of couplings: linear programs over one row."""

    def rows(step, state, action, worth):
        p, q = mdp.row(int(log.states[0, step]), int(log.actions[0, step])), mdp.row(state, action)
        x, score = int(log.states[0, step + 1]), np.zeros(mdp.num_states)
        score[mdp.support(state, action)[0]] = worth
        if family == "stable":
            with jax.enable_x64(True), np.errstate(divide="ignore"):
                found = score_bounds(np.log(p), np.log(q), x, score, stable=True)
            return float(found.lower if sign < 0 else found.upper)
        lower, upper = np.zeros(len(q)), np.minimum(q / p[x], 1)
        if family == "monotone" and (p * q).any():
            lower[x] = q[x]
            for j in np.flatnonzero(p):
                if j != x:
                    upper[j] = 0 if q[x] / p[x] >= q[j] / p[j] else min(upper[j], q[j])
        program = linprog(-sign * score, A_eq=np.ones((1, len(q))), b_eq=[1], bounds=np.stack([lower, upper], 1))
        return -sign * program.fun

    return rows


@pytest.mark.parametrize("name", COUPLINGS)
@pytest.mark.parametrize("seed", range(3))
def test_no_plan_of_step_state_and_changes_left_is_better(name, seed):
    mdp = process(seed)
    log = episode_of(mdp, seed, 3)
    found, _ = changed(mdp, log, Changes(most=2), name).best()
    oracle = Oracle(mdp, log, answered(mdp, log, COUPLINGS[name]))
    assert found[0] == pytest.approx([oracle.best(k) for k in range(3)], abs=1e-12)


@pytest.mark.parametrize("cost", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(4))
def test_no_plan_that_remembers_everything_is_better(seed, cost):
    mdp = process(10 + seed, 4, 3)
    log = episode_of(mdp, seed, 4)
    found, plan = changed(mdp, log, Changes(most=None, cost=cost)).best()
    oracle = Oracle(mdp, log, answered(mdp, log, GumbelMax()), cost)
    assert found[0] == pytest.approx([oracle.best_by_histories(k) for k in range(5)], abs=1e-12)
    assert (np.diff(found[0]) >= -1e-12).all()
    for k in range(5):
        took = oracle.follow(lambda step, state, left: _done(plan[0, step, state, left]), 0, int(log.states[0, 0]), k)
        assert took == pytest.approx(found[0, k], abs=1e-12)


def _done(action):
    return None if action < 0 else int(action)


@pytest.mark.parametrize("seed", range(4))
def test_no_sequence_that_is_told_before_is_better(seed):
    mdp = process(20 + seed, 4, 3)
    log = episode_of(mdp, seed, 4)
    model = changed(mdp, log, Changes(most=None, plan="fixed", cost=0.05))
    oracle = Oracle(mdp, log, answered(mdp, log, GumbelMax()), 0.05)
    values, plan = model.best()
    assert values[0] == pytest.approx([oracle.best_sequence(k) for k in range(5)], abs=1e-12)
    assert [each.gap for each in model.sequences()] == [0] * 5
    np.testing.assert_allclose(model.values(plan), values, atol=1e-12)
    reacting, _ = changed(mdp, log, Changes(most=None, cost=0.05)).best()
    assert (values <= reacting + 1e-12).all()


@pytest.mark.parametrize("family", ["any", "stable", "monotone"])
@pytest.mark.parametrize("seed", range(3))
def test_worst_and_best_cases_are_those_of_linear_programs(family, seed):
    mdp = process(30 + seed, 4, 2)
    log = episode_of(mdp, seed, 3)
    model = changed(mdp, log, Changes(most=2))
    _, plan = model.best()
    guaranteed, _ = model.guaranteed(family)
    limits, first = model.limits(plan, family), int(log.states[0, 0])
    for sign, best, own in ((-1, guaranteed.lower, limits.lower), (1, guaranteed.upper, limits.upper)):
        oracle = Oracle(mdp, log, limiting(mdp, log, family, sign))
        assert best[0] == pytest.approx([oracle.best_by_histories(k) for k in range(3)], abs=1e-9)
        took = [
            oracle.follow(lambda step, state, left: _done(plan[0, step, state, left]), 0, first, k) for k in range(3)
        ]
        assert own[0] == pytest.approx(took, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_changes_of_every_coupling_lie_in_the_range_of_their_family(seed):
    mdp = process(40 + seed, 4, 3)
    log = episode_of(mdp, seed, 4)
    for name in COUPLINGS:
        model = changed(mdp, log, Changes(most=None), name)
        values, plan = model.best()
        families = ("any", "stable") if name == "gumbel-max" else ("any",)
        for family in families:
            own, (worst, best) = model.limits(plan, family), model.guaranteed(family)[0]
            assert (own.lower <= values + 1e-12).all()
            assert (values <= own.upper + 1e-12).all()
            assert (own.lower <= worst + 1e-12).all()
            assert (worst <= values + 1e-12).all()
            assert (values <= best + 1e-12).all()


@pytest.mark.parametrize("censored", ["stop", "model"])
def test_without_changes_nothing_changes_and_one_is_never_worse_than_the_best_single_decision(censored):
    mdp = process(50, 5, 3)
    policy = mdp.allowed / mdp.allowed.sum(axis=1, keepdims=True)
    log = simulate(mdp, policy, num_episodes=12, horizon=5, key=jax.random.key(1))
    cohort = Cohort(log, policy, process=mdp, horizon=7, censored=censored)
    for episode in range(len(log)):
        setting = cohort._one(episode)
        model = Trajectories(mdp, setting, quiet=True)
        values, _ = ChangedEpisodes(model, "gumbel-max", Changes(most=1)).best()
        assert values[0, 0] == pytest.approx(model.observed[0], abs=1e-12)
        decisions = cohort.decisions(episode)
        assert values[0, 1] == pytest.approx(max([values[0, 0], *(each.value for each in decisions)]), abs=1e-12)


def test_many_episodes_at_once_are_as_each_alone():
    mdp = process(60, 5, 3)
    policy = mdp.allowed / mdp.allowed.sum(axis=1, keepdims=True)
    log = simulate(mdp, policy, num_episodes=40, horizon=5, key=jax.random.key(2))
    cohort = Cohort(log, policy, process=mdp)
    for changes in (Changes(most=2), Changes(most=2, plan="fixed"), Changes(most=2, aim="stable")):
        together = ChangedEpisodes(Trajectories(mdp, cohort._setting, quiet=True), "gumbel-max", changes)
        values, plan = together.best()
        limits, followed = together.limits(plan, "any"), together.values(plan)
        if changes.aim == "coupling":
            np.testing.assert_allclose(followed, values, atol=1e-12)
        for episode in range(0, 40, 7):
            alone = together._alone(episode)
            own, its_plan = alone.best()
            count = own.shape[1]
            np.testing.assert_allclose(values[episode, :count], own[0], atol=1e-12)
            np.testing.assert_allclose(values[episode, count:], own[0, -1], atol=1e-12)
            np.testing.assert_allclose(
                limits.lower[episode, :count], alone.limits(its_plan, "any").lower[0], atol=1e-12
            )


def test_a_coupling_without_a_closed_form_is_answered_by_its_own_formulas():
    """Gumbel-max by rows that are given, as those of any other coupling are."""
    mdp = process(61, 5, 3)
    log = episode_of(mdp, 3, 4)
    quick = changed(mdp, log, Changes(most=None))
    facts, law = quick.facts, quick._law
    starts, given = mdp.matrix.indptr, np.zeros((len(facts.state), mdp.matrix.nnz))
    for state, action in np.argwhere(mdp.allowed & ~mdp.absorbing[:, None]):
        count, row = len(facts.state), state * mdp.num_actions + action
        asked = questions(facts, np.arange(count), np.full(count, state), np.full(count, action))
        given[:, starts[row] : starts[row + 1]] = law.answers(asked)[:, : starts[row + 1] - starts[row]]
    policy = mdp.allowed / mdp.allowed.sum(axis=1, keepdims=True)
    setting = Cohort(log, policy, process=mdp)._setting
    slow = ChangedEpisodes(Trajectories(mdp, setting, quiet=True), "gumbel-max", Changes(most=None), given=given)
    np.testing.assert_allclose(slow.best()[0], quick.best()[0], atol=1e-12)


def test_of_plans_that_are_worth_the_same_the_one_with_fewer_changes_is_made():
    """One change at the first step earns what two later ones would, and rules them out."""
    transitions, rewards = np.zeros((6, 3, 6)), np.zeros((6, 3, 6))
    for state, after in ((0, 1), (1, 2), (2, 5), (3, 4), (4, 5), (5, 5)):
        transitions[state, :, after] = 1
    transitions[0, 2] = np.eye(6)[3]
    rewards[0, 2], rewards[1, 1], rewards[2, 1] = 1.0, 0.5, 0.5
    mdp = FiniteMDP.from_dense(transitions, rewards, start=0, absorbing=[5], discount=1.0)
    log = simulate(mdp, np.eye(3)[[0] * 6], num_episodes=1, horizon=3, key=jax.random.key(0))
    model = changed(mdp, log, Changes(most=3))
    values, plan = model.best()
    np.testing.assert_allclose(values[0], [0, 1, 1, 1])
    np.testing.assert_allclose([model.alone.followed(plan[0], k)[0] for k in range(4)], [0, 1, 1, 1])
    assert [each.changes for each in model.sequences()] == [(), *[((0, 2),)] * 3]
    free = replace(mdp, rewards=np.zeros_like(mdp.rewards))
    assert (changed(free, log, Changes(most=3)).best()[1] == -1).all()


def test_what_is_forbidden_dear_or_rarely_seen_is_not_done():
    mdp = process(70, 5, 3)
    log = episode_of(mdp, 0, 4)
    free, _ = changed(mdp, log, Changes(most=2)).best()
    for changes in (Changes(most=2, forbidden=[0, 1, 2]), Changes(most=2, cost=1e6)):
        values, plan = changed(mdp, log, changes).best()
        np.testing.assert_allclose(values[0], free[0, 0], atol=1e-12)
        assert (plan == -1).all()
    assert not (changed(mdp, log, Changes(most=2, forbidden=[1])).best()[1] == 1).any()
    prices = 0.3 * np.abs(np.arange(3)[:, None] - np.arange(3))
    dear, _ = changed(mdp, log, Changes(most=2, cost=prices)).best()
    assert (dear <= free + 1e-12).all()
    with pytest.raises(InputError, match="counts"):
        changed(mdp, log, Changes(min_visits=1)).best()
    with pytest.raises(InputError, match="must name actions"):
        changed(mdp, log, Changes(forbidden=[7])).best()
    for refused in ({"aim": "any", "plan": "fixed"}, {"aim": "any", "within": 0.1}):
        with pytest.raises(InputError, match="both rest on one coupling"):
            Changes(**refused)
    with pytest.raises(InputError, match="cannot turn back"):
        Changes(plan="fixed", within=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_plans_within_influence_never_leave_what_the_log_informs(seed):
    mdp = process(80 + seed, 5, 3)
    log = episode_of(mdp, seed, 4)
    free, _ = changed(mdp, log, Changes(most=2)).best()
    for within in (0.0, 0.2):
        model = changed(mdp, log, Changes(most=2, within=within))
        values, plan = model.best()
        assert values[0, 0] == pytest.approx(free[0, 0], abs=1e-12)
        assert (values <= free + 1e-12).all()
        np.testing.assert_allclose(model.values(plan), values, atol=1e-12)
        assert all(model.alone.followed(plan[0], k)[1][0] >= within - 1e-9 for k in range(3))
    nowhere, _ = changed(mdp, log, Changes(most=2, within=1.0)).best()
    np.testing.assert_allclose(nowhere[0], free[0, 0], atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_most_likely_path_is_the_likeliest_of_all(seed):
    mdp = process(90 + seed, 4, 2)
    log = episode_of(mdp, seed, 3)
    model = changed(mdp, log, Changes(most=2))
    _, plan = model.best()
    oracle = Oracle(mdp, log, answered(mdp, log, GumbelMax()))
    for changes in range(3):
        path, chance = model.alone.likeliest(plan[0], changes)
        best = 0.0
        for states in product(range(4), repeat=3):
            for actions in product(range(2), repeat=3):
                best = max(best, _chance_of(oracle, plan[0], changes, states, actions))
        assert chance == pytest.approx(best, abs=1e-12)
        states, actions = [each.state for each in path[1:]], [each.action for each in path[:-1]]
        assert _chance_of(oracle, plan[0], changes, states, actions) == pytest.approx(chance, abs=1e-12)


@pytest.mark.parametrize("seed", [4, 14])
def test_plans_that_look_ahead_may_pass_where_the_log_can_inform_again(seed):
    mdp, within = process(100 + seed, 5, 3), 0.3
    log = episode_of(mdp, seed, 4)
    oracle = Oracle(mdp, log, answered(mdp, log, GumbelMax()))

    def row(step, state, action):
        reached, chances = mdp.support(state, action)
        if (state, action) == (log.states[0, step], log.actions[0, step]):
            return {int(log.states[0, step + 1]): 1.0}, np.inf
        found = [oracle.rows(step, state, action, tuple(np.eye(len(reached))[slot])) for slot in range(len(reached))]
        kept = {int(each): chance for each, chance in zip(reached, found, strict=True) if chance > 0}
        return kept, np.abs(np.array(found) - chances).sum() / 2

    def waits(step, state, action):
        after, far = row(step, state, action)
        if far > within or step + 1 == oracle.steps:
            return 0 if far > within else np.inf
        return 1 + min(
            min(waits(step + 1, j, b) for b in choices(step + 1, j)) if not mdp.absorbing[j] else np.inf for j in after
        )

    def choices(step, state):
        return {*np.flatnonzero(oracle.unchanged[step][state]).tolist(), *oracle.options(step, state)}

    def value(step, state, left, ahead):
        if step == oracle.steps or mdp.absorbing[state]:
            return 0.0
        shares, found = oracle.unchanged[step][state], [-1e9]
        if all(waits(step, state, b) <= ahead for b in np.flatnonzero(shares).tolist()):
            found.append(oracle.stay(step, state, lambda after: value(step + 1, after, left, ahead)))
        for b in oracle.options(step, state) if left else ():
            if waits(step, state, b) <= ahead:
                found.append(oracle.act(step, state, b, lambda after: value(step + 1, after, left - 1, ahead)))
        return max(found)

    for ahead in range(3):
        found, _ = changed(mdp, log, Changes(most=2, within=within, ahead=ahead)).best()
        wanted = [value(0, int(log.states[0, 0]), changes, ahead) for changes in range(3)]
        assert found[0] == pytest.approx(wanted, abs=1e-12)


def _chance_of(oracle, plan, left, states, actions):
    mdp, log, here, chance = oracle.mdp, oracle.log, int(oracle.log.states[0, 0]), 1.0
    for step, (after, action) in enumerate(zip(states, actions, strict=True)):
        if mdp.absorbing[here]:
            chance *= after == here
            continue
        done = plan[step, here, left]
        chance *= oracle.unchanged[step][here][action] if done < 0 else float(action == done)
        left -= done >= 0
        if chance and (here, action) == (log.states[0, step], log.actions[0, step]):
            chance *= after == log.states[0, step + 1]
        elif chance:
            reached = mdp.support(here, action)[0]
            chance *= oracle.rows(step, here, action, tuple((reached == after).astype(float)))
        here = after
    return chance


def tail_mean(oracle, plan, changes, sign):
    """The mean of the worst or of the best returns of the other world, by a list of its paths on plain rows.

    They are as many as what was logged from the first change on is likely; None without a change.
    """
    mdp, log, paths = oracle.mdp, oracle.log, []
    logged = [tuple(map(int, each)) for each in zip(log.states[0], log.actions[0], log.states[0, 1:], strict=False)]
    parted = [step for step, (state, *_) in enumerate(logged) if plan[0, step, state, changes] >= 0]
    if not parted:
        return None
    share = np.prod([mdp.row(state, action)[after] for state, action, after in logged[parted[0] :]])

    def walk(step, state, left, chance, earned):
        if step == oracle.steps or mdp.absorbing[state]:
            paths.append((earned, chance))
            return
        done = plan[0, step, state, left]
        shares = oracle.unchanged[step][state] if done < 0 else np.eye(mdp.num_actions)[done]
        price = oracle.cost * (done >= 0)
        for b in np.flatnonzero(shares).tolist():
            for slot, after in enumerate(mdp.support(state, b)[0]):
                gain = mdp.discount**step * (mdp.rewards[state, b, slot] - price)
                walk(
                    step + 1,
                    int(after),
                    left - (done >= 0),
                    chance * shares[b] * mdp.probs[state, b, slot],
                    earned + gain,
                )

    walk(
        parted[0],
        logged[parted[0]][0],
        changes,
        1.0,
        log.rewards[0, : parted[0]] @ mdp.discount ** np.arange(parted[0]),
    )
    left, total = share, 0.0
    for earned, chance in sorted(paths, reverse=sign > 0):
        total, left = total + min(chance, left) * earned, left - min(chance, left)
    return total / share


@pytest.mark.parametrize(("seed", "cost"), [(0, 0.0), (1, 0.0), (3, 0.5), (4, 0.5)])
def test_if_chance_may_persist_plans_lie_between_tail_means_of_the_other_world(seed, cost):
    mdp = process(200 + seed, 4, 3)
    mdp = replace(mdp, rewards=np.round(2 * mdp.rewards) / 2, discount=1.0)  # on a grid, so that nothing is split
    log = episode_of(mdp, seed, 4)
    model, oracle = (
        changed(mdp, log, Changes(most=2, cost=cost)),
        Oracle(mdp, log, answered(mdp, log, GumbelMax()), cost),
    )
    values, plan = model.best()
    found = model.persistent(plan, np.ones(values.shape, bool))
    for changes in range(3):
        for sign, limit in ((-1, found.lower), (1, found.upper)):
            wanted = tail_mean(oracle, plan, changes, sign)
            assert limit[0, changes] == pytest.approx(values[0, 0] if wanted is None else wanted, abs=1e-9)
    assert (found.lower <= values + 1e-9).all()
    assert (values <= found.upper + 1e-9).all()
    assert (plan >= 0).any()


WARD = files("countermax") / "data" / "ward_log.csv"


@pytest.fixture(scope="module")
def ward():
    return Cohort(WARD, absorbing=["home", "dead"], posterior=Posterior(num_draws=40))


def test_a_plan_is_judged_on_other_models_than_it_was_made_on(ward):
    found = ward.best_changes("52", changes=2)
    assert [each.most for each in found.plans] == [1, 2]
    for plan in found.plans:
        assert plan.interval.lower < plan.effect < plan.interval.upper
        assert plan.effect < plan.in_sample
        assert plan.guaranteed.lower >= 0
        for family, bounds in plan.bounds.items():
            assert plan.intervals[family].lower <= bounds.lower <= bounds.upper <= plan.intervals[family].upper
    given = Cohort(WARD, absorbing=["home", "dead"], posterior=Posterior(num_draws=0)).best_changes("52", changes=2)
    for plan, judged in zip(given.plans, found.plans, strict=True):
        assert plan.effect == pytest.approx(plan.in_sample, abs=1e-6)
        assert plan.in_sample == judged.in_sample
        assert plan.interval is None
        assert not plan.intervals


def test_plans_by_their_worst_case_have_the_best_of_all_worst_cases(ward):
    usual = ward.best_changes("52", changes=2).best
    for aim in ("any", "stable", "monotone"):
        safe = ward.best_changes("52", changes=Changes(most=2, aim=aim)).best
        assert safe.in_sample <= usual.in_sample + 1e-9
    alone = Cohort(WARD, absorbing=["home", "dead"], posterior=Posterior(num_draws=0))
    safe = alone.best_changes("52", changes=Changes(most=2, aim="any")).best
    assert safe.bounds["any"].lower == pytest.approx(safe.guaranteed.lower, abs=1e-9)
    assert safe.bounds["any"].lower > alone.best_changes("52", changes=2).best.bounds["any"].lower


def test_few_draws_say_less_and_ranges_say_over_which_couplings_they_are(ward):
    few = Cohort(ward.log, process=ward.process, posterior=Posterior(num_draws=8))
    for found in (few.best_changes("52", changes=1), few.rank_changes(changes=1)):
        said = " ".join(str(found).split())
        assert "95 %" not in said
        assert "75 %" in said
        for words in ("any coupling", "draw afresh at each step", "chance may persist"):
            assert words in said


def test_best_changes_show_themselves_in_every_form(ward, tmp_path):
    found = ward.best_changes("52", changes=Changes(most=2, plan="fixed", cost=0.1))
    text = " ".join(str(found).split())
    for words in (
        "fixed in advance with at most 2 changes",
        "to the score (95 % interval",
        "iv antibiotics instead of",
        "Unchanged: the logged action",
        "adapted couplings",
        "may be wider than need be",
        "'In-sample' is the effect on the estimate",
        "chance may persist",
        "proven to be the best ones",
        "Costs of changes are taken off",
        "40 transition models drawn",
    ):
        assert words in text
    plain = json.loads(found.to_json())
    assert (plain["plan"], plain["aim"], len(plain["plans"])) == ("fixed", "coupling", 2)
    assert found.row("effect of at most 2 changes", "Gumbel-max").value == found.best.effect
    assert "data:image/png" in found.write_page(tmp_path / "changes.html").read_text()
    assert len(found.to_frame()) == len(found.rows) == 14
    nothing = ward.best_changes("52", changes=0)
    assert nothing.plans == ()
    assert "would have added anything" in nothing.summary()
    nothing.plot()
    figure = found.plot()
    above, below = figure.axes
    drawn = [line for line in above.lines if not line.get_label().startswith("_")]
    assert [line.get_linestyle() for line in drawn] == ["None", "None"]  # numbers of changes are apart
    states = [each.get_text() for each in below.get_yticklabels()]
    assert (states[0], states[-1]) == ("home", "dead")  # the best state on top
    assert {line.get_drawstyle() for line in below.lines if len(line.get_xdata()) > 1} == {"steps-post"}  # and states
    assert "in-sample: too optimistic" in [each.get_text() for each in figure.legends[0].get_texts()]


def test_the_cohort_is_ranked_and_gains_are_counted(ward):
    ranking = ward.rank_changes(changes=2)
    count = len(ward)
    assert ranking.effects.shape == (count, 2)
    first = ranking.episodes[ranking.order[0]]
    alone = ward.best_changes(first, changes=2)
    for place, plan in enumerate(alone.plans):
        assert ranking.effects[ranking.order[0], place] == pytest.approx(plan.effect, abs=1e-9)
        assert ranking.in_sample[ranking.order[0], place] == pytest.approx(plan.in_sample, abs=1e-6)
        assert ranking.agreed[ranking.order[0], place] == plan.agreed
    assert (ranking.robust <= ranking.agreed).all()
    assert ranking.robust.any()
    for place in (int(np.argwhere(ranking.agreed)[0][0]), int(np.argwhere(ranking.robust)[0][0])):
        plans = ward.best_changes(ranking.episodes[place], changes=2).plans
        assert ranking.robust[place].tolist() == [each.robust for each in plans]
    helped = ranking.row("share helped by at most 2 changes", "Gumbel-max")
    assert helped.ci_lower <= helped.value <= helped.ci_upper
    mean = ranking.row("effect of at most 1 change", "Gumbel-max", f"mean of {count} episodes")
    assert mean.value == pytest.approx(ranking.effects[:, 0].mean())
    assert "would have raised the expected score" in ranking.summary()
    json.loads(ranking.to_json())
    again, made_on = {}, Cohort(WARD, absorbing=["home", "dead"], posterior=Posterior(num_draws=0))
    for place in np.flatnonzero(ranking.effects[:, 0] > 1e-9):  # the one change on each episode's path
        one = made_on.best_changes(ranking.episodes[place], changes=1)
        (made,) = [each for each in one.best.path if each.changed]
        words = one.state_names[made.state], one.action_names[one.logged[made.step].action]
        number, gain = again.get((*words, one.action_names[made.action]), (0, 0.0))
        again[*words, one.action_names[made.action]] = number + 1, gain + ranking.effects[place, 0]
    assert {each[:3]: (each.episodes, pytest.approx(each.episodes * each.effect)) for each in ranking.common} == again
    assert sum(each.share for each in ranking.common) == pytest.approx(1)
    first = ranking.common[0]
    assert first.share == max(each.share for each in ranking.common)
    assert f"{first.instead} instead of {first.done} in {first.state} (" in ranking.summary()
    assert ranking.tables()[0].lines[0][:4] == [*first[:3], str(first.episodes)]
    assert len(ranking.plot(most=3).axes[0].get_yticklabels()) == 3


def test_what_was_logged_fades_where_supports_part():
    """Both actions lead to states of their own, so after a change nothing that was seen says anything."""
    transitions = np.zeros((5, 2, 5))
    transitions[0, 0, [1, 2]] = transitions[1, 0, [1, 2]] = transitions[2, 0, [1, 2]] = 0.5
    transitions[0, 1, [3, 4]] = transitions[1, 1, [3, 4]] = transitions[2, 1, [3, 4]] = 0.5
    transitions[3:, :, 3:] = 0.5
    mdp = FiniteMDP.from_dense(transitions, [0.0, 0, 1, 2, 3], start=0, discount=1.0)
    log = simulate(mdp, np.eye(2)[[0] * 5], num_episodes=1, horizon=4, key=jax.random.key(0))
    found = Cohort(log, process=mdp).best_changes(0, changes=1).best
    assert found.path[0].changed
    assert found.fades == 0
    kept = changed(mdp, log, Changes(most=1, within=0.0))
    values, _ = kept.best()
    assert values[0, 1] == values[0, 0]


def test_where_a_plan_leads_is_what_it_earns_where_ends_alone_count():
    data = files("countermax") / "data"
    ward = Cohort(
        data / "ward_log.csv", data / "ward_policy.csv", absorbing=["home", "dead"], posterior=Posterior(num_draws=0)
    )
    rewards = {end: ward.log.rewards[ward.log.last_states == ward.log.state_names.index(end)].sum(axis=1).mean()
               for end in ("home", "dead")}  # fmt: skip
    for name in ward.log.names[:5]:
        found = ward.best_changes(name)
        for plan in found.plans:
            earned = sum(rewards[end] * chance for end, chance in plan.ends.items())
            assert earned == pytest.approx(found.observed + plan.in_sample, abs=1e-9)
            assert found.best.number == 0 or "With it, by Gumbel-max on the estimate: " in found.summary()
