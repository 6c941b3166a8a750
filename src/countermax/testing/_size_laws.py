"""Laws of sizes: what `num_outcomes` says is true."""

from collections.abc import Callable

import jax
from jaxtyping import PRNGKeyArray

from countermax.couplings import AbstractCoupling, AbstractMechanism
from countermax.testing import _exact_laws, _gradient_laws
from countermax.testing._calling_laws import must_refuse, questions
from countermax.testing._cases import BrokenError
from countermax.testing._draw_laws import few_draws
from countermax.testing._subject import Subject, on_each

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
                _refuses(subject, other)
        except BrokenError as broken:
            raise BrokenError(f"`num_outcomes` is {sampler.num_outcomes}, but with {other}, {broken}") from None
    done = "works for" if sampler.num_outcomes is None else "refuses"
    return f"{done} {' and '.join(map(str, others))} outcomes"


def _works(subject: Subject, size: int, level: float, key: PRNGKeyArray) -> None:
    try:
        if isinstance(subject.sampler, AbstractCoupling):
            _exactly(subject, size)
        if size <= _MOST_FOR_DRAWS:
            few_draws(subject, subject.cases(subject.native, size)[0], _NUM_SAMPLES, level, key)
    except BrokenError:
        raise
    except Exception as error:  # whatever a coupling fails with where it promised to work
        raise BrokenError(f"it fails: {type(error).__name__}: {error}") from error


def _exactly(subject: Subject, size: int) -> None:
    answers = [answer for dtype in subject.drawn_in for answer in subject.answers(size, dtype)]
    laws: list[Callable[..., float]] = [
        _exact_laws.marginals,
        _exact_laws.rows,
        lambda each: _exact_laws.losses(subject, each),
    ]
    if isinstance(subject.sampler, AbstractMechanism):
        laws.append(lambda each: _exact_laws.exchange(subject, each))
    for law in laws:
        on_each(answers, law)
    if size == _SMOOTH and subject.level.both_precisions:
        _gradient_laws.right(subject, size)


def _refuses(subject: Subject, size: int) -> None:
    case = subject.cases(subject.native, size)[0]
    for name, question in questions(subject.sampler, case.p, case.q, int(case.p.argmax()), subject.key):
        must_refuse(f"`{name}`", question)
