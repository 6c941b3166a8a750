"""How every node of a network is asked: couplings, bounds, limits; rows that repeat once."""

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._core.memory import check_memory
from countermax.bounds import Bounds
from countermax.integrations.dowhy._mechanism import CategoricalMechanism
from countermax.integrations.dowhy._mixture import Mixture
from countermax.integrations.dowhy._network import CouplingLike, Network, NodeCouplings
from countermax.integrations.dowhy._node import NodeAnswer
from countermax.integrations.dowhy._noise import Codes, Floats

pd = import_pandas()

_BOUNDS = ("any", "stable", "none")
_STATES_AT_ONCE = 2**16  # of all rows that are walked together


class Settings:
    """What is asked of every node alike."""

    def __init__(
        self,
        network: Network,
        coupling: CouplingLike | Mapping[Hashable, CouplingLike] | None,
        bounds: str,
        tolerance: int | float,
        max_states: int,
        *,
        score: Any = None,
        prefix: str = "counterfactual_",
    ):
        if bounds not in _BOUNDS:
            raise InputError(f"`bounds` must be one of {', '.join(_BOUNDS)}, got {bounds!r}")
        if not tolerance >= 0:
            raise InputError(f"`tolerance` must not be negative, got {tolerance}")
        if isinstance(max_states, bool) or not isinstance(max_states, int | np.integer) or max_states < 1:
            raise InputError(f"`max_states` must be a positive whole number, got {max_states}")
        self._network, self._couplings = network, NodeCouplings(network, coupling)
        self._bounds, self._tolerance, self._max_states = bounds, float(tolerance), max_states
        self._score, self._prefix = score, prefix

    def answer(self, target: Hashable) -> NodeAnswer:
        """What one node would have been."""
        network, labels = self._network, self._network.levels[target]
        assert labels is not None
        score = None if self._score is None else labels.scores("score", self._score)
        uncertain = [node for node in network.way_to(target) if self._is_uncertain(node)]
        couplings = {node: self._couplings.of(node, score if node == target else None) for node in uncertain}
        first, inverse = _distinct(network, target)
        size = min(math.prod(len(network.levels[node] or ()) for node in uncertain[:-1]), self._max_states)
        columns = 2 * (len(labels) + 1) if self._bounds != "none" else 1
        advice = "lower `max_states`, or pass `bounds='none'`"
        check_memory(f"{size:,} states of a row", 32 * size * len(labels) * columns, advice)
        at_once = max(1, _STATES_AT_ONCE // size)
        parts = [
            self._numbers(
                target, first[start : start + at_once], {node: each[0] for node, each in couplings.items()}, score
            )
            for start in range(0, len(first), at_once)
        ]
        numbers = {name: np.concatenate([part[name] for part in parts])[inverse] for name in parts[0]}
        names = {node: each[1] for node, each in couplings.items()}
        remarks = tuple(each[2] for each in couplings.values() if each[2] is not None)
        return self._result(target, list(labels.values), names, remarks, numbers)

    def _numbers(
        self, target: Hashable, rows: Codes, couplings: dict[Hashable, Any], score: Floats | None
    ) -> dict[str, Any]:
        mixture = Mixture(
            self._network, couplings, target, rows, every_state=self._bounds != "none", max_states=self._max_states
        )
        probabilities = mixture.probabilities()
        found = {"probabilities": probabilities, "unchanged": mixture.unchanged(), "sharp": mixture.is_sharp}
        if score is not None:
            found["score"] = probabilities @ score
        if self._bounds == "none":
            return found
        loose = mixture.limits(score, stable=False)
        size = probabilities.shape[1]
        found["slack"] = (loose[1] - loose[0])[:, :size].max(axis=1)
        if self._bounds == "stable":
            found["sharp"], loose = mixture.is_sharp_if_stable, mixture.limits(score, stable=True)
        found["lower"], found["upper"] = loose[0].clip(0, 1), loose[1].clip(0, 1)
        if score is not None:
            found["lower"], found["upper"] = found["lower"][:, :size], found["upper"][:, :size]
            found["score_lower"], found["score_upper"] = loose[0][:, size], loose[1][:, size]
        return found

    def _result(
        self,
        target: Hashable,
        labels: list[Hashable],
        names: dict[Hashable, str],
        remarks: tuple[str, ...],
        numbers: dict[str, Any],
    ) -> NodeAnswer:
        seen = self._network.observed[target]

        def frame(name: str) -> Any:
            return pd.DataFrame(numbers[name], index=seen.index, columns=pd.Index(labels, dtype=object))

        def series(name: str) -> Any:
            return pd.Series(numbers[name], index=seen.index)

        bounded = "lower" in numbers
        return NodeAnswer(
            node=target,
            labels=tuple(labels),
            seen=seen,
            coupling=names[target],
            above={node: name for node, name in names.items() if node != target},
            remarks=remarks,
            probabilities=frame("probabilities"),
            bounds=Bounds(frame("lower"), frame("upper")) if bounded else None,
            bounds_over=self._bounds,
            is_sharp=numbers["sharp"],
            unchanged=numbers["unchanged"],
            slack=numbers.get("slack"),
            score=series("score") if "score" in numbers else None,
            score_bounds=Bounds(series("score_lower"), series("score_upper")) if "score_lower" in numbers else None,
            tolerance=self._tolerance,
            prefix=self._prefix,
        )

    def _is_uncertain(self, node: Hashable) -> bool:
        mechanism = self._network.model.causal_mechanism(node)
        return isinstance(mechanism, CategoricalMechanism) and node not in self._network.fixed


def _distinct(network: Network, target: Hashable) -> tuple[Codes, Codes]:
    """The first of each group of rows that have the same answer, and the group of each row."""
    codes = [pd.factorize(network.seen[node], use_na_sentinel=False)[0] for node in network.needed_for(target)]
    _, first, inverse = np.unique(np.column_stack(codes), axis=0, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)
