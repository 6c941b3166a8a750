"""Trainings on disk: what a run writes, and what an interrupted one leaves."""

import json
import re
import signal
from pathlib import Path

import pytest

from countermax import GumbelMax, InputError, save
from countermax.learning import TrainingInterrupted, _config, _loop
from countermax.learning._config import evaluate_run, read_config, train_run

CONFIG = """
[task]
pairs = 'fixed'
p = [0.0, 1.0, -inf]
q = [1.0, 0.0, 0.5]
[recipe]
gadget = 'gadget-2'
part = 'constant'
num_latents = 3
rounds = 2
steps = {steps}
[repeats]
seeds = {seeds}
evaluate_every = 3
"""
WRITTEN = {
    "checkpoint.safetensors",
    "coupling-0.safetensors",
    "coupling-1.safetensors",
    "curves.png",
    "evaluation.csv",
    "evaluation.md",
    "losses.png",
    "run.json",
}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return _read(tmp_path_factory.mktemp("config"), steps=6)


def _read(folder, *, steps, seeds=2):
    (folder / "run.toml").write_text(CONFIG.format(steps=steps, seeds=seeds))
    return read_config(folder / "run.toml")


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    """What an uninterrupted run writes, by name."""
    out = tmp_path_factory.mktemp("whole")
    train_run(config, out)
    return _contents(out)


def _contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_run_writes_valid_files(whole):
    assert set(whole) == WRITTEN
    record = json.loads(whole["run.json"], parse_constant=pytest.fail)
    assert record["config"]["task"]["p"] == [0.0, 1.0, None]
    assert record["fits"]["seed 1"]["ended"] == "finished"


@pytest.mark.parametrize("when", ["while training", "while evaluating", "while writing"])
def test_an_interrupted_run_leaves_a_checkpoint_and_resumes_to_the_same_bits(
    when, config, whole, tmp_path, monkeypatch
):
    module, name = {
        "while training": (_loop, "held_out_losses"),
        "while evaluating": (_config, "evaluate_run"),
        "while writing": (_config, "write_evaluation"),
    }[when]
    original = getattr(module, name)

    def interrupt(*arguments):
        signal.raise_signal(signal.SIGINT)
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, interrupt)
        with pytest.raises(TrainingInterrupted) as caught:
            train_run(config, tmp_path)
    left = set(_contents(tmp_path))
    assert left == (WRITTEN if when == "while writing" else {"checkpoint.safetensors"})
    said = {
        "while training": r"at step 3 of 6; .*checkpoint\.safetensors holds step 3: run it again to resume",
        "while evaluating": r"when the training was done; .*checkpoint\.safetensors holds it: run it again",
        "while writing": "when the training was done; the results are written",
    }
    assert re.search(said[when], str(caught.value))
    train_run(config, tmp_path)
    assert _contents(tmp_path) == whole
    train_run(config, tmp_path)  # once more changes nothing
    assert _contents(tmp_path) == whole


def test_a_folder_of_another_run_is_refused(config, whole, tmp_path):
    (tmp_path / "run.json").write_bytes(whole["run.json"])
    other = _read(tmp_path, steps=7)
    with pytest.raises(InputError, match=r"run\.json tells of a training with other settings: choose another folder"):
        train_run(other, tmp_path)
    for content in (b"[]", b"{", b"\xff", b"[" * 10**5):
        (tmp_path / "run.json").write_bytes(content)
        with pytest.raises(InputError, match=r"run\.json is not the record of a training"):
            train_run(config, tmp_path)


def test_a_thousand_million_seeds_are_refused_before_anything_is_written(tmp_path):
    many = _read(tmp_path, steps=6, seeds=10**9)
    with pytest.raises(InputError, match=r"1000000000 trainings at once would need about .* lower repeats\.seeds"):
        train_run(many, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_no_file_takes_the_row_of_another_or_of_a_fixed_coupling(config, tmp_path):
    (tmp_path / "other").mkdir()
    names = ("Gumbel-max", "gumbel-max", "optimum", "x", "other/x", "x.safetensors", "mine")
    files = [save(GumbelMax(), tmp_path / f"{name}.safetensors") for name in names]
    rows = evaluate_run(config, files, num_pairs=2).by_coupling
    alone = evaluate_run(config, [], num_pairs=2).by_coupling
    assert len(rows) == len(alone) + len(files)
    assert {name: rows[name] for name in alone} == alone
    assert "mine" in rows
    assert all(str(path) in rows for path in files[:5])
    with pytest.raises(InputError, match="'Gumbel-max' is the name of a fixed coupling"):
        evaluate_run(config, {"Gumbel-max": GumbelMax()})
    with pytest.raises(InputError, match="no coupling can be called 'optimum'"):
        evaluate_run(config, {"optimum": GumbelMax()})


def test_the_same_file_twice_is_refused(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(GumbelMax(), "x.safetensors")
    with pytest.raises(InputError, match="must differ from each other, got 'x.safetensors' more than once"):
        evaluate_run(config, [Path("x.safetensors"), Path("x.safetensors")])
