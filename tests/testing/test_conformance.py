"""The conformance suite on every coupling, and what it reports."""

import io
import json
import re

import equinox as eqx
import jax
import numpy as np
import pytest
from broken import Healthy, HealthyLine, HealthyMatrix, HealthyScores
from rich.console import Console

from countermax import (
    Gadget1,
    Gadget2,
    GumbelMax,
    Independent,
    InputError,
    InverseCDF,
    Maximal,
    NestedGumbelMax,
    Optimal,
    SharedGumbelMax,
    VectorQuantile,
)
from countermax.couplings import AbstractSampler, BinnedInverseCDF, Comonotone
from countermax.testing import Conformance, check_coupling
from countermax.testing._check import Law
from countermax.testing._subject import cases

KEY = jax.random.key(7)

COUPLINGS = {
    "Gadget1": lambda size: Gadget1(size, key=KEY, hidden=(8,)),
    "Gadget1 with one set of parameters": lambda size: Gadget1(size, key=KEY, hidden=(8,), shared=True),
    "Gadget2": lambda size: Gadget2(size, 5, key=KEY, hidden=(8,)),
    "Gadget2 at the inverse CDF": lambda size: Gadget2(
        size, 6, key=KEY, start=BinnedInverseCDF(6, np.arange(size) * 1.0)
    ),
    "Gadget2 with accept-reject": lambda size: Gadget2(
        size, 4, key=KEY, hidden=(8,), correction="accept-reject", rounds=2
    ),
    "Independent": lambda size: Independent(),
    "Comonotone": lambda size: Comonotone(*np.random.default_rng(1).normal(size=(2, size))),
    "GumbelMax": lambda size: GumbelMax(),
    "SharedGumbelMax": lambda size: SharedGumbelMax(0.4),
    "SharedGumbelMax that shares hardly anything": lambda size: SharedGumbelMax(1e-3),
    "InverseCDF": lambda size: InverseCDF(),
    "InverseCDF in another order": lambda size: InverseCDF(np.random.default_rng(0).permutation(size)),
    "Maximal": lambda size: Maximal(),
    "NestedGumbelMax": lambda size: NestedGumbelMax(_nests(size), 0.5, labels=size),
    "NestedGumbelMax, hardly unlike": lambda size: NestedGumbelMax(_nests(size), [0.1, 1.0, 0.3], labels=size),
    "NestedGumbelMax at zero": lambda size: NestedGumbelMax(_nests(size), 0, labels=size),
    "Optimal": lambda size: Optimal(np.random.default_rng(0).normal(size=(size, size))),
    "VectorQuantile": lambda size: VectorQuantile(*_references(size, 2)),
    "VectorQuantile of one score": lambda size: VectorQuantile(*_references(size, 1)),
    "VectorQuantile with ties": lambda size: VectorQuantile(
        *(np.round(each) for each in _references(size, 3)), weights=np.arange(1.0, 8.0)
    ),
}


