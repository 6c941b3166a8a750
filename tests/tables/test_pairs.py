"""The pairs of worlds in a frame's rows."""

import numpy as np
import pandas as pd
import pytest
from asking import pairs
from numpy.testing import assert_allclose

from countermax import InputError
from countermax.learning import ObservedPairs


def test_the_pairs_of_a_frame_are_what_a_coupling_is_trained_on():
    rng = np.random.default_rng(0)
    p, q = (np.tile(rng.dirichlet([2, 3, 4], 25), (2, 1)) for _ in range(2))
    asked = {"factual": p, "counterfactual": q, "labels": ["a", "b", "c"]}
    frame = pd.DataFrame({"id": range(50)})
    found = pairs(frame, **asked)
    assert isinstance(found, ObservedPairs)
    assert found.num_distinct == 25
    assert_allclose(np.sort(np.exp(found.p), axis=0), np.sort(p[:25], axis=0), rtol=1e-5)
    assert pairs(frame, **asked, most=7).num_distinct <= 7
    with pytest.raises(InputError, match="at least 1"):
        pairs(frame, **asked, most=0)
    with pytest.raises(InputError, match="`seed` must be a whole number from 0"):
        pairs(frame, **asked, seed=2**32)
