"""Laws of calling: refusals, batches, compilation, repetition and numbers of outcomes."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from countermax._core.errors import InputError
from countermax._core.types import Keys
from countermax.couplings import AbstractCoupling, AbstractMechanism, AbstractNoiseSampler, AbstractSampler
from countermax.testing import _exact_laws
from countermax.testing._draw_laws import look
from countermax.testing._subject import GENERIC, BrokenError, Case, Subject, on_each

Questions = Iterator[tuple[str, Callable[[], Any]]]

_COMPILED = ("pair", "counterfactual", "joint", "counterfactual_probs")
_NUM_KEYS = 3
_MOST_TIES = 1  # draws that rounding may decide otherwise in another program


def compiled_or_not(subject: Subject) -> str:
    """What `jit` computes is what Python computes."""
    case = _cases(subject)[0]
    keys = [jax.random.fold_in(subject.key, place) for place in range(_NUM_KEYS)]
    plain = _stacked([_ask(subject, case, place) for place in range(_NUM_KEYS)])
    fast = [_plain(_within(subject.sampler, case.p, case.q, case.p.argmax(), key)) for key in keys]
    if fast[0]:
        _equal("within `jit`", _stacked(fast), {name: plain[name] for name in fast[0]}, 10 * case.tolerance)
    if subject.level.without_jit:
        with jax.disable_jit():
            slow = _stacked([_ask(subject, case, place) for place in range(_NUM_KEYS)])
        _equal("without `jit`", slow, plain, 10 * case.tolerance)
    return f"{len(plain)} questions"


def batched(subject: Subject) -> str:
    """A batch is its members one by one, wherever they stand in it."""
    tried = [(case, place) for case in _cases(subject) for place in range(_NUM_KEYS)]
    p, q, x = (np.stack(each) for each in zip(*((case.p, case.q, case.p.argmax()) for case, _ in tried), strict=True))
    keys = jnp.stack([jax.random.fold_in(subject.key, place) for _, place in tried])
    together = _plain(_together(subject.sampler, p, q, x, keys))
    turned = _plain(_together(subject.sampler, p[::-1], q[::-1], x[::-1], keys[::-1]))
    tolerance, back = 10 * tried[0][0].tolerance, jax.tree.map(lambda each: each[::-1], turned)
    _equal("in a batch that stands in another order", back, together, tolerance)
    alone = _stacked([_ask(subject, case, place, compiled=True) for case, place in tried])
    _equal("in a batch", together, alone, tolerance)
    some = slice(None, None, _NUM_KEYS + 1)
    alone = _stacked([_ask(subject, case, place) for case, place in tried[some]])
    alone = {name: alone[name] for name in together}
    _equal("in a batch", jax.tree.map(lambda each: each[some], together), alone, tolerance)
    return f"{len(together)} questions in batches of {len(tried)}"


def repeated(subject: Subject) -> str:
    """The same question has the same answer, whatever was asked in between: there is nothing to remember."""
    first, second = _cases(subject)[:2]
    number = 0
    for compiled in (True, False) if subject.level.without_jit else (True,):
        with jax.disable_jit(not compiled):
            once = _ask(subject, first, 0)
            if compiled:
                _ask(subject, second, 1)
            again = _ask(subject, first, 0)
        for name, answer in once.items():
            same = jax.tree.map(lambda here, there: np.array_equal(here, there, equal_nan=True), answer, again[name])
            if not all(jax.tree.leaves(same)):
                raise BrokenError(f"`{name}` answers differently when it is asked again")
            number += 1
    return f"{number} questions asked again"


def refused(subject: Subject) -> str:
    """What cannot be is refused: logits that are none, and observations of the impossible."""
    case = subject.case("sparse", subject.native)
    spoilt = np.where(np.arange(case.p.size) == 0, np.nan, case.p)
    possible = int(case.p.argmax())
    number = 0
    for what, wrong, x in (
        ("NaN among the logits", spoilt, possible),
        ("no outcome possible", np.full_like(case.p, -np.inf), possible),
        ("an outcome that does not exist", case.p, case.p.size),
        ("an outcome below zero", case.p, -1),
        *(("an outcome that is impossible", case.p, int(each)) for each in np.flatnonzero(case.p == -np.inf)[:1]),
    ):
        for name, question in questions(subject.sampler, wrong, case.q, x, subject.key):
            if x == possible or name in ("counterfactual", "counterfactual_probs", "abduct"):
                must_refuse(f"`{name}` with {what}", question)
                number += 1
    return f"{number} questions"


def must_refuse(name: str, question: Callable[[], Any]) -> None:
    """Raises an error unless the question is refused with a message."""
    try:
        question()
    except InputError as refusal:
        if not str(refusal):
            raise BrokenError(f"{name} refuses without a message") from refusal
    except Exception as error:  # a crash somewhere inside is no refusal
        raise BrokenError(f"{name} raises {type(error).__name__} instead of an InputError") from error
    else:
        raise BrokenError(f"{name} answers")


def questions(sampler: AbstractSampler, p: Any, q: Any, x: Any, key: PRNGKeyArray) -> Questions:
    """Everything public that takes logits, as functions to call."""
    size, dtype = jnp.size(p), jnp.result_type(p)
    yield "pair", lambda: sampler.pair(p, q, key=key)
    yield "counterfactual", lambda: sampler.counterfactual(p, q, x, key=key)
    if isinstance(sampler, AbstractCoupling):
        exact, loss = sampler, np.cos(np.arange(size * size)).reshape(size, size).astype(dtype)
        yield "joint", lambda: exact.joint(p, q)
        yield "counterfactual_probs", lambda: exact.counterfactual_probs(p, q, x)
        yield "expected_loss", lambda: exact.expected_loss(p, q, loss)
    if isinstance(sampler, AbstractNoiseSampler):
        noisy: AbstractNoiseSampler[Any] = sampler
        yield "abduct", lambda: noisy.abduct(p, x, key=key)
        yield "respond", lambda: noisy.respond(noisy.noise(size, key=key, dtype=dtype), p)


def _cases(subject: Subject) -> list[Case]:
    return [case for case in subject.cases(subject.native) if case.name in GENERIC]


def _ask(subject: Subject, case: Case, place: int, *, compiled: bool = False) -> dict[str, Any]:
    """Asks everything about the likeliest outcome, with one of the keys; or only what compiles itself."""
    key = jax.random.fold_in(subject.key, place)
    asked = questions(subject.sampler, case.p, case.q, int(case.p.argmax()), key)
    return {name: _plain(question()) for name, question in asked if name in _COMPILED or not compiled}


def _plain(answer: Any) -> Any:
    return jax.tree.map(np.asarray, eqx.filter(answer, eqx.is_array))


def _stacked(answers: list[dict[str, Any]]) -> dict[str, Any]:
    return jax.tree.map(lambda *each: np.stack(each), *answers)


def _equal(how: str, found: dict[str, Any], expected: dict[str, Any], tolerance: float) -> None:
    """Numbers are close, outcomes are the same but for ties."""
    for name, answer in expected.items():
        for there, here in zip(jax.tree.leaves(answer), jax.tree.leaves(found[name]), strict=True):
            if here.shape != there.shape or here.dtype != there.dtype:
                kinds = [f"{each.dtype} of shape {each.shape[1:]}" for each in (here, there)]
                raise BrokenError(f"`{name}` {how} is {kinds[0]}, not {kinds[1]}")
            finite = np.isfinite(there) if there.dtype.kind == "f" else np.zeros(there.shape, bool)
            margin = tolerance * max(1.0, float(np.abs(there[finite]).max(initial=0.0)))
            wrong = np.where(finite, ~(np.abs(here - there) <= margin), here != there)
            if wrong.sum() > (0 if there.dtype.kind == "f" else _MOST_TIES):
                raise BrokenError(f"`{name}` {how} is {here[wrong][0]:.6g} instead of {there[wrong][0]:.6g}")


@eqx.filter_jit
def _within(sampler: AbstractSampler, p: ArrayLike, q: ArrayLike, x: ArrayLike, key: PRNGKeyArray) -> dict[str, Any]:
    """Asks what is not compiled when it is asked outside of `jit`."""
    asked = questions(sampler, jnp.asarray(p), jnp.asarray(q), jnp.asarray(x), key)
    return {name: question() for name, question in asked if name not in _COMPILED}


@eqx.filter_jit
def _together(sampler: AbstractSampler, p: ArrayLike, q: ArrayLike, x: ArrayLike, keys: Keys) -> dict[str, Any]:
    def one(p: Array, q: Array, x: Array, key: PRNGKeyArray) -> dict[str, Any]:
        within = ("abduct", "respond")  # the others
        return {name: ask() for name, ask in questions(sampler, p, q, x, key) if name not in within}

    return jax.vmap(one)(jnp.asarray(p), jnp.asarray(q), jnp.asarray(x), keys)


_NUM_SAMPLES = 16_384
_MOST_FOR_DRAWS = 64  # that many outcomes have thousands of cells, about which a few draws say nothing
_SMOOTH = 33


def truthful(subject: Subject, level: float, key: PRNGKeyArray) -> str:
    """A coupling for any number of outcomes keeps its laws for others; one for a fixed number refuses others."""
    sampler = subject.sampler
    others = [size for size in subject.level.other_sizes if size != subject.size]
    if sampler.num_outcomes is not None:
        others = [each for each in (1, subject.size + 3) if each != subject.size]
    for other in others:
        try:
            if sampler.num_outcomes is None:
                _works(subject, other, level / len(others), jax.random.fold_in(key, other))
            else:
                case = subject.cases(subject.native, other)[0]
                for name, question in questions(sampler, case.p, case.q, int(case.p.argmax()), subject.key):
                    must_refuse(f"`{name}`", question)
        except BrokenError as broken:
            raise BrokenError(f"`num_outcomes` is {sampler.num_outcomes}, but with {other}, {broken}") from None
    done = "works for" if sampler.num_outcomes is None else "refuses"
    return f"{done} {' and '.join(map(str, others))} outcomes"


def _works(subject: Subject, size: int, level: float, key: PRNGKeyArray) -> None:
    try:
        if isinstance(subject.sampler, AbstractCoupling):
            _exactly(subject, size)
        if size <= _MOST_FOR_DRAWS:
            finding = look(subject, subject.cases(subject.native, size)[0], _NUM_SAMPLES, key)
            if finding.value < level:
                raise BrokenError(f"{finding.what} does not follow its law: p-value {finding.value:.2g}")
    except BrokenError:
        raise
    except Exception as error:  # whatever a coupling fails with where it promised to work
        raise BrokenError(f"it fails: {type(error).__name__}: {error}") from error


def _exactly(subject: Subject, size: int) -> None:
    answers = [answer for dtype in subject.drawn_in for answer in subject.answers(size, dtype)]
    laws: list[Callable[..., float]] = [_exact_laws.marginals, _exact_laws.rows, partial(_exact_laws.losses, subject)]
    if isinstance(subject.sampler, AbstractMechanism):
        laws.append(partial(_exact_laws.exchange, subject))
    for law in laws:
        on_each(answers, law)
    if size == _SMOOTH and subject.level.both_precisions:
        _exact_laws.right(subject, size)
