"""Transition tables and effects: exact sums, intervals that a plain bootstrap confirms, bounds that hold everything."""

import io
import json

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose

from countermax import (
    Gadget2,
    GumbelMax,
    Independent,
    InputError,
    InverseCDF,
    Maximal,
    ObservedPairs,
    Optimal,
    effect_from_joint,
)  # fmt: skip
from countermax.tables import counterfactuals, effects, frame_pairs, transition_table

LABELS = ["churned", "downgraded", "stayed"]
P, Q = np.array([0.3, 0.4, 0.3]), np.array([0.1, 0.3, 0.6])


def customers(count=400, seed=0):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet([2, 3, 4], count), rng.dirichlet([1, 3, 5], count)
    x = (p.cumsum(axis=1) > rng.random((count, 1))).argmax(axis=1)
    return pd.DataFrame({"status": np.array(LABELS)[x]}), p, q, x


def ask(p, q):
    return {"outcome": "status", "factual": p, "counterfactual": q, "labels": LABELS}


def test_counts_are_the_sums_of_the_rows_probabilities_and_bounds():
    frame, p, q, x = customers()
    rows = counterfactuals(frame, **ask(p, q))
    table = transition_table(frame, **ask(p, q), num_resamples=0)
    for place, label in enumerate(LABELS):
        for cells, end in ((table.counts, ""), (table.bounds[0], "_lower"), (table.bounds[1], "_upper")):
            sums = [rows.loc[x == seen, f"counterfactual_{label}{end}"].sum() for seen in range(3)]
            assert_allclose(cells[:, place], sums)
    assert_allclose(table.seen, np.bincount(x))
    assert (table.bounds[0] <= table.counts + 1e-9).all()
    assert (table.counts <= table.bounds[1] + 1e-9).all()
    assert table.counts_interval is None
    assert "count_low" not in table.to_frame()


def test_those_seen_in_proportion_to_p_would_have_been_in_proportion_to_q():
    frame = pd.DataFrame({"status": np.repeat(LABELS, [30, 40, 30])})
    for mechanism in (InverseCDF(), Maximal()):
        table = transition_table(
            frame, **ask(np.tile(P, (100, 1)), np.tile(Q, (100, 1))), mechanism=mechanism, num_resamples=0
        )
        assert_allclose(table.counts.sum(axis=0), 100 * Q)
        assert_allclose(table.counts, 100 * eqx.filter_jit(mechanism.joint)(np.log(P), np.log(Q)), atol=1e-4)


def test_intervals_are_those_of_drawing_rows_with_replacement():
    """A plain bootstrap is the oracle: ends of both lie within 5 % of the interval's width plus its own noise."""
    frame, p, q, x = customers(300)
    table = transition_table(frame, **ask(p, q), num_resamples=4000, level=0.9)
    probs = counterfactuals(frame, **ask(p, q))[[f"counterfactual_{label}" for label in LABELS]].to_numpy()
    rng = np.random.default_rng(1)
    tables = np.zeros((4000, 3, 3))
    for resample in tables:
        drawn = rng.integers(0, 300, 300)
        np.add.at(resample, x[drawn], probs[drawn])
    shares = tables / tables.sum(axis=2, keepdims=True)
    for found, samples in ((table.counts_interval, tables), (table.shares_interval, shares)):
        lower, upper = np.quantile(samples, [0.05, 0.95], axis=0)
        width = upper - lower
        # The standard error of either end is about 0.013 widths for 4000 resamples; two sets differ by 0.018.
        # 36 ends at 5.5 standard errors: a false alarm less than once in 100,000 runs; the seeds are fixed.
        assert (np.abs(found[0] - lower) < 0.1 * width).all()
        assert (np.abs(found[1] - upper) < 0.1 * width).all()


def test_intervals_depend_on_the_seed_alone(monkeypatch):
    from countermax.tables import _bootstrap, _questions

    frame, p, q, _ = customers(300)
    monkeypatch.setattr(_bootstrap, "BLOCK_ROWS", 64)
    whole = transition_table(frame, **ask(p, q), num_resamples=50, seed=3)
    assert not np.array_equal(
        transition_table(frame, **ask(p, q), num_resamples=50, seed=4).counts_interval, whole.counts_interval
    )
    monkeypatch.setattr(_questions, "CHUNK_ROWS", 128)
    chunked = transition_table(frame, **ask(p, q), num_resamples=50, seed=3)
    assert_allclose(chunked.counts_interval, whole.counts_interval, rtol=1e-6)
    assert_allclose(chunked.counts, whole.counts)


