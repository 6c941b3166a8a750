"""Exact counterfactual probabilities of a DoWhy model's categorical nodes, where its samples only estimate them."""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from countermax import _plotting as plotting
from countermax._core.errors import InputError
from countermax._core.extras import import_dowhy, import_pandas
from countermax._core.labels import Labels, listed
from countermax._core.memory import check_memory
from countermax._core.quantities import as_choice, as_count
from countermax._core.results import AbstractResult, Row, plain
from countermax.bounds import Bounds
from countermax.integrations.dowhy._mechanism import Codes, Floats
from countermax.integrations.dowhy._mixture import Mixture
from countermax.integrations.dowhy._network import CouplingLike, Interventions, Network, coupling_of

dowhy, pd = import_dowhy(), import_pandas()

_BOUNDS = ("any", "stable", "none")
_MAX_STATES = 10_000
_PREFIX = "counterfactual_"
_STATES_AT_ONCE = 2**16  # of all rows that are taken together
_NUMERIC = "it holds numbers, and only classes have probabilities here"

_GIVEN = (
    "The graph, with noise of its own for each node, and the fitted classifiers are taken as known: how well they were "
    "estimated is left out, and so is what another sample would give."
)
_OVER = {"any": "any coupling", "stable": "stable couplings"}
_SHARP = "Each limit is sharp: for each row some choice of couplings attains it."
_OUTER = (
    "Limits are outer bounds{rows}: valid for all {family}, but perhaps wider than any of them can be, because {why}."
)
_WHY = {
    "any": "uncertain nodes meet again on the way",
    "stable": "several worlds of the parents, or uncertain nodes that meet again, are on the way",
}


