"""Outcomes with a hierarchy: rows, switching tables, and frozen error terms of the same accuracy."""

import json
import subprocess
import sys
from collections.abc import Iterator
from os import environ
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import jax
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import chisquare

from benchmarks.measure import Row, seconds
from countermax import GumbelMax, NestedGumbelMax, Rows, SwitchingTable, Utilities, fit
from countermax._kernel import row_probabilities
from countermax._pairs import draw_pairs
from countermax.learning import RandomPairs, SquaredDifference, Training
from countermax.learning._losses import expected_losses, least_losses


def rows() -> Iterator[Row]:
    """All measurements of this file."""
    yield from _bulk(200_000, 10, 3)
    yield from _one_row(131_072, 400)
    yield from _choosers(1_000_000, 20)
    yield from _frozen()
    yield from _activitysim()
    yield from _learned()


def _model(size: int, num_nests: int, seed: int = 0) -> NestedGumbelMax:
    """Nests of equal sizes; the last outcomes stand alone."""
    each = size // (num_nests + 1) if num_nests < size // 4 else size // num_nests
    held = {str(nest): range(nest * each, (nest + 1) * each) for nest in range(num_nests)}
    return NestedGumbelMax(held, np.random.default_rng(seed).uniform(0.3, 0.9, num_nests), labels=size)


def _table(base: NDArray[np.float64], scenario: NDArray[np.float64], model: NestedGumbelMax) -> SwitchingTable:
    frame = pd.DataFrame({"chooser": np.arange(len(base))})
    labels = range(base.shape[1])
    return Rows(frame, factual=base, counterfactual=scenario, labels=labels, utilities=Utilities(model)).switching()


def _log_probs(count: int, size: int, seed: int) -> NDArray[np.float64]:
    logits = 1.5 * np.random.default_rng(seed).normal(size=(count, size))
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def _bulk(count: int, size: int, num_nests: int) -> Iterator[Row]:
    log_p, log_q = _log_probs(count, size, 0), _log_probs(count, size, 1)
    x, model = log_p.argmax(axis=1), _model(size, num_nests)
    taken = seconds(lambda: row_probabilities(model, log_p, log_q, x))
    yield Row(f"rows of {size} outcomes in {num_nests} nests, compiled loops", count / taken, "rows a second", "")
    wrong = np.abs(row_probabilities(model, log_p, log_q, x).sum(axis=1) - 1).max()
    yield Row("the sum of such a row is off by at most", float(wrong), "", "")


def _one_row(size: int, num_nests: int) -> Iterator[Row]:
    log_p, log_q = _log_probs(1, size, 0)[0], _log_probs(1, size, 1)[0]
    model, x = _model(size, num_nests), int(log_p.argmax())
    for name, wanted in (("single", np.float32), ("double", np.float64)):
        with jax.enable_x64(wanted is np.float64):
            p, q = (jax.numpy.asarray(each, wanted) for each in (log_p, log_q))
            taken = seconds(lambda p=p, q=q: model.counterfactual_probs(p, q, x))
        yield Row(f"one row of {size:,} outcomes in {num_nests} nests, {name} precision", taken, "s", "JAX")


