"""Compiled loops give the numbers of the JAX forms, on the cases that all implementations share."""

import subprocess
import sys
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from shared_cases import FOUND, extreme_logits, log_probs, random_questions

from countermax._kernel import (
    ClosedForm,
    answer_rows,
    closed_form,
    likeliest,
    mean_worths,
    num_columns,
    row_bounds,
    row_probabilities,
    row_score_bounds,
)
from countermax.bounds import outcome_bounds, score_bounds
from countermax.couplings import (
    GumbelMax,
    Independent,
    InverseCDF,
    Maximal,
    NestedGumbelMax,
    Optimal,
    SharedGumbelMax,
    _words,
)
from countermax.couplings._named import as_coupling

TOLERANCE = 1e-12
COUPLINGS = {
    "gumbel-max": lambda size: GumbelMax(),
    "shared in part": lambda size: SharedGumbelMax(shared=0.37),
    "not shared": lambda size: SharedGumbelMax(shared=0.0),
    "inverse CDF": lambda size: InverseCDF(),
    "another order": lambda size: InverseCDF(np.random.default_rng(size).permutation(size)),
    "nested": lambda size: NestedGumbelMax(_nests(size), [0.5, 0.8, 0.3], labels=size),
    "nested, hardly unlike": lambda size: NestedGumbelMax(_nests(size), [0.05, 0.3, 0.4], labels=size),
    "nested at zero": lambda size: NestedGumbelMax(_nests(size), 0, labels=size),
    "nested at one": lambda size: NestedGumbelMax(_nests(size), 1, labels=size),
    "maximal": lambda size: Maximal(),
    "independent": lambda size: Independent(),
}


def _nests(size):
    third = size // 3
    return {"a": [0, {"b": range(1, 1 + third)}], "c": range(1 + third, 1 + 2 * third)}


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


SIZES = 2, 3, 5, 8


@cache
def tables():
    """Tables of questions with one number of outcomes each: log-probabilities, what was seen.

    All have as many rows, some of them again where there are fewer, and sizes in between get impossible outcomes, so
    that JAX compiles few programs.
    """
    by_size = {size: [] for size in SIZES}
    for each in [*FOUND, *random_questions(400, seed=3)]:
        by_size[next(size for size in SIZES if size >= len(each["p"]))].append(each)
    found = {}
    for size, some in by_size.items():
        assert len(some) <= 200
        some = [some[index % len(some)] for index in range(200)]
        with np.errstate(divide="ignore"):
            worlds = [
                log_probs(np.log(np.array([[*each[name], *[0.0] * (size - len(each[name]))] for each in some])))
                for name in "pq"
            ]
        found[f"shared cases of {size}"] = (*worlds, np.array([each["x"] for each in some]))
    stream = np.random.default_rng(0)
    for size in (2, 3, 5, 12, 40):
        log_p, log_q = extreme_logits(size, 200, seed=size)
        x = np.array([stream.choice(np.flatnonzero(row > -np.inf)) for row in log_p])
        found[f"extreme cases of {size}"] = log_p, log_q, x
    return found


NAMES = [*(f"shared cases of {size}" for size in SIZES), *(f"extreme cases of {k}" for k in (2, 3, 5, 12, 40))]


@eqx.filter_jit
def _rows_by_jax(coupling, p, q, x):
    return jax.vmap(coupling._counterfactual_probs)(p, q, x)


@pytest.mark.parametrize("table", NAMES)
@pytest.mark.parametrize("name", COUPLINGS)
def test_rows_of_couplings_are_those_of_jax(name, table):
    log_p, log_q, x = tables()[table]
    coupling = COUPLINGS[name](log_p.shape[1])
    want = np.asarray(_rows_by_jax(coupling, jnp.array(log_p), jnp.array(log_q), jnp.array(x)))
    got = row_probabilities(coupling, log_p, log_q, x)
    lost = 50 if name == "nested, hardly unlike" else 1  # a rise of 1000, in scales of 0.02, has lost some digits
    np.testing.assert_allclose(got, want, atol=lost * TOLERANCE, rtol=0)
    np.testing.assert_allclose(got.sum(axis=1), 1, atol=lost * 1e-13 * log_p.shape[1])


@partial(jax.jit, static_argnames="stable")
def _bounds_by_jax(p, q, x, score, *, stable):
    wanted = jax.vmap(partial(outcome_bounds, stable=stable))(p, q, x)
    of_score = jax.vmap(partial(score_bounds, stable=stable), (0, 0, 0, None))(p, q, x, score)
    return wanted, of_score, jax.vmap(outcome_bounds)(p, q, x)


