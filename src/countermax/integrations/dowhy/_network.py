"""A fitted model, what was seen and what is changed: read once, checked, and cut into what each node needs."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.extras import import_dowhy, import_pandas
from countermax._core.labels import Labels, listed
from countermax.couplings import AbstractCoupling, GumbelMax, Independent, Maximal, SharedGumbelMax
from countermax.couplings._named import as_coupling, name_of
from countermax.integrations.dowhy._assign import FITTED
from countermax.integrations.dowhy._mechanism import CategoricalMechanism, levels_of, unknown_level

dowhy, pd = import_dowhy(), import_pandas()

Interventions = Mapping[Hashable, Callable[[Any], Any]]
CouplingLike = str | Path | AbstractCoupling
Objects = NDArray[np.object_]

_WITHOUT_ORDER = (GumbelMax, SharedGumbelMax, Maximal, Independent)  # the order of the outcomes is nothing to them


class Network:
    """What the model says about each node, and the values that were seen."""

    def __init__(self, model: Any, interventions: Interventions, observed: Any):
        if not isinstance(observed, pd.DataFrame) or not len(observed):
            got = "none" if isinstance(observed, pd.DataFrame) else f"a {type(observed).__name__}"
            raise InputError(f"`observed` must be a pandas DataFrame with at least one row, got {got}")
        self.model, self.interventions, self.observed = model, interventions, observed
        self.nodes: list[Hashable] = list(dowhy.graph.nx.topological_sort(model.graph))
        self.parents: dict[Hashable, list[Hashable]] = {
            node: dowhy.graph.get_ordered_predecessors(model.graph, node) for node in self.nodes
        }
        self._check_names()
        present = [node for node in self.nodes if node in observed]
        self.seen: dict[Hashable, Objects] = {
            node: observed[node].astype(object).to_numpy(dtype=object) for node in present
        }
        """What was seen of the nodes that have a column."""
        self.levels = {node: self._levels(node) for node in present}
        self._check_levels()
        self.fixed: dict[Hashable, Objects] = {
            node: self.changed(node, self.seen[node])
            for node, change in interventions.items()
            if not self.reached.intersection(self.parents[node]) or _ignores_old_value(change)
        }
        """Changed nodes whose new value does not depend on what becomes of their parents, and that value."""

    @cached_property
    def reached(self) -> set[Hashable]:
        """The nodes whose values may differ in the other world: those that are changed, and all below them."""
        below = (dowhy.graph.nx.descendants(self.model.graph, node) for node in self.interventions)
        return set(self.interventions).union(*below)

    @cached_property
    def obstacles(self) -> dict[Hashable, str]:
        """Why the value of a node in the other world is not even known in probability."""
        found: dict[Hashable, str] = {}
        for node in self.nodes:
            if node not in self.reached or node in self.fixed:
                continue
            mechanism = self.model.causal_mechanism(node)
            above = [parent for parent in self.parents[node] if parent in found]
            if above:
                found[node] = f"of its parent {above[0]!r}: {found[above[0]]}"
            elif isinstance(mechanism, dowhy.gcm.causal_mechanisms.InvertibleFunctionalCausalModel):
                continue
            elif isinstance(mechanism, dowhy.gcm.ClassifierFCM):
                found[node] = (
                    f"the mechanism of {node!r} is DoWhy's own for classes, which cannot explain what was seen; call "
                    "`assign_categorical_mechanisms(model, data, override=True)` and fit again"
                )
            else:
                found[node] = f"the mechanism of {node!r}, {mechanism}, is not invertible"
        return found

    def is_categorical(self, node: Hashable) -> bool:
        """Whether it has classes: with a mechanism of this library, or with DoWhy's own."""
        return isinstance(self.model.causal_mechanism(node), dowhy.gcm.ClassifierFCM)

    def is_ours(self, node: Hashable) -> bool:
        """Whether it has a mechanism of this library."""
        return isinstance(self.model.causal_mechanism(node), CategoricalMechanism)

    def way_to(self, target: Hashable) -> list[Hashable]:
        """The reached nodes that the target's value depends on, in their order, itself the last."""
        needed, waiting = set(), [target]
        while waiting:
            node = waiting.pop()
            if node in self.reached and node not in needed:
                needed.add(node)
                waiting += [] if node in self.fixed else self.parents[node]
        return [node for node in self.nodes if node in needed]

    def needed_for(self, target: Hashable) -> list[Hashable]:
        """The nodes whose observed values matter to the target; a class that is missing there is refused."""
        way = self.way_to(target)
        matters = set(way).union(*(self.parents[node] for node in way if node not in self.fixed))
        needed = [node for node in self.nodes if node in matters]
        self.check_columns(needed, f" that the answer for {target!r} needs")
        for node in needed:
            for row in np.flatnonzero(pd.isna(self.seen[node]) & (self.levels[node] is not None)):
                raise InputError(
                    f"`observed` must not be missing where the answer for {target!r} needs it, but {node!r} is in row "
                    f"{row} (counted from 0); leave such rows out"
                )
        return needed

    def check_columns(self, nodes: Iterable[Hashable], which: str = "") -> None:
        """Refuses rows without a column for one of the nodes."""
        for node in nodes:
            if node not in self.observed:
                raise InputError(f"`observed` must have a column for each node{which}, got none for {node!r}")

    def changed(self, node: Hashable, values: Objects) -> Objects:
        """The values after the intervention on the node, if there is one."""
        change = self.interventions.get(node)
        if change is None:
            return values
        after = np.empty(len(values), object)
        after[:] = [change(value) for value in values.tolist()]
        self.check_change(node, after)
        return after

    def check_change(self, node: Hashable, after: Objects) -> None:
        """Refuses new values that the model knows nothing of."""
        levels = self.levels[node]
        if levels is not None and (found := unknown_level(levels, after)) is not None:
            raise InputError(
                f"`interventions` must keep {node!r} among the levels that the model was fitted to, "
                f"{listed(levels.values)}, got {listed([found[1]])}"
            )

    def _check_names(self) -> None:
        for node, change in self.interventions.items():
            if not callable(change):
                raise InputError(f"`interventions` must be functions of the old value, got {change!r} for {node!r}")
            if node not in self.nodes:
                raise InputError(f"`interventions` must change nodes of the model ({listed(self.nodes)}), got {node!r}")
        self.check_columns(self.interventions, " that is changed")
        for node in self.nodes:
            if self.model.graph.nodes[node].get(FITTED) != self.parents[node]:
                raise InputError(f"`model` must be fitted, but node {node!r} is not; call `gcm.fit(model, data)` first")

    def _check_levels(self) -> None:
        for node, levels in self.levels.items():
            present = np.flatnonzero(~pd.isna(self.seen[node]))
            if levels is not None and (found := unknown_level(levels, self.seen[node][present])) is not None:
                raise InputError(
                    f"`observed` must have levels that the model was fitted to: {node!r} has {listed([found[1]])} in "
                    f"row {present[found[0]]} (counted from 0), which is none of {listed(levels.values)}"
                )

    def _levels(self, node: Hashable) -> Labels | None:
        """The levels that the model knows; None where the node holds numbers."""
        mechanism = self.model.causal_mechanism(node)
        if isinstance(mechanism, CategoricalMechanism):
            return mechanism.labels
        if isinstance(mechanism, dowhy.gcm.ClassifierFCM):
            return Labels(tuple(np.asarray(mechanism.classifier_model.classes).tolist()))
        data = getattr(mechanism, "data", None)  # of an empirical distribution
        if data is not None and isinstance(self.observed[node].dtype, pd.CategoricalDtype):
            return Labels(tuple(pd.unique(np.asarray(data).reshape(-1)).tolist()))
        return None if data is None else levels_of(data)


