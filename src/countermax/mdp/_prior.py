"""Priors of transition rows and of rewards, fitted to the counts of an estimate, and draws from the posterior.

A row leads to some of all states that were ever reached, each with the same Dirichlet weight. How many is learned from
all rows at once; so rows that look complete get nothing new, and one visit in ten is not taken for 10 %. Where it makes
the counts likelier, a row also has the weight of some visits to where its state led under other actions. The weights
are drawn from their posterior on a grid, so that no draw rests on a single guess of them (hierarchical Bayes).

Mean rewards of transitions into one state are normal around a mean of their own (a random-effects model): a policy that
was chosen by noisy means looks as good as it is, not as it was lucky.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import gammaln

from countermax._core.errors import InputError
from countermax.mdp._arrays import Floats, Ints
from countermax.mdp._process import FiniteMDP, with_transitions

_NEVER = 1e-9  # what was seen is at least as likely as this
_RARE = 0.1  # of a visit: unseen successors below it are dropped or lifted to it, by chance, and keep their mean
_WEIGHTS = (0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0)
_STRENGTHS = (0.0, 0.5, 1.0, 2.0, 4.0)  # visits to what other actions led to: more would draw effects to zero
_SCANS = 60  # of expectation and maximisation; later ones change no digit that matters
_ROUNDS = 50  # of drawing states that are not in a row yet
_MOST_NEW = 64  # unseen states of a row; if there are more, so many have the weight of all
_FEW = 0.01  # of them may be missing: the last ones take the most rounds
_PRIOR_FREEDOM = 4.0  # visits' worth of the common variance in that of each transition's rewards


class _Seen(NamedTuple):
    """All transitions that were counted, row by row."""

    row: Ints
    """Position among the rows that can be drawn."""
    outcome: Ints
    state: Ints
    times: Floats
    reward: Floats
    spread: Floats


class _Sizes(NamedTuple):
    """What there is to know of how many outcomes rows have, for rows that are alike in it."""

    visits: Floats
    seen: Ints
    """Outcomes seen that have no weight from elsewhere."""
    room: Ints
    """Outcomes that have none."""


class _Hyperparameters(NamedTuple):
    """One point of the grid."""

    likelihood: float
    weight: float
    strength: float
    sizes: Floats
    """[kind of row, size]: how many outcomes rows have beside those from elsewhere, and rows without such ones."""


class ModelPrior:
    """The posterior of a process given its counts: `draw` draws from it."""

    def __init__(self, mdp: FiniteMDP, labels: Ints | None, *, unseen: bool):
        """Fits the prior; `labels`, [state], names states as outcomes, and `unseen` says whether new ones may come."""
        self._mdp, self._unseen = mdp, unseen
        assert mdp.counts is not None
        entry = np.nonzero(mdp.counts * ~mdp.absorbing[:, None, None])
        if not len(entry[0]):
            raise InputError("`process` must have counted some transition for a posterior")
        state, action, _ = entry
        pair = state * mdp.num_actions + action
        live = mdp.allowed & ~mdp.absorbing[:, None]
        self._pairs = np.flatnonzero(live) if unseen else np.unique(pair)
        successor = mdp.successors[entry]
        self._outcomes = int(labels.max()) + 1 if labels is not None else mdp.num_states
        self._seen = _Seen(
            np.searchsorted(self._pairs, pair),
            successor if labels is None else labels[successor],
            successor,
            mdp.counts[entry].astype(np.float64),
            mdp.rewards[entry],
            np.zeros(len(pair)) if mdp.reward_variances is None else mdp.reward_variances[entry],
        )
        self._key = self._seen.row * self._outcomes + self._seen.outcome
        self._visits: Floats = np.bincount(self._seen.row, self._seen.times, len(self._pairs)).astype(np.float64)
        self._stands_for = None if labels is None else _stands_for(labels, self._pairs % mdp.num_actions, self._seen)
        self._rewards = _Rewards(self._seen, mdp.absorbing)
        given = np.setdiff1d(np.flatnonzero(live), self._pairs)
        fixed, slot = np.nonzero(mdp.possible & np.isin(np.arange(live.size), given)[:, None])
        self._given = fixed, (*np.divmod(fixed, mdp.num_actions), slot)
        if unseen:
            self._fit()

    def _fit(self) -> None:
        seen, count = self._seen, len(self._pairs)
        shape = count, self._outcomes
        own = sparse.csr_array((seen.times, (seen.row, seen.outcome)), shape=shape)
        state = self._pairs // self._mdp.num_actions
        of_state = sparse.csr_array((np.ones(count), (state, np.arange(count))), shape=(self._mdp.num_states, count))
        others = sparse.csr_array((of_state @ own)[state] - own)
        others.eliminate_zeros()
        others.sort_indices()
        wide = np.diff(others.indptr)
        row = np.repeat(np.arange(count), wide)
        self._else_row, self._else_key = row, row * self._outcomes + others.indices
        self._else_share = others.data / np.bincount(row, others.data, minlength=count)[row]
        place = np.searchsorted(self._else_key, self._key)
        found = np.append(self._else_key, -1)[place] == self._key
        self._seen_else = np.where(found, np.append(self._else_share, 0.0)[place], 0.0)
        reached = np.bincount(seen.outcome, seen.times, minlength=self._outcomes)
        self._popular = np.cumsum(reached) / reached.sum()
        anywhere = int((reached > 0).sum())
        self._sizes = _sizes_up_to(anywhere)
        alone = np.bincount(seen.row, minlength=count).astype(np.int64)
        beside = np.bincount(seen.row, ~found, minlength=count).astype(np.int64)
        self._has, visits = wide > 0, self._visits
        mixed = np.where(self._has, beside, alone), np.where(self._has, anywhere - wide, anywhere)
        self._alike = [_alike(visits, *mixed), _alike(visits, alone, np.full(count, anywhere))]
        self._grid = [
            self._fitted(weight, strength)
            for weight in _WEIGHTS
            for strength in (_STRENGTHS if self._has.any() else _STRENGTHS[:1])
        ]
        likelihood = np.array([each.likelihood for each in self._grid])
        chances = np.exp(likelihood - likelihood.max())
        self._chances = chances / chances.sum()
        self._size_chances = lru_cache(maxsize=None)(self._chances_of_sizes)

    def _fitted(self, weight: float, strength: float) -> _Hyperparameters:
        """The marginal likelihood of all counts, with the sizes of rows fitted by expectation and maximisation."""
        own = strength * self._seen_else
        own = np.where(own > 0, own, weight)
        likelihood = float((gammaln(own + self._seen.times) - gammaln(own)).sum())
        sizes, of_row = self._alike[0 if strength else 1]
        uses, start = (self._has if strength else np.zeros(len(of_row), bool)), 1 / (1 + self._sizes)
        found = []
        for which, worth in ((uses, strength), (~uses, 0.0)):
            number = np.bincount(of_row[which & (self._visits > 0)], minlength=len(sizes.visits))
            some = number > 0
            rows = _Sizes(sizes.visits[some], sizes.seen[some], sizes.room[some])
            logs = _log_chances(rows, self._sizes, weight, worth)
            most = logs.max(axis=1, keepdims=True, initial=-np.inf)
            likely, pseudo = np.exp(logs - most), start / start.sum()
            chances = pseudo
            for _ in range(_SCANS):
                shares = likely * chances
                shares *= (number[some] / shares.sum(axis=1))[:, None]
                chances = shares.sum(axis=0) + pseudo
                chances /= chances.sum()
            likelihood += float(number[some] @ (np.log(likely @ chances) + most[:, 0]))
            found.append(chances)
        return _Hyperparameters(likelihood, weight, strength, np.stack(found))

    def _chances_of_sizes(self, number: int) -> tuple[Floats, Ints]:
        """[rows that are alike, size]: cumulative posterior chances at one point of the grid; and which each row is."""
        _, weight, strength, chances = self._grid[number]
        sizes, of_row = self._alike[0 if strength else 1]
        uses = self._has if strength else np.zeros(len(of_row), bool)
        found = np.zeros((2, len(sizes.visits), len(self._sizes)))
        for each, worth in enumerate((strength, 0.0)):
            logs = _log_chances(sizes, self._sizes, weight, worth) + np.log(chances[each])
            most = logs.max(axis=1, keepdims=True)
            found[each] = np.cumsum(np.exp(logs - np.where(np.isfinite(most), most, 0)), axis=1)
        chosen = np.where(uses, 0, len(sizes.visits)) + of_row
        flat = found.reshape(-1, len(self._sizes))
        return flat / np.maximum(flat[:, -1:], np.finfo(float).tiny), chosen

    def draw(self, random: np.random.Generator) -> FiniteMDP:
        """One process."""
        key, weight = self._weights(random) if self._unseen else (self._key, self._seen.times)
        row, outcome = np.divmod(key, self._outcomes)
        order = np.argsort(self._key)
        place = np.minimum(np.searchsorted(self._key, key, sorter=order), len(order) - 1)
        known, cell = self._key[order[place]] == key, order[place]
        drawn = random.standard_gamma(weight)
        drawn[known] = np.maximum(drawn[known], np.finfo(float).tiny)
        rare = ~known & (drawn < _RARE) & (self._visits > 0)[row]  # else a row might lose all
        keep = ~rare | (random.random(len(drawn)) < drawn / _RARE)
        drawn = np.where(rare, _RARE, drawn)[keep]
        row, outcome, known, cell, count = row[keep], outcome[keep], known[keep], cell[keep], len(self._pairs)
        probs = np.maximum(drawn / np.bincount(row, drawn, minlength=count)[row], _NEVER)
        probs /= np.bincount(row, probs, minlength=count)[row]
        successor = outcome if self._stands_for is None else self._stands_for[row, outcome]
        successor = np.where(known, self._seen.state[cell], successor)
        reward, variance = self._rewards.draw(successor, known, cell, random)
        mdp, (fixed, given) = self._mdp, self._given
        pair, variance = np.append(self._pairs[row], fixed), np.append(variance, 0 * fixed)
        return with_transitions(
            mdp,
            {
                "state": pair // mdp.num_actions,
                "action": pair % mdp.num_actions,
                "successor": np.append(successor, mdp.successors[given]),
                "probs": np.append(probs, mdp.probs[given]),
                "rewards": np.append(reward, mdp.rewards[given]),
                "reward_variances": variance if variance.any() else None,
            },
        )

    def _weights(self, random: np.random.Generator) -> tuple[Ints, Floats]:
        """Row by row the outcomes that are possible in this draw, row * num_outcomes + outcome, and their weights."""
        number = int(random.choice(len(self._grid), p=self._chances))
        _, weight, strength, _ = self._grid[number]
        chances, which = self._size_chances(number)
        sizes, of_row = self._alike[0 if strength else 1]
        drawn = random.random(len(which))
        size = self._sizes[(chances[which] < drawn[:, None]).sum(axis=1).clip(max=len(self._sizes) - 1)]
        missing = np.minimum(size, sizes.room[of_row]) - sizes.seen[of_row]
        pooled = np.zeros(len(self._else_row), bool) if not strength else self._has[self._else_row]
        wanted, missing = missing, np.minimum(missing, _MOST_NEW)
        each = weight * wanted / np.maximum(missing, 1)
        taken = np.sort(np.concatenate([self._key, self._else_key[pooled]]))
        more, enough = [np.zeros(0, np.int64)], _FEW * missing.sum()
        for _ in range(_ROUNDS):
            row = np.repeat(np.arange(len(missing)), missing)
            if len(row) <= enough:
                break
            outcome = np.searchsorted(self._popular, random.random(len(row)), side="right")
            found = np.sort(row * self._outcomes + outcome)
            found = found[np.append(True, found[1:] > found[:-1])]
            found = found[taken[np.minimum(np.searchsorted(taken, found), len(taken) - 1)] != found]
            more.append(found)
            taken = np.sort(np.concatenate([taken, found]), kind="stable")
            missing = missing - np.bincount(found // self._outcomes, minlength=len(missing))
        new = np.concatenate(more)
        # What nobody tried is known to nobody: there, what other actions did is worth one visit at most.
        strengths = np.where(self._visits > 0, strength, min(strength, 1.0))
        from_else = (strengths[self._else_row] * self._else_share)[pooled]
        own = self._seen.times + np.where(bool(strength) & (self._seen_else > 0), 0.0, weight)
        weights: Floats = np.concatenate([own, each[new // self._outcomes], from_else])
        key, place = np.unique(np.concatenate([self._key, new, self._else_key[pooled]]), return_inverse=True)
        return key, np.bincount(place, weights).astype(np.float64)


def _sizes_up_to(most: int) -> Ints:
    """Numbers of outcomes that a row may have, close together where they are small."""
    found = [0, 1]
    while found[-1] < most:
        found.append(min(most, max(found[-1] + 1, int(1.15 * found[-1]))))
    return np.array(found)


def _alike(visits: Floats, seen: Ints, room: Ints) -> tuple[_Sizes, Ints]:
    """Rows by what decides about their size; and which of these each row is."""
    found, of_row = np.unique(np.stack([visits, seen, room], axis=1), axis=0, return_inverse=True)
    return _Sizes(found[:, 0], found[:, 1].astype(np.int64), found[:, 2].astype(np.int64)), of_row.ravel()


def _log_chances(rows: _Sizes, sizes: Ints, weight: float, strength: float) -> Floats:
    """[row, size]: how likely its counts are if a row has so many outcomes, but for what does not depend on that."""
    seen, room, visits = rows.seen[:, None], rows.room[:, None], rows.visits[:, None]
    least = np.maximum(sizes[np.searchsorted(sizes, rows.seen)][:, None], 0 if strength else 1)
    possible = (sizes >= least) & (sizes <= np.maximum(room, least))
    left = np.where(possible, sizes - seen, 0)
    chosen = gammaln(sizes + 1) - gammaln(left + 1) + gammaln(np.maximum(room - seen, 0) + 1) - gammaln(room + 1)
    total = np.where(possible, weight * sizes + strength, 1.0)
    return np.where(possible, chosen + gammaln(total) - gammaln(total + visits), -np.inf)


def _stands_for(labels: Ints, action: Ints, seen: _Seen) -> Ints:
    """[row, label]: the state that has this label after the row's action, most often there, else after any action."""
    size = len(labels)
    by_action = np.zeros((int(action.max()) + 1, size))
    np.add.at(by_action, (action[seen.row], seen.state), seen.times)
    anywhere = by_action.sum(axis=0)
    found = np.zeros((len(by_action), int(labels.max()) + 1), np.int64)
    for label in range(found.shape[1]):
        states = np.flatnonzero(labels == label)
        here = by_action[:, states]
        found[:, label] = states[np.where(here.any(axis=1), here.argmax(axis=1), anywhere[states].argmax())]
    return found[action]


