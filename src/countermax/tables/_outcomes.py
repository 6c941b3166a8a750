"""Which outcomes there are, in which order, and who said so."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from countermax._core.errors import InputError
from countermax._core.labels import NUMBER, Labels, Written, are_numbers, identity, is_missing, sorted_labels
from countermax._tables.frames import AbstractFrame, Codes
from countermax.tables._probabilities import AbstractProbabilities

GIVEN, CATEGORY, NUMBERS, NOBODY = "given", "category", "numbers", "nobody"
"""Who said in which order the outcomes are: `labels`, an ordered category, numbers that sort themselves, or nobody."""


class FoundLabels(NamedTuple):
    """The outcomes."""

    labels: Labels
    order: str
    """Who said in which order they are."""
    nameless: Labels
    """The order that probabilities without labels of their own have."""


def find_outcome(frame: AbstractFrame, outcome: Any) -> tuple[Any, Codes | None, list[Any]]:
    """The column of outcomes, its indices into the distinct values, and those; nothing where none was seen."""
    if outcome is None:
        return None, None, []
    column = frame.column("outcome", outcome) if is_name(outcome) else frame.own("outcome", outcome)
    return column, *frame.factorised(column)


def is_name(outcome: Any) -> bool:
    return isinstance(outcome, str | int | float)


def find_labels(
    given: Sequence[Hashable] | None,
    categories: Sequence[Any],
    worlds: Sequence[AbstractProbabilities],
    seen: Sequence[Any],
    kind: str | None,
) -> FoundLabels:
    """The labels that were given, else those of the first world that has some; written ones are read as the column.

    Where the outcomes are ordered categories, that is their order.
    """
    if isinstance(given, str):
        raise InputError(f"`labels` must be a list of labels, got the text {given!r}")
    sources = [tuple(each) for each in (given, *(world.labels for world in worlds)) if each is not None]
    if not sources and categories and len(categories) == worlds[0].width:
        labels = Labels(tuple(categories))
        return FoundLabels(labels, CATEGORY, labels)
    if not sources:
        if kind in (NUMBER, None) and all(identity(value)[0] == NUMBER and value == int(value) for value in seen):
            labels = Labels(tuple(range(worlds[0].width)))
            return FoundLabels(labels, NUMBERS, labels)
        raise InputError(
            "`labels` must name the outcomes in the order of the probabilities, since nothing else does "
            "(on the command line: --labels)"
        )
    if kind is None and not seen:  # nothing was seen: labels with a type say what written ones are
        seen = [value for each in sources for value in each if not isinstance(value, Written) and not is_missing(value)]
    found = Labels.read(sources[0], [*seen, *categories], kind)
    if given is not None:
        return FoundLabels(found, GIVEN, found)
    places = found.places(categories) if categories else np.zeros(0, np.int64)
    if set(range(len(found))) <= set(places.tolist()):
        order = [place for place in places.tolist() if place >= 0]
        values, names = (tuple(each[place] for place in order) for each in (found.values, found.names))
        return FoundLabels(Labels(values, names), CATEGORY, found)
    sorted_numbers = are_numbers(found.values) and sorted_labels(found.values) == list(found.values)
    return FoundLabels(found, NUMBERS if sorted_numbers else NOBODY, found)


def ordered(frame: AbstractFrame, outcome: Any) -> list[Any]:
    """The categories of the outcome, where its type says that they are ordered."""
    categories, is_ordered = frame.categories(outcome)
    return categories if categories is not None and is_ordered else []


def order_in(name: str, found: FoundLabels, world: AbstractProbabilities) -> Codes:
    """Where each label's probability stands."""
    labels = found.labels
    if world.labels is not None:
        return labels.order_of(name, world.labels)
    if world.width != len(labels):
        raise InputError(f"`{name}` must have a probability for each of {len(labels)} labels, got {world.width}")
    return found.nameless.places(labels.values)
