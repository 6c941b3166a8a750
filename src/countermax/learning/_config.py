"""A training described in a TOML file: read, checked key by key, and turned into objects."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax.learning._losses import AbstractLoss, Disagreement, MatrixLoss, SquaredDifference
from countermax.learning._pairs import AbstractPairs, FixedPair, PerturbedPair, RandomPairs
from countermax.learning._recipe import Recipe

_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "list": (list,),
    "tuple": (list,),
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

    def make_pairs(self) -> AbstractPairs:
        """The distribution of pairs."""
        if self.pairs in ("fixed", "perturbed"):
            if self.p is None or self.q is None:
                raise InputError(f"task.pairs = {self.pairs!r} needs task.p and task.q: the logits of the pair")
            if self.pairs == "fixed":
                return FixedPair(np.asarray(self.p), np.asarray(self.q))
            return PerturbedPair(np.asarray(self.p), np.asarray(self.q), 1.0 if self.scale is None else self.scale)
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
        return np.arange(self.size, dtype=float) if self.score is None else np.asarray(self.score, float)

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
            loss: AbstractLoss = MatrixLoss(np.asarray(self.matrix, float))
        else:
            loss = SquaredDifference(self.scores)
        size = len(jax.tree.leaves(loss)[0])
        if size != self.size:
            name = "matrix" if self.loss == "matrix" else "score"
            raise InputError(f"task.{name} must have one entry for each of {self.size} outcomes, got {size}")
        return loss


@dataclass(frozen=True)
class Repeats:
    """How many trainings, and how they are watched."""

    seeds: int = field(default=1, metadata={"least": 1})
    seed: int = field(default=0, metadata={"least": 0})
    evaluate_every: int | None = field(default=None, metadata={"least": 1})
    held_out: int = field(default=256, metadata={"least": 1})
    patience: int | None = field(default=None, metadata={"least": 1})


@dataclass(frozen=True)
class Config:
    """A whole file."""

    task: Task
    recipe: Recipe
    repeats: Repeats


def read_config(path: str | Path) -> Config:
    """Reads and checks a file; every error names the key."""
    try:
        content = tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise InputError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML: {error}") from error
    sections = {"task": Task, "recipe": Recipe, "repeats": Repeats}
    for name, value in content.items():
        if name not in sections:
            raise InputError(f"unknown section {name!r} in {path}; known are {', '.join(sections)}")
        if not isinstance(value, dict):
            raise InputError(f"{name} must be a section, written [{name}]")
    made = {name: _section(name, section, content.get(name, {})) for name, section in sections.items()}
    return Config(**made)


def _section(name: str, section: type[Any], values: Mapping[str, Any]) -> Any:
    known = {each.name: each for each in fields(section)}
    checked = {}
    for key, value in values.items():
        if key not in known:
            raise InputError(f"unknown key {name}.{key}; known are {', '.join(known)}")
        kind = _kind(known[key].type)
        _check(f"{name}.{key}", kind, value, known[key].metadata)
        checked[key] = tuple(value) if kind.startswith("tuple") else value
    for key, each in known.items():
        if each.default is MISSING and each.default_factory is MISSING and key not in values:
            raise InputError(f"{name}.{key} is missing; it must be one of {', '.join(each.metadata['choices'])}")
    try:
        return section(**checked)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def _kind(annotation: Any) -> str:
    return annotation.__name__ if annotation in (str, int, float, bool) else str(annotation)


def _check(name: str, kind: str, value: Any, limits: Mapping[str, Any]) -> None:
    wanted = next(types for start, types in _KINDS.items() if kind.startswith(start))
    if (isinstance(value, bool) and bool not in wanted) or not isinstance(value, wanted):
        shown = kind.replace(" | None", "").replace("tuple[int, ...]", "a list of whole numbers")
        raise InputError(f"{name} must be {shown}, got {value!r}")
    if "choices" in limits and value not in limits["choices"]:
        raise InputError(f"{name} must be one of {', '.join(limits['choices'])}, got {value!r}")
    if "least" in limits and not value >= limits["least"]:
        raise InputError(f"{name} must be at least {limits['least']}, got {value}")
    if "above" in limits and not value > limits["above"]:
        raise InputError(f"{name} must be above {limits['above']}, got {value}")
    numbers: list[Any] = value if isinstance(value, list) else []
    if kind.startswith("list[float]") and not all(isinstance(each, int | float) for each in numbers):
        raise InputError(f"{name} must be a list of numbers, got {value!r}")
    if kind.startswith("tuple[int") and not all(isinstance(each, int) and each > 0 for each in numbers):
        raise InputError(f"{name} must be a list of positive whole numbers, got {value!r}")
