"""Tutorials: their code runs, and the stored notebooks are made from it, with outputs."""

import json
import runpy
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

TUTORIALS = sorted((Path(__file__).parents[2] / "docs/tutorials").glob("*.py"))


def test_every_notebook_has_its_script():
    assert {"one_patient", "two_arms"} <= {path.stem for path in TUTORIALS}
    assert {path.stem for path in TUTORIALS[0].parent.glob("*.ipynb")} == {path.stem for path in TUTORIALS}


@pytest.mark.documents
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_the_code_of_a_tutorial_runs(path, tmp_path, monkeypatch):
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path))
    plt.close("all")


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_stored_notebook_has_the_cells_of_its_script_and_their_outputs(path, notebooks):
    stored = path.with_suffix(".ipynb")
    assert notebooks.stored_cells(stored) == notebooks.cells(path.read_text())
    assert stored.stat().st_size < 400_000
    cells = json.loads(stored.read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert not any(output["output_type"] == "error" for output in outputs)
    page, pictures = notebooks.as_markdown(stored)
    assert len(pictures) >= 2
    assert all(picture.startswith(b"\x89PNG") for picture in pictures.values())
    assert all(f"]({name})" in page for name in pictures)
