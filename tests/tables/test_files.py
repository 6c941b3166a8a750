"""Files of tables: exact texts, rows passed through byte for byte, and complaints that name the line."""

import csv
import gzip
import io
import json
import os
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from asking import counterfactuals_file, transitions
from hypothesis import given
from hypothesis import strategies as st

from countermax import InputError, Rows
from countermax._tables import csv as _csv
from countermax._tables import files as _base
from countermax._tables import jsonl as _jsonl
from countermax._tables import text as _text
from countermax._tables.files import open_table
from countermax._tables.writing import write_table
from countermax.intervals import _interval as _resampling
from countermax.tables import _sources

ASK = {"outcome": "y", "factual": "p_", "counterfactual": "q_"}
LABELS = ["01", "1", "1.0", "007", "None", "nan", "NA", "true", "a\nb", "-0", "12345678901234567890"]
FORMATS = [".csv", ".jsonl", ".parquet"]


def written(path, rows):
    """Rows of texts as a file of any format; None is a missing one."""
    names = list(rows[0])
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerows([names, *[[row[name] for name in names] for row in rows]])
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pa.parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def columns_of(path, *names):
    """Columns of a file that was written, read by another library."""
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    elif path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    else:
        rows = pa.parquet.read_table(path).to_pylist()
    return [[row[name] for row in rows] for name in names]


def questions(labels, **more):
    """A row for each label, with the same probabilities in both worlds, in which nothing changes."""
    worlds = {f"{world}_{label}": 1 / len(labels) for world in "pq" for label in labels}
    return [{"y": label, **more, **worlds} for label in labels]


@pytest.mark.parametrize("before", FORMATS)
@pytest.mark.parametrize("after", FORMATS)
def test_labels_that_differ_in_one_character_stay_apart_in_every_format(before, after, tmp_path):
    source = written(tmp_path / f"in{before}", questions(LABELS, id="007", day="2020-01-01"))
    counterfactuals_file(source, tmp_path / f"out{after}", **ASK)
    found = columns_of(tmp_path / f"out{after}", "y", "counterfactual_most_likely", "id", "day")
    assert found == [LABELS, LABELS, ["007"] * len(LABELS), ["2020-01-01"] * len(LABELS)]
    moved = transitions(source, **ASK, num_resamples=0)
    assert moved.labels == tuple(LABELS)
    np.testing.assert_allclose(moved.counts, np.eye(len(LABELS)), atol=1e-12)


@pytest.mark.parametrize("after", FORMATS)
def test_a_number_of_json_is_the_characters_of_its_token(after, tmp_path):
    tokens = ["1", "1.0", "10e-1", "-0", "0", "12345678901234567890", "true", "0.10", "1" + "0" * 5000]
    worlds = ", ".join(f'"{world}_{label}": {1 / len(tokens)}' for world in "pq" for label in tokens)
    lines = [f'{{"y": {token}, "same": {token}, {worlds}}}' for token in tokens]
    source, target = tmp_path / "in.jsonl", tmp_path / f"out{after}"
    source.write_text("\n".join(lines))
    counterfactuals_file(source, target, **ASK)
    if after == ".jsonl":
        for line, token in zip(target.read_text().splitlines(), tokens, strict=True):
            assert f'"counterfactual_most_likely": {token}, ' in line
        return
    found = columns_of(target, "y", "same", "counterfactual_most_likely")
    assert found == [tokens] * 3


@pytest.mark.parametrize("before", [".csv", ".jsonl"])
def test_a_text_is_a_label_that_it_writes_with_an_empty_fraction_and_no_other_that_it_resembles(before, tmp_path):
    rows = [{"y": seen, "p_1": 1.0, "q_1": 1.0} for seen in ("1", "01", "1.0", " 1", "1 ")]
    source = written(tmp_path / f"in{before}", rows)
    for after in FORMATS:
        counterfactuals_file(source, tmp_path / f"out{after}", **ASK, errors="missing")
        problems = columns_of(tmp_path / f"out{after}", "counterfactual_problem")[0]
        assert [bool(each) for each in problems] == [False, True, False, True, True]
        assert problems[1] == (
            "the outcome '01' is none of the labels '1'; the label '1' and '01' differ in how they are written"
        )