@final
@dataclass(frozen=True, eq=False, repr=False)
class NodeAnswer(AbstractResult):
    """What one node would have been, in each row."""

    node: Hashable
    labels: tuple[Hashable, ...]
    seen: Any
    """What was seen, a Series."""
    coupling: str
    """The name of the node's coupling."""
    above: Mapping[Hashable, str]
    """The couplings of the uncertain nodes that it depends on, from the first to the last."""
    notes_on_couplings: tuple[str, ...]
    """An order of the classes that decides and that nobody gave."""
    probabilities: Any
    """A DataFrame with a column for each label, under these couplings."""
    bounds: Bounds | None
    """Two such frames: the least and the largest probability over couplings of all these nodes, each on its own."""
    bounds_over: str
    """The couplings that the bounds are over: `any`, `stable` or `none`."""
    is_sharp: NDArray[np.bool_]
    """For each row, whether some choice of couplings attains its bounds; if not they are outer bounds."""
    unchanged: NDArray[np.bool_]
    """The rows whose parents would have been as they were: they keep what was seen, whatever the coupling."""
    slack: Floats | None
    """For each row, how wide the widest bounds over all couplings are."""
    score: Any = None
    """With a score: its expectation in each row, a Series."""
    score_bounds: Bounds | None = None
    """Two such Series."""
    tolerance: float = 0.05
    assumptions: tuple[str, ...] = (_GIVEN,)

    @property
    def most_likely(self) -> Any:
        """The most likely label of each row, in the type of the observed column."""
        codes = self.probabilities.to_numpy().argmax(axis=1)
        values = [self.labels[code] for code in codes]
        try:
            return pd.Series(values, index=self.seen.index, dtype=self.seen.dtype)
        except (TypeError, ValueError):  # labels of a kind that the column cannot hold
            return pd.Series(values, index=self.seen.index)

    @property
    def coupling_matters(self) -> NDArray[np.bool_] | None:
        """For each row, whether data alone leave some probability open by more than the tolerance."""
        return None if self.slack is None else self.slack > self.tolerance

    @property
    def is_certain(self) -> bool:
        """Whether each row has one possible label, whatever the couplings."""
        lower = self.probabilities if self.bounds is None else self.bounds.lower
        return bool((lower.to_numpy().max(axis=1) == 1).all())

    @property
    def counts(self) -> Floats:
        """How many rows with each label are expected to have had which, [seen, instead]."""
        return self._by_seen(self.probabilities)

    @property
    def count_bounds(self) -> Bounds | None:
        """The rows' bounds, added up."""
        return None if self.bounds is None else Bounds(*map(self._by_seen, self.bounds))

    @property
    def title(self) -> str:
        if len(self.seen) == 1:
            return f"{self.node}: {self.seen.iloc[0]} was seen. What would have been under {self._under()}?"
        return f"{self.node}, {len(self.seen):,} rows: what was seen, and what would have been under {self._under()}"

    @property
    def rows(self) -> tuple[Row, ...]:
        numbers, limits, places = self.counts, self.count_bounds, np.unique(self._places())
        found = []
        for row in places:
            one = len(self.seen) == 1
            about = f"{self.node}: {self.labels[row]} was seen" + ("" if one else f" ({numbers[row].sum():,.0f} rows)")
            for column, other in enumerate(self.labels):
                quantity = f"P({other})" if one else f"number with {other}"
                found.append(Row.of(quantity, about, self._under(), numbers, at=(row, column)))
                if limits is not None:
                    found.append(Row.of(quantity, about, _OVER[self.bounds_over], None, limits, at=(row, column)))
        if self.score is not None:
            about = f"{self.node}, mean of {len(self.seen):,} rows"
            found.append(Row.of("expected score", about, self._under(), self.score.mean()))
            if self.score_bounds is not None:
                limits = Bounds(*(each.mean() for each in self.score_bounds))
                found.append(Row.of("expected score", about, _OVER[self.bounds_over], None, limits))
        return tuple(found)

    @property
    def sample(self) -> str:
        return f"{len(self.seen):,} observed row{'s' * (len(self.seen) > 1)}"

    @property
    def notes(self) -> tuple[str, ...]:
        notes = list(self.notes_on_couplings)
        if self.above:
            notes.append(f"Summed exactly over what {', '.join(map(str, self.above))} would have been.")
        if self.bounds is not None:
            whose = f" of {', '.join(map(str, [*self.above, self.node]))}" if self.above else ""
            notes.append(
                f"{_OVER[self.bounds_over].capitalize()}{whose}, each number on its own. {self._about_bounds()}"
                + " Counts add the rows' limits up." * (len(self.seen) > 1)
            )
        if self.unchanged.any():
            what = f"{self.unchanged.sum():,} rows" if len(self.seen) > 1 else "This row"
            notes.append(f"{what}: the parents would have been as they were, so the outcome is the one seen.")
        return tuple(notes)

    def _summary(self) -> str:
        places = self._places()
        kept = float(self.probabilities.to_numpy()[np.arange(len(places)), places].sum())
        many = f"{len(self.seen) - kept:,.1f} of {len(self.seen):,} rows would have had another outcome of {self.node}"
        if len(self.seen) == 1:
            many = f"{self.node} would have been another than {self.seen.iloc[0]} with probability {1 - kept:.3f}"
        text = f"Under {self._under()}, {many}."
        if self.coupling_matters is not None:
            some = int(self.coupling_matters.sum())
            which = "all" if some == len(self.seen) else f"{some:,} of"
            where = f"matters in {which} {len(self.seen):,} rows" if some else "does not matter"
            text += f" The choice of coupling {where}."
        return text

    def _plot(self) -> "plotting.Figure":
        return plotting.draw_nodes([self.panel()], " ".join([*self.notes_on_couplings, _GIVEN]))

    def columns(self) -> Any:
        """A frame with a row for each observed one: probabilities, most likely label, score, bounds, what matters."""
        names = Labels(self.labels).names
        columns = {f"{_PREFIX}{name}": self.probabilities.iloc[:, place] for place, name in enumerate(names)}
        columns[f"{_PREFIX}most_likely"] = self.most_likely
        if self.score is not None:
            columns[f"{_PREFIX}score"] = self.score
        if self.score_bounds is not None:
            columns[f"{_PREFIX}score_lower"], columns[f"{_PREFIX}score_upper"] = self.score_bounds
        if self.bounds is not None:
            for place, name in enumerate(names):
                for side, limits in zip(("lower", "upper"), self.bounds, strict=True):
                    columns[f"{_PREFIX}{name}_{side}"] = limits.iloc[:, place]
            kinds = np.where(self.is_sharp, "sharp", "outer")
            columns[f"{_PREFIX}bounds"] = pd.Series(kinds, index=self.seen.index)
            columns[f"{_PREFIX}coupling_matters"] = pd.Series(self.coupling_matters, index=self.seen.index)
        frame = pd.DataFrame(columns)
        frame.attrs = plain({**self._about(), "assumptions": self.assumptions, "notes": self.notes})
        return frame

    def panel(self) -> plotting.NodePanel:
        """What `countermax._plotting.draw_nodes` draws of this node."""
        seen, bounds = np.bincount(self._places(), minlength=len(self.labels)), self.count_bounds
        rows = np.where(seen > 0, seen, np.nan)[:, None]
        over = _OVER.get(self.bounds_over, "")
        title = f"{self.node}: {self.seen.iloc[0]} was seen, what instead" if len(self.seen) == 1 else str(self.node)
        return plotting.NodePanel(
            title=f"{title} under {self._under()}",
            coupling=self.coupling,
            labels=[str(label) for label in self.labels],
            seen=seen,
            shares=self.counts / rows,
            bounds=None if bounds is None else (bounds.lower / rows, bounds.upper / rows),
            over=over if self.is_sharp.all() else f"{over} (outer bounds)",
        )

    def _details(self) -> Mapping[str, Any]:
        numbers = self._named("labels", "probabilities", "bounds", "score", "score_bounds")
        seen, sharp = self.seen.astype(object).tolist(), None if self.bounds is None else self.is_sharp
        about = {**self._about(), "num_unchanged": int(self.unchanged.sum()), "seen": seen, "is_sharp": sharp}
        return {**about, **numbers, **self._named("tolerance", "coupling_matters")}

    def _about(self) -> dict[str, Any]:
        return {**self._named("node", "coupling", "bounds_over"), "couplings_above": dict(self.above)}

    def _under(self) -> str:
        names = dict.fromkeys([*self.above.values(), self.coupling])
        if len(names) == 1:
            return self.coupling
        return ", ".join(f"{name} for {node}" for node, name in [*self.above.items(), (self.node, self.coupling)])

    def _about_bounds(self) -> str:
        outer = len(self.seen) - int(self.is_sharp.sum())
        if not outer:
            return _SHARP
        where = "" if outer == len(self.seen) else f" in {outer:,} of {len(self.seen):,} rows"
        family = "couplings" if self.bounds_over == "any" else _OVER[self.bounds_over]
        return _OUTER.format(rows=where, family=family, why=_WHY[self.bounds_over])

    def _places(self) -> Codes:
        return Labels(self.labels).places(self.seen.astype(object).tolist())

    def _by_seen(self, frame: Any) -> Floats:
        sums = np.zeros((len(self.labels), len(self.labels)))
        np.add.at(sums, self._places(), frame.to_numpy())
        return sums


