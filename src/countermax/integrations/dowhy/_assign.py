"""Finds the categorical nodes of a DoWhy model and gives each a mechanism."""

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_dowhy, import_pandas
from countermax._core.labels import listed
from countermax.couplings import GumbelMax
from countermax.couplings._named import is_same
from countermax.integrations.dowhy._mechanism import CategoricalMechanism, Mechanism

dowhy, pd = import_dowhy(), import_pandas()

FITTED = dowhy.gcm.causal_models.PARENTS_DURING_FIT
"""Where DoWhy notes that a node's mechanism is fitted, and to which parents."""
_MOST_CLASSES = 20  # distinct whole numbers that may well be classes
_MECHANISM = dowhy.gcm.causal_models.CAUSAL_MECHANISM


def assign_categorical_mechanisms(
    model: Any,
    data: Any,
    *,
    mechanism: Mechanism | Mapping[Hashable, Mechanism] | None = None,
    classifier: Any = None,
    nodes: Hashable | Sequence[Hashable] = (),
    override: bool | Hashable | Sequence[Hashable] = False,
    random_state: int | None = None,
    others: bool = True,
) -> dict[Hashable, str]:
    """Gives every categorical node of a model a mechanism, in one line; says which, and why.

    Strings, booleans, categories and whole numbers with two values (0 and 1) are categorical; other whole numbers may
    be counts, so name them in `nodes` where they are classes. Categories keep their order: the mechanism counts the
    classes in it. Root nodes need no mechanism: their values are drawn from the data.

    A graph keeps the mechanisms that it was given, by `gcm.auto` or by another model, unless `override` says otherwise.
    Where a categorical node keeps one that cannot explain what was seen, or another than was asked for, a warning says
    so.

    Args:
        model: A DoWhy model.
        data: Data that the model will be fitted to.
        mechanism: Mechanism of all nodes, or of each by its name; by default, and for those not named, `GumbelMax()`.
        classifier: Classifier, of which each node gets a copy; by default that of the classifier node which is
            replaced, or the one that DoWhy's `gcm.auto` would choose.
        nodes: Categorical nodes beside those that are found and those that `mechanism` names.
        override: Whether to replace the mechanisms that nodes have already: of all categorical nodes, or of these.
            The model must be fitted again afterwards.
        random_state: Seed of the noise of these nodes.
        others: Whether to give all other nodes without a mechanism what `gcm.auto` would.

    Returns:
        For each node, what it is and what was done: a mechanism assigned or kept; numeric nodes are left as they are.
    """
    every = list(model.graph.nodes)
    by_node = dict(mechanism) if isinstance(mechanism, Mapping) else {}
    wanted = by_node if isinstance(mechanism, Mapping) or mechanism is None else dict.fromkeys(every, mechanism)
    named = [*_several(nodes), *by_node]  # who names a mechanism for a node says that it is categorical
    replaced = every if override is True else [] if override is False else _several(override)
    for node in [*named, *replaced]:
        if node not in model.graph.nodes:
            raise InputError(f"the model must have each node that is named, got {node!r}; it has {listed(model.graph)}")
    done: dict[Hashable, str] = {}
    kept: dict[Hashable, str] = {}
    for node in every:
        if node not in data.columns:
            raise InputError(f"`data` must have a column for each node, got none for {node!r}")
        kind = _category(data[node]) or ("named" if node in named else None)
        old = model.graph.nodes[node].get(_MECHANISM)
        if kind is None:
            done[node] = f"left as it is: numeric{_hint(data[node])}" + ("" if old is None else f"; keeps {old}")
            continue
        is_root = dowhy.graph.is_root_node(model.graph, node)
        if old is not None and (is_root or node not in replaced):
            why = None if is_root else _objection(old, wanted.get(node))
            done[node] = f"{kind}; keeps {old}" + ("" if why is None else f", {why}")
            kept |= {} if why is None else {node: f"{old}, {why}"}
        elif is_root:
            model.set_causal_mechanism(node, dowhy.gcm.EmpiricalDistribution())
            done[node] = f"{kind}; a root node: drawn from the data"
        else:
            wrapped = _classifier(model, data, node, old) if classifier is None else classifier
            copied = CategoricalMechanism(wrapped).classifier_model.clone()
            labels = data[node].dtype if isinstance(data[node].dtype, pd.CategoricalDtype) else None
            chosen = wanted.get(node, GumbelMax())
            made = CategoricalMechanism(copied, chosen, labels=labels, random_state=random_state)
            model.set_causal_mechanism(node, made)
            model.graph.nodes[node].pop(FITTED, None)  # so that DoWhy asks for the model to be fitted
            done[node] = f"{kind}; {made}" + ("" if old is None else f" in place of {old}")
    if others:
        without = [node for node in every if model.graph.nodes[node].get(_MECHANISM) is None]
        dowhy.gcm.auto.assign_causal_mechanisms(model, data)
        done |= {node: f"{done[node]}; `gcm.auto` gave it {model.causal_mechanism(node)}" for node in without}
    if kept:
        node, old = next(iter(kept.items()))
        warnings.warn(
            f"nodes {listed(kept)} keep the mechanisms that they had: that of {node!r} is {old}; pass `override=True` "
            "to replace them, then fit the model again",
            UserWarning,
            stacklevel=2,
        )
    return done


def _several(nodes: Any) -> list[Hashable]:
    """One node, or each of several."""
    return [nodes] if isinstance(nodes, str) or not isinstance(nodes, Iterable) else list(nodes)


def _objection(old: Any, wanted: Mechanism | None) -> str | None:
    """What speaks against a mechanism that a node has."""
    if not isinstance(old, dowhy.gcm.ClassifierFCM):
        return "which is for numbers and may answer with classes that do not exist"
    if not isinstance(old, CategoricalMechanism):
        return "which cannot explain what was seen"
    if wanted is not None and not is_same(old.mechanism, wanted):
        return f"not the {type(wanted).__name__} asked for"
    return None


def _classifier(model: Any, data: Any, node: Hashable, old: Any) -> Any:
    """That of a classifier node which is replaced, else DoWhy's choice."""
    if isinstance(old, dowhy.gcm.ClassifierFCM):
        return old.classifier_model
    parents = data[dowhy.graph.get_ordered_predecessors(model.graph, node)].to_numpy()
    target = data[node].astype(str).to_numpy(dtype=object)
    return dowhy.gcm.auto.select_model(parents, target, dowhy.gcm.auto.AssignmentQuality.GOOD)[0]


def _category(column: Any) -> str | None:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "ordered categories" if column.dtype.ordered else "categories"
    values = column.dropna().unique().tolist()
    if values and dowhy.gcm.util.general.is_categorical(np.array(values, object)):
        return "booleans" if isinstance(values[0], bool) else "text"
    return "two whole numbers" if len(values) == 2 and _are_whole(values) else None


def _are_whole(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int) or (isinstance(value, float) and value.is_integer()) for value in values)


def _hint(column: Any) -> str:
    """For numbers that may be classes: what to do if they are."""
    values = column.dropna().unique().tolist()
    may_be = len(values) <= _MOST_CLASSES and _are_whole(values)
    return " (name it in `nodes` if its numbers are classes)" if may_be else ""
