"""The bootstrap of a table in one pass: how often a row is drawn depends on its position, so parts can be merged."""

import pickle

import numpy as np
import pytest

from countermax.intervals._interval import Bootstrap

COUNT = 10_000


def rows():
    rng = np.random.default_rng(0)
    return rng.integers(0, 3, COUNT), rng.dirichlet([1, 2, 3], COUNT).T, rng.random(COUNT) < 0.9


def counted(start, stop, step=COUNT):
    x, probs, used = rows()
    found = Bootstrap(3, 20, 5, first_row=start)
    for first in range(start, stop, step):
        last = min(first + step, stop)
        found.add(x[first:last], probs[:, first:last], used[first:last])
    return found


@pytest.mark.parametrize("step", [997, 4096, 5000, 65_536])
def test_how_rows_are_handed_over_does_not_matter(step):
    assert np.array_equal(counted(0, 9000, step).resamples(), counted(0, 9000).resamples())


@pytest.mark.parametrize("places", [(1,), (4096,), (10, 20, 4097, 9000), tuple(range(700, COUNT, 700))])
@pytest.mark.parametrize("backwards", [False, True])
def test_parts_merged_in_any_order_are_the_whole(places, backwards):
    ends = [0, *places, COUNT]
    parts = [counted(start, stop) for start, stop in zip(ends[:-1], ends[1:], strict=True)]
    whole = Bootstrap(3, 20, 5)
    for part in reversed(parts) if backwards else parts:
        whole.merge(pickle.loads(pickle.dumps(part)))
    np.testing.assert_allclose(whole.resamples(), counted(0, COUNT).resamples(), rtol=1e-12)


def test_another_position_is_another_draw():
    x, probs, used = rows()
    moved = Bootstrap(3, 20, 5, first_row=4096)
    moved.add(x, probs, used)
    assert not np.allclose(moved.resamples(), counted(0, COUNT).resamples(), rtol=1e-3)
