"""A training run on disk: a configuration in, mechanisms, history, table and curves out."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from countermax import plotting
from countermax._files import writable_folder, write_atomically
from countermax._version import __version__
from countermax.comparison import standard_couplings
from countermax.config import Config
from countermax.couplings import AbstractCoupling
from countermax.evaluation import Evaluation, evaluate
from countermax.losses import SquaredDifference
from countermax.storage import load, save
from countermax.training import Fit, fit_many

_EVALUATION_KEY = 99  # added to the run's seed, so that no training pair is evaluated on


@dataclass(frozen=True)
class Run:
    """What a run produced."""

    fits: list[Fit[Any]]
    evaluation: Evaluation
    written: tuple[Path, ...]


def train_run(config: Config, out: str | Path, *, progress: bool | None = None) -> Run:
    """Trains one mechanism for each seed, at once, and writes everything; a second call resumes."""
    folder = writable_folder(out)
    training = config.training
    pairs, loss = config.task.make_pairs(), config.task.make_loss()
    fits = fit_many(
        [config.mechanism.make(config.task, training.seed + index) for index in range(training.seeds)],
        pairs,
        loss,
        key=jax.random.key(training.seed),
        steps=training.steps,
        objective=training.make_objective(),
        batch_size=training.batch_size,
        learning_rate=training.learning_rate,
        evaluate_every=training.evaluate_every,
        num_held_out=training.held_out,
        patience=training.patience,
        checkpoint=folder / "checkpoint.npz",
        progress=progress,
    )
    written = [
        save(each.mechanism, folder / f"mechanism-{training.seed + index}.npz") for index, each in enumerate(fits)
    ]
    learned = {f"seed {training.seed + index}": each.mechanism for index, each in enumerate(fits)}
    evaluation = evaluate_run(config, learned)
    record = {
        "version": __version__,
        "config": asdict(config),
        "ended": [each.ended for each in fits],
        "history": [asdict(each.history) for each in fits],
        "evaluation": evaluation.to_dict(),
    }
    curves = plotting.draw_curves(
        {
            f"seed {training.seed + index}": (each.history.step, each.history.held_out)
            for index, each in enumerate(fits)
        },
        fits[0].optimum,
        "Held-out loss during training",
    )
    written.append(write_atomically(folder / "run.json", json.dumps(record, indent=1) + "\n"))
    written += write_table(evaluation, folder)
    written.append(write_atomically(folder / "curves.png", plotting.picture(curves)))
    return Run(fits, evaluation, tuple(written))


def load_mechanisms(paths: Sequence[Path]) -> dict[str, AbstractCoupling]:
    """Stored mechanisms by the names of their files."""
    return {path.stem: load(path) for path in paths}


def evaluate_run(config: Config, learned: dict[str, AbstractCoupling], num_pairs: int = 1000) -> Evaluation:
    """Learned and fixed mechanisms on the same fresh pairs of a task."""
    loss = config.task.make_loss()
    scalar = isinstance(loss, SquaredDifference) and loss.score.shape[1] == 1
    score = np.asarray(loss.score[:, 0], np.float64) if isinstance(loss, SquaredDifference) and scalar else None
    fixed = {name: each for name, each in standard_couplings(score).items() if name != "optimal"}
    return evaluate(
        {**fixed, **learned},
        config.task.make_pairs(),
        loss,
        key=jax.random.fold_in(jax.random.key(config.training.seed), _EVALUATION_KEY),
        num_pairs=num_pairs,
        reference="Gumbel-max",
    )


def write_table(evaluation: Evaluation, folder: Path) -> list[Path]:
    """The evaluation as CSV, Markdown and a picture."""
    rows = evaluation.rows()
    columns = list(next(iter(rows.values())))

    def cells(row: dict[str, float | None], form: str) -> list[str]:
        return ["" if row[column] is None else format(row[column], form) for column in columns]

    csv = [
        ",".join(["mechanism", *columns]),
        *(",".join([f'"{name}"', *cells(row, ".9g")]) for name, row in rows.items()),
    ]
    markdown = [
        "| " + " | ".join(["mechanism", *(column.replace("_", " ") for column in columns)]) + " |",
        "|---|" + "---:|" * len(columns),
        *("| " + " | ".join([name, *cells(row, ".4g")]) + " |" for name, row in rows.items()),
    ]
    return [
        write_atomically(folder / "table.csv", "\n".join(csv) + "\n"),
        write_atomically(folder / "table.md", "\n".join(markdown) + "\n"),
        write_atomically(folder / "losses.png", plotting.picture(evaluation.plot())),
    ]
