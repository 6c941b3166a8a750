"""Batches are as large as memory allows, whatever coupling is asked."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from asking import counterfactuals

from countermax._kernel._batches import in_batches, numbers_in_row
from countermax._kernel._rows import _probabilities as _ask
from countermax.couplings import AbstractMatrixCoupling, Gadget1, Gadget2, GumbelMax, Independent


@final
class Greedy(AbstractMatrixCoupling):
    """Somebody's own coupling, which holds k^4 numbers for each row and a large constant beside them."""

    constant: jax.Array

    @property
    def num_outcomes(self):
        return None

    def _joint(self, log_p, log_q):
        four = jnp.exp(log_p)[:, None, None, None] * jnp.exp(log_q)[None, :, None, None]
        spread = jnp.broadcast_to(four / log_p.size**2, (log_p.size,) * 4) + (self.constant + 1).sum() * 0
        return jax.lax.map(lambda row: row.sum(axis=(1, 2)), spread)

    def _counterfactual_probs(self, log_p, log_q, x):
        return self._joint(log_p, log_q)[x] / jnp.exp(log_p[x])


def worlds(size, count):
    rng = np.random.default_rng(0)
    p, q = (np.log(rng.dirichlet(np.ones(size), count)) for _ in range(2))
    return p, q, np.zeros(count, np.int64)


KEY = jax.random.key(0)


@pytest.mark.parametrize(
    ("coupling", "size", "at_least"),
    [
        (GumbelMax(), 6, 6),
        (Gadget2(6, 40, key=KEY, hidden=(4,), rounds=1), 6, 6 * 40),
        (Gadget1(6, key=KEY, hidden=(4,)), 6, 6**3),
        (Greedy(jnp.ones((300, 300))), 2, 2**4),
    ],
    ids=["Gumbel-max", "Gadget 2", "Gadget 1", "own"],
)
def test_what_a_row_takes_is_read_off_the_program(coupling, size, at_least):
    with jax.enable_x64(True):
        found = numbers_in_row(_ask, (coupling,), worlds(size, 5))
    assert at_least <= found <= 4 * at_least  # bounds and flags come with each row; constants do not


def test_couplings_of_one_kind_and_shape_are_traced_once(monkeypatch):
    from countermax._kernel import _batches

    first, second = (Gadget2(3, 2, key=jax.random.key(seed), hidden=(4,), rounds=1) for seed in (0, 1))
    with jax.enable_x64(True):
        found = numbers_in_row(_ask, (first,), worlds(3, 5))
        monkeypatch.setattr(_batches, "_sizes", None)  # a second trace would fail
        assert numbers_in_row(_ask, (second,), worlds(3, 9)) == found


def test_batches_of_any_size_give_the_same_numbers(monkeypatch):
    from countermax._kernel import _batches

    arrays = worlds(4, 50)
    whole = in_batches(_ask, (Independent(),), arrays)
    monkeypatch.setattr(_batches, "_NUMBERS_IN_BATCH", 100)  # batches of few rows, the last one filled up
    assert np.array_equal(in_batches(_ask, (Independent(),), arrays), whole)


@pytest.mark.parametrize(("size", "count"), [(3, 3000), (40, 60)])
def test_a_row_has_the_same_bits_whichever_rows_come_with_it(size, count):
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(size), count), rng.dirichlet(np.ones(size), count)
    frame = pd.DataFrame({"outcome": rng.integers(0, size, count)})
    options = {"outcome": "outcome", "bounds": "stable", "score": np.arange(size) * 1.37}
    whole = counterfactuals(frame, factual=p, counterfactual=q, **options)
    for rows in (slice(7, 8), slice(11, 50), slice(1, count - 1)):
        some = counterfactuals(frame[rows], factual=p[rows], counterfactual=q[rows], **options)
        pd.testing.assert_frame_equal(some, whole[rows], check_exact=True)
