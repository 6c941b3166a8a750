"""Finds the categorical nodes of a DoWhy model and gives each a mechanism."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.extras import import_dowhy, import_pandas
from countermax._core.labels import listed
from countermax.couplings import GumbelMax
from countermax.integrations.dowhy._mechanism import CategoricalMechanism
from countermax.integrations.dowhy._noise import Mechanism

dowhy, pd = import_dowhy(), import_pandas()


def assign_categorical_mechanisms(
    model: Any,
    data: Any,
    *,
    mechanism: Mechanism | Mapping[Hashable, Mechanism] = GumbelMax(),  # noqa: B008 (immutable)
    classifier: Any = None,
    nodes: Sequence[Hashable] | None = None,
    random_state: int | None = None,
    others: bool = True,
) -> dict[Hashable, str]:
    """Gives every categorical node of a model a mechanism, in one line; says which, and why.

    Strings, booleans, categories and whole numbers with two values (0 and 1) are categorical; other whole numbers may
    be counts, so name them in `nodes` where they are classes. Root nodes need no mechanism: their values are drawn
    from the data.

    Args:
        model: A DoWhy model; nodes that have a mechanism already keep it.
        data: What the model will be fitted to.
        mechanism: Mechanism of all nodes, or of each by its name; `GumbelMax()` for those that are not named.
        classifier: Classifier, of which each node gets a copy; by default the one that DoWhy's `gcm.auto` would choose.
        nodes: The categorical nodes, in place of those that are found.
        random_state: Seed of the noise of these nodes.
        others: Whether to give all other nodes what `gcm.auto` would.
    """
    given = dict(mechanism) if isinstance(mechanism, Mapping) else {}
    for node in [*given, *(nodes or [])]:
        if node not in model.graph.nodes:
            raise InputError(f"the model must have each node that is named, got {node!r}; it has {listed(model.graph)}")
    done: dict[Hashable, str] = {}
    for node in model.graph.nodes:
        if node not in data.columns:
            raise InputError(f"`data` must have a column for each node, got none for {node!r}")
        kind = _category(data[node]) if nodes is None else "named" if node in nodes else None
        if kind is None or "causal_mechanism" in model.graph.nodes[node]:
            continue
        if dowhy.graph.is_root_node(model.graph, node):
            model.set_causal_mechanism(node, dowhy.gcm.EmpiricalDistribution())
            done[node] = f"{kind}; a root node: drawn from the data"
            continue
        chosen = given.get(node, GumbelMax()) if isinstance(mechanism, Mapping) else mechanism
        if classifier is None:
            parents = data[dowhy.graph.get_ordered_predecessors(model.graph, node)].to_numpy()
            quality = dowhy.gcm.auto.AssignmentQuality.GOOD
            wrapped = dowhy.gcm.auto.select_model(parents, _as_text(data[node]), quality)[0]
        else:
            wrapped = CategoricalMechanism(classifier).classifier_model.clone()
        made = CategoricalMechanism(wrapped, chosen, random_state=random_state)
        model.set_causal_mechanism(node, made)
        done[node] = f"{kind}; {made}"
    if others:
        dowhy.gcm.auto.assign_causal_mechanisms(model, data)
    return done


def _category(column: Any) -> str | None:
    values = column.dropna().unique().tolist()
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "categories"
    if values and dowhy.gcm.util.general.is_categorical(np.array(values, object)):
        return "booleans" if isinstance(values[0], bool) else "text"
    whole = all(isinstance(value, int) or (isinstance(value, float) and value.is_integer()) for value in values)
    return "two whole numbers" if whole and len(values) == 2 else None


def _as_text(column: Any) -> NDArray[Any]:
    return column.astype(str).to_numpy(dtype=object)
