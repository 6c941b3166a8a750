"""Do intervals of probabilities of causation hold the truth?"""

from countermax.experiments.causes._experiment import CausalCoverage as CausalCoverage
from countermax.experiments.causes._experiment import causal_coverage as causal_coverage
from countermax.experiments.causes._samples import sampled_causes as sampled_causes
from countermax.experiments.causes._truths import TRUTHS as TRUTHS
from countermax.experiments.causes._truths import CausalTruth as CausalTruth
