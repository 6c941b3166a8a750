"""What a node would have been: a finite mixture over what the nodes above it would have been, summed exactly.

A node is a function of its parents and of noise of its own, and what was seen says all there is to know about that
noise. So from the states of the nodes above, node by node, the law of the next is one row of its coupling: P(Y=. | x)
between the world of its parents as they were and the world of its parents as they would have been. Where those are the
same, its outcome is the one that was seen, whatever the coupling. Nodes that are no longer needed are summed out.

Bounds go the other way. A coupling may answer with any row that Frechet's bounds allow, another one in each world of
the parents, so from the last node back the best row from every state gives the largest value (greedy fill). No coupling
exceeds it. Some coupling attains it if the best row depends on the node's own parents alone. Where another uncertain
node is still needed, the best row here may depend on that one too, which a coupling's row may not: the problem is
bilinear then, and the bounds are valid but may be too wide.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._kernel import row_bounds, row_probabilities, row_score_bounds
from countermax.couplings import AbstractCoupling
from countermax.integrations.dowhy._mechanism import Codes, Floats
from countermax.integrations.dowhy._network import Network, Objects, as_parents

pd = import_pandas()

Flags = NDArray[np.bool_]

_NOWHERE = -1


@dataclass
class _Stage:
    """From each state, what one categorical node would have been."""

    p: Floats
    q: Floats
    x: Codes
    same: Flags
    """Whether the parents are as they were."""
    answers: Floats
    """[states, outcomes]."""
    children: Codes
    """[states, outcomes]: which of the next stage's states an outcome leads to."""


