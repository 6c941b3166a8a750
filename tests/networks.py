"""Networks of categorical nodes whose probabilities are written down, and oracles that know nothing of the library.

A network maps nodes to tables, a table the values of the parents (in the order of their names) to probabilities.
Levels are "0", "1", ...; the root "t" has the levels "off" and "on".
"""

import itertools

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

from countermax import GumbelMax

gcm = pytest.importorskip("dowhy.gcm")
from countermax.integrations.dowhy import CategoricalMechanism  # noqa: E402

gcm.config.disable_progress_bars()

TO_ON = {"t": lambda _: "on"}


class Known(gcm.ml.ClassificationModel):
    """Probabilities that are known, not learned."""

    def __init__(self, table):
        self.table = table

    def fit(self, X, Y):  # noqa: N803
        pass

    def predict(self, X):  # noqa: N803
        return np.array(self.classes)[self.predict_probabilities(X).argmax(axis=1)]

    def predict_probabilities(self, X):  # noqa: N803
        return np.array([self.table[tuple(row)] for row in X.tolist()])

    @property
    def classes(self):
        return [str(level) for level in range(len(next(iter(self.table.values()))))]

    def clone(self):
        return Known(self.table)


def levels(network, node):
    return ["off", "on"] if node == "t" else [str(level) for level in range(len(next(iter(network[node].values()))))]


def random_network(graph, sizes, seed):
    """Random tables for nodes with so many levels; a graph maps each node to its parents, sorted by name."""
    rng = np.random.default_rng(seed)
    known = {"t": ["off", "on"]} | {node: [str(level) for level in range(size)] for node, size in sizes.items()}
    return {
        node: {
            values: rng.dirichlet(np.ones(sizes[node]))
            for values in itertools.product(*(known[each] for each in parents))
        }
        for node, parents in graph.items()
    }


def built(graph, network, mechanism=None, smoothing=0.0):
    """The network as a fitted model of DoWhy; mechanisms by node, Gumbel-max for the others."""
    edges = [(parent, node) for node, parents in graph.items() for parent in parents]
    model = gcm.InvertibleStructuralCausalModel(nx.DiGraph(edges))
    model.set_causal_mechanism("t", gcm.EmpiricalDistribution())
    most = max(len(levels(network, node)) for node in ("t", *network))
    data = pd.DataFrame({node: np.resize(levels(network, node), most) for node in ("t", *network)})
    for node in network:
        used = (mechanism or {}).get(node, GumbelMax())
        model.set_causal_mechanism(node, CategoricalMechanism(Known(network[node]), used, smoothing=smoothing))
    gcm.fit(model, data)
    return model


def every_row(graph, network):
    """All that can be seen with the root off."""
    nodes = list(graph)
    rows = itertools.product(*(levels(network, node) for node in nodes))
    return pd.DataFrame([("off", *row) for row in rows], columns=["t", *nodes])


def by_noise(graph, network, row):
    """P(node=. | row) with the root on, by inverse CDF: noise is uniform, and cut where some world's CDF jumps."""
    cells = {}
    for node, table in network.items():
        cdfs = {values: np.concatenate([[0], np.cumsum(probs)[:-1], [1]]) for values, probs in table.items()}
        own = cdfs[tuple(row[parent] for parent in graph[node])]
        low, high = own[int(row[node])], own[int(row[node]) + 1]
        cuts = np.unique(np.concatenate([[low, high], *(each[(each > low) & (each < high)] for each in cdfs.values())]))
        cells[node] = [
            (
                (right - left) / (high - low),
                {v: str(np.searchsorted(c, (left + right) / 2) - 1) for v, c in cdfs.items()},
            )
            for left, right in itertools.pairwise(cuts)
        ]
    found = {node: np.zeros(len(levels(network, node))) for node in network}
    for chosen in itertools.product(*cells.values()):
        world, weight = {"t": "on"}, np.prod([share for share, _ in chosen])
        for node, (_, response) in zip(cells, chosen, strict=True):
            world[node] = response[tuple(world[parent] for parent in graph[node])]
            found[node][int(world[node])] += weight
    return found


