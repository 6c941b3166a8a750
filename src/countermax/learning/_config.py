"""A training described in a TOML file: read, checked key by key, and turned into objects."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.quantities import shown
from countermax._core.reading import read_whole
from countermax._core.seeds import as_seed
from countermax.learning._losses import AbstractLoss, Disagreement, MatrixLoss, SquaredDifference
from countermax.learning._recipe import Recipe
from countermax.learning._settings import check_setting, check_settings
from countermax.pairs import AbstractPairs, FixedPair, PerturbedPair, RandomPairs

_LARGEST_FILE = 10**7
_USES = {  # which keys of a task its pairs and its loss look at; the others would be ignored, so they are refused
    "fixed": ("p", "q"),
    "perturbed": ("p", "q", "scale"),
    "independent": ("num_outcomes", "scale"),
    "mirrored": ("num_outcomes", "scale"),
}


@dataclass(frozen=True)
class Task:
    """Which pairs, and which loss."""

    pairs: str = field(metadata={"choices": ("fixed", "perturbed", "independent", "mirrored")})
    num_outcomes: int | None = field(default=None, metadata={"least": 1})
    scale: float | None = field(default=None, metadata={"least": 0.0})
    p: list[float] | None = None
    q: list[float] | None = None
    loss: str = field(
        default="squared-difference", metadata={"choices": ("squared-difference", "disagreement", "matrix")}
    )
    score: list[Any] | None = None
    matrix: list[Any] | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        for key in ("num_outcomes", "scale", "p", "q"):
            if getattr(self, key) is not None and key not in _USES[self.pairs]:
                used = ", ".join(_USES[self.pairs])
                raise InputError(
                    f"`{key}` says nothing where `pairs` is {self.pairs!r}, which uses {used}: leave it out"
                )
        if self.matrix is not None and self.loss != "matrix":
            raise InputError(f"`matrix` says nothing where `loss` is {self.loss!r}: leave it out")

    def make_pairs(self) -> AbstractPairs:
        """The distribution of pairs."""
        if self.pairs in ("fixed", "perturbed"):
            if self.p is None or self.q is None:
                raise InputError(f"task.pairs = {self.pairs!r} needs task.p and task.q: the logits of the pair")
            p, q = np.asarray(self.p, float), np.asarray(self.q, float)
            with np.errstate(over="ignore"):  # what is too large for single precision is refused as infinite
                if self.pairs == "fixed":
                    return FixedPair(p, q)
                return PerturbedPair(p, q, 1.0 if self.scale is None else self.scale)
        if self.num_outcomes is None:
            raise InputError(f"task.pairs = {self.pairs!r} needs task.num_outcomes")
        scale = 8.0 if self.scale is None else self.scale
        return RandomPairs(self.num_outcomes, scale=scale, mirrored=self.pairs == "mirrored")

    @property
    def size(self) -> int:
        """How many outcomes."""
        if self.pairs in ("fixed", "perturbed") and self.p is not None:
            return len(self.p)
        return self.num_outcomes or 1

    @property
    def scores(self) -> NDArray[np.float64]:
        """One number or one vector for each outcome; by default its index."""
        if self.score is not None:
            if len(self.score) != self.size:
                raise InputError(
                    f"task.score must have one entry for each of {self.size} outcomes, got {len(self.score)}"
                )
            return np.asarray(self.score, float)
        check_memory(f"{self.size} outcomes", 8 * self.size, "lower task.num_outcomes")
        return np.arange(self.size, dtype=float)

    @property
    def scalar_score(self) -> NDArray[np.float64] | None:
        """The score that the loss is about, if there is one and it is a number for each outcome."""
        return self.scores if self.loss == "squared-difference" and self.scores.ndim == 1 else None

    def make_loss(self) -> AbstractLoss:
        """The loss."""
        if self.loss == "disagreement":
            return Disagreement()
        if self.loss == "matrix":
            if self.matrix is None:
                raise InputError("task.loss = 'matrix' needs task.matrix")
            if len(self.matrix) != self.size:
                raise InputError(
                    f"task.matrix must have a row for each of {self.size} outcomes, got {len(self.matrix)}"
                )
            return MatrixLoss(np.asarray(self.matrix, float))
        return SquaredDifference(self.scores)


@dataclass(frozen=True)
class Repeats:
    """How many trainings, and how they are watched."""

    seeds: int = field(default=1, metadata={"least": 1})
    seed: int = field(default=0, metadata={"seed": True})
    evaluate_every: int | None = field(default=None, metadata={"least": 1})
    held_out: int = field(default=256, metadata={"least": 1})
    patience: int | None = field(default=None, metadata={"least": 1})

    def __post_init__(self) -> None:
        check_settings(self)
        as_seed("seed + seeds - 1", self.seed + self.seeds - 1)


@dataclass(frozen=True)
class Config:
    """A whole file."""

    task: Task
    recipe: Recipe
    repeats: Repeats


def read_config(path: str | Path) -> Config:
    """Reads and checks a file; every error names the key."""
    raw = read_whole(path, most=_LARGEST_FILE)
    try:
        content = tomllib.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} must be encoded as UTF-8, but byte {error.start + 1} is not; save it so") from error
    except (ValueError, RecursionError) as error:  # tomllib says of some numbers and of deep nesting what Python says
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is not valid TOML: {reason}") from error
    sections = {"task": Task, "recipe": Recipe, "repeats": Repeats}
    for name, value in content.items():
        if name not in sections:
            raise InputError(f"unknown section {shown(name)} in {path}; known are {', '.join(sections)}")
        if not isinstance(value, dict):
            raise InputError(f"{name} must be a section, written [{name}]")
    made = {name: _section(name, section, content.get(name, {})) for name, section in sections.items()}
    return Config(**made)


def _section(name: str, section: type[Any], values: Mapping[str, Any]) -> Any:
    known = {each.name: each for each in fields(section)}
    checked = {}
    for key, value in values.items():
        if key not in known:
            raise InputError(f"unknown key {name}.{shown(key)[1:-1]}; known are {', '.join(known)}")
        check_setting(f"{name}.{key}", known[key], value)
        checked[key] = tuple(value) if key == "hidden" else value
    for key, each in known.items():
        if each.default is MISSING and each.default_factory is MISSING and key not in values:
            raise InputError(f"{name}.{key} is missing; it must be one of {', '.join(each.metadata['choices'])}")
    try:
        return section(**checked)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