class Mixture:
    """One node's law in the other world, for some of the rows."""

    def __init__(
        self,
        network: Network,
        couplings: dict[Hashable, AbstractCoupling],
        target: Hashable,
        rows: Codes,
        *,
        every_state: bool,
        max_states: int,
    ):
        """Walks through the graph."""
        labels = network.levels[target]
        assert labels is not None
        self._labels = labels
        self._network, self._couplings, self._target, self._rows = network, couplings, target, rows
        self._every_state, self._max_states = every_state, max_states
        self._seen = {node: values[rows] for node, values in network.seen.items()}
        self._row: Codes = np.arange(len(rows))
        self._weight: Floats = np.ones(len(rows))
        self._values: dict[Hashable, Objects] = {}
        self._stages: list[_Stage] = []
        self.is_sharp: Flags = np.ones(len(rows), bool)
        """Whether some coupling attains the bounds of a row."""
        self.is_sharp_if_stable: Flags = np.ones(len(rows), bool)
        """The same for bounds over stable couplings."""
        self._walk()

    def probabilities(self) -> Floats:
        """[rows, outcomes] under the couplings."""
        found = np.zeros((len(self._rows), len(self._labels)))
        np.add.at(found, self._row, self._weight[:, None] * self._last_answers())
        return found

    def unchanged(self) -> Flags:
        """Which rows keep what was seen, whatever the couplings."""
        if self._target in self._network.interventions:
            same = _equal(self._seen[self._target][self._row], self._values[self._target])
        else:
            same = self._stages[-1].same
        return np.bincount(self._row, ~same, len(self._rows)) == 0

    def limits(self, score: Floats | None, stable: bool) -> Floats:
        """[2, rows, outcomes and score]: the least and the largest answers over all couplings, or the stable ones."""
        worth = self._last_worth(score, stable)
        before = self._stages if self._target in self._network.interventions else self._stages[:-1]
        for stage in reversed(before):
            worth = _largest(stage, worth, stable)
        columns = worth.shape[1] // 2
        return np.stack([-worth[:, columns:], worth[:, :columns]])

    def _last_answers(self) -> Floats:
        if self._target not in self._network.interventions:
            return self._stages[-1].answers
        return np.eye(len(self._labels))[self._labels.places(self._values[self._target].tolist())]

    def _last_worth(self, score: Floats | None, stable: bool) -> Floats:
        """At each of the last states: largest answers, and the least ones negated, so that all are to be large."""
        worth = np.eye(len(self._labels))
        worth = worth if score is None else np.column_stack([worth, score])
        if self._target in self._network.interventions:
            sure = self._last_answers() @ worth
            return np.concatenate([sure, -sure], axis=1)
        stage, size = self._stages[-1], len(self._labels)
        upper, lower, open_ = worth[stage.x], worth[stage.x], ~stage.same
        if open_.any():
            p, q, x = stage.p[open_], stage.q[open_], stage.x[open_]
            lower[open_, :size], upper[open_, :size] = row_bounds(_log(p), _log(q), x, stable=stable)
            if score is not None:
                both = np.broadcast_to(np.stack([score, -score]), (len(x), 2, size))
                upper[open_, size], lower[open_, size] = (_largest_means(p, q, x, both, stable) * [1, -1]).T
        return np.concatenate([upper, -lower], axis=1)

    def _walk(self) -> None:
        network = self._network
        way = network.way_to(self._target)
        last_use = {node: -1 for node in way} | {self._target: len(way)}
        for place, node in enumerate(way):
            if node not in network.fixed:
                last_use |= {parent: place for parent in network.parents[node] if parent in last_use}
        for place, node in enumerate(way):
            needed = {each for each, last in last_use.items() if last > place}
            if node in network.fixed:
                self._values[node] = network.fixed[node][self._rows][self._row]
            elif network.is_ours(node):
                if not self._branch(node, needed - {node}):
                    return
                self._values[node] = network.changed(node, self._values[node])
            else:
                self._values[node] = network.changed(node, self._follow(node))
            self._values = {each: values for each, values in self._values.items() if each in needed}
            self._merge()

    def _parents(self, node: Hashable) -> tuple[list[Objects], Flags]:
        """What each state says that the node's parents would have been, and whether that is what they were."""
        after, same = [], np.ones(len(self._row), bool)
        for parent in self._network.parents[node]:
            before = self._seen[parent][self._row]
            after.append(self._values.get(parent, before))
            if parent in self._values:
                same &= _equal(before, self._values[parent])
        return after, same

    def _branch(self, node: Hashable, needed: set[Hashable]) -> bool:
        """Asks the node's coupling in every state, and goes to where it may lead; not from the target itself."""
        mechanism = self._network.model.causal_mechanism(node)
        after, same = self._parents(node)
        factual = mechanism.probabilities(as_parents([self._seen[parent] for parent in self._network.parents[node]]))
        outcome = mechanism.outcomes(self._seen[node], factual, self._rows)
        p, x = factual[self._row], outcome[self._row]
        q, answers = p.copy(), np.eye(p.shape[1])[x]
        if not same.all():
            q[~same] = mechanism.probabilities(as_parents([values[~same] for values in after]))
            answers[~same] = row_probabilities(self._couplings[node], _log(p[~same]), _log(q[~same]), x[~same])
        if not (np.isfinite(answers).all() and np.isfinite(q).all()):
            raise InputError(f"the probabilities of node {node!r} must be numbers, but its classifier gives NaN")
        possible = q > 0 if self._every_state else answers > 0
        possible[same] = np.eye(p.shape[1], dtype=bool)[x[same]]
        self._note_sharpness(node, needed, ~same & (possible.sum(axis=1) > 1))
        stage = _Stage(p, q, x, same, answers, np.full(p.shape, _NOWHERE))
        self._stages.append(stage)
        if node == self._target and node not in self._network.interventions:
            return False
        states = int(np.bincount(self._row, possible.sum(axis=1)).max())
        if states > self._max_states:
            raise InputError(
                f"the exact answer for {self._target!r} would take {states:,} states of the nodes up to {node!r} for "
                f"one row, and `max_states` is {self._max_states:,}; raise it, or draw samples"
            )
        state, y = np.nonzero(possible)
        stage.children[state, y] = np.arange(len(state))
        self._row, self._weight = self._row[state], self._weight[state] * answers[state, y]
        self._values = {each: values[state] for each, values in self._values.items()}
        labels = np.empty(p.shape[1], object)
        labels[:] = mechanism.labels.values
        self._values[node] = labels[y]
        return True

    def _follow(self, node: Hashable) -> Objects:
        """The value that the node's own noise gives it in each state."""
        mechanism = self._network.model.causal_mechanism(node)
        after, same = self._parents(node)
        values = self._seen[node][self._row]
        if not same.all():
            parents = as_parents([self._seen[parent] for parent in self._network.parents[node]])
            noise = np.asarray(mechanism.estimate_noise(as_parents([self._seen[node]])[:, 0], parents)).reshape(-1)
            moved = mechanism.evaluate(as_parents([each[~same] for each in after]), noise[self._row[~same]])
            values[~same] = np.asarray(moved).reshape(-1).tolist()
        return values

    def _merge(self) -> None:
        """Makes one state of those of a row that no node below can tell apart."""
        if not self._stages:
            return
        _, first, inverse = np.unique(self._keys(self._values), axis=0, return_index=True, return_inverse=True)
        inverse = inverse.reshape(-1)
        children = self._stages[-1].children
        self._stages[-1].children = np.where(children == _NOWHERE, _NOWHERE, inverse[children])
        self._weight = np.bincount(inverse, self._weight, len(first)).astype(np.float64)
        self._row = self._row[first]
        self._values = {node: values[first] for node, values in self._values.items()}

    def _keys(self, nodes: Any) -> NDArray[np.int64]:
        """[states, 1 + nodes]: the row, and a number for the value of each node that is uncertain and needed."""
        codes = [pd.factorize(self._values[node], use_na_sentinel=False)[0] for node in nodes if node in self._values]
        return np.column_stack([self._row, *codes]).astype(np.int64)

    def _note_sharpness(self, node: Hashable, needed: set[Hashable], free: Flags) -> None:
        """Bounds are attained if nothing that is still needed but this node's parents tells its states apart."""
        parents = set(self._network.parents[node])
        own = np.unique(self._keys(sorted(parents, key=str))[free], axis=0)[:, 0]
        full = np.unique(self._keys(sorted(parents | needed, key=str))[free], axis=0)[:, 0]
        worlds, states = (np.bincount(each, minlength=len(self._rows)) for each in (own, full))
        self.is_sharp &= states <= worlds
        self.is_sharp_if_stable &= (states <= worlds) & (worlds <= 1)


