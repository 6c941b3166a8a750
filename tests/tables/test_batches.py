"""Batches of Arrow from any engine: the same bits, a schema that is known beforehand, and sums that merge."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from lake import ASK, COUNT, cut, patients, plain, together

from countermax import InputError, Rows

SCORE = [0.0, 0.37, 1.1]


@pytest.fixture(scope="module")
def table():
    return patients()


@pytest.fixture(scope="module")
def rows(table):
    return Rows(table.schema, **ASK, score=SCORE, unchanged="same")


def test_batches_come_back_with_the_bits_and_the_schema_of_the_table(table, rows):
    answering = pickle.loads(pickle.dumps(rows.answering(bounds="stable")))
    whole = Rows(table, **ASK, score=SCORE, unchanged="same").counterfactuals(bounds="stable")
    assert answering.schema.names == whole.schema.names
    assert answering.schema.types == whole.schema.types
    assert plain(answering(table)).equals(plain(whole))
    batches = [each for piece in cut(table, 1, 700, 4096) for each in piece.to_batches()]
    found = [answering(each) for each in batches]
    assert all(isinstance(each, pa.RecordBatch) and each.schema.equals(answering.schema) for each in found)
    assert together(map(lambda each: pa.Table.from_batches([each]), found)).equals(plain(whole))
    stream = answering(pa.RecordBatchReader.from_batches(table.schema, iter(batches)))
    assert isinstance(stream, pa.RecordBatchReader)
    assert plain(stream.read_all()).equals(plain(whole))
    empty = answering(table.slice(0, 0).to_batches()[0] if table.slice(0, 0).to_batches() else batches[0].slice(0, 0))
    assert empty.num_rows == 0
    assert empty.schema.equals(answering.schema)


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("transitions", {"num_resamples": 50}),
        ("transitions", {"coupling": "maximal", "num_resamples": 0}),
        ("effects", {}),
        ("effects", {"couplings": ["maximal"], "counterfactual_score": [1.0, 2.0, 0.0]}),
        ("causes", {"event": "dead", "couplings": ["gumbel-max"]}),
    ],
)
def test_sums_are_those_of_the_table(table, rows, verb, options):
    whole = getattr(Rows(table, **ASK, score=SCORE, unchanged="same"), verb)(**options)
    sums = rows.sums(verb, **options)
    for each in cut(table, 1, 5000):
        sums.add(each)
    _check_same(sums.result(), whole)
    _check_same(pickle.loads(pickle.dumps(sums)).result(), whole)


def _check_same(found, whole):
    assert found.notes == whole.notes
    assert [each[:3] for each in found.rows] == [each[:3] for each in whole.rows]
    for here, there in zip(found.rows, whole.rows, strict=True):
        numbers = [[np.nan if each is None else each for each in row[3:]] for row in (here, there)]
        np.testing.assert_allclose(*numbers, rtol=1e-9)


@pytest.mark.parametrize("verb", ["transitions", "effects", "causes"])
def test_partitions_are_merged_in_any_order(table, rows, verb):
    options = {"event": "dead"} if verb == "causes" else {}
    whole = getattr(Rows(table, **ASK, score=SCORE, unchanged="same"), verb)(**options)
    parts = []
    for number, each in enumerate(cut(table, 300, 301, 7000)):
        sums = rows.sums(verb, **options)
        sums.add(each.to_reader(1000), partition=number)
        parts.append(pickle.loads(pickle.dumps(sums)))
    first, *others = parts[::-1]
    for each in others:
        first.merge(each)
    found = first.result()
    values, expected = ([row.value or 0.0 for row in each.rows] for each in (found, whole))
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-12)
    if verb == "transitions":  # other rows weigh the same in no two partitions: the width is that of the table
        wide, expected = (each.counts_interval.upper - each.counts_interval.lower for each in (found, whole))
        np.testing.assert_allclose(wide, expected, rtol=0.2)


def test_rows_that_would_count_twice_are_refused(table, rows):
    first, second = rows.sums(num_resamples=10), rows.sums(num_resamples=10)
    first.add(table.slice(0, 10))
    second.add(table.slice(10, 10))
    with pytest.raises(InputError, match="sums must be over different partitions to be merged, but both have 0"):
        first.merge(second)


def test_what_needs_the_rows_says_so(table, rows):
    for ask, words in (
        (rows.transitions, r"`data` is a schema, without rows; `sums\(\)` adds batches up"),
        (rows.counterfactuals, r"`data` is a schema, without rows; `answering\(\)` answers batches"),
        (lambda: rows.write("out.parquet"), "without rows"),
        (rows.pairs, "rows that come in batches are seen once"),
        (lambda: rows.sums("pairs"), "`verb` must be one of transitions, effects, causes, got 'pairs'"),
        (lambda: rows.answering()(table.drop_columns(["year"])), "there is no column 'year'"),
        (Rows(table, **ASK).answering, "`data` must be an Arrow schema"),
    ):
        with pytest.raises(InputError, match=words):
            ask()


def test_bad_rows_are_counted_in_batches_too(table):
    broken = table.slice(0, 20).set_column(2, "p_dead", pa.array([-1.0] * 5 + [0.1] * 15))
    sums = Rows(table.schema, **ASK, normalise=True, errors="missing").sums(num_resamples=0)
    sums.add(broken)
    assert (sums.result().num_rows, sums.result().num_left_out) == (15, 5)
    assert COUNT > 20
