"""Damaged checkpoints: a training that resumes ends with the same bits, or says that it cannot."""

import random

from fuzz.case import Case
from fuzz.files.crafted import crafted
from fuzz.files.damage import damaged
from fuzz.shelf import CONFIG, Shelf

_COMPARED = ("run/coupling-0.safetensors", "run/run.json", "run/evaluation.csv")


def make(rng: random.Random, shelf: Shelf) -> Case:
    """The checkpoint of a finished training after an accident, or crafted."""
    whole = shelf.training()
    name = "run/checkpoint.safetensors"
    if name not in whole:  # finished trainings leave none: their own files are all there is
        name = "run/coupling-0.safetensors"
    crafty = name == "run/checkpoint.safetensors" and rng.random() < 0.5
    content, words = crafted(rng, whole[name]) if crafty else damaged(rng, whole[name])
    answer = shelf.answer(("checkpoint", name), lambda: _case({name: whole[name]}, ""))
    case = _case({name: content}, f"{name}: {words}")
    means = {**case.means, "answer": answer} | ({"second": "trained"} if crafty else {})
    return Case("stored", argv=case.argv, files=case.files, means=means)


def _case(files: dict[str, bytes], words: str) -> Case:
    means = {"damage": words, "outputs": ["run/"], "compared": list(_COMPARED), "silent": True}
    return Case(
        "stored", argv=("train", "run.toml", "--out=run"), files={"run.toml": CONFIG.encode(), **files}, means=means
    )
