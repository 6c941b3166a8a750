"""How things are timed and written down."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from countermax._core.files import write_atomically
from countermax._core.page import Sheet


@dataclass(frozen=True)
class Row:
    """One measured fact: a ratio wherever that makes sense, since seconds depend on the machine."""

    what: str
    value: float
    unit: str
    note: str = ""


def seconds(function: Callable[..., Any], *args: Any, repeat: int = 15, least: int = 3, at_least: float = 0.2) -> float:
    """The median time of a call that is already compiled: of so many, of fewer once they have taken ten seconds."""
    jax.block_until_ready(function(*args))
    times: list[float] = []
    while len(times) < least or (len(times) < repeat and sum(times) < 10) or sum(times) < at_least:
        start = time.perf_counter()
        jax.block_until_ready(function(*args))
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def ratio(slow: Callable[[], Any], fast: Callable[[], Any], rounds: int = 9) -> float:
    """How many times longer `slow` takes: the median over interleaved rounds, so that a busy moment hits both."""
    jax.block_until_ready((slow(), fast()))
    ratios = []
    for _ in range(rounds):
        spans = []
        for function in (slow, fast):
            start = time.perf_counter()
            jax.block_until_ready(function())
            spans.append(time.perf_counter() - start)
        ratios.append(spans[0] / spans[1])
    return statistics.median(ratios)


def write(name: str, rows: list[Row], folder: Path) -> None:
    """A sheet for people and JSON for programs, with the machine and the versions."""
    about = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "device": jax.devices()[0].device_kind,
        "python": platform.python_version(),
        "versions": {package: version(package) for package in ("countermax", "jax", "jaxlib", "equinox", "numpy")},
    }
    write_atomically(
        folder / f"{name}.json", json.dumps({"about": about, "rows": [asdict(row) for row in rows]}, indent=2) + "\n"
    )
    lines = [[row.what, row.value, row.unit, row.note] for row in rows]
    sheet = Sheet(name, ("what", "value", "unit", "note"), ("", ".3g", "", ""), lines)
    heading = f"{about['date']}, {about['machine']}, JAX {about['versions']['jax']} on {about['device']}"
    write_atomically(folder / f"{name}.md", f"# {name}\n\n{heading}\n\n{sheet.markdown()}")
    print(heading)
    for row in rows:
        print(f"{row.what:<72} {row.value:>10.3g} {row.unit}  {row.note}")