def response_rows(table, factual, x):
    """All vertices of {P(levels in the other worlds | x was seen)}: a node's response types, one basis at a time.

    A type says which level a node has in each world of its parents; the laws of types with the right probabilities in
    each world are a polytope. Returned are the rows [worlds, levels] of its vertices, without repetition.
    """
    worlds = list(table)
    size = len(table[factual])
    types = list(itertools.product(range(size), repeat=len(worlds)))
    matrix = np.array(
        [[kind[place] == level for kind in types] for place in range(len(worlds)) for level in range(size)]
    )
    right = np.concatenate([table[world] for world in worlds])
    rank = np.linalg.matrix_rank(matrix)
    found = {}
    for basis in itertools.combinations(range(len(types)), rank):
        part = matrix[:, basis].astype(float)
        if np.linalg.matrix_rank(part) < rank:
            continue
        law, *_ = np.linalg.lstsq(part, right, rcond=None)
        if (law > -1e-12).all() and np.allclose(part @ law, right):
            rows = _rows(worlds, types, dict(zip(basis, law, strict=True)), factual, x, size)
            found[tuple(np.round(np.concatenate(list(rows.values())), 10))] = rows
    return list(found.values())


def _rows(worlds, types, law, factual, x, size):
    joint = {world: np.zeros(size) for world in worlds}
    for place, weight in law.items():
        if types[place][worlds.index(factual)] == x:
            for each, world in enumerate(worlds):
                joint[world][types[place][each]] += weight
    return {world: row / row.sum() for world, row in joint.items()}


def best_by_types(table, factual, x, worth):
    """The largest sum over worlds and levels of worth * P(level in that world | x), an LP over response types."""
    worlds = list(table)
    size = len(table[factual])
    types = list(itertools.product(range(size), repeat=len(worlds)))
    matrix = [[kind[place] == level for kind in types] for place in range(len(worlds)) for level in range(size)]
    right = np.concatenate([table[world] for world in worlds])
    gain = [
        sum(worth[world][kind[place]] for place, world in enumerate(worlds)) * (kind[worlds.index(factual)] == x)
        for kind in types
    ]
    solved = linprog(-np.array(gain), A_eq=np.array(matrix, float), b_eq=right)
    assert solved.status == 0
    return -solved.fun / table[factual][x]


def extreme(graph, network, row, target, level, sign):
    """The largest (sign 1) or least (-1) P(target=level | row) with the root on, over all mechanisms of all nodes.

    The probability is linear in the law of each node's types, so that the extreme is attained at vertices: all of them
    are tried for all nodes but the last, for which an LP finds the best one.
    """
    nodes = [node for node in graph if node != target and _leads_to(graph, node, target)]
    factual = {node: tuple(row[parent] for parent in graph[node]) for node in [*nodes, target]}
    choices = [response_rows(network[node], factual[node], int(row[node])) for node in nodes]
    best = -np.inf
    for chosen in itertools.product(*choices):
        kernels = dict(zip(nodes, chosen, strict=True))
        worth = {world: np.zeros(len(levels(network, target))) for world in network[target]}
        for states in itertools.product(*(levels(network, node) for node in nodes)):
            world = {"t": "on"} | dict(zip(nodes, states, strict=True))
            weight = np.prod([kernels[n][tuple(world[each] for each in graph[n])][int(world[n])] for n in nodes])
            worth[tuple(world[each] for each in graph[target])][int(level)] += sign * weight
        best = max(best, best_by_types(network[target], factual[target], int(row[target]), worth))
    return sign * best


def _leads_to(graph, node, target):
    return any(parent == node or _leads_to(graph, node, parent) for parent in graph.get(target, ()))
