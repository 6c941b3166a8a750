"""Exact counterfactual probabilities of a DoWhy model's categorical nodes, where its samples only estimate them."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._core.labels import listed
from countermax.integrations.dowhy._network import CouplingLike, Interventions, Network
from countermax.integrations.dowhy._node import NodeAnswer
from countermax.integrations.dowhy._results import NodeAnswers
from countermax.integrations.dowhy._settings import Settings

pd = import_pandas()

_NUMERIC = "it holds numbers, and only classes have probabilities here"


def counterfactual_probabilities(
    model: Any,
    interventions: Interventions,
    observed: Any,
    *,
    nodes: Sequence[Hashable] | None = None,
    coupling: CouplingLike | Mapping[Hashable, CouplingLike] | None = None,
    bounds: str = "any",
    tolerance: int | float = 0.05,
    max_states: int = 10_000,
) -> NodeAnswers:
    """What samples only estimate: each row's exact probabilities, for each categorical node that the change reaches.

    Below an uncertain categorical node, the law of the next is a finite mixture over what those above it would have
    been, and it is summed exactly; what follows through an invertible mechanism (an additive noise model, say) is known
    in each of these states. A row whose change leaves the parents of a node as they were keeps the outcome that was
    seen, whatever the coupling.

    Bounds are over the couplings of all nodes on the way at once, each number for itself. They are sharp where each
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
    settings = Settings(network, coupling, bounds, tolerance, max_states)
    asked, left_out = _asked(network, nodes)
    found = {node: settings.answer(node) for node in asked}
    if nodes is None:  # what a change sets for certain is no question
        found = {node: each for node, each in found.items() if node not in interventions or not _is_certain(each)}
    if not found:
        reasons = "; ".join(f"{node!r}: {why}" for node, why in left_out.items())
        raise InputError(f"no categorical node can be answered for ({reasons or 'the change reaches none'})")
    return NodeAnswers(found, left_out)


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
    max_states: int = 10_000,
    prefix: str = "counterfactual_",
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

    Args:
        model: A fitted `gcm.InvertibleStructuralCausalModel`.
        interventions: Changes, as in `gcm.counterfactual_samples`.
        observed: A DataFrame with what was seen.
        node: The categorical node.
        coupling: Coupling to ask in place of the nodes' own mechanisms; see `counterfactual_probabilities`.
        score: A number for each class of the node, by label or in their order.
        bounds: Couplings that the bounds are over: `any`, `stable`, or `none` for no such columns.
        tolerance: Largest width of the bounds over all couplings at which the choice of coupling does not matter.
        max_states: Largest number of states of the nodes above that are summed over for one row.
        prefix: Beginning of the names of new columns.
    """
    network = Network(model, interventions, observed)
    settings = Settings(network, coupling, bounds, tolerance, max_states, score=score, prefix=prefix)
    _asked(network, [node])
    answer = settings.answer(node).to_frame()
    taken = [name for name in answer.columns if name in observed.columns]
    if taken:
        raise InputError(
            f"`observed` must not have columns named like new ones, got {taken[0]!r}; pass another `prefix`"
        )
    frame = pd.concat([observed, answer], axis=1) if observed.index.is_unique else _side_by_side(observed, answer)
    frame.attrs = dict(observed.attrs) | answer.attrs
    return frame


def _asked(network: Network, nodes: Sequence[Hashable] | None) -> tuple[list[Hashable], dict[Hashable, str]]:
    """The nodes to answer for, and those that the change reaches and that cannot be answered for, with the reason."""
    open_ones = [node for node in network.nodes if node in network.reached and node not in network.fixed]
    candidates = [node for node in open_ones if network.is_categorical(node)]
    if nodes is None:
        left_out = {node: _NUMERIC for node in open_ones if node not in candidates}
        left_out |= {node: why for node, why in network.obstacles.items() if node in open_ones}
        left_out = {node: left_out[node] for node in open_ones if node in left_out}
        asked = [node for node in candidates if node not in left_out]
        for node in asked:
            network.needed_for(node)
        return asked, left_out
    asked = [nodes] if isinstance(nodes, str) else list(nodes)
    for node in asked:
        if node not in network.nodes:
            raise InputError(f"`nodes` must be nodes of the model ({listed(network.nodes)}), got {node!r}")
        why = network.obstacles.get(node)
        if node not in candidates:
            other = "the change does not reach it, or sets it, or it is not a CategoricalMechanism"
            why = why or (_NUMERIC if node in open_ones else other)
        if why is not None:
            raise InputError(f"node {node!r} cannot be answered for exactly: {why}; draw samples instead")
        network.needed_for(node)
    return asked, {}


def _is_certain(answer: NodeAnswer) -> bool:
    lower = answer.probabilities if answer.bounds is None else answer.bounds.lower
    return bool((lower.to_numpy().max(axis=1) == 1).all())


def _side_by_side(observed: Any, answer: Any) -> Any:
    """By place, since the index says nothing."""
    joined = pd.concat([each.reset_index(drop=True) for each in (observed, answer)], axis=1)
    return joined.set_axis(observed.index, axis=0)
