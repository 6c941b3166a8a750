"""Command lines of `countermax train` and `countermax evaluate`: tiny trainings, described well or badly."""

import random
from typing import Any

from fuzz.calls import vocabulary
from fuzz.case import Case
from fuzz.shelf import Shelf

_BAD = (
    ("task", "pairs", '"none"'),
    ("task", "pairs", "3"),
    ("task", "score", "[1, [2], 3]"),
    ("task", "score", '["a", "b", "c"]'),
    ("task", "score", "[{a = 1}, {a = 2}, {a = 3}]"),
    ("task", "score", "[1979-05-27, 1979-05-28, 1979-05-29]"),
    ("task", "score", "[nan, 1, 2]"),
    ("task", "score", "[inf, 1, 2]"),
    ("task", "score", "[1, 2]"),
    ("task", "p", "[nan, 0, 0]"),
    ("task", "p", '["a", "b", "c"]'),
    ("task", "p", "[]"),
    ("task", "scale", "-1"),
    ("task", "scale", "nan"),
    ("task", "scale", '"x"'),
    ("task", "num_outcomes", "0"),
    ("task", "num_outcomes", "-3"),
    ("task", "num_outcomes", "1000000000"),
    ("task", "loss", '"nothing"'),
    ("task", "loss", '"matrix"'),
    ("task", "unknown", "1"),
    ("recipe", "gadget", '"gadget-3"'),
    ("recipe", "steps", "0"),
    ("recipe", "steps", "-1"),
    ("recipe", "steps", "2.5"),
    ("recipe", "steps", "true"),
    ("recipe", "learning_rate", "0"),
    ("recipe", "learning_rate", "nan"),
    ("recipe", "learning_rate", "inf"),
    ("recipe", "hidden", "[0]"),
    ("recipe", "hidden", "[4.5]"),
    ("recipe", "hidden", "[1000000000]"),
    ("recipe", "hidden", "[true]"),
    ("recipe", "batch_size", "1000000000000"),
    ("recipe", "num_latents", "0"),
    ("recipe", "num_latents", "1000000000"),
    ("recipe", "start", '"nowhere"'),
    ("recipe", "temperature", "0"),
    ("recipe", "activation", '"none"'),
    ("repeats", "seeds", "0"),
    ("repeats", "seeds", "1000000000"),
    ("repeats", "seed", "-1"),
    ("repeats", "seed", "4294967296"),
    ("repeats", "seed", "9223372036854775808"),
    ("repeats", "seed", "99999999999999999999999"),
    ("repeats", "evaluate_every", "0"),
    ("repeats", "evaluate_every", "-1"),
    ("repeats", "patience", "0"),
    ("repeats", "held_out", "0"),
    ("repeats", "held_out", "1000000000000"),
)
_TEXTS = (
    "",
    "[task",
    "task = 1",
    "[task]\n[task]\n",
    "\ufeff[task]",
    "[[task]]",
    "[nothing]\n",
    "a" * 10,
    "x = " + "[" * 5000,
)


def make_training(rng: random.Random) -> Case:
    """A training of a few steps."""
    config, means = _config(rng)
    argv = ("train", "run.toml", "--out", rng.choice(("run", "run", "run", "deep/run", "run.toml")))
    if argv[-1] == "run.toml" or argv[-1] == "deep/run":
        means.pop("good", None)
    return Case("train", argv=argv, files={"run.toml": config}, means=means, process=rng.random() < 0.02)


