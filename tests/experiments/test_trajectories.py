"""The trajectory experiments: exact against draws on sepsis, and documents that show what is stored."""

from pathlib import Path

import jax
import numpy as np

from countermax import GumbelMax
from countermax.experiments import EXPERIMENTS
from countermax.experiments.engine._plan import run_plan
from countermax.experiments.engine._store import Store
from countermax.experiments.trajectories._experiment import cautious_policy, sepsis_log
from countermax.mdp import replay, sample_replay
from countermax.mdp.processes import sepsis

ROOT = Path(__file__).parents[2]
STORED = ROOT / "results/trajectories"


def test_exact_answers_on_sepsis_are_those_of_draws():
    """False-alarm level 1e-6 for the mean over patients, and for each of twenty patients."""
    log, model, _ = sepsis_log(faithful=False, num_episodes=200, seed=0)
    policy, labels = cautious_policy(log, model, least_visits=5), sepsis.projected_outcomes()
    some = log.select(np.arange(20))
    exact = replay(model, some, policy, GumbelMax(), outcomes=labels, discount=1.0)
    drawn = sample_replay(
        model, some, policy, GumbelMax(), num_samples=400, outcomes=labels, discount=1.0, key=jax.random.key(1)
    )
    # Returns lie in [-1, 1], so Bernstein's inequality holds whatever their law: each mean is off by more than this
    # with probability 1e-6 / 42 at most.
    log_term = np.log(2 * 42 / 1e-6)
    allowed = np.sqrt(2 * exact.variances * log_term / 400) + 4 * log_term / (3 * 400)
    assert (np.abs(drawn.returns.mean(axis=1) - exact.values) <= allowed).all()
    overall = np.sqrt(2 * exact.variances.mean() * log_term / 8000) + 4 * log_term / (3 * 8000)
    assert abs(drawn.returns.mean() - exact.mean) <= overall
    assert (exact.variances > 0.01).any()


def test_stored_studies_are_those_of_the_preset_and_their_tables_are_documented():
    store = Store(STORED)
    assert all(store.find(cell) is not None for cell in EXPERIMENTS["trajectories"].cells("best", None))
    results = {name: record.result for name, record in store.records()["trajectories"].items()}
    document = (ROOT / "docs/trajectories.md").read_text()
    for name, table in EXPERIMENTS["trajectories"].section(results).tables.items():
        assert (STORED / "tables" / f"{name}.md").read_text() == table.markdown()
        assert table.markdown() in document


def test_published_figures_lie_within_the_range_of_new_episodes():
    rows = Store(STORED).records()["trajectories"]["oberst-sontag"].result["rows"]
    published = {"observed": 0.3240, "weighted importance sampling": 0.6286, "model-based": 0.9164, "true": -0.4907}
    for name, figure in (published | {"counterfactual": 0.9531}).items():
        values = [row[name] for row in rows]
        assert min(values) <= figure <= max(values), name
        assert all(row["lower"] - 1e-9 <= row["counterfactual"] <= row["upper"] + 1e-9 for row in rows)
    assert np.mean([row["true"] for row in rows]) < np.mean([row["counterfactual"] for row in rows])


def test_a_study_runs_and_is_stored(tmp_path):
    cells = [cell for cell in EXPERIMENTS["trajectories"].cells("quick", 1) if cell.name == "oberst-sontag"]
    run_plan(EXPERIMENTS, cells, Store(tmp_path))
    found = Store(tmp_path).records()["trajectories"]["oberst-sontag"].result
    assert len(found["rows"]) == found["num_repeats"] == 1
