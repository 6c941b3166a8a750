"""The sepsis experiment: its plan, and its panels against their optima."""

import numpy as np
import pytest

from studies.experiments import CellContext
from studies.registry import EXPERIMENTS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sepsis", "sepsis-as-published"])
def test_the_experiment_without_gadgets_obeys_its_own_optima(name, tmp_path):
    """All panels on states and vital signs with what is not learned: no row beats the optimum."""
    experiment = EXPERIMENTS[name]
    cells = [
        cell
        for cell in experiment.cells("quick", 1)
        if cell.name.split("-")[0] in ("queries", "states", "vitals") and "recipe" not in cell.settings
    ]
    stored = {}
    for cell in cells:
        if "num_noisy" in cell.settings:
            cell.settings["num_noisy"] = min(cell.settings["num_noisy"], 4)
        stored[cell.name] = experiment.compute(cell, CellContext(tmp_path))
    for label, result in stored.items():
        if label == "queries":
            continue
        if label == "states-counterfactual-generalised-fixed" and name == "sepsis-as-published":
            assert "optimal" not in result["rows"]
            continue
        least = np.asarray(result["rows"]["optimal"]["within"])
        for row in result["rows"].values():
            assert (np.asarray(row["within"]) >= least - 1e-9).all()
        if "joint" in label:
            np.testing.assert_allclose(result["rows"]["comonotone by score"]["within"], least, atol=1e-9)
    for missing in ({}, {label: stored[label] for label in list(stored)[:2]}):  # an interrupted run can be drawn too
        assert experiment.section(missing).words
    section = experiment.section(stored)
    sheet = section.sheets[name.replace("-", "_")]
    assert [row[0] for row in sheet.rows] == [
        "independent",
        "Gumbel-max",
        "inverse CDF",
        "comonotone by score",
        "optimal",
    ]
    assert any("disjoint" in words for words in section.words)
    if name == "sepsis":
        gains = {(row[0], row[1]): row[4] for row in section.sheets["sepsis_vitals"].rows}
        assert gains["joint, fixed pair", "Gumbel-max"] > 0.02
        assert abs(gains["joint, fixed pair", "independent"]) < 1e-9
        assert any("Left out: the ICU records" in words for words in section.words)


def test_every_panel_has_a_cell_for_every_kind_of_coupling():
    names = {cell.name for cell in EXPERIMENTS["sepsis"].cells("best", None)}
    for panel in ("joint-fixed", "joint-generalised", "counterfactual-fixed", "counterfactual-generalised"):
        assert {f"states-{panel}-{kind}" for kind in ("fixed", "gadget-1", "gadget-2")} <= names
        assert {f"icu-sofa-{panel}-{kind}" for kind in ("fixed", "gadget-2")} <= names
    assert {f"vitals-{panel}-gadget-2" for panel in ("joint-fixed", "counterfactual-fixed")} <= names
    published = {cell.name: cell for cell in EXPERIMENTS["sepsis-as-published"].cells("published", None)}
    assert published["states-joint-fixed-gadget-2"].settings["recipe"]["steps"] == 2000
    assert published["states-joint-fixed-gadget-1"].settings["recipe"]["steps"] == 32016
