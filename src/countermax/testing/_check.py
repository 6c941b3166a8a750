"""Every law in turn, on one coupling."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
from jaxtyping import PRNGKeyArray

from countermax._core.errors import InputError
from countermax.couplings import AbstractArgmaxSampler, AbstractCoupling, AbstractMechanism, AbstractSampler
from countermax.testing import _draw_laws, _exact_laws, _noise_laws
from countermax.testing._queries import BrokenError, Query, on_each, queries
from countermax.testing._report import Conformance, Law


def check_coupling(
    coupling: AbstractSampler,
    num_outcomes: int,
    *,
    key: PRNGKeyArray,
    num_samples: int = 500_000,
    false_alarm: float = 1e-6,
    only: str = "",
) -> Conformance:
    """Checks the contract on queries with zeros, ties, extreme logits and equal worlds.

    Couplings without an exact law are checked by their draws alone; mechanisms also by their noise.

    Args:
        coupling: Anything built on the abstract classes of `countermax.couplings`.
        num_outcomes: The number of outcomes to try it with.
        key: Consumed once; the same key gives the same verdict.
        num_samples: Draws for each statistical law. The default finds a probability that is off by 0.01.
        false_alarm: The probability that a correct coupling fails any of the statistical laws.
        only: Checks those laws alone whose names contain this, for a quick look while you work on one.
    """
    if num_outcomes < 1:
        raise InputError(f"`num_outcomes` must be at least 1, got {num_outcomes}")
    key_queries, key_draws = jax.random.split(key)
    asked = queries(num_outcomes, key_queries)
    laws = dict(_laws(coupling, asked, num_samples, false_alarm, key_draws))
    wanted = {name: law for name, law in laws.items() if only in name}
    if not wanted:
        raise InputError(f"`only` must be part of a law's name ({'; '.join(laws)}), got {only!r}")
    found = tuple(_guarded(name, law) for name, law in wanted.items())
    return Conformance(type(coupling).__name__, num_outcomes, found)


def _laws(
    coupling: AbstractSampler, asked: list[Query], num_samples: int, false_alarm: float, key: PRNGKeyArray
) -> Iterator[tuple[str, Callable[[], str]]]:
    """Each law as a function that returns what it saw, or raises `BrokenError`."""
    level = false_alarm / _draw_laws.NUM_STATISTICAL_TESTS
    if isinstance(coupling, AbstractCoupling):
        exact, size = coupling, asked[0].p.size
        yield "the joint law has both marginals", lambda: on_each(asked, partial(_exact_laws.marginals, exact))
        yield "a counterfactual row is the joint's row", lambda: on_each(asked, partial(_exact_laws.rows, exact))
        yield "logits may be shifted by a constant", lambda: on_each(asked, partial(_exact_laws.shift, exact))
        yield "gradients are finite, or refused", lambda: _exact_laws.gradients(exact, asked)
        yield "other sizes work or are refused", lambda: _draw_laws.other_sizes(exact, size, level, key)
    for index, query in enumerate(query for query in asked if query.name != "extreme"):
        key_query = jax.random.fold_in(key, index)
        draws = partial(_draw_laws.draws, coupling, query, num_samples, level, key_query)
        yield f"draws follow the law ({query.name})", draws
    if isinstance(coupling, AbstractMechanism):
        mechanism: AbstractMechanism[Any] = coupling
        yield (
            "abducted noise explains what was seen",
            lambda: on_each(asked, lambda query: _noise_laws.explains(mechanism, query, key)),
        )
    if isinstance(coupling, AbstractArgmaxSampler):
        argmax: AbstractArgmaxSampler[Any] = coupling
        yield (
            "the relaxation points at the response",
            lambda: on_each(asked, lambda query: _noise_laws.relaxes(argmax, query, key)),
        )


def _guarded(name: str, law: Callable[[], str]) -> Law:
    try:
        return Law(name, True, law())
    except BrokenError as broken:
        return Law(name, False, str(broken))
    except Exception as error:  # a coupling that crashes breaks the law, and the report should still be complete
        return Law(name, False, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
