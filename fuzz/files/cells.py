"""Damaged results of experiments, drawn again by `python -m studies plot`."""

import hashlib
import json
import random
from typing import Any

from fuzz.case import Case
from fuzz.files.damage import damaged
from fuzz.shelf import Shelf

_VALUES: tuple[Any, ...] = (None, True, -1, 0, 1e400, "x", [], {}, [1, 2], float("nan"), "\u001b[31m", [[]], 1e308)


def make(rng: random.Random, shelf: Shelf) -> Case:
    """A stored cell after an accident, or with one field changed."""
    files = dict(shelf.cells())
    name = rng.choice(list(files))
    way = rng.choice(("damaged", "edited", "sealed"))
    content, words = damaged(rng, files[name]) if way == "damaged" else _edited(rng, files[name], way == "sealed")
    answer = shelf.answer(("cells",), lambda: _case(files, ""))
    case = _case({**files, name: content}, f"{name}: {words}")
    means = {**case.means, "answer": answer} | ({"second": "sealed"} if way == "sealed" else {})
    return Case("stored", argv=case.argv, files=case.files, means=means)


def _case(files: dict[str, bytes], words: str) -> Case:
    return Case(
        "stored",
        argv=("studies", "plot", "results"),
        files=files,
        means={"damage": words, "outputs": ["results/"], "compared": ["results/index.html"]},
    )


def _edited(rng: random.Random, content: bytes, seal: bool) -> tuple[bytes, str]:
    """One number, or one field, is another; the checksum is made right again, or not."""
    whole = json.loads(content)
    if seal:
        whole.pop("sha256", None)
    path: list[Any] = []
    node = whole
    while isinstance(node, dict | list) and node and (not path or rng.random() < 0.8):
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        path.append(key)
        parent, node = node, node[key]
    if rng.random() < 0.3:
        del parent[path[-1]]
        words = "is gone"
    elif isinstance(node, int | float) and not isinstance(node, bool) and rng.random() < 0.6:
        parent[path[-1]] = node + 1
        words = f"is {node + 1}"
    else:
        parent[path[-1]] = rng.choice(_VALUES)
        words = f"is {parent[path[-1]]!r}"
    if seal:
        text = json.dumps(whole, sort_keys=True, separators=(",", ":"))
        whole = {"sha256": hashlib.sha256(text.encode()).hexdigest(), **whole}
    return (json.dumps(whole, indent=1) + "\n").encode(), f"{path} {words}{' and sealed again' if seal else ''}"