def make_evaluation(rng: random.Random, shelf: Shelf) -> Case:
    """Stored couplings beside the fixed ones; sometimes of one name, or by a name that is taken."""
    config, means = _config(rng)
    if "00000000" in means.get("refuse", "") and not means["refuse"].startswith("task"):
        means = {}  # nothing is trained: how much memory that would take is no matter
    files = {"run.toml": config}
    stored = shelf.couplings()
    count = rng.choice((0, 1, 1, 2, 3))
    names = [
        rng.choice(("a/x.st", "b/x.st", "Gumbel-max.st", "optimum.st", "gumbel-max.st", "c.st", "d.st"))
        for _ in range(count)
    ]
    if len(set(names)) < len(names):
        means.pop("good", None)
    kinds = [rng.choice(list(stored)) for _ in names]
    sizes = {shelf.known()[kind]["size"] for kind in kinds}
    if sizes - {None, _outcomes(config)}:
        means.pop("good", None)
    files |= {name: stored[kind] for name, kind in zip(names, kinds, strict=True)}
    options = [f"--num-pairs={rng.choice(('1', '3', '8'))}"]
    if rng.random() < 0.06:
        options = [rng.choice(("--num-pairs=0", "--num-pairs=-1", "--num-pairs=x", "--num-pairs=100000000000"))]
        means = {"refuse": f"evaluates with {options[0]}"}
    if rng.random() < 0.9:
        options.append("--json")
    if rng.random() < 0.03:
        options.append("--out=made")
    if rng.random() < 0.04:
        names.append("nowhere.safetensors")
        means = {"refuse": "a coupling that is not there"}
    argv = ("evaluate", "run.toml", *names, *options)
    return Case("evaluate", argv=argv, files=files, means={**means, "couplings": len(names)})


def _outcomes(config: bytes) -> int:
    """How many outcomes a good configuration has: all of them have three."""
    del config
    return 3


def _config(rng: random.Random) -> tuple[bytes, dict[str, Any]]:
    """A file, and whether it is good or bad."""
    task: dict[str, str] = {"pairs": rng.choice(('"fixed"', '"fixed"', '"perturbed"', '"independent"', '"mirrored"'))}
    if task["pairs"] in ('"fixed"', '"perturbed"'):
        task |= {name: str([round(rng.gauss(0, 1.5), 2) for _ in range(3)]) for name in ("p", "q")}
    else:
        task["num_outcomes"] = "3"
    kind = rng.choice(("squared-difference", "squared-difference", "disagreement", "matrix", ""))
    if kind:
        task["loss"] = f'"{kind}"'
    if kind == "matrix":
        task["matrix"] = str([[round(rng.uniform(0, 3), 2) for _ in range(3)] for _ in range(3)])
    elif kind != "disagreement" and rng.random() < 0.5:
        scores = vocabulary.scores(rng, 3)
        task["score"] = str([round(each, 3) for each in scores])
        if rng.random() < 0.3:
            task["score"] = str([[round(each, 3), 1.0] for each in scores])
    recipe = {
        "gadget": rng.choice(('"gadget-1"', '"gadget-2"', '"gadget-2"')),
        "steps": "2",
        "hidden": "[4]",
        "batch_size": "4",
        "num_latents": "4",
    }
    if rng.random() < 0.2:
        recipe["objective"] = rng.choice(('"relaxed"', '"reinforce"', '"exact"'))
    if rng.random() < 0.1:
        recipe["part"] = '"constant"'
    repeats = {"held_out": "4", "seeds": rng.choice(("1", "1", "2"))}
    sections = {"task": task, "recipe": recipe, "repeats": repeats}
    means: dict[str, Any] = {"good": True}
    if rng.random() < 0.4:
        section, key, value = rng.choice(_BAD)
        sections[section][key] = value
        used = key not in ("num_outcomes", "scale", "p", "score") or _is_used(key, task)
        means = {"refuse": f"{section}.{key} = {value}"} if used and key != "temperature" else {}
        if (section, key, value) == ("task", "loss", '"matrix"') and "matrix" in task:
            means = {}
    if rng.random() < 0.03:
        return rng.choice(_TEXTS).encode(), {"refuse": "no configuration"}
    text = "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in section.items())
        for name, section in sections.items()
    )
    return text.encode(), means


def _is_used(key: str, task: dict[str, str]) -> bool:
    """Whether a wrong value is bound to be looked at."""
    if key == "p":
        return task["pairs"] in ('"fixed"', '"perturbed"')
    if key == "num_outcomes":
        return task["pairs"] in ('"independent"', '"mirrored"')
    return key == "score" and task.get("loss", '"squared-difference"') == '"squared-difference"'