def test_one_row_has_itself_for_an_interval():
    frame, p, q, x = customers(1)
    table = transition_table(frame, **ask(p, q), num_resamples=20)
    assert_allclose(table.counts_interval[0], table.counts, atol=1e-6)
    assert_allclose(table.counts_interval[1], table.counts, atol=1e-6)
    others = [seen for seen in range(3) if seen != x[0]]
    assert np.isnan(table.shares[others]).all()
    assert json.loads(table.to_json())["cells"]["share"].count(None) == 6


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_a_table_comes_back_in_the_library_that_asked(library):
    frame, p, q, _ = customers(50)
    status = frame["status"].tolist()
    status[3] = None
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[library]
    table = transition_table(make({"status": status}), **ask(p, q), num_resamples=20, errors="missing")
    assert table.num_left_out == 1
    assert table.num_rows == 49
    cells = table.to_frame()
    assert type(cells) is type(make({"a": [1]}))
    names = cells.column_names if library == "arrow" else list(cells.columns)
    ends = [f"{what}{end}" for what in ("count", "share") for end in ("", "_low", "_high", "_lower", "_upper")]
    assert names == ["seen", "instead", *ends]


def test_a_table_prints_itself_and_draws_its_flows():
    from rich.console import Console

    from countermax.plotting import picture

    frame, p, q, _ = customers(50)
    table = transition_table(frame, **ask(p, q), num_resamples=20)
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table)
    text = console.export_text()
    assert all(word in text for word in (*LABELS, "95 % interval", "any mechanism", "50 rows"))
    assert picture(table.plot()).startswith(b"\x89PNG")


def test_flows_of_many_outcomes_keep_their_total():
    from countermax.plotting._flows import _others_together, draw_flows

    counts = np.random.default_rng(0).random((20, 20))
    together, labels = _others_together(counts, [f"label {index}" for index in range(20)])
    assert_allclose(together.sum(), counts.sum())
    assert labels[-1] == "13 others"
    assert draw_flows(np.zeros((2, 2)), ["a", "$b$"], "nothing flows")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"level": 1.0}, "`level` must lie between 0 and 1"),
        ({"num_resamples": 1}, "`num_resamples` must be at least 2, or 0"),
        ({"num_resamples": 10**9}, "would not fit into memory"),
    ],
)
def test_bad_settings_of_a_table_are_refused(change, words):
    frame, p, q, _ = customers(5)
    with pytest.raises(InputError, match=words):
        transition_table(frame, **ask(p, q), **change)


SCORE = np.array([0.0, 3.0, 1.0])


@pytest.fixture(scope="module")
def scored():
    frame, p, q, x = customers(60)
    return p, q, x, effects(frame, **ask(p, q), score=dict(zip(LABELS, SCORE, strict=True)))


def test_effects_are_those_of_the_average_joint_law(scored, double):
    p, q, _, found = scored
    for name, mechanism in (("Gumbel-max", GumbelMax()), ("independent", Independent())):
        joint = eqx.filter_jit(jax.vmap(mechanism.joint))(np.log(p), np.log(q)).mean(axis=0)
        effect = effect_from_joint(joint, SCORE)
        assert found.average[0] == pytest.approx(float(effect.mean))
        assert found.variances[name] == pytest.approx(float(effect.variance))
    rows = (p - q) @ SCORE
    assert found.average_error[0] == pytest.approx(rows.std(ddof=1) / np.sqrt(60))


def test_the_least_variance_is_that_of_optimal_transport(scored, double):
    p, q, _, found = scored
    costs = [Optimal.for_score(SCORE).cost(*map(np.log, pair)) for pair in zip(p, q, strict=True)]
    most = [Optimal(100 - (SCORE[:, None] - SCORE) ** 2).cost(*map(np.log, pair)) for pair in zip(p, q, strict=True)]
    assert found.least_variance == pytest.approx(np.mean(costs) - found.average[0] ** 2, rel=1e-6)
    assert found.most_variance == pytest.approx(100 - np.mean(most) - found.average[0] ** 2, rel=1e-6)
    assert found.choice == "inverse CDF by score"
    assert found.variances[found.choice] == pytest.approx(found.least_variance)
    assert isinstance(found.mechanism, InverseCDF)


