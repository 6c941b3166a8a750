"""What the conformance suite finds: how often it catches a coupling that is off by so much, and what it costs.

Every mutant is Gumbel-max, or inverse CDF, with five outcomes and one fault of a stated size; every run has another
key, and with it other logits. Only the law that the fault breaks is checked, at its share of the default false alarm.
The last size of each is no fault at all: what is found there is a false alarm.
"""

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.measure import Row
from countermax import Gadget1, Gadget2, GumbelMax, InverseCDF, Maximal
from countermax.couplings import AbstractCoupling, AbstractMechanism, AbstractSampler
from countermax.testing import check_coupling

_SEED = 0
_NUM_OUTCOMES = 5
_NUM_RUNS = {"quick": 40, "thorough": 10}


class _Mutant(AbstractMechanism, AbstractCoupling):
    """A mechanism by delegation, with a fault of size `fault`."""

    fault: float

    @property
    def mechanism(self) -> Any:
        """What is right about it."""
        return GumbelMax()

    @property
    def num_outcomes(self) -> int | None:
        """Any number."""
        return None

    def noise(self, num_outcomes: int, *, key: Any, dtype: Any = float) -> Any:
        """The mechanism's own."""
        return self.mechanism.noise(num_outcomes, key=key, dtype=dtype)

    def _respond(self, noise: Any, log_p: Any) -> Any:
        return self.mechanism._respond(noise, log_p)

    def _abduct(self, log_p: Any, x: Any, *, key: Any) -> Any:
        return self.mechanism._abduct(log_p, x, key=key)

    def _joint(self, log_p: Any, log_q: Any) -> Any:
        return self.mechanism._joint(log_p, log_q)

    def _counterfactual_probs(self, log_p: Any, log_q: Any, x: Any) -> Any:
        return self.mechanism._counterfactual_probs(log_p, log_q, x)


class _DrawnTooOften(_Mutant):
    def _respond(self, noise: Any, log_p: Any) -> Any:
        return self.mechanism._respond(noise, log_p.at[0].add(jnp.log1p(self.fault)))


class _Forgetful(_Mutant):
    def _counterfactual(self, log_p: Any, log_q: Any, x: Any, *, key: Any) -> Any:
        key_fault, key_fresh, key_answer = jax.random.split(key, 3)
        fresh = jax.random.categorical(key_fresh, log_q)
        answer = super()._counterfactual(log_p, log_q, x, key=key_answer)
        return jnp.where(jax.random.bernoulli(key_fault, self.fault), fresh, answer)


class _WinnerScaled(_Mutant):
    """Where the winner still wins."""

    def _abduct(self, log_p: Any, x: Any, *, key: Any) -> Any:
        noise = super()._abduct(log_p, x, key=key)
        scaled = noise.at[x].multiply(1 + self.fault)
        return jnp.where(self._respond(scaled, log_p) == x, scaled, noise)


class _IntervalCut(_Mutant):
    @property
    def mechanism(self) -> Any:
        return InverseCDF()

    def _abduct(self, log_p: Any, x: Any, *, key: Any) -> Any:
        begin = jnp.cumsum(jnp.exp(log_p))[x] - jnp.exp(log_p[x])
        return begin + (1 - self.fault) * (super()._abduct(log_p, x, key=key) - begin)


class _NotExplained(_Mutant):
    def _abduct(self, log_p: Any, x: Any, *, key: Any) -> Any:
        key_fault, key_noise = jax.random.split(key)
        ignorant = self.noise(log_p.size, key=key_noise, dtype=log_p.dtype)
        fault = jax.random.bernoulli(key_fault, self.fault)
        return jnp.where(fault, ignorant, super()._abduct(log_p, x, key=key_noise))


class _Coarse(_Mutant):
    @property
    def mechanism(self) -> Any:
        return InverseCDF()

    def noise(self, num_outcomes: int, *, key: Any, dtype: Any = float) -> Any:
        steps = 2.0**self.fault
        return (jnp.floor(jax.random.uniform(key, (), dtype) * steps) / steps).astype(dtype)