@pytest.mark.parametrize("before", [".csv", ".jsonl"])
def test_a_number_names_the_text_that_it_is_written_as(before, tmp_path):
    rows = [{"y": seen, "p_0": 0.4, "p_1": 0.6, "q_0": 0.7, "q_1": 0.3} for seen in ("1", "0", "01", "1")]
    source = written(tmp_path / f"in{before}", rows)
    worlds = {"outcome": "y", "errors": "missing"}
    by_text = Rows(source, factual="p_", counterfactual="q_", **worlds)
    by_number = Rows(source, factual={1: "p_1", 0: "p_0"}, counterfactual={0: "q_0", 1: "q_1"}, labels=[0, 1], **worlds)
    assert by_number.labels == by_text.labels == ("0", "1")
    assert by_number.counterfactuals().equals(by_text.counterfactuals())
    assert by_text.counterfactuals()["counterfactual_problem"].to_pylist()[2].startswith("the outcome '01' is none")
    assert by_text.causes(1).to_json() == by_text.causes("1").to_json()


def test_json_lines_stay_byte_for_byte(tmp_path):
    lines = [
        '{"y": "a", "p_a": 0.50, "q_a":5e-1,"p_b": 0.5, "q_b": 0.5, "id": 12345678901234567890, "day": "2020-01-01"}',
        '{ "y" : "b","p_a":5e-1, "q_a": 1E0, "p_b": 0.5, "q_b": 0e5, "deep": {"list": [1.0, 1e400, {"x": null}]} }',
        '{"p_a": 0.5, "q_a": 0.5, "p_b": 0.5, "q_b": 0.5, "y": "a", "caf\\u00e9": "\u00e9 \\ud83d\\ude00", "no": null}',
    ]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    for newline in ("\n", "\r\n"):
        source.write_bytes((newline.join(lines) + newline).encode())
        counterfactuals_file(source, target, **ASK)
        found = target.read_bytes().decode().split(newline)
        assert found.pop() == ""
        for before, after in zip(lines, found, strict=True):
            assert after.startswith(before[:-1].rstrip())
            assert json.loads(after)["counterfactual_a"] == pytest.approx(1.0)


ODD_CSV = [
    'y,p_a,q_a,p_b,q_b,"a ""note""",id',
    'a,0.50,5e-1,0.5,0.5,"say ""hi"", then",007',
    '"b",.5,0.5, 0.5 ,0.5,"two\nlines",+1',
    'a,0.5,0.5,0.5,0.5,5" pipe,"quoted"',
    'a,0.5,0.5,0.5,0.5,"",',
    "b,0.5,0.5,0.5,0.5,caf\u00e9,=1+1",
    'b,0.5,0.5,0.5,0.5,"x"y,NA',
]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("size", [1, 64, 2**24])
def test_a_csv_stays_byte_for_byte(newline, mark, size, tmp_path, monkeypatch):
    monkeypatch.setattr(_text, "BLOCK_BYTES", size)
    monkeypatch.setattr(_sources, "CHUNK_ROWS", 2)
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes(mark + newline.join(ODD_CSV).encode())  # the last line is not ended
    assert counterfactuals_file(source, target, **ASK).num_rows == len(ODD_CSV) - 1
    found = target.read_bytes().decode()
    assert found.startswith(f"{mark.decode()}{ODD_CSV[0]},counterfactual_a,counterfactual_b,")
    places = [found.find(f"{newline}{line},") for line in ODD_CSV[1:]]
    assert places == sorted(places)
    assert places[0] > 0
    note, number, likeliest = columns_of(target, 'a "note"', "id", "counterfactual_most_likely")
    assert note == ['say "hi", then', "two\nlines", '5" pipe', "", "caf\u00e9", "xy"]
    assert number == ["007", "+1", "quoted", "", "=1+1", "NA"]
    assert likeliest == ["a", "b", "a", "a", "b", "b"]