def _nests(size):
    """A nest within a nest, one of one outcome, and what stands alone."""
    return {"outer": [*range(size // 3), {"inner": range(size // 3, 2 * size // 3)}], "one": [size - 1]}


def _references(size, dimension):
    rng = np.random.default_rng(0)
    return rng.normal(size=(7, dimension)), rng.normal(size=(size, dimension))


SLOW = {
    "Comonotone",
    "Independent",
    "InverseCDF",
    "InverseCDF in another order",
    "Maximal",
    *(name for name in COUPLINGS if name.startswith(("Gadget", "Nested", "SharedGumbelMax", "VectorQuantile"))),
}
"""Gadgets, nests, shared clocks and vector quantiles compile for minutes; others have simpler laws than those left."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in COUPLINGS])
def test_every_coupling_obeys_every_law(name):
    check_coupling(COUPLINGS[name](5), 5, key=jax.random.key(0)).raise_if_broken()


@pytest.mark.parametrize("law", ["both marginals", "the joint's row", "(random)"])
@pytest.mark.parametrize("name", ["Gadget1", "Gadget2"])
def test_gadgets_obey_the_laws_that_are_quickly_checked(name, law):
    check_coupling(COUPLINGS[name](4), 4, key=jax.random.key(0), only=law).raise_if_broken()


@pytest.mark.slow
@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", ["Independent", "GumbelMax"])
def test_every_law_holds_where_double_precision_is_the_default(name):
    check_coupling(COUPLINGS[name](4), 4, key=jax.random.key(1)).raise_if_broken()


@pytest.mark.slow
def test_a_single_outcome_obeys_every_law():
    check_coupling(InverseCDF(), 1, key=jax.random.key(0)).raise_if_broken()


@pytest.mark.slow
@pytest.mark.parametrize("key", range(3))
@pytest.mark.parametrize("size", [1, 3, 30])
@pytest.mark.parametrize("name", COUPLINGS)
def test_every_coupling_obeys_every_law_with_other_keys_and_numbers_of_outcomes(name, size, key):
    check_coupling(COUPLINGS[name](size), size, key=jax.random.key(key)).raise_if_broken()


@pytest.mark.slow
@pytest.mark.parametrize("key", range(3))
@pytest.mark.parametrize("name", COUPLINGS)
def test_every_coupling_passes_the_thorough_check(name, key):
    check_coupling(COUPLINGS[name](5), 5, key=jax.random.key(key), level="thorough").raise_if_broken()


def test_a_mechanism_without_an_exact_law_is_checked_by_its_draws():
    report = check_coupling(HealthyScores(), 4, key=jax.random.key(0))
    assert report.passed, str(report)
    assert not any("joint" in law.name for law in report.laws)
    assert any("nothing changes" in law.name for law in report.laws)


def test_a_law_can_be_checked_alone():
    report = check_coupling(Independent(), 7, key=jax.random.key(0), only="marginals")
    assert [law.name for law in report.laws] == ["the joint law has both marginals"]
    assert report.level == "quick"
    with pytest.raises(InputError, match=r"part of a law's name \(the joint law has both marginals; .*got 'gravity'"):
        check_coupling(Independent(), 7, key=jax.random.key(0), only="gravity")


def _all_subclasses(cls):
    return {cls}.union(*(_all_subclasses(each) for each in cls.__subclasses__()))


def test_every_class_is_abstract_or_final_and_overrides_nothing_concrete():
    classes = [each for each in _all_subclasses(AbstractSampler) if each.__module__.startswith("countermax")]
    assert len(classes) >= 10
    for cls in classes:
        if not cls.__name__.startswith("Abstract"):
            assert getattr(cls, "__final__", False), f"{cls.__name__} is neither abstract nor final"
            assert not getattr(cls, "__abstractmethods__", None)
        inherited = [base for base in cls.__mro__[1:] if issubclass(base, eqx.Module) and base is not eqx.Module]
        for name, method in vars(cls).items():
            if not callable(method) or name.startswith("__"):
                continue
            for base in inherited:
                existing = vars(base).get(name)
                assert existing is None or getattr(existing, "__isabstractmethod__", False), f"{cls.__name__}.{name}"


def test_a_report_shows_brackets_as_they_are_written():
    console = Console(file=io.StringIO(), width=160)
    console.print(Conformance("Mine", 3, "quick", 100, 1e-6, (Law("a [law]", False, "Error: [/b] in [red]"),)))
    text = console.file.getvalue()
    assert "a [law]" in text
    assert "[/b] in [red]" in text


def test_a_report_prints_itself_and_becomes_a_frame_json_and_a_picture():
    seen = "a long story " * 40
    report = Conformance("Mine", 3, "thorough", 1000, 1e-6, (Law("one", True, "within 0"), Law("two", False, seen)))
    assert not report.passed
    assert report.broken == ("two",)
    assert "DOES NOT CONFORM: 1 of 2 laws are broken." in str(report)
    assert " ".join(str(report).split()).count(seen.strip()) == 1
    assert "(thorough check)" in str(report)
    assert "1,000 draws for each statistical law, false alarm 1e-06" in str(report)
    assert {row.quantity: row.value for row in report.rows} == {"one": 1, "two": 0}
    stored = json.loads(report.to_json())
    assert stored["laws"][1] == {"name": "two", "passed": False, "detail": seen}
    assert stored["num_samples"] == 1000
    axes = report.plot().axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two"]
    assert [text.get_text() for text in axes.texts] == ["holds", "broken"]


def test_a_seed_is_no_key(as_users_call):
    with pytest.raises(InputError, match="`key` must be one key of random numbers"):
        check_coupling(Independent(), 3, key=0)


def test_a_coupling_is_checked_with_its_own_number_of_outcomes():
    with pytest.raises(InputError, match="`num_outcomes` must be the coupling's own, 3, got 4"):
        check_coupling(InverseCDF([2, 0, 1]), 4, key=jax.random.key(0))


@pytest.mark.slow
@pytest.mark.parametrize("healthy", [Healthy, HealthyLine, HealthyMatrix])
def test_what_the_mutants_are_made_of_is_healthy(healthy):
    check_coupling(healthy(), 5, key=jax.random.key(0)).raise_if_broken()


def test_what_cannot_be_checked_is_refused():
    for wrong, message in (
        ({"level": "slow"}, "`level` must be one of quick, thorough, got 'slow'"),
        ({"num_samples": 0}, "`num_samples` must be at least 1, got 0"),
        ({"false_alarm": 0.0}, "`false_alarm` must lie between 0 and 1, got 0.0"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            check_coupling(Independent(), 3, key=jax.random.key(0), **wrong)
    with pytest.raises(InputError, match="joint laws of 1000000000 outcomes would need .*lower `num_outcomes`"):
        check_coupling(Independent(), 10**9, key=jax.random.key(0))


@pytest.mark.parametrize("size", [2, 3, 5])
def test_no_world_that_is_tried_looks_like_probabilities(size):
    for seed in range(100):
        for case in cases(size, np.dtype(np.float32), jax.random.key(seed)):
            for logits in (case.p, case.q):
                assert logits.min() < 0 or logits.min() == logits.max() or abs(logits.sum() - 1) > 1e-3, (seed, case)


def test_a_verdict_is_words_and_what_is_raised_is_what_is_broken_alone():
    laws = (Law("rows add up", True, "within 1e-12"), Law("columns add up", False, "off by 0.46"))
    found = Conformance("Mine", 4, "quick", 1000, 1e-6, laws)
    assert [line[:2] for line in found.tables()[0].lines] == [["rows add up", "holds"], ["columns add up", "BROKEN"]]
    with pytest.raises(AssertionError) as raised:
        found.raise_if_broken()
    lines = str(raised.value).splitlines()
    assert lines[0] == "Mine DOES NOT CONFORM: 1 of 2 laws are broken."
    assert lines[1:] == ["BROKEN: columns add up: off by 0.46"]
