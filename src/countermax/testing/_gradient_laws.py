"""Laws of gradients: finite everywhere, and what small steps say, in double precision."""

from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax.couplings import AbstractCoupling, Gadget2
from countermax.couplings._parts import Started
from countermax.testing._cases import GENERIC, BrokenError, Case, close
from countermax.testing._subject import BOTH, DOUBLE, SINGLE, Subject, precision

STEP = 1e-6
_TOLERANCE = 1e-4  # of a slope; a gradient that is twice what it should be, or none, is off by all of it
_COARSE = 1e-2  # how far gradients of single precision may be off
_RAREST = 1e-3  # the row of an outcome that is rarer bends too much within a step
_QUESTIONS = ("joint", "counterfactual_probs", "expected_loss")


def finite(subject: Subject) -> str:
    """In all cases and both precisions, which agree."""
    if refusal := _refusal(subject):
        return refusal
    found = {dtype: {case.name: _gradients(subject, case) for case in subject.cases(dtype)} for dtype in BOTH}
    for dtype, gradients in found.items():
        for name, each in gradients.items():
            if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(each)):
                raise BrokenError(f"{name} ({dtype}): a gradient is not finite")
    for name in GENERIC:
        for world, single, double in zip("pq", found[SINGLE][name][:2], found[DOUBLE][name][:2], strict=True):
            tolerance = _COARSE * (1 + float(np.abs(double).max()))
            close(f"{name}: the gradient with respect to `{world}` in single precision", single, double, tolerance)
    return f"finite in {sum(map(len, found.values()))} cases"


def right(subject: Subject, size: int | None = None) -> str:
    """A gradient says how much an answer moves if the logits, or the coupling's own numbers, move."""
    if refusal := _refusal(subject):
        return refusal
    rng, largest = np.random.default_rng(0), 0.0
    coupling = subject.in_precision(DOUBLE)
    learned = _learned(coupling)
    for case in (each for each in subject.cases(DOUBLE, size) if each.name in GENERIC):
        by_p, by_q, by_own = _gradients(subject, case)
        step_p, step_q = (np.where(each > -np.inf, rng.normal(size=each.size), 0.0) for each in (case.p, case.q))
        nothing = np.zeros_like(step_p)
        tried: dict[str, Any] = {
            "`p`": (by_p @ step_p, (step_p, nothing, None)),
            "`q`": (by_q @ step_q, (nothing, step_q, None)),
        }
        if leaves := jax.tree.leaves(by_own):
            steps = [moves * rng.normal(size=each.shape[1:]) for each, moves in zip(leaves, learned, strict=True)]
            slope = sum(np.tensordot(each, step, step.ndim) for each, step in zip(leaves, steps, strict=True))
            tried["the coupling's own numbers"] = (slope, (nothing, nothing, steps))
        for what, (slope, step) in tried.items():
            ends = [_values(coupling, case, step, length) for length in (STEP, 0.0, -STEP)]
            largest = max(largest, agree_with_steps(f"{case}: with respect to {what}", slope, ends))
    return f"within {largest:.1g} of differences, with respect to logits and {sum(learned)} arrays of its own"


def agree_with_steps(what: str, slope: NDArray[Any], ends: list[NDArray[Any]]) -> float:
    """A slope is right if it is that of a step ahead, of a step back or of both: a kink may lie in between."""
    ahead, back = (ends[0] - ends[1]) / STEP, (ends[1] - ends[2]) / STEP
    middle = (ahead + back) / 2
    errors = np.min([np.abs(slope - each) for each in (ahead, back, middle)], axis=0)
    excess = errors - _TOLERANCE * (1 + np.maximum(np.abs(slope), np.abs(middle)))
    if not (excess <= 0).all():
        place = int(excess.argmax())
        answer = f"`{_QUESTIONS[place]}`" if slope.size == len(_QUESTIONS) else "the answer"
        said = f"{slope.flat[place]:.5g} where differences say {middle.flat[place]:.5g}"
        raise BrokenError(f"{what}, the gradient of {answer} says {said}")
    return float(errors.max(initial=0.0))


