"""Experiments: plans that are resumed, results that are kept, documents made from nothing but what is stored."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from squares import Squares

from countermax import InputError
from countermax._core import progress
from countermax._core.files import _host
from countermax._core.page import Sheet
from countermax.learning import Disagreement, Reinforce
from countermax.learning._recipe import Recipe
from studies import experiments, training
from studies.experiments import CellContext, Interrupted, sealed, unsealed
from studies.registry import EXPERIMENTS, redraw, reproduce
from studies.synthetic import task
from studies.training import train


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
    monkeypatch.setattr(experiments, "_work", lambda *_: pytest.fail("it was stored already"))
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


SEVERAL = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv.pop(1) + "/.."]
from squares import Squares
from studies.registry import EXPERIMENTS
EXPERIMENTS["squares"] = Squares()
from countermax.cli import run
from studies.__main__ import load
if __name__ == "__main__":
    run(load)
"""


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGKILL, -signal.SIGKILL, marks=pytest.mark.slow)],
)
def test_processes_of_a_plan_end_with_it(tmp_path, number, status):
    (tmp_path / "stop").write_text("wait")
    (tmp_path / "several.py").write_text(SEVERAL)
    command = [sys.executable, tmp_path / "several.py", Path(__file__).parents[1]]
    with subprocess.Popen(
        [*command, "squares", "--jobs", "2", "--out", tmp_path], stderr=subprocess.PIPE, text=True
    ) as process:
        while len(waiting := list(tmp_path.glob("waiting-*"))) < 2 and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
    assert process.returncode == status
    if number == signal.SIGTERM:
        assert error == "countermax: stopped: 0 of 3 cells are stored; the same command resumes from there\n"
    until = time.monotonic() + 20
    while any(is_running(path.name.removeprefix("waiting-")) for path in waiting):
        assert time.monotonic() < until, "they outlived it"
        time.sleep(0.05)


def is_running(process):
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    return True


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
        (lambda content: content.update(format=9), "has format 9, .*; use the version that wrote it"),
    ],
)
def test_results_of_another_making_are_refused_before_any_work(squares, tmp_path, change, message):
    reproduce(["squares"], tmp_path)
    path = tmp_path / "cells/squares/of-1.json"
    content = unsealed(path)
    change(content)
    path.write_text(sealed(content))
    (tmp_path / "cells/squares/of-0.json").unlink()
    with pytest.raises(InputError, match=message):
        reproduce(["squares"], tmp_path)
    assert not (tmp_path / "cells/squares/of-0.json").exists()


def edited(change):
    def damage(path):
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return damage


