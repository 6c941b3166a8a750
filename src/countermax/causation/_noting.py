"""What a result says beside its numbers."""

from collections.abc import Sequence

from countermax._core.labels import Labels
from countermax.causation._answering import is_monotone
from countermax.causation._evidence import Evidence
from countermax.causation._kinds import KINDS, has_kind, why_not
from countermax.causation._limits import CHOSEN
from countermax.causation._questions import CausalQuestion
from countermax.causation._result import CausalAnswer


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
    contradicted: dict[tuple[str, str], list[str]] = {}
    for each in questions:
        if has_kind(each, evidence, "monotone") and not is_monotone(each, evidence):
            assert each.monotonicity is not None
            contradicted.setdefault((each.monotonicity.holds, each.monotonicity.fails), []).append(each.name)
    for (holds, fails), about in contradicted.items():
        notes.append(
            f"There are no monotone bounds of {', '.join(about)}: these estimates contradict that {holds}; {fails}, or "
            "the estimates are off by chance."
        )
    if len(names) == 2 and any(each.stable_bounds is not None for each in answers):
        notes.append("With two outcomes exactly one coupling is stable: the one that changes as few as possible.")
    if people == CHOSEN and evidence.choices is None:
        notes.append(
            "These are people who chose their arm, and there are no observations of them: PN and PS may then be "
            "anything that is possible at all; observations beside the experiment would narrow them (`observational`)."
        )
    return notes + _lacking(evidence, questions) + _without_interval(questions, answers)


def _lacking(evidence: Evidence, questions: Sequence[CausalQuestion]) -> list[str]:
    """Why there are no bounds over some kinds of couplings."""
    found: dict[tuple[str, str], list[str]] = {}
    for kind in KINDS:
        for each in questions:
            reason = why_not(each, evidence, kind)
            if reason is not None:
                found.setdefault((kind, reason), []).append(each.name)
    notes = []
    for (kind, reason), about in found.items():
        of = "" if len(about) == len(questions) else f" of {', '.join(about)}"
        notes.append(f"There are no {kind} bounds{of}: {reason}.")
    return notes


def _without_interval(questions: Sequence[CausalQuestion], answers: Sequence[CausalAnswer]) -> list[str]:
    """Which stable bounds have no interval, and why."""
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
