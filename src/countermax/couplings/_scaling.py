"""Classical scaling: the scores behind a loss that is a squared distance in disguise."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from countermax._core.errors import InputError

_TOLERANCE = 1e-5  # of the largest eigenvalue, below which one is rounding
_OTHERWISE = "train a `Gadget2` with `countermax.fit`, which takes any loss, or ask `Optimal` for the least of one pair"


def scores_of_loss(loss: Any) -> NDArray[np.float64]:
    """Vectors whose squared distances are the loss (Torgerson 1952; Schoenberg 1938 says when there are any).

    A symmetric loss with nothing on the diagonal is a squared distance if and only if it is conditionally negative
    definite: `w @ loss @ w <= 0` for all weights w that sum to zero. Disagreement is one, as are squared distances and
    distances on a line.

    Args:
        loss: `loss[i, j]` is what it costs to pair outcome i of the factual world with j of the other.

    Raises:
        InputError: No distance represents the loss.
    """
    matrix = np.asarray(loss, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise InputError(f"`loss` must be a square matrix, one row and one column for each outcome, got {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise InputError("`loss` must be finite; use a large number for a pair to be avoided")
    scale = float(np.abs(matrix).max())
    if np.abs(matrix - matrix.T).max() > _TOLERANCE * scale:
        raise InputError(
            f"`loss` must be symmetric to be a squared distance of scores, got one that is not; {_OTHERWISE}"
        )
    if np.abs(np.diagonal(matrix)).max() > _TOLERANCE * scale:
        raise InputError(
            f"`loss` must be zero where the outcome stays, to be a squared distance of scores; {_OTHERWISE}"
        )
    centred = matrix - matrix.mean(axis=0) - matrix.mean(axis=1)[:, None] + matrix.mean()
    values, vectors = np.linalg.eigh(-(centred + centred.T) / 4)
    largest = max(float(values[-1]), 0.0)
    if values[0] < -_TOLERANCE * max(largest, np.finfo(float).tiny):
        raise InputError(
            "`loss` must be conditionally negative definite to be a squared distance of scores, but its smallest "
            f"eigenvalue is {values[0] / largest if largest else values[0]:.3g} of the largest; {_OTHERWISE}"
        )
    kept = np.flatnonzero(values > _TOLERANCE * largest)[::-1]
    if not kept.size:
        return np.zeros((len(matrix), 1))
    scores = vectors[:, kept] * np.sqrt(values[kept])
    # Eigenvectors come with either sign; the largest entry decides, so that equal losses have equal scores.
    signs = np.sign(scores[np.abs(scores).argmax(axis=0), np.arange(kept.size)])
    return np.asarray(scores * signs)


def loss_matrix(loss: Callable[..., Array], num_outcomes: int) -> NDArray[np.float64]:
    """The matrix of a loss that is the same for all pairs of worlds."""
    even = jax.nn.log_softmax(jnp.zeros(num_outcomes))
    uneven = jax.nn.log_softmax(jnp.linspace(0.0, 1.0, num_outcomes))
    matrices = [np.asarray(loss(p, q), np.float64) for p, q in ((even, even), (uneven, even), (even, uneven))]
    if any(each.shape != (num_outcomes, num_outcomes) for each in matrices):
        raise InputError(f"`loss` must give a matrix of {num_outcomes} by {num_outcomes}, got {matrices[0].shape}")
    if not all(np.array_equal(matrices[0], each) for each in matrices[1:]):
        raise InputError(f"`loss` must be the same for all pairs to be a squared distance of scores; {_OTHERWISE}")
    return matrices[0]
