"""Table 1: its settings, its errors, its verdicts, and a run from start to end."""

from dataclasses import replace

import numpy as np
import pytest

from countermax.learning._recipe import Recipe
from studies import table1
from studies.experiments import Store
from studies.registry import EXPERIMENTS, reproduce
from studies.synthetic import Published, table1_recipes, task
from studies.table1 import _summary, _verdict

TINY = Recipe("gadget-2", 4, 1e-2, hidden=(8,), batch_size=4, rounds=5, num_latents=4)


@pytest.mark.slow
def test_every_column_runs_from_start_to_end(tmp_path, monkeypatch):
    one_pair = [replace(TINY, gadget="gadget-1", part="constant", restarts=2), TINY]
    recipes = {"independent": [TINY, replace(TINY, start="inverse-cdf")], "monotone": one_pair, "vector": []}
    monkeypatch.setattr(table1, "table1_recipes", lambda _: recipes)
    monkeypatch.setitem(table1._HELD_OUT, "quick", 40)
    monkeypatch.setitem(table1._FLOORS, "quick", 2)
    monkeypatch.setitem(table1._REFERENCE, "quick", 400)
    monkeypatch.setattr(table1, "_NUM_DIRECTIONS", 5)
    written = reproduce(["table1"], tmp_path, seeds=2)
    assert {"table1.tex", "table1_details.csv", "table1.png", "index.html"} <= {path.name for path in written}
    found = {name: record.result for name, record in Store(tmp_path).records()["table1"].items()}
    fixed = found["independent-fixed"]["rows"]
    assert fixed["optimal"]["value"] == pytest.approx(fixed["inverse CDF"]["value"], rel=1e-5)
    assert found["independent-gadget-2"]["value"] > fixed["optimal"]["value"]
    assert len(found["independent-gadget-2"]["by_seed"]) == 2
    chosen = found["monotone-gadget-1"]
    assert chosen["above"] <= chosen["above_without_choosing"]
    rows = EXPERIMENTS["table1"].section(found).sheets["table1"].rows
    assert [row[0] for row in rows][-3:] == ["Gadget 2", "Gadget 2 from inverse CDF by score", "Gadget 1"]


def test_published_settings_are_those_of_the_paper():
    recipes = table1_recipes("published")
    assert [each.learning_rate for each in recipes["independent"]] == [1e-4, 1e-3]
    assert {each.objective for column in recipes.values() for each in column} == {"relaxed"}
    assert all(each.as_published for column in recipes.values() for each in column)
    assert task("mirrored").published["Gadget 1"] == Published(value=16.67, error=0.45)


def test_a_value_is_reproduced_only_within_two_combined_errors():
    theirs = Published(value=1.0, error=0.03)
    ours = {"error": 0.04, "as_published": True}  # combined with the rounding of .005: .0502
    assert _verdict({**ours, "value": 1.1003}, theirs) == "yes"
    assert _verdict({**ours, "value": 1.1010}, theirs) == "no: 2.0 errors above"
    assert _verdict({**ours, "value": 0.8}, theirs) == "no: 4.0 errors below"
    assert _verdict({**ours, "value": 1.0, "as_published": False}, theirs) == "other settings"


def test_distances_to_the_optimum_have_paired_errors():
    rng = np.random.default_rng(0)
    optimum = rng.gamma(2.0, size=(1, 4000))
    losses = (1.1 * optimum + 0.01 * rng.normal(size=optimum.shape))[None]
    summary = _summary(task("independent"), losses, optimum)
    assert summary["above"] == pytest.approx(0.1, abs=5 * summary["above_error"])
    assert summary["above_error"] == pytest.approx(0.01 / np.sqrt(4000) / optimum.mean(), rel=0.05)
    assert summary["error"] == pytest.approx(1.1 * np.sqrt(2 / 4000), rel=0.1)
