import pytest

from countermax import InputError
from countermax._core.memory import check_memory, in_words, memory_limit


def test_what_does_not_fit_is_refused_with_the_number_and_the_limit(monkeypatch):
    monkeypatch.setenv("COUNTERMAX_MAX_MEMORY", "2")
    with pytest.raises(
        InputError, match=r"5 rows would need about 4 GB of memory, and the limit is 2 GB; ask for less"
    ):
        check_memory("5 rows", 4e9, "ask for less")
    check_memory("5 rows", 1.9e9, "ask for less")


def test_the_limit_is_what_the_machine_has(monkeypatch):
    monkeypatch.delenv("COUNTERMAX_MAX_MEMORY", raising=False)
    assert 1e8 < memory_limit() < 1e15


@pytest.mark.parametrize("text", ["much", "0", "-1", "nan"])
def test_a_limit_that_is_no_number_is_refused(monkeypatch, text):
    monkeypatch.setenv("COUNTERMAX_MAX_MEMORY", text)
    with pytest.raises(InputError, match="positive number of gigabytes"):
        memory_limit()


def test_sizes_are_readable():
    assert [in_words(size) for size in (12, 3.21e6, 2e9, 4e12, 8e18)] == [
        "12 bytes",
        "3.21 MB",
        "2 GB",
        "4 TB",
        "8,000,000 TB",
    ]


def test_a_number_beyond_every_float_is_refused_like_any_other():
    with pytest.raises(InputError, match="rows would need more than a million million TB of memory"):
        check_memory("rows", 10**400, "ask for less")
