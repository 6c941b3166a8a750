"""Laws of sizes: what `num_outcomes` says is true."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from countermax._core.errors import InputError
from countermax.couplings import AbstractCoupling, AbstractNoiseSampler, AbstractSampler
from countermax.testing._cases import BrokenError, Case, cases
from countermax.testing._draw_laws import draws
from countermax.testing._exact_laws import marginals, rows

_NUM_SAMPLES = 4096


def truthful(coupling: AbstractSampler, size: int, level: float, key: PRNGKeyArray) -> str:
    """A coupling for any number of outcomes works for others; one for so many refuses others in words."""
    others = sorted({1, size + 3} - {size})
    for other in others:
        key_other = jax.random.fold_in(key, other)
        case = cases(other, key_other)[0]
        try:
            if coupling.num_outcomes is None:
                _works(coupling, case, level, key_other)
            else:
                _refuses(coupling, case, key_other)
        except BrokenError as broken:
            raise BrokenError(f"`num_outcomes` is {coupling.num_outcomes}, but with {other}, {broken}") from None
    done = "works for" if coupling.num_outcomes is None else "refuses"
    return f"{done} {' and '.join(map(str, others))} outcomes"


def _works(coupling: AbstractSampler, case: Case, level: float, key: PRNGKeyArray) -> None:
    try:
        if isinstance(coupling, AbstractCoupling):
            marginals(coupling, case)
            rows(coupling, case)
        draws(coupling, case, _NUM_SAMPLES, level, key)
    except BrokenError:
        raise
    except Exception as error:  # whatever a coupling fails with where it promised to work
        raise BrokenError(f"it fails: {type(error).__name__}: {error}") from error


def _refuses(coupling: AbstractSampler, case: Case, key: PRNGKeyArray) -> None:
    for name, question in _questions(coupling, case, key):
        try:
            question()
        except InputError as refusal:
            if not str(refusal):
                raise BrokenError(f"`{name}` refuses without a word") from refusal
        except Exception as error:  # a crash somewhere inside is no refusal
            raise BrokenError(f"`{name}` raises {type(error).__name__} instead of an InputError") from error
        else:
            raise BrokenError(f"`{name}` answers")


def _questions(coupling: AbstractSampler, case: Case, key: PRNGKeyArray) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Everything public that takes logits."""
    p, q, x = case.p, case.q, int(case.p.argmax())
    yield "pair", lambda: coupling.pair(p, q, key=key)
    yield "counterfactual", lambda: coupling.counterfactual(p, q, x, key=key)
    if isinstance(coupling, AbstractCoupling):
        exact = coupling
        yield "joint", lambda: exact.joint(p, q)
        yield "counterfactual_probs", lambda: exact.counterfactual_probs(p, q, x)
        yield "expected_loss", lambda: exact.expected_loss(p, q, np.zeros((p.size, p.size), p.dtype))
    if isinstance(coupling, AbstractNoiseSampler):
        sampler: AbstractNoiseSampler[Any] = coupling
        yield "abduct", lambda: sampler.abduct(p, x, key=key)
        yield "respond", lambda: sampler.respond(sampler.noise(p.size, key=key, dtype=p.dtype), p)