def _choosers(count: int, size: int) -> Iterator[Row]:
    """By the command, from a Parquet file to another."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(count, size))
    scenario = base + 0.5 * rng.normal(size=size)
    told = [f"{world}_{place}" for world in ("base", "scenario") for place in range(size)]
    nests = "[0|1|2|3|4|5][6|7|[8|9|10]|[11|12|13]][14|15|16]"
    with TemporaryDirectory() as folder:
        pd.DataFrame(np.hstack([base, scenario]), columns=told).to_parquet(f"{folder}/choosers.parquet")
        columns = ["--factual", "base_", "--counterfactual", "scenario_", "--coupling", f"nested-gumbel-max-0.6{nests}"]
        command = ["switching", f"{folder}/choosers.parquet", *columns, "-o", f"{folder}/out.parquet"]
        start = perf_counter()
        subprocess.run([Path(sys.executable).with_name("countermax"), *command], check=True, capture_output=True)
        taken = perf_counter() - start
    what = f"countermax switching, {count:,} choosers and {size} alternatives, Parquet in and out"
    yield Row(what, taken, "s", "three levels")


def _frozen() -> Iterator[Row]:
    """One chooser, 20 alternatives: the error terms of the nested logit drawn and kept, as ActivitySim's formula says.

    Errors of leaves are a Gumbel and a shift for each nest, the logarithm of a positive stable number; both in NumPy.
    """
    size, num_nests, drawn = 20, 5, 2**20
    model, rng = _model(size, num_nests), np.random.default_rng(0)
    base, scenario = rng.normal(size=(2, size))
    home, index = np.asarray(model.home), np.append(1.0, np.asarray(model.dissimilarity, np.float64))
    start = process_time()
    errors = rng.gumbel(size=(drawn, size)) * index[home]
    for nest in range(1, num_nests + 1):
        angle, wait, t = rng.uniform(0, np.pi, drawn), rng.exponential(size=drawn), index[nest]
        stable = np.sin(t * angle) / np.sin(angle) ** (1 / t) * (np.sin((1 - t) * angle) / wait) ** ((1 - t) / t)
        errors[:, home == nest] += (t * np.log(stable))[:, None]
    cells = (base + errors).argmax(axis=1) * size + (scenario + errors).argmax(axis=1)
    counts = np.bincount(cells, minlength=size * size).reshape(size, size)
    yield from _against_draws("frozen error terms in NumPy", counts, process_time() - start, model, base, scenario)


def _activitysim() -> Iterator[Row]:
    """The same by ActivitySim's own routine, in the Python that ACTIVITYSIM_PYTHON names, if it does."""
    if "ACTIVITYSIM_PYTHON" not in environ:
        return
    size, copies, repeats = 20, 2**17, 8
    rng, names = np.random.default_rng(1), [f"mode {place}" for place in range(20)]
    base, scenario = rng.normal(size=(2, size))
    nests = [
        {"name": "auto", "coefficient": 0.7, "alternatives": names[:6]},
        {
            "name": "public",
            "coefficient": 0.6,
            "alternatives": [*names[6:9], {"name": "rail", "coefficient": 0.5, "alternatives": names[9:14]}],
        },
    ]
    tree = {"name": "root", "coefficient": 1.0, "alternatives": [*names[14:], *nests]}
    question = {"names": names, "base": base.tolist(), "scenario": scenario.tolist(), "nests": tree}
    with TemporaryDirectory() as folder:
        file = Path(folder) / "question.json"
        file.write_text(json.dumps({**question, "copies": copies, "repeats": repeats}))
        script = Path(__file__).with_name("activitysim_draws.py")
        done = subprocess.run([environ["ACTIVITYSIM_PYTHON"], script, file], capture_output=True, check=True, text=True)
    found, model = json.loads(done.stdout), NestedGumbelMax(tree, labels=names)
    name = f"frozen error terms by ActivitySim {found['version']}"
    yield from _against_draws(name, np.array(found["counts"]), found["seconds"], model, base, scenario)


def _against_draws(
    name: str,
    counts: NDArray[np.integer],
    taken: float,
    model: NestedGumbelMax,
    base: NDArray[np.float64],
    scenario: NDArray[np.float64],
) -> Iterator[Row]:
    """Whether draws of one chooser, which took so many seconds of CPU time, agree with the exact table; and its own."""
    drawn, many = int(counts.sum()), 2000
    exact = _table(base[None], scenario[None], model).counts
    repeated = np.tile(base, (many, 1)), np.tile(scenario, (many, 1))
    _table(*repeated, model)
    start = process_time()
    for _ in range(10):
        _table(*repeated, model)
    per_table = (process_time() - start) / (10 * many)
    often = exact * drawn >= 5
    seen = np.append(counts[often], counts[~often].sum())
    told = np.append(exact[often], 1 - exact[often].sum()) * drawn
    error = float(np.sqrt(np.mean((counts / drawn - exact) ** 2)))
    alternatives = f"{drawn:,} draws of one chooser with {len(base)} alternatives"
    yield Row(f"{name}, {alternatives}", taken, "s", "CPU time")
    yield Row("their root mean squared error in a cell", error, "", f"a mean cell has {1 / counts.size:g}")
    yield Row("draws in cells where the exact table has nobody", int(counts[exact == 0].sum()), "", "")
    yield Row("p-value of the chi-square test of both tables", float(chisquare(seen, told).pvalue), "", "")
    yield Row("the exact table of such a chooser, in bulk", per_table * 1e6, "microseconds", "CPU time")
    for wanted in (1e-3, 1e-4):
        work = taken * (error / wanted) ** 2 / per_table
        yield Row(f"draws with an error of {wanted:g} would take", work, "times as long", "by 1/sqrt(draws)")


def _learned() -> Iterator[Row]:
    """Dissimilarities trained on one score of ten outcomes, p and q drawn alike; any order would be optimal here."""
    score, pairs = np.arange(10.0), RandomPairs(10)
    tree = {"low": [{"least": [0, 1]}, {"less": [2, 3, 4]}], "high": [{"more": [5, 6, 7]}, {"most": [8, 9]}]}
    loss, key = SquaredDifference(score), jax.random.key(0)
    start = NestedGumbelMax(tree, 0.7, labels=10)
    training = Training(steps=100, batch_size=32, learning_rate=0.03)
    found = fit(start, pairs, loss, training, key=key).coupling
    log_p, log_q = draw_pairs(pairs, 512, key=jax.random.key(1))
    least = float(np.mean(least_losses(loss, log_p, log_q)))
    for name, each in (("Gumbel-max", GumbelMax()), ("dissimilarity 0.7", start), ("trained", found)):
        above = float(np.mean(expected_losses(each, loss, log_p, log_q))) / least - 1
        yield Row(
            f"one score, ten outcomes, four nests within two: {name} is above the optimum by", 100 * above, "%", ""
        )
