"""How near the optimum do the gadgets come? Every task, both gadgets, from a random start and from a fixed mechanism.

Training and measuring are two steps, so that the first can run where there is an accelerator:

    python -m countermax.experiments.learning train  [--out results/learning] [--tasks independent,mirrored]
    python -m countermax.experiments.learning report [--out results/learning]
"""

import json
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import typer
from numpy.typing import NDArray

from countermax._files import writable_folder, write_atomically
from countermax.couplings import (
    AbstractCoupling,
    AbstractPart,
    BinnedInverseCDF,
    Diagonal,
    Gadget1,
    Gadget2,
    GumbelMax,
    Independent,
    InverseCDF,
    ReferenceTransport,
)
from countermax.couplings import Table as ParameterTable
from countermax.evaluation import exact_losses
from countermax.experiments.tasks import TASKS, Task, task
from countermax.optima import least_losses
from countermax.pairs import draw_pairs
from countermax.references import barycenter, implicit_floor
from countermax.storage import load, save
from countermax.training import fit_many

_HELD_OUT = 10_000
_HELD_OUT_KEY = 12_345  # no training run uses it
_NUM_DIRECTIONS = 200
_OUT = Path("results/learning")
_TRAINED = "trained.json"
_ALL_TASKS = ",".join(TASKS)


@dataclass(frozen=True)
class Cell:
    """One training: a gadget on a task, from a start."""

    task: str
    gadget: str
    start: str
    """`random`, or the fixed mechanism that training begins at."""
    steps: int
    learning_rate: float
    num_latents: int | None = None
    hidden: tuple[int, ...] = (256, 256)
    batch_size: int = 128
    rounds: int = 20
    repeats: int = 3
    """Seeds, or restarts for each score draw where the pair is fixed."""

    @property
    def name(self) -> str:
        """For files and tables."""
        return f"{self.task}-{self.gadget}-{self.start}".replace(" ", "")


CELLS = (
    Cell("independent", "Gadget 2", "random", 2400, 1e-2, num_latents=32),
    Cell("independent", "Gadget 2", "inverse CDF", 800, 3e-3, num_latents=20),
    Cell("mirrored", "Gadget 2", "random", 2400, 1e-2, num_latents=32),
    Cell("mirrored", "Gadget 2", "inverse CDF", 800, 3e-3, num_latents=20),
    Cell("monotone", "Gadget 2", "random", 1500, 1e-2, num_latents=32, hidden=(128, 128), rounds=10, repeats=4),
    Cell("monotone", "Gadget 2", "sorted inverse CDF", 1000, 3e-3, num_latents=32, hidden=(128, 128), repeats=1),
    Cell("non-monotone", "Gadget 2", "random", 1500, 1e-2, num_latents=32, hidden=(128, 128), rounds=10, repeats=4),
    Cell("non-monotone", "Gadget 2", "sorted inverse CDF", 1000, 3e-3, num_latents=32, hidden=(128, 128), repeats=1),
    Cell("independent", "Gadget 1", "random", 3000, 3e-3),
    Cell("independent", "Gadget 1", "Gumbel-max", 3000, 1e-3),
    Cell("mirrored", "Gadget 1", "random", 3000, 3e-3),
    Cell("monotone", "Gadget 1", "random", 3000, 1e-1, repeats=8),
    Cell("non-monotone", "Gadget 1", "random", 3000, 1e-1, repeats=8),
    Cell("vector", "Gadget 2", "random", 1200, 1e-2, num_latents=64, batch_size=64),
    Cell("vector", "Gadget 2", "barycenter", 800, 3e-3, num_latents=64, batch_size=64),
)


def train_cell(cell: Cell, folder: Path) -> None:
    """Trains all members of a cell at once and stores them."""
    this = task(cell.task)
    members = [(index, repeat) for index in range(len(this.scores)) for repeat in range(cell.repeats)]
    mechanisms = [_build(cell, this, index, seed) for seed, (index, _) in enumerate(members)]
    losses = this.losses
    fits = fit_many(
        mechanisms,
        this.pairs,
        losses[0] if len(losses) == 1 else [losses[index] for index, _ in members],
        key=jax.random.key(1),
        steps=cell.steps,
        learning_rate=cell.learning_rate,
        batch_size=cell.batch_size,
        label=cell.name,
    )
    for (index, repeat), each in zip(members, fits, strict=True):
        save(each.mechanism, folder / f"{cell.name}-{index}-{repeat}.npz")
    _record_training(cell, folder.parent / _TRAINED)


