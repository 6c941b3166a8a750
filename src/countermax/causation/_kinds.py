"""Kinds of couplings that an answer ranges over, and where there are no bounds over them."""

import numpy as np

from countermax.bounds import MOST_PIECES, num_pieces
from countermax.causation._evidence import Evidence
from countermax.causation._questions import CausalQuestion
from countermax.causation._stable import MOST_ORDERED, has_pieces

KINDS = ("any", "stable", "monotone")


def has_kind(question: CausalQuestion, evidence: Evidence, kind: str, *, many: bool = False) -> bool:
    """Whether these bounds are there for a question; and for `many` worlds in a time that a person would wait."""
    if many and kind == "stable" and not has_pieces(question.worth):
        return False
    return why_not(question, evidence, kind) is None


def why_not(question: CausalQuestion, evidence: Evidence, kind: str) -> str | None:
    """Why there are no such bounds, as the end of a sentence; None where there are some."""
    if kind == "any":
        return None
    if kind == "stable":
        if evidence.choices is not None:
            return "they are computed for a trial alone"
        if evidence.strata is not None:
            return "they are not computed within strata"
        if evidence.unknown:
            return "they are computed only if every outcome is known"
        if len(question.worth) > MOST_ORDERED:
            return f"they are computed for up to {MOST_ORDERED} outcomes, not {len(question.worth)}; merge some"
        return None
    if question.monotonicity is None:
        return "monotonicity is about an `event` or a `score`, and none was given"
    if question.allowed.all():
        return "all outcomes have the same score"
    if evidence.unknown and evidence.choices is not None:
        return "with two sources they are computed only if every outcome is known"
    if num_pieces(np.where(question.allowed, question.worth, -1e3)) > MOST_PIECES // 4:
        return f"{len(question.worth)} outcomes are too many; merge some"
    if evidence.choices is not None and not (np.asarray(evidence.chosen.elsewhere) <= 0).all():
        return "some people chose something else"
    return None
