import numpy as np
import pytest

from countermax import InputError
from countermax._core.quantities import as_seed


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, np.int64(5), np.uint32(2**32 - 1)])
def test_a_seed_is_any_number_of_32_bits(seed):
    assert as_seed("seed", seed) == int(seed)


@pytest.mark.parametrize(
    "seed", [-1, 2**32, 2**63, 2**70, 1.0, "1", True, None, 1 << 20_000], ids=lambda each: type(each).__name__
)
def test_other_seeds_are_refused(seed):
    with pytest.raises(InputError, match="`seed` must be a whole number from 0 to 4294967295"):
        as_seed("seed", seed)
