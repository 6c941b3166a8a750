"""Tables in files: the numbers of the Python calls, whatever the format; errors in one line; nothing half written."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from asking import counterfactuals, counterfactuals_file, transitions
from typer.testing import CliRunner

from countermax import InputError
from countermax._core import extras
from countermax._tables import jsonl as _jsonl
from countermax._tables import text as _text
from countermax._tables.files import open_table
from countermax._tables.writing import write_table
from countermax.cli import app
from countermax.couplings import _nested
from countermax.tables import _sources

LABELS = ["dead", "ill", "well"]
ASK = {"outcome": "status", "factual": "p_", "counterfactual": "q_"}
OPTIONS = ["--outcome", "status", "--factual", "p_", "--counterfactual", "q_"]


def patients(count=9):
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet([2, 3, 4], count), rng.dirichlet([1, 3, 5], count)
    frame = pd.DataFrame({"id": [f"{row:03}" for row in range(count)], "visits": np.arange(count)})
    frame["status"] = [LABELS[row % 3] for row in range(count)]
    for world, probs in (("p", p), ("q", q)):
        frame[[f"{world}_{label}" for label in LABELS]] = probs
    return frame


def store(frame, path):
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        write_table(pa.Table.from_pandas(frame, preserve_index=False), path)
    return path


def read(path):
    if path.suffix == ".csv":
        return pd.read_csv(path, dtype={"id": str})
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


FORMATS = [".csv", ".parquet", ".jsonl"]


@pytest.mark.parametrize("before", FORMATS)
@pytest.mark.parametrize("after", FORMATS)
def test_the_command_writes_what_the_python_call_returns(before, after, tmp_path, monkeypatch):
    monkeypatch.setattr(_sources, "CHUNK_ROWS", 4)  # three chunks
    frame = patients()
    source, target = store(frame, tmp_path / f"in{before}"), tmp_path / f"out{after}"
    result = run("counterfactuals", source, *OPTIONS, "--score", "dead=0,ill=1,well=2", "-o", target)
    assert result.exit_code == 0, result.output
    assert "9 rows" in result.stdout
    expected = counterfactuals(frame, **ASK, score=[0, 1, 2])
    found = read(target)
    if before != ".parquet" and before != after:
        expected["visits"] = expected["visits"].astype(str)  # passed through unread: text
        found["visits"] = found["visits"].astype(str)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=1e-14)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"in{before}", f"out{after}"]


def test_a_csv_keeps_what_nobody_asked_about_as_it_was_written(tmp_path):
    frame = patients(2)
    frame["note"] = ['say "hello", then', ""]
    frame["amount"] = ["1.50", "NA"]
    source, target = store(frame, tmp_path / "in.csv"), tmp_path / "out.csv"
    counterfactuals_file(source, target, **ASK)
    found = pd.read_csv(target, dtype=str, keep_default_na=False)
    for name in ("id", "note", "amount", "status"):
        assert list(found[name]) == list(frame[name])


def test_transitions_are_those_of_the_python_call(tmp_path, monkeypatch):
    frame = patients()
    expected = transitions(frame, **ASK, num_resamples=50, seed=2)
    source = store(frame, tmp_path / "in.parquet")
    picture, out = tmp_path / "flows.png", tmp_path / "cells.csv"
    options = ["--num-resamples", 50, "--seed", 2]
    result = run("transitions", source, *OPTIONS, *options, "--json", "--plot", picture, "-o", out)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == json.loads(expected.to_json())
    assert picture.read_bytes().startswith(b"\x89PNG")
    pd.testing.assert_frame_equal(pd.read_csv(out), expected.to_frame(), rtol=1e-12)
    shown = run("transitions", source, *OPTIONS, *options, "-o", out, "--overwrite")
    assert "any coupling" in shown.stdout
    assert "written" in shown.stdout


def test_what_a_column_holds_further_down_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.setattr(_text, "BLOCK_BYTES", 512)
    monkeypatch.setattr(_jsonl, "BLOCK_BYTES", 512)
    frame = patients(40)
    frame["whole"] = [*range(39), 0.5]
    frame["late"] = [None] * 39 + ["text"]
    frame["empty"] = None
    frame["p_dead"], frame["p_ill"] = [0.0] * 39 + [0.5], [0.5] * 39 + [0.0]
    frame["p_well"] = 0.5
    frame["status"] = ["ill"] * 39 + ["dead"]
    expected = counterfactuals(frame, **ASK)
    for suffix in (".csv", ".jsonl"):
        counterfactuals_file(store(frame, tmp_path / f"in{suffix}"), tmp_path / "out.parquet", **ASK)
        found = pd.read_parquet(tmp_path / "out.parquet")
        assert found["whole"].iloc[-1] == "0.5"
        assert found["late"].isna().tolist() == [True] * 39 + [False]
        assert found["empty"].isna().all()
        pd.testing.assert_series_equal(found["counterfactual_ill"], expected["counterfactual_ill"])


def test_a_name_that_comes_late_in_json_lines_is_a_column_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(_jsonl, "BLOCK_BYTES", 64)
    row = {"status": "a", "p_a": 1, "q_a": 1}
    lines = [row, {**row, "note": "x"}, {**row, "p_b": 0, "q_b": 0}, {**row, "p_b": 0.0, "q_b": 0}]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    counterfactuals_file(source, tmp_path / "out.csv", **ASK, errors="missing")
    found = pd.read_csv(tmp_path / "out.csv")
    assert list(found.columns[:7]) == ["status", "p_a", "q_a", "note", "p_b", "q_b", "counterfactual_a"]
    assert found["note"].isna().tolist() == [True, False, True, True]
    assert found["counterfactual_problem"].notna().tolist() == [True, True, False, False]
    counterfactuals_file(source, tmp_path / "out.jsonl", **ASK, errors="missing")
    assert read(tmp_path / "out.jsonl")["counterfactual_b"].isna().tolist() == [True, True, False, False]
    file = open_table(source)
    file.ask(None, (), flags=file.names)
    with pytest.raises(InputError, match=r"first rows must have all columns, but have no 'note', 'p_b', 'q_b'"):
        list(file.chunks(10))  # by a reader that does not begin again


def test_an_empty_cell_of_a_csv_is_a_missing_value_and_nothing_else_is(tmp_path):
    frame = patients(3)
    frame["status"] = ["", "NA", "nan"]
    frame = frame.rename(columns={"p_dead": "p_NA", "p_ill": "p_nan", "q_dead": "q_NA", "q_ill": "q_nan"})
    frame["p_well"], frame["q_well"] = frame["p_well"].astype(object), frame["q_well"].astype(object)
    for suffix in (".csv", ".parquet"):
        counterfactuals_file(store(frame, tmp_path / "in.csv"), tmp_path / f"out{suffix}", **ASK, errors="missing")
        found = read(tmp_path / f"out{suffix}")
        assert found["counterfactual_problem"].notna().tolist() == [True, False, False]


def test_a_schema_says_what_labels_are(tmp_path):
    frame = pd.DataFrame({"y": [3, 1, 3], "p_1": [0.2] * 3, "p_3": [0.8] * 3, "q_1": [0.5] * 3, "q_3": [0.5] * 3})
    source = store(frame, tmp_path / "in.parquet")
    asked = {"outcome": "y", "factual": "p_", "counterfactual": "q_"}
    counterfactuals_file(source, tmp_path / "out.parquet", **asked)
    assert pd.read_parquet(tmp_path / "out.parquet")["counterfactual_most_likely"].dtype == np.int64
    by_label = run(
        "counterfactuals", source, "--outcome", "y", "--factual", "1.0=p_1,3=p_3", "--counterfactual", "q_3,q_1",
        "--labels", "3,1", "-o", tmp_path / "again.csv", "--coupling", "inverse-cdf", "--score", "01=0,3=1",
    )  # fmt: skip
    assert by_label.exit_code == 0, by_label.output
    assert "counterfactual_3" in (tmp_path / "again.csv").read_text()
    twice = run("counterfactuals", source, "--outcome", "y", "--factual", "p_", "--counterfactual", "q_",
                "--labels", "1,3,03", "-o", tmp_path / "again.csv")  # fmt: skip
    assert "--labels must differ from each other, got 3, 3" in twice.stderr
    with pytest.raises(InputError, match="'3' is a label, but a text never equals a number"):
        transitions(source, **asked, labels=["1", "3"])
    frame["y"] = [True, False, True]
    named = frame.rename(columns=lambda name: name.replace("_1", "_false").replace("_3", "_true"))
    counterfactuals_file(store(named, tmp_path / "in.parquet"), tmp_path / "out.parquet", **asked)
    assert pd.read_parquet(tmp_path / "out.parquet")["counterfactual_most_likely"].dtype == bool


def test_a_table_without_rows_has_its_columns(tmp_path):
    source = store(patients(0), tmp_path / "in.csv")
    assert counterfactuals_file(source, tmp_path / "out.csv", **ASK).num_rows == 0
    assert "counterfactual_most_likely" in (tmp_path / "out.csv").read_text()
    with pytest.raises(InputError, match="in.csv there are none"):
        transitions(source, **ASK, num_resamples=5)


BAD = {
    "no file": (["nowhere.csv"], "cannot read nowhere.csv: no such file"),
    "format": (["data.xlsx"], "cannot tell the format from 'data.xlsx'; end it in .csv, .parquet"),
    "target": (["-o", "out.xlsx"], "cannot tell the format from 'out.xlsx'"),
    "outcome": (["--outcome", "state"], "--outcome must name a column, got 'state'; the columns are 'id'"),
    "prefix": (["--factual", "z_"], "none begins with 'z_'"),
    "column": (["--factual", "p_dead,p_sick,p_well"], "--factual must name a column, got 'p_sick'"),
    "text": (["--factual", "dead=p_dead,ill=id_text,well=p_well"], "column 'id_text' must hold numbers"),
    "coupling": (["--coupling", "gumbel"], "must be one of gumbel-max, inverse-cdf"),
    "score": (["--score", "dead=0,ill"], "must be label=value"),
    "number": (
        ["--score", "0,x,1"],
        "--score must be label=number,label=number,... or, in the order of the labels, numbers, got 'x'",
    ),
    "folder": (["-o", "/nowhere/out.csv"], "cannot write /nowhere/out.csv: there is no folder /nowhere"),
    "zero": (["--factual", "z"], "none begins with 'z'"),
    "sum": (["--factual", "dead=p_dead,ill=p_dead,well=p_well"], "row 0 (counted from 0) cannot be answered"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_leaves_no_file(case, tmp_path, monkeypatch, as_users_call):
    monkeypatch.chdir(tmp_path)
    frame = patients()
    frame["id_text"] = "x" + frame["id"]
    store(frame, tmp_path / "data.csv")
    change, words = BAD[case]
    data = change if case in ("no file", "format") else ["data.csv"]
    more = [] if case in ("no file", "format") else change
    result = run("counterfactuals", *data, *OPTIONS, "-o", "out.csv", *more)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


def test_an_error_far_down_names_its_row_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(_sources, "CHUNK_ROWS", 4)
    frame = patients()
    frame.loc[7, "status"] = "cured"
    source, target = store(frame, tmp_path / "in.jsonl"), tmp_path / "out.parquet"
    target.write_text("old")
    with pytest.raises(InputError, match=r"row 7 \(counted from 0\) .* 'cured' is none of the labels"):
        counterfactuals_file(source, target, **ASK)
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.parquet"]
    counterfactuals_file(source, target, **ASK, errors="missing")
    assert pd.read_parquet(target)["counterfactual_problem"].notna().tolist() == [False] * 7 + [True, False]


def test_a_missing_extra_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(_nested, "import_yaml", extras._importer("YAML files need", "nowhere", extra="yaml"))
    (tmp_path / "nests.yaml").write_text("name: root")
    (tmp_path / "in.csv").write_text("status,p_a,q_a\na,1,1\n")
    result = run("transitions", tmp_path / "in.csv", *OPTIONS, "--coupling", tmp_path / "nests.yaml")
    assert result.exit_code == 2
    assert "pip install 'countermax[yaml]'" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_memory_does_not_grow_with_the_rows_of_a_parquet_file(tmp_path):
    """Six times the rows, ten outcomes: what is held stays."""
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(10), 100_000), rng.dirichlet(np.ones(10), 100_000)
    columns = {f"{world}_{k}": each[:, k] for world, each in (("p", p), ("q", q)) for k in range(10)}
    rows = pa.table(columns | {"outcome": rng.integers(0, 10, 100_000)})
    peaks = []
    for times in (1, 6):
        with pa.parquet.ParquetWriter(tmp_path / "in.parquet", rows.schema) as writer:
            for _ in range(times):
                writer.write_table(rows)
        code = (
            "import resource, sys; from countermax import Rows; "
            f"Rows({str(tmp_path / 'in.parquet')!r}, outcome='outcome', factual='p_', counterfactual='q_')"
            f".write({str(tmp_path / f'{times}.parquet')!r}); assert not {{'pandas', 'optax'}} & set(sys.modules); "
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        peaks.append(float(done.stdout))
    assert peaks[1] - peaks[0] < 100  # MiB; held in memory, half a million more rows would be 230