class _LawOff(_Mutant):
    def _joint(self, log_p: Any, log_q: Any) -> Any:
        law = super()._joint(log_p, log_q).at[0].multiply(1 + self.fault)
        return law / law.sum()


class _SlopeOff(_Mutant):
    def _joint(self, log_p: Any, log_q: Any) -> Any:
        law = super()._joint(log_p, log_q)
        return (1 + self.fault) * law - self.fault * jax.lax.stop_gradient(law)


_DRAWS = "draws follow the law (random)"
_POSTERIOR = "abducted noise is distributed as noise"
_TRIED: tuple[tuple[str, Callable[[float], AbstractSampler], str, tuple[float, ...], str], ...] = (
    ("an outcome is drawn too often by", _DrawnTooOften, _DRAWS, (0.1, 0.03, 0.01, 0.003, 0), "%"),
    ("counterfactuals that forget what was seen:", _Forgetful, _DRAWS, (0.1, 0.03, 0.01, 0.003, 0), "%"),
    ("abducted noise of the winner is too large by", _WinnerScaled, _POSTERIOR, (0.1, 0.03, 0.01, 0.003, 0), "%"),
    ("an outcome's interval is cut in abduction by", _IntervalCut, _POSTERIOR, (0.03, 0.01, 0.003, 0.001, 0), "%"),
    (
        "abductions that do not explain what was seen:",
        _NotExplained,
        "abducted noise explains what was seen",
        (1e-3, 1e-4, 1e-5, 0),
        "%",
    ),
    ("noise of so many bits:", _Coarse, "noise is fine-grained", (16, 18, 19, 20, 40), ""),
    (
        "a row of the joint law is off by",
        _LawOff,
        "the joint law has both marginals",
        (1e-2, 1e-6, 1e-11, 1e-13, 0),
        "%",
    ),
    ("a gradient is off by", _SlopeOff, "gradients are those of differences", (0.1, 0.01, 1e-3, 1e-5, 0), "%"),
)


def rows() -> Iterator[Row]:
    """All measurements of this file."""
    for what, mutant, law, faults, unit in _TRIED:
        for fault in faults:
            size = f"{100 * fault:g} %" if unit else f"{fault:g}"
            for level, number in _NUM_RUNS.items():
                found = sum(_caught(mutant(jnp.asarray(fault, float)), law, level, run) for run in range(number))
                yield Row(
                    f"{what} {size}; {level}", found / number, "of runs", f"{number} keys from seed {_SEED}; {law}"
                )
    yield from _costs()


def _caught(mutant: AbstractSampler, law: str, level: Any, run: int) -> bool:
    key = jax.random.fold_in(jax.random.key(_SEED), run)
    (verdict,) = check_coupling(mutant, _NUM_OUTCOMES, key=key, level=level, only=law).laws
    if re.match(r"\w+(Error|Exception|Warning):", verdict.detail):
        raise RuntimeError(f"a crash is no finding: {verdict.detail}")
    return not verdict.passed


def _costs() -> Iterator[Row]:
    """From nothing: what has been compiled is forgotten before each check."""
    key = jax.random.key(_SEED)
    for coupling in (
        Maximal(),
        InverseCDF(),
        GumbelMax(),
        Gadget1(_NUM_OUTCOMES, key=key),
        Gadget2(_NUM_OUTCOMES, key=key),
    ):
        for level in ("quick", "thorough"):
            jax.clear_caches()
            start = time.perf_counter()
            check_coupling(coupling, _NUM_OUTCOMES, key=key, level=level).raise_if_broken()  # type: ignore[arg-type]
            yield Row(
                f"{type(coupling).__name__}, 5 outcomes; {level}", time.perf_counter() - start, "s", "and it passes"
            )