class _Rewards:
    """The posterior of mean rewards."""

    def __init__(self, seen: _Seen, absorbing: NDArray[np.bool_]):
        """Fits how much rewards vary within a transition, and between transitions into one state."""
        num_states, scored = len(absorbing), _are_scores(seen, absorbing)
        times, spare = seen.times, seen.times.sum() - len(seen.times)
        self._limits = seen.reward.min(), seen.reward.max()
        if scored:
            common = 0.0
        elif spare:
            common = float(seen.spread @ times) / spare
        else:
            common = float(np.cov(seen.reward, aweights=times)) if len(times) > 1 else 0.0
        # one visit shows no variance: where none into a state was seen twice, all between them may be noise
        self._common = np.maximum(common, _between_single_ones(seen, num_states))
        self._variance = seen.spread * times + _PRIOR_FREEDOM * self._common[seen.state]
        self._variance /= times - 1 + _PRIOR_FREEDOM
        self._state, self._reward, self._error = seen.state, seen.reward, self._variance / times
        self._between = 0.0 if scored else _between(seen, common, num_states)
        whole = self._between + self._error
        weight = 1 / whole if whole.all() else times
        total = np.bincount(seen.state, weight, minlength=num_states)
        mean = np.bincount(seen.state, weight * seen.reward, minlength=num_states) / np.where(total > 0, total, 1)
        if not whole.any():
            mean[seen.state] = seen.reward  # all the same, to the last digit
        self._mean, self._mean_error = mean, np.where(total > 0, 1 / np.where(total > 0, total, 1), 0) * whole.any()

    def draw(
        self, successor: Ints, known: np.ndarray, cell: Ints, random: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Mean rewards of transitions, those that were counted being `known` by their `cell`; and their variances."""
        mean = self._mean + np.sqrt(self._mean_error) * random.standard_normal(len(self._mean))
        whole = self._between + self._error
        own = np.where(whole > 0, self._between / np.where(whole > 0, whole, 1), 1)[cell]  # what is not noise
        error = np.sqrt(np.where(known, own * self._error[cell], self._between))
        reward = np.where(known, own * self._reward[cell] + (1 - own) * mean[successor], mean[successor])
        reward = np.where(known & (self._error[cell] == 0), self._reward[cell], reward)
        reward = np.clip(reward + error * random.standard_normal(len(successor)), *self._limits)
        return reward, np.where(known, self._variance[cell], self._common[successor])


def _between_single_ones(seen: _Seen, num_states: int) -> Floats:
    """[state]: the variance of rewards into it, where no transition was seen twice."""
    number = np.bincount(seen.state, minlength=num_states)
    mean = np.bincount(seen.state, seen.reward, num_states) / np.maximum(number, 1)
    off = seen.reward - mean[seen.state]
    off[np.abs(off) <= 1e-10 * np.abs(seen.reward)] = 0
    found = np.bincount(seen.state, off**2, num_states) / np.maximum(number - 1, 1)
    return np.where(np.bincount(seen.state, seen.times > 1, num_states) > 0, 0.0, found)


def _are_scores(seen: _Seen, absorbing: NDArray[np.bool_]) -> bool:
    """Whether nothing but ends earns anything, each of them the same every time: such rewards have no noise."""
    kinds = {*zip(seen.state.tolist(), seen.reward.tolist(), strict=True)}
    apart = len(kinds) == len({state for state, _ in kinds})
    return apart and not seen.spread.any() and not seen.reward[~absorbing[seen.state]].any()


def _between(seen: _Seen, common: float, num_states: int) -> float:
    """The variance of mean rewards between transitions into one state, by moments, and one standard error above."""
    times, state, reward = seen.times, seen.state, seen.reward
    total = np.bincount(state, times, minlength=num_states)
    each = np.where(total > 0, total, 1)
    mean = np.bincount(state, times * reward, minlength=num_states) / each
    squares, spare = float(times @ (reward - mean[state]) ** 2), len(times) - int((total > 0).sum())
    room = float(total.sum() - (np.bincount(state, times**2, minlength=num_states) / each).sum())
    if not spare:
        return float(np.var(reward))
    if squares <= 1e-20 * float(times @ reward**2) and not common:
        return 0.0
    return max(squares - spare * common, 0.0) / room + np.sqrt(2 * spare) * common / room
