"""Sentences that stand beside the numbers of a table: what they assume, and what they leave out."""

from collections.abc import Iterable

from countermax._core.labels import Labels, listed, spelling_notes
from countermax._tables.frames import Codes
from countermax.couplings import AbstractCoupling, InverseCDF
from countermax.tables._probabilities import Predicted
from countermax.tables._reading import NOBODY, RowCounts, RowReader
from countermax.tables._refit import Refitting

_EMPTIED = "empty these cells and say errors='missing'"
_MADE_FOR = {"comonotone": "comonotone (least variance of the effect)"}


def shown_name(name: str) -> str:
    """The name of a coupling as results show it: what is optimal says for what."""
    return _MADE_FOR.get(name, name)


def what_is_known(reader: RowReader, refitting: Refitting | None = None) -> str:
    """What is taken as known, and with `refitting` what its intervals leave out."""
    if refitting is not None:
        without = "".join(f" {name} takes no weights, so it was fitted without them." for name in refitting.unweighted)
        return (
            "Bootstrap: the classifier was refitted on every resample. Intervals are for the population that the rows "
            f"were sampled from; misspecification of the classifier is left out.{without}"
        )
    if any(isinstance(world, Predicted) for world in reader.worlds):
        return "The classifier is taken as known: its estimation error is left out (refit=Refit() adds it)."
    return "Each row's probabilities are taken as known: their estimation error is left out."


def label_notes(
    labels: Labels, order: str, couplings: Iterable[AbstractCoupling], cells: Codes | None = None
) -> list[str]:
    """That an order decides which nobody gave, and which labels look alike or like missing values."""
    notes = spelling_notes(labels.values, "outcomes", cells, _EMPTIED)
    decides = any(isinstance(each, InverseCDF) and each.order is None for each in couplings)
    if not decides or order != NOBODY or len(labels) < 3:
        return notes
    return [
        f"Inverse CDF depends on the order of the outcomes; none was given, so it is {listed(labels.values)} as "
        "they were found (give another one with `labels`, or make the outcome an ordered category).",
        *notes,
    ]


def count_notes(counts: RowCounts) -> list[str]:
    """How many rows the change leaves as they were, and how many have no answer."""
    same = f"{counts.num_unchanged:,} rows are unchanged: their counterfactual outcome is the observed one."
    left_out = f"{counts.num_left_out:,} of {counts.num_rows + counts.num_left_out:,} rows have no answer."
    return [same] * (counts.num_unchanged > 0) + [left_out] * (counts.num_left_out > 0)