def test_what_is_passed_through_into_another_format_is_text(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text('y,p_a,q_a,n,d,e,f\na,1,1.0,007,2020-01-01,,""\na,1,1,1e5,true,NA,x\n')
    counterfactuals_file(source, tmp_path / "out.parquet", **ASK)
    table = pa.parquet.read_table(tmp_path / "out.parquet")
    assert {str(table.schema.field(name).type) for name in ("y", "n", "d", "e", "f")} == {"string"}
    assert table.select(["n", "d", "e", "f"]).to_pydict() == {
        "n": ["007", "1e5"], "d": ["2020-01-01", "true"], "e": [None, "NA"], "f": ["", "x"],
    }  # fmt: skip
    assert table.column("p_a").to_pylist() == [1.0, 1.0]
    source = tmp_path / "in.jsonl"
    rest = '"big": 12345678901234567890, "day": "2020-01-01", "deep": {"a": [1.0, "\\u00e9"]}, "no": null, "yes": true'
    source.write_text('{"y": "a", "p_a": 1, "q_a": 1, ' + rest + "}\n")
    for suffix in (".csv", ".parquet"):
        counterfactuals_file(source, tmp_path / f"out{suffix}", **ASK)
        found = columns_of(tmp_path / f"out{suffix}", "big", "day", "deep", "no", "yes")
        missing = "" if suffix == ".csv" else None
        assert found == [["12345678901234567890"], ["2020-01-01"], ['{"a": [1.0, "\u00e9"]}'], [missing], ["true"]]


def test_parquet_keeps_its_types(tmp_path):
    table = pa.table({
        "y": ["a", "b"], "p_a": [0.5, 0.5], "p_b": [0.5, 0.5], "q_a": [0.5, 0.5], "q_b": [0.5, 0.5],
        "big": pa.array([2**64 - 1, None], pa.uint64()), "when": pa.array([0, 1], pa.timestamp("us", "UTC")),
        "cents": pa.array([Decimal(1), None], pa.decimal128(5, 2)), "tags": [["x,y"], None], "word": ["", None],
        "kind": pa.array(["u", "v"]).dictionary_encode(), "raw": [b"x", None],
    })  # fmt: skip
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    counterfactuals_file(tmp_path / "in.parquet", tmp_path / "out.parquet", **ASK)
    assert pa.parquet.read_table(tmp_path / "out.parquet").select(table.column_names).equals(table)
    names = ("big", "cents", "tags", "word", "kind", "raw")
    counterfactuals_file(tmp_path / "in.parquet", tmp_path / "out.jsonl", **ASK)
    expected = [[2**64 - 1, None], ["1.00", None], [["x,y"], None], ["", None], ["u", "v"], ["x", None]]
    assert columns_of(tmp_path / "out.jsonl", *names) == expected
    counterfactuals_file(tmp_path / "in.parquet", tmp_path / "out.csv", **ASK)
    expected = [[str(2**64 - 1), ""], ["1.00", ""], ['["x,y"]', ""], ["", ""], ["u", "v"], ["x", ""]]
    assert columns_of(tmp_path / "out.csv", *names) == expected
    assert ',"",' in (tmp_path / "out.csv").read_text()
    bad = table.set_column(table.column_names.index("raw"), "raw", pa.array([b"\xff", None]))
    pa.parquet.write_table(bad, tmp_path / "in.parquet")
    with pytest.raises(InputError, match="column 'raw' holds binary that is not text; write .parquet instead"):
        counterfactuals_file(tmp_path / "in.parquet", tmp_path / "out.csv", **ASK)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.sampled_from(
    ["", '"', "a,b", "\n", "\r", "\r\n", "=1+1", " x ", '""', "\ufeff", "NA", "\u2028", "\x1f"]
)


@given(st.lists(st.tuples(st.none() | TEXTS, TEXTS), min_size=1), st.lists(TEXTS, min_size=2, max_size=2, unique=True))
def test_a_csv_that_we_write_reads_back_identically(tmp_path_factory, rows, names):
    folder = tmp_path_factory.mktemp("csv")
    columns = zip(*rows, strict=True)
    table = pa.table({name: pa.array(column, pa.string()) for name, column in zip(names, columns, strict=True)})
    write_table(table, folder / "out.csv")
    with (folder / "out.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.reader(file))
    assert found == [names, *[[first or "", second] for first, second in rows]]
    again = open_table(folder / "out.csv")
    assert again.names == names
    again.ask(names[0], [], others=True)
    assert [row for chunk in again.chunks(1000) for row in chunk.table.to_pylist()] == table.to_pylist()
    write_table(table, folder / "out.jsonl")
    assert [json.loads(line) for line in (folder / "out.jsonl").read_text().split("\n")[:-1]] == table.to_pylist()


CELLS = st.sampled_from(
    ["", "a", '""', '"a"', '"a""b"', '"""a"""', '"a\nb"', '"a,b\r\n"', 'a"b', '"a"b"c', "a b", '"\r"']
)
ENDS = st.sampled_from(["\n", "\r\n", "\r", "\n\n"])


@given(
    st.lists(st.tuples(CELLS, st.just(","), CELLS, ENDS).map("".join), max_size=6).map("".join)
    | st.text(st.sampled_from('a",\n\r'), max_size=40),
    st.integers(1, 12),
)
def test_rows_are_cut_where_arrow_cuts_them(tmp_path_factory, text, size):
    """Oracle: each record, read alone, is a row of the whole; how the file is cut into blocks does not matter."""
    path = tmp_path_factory.mktemp("csv") / "in.csv"
    data = ("x,y\n" + text).encode()
    path.write_bytes(data)

    def read(part):
        kept = pa.csv.ConvertOptions(strings_can_be_null=False, column_types={"f0": pa.string(), "f1": pa.string()})
        options = pa.csv.ReadOptions(autogenerate_column_names=True)
        parse = pa.csv.ParseOptions(newlines_in_values=True)
        return pa.csv.read_csv(io.BytesIO(part), options, parse, kept).to_pylist()

    try:
        expected = read(data)
        blocks = list(_text.blocks(path, _csv._cut, size))
    except (InputError, pa.ArrowInvalid):  # ragged, or a quoted cell is not closed
        return
    found = [block.data[start:end] for block, records in blocks for start, end in zip(*records, strict=True)]
    assert [row for record in found for row in read(record + b"\n")] == expected
    assert [dict(zip(("f0", "f1"), _csv.cells_of(record), strict=True)) for record in found] == expected


HEADER = "y,p_a,q_a,id\n"
WRONG = {
    "latin.csv": (f"{HEADER}a,1,1,x\na,1,1,caf\u00e9\n".encode("latin-1"),
        r"latin.csv must be UTF-8, but line 3 has the byte 0xe9 \(byte 30 of the file, '\u00e9' in Latin-1\); "
        r"convert it, for instance: iconv -f LATIN1 -t UTF-8 .*latin.csv > utf8.csv"),
    "latin.jsonl": ('{"y": "a"}\n\n{"y": "\u00e9"}\n'.encode("latin-1"), "line 3 has the byte 0xe9"),
    "wide.csv": (HEADER.encode("utf-16"), "must be UTF-8, but is UTF-16; convert it"),
    "nul.csv": (f"{HEADER}a,1,1,x\0\n".encode(), r"line 2 has a NUL byte \(byte 20 of the file\)"),
    "nul.jsonl": (b'{"y": "a"}\n\0\0\0\0', "line 2 has a NUL byte"),
    "packed.csv": (gzip.compress(HEADER.encode()), r"must be text, but is compressed \(gzip\); unpack it first"),
    "packed.csv.gz": (b"", "cannot tell the format from 'packed.csv.gz'; end it in .csv.*unpack it first"),
    "empty.csv": (b"", "must begin with a line of column names, but is empty"),
    "blank.csv": (b"\xef\xbb\xbf\n\r\n\n", "must begin with a line of column names, but is empty"),
    "empty.jsonl": (b"\n\n", "must have a JSON object in each line, but is empty"),
    "short.csv": (f"{HEADER}a,1,1,x\na,1,1\n".encode(), "line 3 must have 4 cells, as the header has, got 3"),
    "long.csv": (f'{HEADER}"a\nb",1,1,x\n\na,1,1,x,y\n'.encode(), "line 5 must have 4 cells, as the header has, got 5"),
    "open.csv": (f'{HEADER}a,1,1,"x\na,1,1,x\n'.encode(), "must close every quoted cell, .* in line 2"),
    "text.csv": (f"{HEADER}a,1,1,x\na,one,1,x\n".encode(), "line 3: column 'p_a' must hold numbers, .* got 'one'"),
    "semicolon.csv": (b"y;p_a;q_a\na;1;1\n", "must be separated by commas, but its header has ';' instead"),
    "twice.csv": (b"y,p_a,q_a,id,id\na,1,1,x,y\n", "must have each column once, but has 'id' twice; rename one"),
    "twice.jsonl": (b'{"y": 1, "p_a": 1, "q_a": 1, "y": 2}', "line 1 must have each name once, but has 'y' twice"),
    "cut.jsonl": (b'{"y": "a"}\n{"y"', "line 2 must hold a JSON object, got '{\"y\"' "),
    "list.jsonl": (b'\n{"y": "a"}\n[1]\n', r"line 3 must hold one JSON object, got '\[1\]'"),
    "two.jsonl": (b'{"y": "a"} {"y": "a"}\n', "line 1 must hold one JSON object"),
    "deep.jsonl": (b'{"y": ' + b"[" * 100_000, r"line 1 must hold a JSON object, got .*\(it is nested too deeply\)"),
    "label.jsonl": (b'{"y": ["a"], "p_a": 1, "q_a": 1}', r"line 1 must have a label in 'y', got '\[\"a\"\]'"),
    "number.jsonl": (b'{"y": "a", "p_a": "1", "q_a": 1}', "line 1 must have a number in 'p_a', .* got '1'"),
    "half.jsonl": (b'{"y": "\\ud800", "p_a": 1, "q_a": 1}', "line 1 must have text in 'y' that is Unicode"),
    "name.jsonl": (b'{"y": "a", "p_a": 1, "q_a": 1, "\\ud800": 1}', "the name of a column must be Unicode, got"),
    "broken.parquet": (b"PAR1 no", "cannot read .*broken.parquet: "),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_no_table_is_told_where_and_why(name, tmp_path):
    content, words = WRONG[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        transitions(tmp_path / name, **ASK)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_long_labels_and_labels_of_several_lines_are_labels(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr(_text, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(_jsonl, "BLOCK_BYTES", 1000)
    labels = ["x" * 200_000, "x" * 199_999 + "y", "two\r\nlines", 'a "quoted", one']
    source, target = written(tmp_path / f"in{suffix}", questions(labels)), tmp_path / f"out{suffix}"
    counterfactuals_file(source, target, **ASK)
    csv.field_size_limit(10**6)
    assert columns_of(target, "counterfactual_most_likely") == [labels]
    assert transitions(source, **ASK, num_resamples=0).counts.trace() == pytest.approx(4)


def test_rows_with_long_texts_come_in_shorter_chunks(tmp_path, monkeypatch):
    assert _base.LEAST_ROWS % _resampling.BLOCK_ROWS == 0
    monkeypatch.setattr(_base, "CHUNK_BYTES", 2**16)
    monkeypatch.setattr(_base, "LEAST_ROWS", 8)
    frame = pd.DataFrame({"y": "a", "p_a": 1, "q_a": 1, "note": ["n" * 1000] * 500})
    frame.to_csv(tmp_path / "in.csv", index=False)
    file = open_table(tmp_path / "in.csv")
    file.ask("y", ["p_a", "q_a"], others=True)
    sizes = [chunk.table.num_rows for chunk in file.chunks(400)]
    assert sum(sizes) == 500
    assert max(sizes[:-1]) <= 72
    assert all(size % 8 == 0 for size in sizes[:-1])


def test_a_column_that_no_label_names_does_not_spoil_a_prefix(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("y,p_a,p_b,p_value,q_a,q_b,q_est\na,0.5,0.5,n.s.,1,0,\nb,0.2,0.8,0.04,1,0,x\n")
    found = transitions(source, **ASK, labels=["a", "b"], num_resamples=0)
    assert found.counts.tolist() == [[1, 0], [1, 0]]
    counterfactuals_file(source, tmp_path / "out.jsonl", **ASK, labels=["b", "a"])
    assert columns_of(tmp_path / "out.jsonl", "p_value", "counterfactual_a") == [["n.s.", "0.04"], [1, 1]]
    with pytest.raises(InputError, match="'value' not in it and 'est' too many; .* name the outcomes with `labels`"):
        transitions(source, **ASK)
    with pytest.raises(InputError, match="column 'p_value' must hold numbers.* got 'n.s.'; .* name the outcomes"):
        transitions(source, outcome="y", factual="p_", counterfactual="p_")


def test_nothing_is_written_into_a_csv_that_it_could_not_hold(tmp_path):
    with pytest.raises(InputError, match="a CSV cannot hold the NUL character in column 'x'; write .parquet or .jsonl"):
        write_table(pa.table({"x": ["a\0b"], "y": ["c"]}), tmp_path / "out.csv")
    with pytest.raises(InputError, match="a CSV cannot hold a NUL character, but a column is called"):
        write_table(pa.table({"x\0": ["a"]}), tmp_path / "out.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", range(1, 9))
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_are_counted_however_a_file_is_cut(size, newline, tmp_path, monkeypatch):
    monkeypatch.setattr(_text, "BLOCK_BYTES", size)
    source = tmp_path / "in.csv"
    source.write_bytes(newline.join(["y,p_a,q_a", "a,1,1", '"b', 'b",1,1', "a,one,1", ""]).encode())
    with pytest.raises(InputError, match="line 5: column 'p_a' must hold numbers"):
        transitions(source, **ASK)


def test_a_missing_outcome_is_nothing_at_all_null_or_nan(tmp_path):
    rest = '"p_NaN": 1, "q_NaN": 1'
    source = tmp_path / "in.jsonl"
    source.write_text("".join(f"{{{seen}{rest}}}\n" for seen in ('"y": NaN, ', '"y": null, ', "", '"y": "NaN", ')))
    counterfactuals_file(source, tmp_path / "out.jsonl", **ASK, errors="missing")
    problems = columns_of(tmp_path / "out.jsonl", "counterfactual_problem")[0]
    assert problems == ["the outcome in 'y' is missing"] * 3 + [None]


def test_a_cell_may_begin_with_what_marks_the_beginning_of_a_file(tmp_path):
    source = tmp_path / "in.csv"
    source.write_bytes(b"y,p_\xef\xbb\xbfa,q_\xef\xbb\xbfa\n\xef\xbb\xbfa,1,1\n")
    assert transitions(source, **ASK, num_resamples=0).labels == ("\ufeffa",)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize("ending", [b".csv", b".jsonl", b".parquet"])
def test_a_name_need_not_be_utf_8(ending, tmp_path):
    plain = written(tmp_path / f"in{ending.decode()}", questions(["a", "b"]))
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xe9" + ending))
    plain.rename(odd)
    out = odd.with_name(f"out-{odd.name}")
    counterfactuals_file(odd, out, **ASK)
    out.rename(plain)
    assert columns_of(plain, "counterfactual_most_likely") == [["a", "b"]]
