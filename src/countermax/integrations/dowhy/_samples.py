"""DoWhy's counterfactual samples, with what it loses of a frame put back."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from countermax._core.extras import import_dowhy, import_pandas
from countermax.integrations.dowhy._network import Interventions, Network

dowhy, pd = import_dowhy(), import_pandas()


def counterfactual_samples(model: Any, interventions: Interventions, observed: Any) -> Any:
    """DoWhy's `gcm.counterfactual_samples` of the observed rows, with their index and their categories kept.

    DoWhy turns the categories of root nodes and of nodes that are set into text, counts the rows from zero, and drops
    an unknown level without a word. Here it is an error that lists the levels.

    Args:
        model: A fitted `gcm.InvertibleStructuralCausalModel`.
        interventions: Changes: a function of the old value for each node.
        observed: A DataFrame with what was seen, a column for each node.
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
