"""One rule says which outcome a value means, for one question and for a table."""

import datetime
import enum
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from asking import counterfactuals
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from countermax import InputError, Worlds
from countermax._core.labels import (
    MISSING,
    UNKNOWN,
    Labels,
    Written,
    found_labels,
    is_missing,
    listed,
    look_alikes,
    reader,
    says_missing,
    sorted_labels,
    told_apart,
)

P, Q = np.array([0.3, 0.4, 0.3]), np.array([0.1, 0.3, 0.6])


def one_row(value, labels):
    """The same question of a table with one row."""
    frame = pd.DataFrame({"seen": pd.Series([value], dtype=object)})
    asked = {"factual": P[None], "counterfactual": Q[None], "labels": labels}
    return counterfactuals(frame, outcome="seen", **asked, prefix="").iloc[0]


class Status(enum.StrEnum):
    ILL = "ill"


@pytest.mark.parametrize(
    ("labels", "value"),
    [
        ([1, 2, 3], 2),
        ([1, 2, 3], 2.0),
        ([1, 2, 3], np.int64(2)),
        ([1, 2, 3], Decimal(2)),
        ([1.0, 2.0, 3.0], 2),
        (np.array([1, 2, 3]), 2),
        (["maybe", True, False], True),
        (["maybe", np.True_, False], True),
        (["1", "01", "001"], "01"),
        (["no", "None", "nan"], "None"),
        (["no", "yes", "perhaps"], "yes"),
        (["dead", "ill", "well"], Status.ILL),
        (["a", "b\nc", "d"], "b\nc"),
        (["a", "x" * 200_000, "y" * 200_000], "x" * 200_000),
        ([datetime.date(2020, 1, 1), datetime.date(2020, 1, 2), 3], datetime.date(2020, 1, 2)),
    ],
)
def test_one_question_and_a_table_take_a_value_for_the_same_label(labels, value):
    one, row = Worlds(P, Q, labels=list(labels)).compare(value), one_row(value, list(labels))
    assert one.seen == 1
    assert_allclose([row[name] for name in one.labels], one.probabilities["Gumbel-max"], atol=1e-12)
    assert_allclose([row[f"{name}_upper"] for name in one.labels], one.bounds.upper, atol=1e-12)


@pytest.mark.parametrize(
    ("labels", "value", "words"),
    [
        ([1, 2, 3], 9, ("9", "1, 2, 3")),
        ([1, 2, 3], 2.5, ("2.5", "1, 2, 3")),
        ([1, 2, 3], np.int64(9), ("9", "1, 2, 3")),
        ([1, 2, 3], "2", ("'2'", "1, 2, 3")),
        ([0, 1, 2], True, ("True", "0, 1, 2")),
        (["1", "2", "3"], 2, ("2", "'1', '2', '3'")),
        (["1", "2", "3"], "2.0", ("'2.0'", "'1', '2', '3'")),
        (["dead", "ill", "well"], "Dead", ("'Dead'", "'dead', 'ill', 'well'")),
        (["true", "false", "x"], True, ("True", "'true', 'false', 'x'")),
    ],
)
def test_one_question_and_a_table_name_unknown_labels_alike(labels, value, words):
    shown, known = words
    with pytest.raises(InputError, match=f"one of the labels {known}, got {shown}"):
        Worlds(P, Q, labels=labels).compare(value)
    with pytest.raises(InputError, match=f"the outcome {shown} is none of the labels {known}"):
        one_row(value, labels)


@pytest.mark.parametrize(
    "labels",
    [["a", "a", "b"], [1, 1.0, 2], ["True", True, "x"], [1, "1", 2], [None, "a", "b"], [math.nan, 1, 2], [pd.NaT, 1, 2]]
    + [[], [[1], "a", "b"]],
)
def test_one_question_and_a_table_refuse_the_same_labels(labels, as_users_call):
    messages = []
    for ask in (lambda: Worlds(P, Q, labels=labels).compare("a"), lambda: one_row("a", labels)):
        with pytest.raises(InputError) as caught:
            ask()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@given(st.lists(st.integers() | st.text(min_size=1) | st.booleans(), min_size=1, unique_by=str))
