"""A training on disk: a configuration in; couplings, history, evaluation and curves out."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax

from countermax import _plotting as plotting
from countermax._core.errors import InputError
from countermax._core.files import writable_folder, write_atomically
from countermax._core.memory import check_memory
from countermax._core.reading import read_whole
from countermax._core.results import plain
from countermax._core.signals import deferred_signals
from countermax._version import __version__
from countermax.couplings import AbstractCoupling, save
from countermax.couplings._named import as_couplings, named_couplings
from countermax.learning._config import Config
from countermax.learning._evaluate import OPTIMUM, Evaluation, evaluate
from countermax.learning._fit import fit_many
from countermax.learning._history import Fit, TrainingInterrupted

_RECORD = "run.json"
_EVALUATION_KEY = 99  # added to the run's seed, so that no training pair is evaluated on


@dataclass(frozen=True)
class Run:
    """What a run produced."""

    fits: list[Fit[Any]]
    evaluation: Evaluation
    written: tuple[Path, ...]


def train_run(config: Config, out: str | Path, *, progress: bool | None = None) -> Run:
    """Trains one coupling for each seed, at once, and writes everything; a second call resumes.

    Nothing but the checkpoint is written before everything is known, and `run.json` is written last: an interrupted run
    leaves nothing that looks finished.

    Args:
        config: Configuration of the run: task, recipe and repeats.
        out: The folder.
        progress: Whether to show a progress bar; by default if the output is a terminal.

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
    checkpoint = folder / "checkpoint.npz"
    fits = fit_many(
        [first, *(recipe.build(scores, pairs, seed) for seed in seeds[1:])],
        pairs,
        loss,
        key=jax.random.key(repeats.seed),
        evaluate_every=repeats.evaluate_every,
        num_held_out=repeats.held_out,
        patience=repeats.patience,
        checkpoint=checkpoint,
        progress=progress,
        **recipe.fit_options(),
    )
    written: list[Path] = []
    try:
        with deferred_signals() as handle_signals:
            named = {f"seed {seed}": each for seed, each in zip(seeds, fits, strict=True)}
            evaluation = evaluate_run(config, {name: each.coupling for name, each in named.items()})
            curves, record = _curves(named), _record(settings, named, evaluation)
            handle_signals()  # from here on everything is written, quickly
            for seed, each in zip(seeds, fits, strict=True):
                written.append(save(each.coupling, folder / f"coupling-{seed}.npz"))
            written += write_evaluation(evaluation, folder)
            written.append(write_atomically(folder / "curves.png", curves))
            written.append(write_atomically(folder / _RECORD, record))
    except KeyboardInterrupt as stopped:
        is_written = folder / _RECORD in written
        what = "the results are written" if is_written else f"{checkpoint} holds it: run it again for the results"
        raise TrainingInterrupted(f"interrupted when the training was done; {what}", fits) from stopped
    return Run(fits, evaluation, tuple(written))


def _curves(fits: Mapping[str, Fit[Any]]) -> bytes:
    figure = plotting.draw_curves(
        {name: (each.history.step, each.history.held_out) for name, each in fits.items()},
        next(iter(fits.values())).optimum,
        "Held-out loss during training",
    )
    return plotting.picture(figure)


def _record(settings: Any, fits: Mapping[str, Fit[Any]], evaluation: Evaluation) -> str:
    record = {
        "version": __version__,
        "config": settings,
        "fits": {name: each.to_dict() for name, each in fits.items()},
        "evaluation": evaluation.to_dict(),
    }
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


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
