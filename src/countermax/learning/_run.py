"""A training on disk: a configuration in; couplings, history, evaluation and curves out."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax

from countermax import plotting
from countermax._core.files import writable_folder, write_atomically
from countermax._version import __version__
from countermax.couplings import AbstractCoupling, as_couplings, named_couplings, save
from countermax.learning._config import Config
from countermax.learning._evaluate import Evaluation, evaluate
from countermax.learning._fit import fit_many
from countermax.learning._history import Fit

_EVALUATION_KEY = 99  # added to the run's seed, so that no training pair is evaluated on


@dataclass(frozen=True)
class Run:
    """What a run produced."""

    fits: list[Fit[Any]]
    evaluation: Evaluation
    written: tuple[Path, ...]


def train_run(config: Config, out: str | Path, *, progress: bool | None = None) -> Run:
    """Trains one coupling for each seed, at once, and writes everything; a second call resumes."""
    folder = writable_folder(out)
    repeats, recipe = config.repeats, config.recipe
    pairs, loss = config.task.make_pairs(), config.task.make_loss()
    seeds = range(repeats.seed, repeats.seed + repeats.seeds)
    fits = fit_many(
        [recipe.build(config.task.scores, pairs, seed) for seed in seeds],
        pairs,
        loss,
        key=jax.random.key(repeats.seed),
        evaluate_every=repeats.evaluate_every,
        num_held_out=repeats.held_out,
        patience=repeats.patience,
        checkpoint=folder / "checkpoint.npz",
        progress=progress,
        **recipe.fit_options(),
    )
    named = {f"seed {seed}": each for seed, each in zip(seeds, fits, strict=True)}
    written = [save(each.coupling, folder / f"coupling-{seed}.npz") for seed, each in zip(seeds, fits, strict=True)]
    evaluation = evaluate_run(config, {name: each.coupling for name, each in named.items()})
    record = {
        "version": __version__,
        "config": asdict(config),
        "fits": {name: each.to_dict() for name, each in named.items()},
        "evaluation": evaluation.to_dict(),
    }
    curves = plotting.draw_curves(
        {name: (each.history.step, each.history.held_out) for name, each in named.items()},
        fits[0].optimum,
        "Held-out loss during training",
    )
    written.append(write_atomically(folder / "run.json", json.dumps(record, indent=1) + "\n"))
    written += write_evaluation(evaluation, folder)
    written.append(write_atomically(folder / "curves.png", plotting.picture(curves)))
    return Run(fits, evaluation, tuple(written))


def evaluate_run(
    config: Config, learned: Mapping[str, AbstractCoupling] | list[Path], num_pairs: int = 1000
) -> Evaluation:
    """Learned couplings, given or in files, and the fixed ones on the same fresh pairs of a task."""
    fixed = named_couplings(score=config.task.scalar_score)
    fixed.pop("optimal", None)  # every evaluation has the optimum
    return evaluate(
        {**fixed, **(as_couplings(learned) if learned else {})},
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
