"""What a result says beside its numbers."""

from collections.abc import Sequence

from countermax._core.labels import Labels
from countermax.causation._answering import is_monotone
from countermax.causation._evidence import Evidence
from countermax.causation._limits import CHOSEN, has_kind
from countermax.causation._questions import CausalQuestion
from countermax.causation._result import CausalAnswer
from countermax.causation._stable import MOST_ORDERED


def further_notes(
    names: Labels, evidence: Evidence, people: str, questions: Sequence[CausalQuestion], answers: Sequence[CausalAnswer]
) -> list[str]:
    """What stands below the numbers: who is asked about, what is contradicted, what is not there.

    Args:
        names: The outcomes.
        evidence: Evidence to answer from.
        people: People the question is about.
        questions: Questions to answer.
        answers: Answers that were found.
    """
    notes = []
    unknown = [each.name for each in answers if each.bounds is None]
    if unknown:
        notes.append(f"{', '.join(unknown)}: nobody in these data is asked about, so the number may be anything.")
    contradicted = sorted({
        each.name for each in questions if has_kind(each, evidence, "monotone") and not is_monotone(each, evidence)
    })  # fmt: skip
    if contradicted:
        notes.append(
            f"That the treatment harms nobody is contradicted by these estimates for {', '.join(contradicted)}: "
            "some must have been made worse off, or the estimates are off by chance."
        )
    if len(names) == 2 and not evidence.has_choices:
        notes.append("With two outcomes exactly one coupling is stable: the one that changes as few as possible.")
    if people == CHOSEN and not evidence.has_choices:
        notes.append(
            "These are people who chose their arm, and there are no observations of them: PN and PS may then be "
            "anything that is possible at all; observations beside the experiment would narrow them (`observational`)."
        )
    notes += _stable_notes(names, evidence, questions, answers)
    return notes


def _stable_notes(
    names: Labels, evidence: Evidence, questions: Sequence[CausalQuestion], answers: Sequence[CausalAnswer]
) -> list[str]:
    """Why there are no stable bounds, or no intervals of them."""
    if evidence.has_choices or evidence.unknown or evidence.strata is not None:
        return []
    if len(names) > MOST_ORDERED:
        return [
            f"Stable bounds are there for at most {MOST_ORDERED} outcomes, and these are {len(names)}: merge outcomes."
        ]
    lacking = [
        each.name
        for each, answer in zip(questions, answers, strict=True)
        if answer.intervals is not None and answer.intervals.stable_bounds is None and answer.stable_bounds is not None
    ]
    if not lacking:
        return []
    return [
        f"Stable bounds of {', '.join(lacking)} have no interval: with more than 4 outcomes a worth must have two "
        "values; merge outcomes, or read the interval over any coupling, which holds them."
    ]