DAMAGES = {
    "cut off": lambda path: path.write_text(path.read_text()[:50]),
    "empty": lambda path: path.write_text(""),
    "not UTF-8": lambda path: path.write_bytes(b"\xff" + path.read_bytes()),
    "nested": lambda path: path.write_text("[" * 100_000),
    "a long number": lambda path: path.write_text('{"format": ' + "9" * 5000 + "}"),
    "a list": lambda path: path.write_text("[]"),
    "a changed number": edited(lambda content: content["result"].update(square=5)),
    "NaN": edited(lambda content: content["result"].update(square=float("nan"))),
    "changed settings": edited(lambda content: content["settings"].update(number=7)),
    "no result": edited(lambda content: content.pop("result")),
    "no checksum": edited(lambda content: content.pop("sha256")),
    "another checksum": edited(lambda content: content.update(sha256=3)),
    "a field too many": edited(lambda content: content.update(more=1)),
    "nothing but a checksum": lambda path: path.write_text(sealed({"format": 3})),
    "a result that is none": lambda path: path.write_text(sealed(unsealed(path) | {"result": [4]})),
    "another cell": lambda path: path.write_text(path.with_name("of-0.json").read_text()),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cell_is_never_drawn_and_is_computed_again(squares, tmp_path, damage):
    reproduce(["squares"], tmp_path)
    path = tmp_path / "cells/squares/of-2.json"
    page = (tmp_path / "index.html").read_bytes()
    DAMAGES[damage](path)
    with pytest.raises(InputError, match=r"of-2\.json is damaged.*move it away"):
        redraw(tmp_path)
    assert (tmp_path / "index.html").read_bytes() == page
    with pytest.warns(UserWarning, match=r"of-2\.json is damaged.*; it is computed again"):
        reproduce(["squares"], tmp_path)
    assert unsealed(path)["result"] == {"square": 4}


def test_a_checksum_is_of_the_values_and_not_of_how_they_are_written(squares, tmp_path):
    reproduce(["squares"], tmp_path)
    path = tmp_path / "cells/squares/of-2.json"
    path.write_text(json.dumps(json.loads(path.read_text()), indent=7))
    redraw(tmp_path)
    path.write_text(sealed({"format": 3, "numbers": {1: (2, 3.0), 10: float("inf")}}))
    assert unsealed(path) == {"format": 3, "numbers": {"1": [2, 3.0], "10": float("inf")}}


def test_a_plan_that_was_stopped_too_early_to_draw_says_so(tmp_path):
    fixed = json.loads((Path(__file__).parents[2] / "results/paper/best/cells/maximality/scale-0.json").read_text())
    (tmp_path / "cells/maximality").mkdir(parents=True)
    (tmp_path / "cells/maximality/scale-0.json").write_text(json.dumps(fixed))
    with pytest.raises(
        InputError, match="lacks cells of maximality without which nothing can be drawn, it has only sca"
    ):
        redraw(tmp_path)


def test_what_a_killed_run_left_is_removed_though_nothing_is_left_to_compute(squares, tmp_path):
    reproduce(["squares"], tmp_path)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / "trained/squares/of-1" / f".countermax-{_host()}-{gone.pid}-aaaaaaaa.part"
    left.write_text("half")
    reproduce(["squares"], tmp_path)
    assert not left.exists()


def test_damaged_missing_and_unknown_things_are_named(squares, tmp_path):
    (tmp_path / "cells/squares").mkdir(parents=True)
    (tmp_path / "cells/squares/of-0.json").write_text("{")
    with pytest.raises(InputError, match=r"of-0\.json is damaged .* move it away, and `python -m studies` computes"):
        redraw(tmp_path)
    with pytest.raises(InputError, match="holds no stored results"):
        redraw(tmp_path / "nowhere")
    with pytest.raises(InputError, match="unknown experiment cubes; known are maximality, table1, couplings"):
        reproduce(["cubes"], tmp_path)
    with pytest.raises(InputError, match="`preset` must be one of quick, published, best, got 'fast'"):
        reproduce(["table1"], tmp_path, preset="fast")
    with pytest.raises(InputError, match="`jobs` must be at least 1"):
        reproduce(["squares"], tmp_path / "new", jobs=0)


def test_progress_counts_cells(squares, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(progress, "_chosen", True)
    reproduce(["squares"], tmp_path)
    shown = capsys.readouterr().err
    assert "squares: of-2" in shown
    assert "3 of 3 cells" in shown
    monkeypatch.setattr(progress, "_chosen", False)
    reproduce(["squares"], tmp_path)
    assert capsys.readouterr().err == ""


def test_a_bar_within_the_work_of_another_is_silent(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_chosen", True)
    with progress.ProgressBar("outer", 1), progress.ProgressBar("inner", 1) as inner:
        inner.update(1)
    with progress.ProgressBar("after", 1):
        pass
    shown = capsys.readouterr().err
    assert "outer" in shown
    assert "inner" not in shown
    assert "after" in shown


def test_a_sheet_is_written_three_ways_and_keeps_its_digits_for_programs():
    sheet = Sheet("Caption", ("name", "50 %_"), ("", ".1f"), [["a & b", 1 / 3], ["c", None], ["d", -0.04]])
    assert sheet.markdown().splitlines() == [
        "| name | 50 %_ |", "| --- | ---: |", "| a & b | 0.3 |", "| c |  |", "| d | 0.0 |"
    ]  # fmt: skip
    assert r"a \& b & 0.3 \\" in experiments.latex(sheet)
    assert experiments.latex(sheet).startswith("% Caption")
    assert str(1 / 3) in sheet.csv()


TINY = {"steps": 4, "hidden": (8,), "batch_size": 4, "rounds": 5, "num_latents": 4}


def test_training_is_found_again_and_a_changed_task_trains_again(tmp_path, monkeypatch):
    recipe = Recipe("gadget-2", learning_rate=1e-2, **TINY)
    this = task("independent")

    def once(recipe, scores=this.scores, loss=this.losses[0], **changed):
        options = {"seed": 1, "context": CellContext(tmp_path), **changed}
        return train(recipe, scores, this.pairs, loss, **options)

    _, made_with = once(recipe)
    assert not (tmp_path / "checkpoint.npz").exists()
    assert made_with["history"]["step"][-1] == 4
    calls = []
    monkeypatch.setattr(training, "fit_many", lambda *_, **__: calls.append(1))
    assert once(recipe)[1] == made_with
    assert not calls
    for again in (
        lambda: once(replace(recipe, steps=5)),
        lambda: once(recipe, seed=2),
        lambda: once(recipe, num_held_out=9),
        lambda: once(recipe, objective=Reinforce()),
        lambda: once(recipe, scores=[2 * each for each in this.scores]),
        lambda: once(recipe, loss=Disagreement()),
    ):
        with pytest.raises(TypeError):
            again()
    assert len(calls) == 6
    with monkeypatch.context() as small:
        small.setenv("COUNTERMAX_MAX_MEMORY", "9.4e-6")  # more than drawing one gadget takes
        with pytest.raises(InputError, match="1 gadgets at once would need .*lower `seeds`"):
            once(replace(recipe, steps=5))
    for damaged, words in (("trained.json", "trained.json is damaged"), ("0.npz", r"0\.npz")):
        content = (tmp_path / damaged).read_bytes()
        (tmp_path / damaged).write_bytes(content[:-10])
        with pytest.warns(UserWarning, match=rf"{words}.*training begins again"), pytest.raises(TypeError):
            once(recipe)
        (tmp_path / damaged).write_bytes(content)
