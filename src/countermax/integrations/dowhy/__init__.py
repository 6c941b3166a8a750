"""Categorical variables in DoWhy's graphical causal models, with a mechanism that you choose.

DoWhy's own mechanism for classes cannot explain what was seen, so `gcm.counterfactual_samples` refuses such nodes.
`CategoricalMechanism` can. Needs the extra `countermax[dowhy]`.
"""

from countermax.integrations.dowhy._answers import counterfactual_probabilities as counterfactual_probabilities
from countermax.integrations.dowhy._answers import counterfactual_samples as counterfactual_samples
from countermax.integrations.dowhy._answers import counterfactual_table as counterfactual_table
from countermax.integrations.dowhy._assign import assign_categorical_mechanisms as assign_categorical_mechanisms
from countermax.integrations.dowhy._mechanism import CategoricalMechanism as CategoricalMechanism
