"""The pairs of worlds in a frame's rows."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from countermax import InputError
from countermax.learning import ObservedPairs
from countermax.tables import frame_pairs


def test_the_pairs_of_a_frame_are_what_a_coupling_is_trained_on():
    rng = np.random.default_rng(0)
    p, q = (np.tile(rng.dirichlet([2, 3, 4], 25), (2, 1)) for _ in range(2))
    asked = {"factual": p, "counterfactual": q, "labels": ["a", "b", "c"]}
    frame = pd.DataFrame({"id": range(50)})
    pairs = frame_pairs(frame, **asked)
    assert isinstance(pairs, ObservedPairs)
    assert pairs.num_distinct == 25
    assert_allclose(np.sort(np.exp(pairs.p), axis=0), np.sort(p[:25], axis=0), rtol=1e-5)
    assert frame_pairs(frame, **asked, max_pairs=7).num_distinct <= 7
    with pytest.raises(InputError, match="at least 1"):
        frame_pairs(frame, **asked, max_pairs=0)
    with pytest.raises(InputError, match="`seed` must be a whole number from 0"):
        frame_pairs(frame, **asked, seed=2**32)
