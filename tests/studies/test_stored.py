"""Stored results: of the plans that `make results` runs, and what documents show of them."""

import re
import shlex
import shutil
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from studies import experiments, registry
from studies.command import app
from studies.experiments import Store
from studies.quantiles import LIMIT, LIMITED
from studies.registry import EXPERIMENTS
from studies.synthetic import FLOOR, opposed_pair, published_scores

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "paper/published",
    "paper/best",
    "sepsis",
    "trajectories",
    "coverage",
    "policies",
    "causation",
    "robustness",
    "optimism",
    "quantiles",
)
COMMANDS = [
    shlex.split(line)
    for line in re.findall(r"python -m studies (.* --out results/.*)", (ROOT / "Makefile").read_text())
]
SHOWN = {
    "docs/paper.md": [
        ("paper/published", "maximality"),
        ("paper/best", "maximality"),
        ("paper/published", "table1"),
        ("paper/best", "table1"),
        ("paper/published", "couplings"),
    ],
    "docs/optimum.md": [("quantiles", "quantiles"), ("quantiles", "quantiles_learned")],
    "docs/sepsis.md": [
        ("sepsis", "sepsis"),
        ("sepsis", "sepsis_vitals"),
        ("sepsis", "sepsis_icu_sofa"),
        ("sepsis", "sepsis_icu_features"),
        ("sepsis", "sepsis_as_published"),
    ],
    "docs/coverage.md": [
        *(
            ("coverage", f"coverage{part}")
            for part in ("_numbers", "_power", "_width_summary", "_truths", "_refit_summary")
        ),
        ("causation", "causation"),
        ("policies", "policies"),
    ],
    "docs/replays.md": [
        ("robustness", "robustness"),
        ("optimism", "optimism"),
        ("trajectories", "trajectories_oberst_sontag"),
        ("trajectories", "trajectories_cohort"),
        ("trajectories", "trajectories_learned"),
    ],
}


@lru_cache
def records(folder):
    return Store(ROOT / "results" / folder).records()


@lru_cache
def sections(folder):
    return [
        EXPERIMENTS[name].section({cell: record.result for cell, record in cells.items()})
        for name, cells in records(folder).items()
    ]


def sheet(folder, name):
    (found,) = [section.sheets[name].markdown() for section in sections(folder) if name in section.sheets]
    return found


def sheets_in(text):
    return re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command))
