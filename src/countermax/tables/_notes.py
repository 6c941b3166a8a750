"""Sentences that stand beside the numbers of a table: what they assume, and what they leave out."""

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from countermax import _kernel
from countermax._core.labels import listed, spelling_notes
from countermax._core.words import WARNING, both
from countermax._kernel import ClosedForm
from countermax._tables.frames import Codes, Floats
from countermax.tables._probabilities import AbstractProbabilities, Columns, Predicted
from countermax.tables._reading import NOBODY, RowCounts, RowReader
from countermax.tables._refit import Refitting

if TYPE_CHECKING:
    from countermax.couplings import AbstractCoupling

_EMPTIED = "empty these cells and say errors='missing'"
_FALSE_ALARM = 1e-3  # how often a model that is right is called miscalibrated, at most
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
    reader: RowReader, couplings: "Iterable[AbstractCoupling | ClosedForm]", cells: Codes | None = None
) -> list[str]:
    """That both worlds are one, that an order decides which nobody gave, and which labels look alike or missing."""
    labels = reader.labels
    notes = spelling_notes(labels.values, "outcomes", cells, _EMPTIED)
    forms = (each if isinstance(each, ClosedForm) else _kernel.closed_form(each) for each in couplings)
    decides = any(form is not None and form.kind == "INVERSE_CDF" and form.order is None for form in forms)
    if decides and reader.order == NOBODY and len(labels) > 2:
        words = (
            f"Inverse CDF depends on the order of the outcomes; none was given, so it is {listed(labels.values)} as "
            "they were found (give another one with `labels`, or make the outcome an ordered category)."
        )
        notes.insert(0, words)
    if one_world(*reader.worlds):
        notes.insert(0, f"{WARNING}`factual` and `counterfactual` are the same probabilities: nothing changes.")
    return notes


def unweighted_note(reader: RowReader) -> list[str]:
    """That sums over rows leave the numbers of choosers out."""
    utilities = reader.question.utilities
    if utilities is None or utilities.weights is None:
        return []
    return [f"{WARNING}each row counts once: the weights of `Utilities` are for `switching` alone."]


def one_world(factual: AbstractProbabilities, other: AbstractProbabilities) -> bool:
    """Whether both worlds are read from the same columns, or predicted by one classifier without a change."""
    if isinstance(factual, Columns) and isinstance(other, Columns):
        return list(factual.names) == list(other.names)
    if isinstance(factual, Predicted) and isinstance(other, Predicted):
        return factual.classifier is other.classifier and not factual.change and not other.change
    return False


def calibration_note(labels: Sequence[Hashable], seen: Floats, expected: Floats, variance: Floats) -> list[str]:
    """That an outcome was seen more or less often than `factual` expects, where chance hardly does that.

    By Bernstein's inequality, for all outcomes together, so that it holds for rare ones too.
    """
    gap, total = np.abs(seen - expected), seen.sum()
    log = np.log(2 * len(labels) / _FALSE_ALARM)
    if not (gap**2 > 2 * log * (variance + gap / 3)).any():
        return []
    most = int(gap.argmax())
    shares = both(100 * seen[most] / total, 100 * expected[most] / total, 1)
    return [
        f"{WARNING}seen: {listed([labels[most]])} {shares[0]} %, where `factual` expects {shares[1]} %. Are the worlds "
        "swapped, or is the model miscalibrated?"
    ]


def count_notes(counts: RowCounts) -> list[str]:
    """How many rows the change leaves as they were, and how many have no answer."""
    same = f"{counts.num_unchanged:,} rows are unchanged: their counterfactual outcome is the observed one."
    left_out = f"{counts.num_left_out:,} of {counts.num_rows + counts.num_left_out:,} rows have no answer."
    overruled = (
        f"{WARNING}`unchanged` overrules the counterfactual probabilities of {counts.num_overruled:,} rows, which "
        "differ from the factual ones. Is it the other way round?"
    )
    notes = (overruled, counts.num_overruled), (same, counts.num_unchanged), (left_out, counts.num_left_out)
    return [note for note, number in notes if number]
