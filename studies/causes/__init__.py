"""Do intervals of probabilities of causation hold the truth?"""

from studies.causes._experiment import CausalCoverage as CausalCoverage
from studies.causes._experiment import causal_coverage as causal_coverage
from studies.causes._samples import sampled_causes as sampled_causes
from studies.causes._truths import TRUTHS as TRUTHS
from studies.causes._truths import CausalTruth as CausalTruth
