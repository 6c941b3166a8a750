"""How many would have had which outcome: exact sums, intervals that a plain bootstrap confirms, bounds that hold."""

import json
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from asking import counterfactuals, transitions
from numpy.testing import assert_allclose

from countermax import Bounds, Gadget2, GumbelMax, InputError, Interval, InverseCDF, Maximal, save

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
    found = transitions(frame, **ask(p, q), num_resamples=0)
    assert isinstance(found.bounds, Bounds)
    for place, label in enumerate(LABELS):
        for cells, side in ((found.counts, ""), (found.bounds.lower, "_lower"), (found.bounds.upper, "_upper")):
            sums = [rows.loc[x == seen, f"counterfactual_{label}{side}"].sum() for seen in range(3)]
            assert_allclose(cells[:, place], sums)
    assert_allclose(found.seen, np.bincount(x))
    assert found.bounds.contains(found.counts).all()
    assert found.share_bounds.contains(found.shares).all()
    assert found.counts_interval is found.shares_interval is None
    assert found.to_frame()["ci_lower"].isna().all()
    assert found.to_dict()["level"] is None


def test_those_seen_in_proportion_to_p_would_have_been_in_proportion_to_q():
    frame = pd.DataFrame({"status": np.repeat(LABELS, [30, 40, 30])})
    for coupling in (InverseCDF(), Maximal()):
        found = transitions(
            frame, **ask(np.tile(P, (100, 1)), np.tile(Q, (100, 1))), coupling=coupling, num_resamples=0
        )
        assert_allclose(found.counts.sum(axis=0), 100 * Q)
        assert_allclose(found.counts, 100 * eqx.filter_jit(coupling.joint)(np.log(P), np.log(Q)), atol=1e-4)


def test_intervals_are_those_of_drawing_those_with_each_outcome_with_replacement():
    """A plain bootstrap is the oracle: the limits of both lie within 5 % of the interval's width plus its own noise."""
    frame, p, q, x = customers(300)
    found = transitions(frame, **ask(p, q), num_resamples=4000, level=0.9)
    probs = counterfactuals(frame, **ask(p, q))[[f"counterfactual_{label}" for label in LABELS]].to_numpy()
    rng = np.random.default_rng(1)
    counts = np.zeros((4000, 3, 3))
    for resample in counts:
        for seen in range(3):
            drawn = rng.choice(np.flatnonzero(x == seen), (x == seen).sum())
            resample[seen] = probs[drawn].sum(axis=0)
    shares = counts / counts.sum(axis=2, keepdims=True)
    totals = counts.sum(axis=1, keepdims=True)
    rows = [found.row(f"count({label})", "Gumbel-max", "everybody") for label in LABELS]
    whole = Interval(*np.array([[each[6:] for each in rows]]).transpose(2, 0, 1), 0.9)
    cases = (found.counts_interval, counts), (found.shares_interval, shares), (whole, totals)
    for interval, samples in cases:
        lower, upper = np.quantile(samples, [0.05, 0.95], axis=0)
        width = upper - lower
        # The standard error of either limit is about 0.013 widths for 4000 resamples; two sets differ by 0.018.
        # 42 limits at 5.5 standard errors: a false alarm less than once in 100,000 runs; the seeds are fixed.
        assert (np.abs(interval.lower - lower) < 0.1 * width).all()
        assert (np.abs(interval.upper - upper) < 0.1 * width).all()
        assert isinstance(interval, Interval)
        assert interval.level == 0.9


def test_intervals_depend_on_the_seed_alone(monkeypatch):
    from countermax.intervals import _interval as _resampling
    from countermax.tables import _reading

    def limits(seed):
        return np.stack(transitions(frame, **ask(p, q), num_resamples=50, seed=seed).counts_interval[:2])

    frame, p, q, _ = customers(300)
    monkeypatch.setattr(_resampling, "BLOCK_ROWS", 64)
    whole = limits(3)
    assert not np.array_equal(limits(4), whole)
    monkeypatch.setattr(_reading, "CHUNK_ROWS", 128)
    assert_allclose(limits(3), whole, rtol=1e-6)


def test_chunks_add_up_to_the_whole(monkeypatch):
    from countermax.tables import _reading

    frame, p, q, _ = customers(300)
    whole = transitions(frame, **ask(p, q), num_resamples=0)
    monkeypatch.setattr(_reading, "CHUNK_ROWS", 128)
    chunked = transitions(frame, **ask(p, q), num_resamples=0)
    assert_allclose(chunked.counts, whole.counts)
    assert_allclose(chunked.bounds, whole.bounds)
    assert chunked.num_rows == 300


