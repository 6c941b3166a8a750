"""What comes in, checked and made into arrays: logits, outcomes, scores, keys, noise."""

import operator
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from numpy.typing import NDArray

from countermax._core.errors import InputError, ProbabilitiesAsLogitsWarning
from countermax._core.quantities import shown
from countermax._core.types import LogProbs, Numbers, Outcome, Probs, Scalar

T = TypeVar("T", bound=Array | NDArray[Any])
Drawn = TypeVar("Drawn")

_SUM_TOLERANCE = 1e-6
_INNER = ("countermax", "equinox", "jax", "jaxtyping")  # where a warning does not point at
_MOST_NAMED_OUTCOMES = 256  # beyond this many, a traced error does not carry one message for each outcome
_NO_OUTCOME = -1  # what is drawn from a row that is no distribution


def as_array(name: str, value: Any, ndim: int, batches: str = "use jax.vmap for batches") -> Any:
    """Real numbers of `ndim` dimensions: an array of JAX's as it is, everything else as NumPy's."""
    kind = {0: "one number", 1: "a vector", 2: "a matrix"}[ndim]
    numbers = f"{kind} of numbers" if ndim else kind
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InputError(f"`{name}` must be {kind} of numbers, got a masked array with {value.mask.sum()} missing")
    try:
        array = value if isinstance(value, jax.Array) else np.asarray(value)
    except jax.errors.TracerArrayConversionError:  # a list, say, with traced numbers in it
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` must be {numbers}, got {shown(value)}") from error
    dtype = array.dtype
    if jnp.issubdtype(dtype, np.bool_) or jnp.issubdtype(dtype, jnp.complexfloating):
        raise InputError(f"`{name}` must hold real numbers, got {dtype}")
    if not (jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating) or dtype == np.longdouble):
        raise InputError(f"`{name}` must be {numbers}, got {shown(value)}")
    if array.ndim != ndim:
        hint = f"; {batches}" if array.ndim > ndim else ""
        raise InputError(f"`{name}` must be {kind}, got shape {array.shape}{hint}")
    return array


def float_dtype(dtype: Any) -> Any:
    """The precision to compute in: JAX's default for integers, single for less than that."""
    if not jnp.issubdtype(dtype, jnp.integer) and np.dtype(dtype).itemsize <= 4:
        return np.dtype(np.float32)
    return jax.dtypes.canonicalize_dtype(np.float64)


def normalised(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-probabilities; what an outcome that is nearly certain lacks to certainty keeps its digits."""
    likeliest = logits.argmax()
    with np.errstate(over="ignore"):  # further apart than the largest number: impossible, as far as numbers go
        shifted = logits - logits[likeliest]
    others = np.exp(shifted)
    others[likeliest] = 0
    return shifted - np.log1p(others.sum())


def log_softmax(logits: Float[Array, " k"]) -> Float[Array, " k"]:
    """The same of traced logits."""
    likeliest = jnp.argmax(logits)
    shifted = logits - logits[likeliest]
    others = jnp.where(jnp.arange(logits.size) == likeliest, 0, jnp.exp(shifted))
    return shifted - jnp.log1p(others.sum())


def is_traced(value: object) -> TypeGuard[jax.core.Tracer]:
    """Whether a value will be known only when the computation runs."""
    return isinstance(value, jax.core.Tracer)


def fail_if(value: T, bad: Callable[[Any], Any], message: str) -> T:
    """Returns `value`, unless it is bad: at once where that is known, when the computation runs where it is traced."""
    if is_traced(value):
        return eqx.error_if(value, bad(value), message)
    if bad(np.asarray(value)):
        raise InputError(message)
    return value


def as_floats(name: str, value: Numbers, ndim: int) -> Array:
    """`value` as a floating-point array of `ndim` dimensions; half precision is widened, integers are converted."""
    array = as_array(name, value, ndim)
    wanted = float_dtype(array.dtype)
    if array.dtype == wanted:
        return array if isinstance(array, jax.Array) else jax.device_put(array)
    if is_traced(array):
        return array.astype(wanted)
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, which callers refuse
        return jax.device_put(np.asarray(array).astype(wanted))


def as_log_probs(name: str, logits: Numbers) -> LogProbs:
    """Normalises logits, after refusing NaN, `+inf` and vectors in which nothing is possible.

    Logits that are known are normalised in double precision, whatever the precision of the answer will be: differences
    between large numbers survive. If they look like probabilities, a warning says so.
    """
    array = as_array(name, logits, 1)
    if array.size == 0:
        raise InputError(f"`{name}` must have at least one outcome, got none")
    wanted = float_dtype(array.dtype)
    traced = is_traced(array)
    array = array.astype(wanted) if traced else np.asarray(array, np.float64)
    array = fail_if(array, lambda each: (each != each).any(), f"`{name}` must not contain NaN")
    too_large = f"`{name}` must not contain +inf; scale the logits down"
    nothing = f"`{name}` must leave at least one outcome possible, got all -inf"
    array = fail_if(array, lambda each: (each == np.inf).any(), too_large)
    array = fail_if(array, lambda each: (each == -np.inf).all(), nothing)
    if traced:
        return log_softmax(jnp.asarray(array))
    advice = f"pass `jnp.log({name})`, or ask `countermax.Worlds`, which takes probabilities"
    _warn_of_probabilities(name, array, wanted, advice)
    with np.errstate(over="ignore"):
        return jax.device_put(normalised(array).astype(wanted))


def as_log_prob_pair(p: Numbers, q: Numbers) -> tuple[LogProbs, LogProbs]:
    """Both worlds' log-probabilities, of one length and one dtype."""
    log_p, log_q = as_log_probs("p", p), as_log_probs("q", q)
    if log_p.shape != log_q.shape:
        raise InputError(
            f"`p` and `q` must have the same number of outcomes, got {log_p.size} and {log_q.size}; "
            "give outcomes that only one world has a logit of -inf in the other"
        )
    _check_same_index(p, q)
    dtype = jnp.promote_types(log_p.dtype, log_q.dtype)
    return log_p.astype(dtype), log_q.astype(dtype)


def as_outcome(log_p: LogProbs, x: ArrayLike) -> Outcome:
    """An outcome that `log_p` can yield. Unchecked, indexing would clamp it and answer another question."""
    size = log_p.size
    if not is_traced(x):
        return _as_known_outcome(log_p, x)
    if x.ndim != 0 or not jnp.issubdtype(x.dtype, jnp.integer):
        raise InputError(_no_outcome(f"shape {x.shape} and dtype {x.dtype}"))
    # A byte cannot be compared with a large size. An unsigned number beyond the signed ones turns negative.
    outcome = x.astype(jnp.int32 if x.dtype.itemsize < 4 else int)
    outcome = fail_if(outcome, lambda each: (each < 0) | (each >= size), f"`x` must lie in 0..{size - 1}")
    return _possible(log_p, outcome)


def as_scores(name: str, score: Numbers, num_outcomes: int) -> Float[Array, " k"]:
    """One finite number for each outcome."""
    array = as_floats(name, score, 1)
    if array.size != num_outcomes:
        raise InputError(f"`{name}` must have one number for each of {num_outcomes} outcomes, got {array.size}")
    return fail_if(array, not_finite, f"`{name}` must be finite")


def as_loss(name: str, loss: Numbers) -> Float[Array, "k k"]:
    """A finite number for each pair of outcomes."""
    matrix = as_floats(name, loss, 2)
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"`{name}` must be square, a row and a column for each outcome, got shape {matrix.shape}")
    return fail_if(matrix, not_finite, f"`{name}` must be finite; use a large number for a pair to be avoided")


def not_finite(array: Any) -> Any:
    """Whether an array holds NaN or an infinity, for `fail_if`."""
    return ~(abs(array) < np.inf).all()


def has_nan(value: Any) -> bool:
    """Whether a number or an array that is known holds NaN; nothing is said of what is traced, or of other types."""
    if is_traced(value) or not eqx.is_inexact_array_like(value):
        return False
    return bool(np.isnan(np.asarray(value)).any())


def as_answer(name: str, answer: Any) -> Any:
    """An answer in finite numbers: NaN would otherwise pass for a number, or for the most likely outcome."""
    for leaf in jax.tree.leaves(answer):
        if not is_traced(leaf) and not_finite(np.asarray(leaf)):
            raise InputError(
                f"{name} must answer with finite numbers, got NaN or an infinity: scores or losses are too large for "
                f"{np.asarray(leaf).dtype}, or the coupling breaks its contract (`countermax.testing.check_coupling`)"
            )
    return answer


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
    return jax.device_put(np.argsort(np.asarray(score), stable=True))


def log_probs_from(name: str, values: Numbers, *, logits: bool = False, normalise: bool = False) -> NDArray[np.float64]:
    """Log-probabilities from what a person wrote down: probabilities, counts (`normalise`) or logits.

    In double precision, whatever JAX's default is.
    """
    if logits and normalise:
        raise InputError("`logits` and `normalise` must not both be true: logits are always normalised; leave one out")
    array = np.asarray(as_array(name, values, 1, "ask about rows of many with `countermax.tables`"), np.float64)
    if array.size == 0:
        raise InputError(f"`{name}` must have a number for each outcome, got none")
    if np.isnan(array).any():
        raise InputError(f"`{name}` must not contain NaN: number {int(np.isnan(array).argmax()) + 1} is one")
    if logits:
        if (array == np.inf).any() or (array == -np.inf).all():
            raise InputError(f"`{name}` must hold logits below +inf, not all of them -inf")
        _warn_of_probabilities(name, array, array.dtype, "leave out `logits=True`")
        return normalised(array)
    if (array < 0).any():
        raise InputError(f"`{name}` must not be negative, got {array.min():g}; if these are logits, pass logits=True")
    with np.errstate(over="ignore"):  # reported below
        total = array.sum()
    if not np.isfinite(total) or total == 0:
        raise InputError(f"`{name}` must have a positive, finite sum, got {total:g}")
    if not normalise and abs(total - 1) > _SUM_TOLERANCE:
        counts = (
            "; if these count people, ask `Trial.from_counts` (--control, --treated), which has confidence intervals"
        )
        whole = (array == array.round()).all()
        raise InputError(
            f"`{name}` must sum to 1, got {total:.6g}{counts if whole else ''}; correct them, or rescale them with "
            "normalise=True (--normalise)"
        )
    with np.errstate(divide="ignore"):
        return np.log(array / total)


def _check_same_index(p: Any, q: Any) -> None:
    """Two pandas series name their outcomes; pairing different names by position would answer another question."""
    here, there = (getattr(each, "index", None) for each in (p, q))
    if here is None or there is None:
        return
    if hasattr(here, "equals") and hasattr(there, "equals") and not here.equals(there):
        raise InputError(
            "`p` and `q` must have the same index, in the same order, got "
            f"{shown(here.tolist())} and {shown(there.tolist())}; pass `q.reindex(p.index)`"
        )


def _as_known_outcome(log_p: LogProbs, x: Any) -> Outcome:
    try:
        array = np.asarray(x)
        place = operator.index(x) if isinstance(x, int) else operator.index(array[()])
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(_no_outcome(shown(x) if np.ndim(x) == 0 else f"shape {np.shape(x)}")) from error
    if array.dtype == bool:
        raise InputError(_no_outcome(f"the boolean {x}"))
    if not 0 <= place < log_p.size:
        raise InputError(f"`x` must lie in 0..{log_p.size - 1}, got {shown(place)}")
    outcome = jax.device_put(np.asarray(place, jax.dtypes.canonicalize_dtype(int)))
    if is_traced(log_p):
        return _possible(log_p, outcome)
    if np.asarray(log_p)[place] == -np.inf:
        raise InputError(_impossible(str(place)))
    return outcome


def _possible(log_p: LogProbs, outcome: Outcome) -> Outcome:
    impossible = log_p[outcome] == -jnp.inf
    if log_p.size > _MOST_NAMED_OUTCOMES:
        return eqx.error_if(outcome, impossible, _impossible("an outcome"))
    return eqx.branched_error_if(outcome, impossible, outcome, [_impossible(str(i)) for i in range(log_p.size)])


def _warn_of_probabilities(name: str, logits: NDArray[np.float64], dtype: Any, advice: str) -> None:
    """A vector that is not negative and sums to one was hardly meant as logits; equal numbers do no harm."""
    if logits.min() < 0 or logits.max() > 1 + _SUM_TOLERANCE or logits.min() == logits.max():
        return
    if abs(logits.sum() - 1) > max(_SUM_TOLERANCE, 8 * np.finfo(dtype).eps):
        return
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INNER:
        frame, depth = frame.f_back, depth + 1
    warnings.warn(
        f"`{name}` must hold logits, and looks like probabilities: no number is negative, and the sum is 1; {advice}. "
        "If these are logits after all, subtract 1 from each of them: it changes nothing, and says so",
        ProbabilitiesAsLogitsWarning,
        stacklevel=depth + 1,
    )


def _no_outcome(found: str) -> str:
    return f"`x` must be one outcome's index, got {found}; use jax.vmap for batches"


def _impossible(outcome: str) -> str:
    return f"`x` must be possible under `p`, but outcome {outcome} was observed and has probability zero there"


def as_key(key: Any) -> Any:
    """One key of JAX's random numbers, new-style or old."""
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) and shape == ():
        return key
    if dtype == jnp.uint32 and shape in ((2,), (4,)):
        return key
    raise InputError(
        f"`key` must be one key of random numbers, `jax.random.key(0)` for instance, got {shown(key)}; use "
        "jax.vmap for batches"
    )


def as_noise(noise: Drawn, like: Any, *, uniform: bool, num_causes: int | None) -> Drawn:
    """Noise that can have been drawn: anything else would yield some outcome, too."""
    wanted, leaves = [np.shape(leaf) for leaf in jax.tree.leaves(like)], jax.tree.leaves(noise)
    found = shown(noise)
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


def as_drawn(name: str, outcomes: Drawn) -> Drawn:
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
            raise InputError(f"`temperature` must be a number, got {shown(value)}") from error
    least = float(np.finfo(dtype).tiny)
    must = f"`temperature` must be positive and finite{named}"
    return fail_if(temperature, lambda each: ~((each >= least) & (each < np.inf)), must)
