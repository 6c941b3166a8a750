"""Every law in turn, on one coupling."""

from collections.abc import Callable, Iterator
from functools import partial

import jax
from jaxtyping import PRNGKeyArray

from countermax._core.errors import InputError
from countermax.couplings import (
    AbstractArgmaxSampler,
    AbstractCoupling,
    AbstractMechanism,
    AbstractNoiseSampler,
    AbstractSampler,
)
from countermax.testing import _draw_laws, _exact_laws, _noise_laws, _size_laws
from countermax.testing._cases import BrokenError, Case, cases, on_each
from countermax.testing._conformance import Conformance, Law


def check_coupling(
    coupling: AbstractSampler,
    num_outcomes: int,
    *,
    key: PRNGKeyArray,
    num_samples: int = 500_000,
    false_alarm: float = 1e-6,
    only: str = "",
) -> Conformance:
    """Checks the contract in cases with zeros, ties, extreme logits and equal worlds.

    Which laws there are depends on what the coupling is:

    - Any sampler: draws follow the law; `num_outcomes` is true (where it is None other sizes work, where it is a number
      they are refused in words).
    - `AbstractCoupling`: the joint law has both marginals; a counterfactual row is the joint's row; an expected loss is
      the joint's sum; logits may be shifted by a constant; gradients are finite, or refused.
    - `AbstractNoiseSampler`: abducted noise explains what was seen.
    - `AbstractMechanism`: where nothing is done nothing changes, in pairs, counterfactuals and exact rows.
    - `AbstractArgmaxSampler`: the relaxation points at the response.

    A coupling without an exact law is checked by its draws: pairs, and facts with their counterfactuals, must have both
    marginals and follow one law.

    Args:
        coupling: Anything built on the abstract classes of `countermax.couplings`.
        num_outcomes: Number of outcomes to try it with; its own, where it has one.
        key: Consumed once; the same key gives the same verdict.
        num_samples: Draws for each statistical law. The default finds a probability that is off by 0.01.
        false_alarm: Probability that a correct coupling fails any of the statistical laws.
        only: Part of the names of the laws to check, for a quick look while you work on one.
    """
    if num_outcomes < 1:
        raise InputError(f"`num_outcomes` must be at least 1, got {num_outcomes}")
    if coupling.num_outcomes not in (None, num_outcomes):
        raise InputError(f"`num_outcomes` must be the coupling's own, {coupling.num_outcomes}, got {num_outcomes}")
    key_cases, key_draws = jax.random.split(key)
    tried = cases(num_outcomes, key_cases)
    laws = dict(_laws(coupling, tried, num_samples, false_alarm, key_draws))
    wanted = {name: law for name, law in laws.items() if only in name}
    if not wanted:
        raise InputError(f"`only` must be part of a law's name ({'; '.join(laws)}), got {only!r}")
    found = tuple(_guarded(name, law) for name, law in wanted.items())
    return Conformance(type(coupling).__name__, num_outcomes, num_samples, false_alarm, found)


def _laws(
    coupling: AbstractSampler, tried: list[Case], num_samples: int, false_alarm: float, key: PRNGKeyArray
) -> Iterator[tuple[str, Callable[[], str]]]:
    """Each law as a function that returns what it saw, or raises `BrokenError`."""
    level = false_alarm / _draw_laws.NUM_STATISTICAL_TESTS
    if isinstance(coupling, AbstractCoupling):
        exact = coupling
        yield "the joint law has both marginals", lambda: on_each(tried, partial(_exact_laws.marginals, exact))
        yield "a counterfactual row is the joint's row", lambda: on_each(tried, partial(_exact_laws.rows, exact))
        yield "an expected loss is the joint's sum", lambda: on_each(tried, partial(_exact_laws.losses, exact))
        yield "logits may be shifted by a constant", lambda: on_each(tried, partial(_exact_laws.shift, exact))
        yield "gradients are finite, or refused", lambda: _exact_laws.gradients(exact, tried)
    yield "the number of outcomes is true", lambda: _size_laws.truthful(coupling, tried[0].p.size, level, key)
    for index, case in enumerate(case for case in tried if case.name != "extreme"):
        key_case = jax.random.fold_in(key, index)
        draws = partial(_draw_laws.draws, coupling, case, num_samples, level, key_case)
        yield f"draws follow the law ({case.name})", draws
    if isinstance(coupling, AbstractNoiseSampler):
        explains = partial(_noise_laws.explains, coupling, key=key)
        yield "abducted noise explains what was seen", lambda: on_each(tried, explains)
    if isinstance(coupling, AbstractMechanism):
        unchanged = partial(_noise_laws.unchanged, coupling, key=key)
        yield "where nothing is done nothing changes", lambda: on_each(tried, unchanged)
    if isinstance(coupling, AbstractArgmaxSampler):
        relaxes = partial(_noise_laws.relaxes, coupling, key=key)
        yield "the relaxation points at the response", lambda: on_each(tried, relaxes)


def _guarded(name: str, law: Callable[[], str]) -> Law:
    try:
        return Law(name, True, law())
    except BrokenError as broken:
        return Law(name, False, str(broken))
    except Exception as error:  # a coupling that crashes breaks the law, and the report should still be complete
        return Law(name, False, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
