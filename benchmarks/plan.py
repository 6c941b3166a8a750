"""A plan for 10 billion rows on 1,000 cores: arithmetic on what `python -m benchmarks ray` measured.

python -m benchmarks.plan     # writes it into docs/ray_measured.md
"""

import json
from math import ceil
from pathlib import Path

from countermax._core.files import write_atomically
from countermax.tables._parquet import PART_BYTES

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "ray_measured.md"
BEGIN, END = "<!-- plan: made by python -m benchmarks.plan -->", "<!-- end of the plan -->"
ROWS, CORES = 10_000_000_000, 1000
PART_ROWS = PART_BYTES // 64  # of eight columns

NAMES = {
    "local": "one process on one core, from Parquet to Parquet, K=4",
    "ray": "Ray on all cores, from Parquet to Parquet, K=4",
    "cores": "cores",
    "share": "Ray against one process, for each core",
    "peak": "peak memory of all processes",
    "read": "a row as it comes",
    "written": "a row as it goes",
    "start": "start of Ray and of its workers, compilation included",
    "transitions": "transitions with 1000 resamples, Ray on all cores",
    "sent": "what a part of the transitions sends",
    "one": "a classifier, one worker",
    "two": "two workers against one",
}
"""What is measured, by what the plan calls it."""


def plan(results: dict) -> str:
    """The plan as a table.

    Args:
        results: Stored measurements.
    """
    measured = {row["what"]: row["value"] for row in results["rows"]}
    found = {key: measured[name] for key, name in NAMES.items()}
    cores = found["cores"]
    speed, counting = found["ray"] / cores, found["transitions"] / cores
    parts, part_time = ceil(ROWS / PART_ROWS), PART_ROWS / speed
    wall = ceil(parts / CORES) * part_time
    read, written = ROWS * found["read"], ROWS * found["written"]
    lines = [
        ("rows per second and core", f"{speed:,.0f}", f"measured: {found['ray']:,.0f} on {cores:.0f} cores"),
        ("work", f"{ROWS / speed / 3600:,.0f} core-hours", "rows / speed"),
        (f"parts of {PART_ROWS:,} rows", f"{parts:,}", "row groups that one task reads, answers and writes"),
        ("time of a part; lost when a worker dies", f"{part_time:.1f} s", "rows of a part / speed"),
        ("time on 1,000 cores", f"{wall:.0f} s", f"{ceil(parts / CORES)} rounds of parts; no waiting for storage"),
        ("read", f"{read / 1e9:,.0f} GB", f"measured: {found['read']:.0f} bytes per row"),
        ("written", f"{written / 1e9:,.0f} GB", f"measured: {found['written']:.0f} bytes per row"),
        ("what storage must give", f"{(read + written) / wall / 1e9:.1f} GB/s", "(read + written) / time"),
        (
            "memory of a worker, at most",
            f"{found['peak'] / cores:.1f} GiB",
            "measured: peak of all processes / cores; does not grow with rows",
        ),
        ("shuffled", "nothing", "each task writes what it read"),
        (
            "transitions with 1,000 resamples",
            f"{ROWS / counting / CORES:,.0f} s",
            f"measured: {found['transitions']:,.0f} rows per second on {cores:.0f} cores",
        ),
        (
            "what their parts send to workers that merge sixteen of them",
            f"{parts * found['sent'] / 2**20:.1f} GiB in all",
            f"measured: {found['sent']:.0f} KiB a part: counts, and its ragged ends; the driver gets about a sixteenth",
        ),
    ]
    return "\n".join(
        ["| projection | value | from |", "|---|---:|---|", *(f"| {' | '.join(line)} |" for line in lines)]
    )


def written_into(document: str, table: str) -> str:
    """The document with the plan in its place."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


if __name__ == "__main__":
    results = json.loads((ROOT / "benchmarks/results/ray.json").read_text())
    write_atomically(DOCUMENT, written_into(DOCUMENT.read_text(), plan(results)))
