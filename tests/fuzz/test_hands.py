"""Hands that run cases."""

from fuzz import hands as module
from fuzz.case import Case
from fuzz.hands import Hands


def test_a_worker_that_has_grown_is_replaced(monkeypatch):
    """Memory is never given back: whoever forgets programs beyond a limit compiles all of them for each call."""
    monkeypatch.setattr(module, "MOST_MEMORY", 0)
    case = Case("plain", source="__import__('os').getpid()")
    with Hands() as hands:
        first, second = hands.run(case), hands.run(case)
    assert not first.trouble + second.trouble
    assert first.value != second.value
