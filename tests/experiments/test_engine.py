"""The engine: plans that are resumed, results that are kept, documents made from nothing but what is stored."""

import errno
import json
import os
from dataclasses import replace

import pytest
from squares import Squares

from countermax import InputError
from countermax._core.sheet import Sheet
from countermax.experiments import EXPERIMENTS, Interrupted, redraw, reproduce
from countermax.experiments.engine import CellContext, _plan, _training, train
from countermax.experiments.synthetic._tasks import task
from countermax.learning import Recipe


@pytest.fixture
def squares(monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "squares", Squares())


def test_every_document_is_written_and_a_second_call_computes_nothing(squares, tmp_path, monkeypatch):
    written = reproduce(["squares"], tmp_path)
    assert {path.name for path in written} == {"squares.md", "squares.tex", "squares.csv", "index.html"}
    assert (tmp_path / "sheets/squares.md").read_text().splitlines()[2:] == [
        f"| of-{number} | {number**2}.0 |" for number in range(3)
    ]
    assert r"50 \%\_" in (tmp_path / "sheets/squares.tex").read_text()
    assert "Words &amp; &lt;signs&gt;." in (tmp_path / "index.html").read_text()
    monkeypatch.setattr(_plan, "_work", lambda *_: pytest.fail("it was stored already"))
    reproduce(["squares"], tmp_path)


@pytest.mark.parametrize(("how", "error"), [("interrupt", Interrupted), ("crash", ZeroDivisionError)])
def test_what_was_finished_survives_and_the_next_call_resumes(squares, tmp_path, how, error):
    (tmp_path / "stop").write_text(how)
    with pytest.raises(error):
        reproduce(["squares"], tmp_path)
    cells = tmp_path / "cells/squares"
    assert [path.name for path in cells.iterdir()] == ["of-0.json"]
    first = (cells / "of-0.json").stat().st_mtime_ns
    (tmp_path / "stop").unlink()
    reproduce(["squares"], tmp_path)
    assert len(list(cells.iterdir())) == 3
    assert (cells / "of-0.json").stat().st_mtime_ns == first


def test_several_cells_at_once_give_the_same(squares, tmp_path):
    for jobs in (1, 2):
        reproduce(["squares"], tmp_path / str(jobs), jobs=jobs)
    one, two = ((tmp_path / jobs / "sheets/squares.csv").read_text() for jobs in "12")
    assert one == two


def test_training_only_measures_nothing(squares, tmp_path):
    assert reproduce(["squares"], tmp_path, train_only=True) == []
    assert not (tmp_path / "cells").exists()


def test_a_full_disk_is_named_and_loses_no_finished_cell(squares, tmp_path, monkeypatch):
    reproduce(["squares"], tmp_path)
    (tmp_path / "cells/squares/of-2.json").unlink()
    monkeypatch.setattr(os, "fsync", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(InputError, match=r"of-2\.json: no space left on device; make room"):
        reproduce(["squares"], tmp_path)
    assert len(list((tmp_path / "cells/squares").iterdir())) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content["made_with"].update(countermax="9.9"), r"made by countermax 9\.9, this is .*--out"),
        (lambda content: content["settings"].update(number=7), "was made with number = 7, this run has 1"),
        (lambda content: content["settings"].update(extra=1), "was made with extra = 1, this run has null"),
        (lambda content: content["settings"]["more"].update(steps=7), r"was made with more\.steps = 7, this run has 1"),
        (lambda content: content.update(format=1), "has format 1, .* older folders have to be computed again; choose"),
        (lambda content: content.pop("result"), "is damaged: 'result' is missing"),
    ],
)
def test_results_of_another_making_are_refused_before_any_work(squares, tmp_path, change, message):
    reproduce(["squares"], tmp_path)
    path = tmp_path / "cells/squares/of-1.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    (tmp_path / "cells/squares/of-0.json").unlink()
    with pytest.raises(InputError, match=message):
        reproduce(["squares"], tmp_path)
    assert not (tmp_path / "cells/squares/of-0.json").exists()


def test_damaged_missing_and_unknown_things_are_named(squares, tmp_path):
    (tmp_path / "cells/squares").mkdir(parents=True)
    (tmp_path / "cells/squares/of-0.json").write_text("{")
    with pytest.raises(InputError, match=r"of-0\.json is damaged .* run the command again"):
        redraw(tmp_path)
    with pytest.raises(InputError, match="holds no stored results"):
        redraw(tmp_path / "nowhere")
    with pytest.raises(InputError, match="unknown experiment cubes; known are maximality, table1, couplings"):
        reproduce(["cubes"], tmp_path)
    with pytest.raises(InputError, match="`preset` must be one of quick, published, best, got 'fast'"):
        reproduce(["table1"], tmp_path, preset="fast")
    with pytest.raises(InputError, match="`jobs` must be at least 1"):
        reproduce(["squares"], tmp_path / "new", jobs=0)


def test_progress_counts_cells(squares, tmp_path, capsys):
    reproduce(["squares"], tmp_path, progress=True)
    shown = capsys.readouterr().err
    assert "squares: of-2" in shown
    assert "3 of 3 cells" in shown
    reproduce(["squares"], tmp_path, progress=False)
    assert capsys.readouterr().err == ""


def test_a_sheet_is_written_three_ways_and_keeps_its_digits_for_programs():
    sheet = Sheet("Caption", ("name", "50 %_"), ("", ".1f"), [["a & b", 1 / 3], ["c", None], ["d", -0.04]])
    assert sheet.markdown().splitlines() == [
        "| name | 50 %_ |", "| --- | ---: |", "| a & b | 0.3 |", "| c |  |", "| d | 0.0 |"
    ]  # fmt: skip
    assert r"a \& b & 0.3 \\" in sheet.latex()
    assert sheet.latex().startswith("% Caption")
    assert str(1 / 3) in sheet.csv()


TINY = {"steps": 4, "hidden": (8,), "batch_size": 4, "rounds": 5, "num_latents": 4}


def test_training_is_found_again_and_a_changed_recipe_trains_again(tmp_path, monkeypatch):
    recipe = Recipe("gadget-2", learning_rate=1e-2, **TINY)
    this = task("independent")

    def once(recipe):
        return train(recipe, this.scores, this.pairs, this.losses[0], seed=1, context=CellContext(tmp_path))

    _, made_with = once(recipe)
    assert not (tmp_path / "checkpoint.npz").exists()
    assert made_with["history"]["step"][-1] == 4
    calls = []
    monkeypatch.setattr(_training, "fit_many", lambda *_, **__: calls.append(1))
    assert once(recipe)[1] == made_with
    assert not calls
    with pytest.raises(TypeError):
        once(replace(recipe, steps=5))
    assert calls
