"""Folders of Parquet files without Ray: one table, answered part by part, whole or recognisably not."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from asking import counterfactuals, counterfactuals_file, effects, pairs, transitions
from lake import ASK, COUNT, LABELS, patients, plain

from countermax import InputError, Rows
from countermax.tables import _folders, _sources


@pytest.fixture(scope="module")
def table():
    return patients()


@pytest.fixture
def lake(table, tmp_path, monkeypatch):
    """Two files, the second with many row groups, in parts of a thousand rows."""
    monkeypatch.setattr(_folders, "PART_ROWS", 1000)
    (tmp_path / "lake").mkdir()
    pa.parquet.write_table(table.slice(0, 3000), tmp_path / "lake/a.parquet")
    pa.parquet.write_table(table.slice(3000), tmp_path / "lake/b.parquet", row_group_size=1000)
    return tmp_path / "lake"


def rows_in(folder):
    return plain(pa.dataset.dataset(folder, format="parquet").to_table())


def test_a_folder_is_one_table_to_the_last_bit(table, lake, tmp_path):
    asked = ASK | {"unchanged": "same", "score": [0, 1, 2]}
    expected = plain(counterfactuals(table, **asked))
    assert plain(counterfactuals(lake, **asked)).equals(expected)
    found = counterfactuals_file(lake, tmp_path / "out", **asked)
    assert rows_in(tmp_path / "out").equals(expected)
    assert found.num_rows == COUNT
    assert found.num_unchanged == int(np.sum(table["same"].to_numpy()))
    assert json.loads((tmp_path / "out/_SUCCESS").read_text())["coupling"] == found.coupling == "Gumbel-max"
    counterfactuals_file(f"{lake}/*.parquet", tmp_path / "out.parquet", **asked)
    assert plain(pa.parquet.read_table(tmp_path / "out.parquet")).equals(expected)


def test_sums_over_a_folder_are_those_of_its_rows(table, lake):
    here, there = (transitions(each, **ASK, num_resamples=50) for each in (lake, table))
    np.testing.assert_allclose(here.counts, there.counts, rtol=1e-12)
    np.testing.assert_allclose(here.counts_interval.lower, there.counts_interval.lower, rtol=1e-12)
    here, there = (effects(each, **ASK, score=[0, 1, 3]) for each in (lake, table))
    np.testing.assert_allclose(here.mean, there.mean, rtol=1e-12)
    np.testing.assert_allclose([*here.variances.values()], [*there.variances.values()], rtol=1e-12)
    assert plain(here.individual).equals(plain(there.individual))
    here, there = (pairs(each, **ASK, most=100) for each in (lake, table))
    np.testing.assert_array_equal(here.p, there.p)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_files_are_asked_whatever_frames_are_asked(table, tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(_sources, "CHUNK_ROWS", 4096)
    from countermax._tables.writing import write_table

    few = table.slice(0, 9000)
    write_table(few, tmp_path / f"in{suffix}")
    asked = ASK | {"score": dict(zip(LABELS, (0, 1, 3), strict=True))}
    here, there = (effects(each, **asked) for each in (tmp_path / f"in{suffix}", few))
    np.testing.assert_allclose(here.mean, there.mean, rtol=1e-12)
    np.testing.assert_allclose([*here.variances.values()], [*there.variances.values()], rtol=1e-12)
    assert here.num_rows == len(few)
    here, there = (pairs(each, **ASK, most=50) for each in (tmp_path / f"in{suffix}", few))
    np.testing.assert_allclose(here.p, there.p, rtol=1e-6)
    found = counterfactuals(tmp_path / f"in{suffix}", **ASK)
    assert found["counterfactual_dead"].to_pylist() == counterfactuals(few, **ASK)["counterfactual_dead"].to_pylist()


def test_partitions_come_and_go(table, tmp_path):
    for year in (2020, 2021, 2022):
        chosen = table.filter(pa.compute.equal(table["year"], year)).drop_columns(["year"])
        (tmp_path / f"lake/year={year}").mkdir(parents=True)
        pa.parquet.write_table(chosen, tmp_path / f"lake/year={year}/rows.parquet")
    counterfactuals_file(tmp_path / "lake", tmp_path / "out", **ASK, partition_by=["status", "year"])
    found = pa.dataset.dataset(tmp_path / "out", partitioning="hive").to_table().sort_by("id")
    local = counterfactuals(table, **ASK)
    for name in found.column_names:
        assert found[name].to_pylist() == local[name].to_pylist()


def test_a_folder_that_was_begun_is_finished_and_another_question_is_refused(table, lake, tmp_path, monkeypatch):
    out, done = tmp_path / "out", []
    whole = _folders._answer_part

    def stopped(job, part):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(part)
        return whole(job, part)

    monkeypatch.setattr(_folders, "_answer_part", stopped)
    with pytest.raises(KeyboardInterrupt):
        counterfactuals_file(lake, out, **ASK)
    assert not (out / "_SUCCESS").exists()
    with pytest.raises(InputError, match="is not whole"):
        transitions(out, **ASK)
    monkeypatch.setattr(_folders, "_answer_part", whole)
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert len(before) == 3
    first = counterfactuals_file(lake, out, **ASK)
    assert {name: (out / name).stat().st_mtime_ns for name in before} == before
    assert rows_in(out).equals(plain(counterfactuals(table, **ASK)))
    assert counterfactuals_file(lake, out, **ASK) == first
    with pytest.raises(InputError, match="the answer to another question, or to one about other rows"):
        counterfactuals_file(lake, out, **ASK, coupling="maximal")
    assert counterfactuals_file(lake, out, **ASK, coupling="maximal", overwrite=True).coupling == "maximal"


def test_what_cannot_be_written_is_refused(table, lake, tmp_path):
    rows = Rows(table, **ASK)
    for target, more, words in (
        (tmp_path / "out", {}, "cannot tell the format from 'out'"),
        (tmp_path / "out.csv", {"partition_by": ["year"]}, "divides Parquet files into folders"),
    ):
        with pytest.raises(InputError, match=words):
            rows.write(target, **more)
    with pytest.raises(InputError, match="must not lie in"):
        Rows(lake, **ASK).write(lake / "out")
    with pytest.raises(InputError, match="which is read: it would be lost"):
        Rows(lake / "a.parquet", **ASK).write(lake / "a.parquet")
    written = rows.write(tmp_path / "out.parquet")
    assert written.num_rows == COUNT
    assert plain(pa.parquet.read_table(tmp_path / "out.parquet")).equals(plain(rows.counterfactuals()))
    rows.write(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().count("\n") == COUNT + 1


def test_files_that_differ_or_hold_bad_rows_are_named(table, tmp_path):
    (tmp_path / "lake").mkdir()
    broken = table.slice(0, 900).set_column(2, "p_dead", pa.array([-1.0 if row == 650 else 0.2 for row in range(900)]))
    pa.parquet.write_table(broken.slice(0, 500), tmp_path / "lake/a.parquet")
    pa.parquet.write_table(broken.slice(500), tmp_path / "lake/b.parquet", row_group_size=100)
    place = rf"row 150 \(counted from 0\) of {tmp_path}/lake/b\.parquet, row group 1 cannot be answered: a `factual`"
    for ask in (transitions, lambda *given, **options: counterfactuals_file(*given, tmp_path / "out", **options)):
        with pytest.raises(InputError, match=place):
            ask(tmp_path / "lake", **ASK, normalise=True)
    pa.parquet.write_table(table.slice(5, 5).drop_columns(["same"]), tmp_path / "lake/b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet differs from .*a\.parquet: there is no column 'same'"):
        transitions(tmp_path / "lake", **ASK)
    with pytest.raises(InputError, match="no file matches"):
        transitions(tmp_path / "lake/*.pq", **ASK)
