"""Sentences that stand beside the numbers of a table: what they are, and what they leave out."""

from collections.abc import Iterable
from typing import Any

from countermax._core.labels import Labels, listed, spelling_notes
from countermax._tables.frames import Codes
from countermax.couplings import AbstractCoupling, InverseCDF
from countermax.tables._outcomes import NOBODY
from countermax.tables._probabilities import Predicted
from countermax.tables._rows import RowReader

PRECISION = "Least variance is a criterion of precision, not evidence that the mechanism is true."

_EMPTIED = "empty these cells and say errors='missing' (on the command line: --errors missing)"
_MADE_FOR = {"comonotone": "comonotone (least variance of the effect)"}


def shown_name(name: str) -> str:
    """The name of a coupling as results show it: what is optimal says for what."""
    return _MADE_FOR.get(name, name)


def what_is_known(reader: RowReader, refitted: bool) -> str:
    """What intervals leave out, or that the classifier was fitted again."""
    if refitted:
        unweighted = "".join(
            f" {name} takes no weights: it was fitted to rows that all count the same." for name in reader.unweighted
        )
        return (
            "The classifier was fitted again on rows that were drawn again: intervals are for the population that the "
            f"rows came from, and leave out whether this kind of classifier is right for it.{unweighted}"
        )
    if any(isinstance(world, Predicted) for world in reader.worlds):
        return "The classifier is taken as known: how well it was fitted is left out (refit=True fits it again)."
    return "Takes each row's probabilities as known: how well they were estimated is left out."


def label_notes(
    labels: Labels, order: str, couplings: Iterable[AbstractCoupling], cells: Codes | None = None
) -> list[str]:
    """That an order decides which nobody gave, and which labels look alike or like missing values.

    Args:
        labels: The outcomes.
        order: Source of their order.
        couplings: Couplings that are asked.
        cells: Number of rows with each of them, where that is known.
    """
    notes = spelling_notes(labels.values, "outcomes", cells, _EMPTIED)
    decides = any(isinstance(each, InverseCDF) and each.order is None for each in couplings)
    if not decides or order != NOBODY or len(labels) < 3:
        return notes
    return [
        f"Inverse CDF goes by the order of the outcomes; none was given, so it is {listed(labels.values)} as "
        "they were found (say another one with `labels`, or make the outcome an ordered category).",
        *notes,
    ]


def unchanged_notes(count: int) -> list[str]:
    """How many rows the change leaves as they were."""
    if not count:
        return []
    return [f"{count:,} rows were left as they were by the change: they have the outcome that they had."]


def left_out_notes(count: int) -> list[str]:
    """How many rows have no answer."""
    return [f"{count:,} rows were left out."] if count else []


def metadata(coupling: str, bounds: str, notes: Iterable[str]) -> dict[str, Any]:
    """What goes with a frame or a file: the coupling, what the bounds are over, and the notes."""
    over = {"any": "any coupling", "stable": "any stable coupling", "none": None}[bounds]
    return {"coupling": coupling, "bounds": over, "notes": list(notes)}
