"""When two ratios of probabilities are equal: the one rule for counterfactual stability."""

from typing import Any

import numpy as np


def ratio_tie(log_ratio: Any, log_p: Any) -> Any:
    """How far logarithms of ratios `q / p` may lie apart by rounding only, so that no mass moves between them.

    0.1 / 0.2 and 0.3 / 0.6 must be equal. Both logarithms are differences of logarithms of probabilities, which have as
    many digits as their sizes leave them. Two ratios are equal if they differ by no more than the larger of their two.

    Args:
        log_ratio: Logarithms of the ratios, of NumPy or of JAX; finite.
        log_p: Logarithms of the probabilities in the factual world, likewise.
    """
    return np.finfo(log_p.dtype).eps * (64 * (1 + abs(log_ratio)) + 4 * abs(log_p))
