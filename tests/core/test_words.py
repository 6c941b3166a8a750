"""Numbers in words."""

import pytest

from countermax._core.words import both, brief, count_digits, number, percent, percents, span


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.12345, "0.123"),
        (99.9, "99.900"),
        (99.9996, "100.0"),
        (138200.4, "138,200"),
        (None, ""),
        (float("nan"), "unknown"),
    ],
)
def test_numbers_from_a_hundred_on_have_fewer_decimals(value, words):
    assert number(value) == words


def test_ends_of_a_range_have_as_many_decimals_and_differ_where_they_do():
    assert span(99.9, 100.1) == "99.9 to 100.1"
    assert span(950, 1200) == "950 to 1,200"
    assert both(1200.6, 1201.4) == ("1,200.600", "1,201.400")
    assert both(0.25, 0.25) == ("0.250", "0.250")


def test_what_rounding_leaves_of_nothing_is_nothing():
    assert percents(1.1e-16, 0.68) == "0 to 68 %"
    assert percents(0.06, 1 - 1.1e-16) == "6 to 100 %"
    assert percent(1e-9) == "under 0.1 %"


def test_a_number_in_a_sentence_has_no_rounding_error():
    assert [brief(each) for each in (-2.78e-17, 0.033712, 1.0249, -0.0)] == ["0", "0.0337", "1.02", "0"]
    assert brief(0.00073, 2) == "0.00073"


def test_counts_that_stand_together_are_whole_where_all_are_or_one_is_large():
    assert count_digits(3.0, None, 12) == 0
    assert count_digits(3.0, 0.25, float("nan")) == 1
    assert count_digits(1200.5, 0.25) == 0
    assert count_digits() == 0
