"""Vector quantiles at tens and hundreds of outcomes, beside fixed couplings and beside gadgets that start from them."""

from studies.quantiles._experiments import LearnedQuantiles as LearnedQuantiles
from studies.quantiles._experiments import Quantiles as Quantiles
