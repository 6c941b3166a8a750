"""Chains of episodes from formulas alone, bounds too: what compiled loops are held to."""

import numpy as np

from countermax import Independent
from countermax._kernel import row_score_bounds
from countermax.bounds._questions import filled_mean
from countermax.mdp._replays._chains import GeneralChains
from countermax.mdp._replays._questions import TransitionCoupling, questions


class ReferenceChains(GeneralChains):
    """`GeneralChains`, and without a coupling the bounds over all or over the stable ones, row by row."""

    def __init__(self, course, law, *, stable=False):
        self._outcomes = TransitionCoupling.of(course.mdp, Independent())
        super().__init__(course, law or self._outcomes)
        self._bounding, self._stable, self._sign = law is None, stable, 1

    def backwards(self, batch, to_come, rows, *, keep):
        least, most = (self._signed(sign).backwards(batch, to_come, rows, keep=keep) for sign in (-1, 1))
        both = np.stack([least.values[0], most.values[1]]) if keep else None
        return most._replace(lower=least.lower, values=both)

    def one_step(self, fact, earned, later):
        return np.stack([self._signed(sign).one_step(fact, earned, later)[0] for sign in (-1, 1)])

    def one_row(self, fact, earned, later, state, *, sign):
        return self._signed(sign).one_row(fact, earned, later, state, sign=sign)

    def _signed(self, sign):
        """The same with the least (-1) or with the largest value of each row."""
        self._sign = sign
        return super()

    def _back(self, fact, earned, later):
        course, mdp, choices, sign = self._course, self._course.mdp, self._course.choices, self._sign
        if choices.doing is None:
            return super()._back(fact, earned, later)
        now = course.discount * later * mdp.absorbing
        place, state = np.nonzero(np.broadcast_to(course.reachable & ~mdp.absorbing, later.shape))
        entry, action = np.nonzero(found := choices.tables[choices.of_fact[fact[place]], state])
        place, state, share = place[entry], state[entry], found[entry, action]
        worth = self._worth(fact[place], earned[place], later, place, state, action)
        live = np.flatnonzero(course.reachable & ~mdp.absorbing)
        by_action = np.zeros((2, *later.shape, mdp.num_actions))
        by_action[:, place, state, action] = share, worth
        rooms = np.minimum(by_action[0][:, live] / choices.doing[fact][:, None, None], 1)
        worths = by_action[1][:, live]
        order = np.argsort(np.where(rooms > 0, -sign * worths, np.inf), axis=2)
        now[:, live] = filled_mean(*(np.take_along_axis(each, order, axis=2) for each in (rooms, worths)))
        steady = np.flatnonzero(choices.steady[fact])
        its_state = course.facts.state[fact[steady]]
        now[steady, its_state] = by_action[1, steady, its_state, course.facts.action[fact[steady]]]
        return now

    def _worth(self, fact, earned, later, place, state, action):
        if not self._bounding:
            return super()._worth(fact, earned, later, place, state, action)
        course, mdp, facts = self._course, self._course.mdp, self._course.facts
        found = np.empty(len(fact))
        for start in range(0, len(fact), 2**14):
            part = slice(start, start + 2**14)
            here = state[part], action[part]
            worth = course.gains[here] + course.discount * later[place[part][:, None], mdp.successors[here]]
            log_p, log_q, x, places = self._outcomes.logits(questions(facts, fact[part], *here))
            row, slot = np.nonzero(mdp.probs[here])
            scores = np.zeros_like(log_q)
            scores[row, places[row, slot]] = worth[row, slot]
            limits = row_score_bounds(log_p, log_q, x, scores, stable=self._stable)
            found[part] = np.asarray(limits.lower if self._sign < 0 else limits.upper)[: len(here[0])]
        same = np.flatnonzero((facts.state[fact] == state) & (facts.action[fact] == action))
        successor = mdp.successors[state[same], action[same], facts.next_slot[fact[same]]]
        found[same] = earned[same] + course.discount * later[place[same], successor]
        return found