@pytest.mark.parametrize("table", NAMES)
@pytest.mark.parametrize("stable", [False, True])
def test_bounds_are_those_of_jax(stable, table):
    log_p, log_q, x = tables()[table]
    score = np.random.default_rng(1).normal(size=log_p.shape[1]).round(1)
    arrays = jnp.array(log_p), jnp.array(log_q), jnp.array(x)
    want, of_score, loose = _bounds_by_jax(*arrays, score, stable=stable)
    got = answer_rows(Independent(), log_p, log_q, x, score=score, bounds="stable" if stable else "any")
    size = len(score)
    for limits, place in ((want.lower, size + 3), (want.upper, size + 4)):
        np.testing.assert_allclose(got[place:-1:2].T, limits, atol=TOLERANCE, rtol=0)
    for limits, place in ((of_score.lower, size + 1), (of_score.upper, size + 2)):
        np.testing.assert_allclose(got[place], limits, atol=10 * TOLERANCE, rtol=0)
    alone = row_bounds(log_p, log_q, x, stable=stable)
    alone_of_score = row_score_bounds(log_p, log_q, x, score, stable=stable)
    np.testing.assert_array_equal(alone.lower, got[size + 3 : -1 : 2].T)
    np.testing.assert_allclose(alone_of_score.upper, got[size + 2], atol=TOLERANCE, rtol=0)
    np.testing.assert_allclose(got[-1], loose.width.max(axis=1), atol=TOLERANCE, rtol=0)


@eqx.filter_jit
def _laws_by_jax(coupling, p, q):
    return jax.vmap(coupling._joint)(p, q)


@pytest.mark.parametrize("name", COUPLINGS)
def test_mean_worths_are_those_of_the_joint_law(name):
    log_p, log_q, _ = tables()["extreme cases of 5"]
    coupling, worths = COUPLINGS[name](5), np.random.default_rng(0).normal(size=(3, 5, 5))
    joint = np.asarray(_laws_by_jax(coupling, jnp.array(log_p), jnp.array(log_q)))
    want = np.einsum("nij,mij->mn", joint, worths)
    np.testing.assert_allclose(mean_worths(coupling, log_p, log_q, worths), want, atol=TOLERANCE, rtol=0)


def test_the_likeliest_outcome_is_the_first_of_the_largest():
    probs = np.random.default_rng(0).integers(0, 4, (5, 1000)) / 4.0
    np.testing.assert_array_equal(likeliest(probs), probs.argmax(axis=0))


@pytest.mark.parametrize("bounds", ["any", "stable", "none"])
def test_a_rows_numbers_are_the_same_however_the_table_is_cut(bounds, monkeypatch):
    log_p, log_q, x = (np.concatenate([each] * 40) for each in tables()["extreme cases of 12"])
    score = np.arange(12.0)
    whole = answer_rows(GumbelMax(), log_p, log_q, x, score=score, bounds=bounds)
    assert len(whole) == num_columns(12, score=True, bounds=bounds)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    np.testing.assert_array_equal(answer_rows(GumbelMax(), log_p, log_q, x, score=score, bounds=bounds), whole)
    out = np.empty_like(whole)
    edges = [0, 1, 70, 700, len(x)]
    for start, stop in zip(edges, edges[1:], strict=False):
        some = log_p[start:stop], log_q[start:stop], x[start:stop]
        answer_rows(GumbelMax(), *some, score=score, bounds=bounds, out=out, first=start)
    np.testing.assert_array_equal(out, whole)


@pytest.mark.parametrize("table", NAMES)
@pytest.mark.parametrize("coupling", [GumbelMax(), SharedGumbelMax(0.5), Independent()])
def test_probabilities_give_the_answers_of_their_logarithms(coupling, table):
    """Also those that are so rare that quotients are taken from logarithms."""
    log_p, log_q, x = tables()[table]
    p, q = np.exp(log_p), np.exp(log_q)
    seen = p[np.arange(len(x)), x] > 0
    p, q, x = p[seen], q[seen], x[seen]
    with np.errstate(divide="ignore"):
        want = answer_rows(coupling, np.log(p), np.log(q), x)
    np.testing.assert_allclose(answer_rows(coupling, p, q, x, logs=False), want, atol=TOLERANCE, rtol=0)


def test_a_coupling_without_a_closed_form_is_answered_by_jax_beside_the_same_bounds():
    log_p, log_q, x = tables()["shared cases of 3"]
    coupling, score = Optimal(np.subtract.outer(np.arange(3.0), np.arange(3.0)) ** 2), np.arange(3.0)
    want = np.stack([coupling.counterfactual_probs(*each) for each in zip(log_p, log_q, x, strict=True)])
    got = answer_rows(coupling, log_p, log_q, x, score=score, bounds="stable")
    np.testing.assert_allclose(got[:3].T, want, atol=TOLERANCE)
    np.testing.assert_allclose(got[3], want @ score, atol=TOLERANCE)
    np.testing.assert_array_equal(
        got[4:], answer_rows(Independent(), log_p, log_q, x, score=score, bounds="stable")[4:]
    )


def test_nothing_is_compiled_before_the_first_question():
    code = "import countermax, countermax._kernel, sys; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "name", [*_words.NAMES, "gumbel-max-shared-0.37", "gumbel-max-shared-1", "Gumbel-max", "nonsense"]
)
def test_a_name_says_the_closed_form_that_its_coupling_has(name):
    """The other names take a score, or are none."""
    named = ClosedForm.named(name)
    if named is None:
        with pytest.raises(ValueError, match=r"score|must be one of"):
            as_coupling(name)
    else:
        with jax.enable_x64(True):
            assert named == closed_form(as_coupling(name))