def test_the_commands_of_make_results_find_every_cell_done(command, tmp_path, monkeypatch):
    """Settings, names, format and version are those of the plan, so that nothing is computed."""
    folder = ROOT / command[command.index("--out") + 1]
    shutil.copytree(folder / "cells", tmp_path / "cells")
    found = []
    monkeypatch.setattr(experiments, "_work", lambda _, cell, *__: pytest.fail(f"{cell.name} is not stored"))
    monkeypatch.setattr(registry, "run_plan", lambda *arguments, **options: found.extend(arguments[1]))
    monkeypatch.setattr(registry, "write_documents", lambda *_, **__: [])
    done = CliRunner().invoke(app, [*command[:-1], str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    experiments.run_plan(EXPERIMENTS, found, Store(tmp_path))
    stored = records(str(folder.relative_to(ROOT / "results")))
    for experiment in {cell.experiment for cell in found}:
        assert {cell.name for cell in found if cell.experiment == experiment} == set(stored[experiment])


def test_every_stored_experiment_has_its_command():
    assert {command[command.index("--out") + 1] for command in COMMANDS} == {f"results/{each}" for each in FOLDERS}
    assert {name for folder in FOLDERS for name in records(folder)} == set(EXPERIMENTS)


def test_the_readme_leaves_the_studies_to_their_pages():
    readme = (ROOT / "README.md").read_text()
    assert "| Gadget" not in readme
    for document in ("paper", "sepsis", "coverage"):
        assert f"(docs/{document}.md)" in readme


@pytest.mark.parametrize("document", SHOWN)
def test_sheets_in_documents_are_those_of_the_stored_cells(document):
    assert sheets_in((ROOT / document).read_text()) == [sheet(*each) for each in SHOWN[document]]


def test_pictures_in_documents_are_stored_and_no_others():
    """The others are made by `python -m studies plot`; `.gitignore` names those that are kept."""
    documents = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {found for path in documents for found in re.findall(r"results/[\w/-]+\.png", path.read_text())}
    kept = set(re.findall(r"^!/(results/.*)$", (ROOT / ".gitignore").read_text(), re.MULTILINE))
    assert shown == kept
    for path in shown:
        folder, name = re.fullmatch(r"results/(.+)/figures/(\w+)\.png", path).groups()
        assert any(name in section.figures for section in sections(folder))
        assert (ROOT / path).read_bytes().startswith(b"\x89PNG")


def test_stored_fixed_couplings_agree_with_calculations_by_hand():
    for folder in FOLDERS[:2]:
        fixed = records(folder)["maximality"]["fixed"].result
        weights = np.exp(0.1 * (np.arange(10) - 4.5))
        p = weights / weights.sum()
        assert fixed["maximal"]["loss"] == pytest.approx(1 - np.minimum(p, p[::-1]).sum(), abs=1e-6)
        assert fixed["independent"]["loss"] == pytest.approx(1 - p @ p[::-1], abs=1e-6)
        rows = records(folder)["table1"]["monotone-fixed"].result["rows"]
        pair = opposed_pair()
        p, q = (np.exp(np.asarray(each, float)) for each in (pair.p, pair.q))
        scores = [published_scores(trial)[0] for trial in range(10)]
        spread = np.mean([p @ h**2 - (p @ h) ** 2 + q @ h**2 - (q @ h) ** 2 for h in scores])
        assert rows["independent"]["value"] == pytest.approx(spread, rel=1e-5)


def test_learned_gadgets_are_within_one_percent_in_the_papers_columns():
    best = records("paper/best")["table1"]
    for column in ("independent", "mirrored", "monotone", "non-monotone"):
        assert best[f"{column}-gadget-2"].result["above"] < 0.01
    assert best["vector-gadget-2"].result["value"] < best["vector-fixed"].result["rows"]["Gumbel-max"]["value"]


def test_intervals_about_causes_hold_the_truth_about_as_often_as_they_say():
    held, trials = defaultdict(int), defaultdict(int)
    for name, record in records("causation")["causation"].items():
        truth = name.rsplit(", samples ", 1)[0]
        for number, each in record.result.items():
            held[truth, number] += each["held"]
            trials[truth, number] += each["trials"]
    assert max(trials.values()) == 2000
    assert min(trials.values()) > 900  # of 1,000, those whose estimates leave room for monotonicity
    low = {key for key in held if held[key] < 0.943 * trials[key]}
    assert min(held[key] / trials[key] for key in low) > 0.93  # 0.7 points are a standard error


def test_learning_from_a_vector_quantile_keeps_what_it_starts_with_or_gains():
    stored = records("quantiles")["quantiles-learned"]
    above = {name: record.result["above"] for name, record in stored.items() if "above" in record.result}
    for task in ("three scores, 10 outcomes", "three scores, 50 outcomes", "three scores, 150 outcomes"):
        beside = above[f"{task}; VectorQuantile, 256 atoms"]
        assert all(above[f"{task}; Gadget 2, seed {seed}"] <= beside + 0.01 for seed in range(3))
    for task, gain in (("mirrored, 10 outcomes", 0.03), ("mirrored, 50 outcomes", 0.04)):
        beside = above[f"{task}; VectorQuantile, 256 atoms"]
        assert all(above[f"{task}; Gadget 2, seed {seed}"] <= beside - gain for seed in range(3))
    fixed = stored["fourth power, 10 outcomes; fixed"].result["rows"]
    least = min(row["above"] for name, row in fixed.items() if name != "optimal")
    assert all(above[f"fourth power, 10 outcomes; Gadget 2, seed {seed}"] < least - 0.005 for seed in range(3))


def test_no_stored_mechanism_loses_less_than_the_lower_limit_of_all():
    stored = {name: record.result for name, record in records("quantiles")["quantiles"].items()}
    first, second = (100 * stored[f"{task}; lower limit"]["share"] for task in LIMITED)
    assert f"{first:.1f} % at 10 outcomes and {second:.1f} % at 50" in (ROOT / "docs" / "optimum.md").read_text()
    for task in LIMITED:
        limit, fixed = stored[f"{task}; lower limit"], stored[f"{task}; fixed"]["rows"]
        assert limit["rows"][LIMIT]["above"] == pytest.approx(limit["share"] * (1 + fixed[FLOOR]["above"]) - 1)
        reached = [*(row for name, row in fixed.items() if name != "optimal"), stored[f"{task}; 1,024 atoms"]]
        assert 0 < limit["rows"][LIMIT]["above"] < min(row["above"] for row in reached)
        gap = stored[f"{task}; 256 atoms"]["above"] - limit["rows"][LIMIT]["above"]
        assert gap == pytest.approx({LIMITED[0]: 0.005, LIMITED[1]: 0.014}[task], abs=5e-4)


def test_published_values_lie_within_the_range_of_new_episodes():
    rows = records("trajectories")["trajectories"]["oberst-sontag"].result["rows"]
    published = {"observed": 0.3240, "weighted importance sampling": 0.6286, "model-based": 0.9164, "true": -0.4907}
    for name, value in (published | {"counterfactual": 0.9531}).items():
        values = [row[name] for row in rows]
        assert min(values) <= value <= max(values), name
    assert np.mean([row["true"] for row in rows]) < np.mean([row["counterfactual"] for row in rows])
