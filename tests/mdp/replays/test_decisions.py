"""One decision changed, the rest as it was."""

import json

import jax
import numpy as np
import pytest
from processes import MDP, NUM_ACTIONS, POLICY, single_decisions, some_episodes

from countermax import GumbelMax, InverseCDF
from countermax.mdp import Cohort, FiniteMDP, simulate

LOG = some_episodes(MDP, 12, seed=4)
ONE = LOG.select([int(LOG.lengths.argmax())])


def test_a_decision_changed_is_a_policy_for_one_step():
    """The last action of the episode: before it nothing changes, so the effect is that of one step."""
    last = int(ONE.lengths[0]) - 1
    state, action, successor = (
        int(each) for each in (ONE.states[0, last], ONE.actions[0, last], ONE.states[0, last + 1])
    )
    found = [each for each in single_decisions(MDP, ONE, GumbelMax(), horizon=last + 1) if each.step == last]
    assert [each.other_action for each in found] == [1 - action]
    with jax.enable_x64(True), np.errstate(divide="ignore"):
        p, q = np.log(MDP.row(state, action)), np.log(MDP.row(state, 1 - action))
        row = np.asarray(GumbelMax().counterfactual_probs(p, q, successor))
    reached, _ = MDP.support(state, 1 - action)
    gained = row[reached] @ MDP.rewards[state, 1 - action, : len(reached)] - ONE.rewards[0, last]
    assert found[0].effect == pytest.approx(MDP.discount**last * gained, abs=1e-12)
    assert found[0].effect_bounds.contains(found[0].effect, 1e-9)


def test_all_decisions_are_tried_and_sorted():
    found = single_decisions(MDP, ONE, InverseCDF())
    assert len(found) == int(ONE.lengths[0]) * (NUM_ACTIONS - 1)
    effects = [each.effect for each in found]
    assert effects == sorted(effects, reverse=True)
    assert all(each.effect_bounds.contains(each.effect, 1e-9) for each in found)
    among_others = Cohort(LOG, POLICY, process=MDP).decisions(int(LOG.lengths.argmax()), InverseCDF())
    assert [each.effect for each in among_others] == effects


def test_decisions_show_themselves_in_every_form():
    found = single_decisions(MDP, ONE, InverseCDF())
    frame = found.to_frame()
    ranges = frame[frame["coupling"] == "any coupling"]
    np.testing.assert_array_equal(ranges["lower"], [each.effect_bounds.lower for each in found])
    plain = json.loads(found.to_json())
    assert (plain["coupling"], plain["discount"]) == ("inverse CDF", MDP.discount)
    assert plain["decisions"][0]["effect_bounds"] == found[0].effect_bounds._asdict()
    for word in ("By inverse CDF", "any coupling", "The model is taken as given", "effect of action 1 at step"):
        assert word in str(found)
    names = [label.get_text() for label in found.plot(most=2).axes[0].get_yticklabels()]
    assert names == [f"{each.step}: action {each.other_action}" for each in found.decisions[:2]]


def test_a_process_without_a_choice_has_no_decisions():
    mdp = FiniteMDP.from_dense([[[0.5, 0.5]], [[0.0, 1.0]]], np.zeros((2, 1)), start=0, absorbing=[1], discount=0.9)
    found = single_decisions(
        mdp, simulate(mdp, [[1.0], [1.0]], num_episodes=1, horizon=3, key=jax.random.key(0)), GumbelMax()
    )
    assert len(found) == len(found.to_frame()) == 0
    assert found.to_dict()["decisions"] == []
    assert found.plot().axes[0].get_ylabel() == "step and other action"
