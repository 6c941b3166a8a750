"""Exact counterfactual probabilities of a DoWhy model's categorical nodes, where its samples only estimate them."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.extras import import_dowhy, import_pandas
from countermax._core.labels import Labels, listed
from countermax.couplings import AbstractCoupling
from countermax.integrations.dowhy._mechanism import CategoricalMechanism
from countermax.integrations.dowhy._noise import Floats
from countermax.tables import counterfactuals

dowhy, pd = import_dowhy(), import_pandas()

Interventions = Mapping[Hashable, Callable[[Any], Any]]


def counterfactual_probabilities(
    model: Any,
    interventions: Interventions,
    observed: Any,
    *,
    nodes: Sequence[Hashable] | None = None,
    coupling: str | Path | AbstractCoupling | None = None,
) -> dict[Hashable, Any]:
    """What samples only estimate: each row's exact probabilities, for each categorical node that the change reaches.

    That takes parents whose values in the other world are known: they are intervened on, out of reach of the change, or
    follow from such parents through an invertible mechanism (an additive noise model, say).

    Args:
        model: A fitted `gcm.InvertibleStructuralCausalModel`.
        interventions: What is changed, as in `gcm.counterfactual_samples`: a function of the old value for each node.
        observed: A DataFrame with what was seen, a column for each node. Its index is kept.
        nodes: The nodes to answer for, all of them or an error; by default those for which it is possible.
        coupling: Another coupling than the nodes' own mechanisms, to see what it would say: any with an exact law, one
            of `countermax.couplings.NAMES`, or a file that `countermax.save` wrote.

    Returns:
        For each node a DataFrame with a column for each of its classes.
    """
    worlds = _Worlds(model, interventions, observed)
    answers = {}
    for node in worlds.asked(nodes):
        table = worlds.table(observed[[]], node, coupling, bounds="none")
        values = list(worlds.answerable[node].labels.values)
        answers[node] = table.iloc[:, : len(values)].set_axis(values, axis=1)
    return answers


def counterfactual_table(
    model: Any,
    interventions: Interventions,
    observed: Any,
    node: Hashable,
    *,
    coupling: str | Path | AbstractCoupling | None = None,
    **options: Any,
) -> Any:
    """The observed rows with a node's probabilities, most likely class, bounds over couplings and a flag.

    Args:
        model: A fitted `gcm.InvertibleStructuralCausalModel`.
        interventions: What is changed, as in `gcm.counterfactual_samples`.
        observed: A DataFrame with what was seen.
        node: The categorical node; see `counterfactual_probabilities` for when it can be answered for.
        coupling: Another coupling than the node's own mechanism.
        **options: Passed on to `countermax.tables.counterfactuals`: score, bounds, errors, tolerance, prefix.
    """
    worlds = _Worlds(model, interventions, observed)
    worlds.asked([node])
    return worlds.table(observed, node, coupling, **options)


@dataclass(frozen=True)
class _Question:
    labels: Labels
    p: Floats
    q: Floats


@dataclass
class _Worlds:
    """Walks through the graph and finds what is known about the other world."""

    model: Any
    interventions: Interventions
    observed: Any
    answerable: dict[Hashable, _Question] = field(default_factory=dict)
    reasons: dict[Hashable, str] = field(default_factory=dict)
    """Why the other nodes' values are not known."""

    def __post_init__(self) -> None:
        nodes = list(dowhy.graph.nx.topological_sort(self.model.graph))
        for node, change in self.interventions.items():
            if not callable(change):
                raise InputError(f"`interventions` must be functions of the old value, got {change!r} for {node!r}")
            if node not in nodes:
                raise InputError(f"`interventions` must change nodes of the model ({listed(nodes)}), got {node!r}")
        for node in nodes:
            if node not in self.observed:
                raise InputError(f"`observed` must have a column for each node, got none for {node!r}")
        self._other = self.observed[nodes].astype(object)  # values in the other world, where they are known
        self._changed: set[Hashable] = set()
        for node in nodes:
            parents = dowhy.graph.get_ordered_predecessors(self.model.graph, node)
            if self._changed.intersection(parents):
                self._follow(node, parents)
                self._changed.add(node)
            if node in self.interventions:
                self._intervene(node)
                self._changed.add(node)

    def asked(self, nodes: Sequence[Hashable] | None) -> list[Hashable]:
        """The nodes to answer for."""
        if nodes is None:
            if not self.answerable:
                reasons = "; ".join(f"{node!r}: {why}" for node, why in self.reasons.items())
                raise InputError(f"no categorical node can be answered for ({reasons or 'the change reaches none'})")
            return list(self.answerable)
        for node in nodes:
            if node not in self.answerable:
                why = self.reasons.get(node, "the change does not reach it, or it is not a CategoricalMechanism")
                raise InputError(f"node {node!r} cannot be answered for exactly: {why}; draw samples instead")
        return list(nodes)

    def table(self, frame: Any, node: Hashable, coupling: str | Path | AbstractCoupling | None, **options: Any) -> Any:
        """A frame of the observed rows with the answers."""
        question = self.answerable[node]
        if coupling is None:
            coupling = self.model.causal_mechanism(node).mechanism
            if not isinstance(coupling, AbstractCoupling):
                raise InputError(
                    f"the mechanism of node {node!r}, {type(coupling).__name__}, has no exact law; draw samples "
                    "instead, or name another `coupling`"
                )
        return counterfactuals(
            frame,
            outcome=self.observed[node],
            factual=question.p,
            counterfactual=question.q,
            labels=question.labels.values,
            coupling=coupling,
            **options,
        )

    def _follow(self, node: Hashable, parents: Sequence[Hashable]) -> None:
        """What becomes of a node when some of its parents change."""
        unknown = [parent for parent in parents if parent in self.reasons]
        if unknown:
            self.reasons[node] = f"its parent {unknown[0]!r} is known in probability only"
            return
        mechanism = self.model.causal_mechanism(node)
        before, after = (_values(table, parents) for table in (self.observed, self._other))
        if isinstance(mechanism, CategoricalMechanism):
            p, q = mechanism.probabilities(before), mechanism.probabilities(after)
            mechanism.outcomes(self.observed[node].to_numpy(), p)
            self.answerable[node] = _Question(mechanism.labels, p, q)
            self.reasons[node] = "its class is known in probability only"
        elif isinstance(mechanism, dowhy.gcm.causal_mechanisms.InvertibleFunctionalCausalModel):
            noise = mechanism.estimate_noise(self.observed[node].to_numpy(), before)
            self._other[node] = np.asarray(mechanism.evaluate(after, noise)).reshape(-1).tolist()
        else:
            self.reasons[node] = f"its mechanism {mechanism} is not invertible"

    def _intervene(self, node: Hashable) -> None:
        """Applies the change; of a node that is not known it must not depend on the old value."""
        change = self.interventions[node]
        if node in self.reasons:
            results = [change(value) for value in self.observed[node].unique().tolist()]
            if any(result != results[0] for result in results[1:]):
                self.reasons[node] = "it is changed as a function of a value that is known in probability only"
                self.answerable.pop(node, None)
                return
            self.reasons.pop(node)
        self.answerable.pop(node, None)
        self._other[node] = [change(value) for value in self._other[node]]


def _values(table: Any, columns: Sequence[Hashable]) -> NDArray[Any]:
    """Columns as DoWhy hands them over: numbers where all of them are, objects otherwise."""
    return table[list(columns)].infer_objects().to_numpy()
