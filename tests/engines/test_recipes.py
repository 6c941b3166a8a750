"""The recipes of docs/engines.md, run with the engines themselves: the same bits, and sums that agree."""

import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from lake import ASK, cut, patients, plain

from countermax import Rows

DOCUMENT = Path(__file__).parents[2] / "docs/engines.md"


@pytest.fixture
def data(tmp_path):
    (tmp_path / "lake").mkdir()
    for number, piece in enumerate(cut(patients(), 3000, 3001)):
        pa.parquet.write_table(piece, tmp_path / f"lake/{number}.parquet", row_group_size=1000)
    return tmp_path


def run(title, data):
    """Runs a section's block; returns its names."""
    section = DOCUMENT.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    code = re.search(r"^```py\n(.*?)^```", section, re.DOTALL | re.MULTILINE)[1]
    module = data / f"recipe_{title.lower()}.py"  # a file, since processes import what they run
    module.write_text(code.replace("/data", str(data)))
    sys.path.insert(0, str(data))
    try:
        return vars(__import__(module.stem))
    finally:
        sys.path.remove(str(data))


def expected():
    return Rows(patients(), **ASK).counterfactuals().sort_by("id")


@pytest.mark.parametrize("engine", ["polars", "DuckDB"])
def test_files_of_an_engine_hold_our_bits(data, engine):
    pytest.importorskip(engine.lower())
    run(engine, data)
    found = pa.parquet.read_table(data / f"answers_of_{engine.lower()}.parquet").sort_by("id")
    _check_same(found)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_spark_writes_our_bits(data, monkeypatch):
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    run("Spark", data)["spark"].stop()
    _check_same(pa.parquet.read_table(data / "answers_of_spark").sort_by("id"))


def _check_same(found):
    whole = plain(expected())
    assert found.column_names == whole.column_names
    for name in whole.column_names:
        assert found[name].to_pylist() == whole[name].to_pylist()


def test_dask_merges_sums(data):
    pytest.importorskip("dask")
    found, whole = run("Dask", data)["transitions"], Rows(patients(), **ASK).transitions(num_resamples=200)
    np.testing.assert_allclose(found.counts, whole.counts, rtol=1e-12)
    assert found.counts_interval is not None