def test_labels_are_found_where_they_are(values):
    labels = Labels(tuple(values))
    assert labels.places(values).tolist() == list(range(len(values)))
    assert labels.order_of("other", values[::-1]).tolist() == list(range(len(values)))[::-1]
    assert labels.places([object(), [], None])[:3].tolist() == [UNKNOWN, UNKNOWN, MISSING]


@given(st.lists(st.integers() | st.floats(allow_nan=False) | st.text() | st.booleans(), min_size=2, max_size=2))
def test_two_values_are_one_label_where_python_finds_them_equal_and_of_one_kind(values):
    def kind(value):
        return type(value) if isinstance(value, str | bool) else float

    first, second = values
    same = kind(first) is kind(second) and first == second
    assert (Labels((first,)).places([second])[0] == 0) == same


def test_nothing_but_a_missing_value_is_missing():
    for value in (None, math.nan, np.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("nan")):
        assert is_missing(value)
        assert Labels(("a",)).places([value])[0] == MISSING
    for value in ("None", "nan", "NA", "", "NaT", 0, False, np.int64(0), np.False_, math.inf):
        assert not is_missing(value)


def test_what_is_written_has_the_type_of_what_it_is_compared_with():
    texts = [Written(each) for each in ("2", "02", "2.0", "true", "x", "2e400", "1_0", "nan", "٢")]
    assert [reader([1, 2.5])(each) for each in texts] == [2, 2, 2.0, "true", "x", "2e400", "1_0", "nan", "٢"]
    assert [reader(["a"])(each) for each in texts] == [str(each) for each in texts]
    assert [reader([], "number")(each) for each in texts[:3]] == [2, 2, 2]
    assert reader([True])(Written("True")) is reader([], "boolean")(Written("true")) is True
    assert reader([True])(Written("1")) == "1"
    day = datetime.date(2020, 1, 1)
    assert reader([day])(Written("2020-01-01")) == day
    assert reader([1, "a"])(Written("1")) == 1
    assert reader([1, "1"])(Written("1")) == "1"  # a column of both: the very same text comes first
    assert reader([1, 2])("2") == "2"  # a text of Python is one
    assert all(type(reader(like)(Written("z"))) is str for like in ([1], ["a"], [True], [day], []))


def test_what_is_written_is_found_among_labels_of_any_type():
    assert Labels((1, 2, 3)).place_of("observed", Written("2")) == 1
    assert Labels(("1", "2", "3")).place_of("observed", Written("2")) == 1
    assert Labels((1, 2)).order_of("factual", [Written("2"), Written("1")]).tolist() == [1, 0]
    assert Labels((1, 2)).scores("score", {Written("2"): 5.0, Written("1.0"): 4.0}).tolist() == [4.0, 5.0]
    with pytest.raises(InputError, match=r"`score` must have one number for each of 1, 2, got '1', '01', '2'"):
        Labels((1, 2)).scores("score", {Written("1"): 5.0, Written("01"): 4.0, Written("2"): 0.0})
    with pytest.raises(InputError, match=r"`labels` must differ from each other, got 2, 2"):
        Labels.read([Written("2"), Written("2.0")], [7])
    assert Labels.read([Written("2"), Written("2.0")], ["x"]).values == ("2", "2.0")
    assert Labels.read([Written("02"), 3], [7]).names == ("02", "3")


def test_labels_that_look_alike_are_told_apart():
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    assert listed([composed, "x"]) == "'caf\u00e9', 'x'"
    assert listed([composed, decomposed]) == r"'caf\xe9', 'cafe\u0301'"
    labels = Labels(("dead", "2", composed))
    for value, words in (
        ("Dead ", "the label 'dead' and 'Dead ' differ in how they are written"),
        ("dead\u200b", r"the label 'dead' and 'dead\\u200b' differ"),
        (decomposed, r"the label 'caf\\xe9' and 'cafe\\u0301' differ"),
        ("2.0", "the label '2' and '2.0' differ"),
        (2, "'2' is a label, but a text never equals a number"),
    ):
        with pytest.raises(InputError, match=words):
            labels.place_of("observed", value)
    assert labels.resemblance("ill") == ""


