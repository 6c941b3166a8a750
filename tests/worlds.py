"""Pairs of distributions for the tests: drawn by Hypothesis, or awkward on purpose."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

SIZES = (1, 2, 3, 6)  # few, because each one is compiled


@st.composite
def logits(draw, size, *, zeros=True, spread=80.0):
    """Logits over +-spread; some of them -inf, some of them equal, never all impossible."""
    value = st.floats(-spread, spread, width=32) | st.sampled_from([0.0, 1.0])
    array = draw(hnp.arrays(np.float64, size, elements=value | st.just(-np.inf) if zeros else value))
    if np.isneginf(array).all():
        array[draw(st.integers(0, size - 1))] = 0.0
    return array


@st.composite
def pairs(draw, *, zeros=True, spread=80.0, sizes=SIZES):
    size = draw(st.sampled_from(sizes))
    return draw(logits(size, zeros=zeros, spread=spread)), draw(logits(size, zeros=zeros, spread=spread))


def softmax(logits):
    weights = np.exp(np.asarray(logits, np.float64) - np.max(logits))
    return weights / weights.sum()


AWKWARD = {
    "equal": (np.log([0.2, 0.3, 0.5]), np.log([0.2, 0.3, 0.5])),
    "tied ratios": (np.log([0.2, 0.2, 0.6]), np.log([0.3, 0.3, 0.4])),
    "disjoint": (np.array([0.0, 0.0, -np.inf, -np.inf]), np.array([-np.inf, -np.inf, 0.0, 1.0])),
    "zero on either side and on both": (np.array([0.0, -np.inf, 1.0, -np.inf]), np.array([0.5, 0.0, -np.inf, -np.inf])),
    "extreme": (np.array([80.0, -80.0, 0.0]), np.array([-80.0, 80.0, 0.0])),
    "one outcome": (np.array([3.0]), np.array([-2.0])),
    "point masses": (np.array([-np.inf, 0.0, -np.inf]), np.array([-np.inf, -np.inf, 0.0])),
}
