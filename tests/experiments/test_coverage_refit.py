"""The study of intervals with refits: its truth is right, its cells are there, and it runs."""

import numpy as np
import pytest

from countermax.experiments.coverage import Coverage
from countermax.experiments.coverage import _refitted as study


def test_the_truth_is_that_of_many_rows():
    """200,000 rows: no share is off by more than 0.015, five standard errors; the seed is fixed."""
    from countermax.tables import transitions

    frame = study._sample(np.random.default_rng(0), 0.6, 200_000)
    p, q = (
        study._probabilities(frame["age"].to_numpy(), treated, 0.6)
        for treated in (frame["treated"].to_numpy(float), np.ones(len(frame)))
    )
    asked = {"outcome": "status", "factual": p, "counterfactual": q, "labels": study._LABELS}
    found = transitions(frame, **asked, unchanged=frame["treated"] == 1, num_resamples=0)
    truth = study._truth(0.6)
    for row, seen in enumerate(study._LABELS):
        for column, other in enumerate(study._LABELS):
            words = f"share {seen} to {other}"
            assert found.shares[row, column] == pytest.approx(truth[words][0], abs=0.015)
            limits = [each[row, column] for each in found.share_bounds]
            assert limits == pytest.approx(truth[f"any coupling: {words}"], abs=0.015)
    assert truth["mean effect"][0] == pytest.approx(((q - p) @ study._SCORE).mean(), abs=0.015)


def test_cells_and_page():
    cells = {cell.name: cell for cell in Coverage().cells("best", 500)}
    assert {cells[name].settings["num_trials"] for name in study.STUDIES} == {500}
    found = study.refit_coverage(0.6, 2, 0, num_rows=120, num_refits=4)
    numbers = found["refitted"]
    assert len(numbers) == 19
    assert all(0 <= each["coverage"] <= 1 and each["width"] >= 0 for each in numbers.values())
    assert numbers["mean effect"]["width"] > found["classifier as known"]["mean effect"]["width"]
    section = Coverage().section({study.NAME: found})
    assert "refitted" in section.sheets["coverage_refit"].columns
