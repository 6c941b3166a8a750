"""Who decides whether what came of a case is right: one judge for each kind of call."""

from collections.abc import Callable

from fuzz.case import Case, Failure
from fuzz.hands import Outcome

Judge = Callable[[Case, Outcome], Failure | None]


def judged(case: Case, outcome: Outcome) -> Failure | None:
    """What is wrong, if anything."""
    from fuzz.judges import compare, learning, plain, python, stored, tables, trajectories

    judges: dict[str, Judge] = {
        "plain": plain.judge,
        "compare": compare.judge,
        "counterfactuals": tables.judge_counterfactuals,
        "transitions": tables.judge_transitions,
        "evaluate-policy": trajectories.judge_evaluation,
        "explain": trajectories.judge_explanation,
        "train": learning.judge_training,
        "evaluate": learning.judge_evaluation,
        "python": python.judge,
        "stored": stored.judge,
    }
    return judges[case.judge](case, outcome)
