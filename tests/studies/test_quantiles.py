"""The experiment on vector quantiles: what it plans, what a cell holds, and what is shown of stored cells."""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest

from countermax import InputError
from countermax.couplings import VectorQuantile
from countermax.couplings._reference import scores_of_loss
from countermax.learning._recipe import Recipe
from studies import quantiles
from studies.experiments import CellContext
from studies.quantiles import (
    LIMIT,
    RECIPES,
    RECORDS,
    STEEP,
    TASKS,
    LearnedQuantiles,
    Quantiles,
    QuantileTask,
)
from studies.synthetic import FLOOR


@pytest.fixture
def tiny(monkeypatch):
    tasks = {"three scores, 4 outcomes": QuantileTask(4, "independent", 8), "fixed": QuantileTask(4, "fixed", 1)}
    monkeypatch.setattr(quantiles, "TASKS", tasks)
    monkeypatch.setattr(quantiles, "_ALL", tasks)
    monkeypatch.setattr(quantiles, "_ATOMS", (8,))
    monkeypatch.setattr(quantiles, "LIMITED", list(tasks)[:1])
    monkeypatch.setattr(quantiles, "find_spec", lambda _: None)


@pytest.mark.slow
def test_a_cell_is_measured_beside_the_optimum_of_the_same_pairs(tiny, tmp_path):
    experiment = Quantiles()
    plan = {cell.name: cell for cell in experiment.cells("best", 2)}
    assert list(plan) == [
        "three scores, 4 outcomes; fixed", "three scores, 4 outcomes; lower limit", "three scores, 4 outcomes; 8 atoms",
        "fixed; fixed", "fixed; 8 atoms",
    ]  # fmt: skip
    stored = {name: experiment.compute(cell, CellContext(tmp_path)) for name, cell in plan.items()}
    rows, fitted = stored["three scores, 4 outcomes; fixed"]["rows"], stored["three scores, 4 outcomes; 8 atoms"]
    assert rows["optimal"]["above"] == 0
    assert len(fitted["above_by_seed"]) == 2
    assert 0 <= fitted["above"] < rows["Gumbel-max"]["above"] < rows["independent"]["above"]
    assert abs(stored["fixed; 8 atoms"]["above"]) < 1e-3
    assert rows[FLOOR]["value"] / rows["optimal"]["value"] - 1 == pytest.approx(rows[FLOOR]["above"])
    assert rows[FLOOR]["above"] < fitted["above"] + 1e-3
    assert FLOOR not in stored["fixed; fixed"]["rows"]
    limit = stored["three scores, 4 outcomes; lower limit"]
    assert 0.9 < limit["share"] < 1
    assert limit["rows"][LIMIT]["value"] == pytest.approx(limit["share"] * rows[FLOOR]["value"])
    assert limit["rows"][LIMIT]["above"] == pytest.approx(limit["rows"][LIMIT]["value"] / rows["optimal"]["value"] - 1)
    sheet = experiment.section(stored).sheets["quantiles"]
    assert [line[0] for line in sheet.rows][3:5] == ["VectorQuantile, 8 atoms", "VectorQuantile, its own reference"]
    assert experiment.compute(plan["fixed; fixed"], CellContext(tmp_path, train_only=True)) is None


def test_learned_cells_come_one_for_each_seed_with_their_recipe():
    cells = LearnedQuantiles().cells("best", None)
    assert [cell.name for cell in cells][1:4] == [
        f"three scores, 10 outcomes; Gadget 2, seed {seed}" for seed in range(3)
    ]
    learned = [cell for cell in cells if "Gadget 2" in cell.name]
    assert all(cell.settings["recipe"]["start"] == "vector-quantile" for cell in learned)
    stored = {cell.name: {"above": 0.15, "above_error": 0.01} for cell in cells[:4]}
    sheet = LearnedQuantiles().section(stored).sheets["quantiles_learned"]
    assert sheet.rows[0] == ["VectorQuantile, 256 atoms", "15.0% ± 1.0%"]
    assert sheet.rows[1][0] == "Gadget 2, seed 0"


