"""Tables about whole trajectories, made from the stored results."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

PUBLISHED = {
    "observed": (0.3240, (0.3097, 0.2694, 0.3510)),
    "weighted importance sampling": (0.6286, (0.6074, -0.4217, 0.9903)),
    "model-based": (0.9164, (0.8128, 0.5700, 0.9625)),
    "counterfactual": (0.9531, None),
    "true": (-0.4907, (-0.2743, -0.5850, 0.0549)),
}
"""Oberst and Sontag (2019): the figure, and mean and 95 % range over 100 repeats where the appendix has them."""


def tables(folder: Path) -> dict[str, str]:
    """Every table in Markdown, by the name of the file that it is made from."""
    stored = {path.stem: json.loads(path.read_text())["result"] for path in sorted(folder.glob("*.json"))}
    makers = {"oberst_sontag": _published, "cohort": _cohort, "learned": _learned}
    return {name: "\n".join(makers[name](result)) for name, result in stored.items()}


def _published(result: dict[str, Any]) -> Iterator[str]:
    rows = result["rows"]
    yield (
        f"| estimate | published | published, 100 repeats | here, {result['num_repeats']} repeats | "
        "published lies above | sampling error that is gone |"
    )
    yield "|---|---:|---:|---:|---:|---:|"
    for name, (figure, repeats) in PUBLISHED.items():
        values = np.array([row[name] for row in rows])
        low, high = np.quantile(values, (0.025, 0.975))
        before = "" if repeats is None else "{:.3f} ({:.3f}, {:.3f})".format(*repeats)
        errors = [row["errors that exactness removes"].get(name) for row in rows]
        gone = "" if errors[0] is None else f"{np.mean(errors):.4f}"
        yield (
            f"| {name} | {figure:.4f} | {before} | {values.mean():.3f} ({low:.3f}, {high:.3f}) | "
            f"{(values < figure).mean():.0%} of repeats | {gone} |"
        )
    low, high = (np.mean([row[end] for row in rows]) for end in ("lower", "upper"))
    yield f"| counterfactual, any mechanism | | | {low:.3f} to {high:.3f} on average | | |"


def _cohort(result: dict[str, Any]) -> Iterator[str]:
    names = list(result)
    yield "| estimate | " + " | ".join(names) + " |"
    yield "|---|" + "---:|" * len(names)
    by_name = [{each["name"]: each for each in result[name]["estimates"]} for name in names]
    wanted = dict.fromkeys(estimate for each in by_name for estimate in each)
    for estimate in wanted:
        yield f"| {estimate} | " + " | ".join(_cell(each.get(estimate)) for each in by_name) + " |"
    ends = (result[name]["bounds"] for name in names)
    yield "| any mechanism | " + " | ".join(f"{each['lower']:.3f} to {each['upper']:.3f}" for each in ends) + " |"
    yield "| **truth** | " + " | ".join(f"**{result[name]['truth']:.3f}**" for name in names) + " |"
    sizes = (result[name]["effective_sample_size"] for name in names)
    yield "| effective sample size | " + " | ".join(f"{size:.1f}" for size in sizes) + " |"


def _cell(estimate: dict[str, Any] | None) -> str:
    if estimate is None:
        return ""
    ends = "" if estimate["lower"] is None else f" ({estimate['lower']:.3f}, {estimate['upper']:.3f})"
    return f"{estimate['value']:.3f}{ends}"


def _learned(result: dict[str, Any]) -> Iterator[str]:
    yield "| mechanism | one step, above the optimum | variance within a patient | variance between patients |"
    yield "|---|---:|---:|---:|"
    for name, row in result["whole trajectories"].items():
        above = result["one step"]["rows"][name]["above_optimum"]
        within, between = row["variance within a patient"], row["variance between patients"]
        yield f"| {name} | {above:.2%} | {within:.4f} | {between:.4f} |"
