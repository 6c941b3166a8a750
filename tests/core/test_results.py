"""What every result can do, and plain values."""

import importlib
import io
import json
import pkgutil
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

import countermax
from countermax import Trial, Worlds
from countermax._core.console import as_text
from countermax._core.errors import InputError
from countermax._core.results import AbstractResult, Row, plain, tables_of
from countermax.bounds import Bounds
from countermax.intervals import Interval

pytestmark = pytest.mark.filterwarnings("ignore")  # of libraries that are imported on the way
_PARTS = ("summary", "row", "to_frame", "to_dict", "to_json", "plot", "write_page", "_repr_html_", "__rich__")


def _results():
    for module in pkgutil.walk_packages(countermax.__path__, "countermax."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found, ahead = [], [AbstractResult]
    while ahead:
        below = [each for each in ahead.pop().__subclasses__() if each.__module__.startswith("countermax")]
        ahead += [each for each in below if each.__name__.startswith("Abstract")]
        found += [each for each in below if not each.__name__.startswith("Abstract")]
    assert len(found) >= 10
    return found


def test_every_result_is_final_and_has_every_form():
    for cls in _results():
        assert getattr(cls, "__final__", False), f"{cls.__name__} is not final"
        assert not getattr(cls, "__abstractmethods__", None), cls.__name__
        assert all(callable(getattr(cls, part)) for part in _PARTS), cls.__name__


def test_no_two_public_classes_have_one_name():
    homes = {}
    for module in pkgutil.walk_packages(countermax.__path__, "countermax."):
        if module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, type) and value.__module__.startswith("countermax") and not name.startswith("_"):
                homes.setdefault(value.__name__, set()).add(value.__module__)
    assert {name: found for name, found in homes.items() if len(found) > 1 and not name.startswith("_")} == {}


def test_plain_values_are_what_json_can_hold():
    value = {"a": np.array([1.0, np.nan]), 2: Bounds(np.float64(0.5), np.inf), "c": (True, None, "x", np.int64(3))}
    assert plain(value) == {"a": [1.0, None], "2": {"lower": 0.5, "upper": None}, "c": [True, None, "x", 3]}
    json.dumps(plain(value), allow_nan=False)


@pytest.fixture(scope="module")
def answer():
    trial = Trial.from_counts([30, 40, 30], [10, 30, 60], labels=["dead", "ill", "<well>"], score=[0, 1, 2])
    return trial.compare("dead")


def test_every_form_of_an_answer_has_the_same_rows(answer, tmp_path):
    frame, plain_rows = answer.to_frame(), json.loads(answer.to_json())["rows"]
    assert list(frame.columns) == list(Row._fields)
    assert len(frame) == len(plain_rows) == len(answer.rows)
    row = answer.row("P(ill)", "Gumbel-max")
    assert plain_rows[list(answer.rows).index(row)] == plain(row._asdict())
    page, cell = answer.write_page(tmp_path / "page.html").read_text(), answer._repr_html_()
    for text in (page, cell):
        assert "P(&lt;well&gt;)" in text
        assert "<well>" not in text
        assert f"{row.value:.3f}" in text
    assert " ".join(answer.summary().split()) in " ".join(str(answer).split())


def test_a_page_leaves_out_more_numbers_than_a_browser_can_hold(answer, tmp_path, monkeypatch):
    monkeypatch.setattr("countermax._core.results._MOST_ON_PAGE", len(answer.rows) - 1)
    page = answer.write_page(tmp_path / "page.html").read_text()
    assert "<details>" not in page
    assert f"All {len(answer.rows)} rows of numbers: see to_csv() (--out)." in page


def test_the_answer_comes_before_the_table_and_notes_come_last(answer):
    printed = str(answer).replace("\n", " ")
    places = [printed.index(each[:40]) for each in (answer.title, "The data alone", "this person", answer.notes[-1])]
    assert places == sorted(places)


def test_a_row_is_found_by_what_it_is_about_and_what_is_ambiguous_is_refused(answer):
    assert answer.row("better", "Gumbel-max", "everybody") != answer.row("better", "Gumbel-max", "this person")
    for asked in (("better",), ("better", "Gumbel-max"), ("nonsense",)):
        with pytest.raises(InputError, match="must match one row"):
            answer.row(*asked)


def test_long_tables_say_how_much_is_left_out_and_ranges_that_are_points_are_points():
    rows = [Row("effect", f"episode {place}", "any coupling", lower=0.25, upper=0.25) for place in range(30)]
    (table,) = tables_of(rows, most=10)
    assert len(table.lines) == 11
    assert table.lines[-1][0] == "... 20 more: see to_frame()"
    assert table.lines[0][-1] == "0.250"


