"""Numbers as people hand them in: lists, dictionaries and pandas series, matched by label where they have labels."""

from typing import Any

from countermax._core.labels import Labels
from countermax._core.types import Labelled


def own_labels(given: Any) -> list[Any] | None:
    """The labels that a dictionary or a pandas series brings along; none where they only count from 0."""
    if not isinstance(given, Labelled):
        return None
    keys = list(given.keys())
    counts = type(given.keys()).__name__ == "RangeIndex" and keys == list(range(len(keys)))
    return None if counts else keys


def in_order(labels: Labels | None, name: str, given: Any, own: list[Any] | None) -> Any:
    """Numbers in the order of the labels, by their own labels where they have some."""
    numbers = plain_numbers(given)
    return numbers if own is None or labels is None else [numbers[place] for place in labels.order_of(name, own)]


def plain_numbers(given: Any) -> Any:
    """Without the labels, in the order that they came in."""
    return [number for _, number in given.items()] if isinstance(given, Labelled) else given
