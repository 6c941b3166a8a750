"""Training described in a TOML file: read, checked key by key, and turned into objects."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import jax
import numpy as np

from countermax._errors import InputError
from countermax.couplings import AbstractCoupling, BinnedInverseCDF, Diagonal, Gadget1, Gadget2
from countermax.couplings import Table as ParameterTable
from countermax.losses import AbstractLoss, Disagreement, MatrixLoss, SquaredDifference
from countermax.objectives import OBJECTIVES, AbstractObjective, Relaxed, as_objective
from countermax.pairs import AbstractPairs, FixedPair, PerturbedPair, RandomPairs

_KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float), "list": (list,)}


@dataclass(frozen=True)
class TaskConfig:
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
        """The query distribution."""
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

    def make_loss(self) -> AbstractLoss:
        """The loss."""
        if self.loss == "disagreement":
            return Disagreement()
        if self.loss == "matrix":
            if self.matrix is None:
                raise InputError("task.loss = 'matrix' needs task.matrix")
            loss: AbstractLoss = MatrixLoss(np.asarray(self.matrix, float))
        else:
            score = np.arange(self.size, dtype=float) if self.score is None else np.asarray(self.score, float)
            loss = SquaredDifference(score)
        size = len(jax.tree.leaves(loss)[0])
        if size != self.size:
            name = "matrix" if self.loss == "matrix" else "score"
            raise InputError(f"task.{name} must have one entry for each of {self.size} outcomes, got {size}")
        return loss


@dataclass(frozen=True)
class MechanismConfig:
    """Which gadget, and where it starts."""

    kind: str = field(metadata={"choices": ("gadget1", "gadget2")})
    preset: str = field(default="best", metadata={"choices": ("best", "paper")})
    num_latents: int = field(default=20, metadata={"least": 1})
    part: str = field(default="perceptron", metadata={"choices": ("perceptron", "table")})
    hidden: list[int] = field(default_factory=lambda: [256, 256])
    activation: str = field(default="gelu", metadata={"choices": ("gelu", "relu", "sigmoid", "tanh")})
    start: str = field(default="random", metadata={"choices": ("random", "inverse-cdf", "gumbel-max")})
    rounds: int = field(default=20, metadata={"least": 0})

    def make(self, task: TaskConfig, seed: int) -> AbstractCoupling:
        """The gadget with fresh parameters."""
        key, size = jax.random.key(seed), task.size
        if self.kind == "gadget1":
            if self.start == "inverse-cdf":
                raise InputError("mechanism.start = 'inverse-cdf' is for gadget2; gadget1 can start at 'gumbel-max'")
            if self.preset == "paper":
                return Gadget1.paper(size, key=key)
            start = Diagonal(size) if self.start == "gumbel-max" else None
            part = other_part = None
            if self.part == "table":
                first, second = jax.random.split(key)
                part, other_part = ParameterTable(size, size, key=first), ParameterTable(size, size, key=second)
            return Gadget1(
                size,
                key=key,
                part=part,
                other_part=other_part,
                start=start,
                hidden=self.hidden,
                activation=self.activation,
            )
        if self.start == "gumbel-max":
            raise InputError("mechanism.start = 'gumbel-max' is for gadget1; for gadget2 set num_latents = 1 instead")
        if self.preset == "paper":
            return Gadget2.paper(size, self.num_latents, key=key)
        line = BinnedInverseCDF(self.num_latents, self._line(task)) if self.start == "inverse-cdf" else None
        part = (
            ParameterTable(self.num_latents, size, key=key, silent=line is not None) if self.part == "table" else None
        )
        return Gadget2(
            size,
            self.num_latents,
            key=key,
            part=part,
            start=line,
            hidden=self.hidden,
            activation=self.activation,
            rounds=self.rounds,
        )

    def _line(self, task: TaskConfig) -> list[float]:
        loss = task.make_loss()
        if not isinstance(loss, SquaredDifference) or loss.score.shape[1] != 1:
            raise InputError("mechanism.start = 'inverse-cdf' needs one scalar score to put the outcomes in order")
        return [float(value) for value in loss.score[:, 0]]


@dataclass(frozen=True)
class TrainingConfig:
    """How to learn."""

    objective: str = field(default="exact", metadata={"choices": tuple(OBJECTIVES)})
    temperature: float = field(default=1.0, metadata={"above": 0.0})
    steps: int = field(default=2000, metadata={"least": 1})
    seeds: int = field(default=1, metadata={"least": 1})
    seed: int = field(default=0, metadata={"least": 0})
    batch_size: int = field(default=128, metadata={"least": 1})
    learning_rate: float = field(default=1e-2, metadata={"above": 0.0})
    evaluate_every: int | None = field(default=None, metadata={"least": 1})
    held_out: int = field(default=256, metadata={"least": 1})
    patience: int | None = field(default=None, metadata={"least": 1})

    def make_objective(self) -> AbstractObjective:
        """The objective."""
        return Relaxed(self.temperature) if self.objective == "relaxed" else as_objective(self.objective)


@dataclass(frozen=True)
class Config:
    """A whole file."""

    task: TaskConfig
    mechanism: MechanismConfig
    training: TrainingConfig


def read_config(path: str | Path) -> Config:
    """Reads and checks a file; every error names the key."""
    try:
        content = tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise InputError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML: {error}") from error
    sections = {"task": TaskConfig, "mechanism": MechanismConfig, "training": TrainingConfig}
    for name, value in content.items():
        if name not in sections:
            raise InputError(f"unknown section {name!r} in {path}; known are {', '.join(sections)}")
        if not isinstance(value, dict):
            raise InputError(f"{name} must be a section, written [{name}]")
    made = {name: _section(name, section, content.get(name, {})) for name, section in sections.items()}
    return Config(**made)


def _section(name: str, section: type[Any], values: Mapping[str, Any]) -> Any:
    known = {each.name: each for each in fields(section)}
    for key, value in values.items():
        if key not in known:
            raise InputError(f"unknown key {name}.{key}; known are {', '.join(known)}")
        _check(f"{name}.{key}", _kind(known[key].type), value, known[key].metadata)
    for key, each in known.items():
        if each.default is MISSING and each.default_factory is MISSING and key not in values:
            raise InputError(f"{name}.{key} is missing; it must be one of {', '.join(each.metadata['choices'])}")
    return section(**values)


def _kind(annotation: Any) -> str:
    return annotation.__name__ if annotation in (str, int, float) else str(annotation)


def _check(name: str, kind: str, value: Any, limits: Mapping[str, Any]) -> None:
    wanted = next(types for start, types in _KINDS.items() if kind.startswith(start))
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise InputError(f"{name} must be {kind.replace(' | None', '')}, got {value!r}")
    if "choices" in limits and value not in limits["choices"]:
        raise InputError(f"{name} must be one of {', '.join(limits['choices'])}, got {value!r}")
    if "least" in limits and not value >= limits["least"]:
        raise InputError(f"{name} must be at least {limits['least']}, got {value}")
    if "above" in limits and not value > limits["above"]:
        raise InputError(f"{name} must be above {limits['above']}, got {value}")
    numbers: list[Any] = value if isinstance(value, list) else []
    if kind.startswith("list[float]") and not all(isinstance(each, int | float) for each in numbers):
        raise InputError(f"{name} must be a list of numbers, got {value!r}")
    if kind.startswith("list[int]") and not all(isinstance(each, int) and each > 0 for each in numbers):
        raise InputError(f"{name} must be a list of positive whole numbers, got {value!r}")