def test_counts_of_one_column_have_as_many_decimals():
    counts = [Row("count(a)", "seen a", "coupling", value) for value in (0.25, 41.5, 140.0)]
    counts += [Row(f"count({what})", "seen b", "observed", 3.0) for what in "ab"]
    rows = [each._replace(quantity=f"count({place})") for place, each in enumerate(counts)]
    (table,) = tables_of([*rows, Row("P(a)", "seen a", "coupling", 0.125)])
    assert [line[2] for line in table.lines] == ["0.2", "41.5", "140.0", "", "", "0.125"]
    assert [line[3] for line in table.lines] == ["", "", "", "3", "3", ""]
    (table,) = tables_of([*rows, Row("number of people", "all", "coupling", 1234.5)])
    assert [line[2] for line in table.lines if line[2]] == ["0", "42", "140", "1,234"]


def test_warnings_come_before_the_answer_in_every_form(answer):
    warned = replace(answer, notes=("WARNING: nobody did this.", *answer.notes))
    for text in (" ".join(str(warned).split()), warned._repr_html_(), warned.summary()):
        assert text.count("WARNING: nobody did this.") == 1
        assert text.index("WARNING: nobody did this.") < text.index("The data alone")


def test_rows_of_arrays_are_those_of_one_cell():
    values, bounds = np.array([[1.0, 2.0], [3.0, 4.0]]), Bounds(np.zeros((2, 2)), np.arange(4.0).reshape(2, 2))
    whole = Interval(bounds.lower - 1, bounds.upper + 1, 0.9)
    assert Row.of("P(ill)", "everybody", "Gumbel-max", values, at=(1, 0)) == Row(
        "P(ill)", "everybody", "Gumbel-max", 3.0
    )
    found = Row.of("P(ill)", "everybody", "any coupling", None, bounds, whole, (0, 1))
    assert found == Row("P(ill)", "everybody", "any coupling", None, 0.0, 1.0, -1.0, 2.0)
    assert Row.of("effect", "everybody", "", 2, None, Interval(1, 3, 0.9))[3:] == (2.0, None, None, 1.0, 3.0)


def test_files_are_written_by_every_answer_and_of_no_other_kind_than_their_names_say(answer, tmp_path):
    for write, name, begins in (
        (answer.to_csv, "rows.csv", b"quantity,about"),
        (answer.to_latex, "tables.tex", b"\\begin{tabular}"),
        (answer.plot, "picture.png", b"\x89PNG"),
        (answer.write_page, "page.html", b"<!doctype html>"),
    ):
        write(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(begins)
        with pytest.raises(InputError, match="end"):
            write(tmp_path / "answer.xlsx")
    assert (tmp_path / "rows.csv").read_text() == answer.to_csv()
    assert {each.name for each in tmp_path.iterdir()} == {"rows.csv", "tables.tex", "picture.png", "page.html"}


def test_what_is_asked_along_a_dial_is_drawn_in_files_and_on_the_page(answer, tmp_path):
    beside = Worlds([0.2, 0.5, 0.3], [0.4, 0.4, 0.2]).compare(0, sharing=True, nests={"a": [0, 1]})
    beside.plot(tmp_path / "p.svg")
    assert {each.name for each in tmp_path.iterdir()} == {"p.svg", "p-sharing.svg", "p-nests.svg"}
    assert [
        each.write_page(tmp_path / "p.html", overwrite=True).read_text().count("<img") for each in (answer, beside)
    ] == [1, 3]


def test_a_table_that_is_wider_than_the_console_continues_below():
    rows = [Row("effect", "everybody", f"coupling {place}", place / 10) for place in range(6)]
    (table,) = tables_of([*rows, Row("harm", "everybody", "coupling 0", 0.25)])
    wide = as_text(table)
    assert len(wide.splitlines()) == 5
    buffer = io.StringIO()
    Console(file=buffer, width=40).print(table)
    narrow = buffer.getvalue()
    assert max(map(len, narrow.splitlines())) <= 40
    assert "…" not in narrow
    assert narrow.count("effect") > 1
    assert sorted(re.findall(r"coupling \d", narrow)) == sorted(re.findall(r"coupling \d", wide))


def test_couplings_that_say_the_same_share_a_column_and_ranges_keep_theirs():
    rows = [Row("effect", "everybody", name, 0.5) for name in ("one", "two")]
    rows += [Row("effect", "everybody", name, None, 0.5, 0.5) for name in ("stable", "any")]
    (table,) = tables_of(rows)
    assert table.columns == ["quantity", "one,\ntwo", "stable", "any"]
    assert table.lines == [["effect", "0.500", "0.500", "0.500"]]


def test_a_row_that_is_not_there_is_answered_by_what_there_is(answer):
    with pytest.raises(InputError, match=r"none match 'Better'; quantity: better, .*; coupling: Gumbel-max, .*about: "):
        answer.row("Better")
    with pytest.raises(InputError, match=r"none match 'better', 'gumbel'; quantity: better; coupling: Gumbel-max, "):
        answer.row("better", "gumbel")
