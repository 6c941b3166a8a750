"""Laws of exact answers: marginals, rows, losses, precisions and gradients."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax.couplings import AbstractCoupling, Gadget2
from countermax.couplings._parts import Started
from countermax.testing._subject import (
    BOTH,
    DOUBLE,
    GENERIC,
    SINGLE,
    BrokenError,
    Case,
    Reply,
    Subject,
    askable,
    close,
    on_each,
    precision,
)

_COARSE = 1e-3  # how far a rare outcome's row may be from the joint's: at extreme logits p itself has lost digits
_COMMON = 1e-3


def marginals(answer: Reply) -> float:
    """Row sums are p, column sums are q, nothing is negative, and what is impossible has probability zero."""
    case, joint, p, q = answer.case, answer.joint, *answer.case.probs
    if (joint < 0).any():
        raise BrokenError(f"the joint law has a negative entry, {joint.min():.2g}")
    if joint[p == 0].any() or joint[:, q == 0].any():
        raise BrokenError("an impossible outcome has positive probability")
    return max(
        close("the factual marginal", joint.sum(axis=1), p, case.tolerance),
        close("the other world's marginal", joint.sum(axis=0), q, case.tolerance),
    )


def rows(answer: Reply) -> float:
    """What is answered given x is row x of the joint law, normalised."""
    case, joint, p, q = answer.case, answer.joint.astype(np.float64), *answer.case.probs
    if (answer.rows < 0).any() or answer.rows[:, q == 0].any():
        raise BrokenError("a counterfactual row is negative, or holds an impossible outcome")
    whole = np.ones(len(answer.asked))
    largest = close("the sum of a counterfactual row", answer.rows.sum(axis=1), whole, case.tolerance)
    for x, row in zip(answer.asked, answer.rows, strict=True):
        expected = joint[x] / joint[x].sum() if p[x] > _COMMON else joint[x] / p[x]
        tolerance = min(case.tolerance / p[x], 0.1) if p[x] > _COMMON else _COARSE
        largest = max(largest, close(f"the counterfactual row of outcome {x}", row, expected, tolerance))
    return largest


def rarest(subject: Subject) -> str:
    """Rows of outcomes whose probability underflows are distributions over what is possible, or refused."""
    answered = refused = 0
    for case in (case for dtype in BOTH for case in subject.cases(dtype) if case.name in ("extreme", "rare")):
        coupling, (_, q) = subject.in_precision(case.p.dtype), case.probs
        for x in np.setdiff1d(case.possible, askable(case)):
            with precision(case.p.dtype):
                try:
                    row = np.asarray(coupling.counterfactual_probs(case.p, case.q, int(x)))
                except InputError:
                    refused += 1
                    continue
            answered += 1
            if not (row >= 0).all() or row[q == 0].any() or abs(row.sum() - 1) > case.tolerance:
                raise BrokenError(f"{case}: the counterfactual row of outcome {x} is not a distribution")
    return f"{answered} answered, {refused} refused"


def losses(subject: Subject, answer: Reply) -> float:
    """An expected loss is the sum of the joint law times the loss, however it is computed."""
    case, size = answer.case, answer.case.p.size
    loss = np.cos(np.arange(size * size)).reshape(size, size)  # of both signs, and no symmetry that could hide a swap
    expected = (answer.joint.astype(np.float64) * loss).sum()
    with precision(case.p.dtype):
        found = np.asarray(_loss(subject.in_precision(case.p.dtype), case.p, case.q, loss.astype(case.p.dtype)))
    return close("the expected loss", found, np.asarray(expected), case.tolerance)


def shift(subject: Subject, answer: Reply) -> float:
    """Logits are unnormalised: a constant added to them changes nothing."""
    case = answer.case
    kind = case.p.dtype.type
    moved = subject.ask(Case(case.name, case.p + kind(7.25), case.q - kind(3.5)))
    scale = max(1.0, float(np.abs(case.p[case.p > -np.inf]).max()))  # shifting rounds the logits themselves
    return close("the law of shifted logits", moved.joint, answer.joint, scale * case.tolerance)


def exchange(subject: Subject, answer: Reply) -> float:
    """All worlds see one noise, so that it does not matter which of two worlds is called the factual one."""
    case = answer.case
    turned = subject.ask(Case(case.name, case.q, case.p))
    return close("the law of exchanged worlds", turned.joint.T, answer.joint, case.tolerance)


def still(subject: Subject, answer: Reply) -> float:
    """Equal worlds have equal outcomes: the row of x is x."""
    again = subject.ask(Case(answer.case.name, answer.case.p, answer.case.p))
    expected = np.eye(answer.case.p.size)[again.asked]
    return close("a counterfactual row of equal worlds", again.rows, expected, answer.case.tolerance)


def precisions(subject: Subject) -> str:
    """Single precision says what double precision says, as far as its digits reach."""
    doubles = {answer.case.name: answer for answer in subject.answers(subject.size, DOUBLE)}

    def agree(single: Reply) -> float:
        double, (p, _) = doubles[single.case.name], single.case.probs
        scale = max(1.0, float(np.abs(single.case.p[single.case.p > -np.inf]).max()))
        error = close("the joint law", single.joint, double.joint, scale * single.case.tolerance)
        for place, x in enumerate(single.asked):
            # Where an interval of a line begins is known to rounding, which is much of a rare outcome's interval.
            tolerance = _COARSE + scale * single.case.tolerance / p[x]
            if double.asked[place] == x and tolerance < 0.1:
                what = f"the counterfactual row of outcome {x}"
                error = max(error, close(what, single.rows[place], double.rows[place], tolerance))
        return error

    return on_each((each for each in subject.answers(subject.size, SINGLE) if each.case.name in GENERIC), agree)


_loss = eqx.filter_jit(AbstractCoupling.expected_loss)


STEP = 1e-6
_TOLERANCE = 1e-4  # of a slope; a gradient that is twice what it should be, or none, is off by all of it
_COARSE_STEPS = 1e-2  # how far gradients of single precision may be off
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
            tolerance = _COARSE_STEPS * (1 + float(np.abs(double).max()))
            close(f"{name}: the gradient with respect to `{world}` in single precision", single, double, tolerance)
    return f"finite in {sum(map(len, found.values()))} cases"


def right(subject: Subject, size: int | None = None) -> str:
    """A gradient says how much an answer moves if the logits, or the coupling's own numbers, move."""
    if refusal := _refusal(subject):
        return refusal
    rng, largest = np.random.default_rng(0), 0.0
    coupling = subject.in_precision(DOUBLE)
    paths = (path for path, _ in jax.tree_util.tree_leaves_with_path(_own(coupling)[0]))
    learned = [_is_learned(coupling, path) for path in paths]
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
    refusals, case = list[str](), subject.case("random", subject.native)
    x, sampler = _fact(case), cast(AbstractCoupling, subject.sampler)
    for place, question in enumerate(_QUESTIONS):  # differentiated without computing anything
        try:
            jax.eval_shape(jax.grad(lambda p, at=place: _weighed(sampler, p, case.q, x, (at,))[0]), case.p)
        except InputError as refusal:
            refusals.append(str(refusal))
        if len(refusals) not in (0, place + 1):
            raise BrokenError(f"some questions refuse a gradient, but not `{question}`, or the other way round")
    return f"refused: {refusals[0]}" if refusals else ""


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


def _is_learned(holder: Any, path: Sequence[Any]) -> bool:
    """Whether one of its own arrays is learned; what a part starts from is not, nor are latents that are fixed."""
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


_answered = eqx.filter_jit(_weighed)


@eqx.filter_jit
def _jacobians(coupling: AbstractCoupling, p: ArrayLike, q: ArrayLike, x: ArrayLike) -> Any:
    """How each number moves with p, with q and with the coupling's own numbers."""
    own, rest = _own(coupling)

    def weighed(p: Array, q: Array, own: Any) -> Array:
        return _weighed(eqx.combine(own, rest), p, q, x)

    return jax.jacrev(weighed, (0, 1, 2))(jnp.asarray(p), jnp.asarray(q), own)
