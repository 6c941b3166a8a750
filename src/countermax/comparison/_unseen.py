"""Questions about an outcome that nobody had: every answer is possible."""

from collections.abc import Callable
from typing import Any

import numpy as np

from countermax.comparison._measuring import Found
from countermax.comparison._result import Floats


def with_nothing_known(
    found: Found,
    size: int,
    score: Floats | None,
    span: Callable[[Any, Any], Any],
    unknown: Callable[[Any], Floats] | None,
) -> Found:
    """The same with nothing known about the person: ranges that are as wide as can be, and no answers.

    Args:
        found: Numbers, or their intervals.
        size: Number of outcomes.
        score: The score in the other world.
        span: Constructor of a range.
        unknown: Stand-in for an answer; a range where there is nothing.
    """
    rows = span(np.zeros(size), np.ones(size))
    scores = None if score is None else span(float(score.min()), float(score.max()))
    row, mean = (rows, scores) if unknown is None else (unknown(size), None if score is None else unknown(()))
    answers = {name: each._replace(probabilities=row, expected_score=mean) for name, each in found.answers.items()}
    every, stable = (each._replace(probabilities=rows, expected_score=scores) for each in (found.any, found.stable))
    return found._replace(answers=answers, any=every, stable=stable)
