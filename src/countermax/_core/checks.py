"""Bad input, told early and in words.

Shapes and dtypes are known when a function is traced, so they raise `InputError` there. Values that are known are
looked at by NumPy, outside of compiled code; of traced ones the check travels with the computation
(`equinox.error_if`) and fires when the numbers are known.
"""

from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.types import LogProbs, Numbers, Outcome

T = TypeVar("T", bound=Array)

_SUM_TOLERANCE = 1e-6
_MOST_NAMED_OUTCOMES = 256  # beyond this many, a traced error does not carry one message for each outcome


def is_traced(value: object) -> TypeGuard[jax.core.Tracer]:
    """Whether a value will be known only when the computation runs."""
    return isinstance(value, jax.core.Tracer)


def fail_if(value: T, bad: Callable[[Any], Any], message: str) -> T:
    """Returns `value`, unless it is bad: at once where that is known, when the computation runs where it is traced.

    Args:
        value: What is checked.
        bad: Says so of the array; it may use operators and methods only, which NumPy and JAX have in common.
        message: What must be true, what was found, and what to do.
    """
    if is_traced(value):
        return eqx.error_if(value, bad(value), message)
    if bad(np.asarray(value)):
        raise InputError(message)
    return value


def as_floats(name: str, value: Numbers, ndim: int) -> Array:
    """`value` as a floating-point array of `ndim` dimensions; half precision is widened, integers are converted."""
    kind = {1: "a vector", 2: "a matrix"}[ndim]
    try:
        array = _on_device(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` must be {kind} of numbers, got {_shortened(value)}") from error
    if array.ndim != ndim:
        hint = "; use jax.vmap for batches" if array.ndim > ndim else ""
        raise InputError(f"`{name}` must be {kind}, got shape {array.shape}{hint}")
    if jnp.issubdtype(array.dtype, jnp.complexfloating) or array.dtype == bool:
        raise InputError(f"`{name}` must hold real numbers, got {array.dtype}")
    wanted = jnp.promote_types(array.dtype, jnp.float32)
    if array.dtype == wanted:
        return array
    return array.astype(wanted) if is_traced(array) else _on_device(np.asarray(array).astype(wanted))


def as_log_probs(name: str, logits: Numbers) -> LogProbs:
    """Normalises logits, after refusing NaN, `+inf` and vectors in which nothing is possible."""
    array = as_floats(name, logits, 1)
    if array.size == 0:
        raise InputError(f"`{name}` must have at least one outcome, got none")
    array = fail_if(array, lambda each: (each != each).any(), f"`{name}` must not contain NaN")
    array = fail_if(
        array, lambda each: (each == np.inf).any(), f"`{name}` must not contain +inf; scale the logits down"
    )
    array = fail_if(
        array,
        lambda each: (each == -np.inf).all(),
        f"`{name}` must leave at least one outcome possible, got all -inf",
    )
    if is_traced(array):
        return jax.nn.log_softmax(array)
    return _on_device(_normalised(np.asarray(array)))


def as_log_prob_pair(p: Numbers, q: Numbers) -> tuple[LogProbs, LogProbs]:
    """Both worlds' log-probabilities, of one length and one dtype."""
    log_p, log_q = as_log_probs("p", p), as_log_probs("q", q)
    if log_p.shape != log_q.shape:
        raise InputError(
            f"`p` and `q` must have the same number of outcomes, got {log_p.size} and {log_q.size}; "
            "give outcomes that only one world has a logit of -inf in the other"
        )
    dtype = jnp.promote_types(log_p.dtype, log_q.dtype)
    return log_p.astype(dtype), log_q.astype(dtype)


def as_outcome(log_p: LogProbs, x: ArrayLike) -> Outcome:
    """An outcome that `log_p` can yield. Unchecked, indexing would clamp it and answer another question."""
    outcome = jnp.asarray(x)
    if outcome.ndim != 0 or not jnp.issubdtype(outcome.dtype, jnp.integer):
        raise InputError(
            f"`x` must be one outcome's index, got shape {outcome.shape} and dtype {outcome.dtype}; "
            "use jax.vmap for batches"
        )
    size = log_p.size
    named = "" if is_traced(outcome) else f", got {outcome}"
    outcome = fail_if(outcome, lambda each: (each < 0) | (each >= size), f"`x` must lie in 0..{size - 1}{named}")
    if not is_traced(outcome) and not is_traced(log_p):
        if np.asarray(log_p)[int(outcome)] == -np.inf:
            raise InputError(_impossible(str(outcome)))
        return outcome
    impossible = log_p[outcome] == -jnp.inf
    if size > _MOST_NAMED_OUTCOMES:
        return eqx.error_if(outcome, impossible, _impossible("an outcome"))
    return eqx.branched_error_if(outcome, impossible, outcome, [_impossible(str(i)) for i in range(size)])


def as_scores(name: str, score: Numbers, num_outcomes: int) -> Float[Array, " k"]:
    """One finite number for each outcome."""
    array = as_floats(name, score, 1)
    if array.size != num_outcomes:
        raise InputError(f"`{name}` must have one number for each of {num_outcomes} outcomes, got {array.size}")
    return fail_if(array, not_finite, f"`{name}` must be finite")


def not_finite(array: Any) -> Any:
    """Whether an array holds NaN or an infinity, for `fail_if`."""
    return ~(abs(array) < np.inf).all()


def as_score_pair(
    score: Numbers, counterfactual_score: Numbers | None, num_outcomes: int
) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """The scores of both worlds; the second defaults to the first."""
    factual = as_scores("score", score, num_outcomes)
    if counterfactual_score is None:
        return factual, factual
    return factual, as_scores("counterfactual_score", counterfactual_score, num_outcomes)


def as_order(score: Float[Array, " k"]) -> Array:
    """The outcomes from the lowest score to the highest; ties keep the outcomes' own order."""
    if is_traced(score):
        return jnp.argsort(score, stable=True)
    return _on_device(np.argsort(np.asarray(score), stable=True))


def log_probs_from(name: str, values: Numbers, *, logits: bool = False, normalise: bool = False) -> NDArray[np.float64]:
    """Log-probabilities from what a person wrote down: probabilities, counts (`normalise`) or logits.

    In double precision, whatever JAX's default is.
    """
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"`{name}` must be a list of numbers, one for each outcome, got {_shortened(values)}"
        ) from error
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"`{name}` must be a list of numbers, one for each outcome, got shape {array.shape}")
    if np.isnan(array).any():
        raise InputError(f"`{name}` must not contain NaN: number {int(np.isnan(array).argmax()) + 1} is one")
    if logits:
        if (array == np.inf).any() or (array == -np.inf).all():
            raise InputError(f"`{name}` must hold logits below +inf, not all of them -inf")
        return _normalised(array)
    if (array < 0).any():
        raise InputError(f"`{name}` must not be negative, got {array.min():g}; if these are logits, say so")
    with np.errstate(over="ignore"):  # told below, in words
        total = array.sum()
    if not np.isfinite(total) or total == 0:
        raise InputError(f"`{name}` must have a positive, finite sum, got {total:g}")
    if not normalise and abs(total - 1) > _SUM_TOLERANCE:
        raise InputError(
            f"`{name}` must sum to 1, got {total:.6g}; correct the numbers, or pass normalise=True (on the command "
            "line: --normalise) if these are counts or weights"
        )
    with np.errstate(divide="ignore"):
        return np.log(array / total)


def _normalised(logits: NDArray[Any]) -> NDArray[Any]:
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def _on_device(value: Any) -> Array:
    """As `jnp.asarray`, which compiles a program to copy an array that is known."""
    if isinstance(value, jax.Array):
        return value
    try:
        return jax.device_put(np.asarray(value))
    except jax.errors.TracerArrayConversionError:  # a list, say, with traced numbers in it
        return jnp.asarray(value)


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _impossible(outcome: str) -> str:
    return f"`x` must be possible under `p`, but outcome {outcome} was observed and has probability zero there"