def test_every_gadget_has_a_vector_quantile_or_all_fixed_couplings_beside_it_on_its_own_pairs():
    cells = LearnedQuantiles().cells("best", None)
    for task in RECIPES:
        mine = [cell for cell in cells if cell.name.startswith(f"{task}; ")]
        assert mine[0].name == f"{task}; {'fixed' if task in STEEP else 'VectorQuantile, 256 atoms'}"
        assert len({(cell.settings["held_out_key"], cell.settings["num_held_out"]) for cell in mine}) == 1


def test_all_is_measured_on_the_same_fresh_pairs():
    plans = [*LearnedQuantiles().cells("best", None), *Quantiles().cells("best", None)]
    assert {cell.settings["held_out_key"] for cell in plans if "kind" in cell.settings} == {20_261_116}


def test_stored_fits_have_the_settings_that_users_get():
    defaults = inspect.signature(VectorQuantile.fit).parameters
    (fits,) = [cell for cell in Quantiles().cells("best", None) if cell.name == "three scores, 50 outcomes; 256 atoms"]
    for name in ("num_atoms", "num_worlds", "num_rounds"):
        assert fits.settings[name] == defaults[name].default


def test_a_loss_of_another_kind_has_fixed_couplings_and_the_vector_quantile_beside_it(tmp_path, monkeypatch):
    steep = {"steep": QuantileTask(4, "steep", 6)}
    recipe = Recipe("gadget-2", 2, 1e-3, start="vector-quantile", num_latents=4, hidden=(4,), rounds=2, batch_size=2)
    for name, value in (("STEEP", steep), ("_ALL", steep), ("RECIPES", {"steep": recipe}), ("_ATOMS", (8,))):
        monkeypatch.setattr(quantiles, name, value)
    cell = LearnedQuantiles().cells("best", 1)[0]
    rows = LearnedQuantiles().compute(cell, CellContext(tmp_path))["rows"]
    assert list(rows) == [
        "independent", "Gumbel-max", "best projected inverse CDF", "optimal", "VectorQuantile of the scores",
    ]  # fmt: skip
    assert all(numbers["above"] > -1e-5 for numbers in rows.values())


@pytest.mark.slow
def test_a_learned_cell_is_trained_from_a_vector_quantile_and_measured(tiny, tmp_path, monkeypatch):
    recipe = Recipe("gadget-2", 2, 1e-3, start="vector-quantile", num_latents=4, hidden=(4,), rounds=2, batch_size=2)
    name = "three scores, 4 outcomes"
    monkeypatch.setattr(quantiles, "RECIPES", {name: recipe})
    beside, cell = LearnedQuantiles().cells("best", 1)
    assert -1e-5 < LearnedQuantiles().compute(beside, CellContext(tmp_path))["above"] < 0.1
    assert LearnedQuantiles().compute(cell, CellContext(tmp_path, train_only=True)) is None
    result = LearnedQuantiles().compute(cell, CellContext(tmp_path))
    assert result["above"] > 0


def test_no_distance_represents_the_steep_loss():
    (task,) = STEEP.values()
    with pytest.raises(InputError, match="conditionally negative definite"):
        scores_of_loss(task.loss(jnp.zeros(10), jnp.zeros(10)))


def test_dependent_pairs_and_records_have_no_floor():
    assert {task.kind for task in TASKS.values()} == {"independent", "disagreement", "mirrored", "fixed"}
    assert [cell.name for cell in Quantiles().cells("best", None)][-1] == f"{RECORDS}; fixed"
    assert not any("mirrored" in cell.name for cell in Quantiles().cells("quick", None))
    task = TASKS["disagreement, 50 outcomes"]
    np.testing.assert_allclose(((task.scores[0] - task.scores[1]) ** 2).sum(), 1)
