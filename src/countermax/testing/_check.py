"""Every law in turn, on one coupling."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import Any, NamedTuple, final

import jax
from jaxtyping import PRNGKeyArray

from countermax import _plotting as plotting
from countermax._core.checks import as_key
from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.quantities import as_choice, as_count
from countermax._core.results import AbstractResult, Row, Table
from countermax.couplings import (
    AbstractArgmaxSampler,
    AbstractCoupling,
    AbstractMechanism,
    AbstractNoiseSampler,
    AbstractSampler,
)
from countermax.testing import _calling_laws, _draw_laws, _exact_laws, _noise_laws
from countermax.testing._subject import BOTH, LEVELS, BrokenError, Subject, on_each


class Law(NamedTuple):
    """One law and how the coupling fared."""

    name: str
    passed: bool
    detail: str


@final
@dataclass(frozen=True)
class Conformance(AbstractResult):
    """The verdict on a coupling, law by law."""

    coupling: str
    num_outcomes: int
    level: str
    """`quick` or `thorough`."""
    num_samples: int
    """Draws for each statistical law."""
    false_alarm: float
    """The probability that a correct coupling fails any of the statistical laws."""
    laws: tuple[Law, ...]

    assumptions = ()

    @property
    def passed(self) -> bool:
        """Whether all laws hold."""
        return all(law.passed for law in self.laws)

    @property
    def broken(self) -> tuple[str, ...]:
        """The names of the laws that do not hold."""
        return tuple(law.name for law in self.laws if not law.passed)

    @property
    def title(self) -> str:
        return f"{self.coupling} with {self.num_outcomes} outcomes: the laws of a coupling ({self.level} check)"

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(Row(law.name, f"{self.coupling}, 1 if it holds", "", float(law.passed)) for law in self.laws)

    @property
    def sample(self) -> str:
        return f"{self.num_samples:,} draws for each statistical law, false alarm {self.false_alarm:.0e} in all"

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"BROKEN: {law.name}: {law.detail}" for law in self.laws if not law.passed)

    def _summary(self) -> str:
        if self.passed:
            return f"{self.coupling} conforms: {len(self.laws)} laws hold."
        return f"{self.coupling} DOES NOT CONFORM: {len(self.broken)} of {len(self.laws)} laws are broken."

    def raise_if_broken(self) -> None:
        """Fails with the laws that are broken as the message, for use in a test."""
        if not self.passed:
            raise AssertionError("\n".join([self._summary(), *self.notes]))

    def tables(self) -> list[Table]:
        """Which laws hold."""
        return [Table(["law", ""], [[law.name, "holds" if law.passed else "BROKEN"] for law in self.laws], 2)]

    def _plot(self) -> "plotting.Figure":
        title = f"{self.coupling}, {self.num_outcomes} outcomes"
        return plotting.draw_verdicts({law.name: law.passed for law in self.laws}, title)

    def _details(self) -> Mapping[str, Any]:
        return {**vars(self), "passed": self.passed}


class _Check(NamedTuple):
    """A law as a function that returns what it saw, or raises `BrokenError`."""

    name: str
    check: Callable[..., str]
    statistical: bool = False
    """Whether the check takes a false-alarm level."""


def check_coupling(
    coupling: AbstractSampler,
    num_outcomes: int,
    *,
    key: PRNGKeyArray,
    level: str = "quick",
    num_samples: int | None = None,
    false_alarm: float = 1e-6,
    only: str = "",
) -> Conformance:
    """Checks the contract in cases with zeros, ties, rare outcomes, extreme logits and equal worlds.

    Which laws there are depends on what the coupling is:

    - Any sampler: draws follow the law; a batch is its members one by one; the answer is the same compiled or not, and
      when asked again; what cannot be is refused; `num_outcomes` is true (where it is None other sizes keep the laws,
      where it is a number they are refused with a message).
    - `AbstractCoupling`: the joint law has both marginals; a counterfactual row is the joint's row, and defined for the
      rarest outcome or refused; an expected loss is the joint's sum; logits may be shifted by a constant; single and
      double precision agree; gradients are finite, and those of differences, or refused.
    - `AbstractNoiseSampler`: noise is of the kind asked for and fine-grained; abducted noise explains what was seen and
      is distributed as noise that would have shown it; pairs and counterfactuals are responses to noise.
    - `AbstractMechanism`: where nothing is done nothing changes, in pairs, counterfactuals and exact rows; worlds may
      be exchanged.
    - `AbstractArgmaxSampler`: the relaxation is the softmax of scores over the temperature.

    Exact laws are checked in single and in double precision, whatever JAX's default is. A coupling without an exact law
    is checked by its draws: pairs, and facts with their counterfactuals, must have both marginals and follow one law.
    A statistical law that looks suspicious is looked at again with more draws before it is called broken.

    Args:
        coupling: Anything built on the abstract classes of `countermax.couplings`.
        num_outcomes: Number of outcomes to try it with; its own, where it has one.
        key: Key of all draws, consumed once; the same key gives the same verdict.
        level: Thoroughness: `quick` while you write a coupling, `thorough` before you rely on it: more draws, in
            more cases and both precisions, and more numbers of outcomes.
        num_samples: Draws for each statistical law; by default 100,000 (quick) or 4,000,000 (thorough).
        false_alarm: Probability that a correct coupling fails any of the statistical laws.
        only: Part of the names of the laws to check, for a quick look while you work on one.
    """
    if isinstance(coupling, type):
        raise InputError(f"`coupling` must be an object, got the class {coupling.__name__}; call it first")
    as_choice("`level`", level, LEVELS)
    num_outcomes = as_count("`num_outcomes`", num_outcomes)
    num_samples = None if num_samples is None else as_count("`num_samples`", num_samples)
    if not 0 < false_alarm < 1:
        raise InputError(f"`false_alarm` must lie between 0 and 1, got {false_alarm}")
    if coupling.num_outcomes not in (None, num_outcomes):
        raise InputError(f"`num_outcomes` must be the coupling's own, {coupling.num_outcomes}, got {num_outcomes}")
    check_memory(f"joint laws of {num_outcomes} outcomes", 1000 * num_outcomes**2, "lower `num_outcomes`")
    asked = LEVELS[level] if num_samples is None else LEVELS[level]._replace(num_samples=num_samples)
    key_cases, key_draws = jax.random.split(as_key(key))
    laws = list(_laws(Subject(coupling, num_outcomes, asked, key_cases), key_draws))
    wanted = [law for law in laws if only in law.name]
    if not wanted:
        names = "; ".join(law.name for law in laws)
        raise InputError(f"`only` must be part of a law's name ({names}), got {only!r}")
    share = false_alarm / sum(law.statistical for law in laws)
    found = tuple(_guarded(law, share) for law in wanted)
    return Conformance(type(coupling).__name__, num_outcomes, level, asked.num_samples, false_alarm, found)


def _laws(subject: Subject, key: PRNGKeyArray) -> Iterator[_Check]:
    sampler = subject.sampler
    if isinstance(sampler, AbstractCoupling):
        yield from _exact(subject)
    yield _Check("what cannot be is refused", partial(_calling_laws.refused, subject))
    yield _Check("a batch is its members one by one", partial(_calling_laws.batched, subject))
    yield _Check("compiled or not, the answer is the same", partial(_calling_laws.compiled_or_not, subject))
    yield _Check("the same question has the same answer", partial(_calling_laws.repeated, subject))
    if isinstance(sampler, AbstractNoiseSampler):
        yield from _noisy(subject, jax.random.fold_in(key, 1))
    if isinstance(sampler, AbstractArgmaxSampler):
        yield _Check("the relaxation is the softmax of scores", partial(_noise_laws.relaxes, subject))
    drawn = [subject.case(name, subject.native) for name in subject.level.drawn]
    drawn += [subject.case(subject.level.drawn[0], dtype) for dtype in subject.drawn_in[1:]]
    for place, case in enumerate(drawn):
        what = case.name if case.p.dtype == subject.native else f"{case.name}, {case.p.dtype}"
        draws = partial(_draw_laws.draws, subject, case, key=jax.random.fold_in(key, 100 + place))
        yield _Check(f"draws follow the law ({what})", draws, True)
    yield _Check("the number of outcomes is true", partial(_calling_laws.truthful, subject, key=key), True)


def _exact(subject: Subject) -> Iterator[_Check]:
    def on_all(law: Callable[..., float], *arguments: Any) -> Callable[[], str]:
        answers = (each for dtype in BOTH for each in subject.answers(subject.size, dtype))
        return lambda: on_each(answers, partial(law, *arguments))

    yield _Check("the joint law has both marginals", on_all(_exact_laws.marginals))
    yield _Check("a counterfactual row is the joint's row", on_all(_exact_laws.rows))
    yield _Check("the rarest outcomes have rows, or are refused", partial(_exact_laws.rarest, subject))
    yield _Check("an expected loss is the joint's sum", on_all(_exact_laws.losses, subject))
    yield _Check("logits may be shifted by a constant", on_all(_exact_laws.shift, subject))
    yield _Check("single and double precision agree", partial(_exact_laws.precisions, subject))
    yield _Check("gradients are finite, or refused", partial(_exact_laws.finite, subject))
    yield _Check("gradients are those of differences", partial(_exact_laws.right, subject))
    if isinstance(subject.sampler, AbstractMechanism):
        yield _Check("worlds may be exchanged", on_all(_exact_laws.exchange, subject))
        yield _Check("rows of equal worlds stay as they are", on_all(_exact_laws.still, subject))


def _noisy(subject: Subject, key: PRNGKeyArray) -> Iterator[_Check]:
    yield _Check("noise is of the kind that was asked for", partial(_noise_laws.of_its_kind, subject))
    yield _Check("noise is fine-grained", partial(_noise_laws.fine, subject), True)
    yield _Check("abducted noise explains what was seen", partial(_noise_laws.explains, subject))
    yield _Check("abducted noise is distributed as noise", partial(_noise_laws.posterior, subject, key=key), True)
    yield _Check("pairs and counterfactuals are responses to noise", partial(_noise_laws.composed, subject))
    if isinstance(subject.sampler, AbstractMechanism):
        yield _Check("where nothing is done nothing changes", partial(_noise_laws.unchanged, subject))


def _guarded(law: _Check, share: float) -> Law:
    try:
        return Law(law.name, True, law.check(level=share) if law.statistical else law.check())
    except BrokenError as broken:
        return Law(law.name, False, str(broken))
    except Exception as error:  # a coupling that crashes breaks the law, and the report should still be complete
        said = str(error).splitlines()[0] if str(error) else ""
        where = extract_tb(error.__traceback__)[-1]
        return Law(
            law.name, False, f"{type(error).__name__}: {said} ({Path(where.filename).name}, line {where.lineno})"
        )
