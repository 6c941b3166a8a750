"""Libraries of frames are imported when a frame of theirs comes, and not before."""

import subprocess
import sys
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from asking import counterfactuals

CODE = """
import sys
import countermax.tables
heavy = {"pandas", "polars", "pyarrow", "sklearn", "matplotlib", "ray"} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.mark.parametrize(
    ("library", "make", "other"),
    [("pandas", "DataFrame", "polars"), ("polars", "DataFrame", "pandas"), ("pyarrow", "table", "polars")],
)
def test_tables_import_no_library_of_frames_nor_ray_and_a_frame_brings_its_own_only(library, make, other):
    code = f"{CODE}\nimport {library}\nfrom countermax._tables.frames import as_frame\n"
    code += f"assert as_frame({library}.{make}({{'a': [1, 2]}}), 7).row_name(1) == 'row 8 (counted from 0)'\n"
    code += f"assert {other!r} not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("ending", "text"), [("parquet", "string"), ("parquet", "large_string"), ("csv", "string")])
def test_files_are_answered_without_pandas(tmp_path, ending, text):
    """Importing it takes longer than most answers; pandas itself writes texts as large ones."""
    source = tmp_path / f"in.{ending}"
    texts = pa.array(["ill", "well"]).cast(text)
    table = pa.table({"y": texts, "p_ill": [0.6, 0.4], "p_well": [0.4, 0.6], "q_ill": [0.3, 0.1], "q_well": [0.7, 0.9]})
    writer = pa.csv.write_csv if ending == "csv" else pa.parquet.write_table
    writer(table, source)
    code = f"""
import sys
from countermax import Rows
rows = Rows({str(source)!r}, outcome="y", factual="p_", counterfactual="q_")
rows.transitions(num_resamples=0)
rows.write({str(tmp_path / "out.parquet")!r})
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert pa.parquet.read_schema(tmp_path / "out.parquet").field("counterfactual_most_likely").type == texts.type


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["1", "2"]).dictionary_encode(),
        pa.array(["1", "2"], pa.large_string()),
        pa.array(["1", "2"], pa.string_view()),
        pa.array([1, 2]).dictionary_encode(),
        pa.array([1, 2], pa.uint8()),
        pa.array([Decimal(1), Decimal(2)], pa.decimal128(5, 2)),
        pd.Series([1, 2], dtype="category"),
        pd.Series(["1", "2"], dtype="category"),
        pd.Series([1, 2], dtype="int64[pyarrow]"),
        pd.Series([1, 2], dtype=object),
        pl.Series([1, 2]).cast(pl.Decimal(5, 1)),
        pl.Series(["1", "2"], dtype=pl.Categorical),
    ],
    ids=lambda values: f"{type(values).__module__.partition('.')[0]} {getattr(values, 'dtype', None) or values.type}",
)
def test_names_of_columns_are_read_as_whatever_type_a_column_has(values):
    make = {"pyarrow": pa.table, "pandas": pd.DataFrame, "polars": pl.DataFrame}[type(values).__module__.split(".")[0]]
    frame = make({"y": values, **{f"{world}_{label}": [0.5, 0.5] for world in "pq" for label in "12"}})
    found = counterfactuals(frame, outcome="y", factual="p_", counterfactual="q_")["counterfactual_most_likely"]
    assert (found.to_pylist() if make is pa.table else list(found)) == (
        values.to_pylist() if make is pa.table else list(values)
    )