def _largest(stage: _Stage, worth: Floats, stable: bool) -> Floats:
    """The largest of each worth from the states of a stage, given what it is from those of the next."""
    ahead = worth[np.where(stage.children == _NOWHERE, 0, stage.children)]  # [states, outcomes, worths]
    ahead[stage.children == _NOWHERE] = 0
    found = ahead[np.arange(len(stage.x)), stage.x]
    open_ = ~stage.same
    if open_.any():
        by_worth = np.ascontiguousarray(ahead[open_].transpose(0, 2, 1))
        found[open_] = _largest_means(stage.p[open_], stage.q[open_], stage.x[open_], by_worth, stable)
    return found


def _largest_means(p: Floats, q: Floats, x: Codes, worth: Floats, stable: bool) -> Floats:
    """The largest mean of each worth of the outcomes, [states, worths]; `worth` is [states, worths, outcomes]."""
    count, size = worth.shape[1], worth.shape[2]
    log_p, log_q = (np.repeat(_log(each), count, axis=0) for each in (p, q))
    found = row_score_bounds(log_p, log_q, np.repeat(x, count), worth.reshape(-1, size), stable=stable)
    return np.asarray(found.upper).reshape(-1, count)


def _log(probs: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(probs)


def _equal(first: Objects, second: Objects) -> Flags:
    """Whether two columns have the same value, row by row; missing equals missing."""
    missing, other = pd.isna(first), pd.isna(second)
    known = ~(missing | other)
    same = missing & other
    same[known] = [bool(one == two) for one, two in zip(first[known], second[known], strict=True)]
    return same