def report_cell(cell: Cell, folder: Path, out: Path) -> dict[str, Any]:
    """Measures the stored mechanisms of a cell, exactly and on held-out pairs."""
    this = task(cell.task)
    values, optima = [], []
    for index, loss in enumerate(this.losses):
        log_p, log_q = draw_pairs(this.pairs, _HELD_OUT, key=jax.random.key(_HELD_OUT_KEY))
        least = least_losses(loss, log_p, log_q)
        repeats = []
        for repeat in range(cell.repeats):
            mechanism = load(folder / f"{cell.name}-{index}-{repeat}.npz")
            repeats.append(_merit(this, index, mechanism, log_p, log_q))
        values.append(repeats)
        optima.append(float(least.mean()) - _squared_effect(this, index))
    table, optimum = np.asarray(values), np.asarray(optima)
    result = {
        "cell": asdict(cell),
        "seeds": {"training": 1, "held_out": _HELD_OUT_KEY},
        "versions": _versions(),
        "figure": "variance of the effect" if this.is_fixed else "mean squared difference",
        "num_held_out": 1 if this.is_fixed else _HELD_OUT,
        "optimum": optimum.tolist(),
        "values": table.tolist(),
        "published": this.published.get(cell.gadget),
        **_summary(table, optimum, this.is_fixed),
    }
    write_atomically(out / f"{cell.name}.json", json.dumps(result, indent=1) + "\n")
    return result


def _summary(table: NDArray[np.float64], optimum: NDArray[np.float64], is_fixed: bool) -> dict[str, float]:
    """Fractions above the optimum. For a fixed pair the best restart is taken: its exact loss is known in training."""
    chosen = table.min(axis=1) if is_fixed else table.mean(axis=1)
    single = table.mean(axis=1)
    by_seed = table.mean(axis=0) / optimum.mean() - 1
    return {
        "mean": float(chosen.mean()),
        "above_optimum": float(chosen.mean() / optimum.mean() - 1),
        "above_optimum_without_choosing": float(single.mean() / optimum.mean() - 1),
        "least_above_optimum_of_a_seed": float(by_seed.min()),
        "most_above_optimum_of_a_seed": float(by_seed.max()),
    }


def report_baselines(name: str, out: Path) -> dict[str, Any]:
    """The fixed mechanisms on the same held-out pairs."""
    this = task(name)
    log_p, log_q = draw_pairs(this.pairs, _HELD_OUT, key=jax.random.key(_HELD_OUT_KEY))
    rows: dict[str, list[float]] = {}
    for index, loss in enumerate(this.losses):
        fixed: dict[str, AbstractCoupling] = {
            "independent": Independent(),
            "Gumbel-max": GumbelMax(),
            "inverse CDF": InverseCDF(),
        }
        score = this.scores[index]
        if score.ndim == 1:
            fixed["inverse CDF by score"] = InverseCDF.sorted_by(score)
        for each, mechanism in fixed.items():
            rows.setdefault(each, []).append(_merit(this, index, mechanism, log_p, log_q))
        if score.ndim == 2:
            directions = np.concatenate([np.eye(3), np.random.default_rng(1).normal(size=(_NUM_DIRECTIONS, 3))])
            projected = [_merit(this, index, InverseCDF.sorted_by(score @ way), log_p, log_q) for way in directions]
            rows["best projected inverse CDF"] = [min(projected)]
            rows["floor of any mechanism (estimate)"] = [
                implicit_floor(score, this.pairs, key=jax.random.key(_HELD_OUT_KEY))
            ]
        rows.setdefault("optimum", []).append(
            float(least_losses(loss, log_p, log_q).mean()) - _squared_effect(this, index)
        )
    optimum = float(np.mean(rows["optimum"]))
    result = {
        "task": name,
        "versions": _versions(),
        "rows": {
            each: {
                "mean": float(np.mean(values)),
                "above_optimum": float(np.mean(values)) / optimum - 1,
                "published": this.published.get(each),
            }
            for each, values in rows.items()
        },
    }
    write_atomically(out / f"{name}-fixed.json", json.dumps(result, indent=1) + "\n")
    return result


