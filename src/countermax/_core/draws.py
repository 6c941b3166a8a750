"""What draws start from: a key, an outcome that noise can explain, a temperature; and that they are outcomes."""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from countermax._core.arrays import shortened
from countermax._core.checks import as_outcome, fail_if, has_nan, is_traced
from countermax._core.errors import InputError
from countermax._core.types import LogProbs, Outcome, Probs, Scalar

T = TypeVar("T")

_NO_OUTCOME = -1  # what is drawn from a row that is no distribution


def as_key(key: Any) -> Any:
    """One key of JAX's random numbers, new-style or old."""
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) and shape == ():
        return key
    if dtype == jnp.uint32 and shape in ((2,), (4,)):
        return key
    raise InputError(
        f"`key` must be one key of random numbers, `jax.random.key(0)` for instance, got {shortened(key)}; use "
        "jax.vmap for batches"
    )


def as_noise(noise: T, like: Any, *, uniform: bool, num_causes: int | None) -> T:
    """Noise that can have been drawn: anything else would yield some outcome, too.

    Args:
        noise: Noise that was given.
        like: Shapes of what is drawn.
        uniform: Whether its floats are uniform numbers.
        num_causes: Number of values that its integers can have; None where any will do.
    """
    wanted, leaves = [np.shape(leaf) for leaf in jax.tree.leaves(like)], jax.tree.leaves(noise)
    found = shortened(noise)
    if not all(map(eqx.is_array_like, leaves)) or [np.shape(leaf) for leaf in leaves] != wanted:
        raise InputError(f"`noise` must be what `noise` or `abduct` gave, of shapes {wanted}, got {found}")
    for leaf in leaves:
        is_cause = num_causes is not None and jnp.issubdtype(jnp.result_type(leaf), jnp.integer)
        most = num_causes if is_cause else 1 if uniform else None
        if has_nan(leaf) or (most is not None and not is_traced(leaf) and not 0 <= leaf < most):
            limits = "not contain NaN" if most is None else f"lie in [0, {most})"
            raise InputError(f"`noise` must {limits}, got {found}")
    return noise


def draw_from(row: Probs, key: Any) -> Outcome:
    """An outcome by its probability; for a row with NaN one that `as_drawn` refuses."""
    return jnp.where(jnp.isfinite(row).all(), jax.random.categorical(key, jnp.log(row)), _NO_OUTCOME)


def as_drawn(name: str, outcomes: T) -> T:
    """Outcomes as they are; an error where one was drawn from a row with NaN, which says nothing of outcomes."""
    for each in jax.tree.leaves(outcomes):
        if not is_traced(each) and np.any(np.asarray(each) == _NO_OUTCOME):
            raise InputError(
                f"{name} must draw from finite probabilities, got NaN: scores or losses are too large, or the coupling "
                "breaks its contract (`countermax.testing.check_coupling`)"
            )
    return outcomes


def as_explained(log_p: LogProbs, x: ArrayLike, *, uniform: bool = False) -> Outcome:
    """An outcome that noise of this precision can explain.

    Noise that is added to logs must not be lost in the sum, and a uniform number has no digits for intervals that are
    shorter than its last one.

    Args:
        log_p: Log-probabilities of the world that was observed.
        x: Outcome that was seen there.
        uniform: Whether the noise is one uniform number.
    """
    outcome = as_outcome(log_p, x)
    eps = float(np.finfo(log_p.dtype).eps)
    least = float(np.log(4 * eps)) if uniform else -0.01 / eps
    message = (
        f"`x` must have a log-probability of at least {least:.4g} for noise in {log_p.dtype} to explain it; ask for "
        "its exact row with `counterfactual_probs`, or compute in double precision"
    )
    if is_traced(outcome) or is_traced(log_p):
        return eqx.error_if(outcome, log_p[outcome] < least, message)
    if np.asarray(log_p)[int(outcome)] < least:
        raise InputError(message)
    return outcome


def as_temperature(value: Any, dtype: Any) -> Scalar:
    """A positive number that does not vanish in this precision."""
    if is_traced(value):
        temperature, named = value.astype(dtype), ""
    else:
        try:
            with np.errstate(over="ignore"):
                temperature, named = jnp.asarray(float(value), dtype), f", got {value}"
        except (TypeError, ValueError) as error:
            raise InputError(f"`temperature` must be a number, got {shortened(value)}") from error
    least = float(np.finfo(dtype).tiny)
    must = f"`temperature` must be positive and finite{named}"
    return fail_if(temperature, lambda each: ~((each >= least) & (each < np.inf)), must)
