"""Vector quantiles at tens and hundreds of outcomes, beside fixed couplings and beside gadgets that start from them."""

from countermax.experiments.quantiles._experiments import LearnedQuantiles as LearnedQuantiles
from countermax.experiments.quantiles._experiments import Quantiles as Quantiles