def table_of(out: Path) -> str:
    """All stored results as one Markdown table; it reads and computes nothing else."""
    lines = [
        "| task | mechanism | start | figure | above the optimum | the paper's figure | above its optimum |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for name in TASKS:
        fixed = json.loads((out / f"{name}-fixed.json").read_text())["rows"]
        paper_optimum = fixed["optimum"]["published"]
        for each, row in fixed.items():
            lines.append(_line(name, each, "", row["mean"], row["above_optimum"], row["published"], paper_optimum))
        for cell in CELLS:
            if cell.task == name:
                result = json.loads((out / f"{cell.name}.json").read_text())
                above = result["above_optimum"]
                lines.append(
                    _line(name, cell.gadget, cell.start, result["mean"], above, result["published"], paper_optimum)
                )
    return "\n".join(lines) + "\n"


def _line(
    name: str,
    mechanism: str,
    start: str,
    mean: float,
    above: float,
    published: float | None,
    paper_optimum: float | None,
) -> str:
    paper = "" if published is None else f"{published:.2f}"
    paper_above = "" if published is None or not paper_optimum else f"{100 * (published / paper_optimum - 1):.1f} %"
    return f"| {name} | {mechanism} | {start} | {mean:.4f} | {100 * above:.2f} % | {paper} | {paper_above} |"


def _build(cell: Cell, this: Task, index: int, seed: int) -> AbstractCoupling:
    key = jax.random.key(1000 + seed)
    size = len(this.scores[index])
    if cell.gadget == "Gadget 1":
        if this.is_fixed:
            first, second = jax.random.split(key)
            parts = [ParameterTable(size, size, key=each) for each in (first, second)]
            return Gadget1(size, key=key, part=parts[0], other_part=parts[1])
        start = Diagonal(size) if cell.start == "Gumbel-max" else None
        return Gadget1(size, key=key, hidden=cell.hidden, start=start)
    assert cell.num_latents is not None
    start_at: AbstractPart | None = None
    if cell.start.endswith("inverse CDF"):
        line = this.scores[index] if cell.start.startswith("sorted") else np.arange(size, dtype=float)
        start_at = BinnedInverseCDF(cell.num_latents, line)
    elif cell.start == "barycenter":
        start_at = _barycenter_start(cell.num_latents, this, index)
    return Gadget2(size, cell.num_latents, key=key, hidden=cell.hidden, start=start_at, rounds=cell.rounds)


def _barycenter_start(num_latents: int, this: Task, index: int) -> ReferenceTransport:
    points = barycenter(this.scores[index], num_latents, this.pairs, key=jax.random.key(2))
    return ReferenceTransport(points.astype(np.float32), this.scores[index].astype(np.float32))


def _merit(this: Task, index: int, mechanism: AbstractCoupling, log_p: Any, log_q: Any) -> float:
    mean = float(np.asarray(exact_losses(mechanism, this.losses[index], log_p, log_q), np.float64).mean())
    return mean - _squared_effect(this, index)


def _squared_effect(this: Task, index: int) -> float:
    """The square of the mean effect, which turns a second moment into a variance; only where there is one pair."""
    if not this.is_fixed:
        return 0.0
    log_p, log_q = draw_pairs(this.pairs, 1, key=jax.random.key(0))
    p, q = (np.exp(np.asarray(each[0], np.float64)) for each in (log_p, log_q))
    score = this.scores[index]
    return float(p / p.sum() @ score - q / q.sum() @ score) ** 2


def _record_training(cell: Cell, path: Path) -> None:
    """Notes where and with what a cell was trained, which may be another machine than the one that measures it."""
    known = json.loads(path.read_text()) if path.exists() else {}
    known[cell.name] = {"device": jax.devices()[0].device_kind, "versions": _versions()}
    write_atomically(path, json.dumps(known, indent=1, sort_keys=True) + "\n")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("countermax", "jax", "equinox", "optax", "numpy", "POT"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


app = typer.Typer(add_completion=False, help="Train the gadgets on the paper's tasks, and measure how near they come.")
Out = Annotated[Path, typer.Option(help="Where results go; mechanisms go into its folder `mechanisms`.")]
Tasks = Annotated[str, typer.Option(help="Tasks, separated by commas.")]


@app.command()
def train(out: Out = _OUT, tasks: Tasks = _ALL_TASKS) -> None:
    """Train every cell that is not stored yet."""
    folder = writable_folder(out / "mechanisms")
    for cell in CELLS:
        last = folder / f"{cell.name}-{len(task(cell.task).scores) - 1}-{cell.repeats - 1}.npz"
        if cell.task in tasks.split(",") and not last.exists():
            train_cell(cell, folder)
            typer.echo(f"trained {cell.name}")


@app.command()
def report(out: Out = _OUT) -> None:
    """Measure what is stored, and write the table."""
    for name in TASKS:
        report_baselines(name, out)
    for cell in CELLS:
        result = report_cell(cell, out / "mechanisms", out)
        typer.echo(f"{cell.name}: {100 * result['above_optimum']:.2f} % above the optimum")
    write_atomically(out / "table.md", table_of(out))


if __name__ == "__main__":
    app()