def test_one_row_has_itself_for_an_interval():
    frame, p, q, x = customers(1)
    found = transitions(frame, **ask(p, q), num_resamples=20)
    assert_allclose(found.counts_interval.lower, found.counts, atol=1e-6)
    assert_allclose(found.counts_interval.upper, found.counts, atol=1e-6)
    others = [seen for seen in range(3) if seen != x[0]]
    for shares in (found.shares, found.share_bounds.lower, found.shares_interval.upper):
        assert np.isnan(shares[others]).all()
        assert np.isfinite(shares[x[0]]).all()
    unknown = [row for row in json.loads(found.to_json())["rows"] if row["value"] is None and row["lower"] is None]
    assert len(unknown) == 12  # the shares of two outcomes that nobody had, and their bounds


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_every_cell_has_a_count_and_a_share_under_the_coupling_and_under_any(library):
    frame, p, q, _ = customers(50)
    status = frame["status"].tolist()
    status[3] = None
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[library]
    found = transitions(make({"status": status}), **ask(p, q), num_resamples=20, errors="missing")
    assert found.num_left_out == 1
    assert found.num_rows == 49
    assert len(found.rows) == 4 * 3 * 2 * 2
    assert found.row("count(stayed)", "Gumbel-max", "everybody").value == found.counts[:, 2].sum()
    cell = found.row("count(stayed)", "Gumbel-max", "seen churned")
    assert cell.value == found.counts[0, 2]
    assert (cell.ci_lower, cell.ci_upper) == tuple(limit[0, 2] for limit in found.counts_interval[:2])
    share = found.row("P(stayed)", "any coupling", "seen churned")
    assert (share.lower, share.upper) == tuple(limit[0, 2] for limit in found.share_bounds)


def test_what_is_printed_names_coupling_and_sample_and_what_the_interval_leaves_out():
    from countermax._plotting import picture

    frame, p, q, _ = customers(50)
    found = transitions(frame, **ask(p, q), coupling="inverse-cdf", num_resamples=20)
    text = str(found)
    for words in (*LABELS, "95 % bootstrap", "any coupling", "50 rows", "Under inverse CDF", "are taken as known"):
        assert words in text
    assert "interval" not in str(transitions(frame, **ask(p, q), num_resamples=0))
    assert picture(found.plot()).startswith(b"\x89PNG")
    words = {text.get_text() for text in found.plot(title="mine").axes[0].texts}
    assert "would have been\nunder inverse CDF" in words


def test_a_result_names_its_coupling(tmp_path):
    frame, p, q, _ = customers(5)
    gadget = Gadget2(3, 2, key=jax.random.key(0), hidden=(4,), rounds=1)
    cases = {
        "Gumbel-max": GumbelMax(),
        "maximal": "maximal",
        "inverse CDF by score": "inverse-cdf-by-score",
        "mine": Path(save(gadget, tmp_path / "mine.npz")),
        "Gadget2": gadget,
    }
    for name, coupling in cases.items():
        found = transitions(frame, **ask(p, q), coupling=coupling, score=[2, 0, 1], num_resamples=0)
        assert found.coupling == found.to_dict()["coupling"] == name


def test_scores_that_differ_in_their_last_digits_have_an_order():
    frame = pd.DataFrame({"status": ["churned"]})
    worlds = ask(P[None], P[None]) | {"coupling": "inverse-cdf-by-score", "score": [1.0, 1.0 - 1e-12, 0.0]}
    in_order = ask(P[None], Q[None]) | {"coupling": InverseCDF([2, 1, 0])}
    assert_allclose(transitions(frame, **worlds).counts[0], [1, 0, 0])  # equal worlds: nothing changes
    expected = transitions(frame, **in_order).counts
    assert_allclose(transitions(frame, **(worlds | {"counterfactual": Q[None]})).counts, expected)


def test_what_is_printed_has_a_line_for_each_cell_whatever_labels_are():
    labels = ["x" * 200_000, "two\nlines", "a\x1b[0m"]
    frame = pd.DataFrame({"status": labels})
    worlds = {"factual": np.tile(P, (3, 1)), "counterfactual": np.tile(Q, (3, 1)), "labels": labels}
    text = str(transitions(frame, outcome="status", **worlds, num_resamples=0))
    assert max(map(len, text.splitlines())) < 250
    assert "two\\nlines" in text
    assert "a\\x1b[0m" in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"level": 1.0}, "`level` must lie between 0 and 1"),
        ({"num_resamples": 1}, "`num_resamples` must be at least 2, or 0"),
        ({"num_resamples": 10**9}, "1,000,000,000 resamples of 3 outcomes would need about .* and the limit is"),
        ({"num_resamples": 10**7}, "10,000,000 resamples of 3 outcomes would need about .*lower `num_resamples`"),
        ({"seed": -1}, "`seed` must be a whole number from 0 to 4294967295, got -1"),
        ({"seed": 2**32}, "`seed` must be a whole number from 0 to 4294967295, got 4294967296"),
    ],
)
def test_bad_settings_are_refused(change, words, monkeypatch):
    monkeypatch.setenv("COUNTERMAX_MAX_MEMORY", "64")
    frame, p, q, _ = customers(5)
    with pytest.raises(InputError, match=words):
        transitions(frame, **ask(p, q), **change)
