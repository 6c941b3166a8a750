"""Tables about whole trajectories, made from the stored results."""

from typing import Any

import numpy as np

from countermax.experiments.engine import Result, Table, Value

PUBLISHED = {
    "observed": (0.3240, (0.3097, 0.2694, 0.3510)),
    "weighted importance sampling": (0.6286, (0.6074, -0.4217, 0.9903)),
    "model-based": (0.9164, (0.8128, 0.5700, 0.9625)),
    "counterfactual": (0.9531, None),
    "true": (-0.4907, (-0.2743, -0.5850, 0.0549)),
}
"""Oberst and Sontag (2019): the figure, and mean and 95 % range over 100 repeats where the appendix has them."""


def published_table(result: Result) -> Table:
    """The published off-policy figures beside ours."""
    rows = result["rows"]
    lines: list[list[Value]] = []
    for name, (figure, repeats) in PUBLISHED.items():
        values = np.array([row[name] for row in rows])
        low, high = np.quantile(values, (0.025, 0.975))
        before = "" if repeats is None else "{:.3f} ({:.3f}, {:.3f})".format(*repeats)
        errors = [row["errors that exactness removes"].get(name) for row in rows]
        gone = "" if errors[0] is None else f"{np.mean(errors):.4f}"
        here = f"{values.mean():.3f} ({low:.3f}, {high:.3f})"
        lines.append([name, f"{figure:.4f}", before, here, f"{(values < figure).mean():.0%} of repeats", gone])
    low, high = (np.mean([row[end] for row in rows]) for end in ("lower", "upper"))
    lines.append(["counterfactual, any mechanism", "", "", f"{low:.3f} to {high:.3f} on average", "", ""])
    columns = (
        "estimate",
        "published",
        "published, 100 repeats",
        f"here, {result['num_repeats']} repeats",
        "published lies above",
        "sampling error that is gone",
    )
    return Table("Oberst and Sontag's figures, and ours: mean and 95 % range", columns, ("",) * 6, lines)


def cohort_table(result: Result) -> Table:
    """Every estimate beside the truth."""
    by_name = [{each["name"]: each for each in found["estimates"]} for found in result.values()]
    wanted = dict.fromkeys(estimate for each in by_name for estimate in each)
    lines: list[list[Value]] = [[name, *(_entry(each.get(name)) for each in by_name)] for name in wanted]
    ends = [found["bounds"] for found in result.values()]
    lines.append(
        ["any mechanism", *("" if end is None else f"{end['lower']:.3f} to {end['upper']:.3f}" for end in ends)]
    )
    lines.append(["**truth**", *(f"**{found['truth']:.3f}**" for found in result.values())])
    lines.append(["effective sample size", *(f"{found['effective_sample_size']:.1f}" for found in result.values())])
    columns = ("estimate", *result)
    return Table("What each estimate says, with its 95 % bootstrap interval", columns, ("",) * len(columns), lines)


def learned_table(result: Result) -> Table:
    """What a mechanism learned on the log's pairs leaves of the variance."""
    lines: list[list[Value]] = []
    for name, row in result["whole trajectories"].items():
        above = result["one step"]["rows"][name]["above_optimum"]
        lines.append([name, above, row["variance within a patient"], row["variance between patients"]])
    columns = ("mechanism", "one step, above the optimum", "variance within a patient", "variance between patients")
    return Table("Variance of what the other policy would have earned", columns, ("", ".2%", ".4f", ".4f"), lines)


def _entry(estimate: dict[str, Any] | None) -> str:
    if estimate is None:
        return ""
    ends = "" if estimate["lower"] is None else f" ({estimate['lower']:.3f}, {estimate['upper']:.3f})"
    return f"{estimate['value']:.3f}{ends}"