def test_a_long_label_does_not_fill_the_screen():
    with pytest.raises(InputError) as caught:
        Labels(("a" * 200_000, "b")).place_of("observed", "c" * 200_000)
    assert len(str(caught.value)) < 400
    assert "0x" in listed([10**5000])


def test_labels_that_differ_only_in_how_they_are_written_are_found_together():
    words = ["Well", "ill", "well", "well ", "caf\u00e9", "cafe\u0301", "1", "1.0", "10", "dead"]
    assert look_alikes(words) == [("Well", "well", "well "), ("caf\u00e9", "cafe\u0301"), ("1", "1.0")]
    assert look_alikes([1, 1.0, True, None, "a", "b", "1 12", "11 2"]) == []


def test_texts_by_which_other_programs_mean_missing_are_missing_unless_they_are_labels():
    words = ["NA", "N/A", "NaN", "nan", "NULL", "null", ".", "", " ", " NA "]
    assert all(map(says_missing, words))
    assert not any(map(says_missing, ["dead", "no", "none", "None", "?", "-", "Nan", 0, None, math.nan, "0", "--x"]))
    assert set(Labels(("dead", "NA")).places(words).tolist()) == {MISSING, 1}
    assert Labels(("dead",)).places(["?", "None"]).tolist() == [UNKNOWN, UNKNOWN]
    assert found_labels(["b", "", "a", ".", None, "None"]).values == ("None", "a", "b")


def test_a_whole_number_has_one_spelling_whatever_its_type():
    for five in (5, 5.0, np.float32(5), np.float64(5), np.int64(5)):
        found = Labels((five, 2.5, math.inf))
        assert found.names == ("5", "2.5", "inf")
        assert listed(found.values) == "5, 2.5, inf"
        assert found.places([5, 5.0, "5", 2.5]).tolist() == [0, 0, UNKNOWN, 1]
    assert Labels((2.0**60, -0.0)).names == (str(2.0**60), "0")


def test_a_whole_number_has_one_spelling_in_a_text_file_unless_that_would_join_two_labels():
    found = found_labels(["6.0", "10.0", "0.0", ""], untyped=True)
    assert found.values == ("0", "6", "10")
    assert found.places(["6.0", "6", 6, 6.0, Written("6.00"), "06"]).tolist() == [1, 1, 1, 1, 1, UNKNOWN]
    both = found_labels(["6.0", "6", "1.0"], untyped=True)
    assert both.values == ("1", "6", "6.0")
    assert both.places(["6", "6.0", "6.00", "1.0"]).tolist() == [1, 2, UNKNOWN, 0]
    assert Labels(("5.0", "x"), untyped=True).places(["5"])[0] == 0
    assert Labels(("5.0", "x")).places(["5"])[0] == UNKNOWN  # in a column of text each is the text that it is


def test_labels_that_would_print_alike_are_quoted_and_no_others():
    assert told_apart(["Well", "well", "well ", 3]) == ["Well", "'well'", "'well '", "3"]
    composed, combining = told_apart(["caf\u00e9", "cafe\u0301"])
    assert composed != combining
    assert composed.isascii()
    assert told_apart(["dead", "ill"]) == ["dead", "ill"]


@given(st.lists(st.integers(-1000, 1000), unique=True), st.randoms())
def test_numbers_sort_by_size_whether_they_are_texts_or_not(numbers, random):
    random.shuffle(numbers)
    assert sorted_labels(numbers) == sorted(numbers)
    assert sorted_labels(map(str, numbers)) == list(map(str, sorted(numbers)))


def test_what_is_no_number_sorts_behind_the_numbers_by_the_alphabet():
    assert sorted_labels(["lost", "10", "2", "1.5", "dead"]) == ["1.5", "2", "10", "dead", "lost"]
    days = [datetime.date(2020, 1, 2), datetime.date(2020, 1, 1)]
    assert sorted_labels(days) == days[::-1]
    assert sorted_labels([True, False]) == [False, True]


def test_long_labels_are_cut_and_stay_apart():
    same_head = ["x" * 3000, "x" * 2999 + "y", "x" * 3001]
    cut = told_apart([*same_head, "dead"])
    assert len(set(cut)) == 4
    assert [len(each) <= 80 for each in cut] == [True] * 4
    assert all("…" in each for each in cut[:3])
    assert cut[3] == "dead"
