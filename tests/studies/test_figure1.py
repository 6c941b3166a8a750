"""Both halves of Figure 1: settings, and runs from start to end."""

from dataclasses import replace

import numpy as np
import pytest

from countermax.learning._recipe import Recipe
from studies import figure1
from studies.experiments import Store
from studies.registry import reproduce
from studies.synthetic import maximality_recipe, opposed_pair, published_scores

TINY = Recipe("gadget-2", 4, 1e-2, hidden=(8,), batch_size=4, rounds=5, num_latents=4)


@pytest.mark.slow
def test_learning_to_keep_the_outcome_runs_from_start_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(figure1, "maximality_recipe", lambda _: replace(TINY, start="scattered"))
    monkeypatch.setattr(figure1, "SCALES", (0.0, 0.1))
    written = reproduce(["maximality"], tmp_path, seeds=2)
    assert {"maximality.pdf", "maximality_couplings.png"} <= {path.name for path in written}
    found = {name: record.result for name, record in Store(tmp_path).records()["maximality"].items()}
    assert len(found["scale-0.1"]["losses"]) == 2
    assert min(found["scale-0"]["losses"]) > found["fixed"]["maximal"]["loss"]
    for each in found["fixed"].values():
        assert each["loss"] == pytest.approx(1 - np.trace(each["joint"]), abs=1e-6)


@pytest.mark.slow
def test_laws_have_the_moments_of_the_effect(tmp_path, monkeypatch):
    tiny_1 = replace(TINY, gadget="gadget-1", part="constant", restarts=2)
    monkeypatch.setattr(figure1, "couplings_recipes", lambda _: [tiny_1, TINY])
    assert "couplings.png" in {path.name for path in reproduce(["couplings"], tmp_path)}
    laws = {
        name: law
        for record in Store(tmp_path).records()["couplings"].values()
        for name, law in record.result["laws"].items()
    }
    assert set(laws) == {"independent", "Gumbel-max", "inverse CDF", "optimal", "Gadget 1", "Gadget 2"}
    p, q = (np.exp(np.asarray(each, float)) for each in (opposed_pair().p, opposed_pair().q))
    for kind, score in zip(("monotone", "non-monotone"), published_scores(100), strict=True):
        for law in laws.values():
            moment = (np.asarray(law[kind]["joint"]) * (score[:, None] - score[None, :]) ** 2).sum()
            assert law[kind]["second_moment"] == pytest.approx(moment, rel=1e-4)
            mean = q @ score - p @ score
            assert law[kind]["variance"] == pytest.approx(moment - mean**2, rel=1e-3)
            assert law[kind]["variance"] >= laws["optimal"][kind]["variance"] - 1e-5


def test_published_settings_are_those_of_the_paper():
    recipe = maximality_recipe("published")
    assert (recipe.num_latents, recipe.steps, recipe.learning_rate, recipe.batch_size) == (100, 10_000, 1e-5, 64)
