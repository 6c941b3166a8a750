"""Tables: rows per second, peak memory at a million rows, files, and counterfactuals in DoWhy."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.measure import Row
from countermax import Rows

WORLDS = {"outcome": "outcome", "factual": "p_", "counterfactual": "q_"}
MILLION = 1_000_000


def rows() -> Iterator[Row]:
    """All measurements of this file."""
    for size, count in ((3, MILLION), (10, MILLION), (100, 50_000)):
        yield from _rows_per_second(size, count)
    yield from _peak_memory(10, MILLION)
    yield from _repeated_rows(10, MILLION)
    yield from _transitions(10, MILLION)
    yield from _files(10, 200_000)
    yield from _causes(4, 300_000)
    yield from _dowhy(2000)


def table(size: int, count: int, seed: int = 0) -> pd.DataFrame:
    """Distinct rows: probabilities in two worlds, and an outcome drawn in the first."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(size), count), rng.dirichlet(np.ones(size), count)
    columns = {f"p_{place}": p[:, place] for place in range(size)} | {
        f"q_{place}": q[:, place] for place in range(size)
    }
    return pd.DataFrame(columns | {"outcome": (p.cumsum(axis=1) > rng.random((count, 1))).argmax(axis=1)})


def _fastest(function: Callable[[], object], repeat: int = 3) -> float:
    function()  # compiles
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def _mean(function: Callable[[], object], repeat: int) -> float:
    function()  # compiles
    start = time.perf_counter()
    for _ in range(repeat):
        function()
    return (time.perf_counter() - start) / repeat


def _rows_per_second(size: int, count: int) -> Iterator[Row]:
    frame = table(size, count)
    aim = "aim: at least 100,000" if size == 10 else ""
    yield Row(
        f"exact probabilities and bounds of {count} rows, K={size}",
        count / _fastest(lambda: Rows(frame, **WORLDS).counterfactuals()),
        "rows per second",
        aim,
    )


def _causes(size: int, count: int) -> Iterator[Row]:
    frame = table(size, count)
    gain = np.subtract.outer(-np.arange(size), -np.arange(size)) - 0.2
    asked = {"factual": "p_", "counterfactual": "q_", "labels": range(size), "score": range(size)}
    yield Row(
        f"PN, PS, PNS, benefit, harm, tie, gain and decision of {count} rows, K={size}, with bounds",
        count / _fastest(lambda: Rows(frame, **asked).causes(size - 1, gain=gain)),
        "rows per second",
        "aim: at least 100,000",
    )


def _peak_memory(size: int, count: int) -> Iterator[Row]:
    """The peak memory, in a process of its own, so that nothing else is held."""
    code = f"from benchmarks.tables import measured_memory as m; print(*m({size}, {count}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after, held = (float(word) for word in done.stdout.split()[-3:])
    yield Row(
        f"peak memory of {count} rows, K={size}, above the table itself",
        after - before,
        "MiB",
        f"of which {held:.0f} MiB are the {3 * size + 2} columns of the result",
    )


def measured_memory(size: int, count: int) -> tuple[float, float, float]:
    """What is held before, the peak, and what the new columns hold, in MiB."""
    frame = table(size, count)
    Rows(frame[:100_000], **WORLDS).counterfactuals()  # compiles
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak is what is held now
    before = _status("VmRSS")
    result = Rows(frame, **WORLDS).counterfactuals()
    after = _status("VmHWM")
    new = result.drop(columns=list(frame.columns))
    return before, after, new.memory_usage(deep=True).sum() / 2**20


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def _repeated_rows(size: int, count: int) -> Iterator[Row]:
    frame = table(size, 500).iloc[np.random.default_rng(0).integers(0, 500, count)].reset_index(drop=True)
    yield Row(
        f"the same where only 500 of {count} rows differ, K={size}",
        count / _fastest(lambda: Rows(frame, **WORLDS).counterfactuals()),
        "rows per second",
    )


def _transitions(size: int, count: int) -> Iterator[Row]:
    frame = table(size, count)
    start = time.perf_counter()
    Rows(frame, **WORLDS).transitions()
    yield Row(f"transitions of {count} rows, K={size}, 1000 resamples", time.perf_counter() - start, "s", "and bounds")


def _files(size: int, count: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.csv"
        table(size, count).to_csv(source, index=False)
        for suffix in (".csv", ".parquet"):
            target = Path(folder) / f"out{suffix}"
            Rows(source, **WORLDS).write(target)
            start = time.perf_counter()
            Rows(source, **WORLDS).write(target, overwrite=True)
            spent = time.perf_counter() - start
            yield Row(f"from .csv to {suffix}, {count} rows, K={size}", count / spent, "rows per second")


def _dowhy(count: int) -> Iterator[Row]:
    import networkx as nx
    from dowhy import gcm
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    from countermax.integrations.dowhy import (
        CategoricalMechanism,
        assign_categorical_mechanisms,
        counterfactual_probabilities,
    )

    rng = np.random.default_rng(0)
    arm, age = rng.choice(["placebo", "drug"], count), rng.normal(size=count)
    logits = np.stack([0.5 * age, 0.3 + 0 * age, 0.1 + 1.1 * (arm == "drug")], axis=1)
    status = np.array(["died", "ill", "well"])[(logits + rng.gumbel(size=logits.shape)).argmax(axis=1)]
    data = pd.DataFrame({"arm": arm, "age": age, "status": status})
    gcm.config.disable_progress_bars()
    model = gcm.InvertibleStructuralCausalModel(nx.DiGraph([("arm", "status"), ("age", "status")]))
    assign_categorical_mechanisms(model, data, classifier=LogisticRegression())
    gcm.fit(model, data)
    change = {"arm": lambda _: "drug"}
    spent = _fastest(lambda: gcm.counterfactual_samples(model, change, data), 5)
    yield Row(f"DoWhy: gcm.counterfactual_samples of {count} rows, K=3", count / spent, "counterfactuals per second")
    spent = _fastest(lambda: counterfactual_probabilities(model, change, data), 5)
    yield Row(f"DoWhy: exact probabilities of {count} rows, K=3", count / spent, "rows per second")
    for rarity in (1e-4, 1e-6):
        rare = CategoricalMechanism(DummyClassifier(strategy="prior"), smoothing=2 * rarity, random_state=0)
        parents, target = np.zeros((1000, 1)), np.array(["usual"] * 999 + ["rare"])
        rare.fit(parents, target)
        rare.classifier_model.sklearn_model.class_prior_ = np.array([0.0, 1.0])  # the smoothing is all that is left
        spent = _mean(lambda rare=rare: rare.estimate_noise(np.array(["rare"] * 5), np.zeros((5, 1))), 10)
        yield Row(f"DoWhy: noise of 5 rows whose class has probability {rarity:.0e}", spent, "s", "mean of 10")
