"""Rows of a table with a covariate, to which a classifier is fitted, and fitted again."""

from typing import Any

import numpy as np

from countermax._core.extras import import_pandas
from countermax.causation import Causation
from countermax.tables import Predicted, causation_of_rows
from studies.causes._truths import LEVEL, RowTruth
from studies.coverage import AGES, LABELS, Logistic, logistic_people, logistic_truth

_ASKED: dict[str, Any] = {"event": LABELS[-1], "score": range(len(LABELS)), "labels": LABELS}


def known_rows(truth: RowTruth) -> Causation:
    """What is true on average over the population."""
    p, q = (logistic_truth(np.array([(age, arm) for age in AGES]), truth.effect) for arm in (0.0, 1.0))
    ages = import_pandas().DataFrame({"age": AGES})
    return causation_of_rows(ages, control=p, treated=q, **_ASKED)


def sampled_rows(truth: RowTruth, stream: np.random.Generator, seed: int) -> Causation:
    """A result of one sample."""
    frame = logistic_people(stream, truth.effect, truth.rows)
    model = Logistic().fit(frame[["age", "treated"]], frame["status"])
    worlds = [Predicted(model, {"treated": arm}) for arm in (0.0, 1.0)]
    return causation_of_rows(
        frame, control=worlds[0], treated=worlds[1], outcome="status", refit=True, num_resamples=truth.refits,
        level=LEVEL, seed=seed, progress=False, **_ASKED,
    )  # fmt: skip
