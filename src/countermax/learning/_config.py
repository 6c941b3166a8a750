"""A training described in a TOML file: checked key by key, run, and written to a folder."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from countermax import _plotting as plotting
from countermax._core.errors import InputError
from countermax._core.files import read_whole, writable_folder, write_atomically
from countermax._core.interruption import deferred_signals
from countermax._core.memory import check_memory
from countermax._core.quantities import as_seed, shown
from countermax._core.results import plain
from countermax._pairs import AbstractPairs, FixedPair, PerturbedPair, RandomPairs
from countermax._version import __version__
from countermax.couplings import AbstractCoupling, save
from countermax.couplings._named import as_couplings, named_couplings
from countermax.learning._evaluate import OPTIMUM, Evaluation, evaluate
from countermax.learning._fit import fit_many
from countermax.learning._loop import Fit, TrainingInterrupted
from countermax.learning._losses import AbstractLoss, Disagreement, MatrixLoss, SquaredDifference
from countermax.learning._recipe import Recipe, check_setting, check_settings

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
                which = f"{self.pairs!r}, which uses {', '.join(_USES[self.pairs])}"
                raise InputError(f"`{key}` says nothing where `pairs` is {which}: leave it out")
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
            self._check_length("score", "one entry", self.score)
            return np.asarray(self.score, float)
        check_memory(f"{self.size} outcomes", 8 * self.size, "lower task.num_outcomes")
        return np.arange(self.size, dtype=float)

    def _check_length(self, key: str, what: str, values: list[Any]) -> None:
        if len(values) != self.size:
            raise InputError(f"task.{key} must have {what} for each of {self.size} outcomes, got {len(values)}")

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
            self._check_length("matrix", "a row", self.matrix)
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


_RECORD = "run.json"
_EVALUATION_KEY = 99  # added to the run's seed, so that no training pair is evaluated on


@dataclass(frozen=True)
class Run:
    """What a run produced."""

    fits: list[Fit[Any]]
    evaluation: Evaluation
    written: tuple[Path, ...]


def train_run(config: Config, out: str | Path) -> Run:
    """Trains one coupling for each seed, at once, and writes everything; a second call resumes.

    Nothing but the checkpoint is written before everything is known, and `run.json` is written last: an interrupted run
    leaves nothing that looks finished.

    Raises:
        TrainingInterrupted: Ctrl-C; the folder holds a checkpoint.
        TrainingError: A loss or gradient was not finite.
    """
    repeats, recipe, scores = config.repeats, config.recipe, config.task.scores
    pairs, loss = config.task.make_pairs(), config.task.make_loss()
    seeds = range(repeats.seed, repeats.seed + repeats.seeds)
    first = recipe.build(scores, pairs, seeds[0])
    numbers = sum(leaf.size for leaf in jax.tree.leaves(first))
    check_memory(f"{repeats.seeds} trainings at once", 24 * numbers * repeats.seeds, "lower repeats.seeds")
    settings = plain(asdict(config))
    folder = writable_folder(out)
    _check_other_run(folder / _RECORD, settings)
    checkpoint = folder / "checkpoint.safetensors"
    gadgets = [first, *(recipe.build(scores, pairs, seed) for seed in seeds[1:])]
    watched = {"evaluate_every": repeats.evaluate_every, "num_held_out": repeats.held_out, "patience": repeats.patience}
    key, training = jax.random.key(repeats.seed), recipe.training(**watched)
    fits = fit_many(gadgets, pairs, loss, training, key=key, checkpoint=checkpoint)
    written: list[Path] = []
    try:
        with deferred_signals() as handle_signals:
            named = {f"seed {seed}": each for seed, each in zip(seeds, fits, strict=True)}
            evaluation = evaluate_run(config, {name: each.coupling for name, each in named.items()})
            curves = plotting.draw_curves(
                {name: (each.history.step, each.history.held_out) for name, each in named.items()},
                fits[0].optimum,
                "Held-out loss during training",
            )
            record = {"version": __version__, "config": settings, "evaluation": evaluation.to_dict()}
            record["fits"] = {name: each.to_dict() for name, each in named.items()}
            image, text = plotting.picture(curves), json.dumps(record, indent=1, allow_nan=False) + "\n"
            handle_signals()  # from here on everything is written, quickly
            for seed, each in zip(seeds, fits, strict=True):
                written.append(save(each.coupling, folder / f"coupling-{seed}.safetensors", overwrite=True))
            written += write_evaluation(evaluation, folder)
            written.append(write_atomically(folder / "curves.png", image))
            written.append(write_atomically(folder / _RECORD, text))
    except KeyboardInterrupt as stopped:
        is_written = folder / _RECORD in written
        what = "the results are written" if is_written else f"{checkpoint} holds it: run it again for the results"
        raise TrainingInterrupted(f"interrupted when the training was done; {what}", fits) from stopped
    return Run(fits, evaluation, tuple(written))


def _check_other_run(path: Path, settings: Any) -> None:
    """What a finished training left may be written again, with the same contents, but not replaced by another's."""
    if not path.exists():
        return
    try:
        known = json.loads(read_whole(path))["config"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} is not the record of a training: choose another folder, or move it away") from error
    if known != json.loads(json.dumps(settings)):
        raise InputError(f"{path} tells of a training with other settings: choose another folder, or move it away")


def evaluate_run(
    config: Config, learned: Mapping[str, AbstractCoupling] | list[Path], num_pairs: int = 1000
) -> Evaluation:
    """Learned couplings, given or in files, and the fixed ones on the same fresh pairs of a task."""
    fixed = named_couplings(score=config.task.scalar_score)
    others = as_couplings(learned, reserved=(OPTIMUM,)) if learned else {}
    taken = next((name for name in others if name in fixed), None)
    if taken is not None:
        raise InputError(f"{taken!r} is the name of a fixed coupling; give the learned one another name")
    return evaluate(
        {**fixed, **others},
        config.task.make_pairs(),
        config.task.make_loss(),
        key=jax.random.fold_in(jax.random.key(config.repeats.seed), _EVALUATION_KEY),
        num_pairs=num_pairs,
        reference="Gumbel-max",
    )


def write_evaluation(evaluation: Evaluation, folder: Path) -> list[Path]:
    """The evaluation as CSV, Markdown and a picture."""
    sheet = evaluation.sheet()
    return [
        write_atomically(folder / "evaluation.csv", sheet.csv()),
        write_atomically(folder / "evaluation.md", sheet.markdown()),
        write_atomically(folder / "losses.png", plotting.picture(evaluation.plot())),
    ]