def _refusal(subject: Subject) -> str:
    """The words in which a coupling says that it has no gradient; then every question must say so."""
    refusals = list[str]()
    for place, question in enumerate(_QUESTIONS):
        try:
            _trace_gradient(subject.sampler, subject.case("random", subject.native), place)
        except InputError as refusal:
            refusals.append(str(refusal))
        if len(refusals) not in (0, place + 1):
            raise BrokenError(f"some questions refuse a gradient, but not `{question}`, or the other way round")
    return f"refused: {refusals[0]}" if refusals else ""


def _trace_gradient(coupling: Any, case: Case, place: int) -> None:
    """Differentiates the answer to one question without computing anything."""
    x = _fact(case)
    jax.eval_shape(jax.grad(lambda p: _weighed(coupling, p, case.q, x, (place,))[0]), case.p)


def _fact(case: Case) -> NDArray[np.integer]:
    """The most likely outcome in some cases, in others the least likely that is not too rare for a step."""
    p, _ = case.probs
    x = p.argmax() if case.name in ("sparse", "voids") else np.where(p >= _RAREST, p, np.inf).argmin()
    return np.asarray(x)  # not a number of Python's, for each of which a program would be compiled


def _values(coupling: Any, case: Case, step: tuple[Any, Any, list[Any] | None], length: float) -> NDArray[np.float64]:
    """What is answered a step away."""
    step_p, step_q, own = step
    if own is not None:
        numbers, rest = _own(coupling)
        leaves, form = jax.tree.flatten(numbers)
        with precision(DOUBLE):
            moved = [jnp.asarray(leaf + length * each) for leaf, each in zip(leaves, own, strict=True)]
        coupling = eqx.combine(jax.tree.unflatten(form, moved), rest)
    with precision(DOUBLE):
        return np.asarray(_answered(coupling, case.p + length * step_p, case.q + length * step_q, _fact(case)))


def _gradients(subject: Subject, case: Case) -> Any:
    with precision(case.p.dtype):
        found = _jacobians(subject.in_precision(case.p.dtype), case.p, case.q, _fact(case))
        return jax.tree.map(np.asarray, found)


def _own(coupling: Any) -> tuple[Any, Any]:
    """The arrays that a coupling may learn, and the rest of it; what is to stay as it is can be a NumPy array."""
    return eqx.partition(coupling, lambda leaf: isinstance(leaf, jax.Array) and eqx.is_inexact_array(leaf))


def _learned(coupling: Any) -> list[bool]:
    """Whether each of its own arrays is learned; what a part starts from is not, nor are latents that are fixed."""
    return [_is_learned(coupling, path) for path, _ in jax.tree_util.tree_leaves_with_path(_own(coupling)[0])]


def _is_learned(holder: Any, path: Sequence[Any]) -> bool:
    for each in path:
        name = getattr(each, "name", None)
        if isinstance(holder, Started) and name == "start":
            return False
        if isinstance(holder, Gadget2) and name == "latent_logits":
            return holder.learn_latents
        holder = getattr(holder, name) if name else holder[getattr(each, "idx", getattr(each, "key", 0))]
    return True


def _weighed(
    coupling: AbstractCoupling, p: ArrayLike, q: ArrayLike, x: ArrayLike, places: Iterable[int] = range(len(_QUESTIONS))
) -> Array:
    """One number for each question."""
    size = jnp.size(p)
    weights = jnp.cos(jnp.arange(size * size, dtype=jnp.result_type(p))).reshape(size, size)  # without any symmetry
    asked = (
        lambda: (coupling.joint(p, q) * weights).sum(),
        lambda: coupling.counterfactual_probs(p, q, x) @ weights[0],
        lambda: coupling.expected_loss(p, q, weights.T),
    )
    return jnp.stack([asked[place]() for place in places])


@eqx.filter_jit
def _answered(coupling: AbstractCoupling, p: ArrayLike, q: ArrayLike, x: ArrayLike) -> Array:
    return _weighed(coupling, p, q, x)


@eqx.filter_jit
def _jacobians(coupling: AbstractCoupling, p: ArrayLike, q: ArrayLike, x: ArrayLike) -> Any:
    """How each number moves with p, with q and with the coupling's own numbers."""
    own, rest = _own(coupling)

    def weighed(p: Array, q: Array, own: Any) -> Array:
        return _weighed(eqx.combine(own, rest), p, q, x)

    return jax.jacrev(weighed, (0, 1, 2))(jnp.asarray(p), jnp.asarray(q), own)