class NodeCoupling(NamedTuple):
    """A coupling with an exact law."""

    coupling: AbstractCoupling
    name: str
    note: str | None
    """Which order of the classes decides, where one does and nobody gave it."""


def coupling_of(
    network: Network,
    given: CouplingLike | Mapping[Hashable, CouplingLike] | None,
    node: Hashable,
    score: NDArray[np.float64] | None = None,
) -> NodeCoupling:
    """The coupling of a categorical node: its own mechanism, or what was named in its place."""
    mechanism = network.model.causal_mechanism(node)
    own = given.get(node) if isinstance(given, Mapping) else given
    if own is None:
        own = mechanism.mechanism
        if not isinstance(own, AbstractCoupling):
            raise InputError(
                f"the mechanism of node {node!r}, {type(own).__name__}, has no exact law; draw samples instead, or "
                "name another `coupling`"
            )
    with jax.enable_x64(True):  # scores that differ in their last digits have an order too
        found = as_coupling(own, mechanism.labels, score=score, argument=f"coupling of node {node!r}")
    name = name_of(own, score=score)
    if isinstance(found, _WITHOUT_ORDER) or mechanism.has_order:
        return NodeCoupling(found, name, None)
    dtype, values = network.observed[node].dtype, mechanism.labels.values
    if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered:
        wanted = [value for value in dtype.categories.tolist() if value in values]
        if wanted != list(values):
            raise InputError(
                f"node {node!r} is an ordered category ({' < '.join(map(repr, wanted))}), but its mechanism counts "
                "the classes in sorted order, and that decides here; assign it by `assign_categorical_mechanisms`, "
                "or pass `labels=` to CategoricalMechanism"
            )
        return NodeCoupling(found, name, None)
    order = f"counts the classes in sorted order ({', '.join(map(str, values))}) because none was given"
    return NodeCoupling(found, name, f"For {node}, {name} {order}: it decides here.")


def as_parents(columns: Sequence[Objects]) -> NDArray[Any]:
    """Columns as DoWhy hands them over: numbers where all of them are, objects otherwise."""
    return pd.DataFrame(dict(enumerate(columns))).infer_objects().to_numpy()


class _Untouchable:
    """Stands for any old value: whoever looks at it gets an error."""

    __hash__ = None  # type: ignore[assignment]

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError("the old value was looked at")

    __eq__ = __ne__ = __bool__ = __str__ = __repr__ = __format__ = _refuse


def _ignores_old_value(change: Callable[[Any], Any]) -> bool:
    """Whether the new value is the same whatever the old one is, as in `lambda _: "drug"`."""
    untouchable = _Untouchable()
    try:
        return change(untouchable) is not untouchable
    except Exception:  # noqa: BLE001 (somebody's function, which did look)
        return False