@final
@dataclass(frozen=True, eq=False, repr=False)
class NodeAnswers(AbstractResult, Mapping[Hashable, NodeAnswer]):
    """What each categorical node that the change reaches would have been, by node."""

    answers: Mapping[Hashable, NodeAnswer]
    unanswered: Mapping[Hashable, str]
    """Nodes that the change reaches and that have no answer, and why; those that hold numbers are among them."""
    assumptions: tuple[str, ...] = (_GIVEN,)

    def __getitem__(self, node: Hashable) -> NodeAnswer:
        if node in self.unanswered:
            raise KeyError(f"node {node!r} cannot be answered for exactly: {self.unanswered[node]}")
        if node not in self.answers:
            raise KeyError(f"no answer for {node!r}; there is one for {listed(self.answers)}")
        return self.answers[node]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def title(self) -> str:
        return f"What {', '.join(map(str, self))} would have been"

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(row for answer in self.values() for row in answer.rows)

    @property
    def sample(self) -> str:
        return next(iter(self.values())).sample

    @property
    def notes(self) -> tuple[str, ...]:
        return (*(f"{node}: {note}" for node, answer in self.items() for note in answer.notes), *self._gaps())

    def _summary(self) -> str:
        return " ".join(answer._summary() for answer in self.values())

    def _plot(self) -> "plotting.Figure":
        told = dict.fromkeys(each for answer in self.values() for each in answer.notes_on_couplings)
        words = " ".join([*told, *self._gaps(), _GIVEN])
        return plotting.draw_nodes([answer.panel() for answer in self.values()], words)

    def _gaps(self) -> list[str]:
        return [f"No answer for {node}: {why}." for node, why in self.unanswered.items()]

    def _details(self) -> Mapping[str, Any]:
        return {"nodes": {str(node): answer.to_dict() for node, answer in self.items()}, "unanswered": self.unanswered}