def test_individual_effects_lie_within_their_bounds(scored):
    p, q, x, found = scored
    frame = pd.DataFrame({"status": np.array(LABELS)[x]})
    rows = counterfactuals(frame, **ask(p, q), score=SCORE)
    assert_allclose(found.individual["effect_Gumbel-max"], SCORE[x] - rows["counterfactual_score"])
    for name in ("Gumbel-max", "inverse_CDF", "inverse_CDF_by_score", "maximal", "independent"):
        assert (found.individual[f"effect_{name}"] >= found.individual["effect_lower"] - 1e-9).all()
        assert (found.individual[f"effect_{name}"] <= found.individual["effect_upper"] + 1e-9).all()
    assert list(found.to_frame()["mechanism"]) == list(found.variances)
    assert found.plot().axes


def test_several_scores_are_learned_on_the_frames_own_pairs(monkeypatch):
    from rich.console import Console

    from countermax import Fit, History
    from countermax.tables import _choice

    frame, p, q, _ = customers(10)
    scores = {"income": [0.0, 1.0, 2.0], "effort": [1.0, 0.0, 1.0]}
    gadget = Gadget2(3, 2, key=jax.random.key(0), hidden=(4,), rounds=1)

    def untrained(mechanism, pairs, loss, *, key, steps, **options):
        assert pairs.num_distinct == 10
        assert_allclose(loss.score, np.array(list(scores.values())).T)
        assert steps == 20
        return Fit(mechanism, History(), "finished", None)

    monkeypatch.setattr(_choice, "fit", untrained)
    asked = {"score": scores, "learn": gadget, "fit_options": {"steps": 20}, "mechanisms": {"own": "independent"}}
    found = effects(pl.from_pandas(frame), **ask(p, q), **asked)
    assert list(found.variances) == ["own", "learned Gadget 2"]
    assert found.fit.mechanism is gadget
    matrix = sum((np.subtract.outer(score, score)) ** 2 for score in np.array(list(scores.values())))
    with jax.enable_x64(True):
        least = np.mean([Optimal(matrix).cost(*map(np.log, pair)) for pair in zip(p, q, strict=True)])
    assert found.least_variance == pytest.approx(least - (found.average**2).sum())
    assert found.least_variance <= min(found.variances.values()) + 1e-9
    assert found.individual.columns[:2] == ["effect_income_own", "effect_effort_own"]
    assert found.individual.columns[-1] == "effect_effort_upper"
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(found)
    assert "no order of the outcomes is optimal" in console.export_text()


def test_scores_that_sort_differently_have_no_optimal_order(double):
    frame, p, q, _ = customers(30)
    other = np.array([0.0, 1.0, 3.0])
    found = effects(frame, **(ask(p, q) | {"outcome": None}), score=SCORE, counterfactual_score=other)
    costs = [Optimal.for_score(SCORE, other).cost(*map(np.log, pair)) for pair in zip(p, q, strict=True)]
    assert found.least_variance == pytest.approx(np.mean(costs) - found.average[0] ** 2, rel=1e-6)
    assert "sort the outcomes differently" in found.reason
    assert found.individual is None


def test_the_pairs_of_a_frame_are_what_a_mechanism_is_trained_on():
    frame, p, q, _ = customers(50)
    p[25:], q[25:] = p[:25], q[:25]
    pairs = frame_pairs(frame, factual=p, counterfactual=q, labels=LABELS)
    assert isinstance(pairs, ObservedPairs)
    assert pairs.num_distinct == 25
    assert_allclose(np.sort(np.exp(pairs.p), axis=0), np.sort(p[:25], axis=0), rtol=1e-5)
    assert frame_pairs(frame, factual=p, counterfactual=q, labels=LABELS, max_pairs=7).num_distinct <= 7
    with pytest.raises(InputError, match="at least 1"):
        frame_pairs(frame, factual=p, counterfactual=q, labels=LABELS, max_pairs=0)


def test_effects_need_rows_and_sensible_settings():
    frame, p, q, _ = customers(3)
    with pytest.raises(InputError, match="needs learn=True"):
        effects(frame, **ask(p, q), score=SCORE, fit_options={"steps": 3})
    with pytest.raises(InputError, match="at least one row"):
        effects(frame, **ask(np.zeros((3, 3)), q), score=SCORE, errors="missing")
    with pytest.raises(InputError, match="same names"):
        effects(frame, **ask(p, q), score={"a": SCORE}, counterfactual_score={"b": SCORE})
    with pytest.raises(InputError, match="a gadget for 3 outcomes, got one for 2"):
        effects(frame, **ask(p, q), score=SCORE, learn=Gadget2(2, 2, key=jax.random.key(0)))