@dataclass(frozen=True, eq=False)
class _Questions:
    """What is asked of every node alike."""

    network: Network
    coupling: CouplingLike | Mapping[Hashable, CouplingLike] | None
    bounds: str
    tolerance: int | float
    max_states: int = _MAX_STATES
    score: Any = None

    def __post_init__(self) -> None:
        as_choice("`bounds`", self.bounds, _BOUNDS)
        if not self.tolerance >= 0:
            raise InputError(f"`tolerance` must not be negative, got {self.tolerance}")
        as_count("`max_states`", self.max_states)
        ours = [node for node in self.network.nodes if self.network.is_ours(node)]
        for node in self.coupling if isinstance(self.coupling, Mapping) else ():
            if node not in ours:
                known = f"nodes with a CategoricalMechanism ({listed(ours)})"
                raise InputError(f"`coupling` must name {known}, got {node!r}")

    def answer(self, target: Hashable) -> NodeAnswer:
        """What one node would have been."""
        network, labels = self.network, self.network.levels[target]
        assert labels is not None
        score = None if self.score is None else labels.scores("score", self.score)
        way = [node for node in network.way_to(target) if network.is_ours(node) and node not in network.fixed]
        chosen = {node: coupling_of(network, self.coupling, node, score if node == target else None) for node in way}
        couplings = {node: each.coupling for node, each in chosen.items()}
        # The first of each group of rows that have the same answer, and the group of each row.
        codes = [pd.factorize(network.seen[node], use_na_sentinel=False)[0] for node in network.needed_for(target)]
        _, first, inverse = np.unique(np.column_stack(codes), axis=0, return_index=True, return_inverse=True)
        size = min(math.prod(len(network.levels[node] or ()) for node in way[:-1]), self.max_states)
        columns = 2 * (len(labels) + 1) if self.bounds != "none" else 1
        advice = "lower `max_states`, or pass `bounds='none'`"
        check_memory(f"{size:,} states of a row", 32 * size * len(labels) * columns, advice)
        step = max(1, _STATES_AT_ONCE // size)
        starts = range(0, len(first), step)
        parts = [self._numbers(target, first[start : start + step], couplings, score) for start in starts]
        numbers = {name: np.concatenate([part[name] for part in parts])[inverse.reshape(-1)] for name in parts[0]}
        seen = network.observed[target]
        names = pd.Index(labels.values, dtype=object)
        found: dict[str, Any] = {name: pd.Series(numbers[name], seen.index) for name in numbers if "score" in name}
        for name in numbers.keys() & {"probabilities", "lower", "upper"}:
            found[name] = pd.DataFrame(numbers[name], index=seen.index, columns=names)
        return NodeAnswer(
            node=target,
            labels=labels.values,
            seen=seen,
            coupling=chosen[target].name,
            above={node: each.name for node, each in chosen.items() if node != target},
            notes_on_couplings=tuple(each.note for each in chosen.values() if each.note is not None),
            probabilities=found["probabilities"],
            bounds=Bounds(found["lower"], found["upper"]) if "lower" in found else None,
            bounds_over=self.bounds,
            is_sharp=numbers["sharp"],
            unchanged=numbers["unchanged"],
            slack=numbers.get("slack"),
            score=found.get("score"),
            score_bounds=Bounds(found["score_lower"], found["score_upper"]) if "score_lower" in found else None,
            tolerance=float(self.tolerance),
        )

    def _numbers(
        self, target: Hashable, rows: Codes, couplings: dict[Hashable, Any], score: Floats | None
    ) -> dict[str, Any]:
        bounded = self.bounds != "none"
        mixture = Mixture(self.network, couplings, target, rows, every_state=bounded, max_states=self.max_states)
        probabilities = mixture.probabilities()
        found = {"probabilities": probabilities, "unchanged": mixture.unchanged(), "sharp": mixture.is_sharp}
        if score is not None:
            found["score"] = probabilities @ score
        if not bounded:
            return found
        limits = mixture.limits(score, stable=False)
        size = probabilities.shape[1]
        found["slack"] = (limits[1] - limits[0])[:, :size].max(axis=1)
        if self.bounds == "stable":
            found["sharp"], limits = mixture.is_sharp_if_stable, mixture.limits(score, stable=True)
        found["lower"], found["upper"] = limits[:, :, :size].clip(0, 1)
        if score is not None:
            found["score_lower"], found["score_upper"] = limits[:, :, size]
        return found


def counterfactual_probabilities(
    model: Any,
    interventions: Interventions,
    observed: Any,
    *,
    nodes: Sequence[Hashable] | None = None,
    coupling: CouplingLike | Mapping[Hashable, CouplingLike] | None = None,
    bounds: str = "any",
    tolerance: int | float = 0.05,
    max_states: int = _MAX_STATES,
) -> NodeAnswers:
    """What samples only estimate: each row's exact probabilities, for each categorical node that the change reaches.

    Below an uncertain categorical node, the law of the next is a finite mixture over what those above it would have
    been, and it is summed exactly; what follows through an invertible mechanism (an additive noise model, say) is known
    in each of these states. A row whose change leaves the parents of a node as they were keeps the outcome that was
    seen, whatever the coupling.

    Bounds are over the couplings of all nodes on the way at once, each number on its own. They are sharp where each
    node can be answered for from its own parents, as on a chain; where uncertain nodes meet again they are outer
    bounds, and the result says so.

    Args:
        model: A fitted `gcm.InvertibleStructuralCausalModel`. The graph and the classifiers are taken as known.
        interventions: Changes, as in `gcm.counterfactual_samples`: a function of the old value for each node.
        observed: A DataFrame with what was seen, a column for each node that an answer needs: what is changed,
            what is asked about, what lies between, and their parents. Its index is kept.
        nodes: The nodes to answer for, all of them or an error; by default those for which it is possible.
        coupling: Coupling to ask in place of the nodes' own mechanisms: any with an exact law, one
            of the couplings' names, or a file that `countermax.save` wrote; by node where they differ.
        bounds: Couplings that the bounds are over: `any`, `stable` (counterfactually stable ones), or `none` for none.
        tolerance: Largest width of the bounds over all couplings at which the choice of coupling does not matter.
        max_states: Largest number of states of the nodes above that are summed over for one row.
    """
    network = Network(model, interventions, observed)
    questions = _Questions(network, coupling, bounds, tolerance, max_states)
    asked, unanswered = _asked(network, nodes)
    found = {node: questions.answer(node) for node in asked}
    if nodes is None:  # what a change sets for certain is no question
        found = {node: each for node, each in found.items() if node not in interventions or not each.is_certain}
    if not found:
        reasons = "; ".join(f"{node!r}: {why}" for node, why in unanswered.items())
        raise InputError(f"no categorical node can be answered for ({reasons or 'the change reaches none'})")
    return NodeAnswers(found, unanswered)


def counterfactual_table(
    model: Any,
    interventions: Interventions,
    observed: Any,
    node: Hashable,
    *,
    coupling: CouplingLike | Mapping[Hashable, CouplingLike] | None = None,
    score: Any = None,
    bounds: str = "any",
    tolerance: int | float = 0.05,
) -> Any:
    """The observed rows with a node's probabilities, most likely class, bounds over couplings and a flag.

    | column | what |
    |---|---|
    | `counterfactual_<label>` | P(node=label given what was seen) under the couplings |
    | `counterfactual_most_likely` | the label with the largest of them, in the type of the node's column |
    | `counterfactual_score`, `.._score_lower`, `.._score_upper` | with `score`: its expectation, and its bounds |
    | `counterfactual_<label>_lower`, `.._upper` | the least and the largest probability that data alone allow |
    | `counterfactual_bounds` | `sharp` or `outer` |
    | `counterfactual_coupling_matters` | whether some probability is open by more than the tolerance |

    The couplings, and what is taken as given, are in the frame's `attrs`.

    Arguments are those of `counterfactual_probabilities`, of one node; with `score`, a number for each of its classes,
    by label or in their order.
    """
    network = Network(model, interventions, observed)
    questions = _Questions(network, coupling, bounds, tolerance, score=score)
    _asked(network, [node])
    answer = questions.answer(node).columns()
    taken = [name for name in answer.columns if name in observed.columns]
    if taken:
        raise InputError(f"`observed` must not have columns named like new ones, got {taken[0]!r}; rename it")
    by_place = [each.reset_index(drop=True) for each in (observed, answer)]  # an index need not be unique
    frame = pd.concat(by_place, axis=1).set_axis(observed.index, axis=0)
    frame.attrs = dict(observed.attrs) | answer.attrs
    return frame


def _asked(network: Network, nodes: Sequence[Hashable] | None) -> tuple[list[Hashable], dict[Hashable, str]]:
    """The nodes to answer for, and those that the change reaches and that cannot be answered for, with the reason."""
    open_ones = [node for node in network.nodes if node in network.reached and node not in network.fixed]
    asked, unanswered = list[Hashable](), dict[Hashable, str]()
    for node in open_ones if nodes is None else [nodes] if isinstance(nodes, str) else nodes:
        if node not in network.nodes:
            raise InputError(f"`nodes` must be nodes of the model ({listed(network.nodes)}), got {node!r}")
        why = network.obstacles.get(node)
        if node not in open_ones:
            why = why or "the change does not reach it, or sets it, or it is not a CategoricalMechanism"
        elif not network.is_categorical(node):
            why = why or _NUMERIC
        if why is None:
            network.needed_for(node)
            asked.append(node)
        elif nodes is None:
            unanswered[node] = why
        else:
            raise InputError(f"node {node!r} cannot be answered for exactly: {why}; draw samples instead")
    return asked, unanswered


def counterfactual_samples(model: Any, interventions: Interventions, observed: Any) -> Any:
    """DoWhy's `gcm.counterfactual_samples` of the observed rows, with their index and their categories kept.

    DoWhy turns the categories of root nodes and of nodes that are set into text, counts the rows from zero, and drops
    an unknown level without a word. Here it is an error that lists the levels.
    """
    network = Network(model, interventions, observed)
    network.check_columns(network.nodes)
    checked = {node: _checked(network, node) for node in interventions}
    samples = dowhy.gcm.counterfactual_samples(model, checked, observed[network.nodes]).set_index(observed.index)
    for node in network.nodes:
        if isinstance(observed[node].dtype, pd.CategoricalDtype):
            samples[node] = samples[node].astype(observed[node].dtype)
    return samples


def _checked(network: Network, node: Hashable) -> Callable[[Any], Any]:
    """The change, which looks at each new value once."""
    change, known = network.interventions[node], set()

    def changed(value: Any) -> Any:
        after = change(value)
        if after not in known:
            network.check_change(node, np.array([after], object))
            known.add(after)
        return after

    return changed
