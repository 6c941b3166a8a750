"""Sheets about whole trajectories, made from the stored results."""

from typing import Any

import numpy as np

from countermax._core.sheet import Sheet, Value
from countermax.intervals import percentile_interval
from studies.engine import Result

PUBLISHED = {
    "observed": (0.3240, (0.3097, 0.2694, 0.3510)),
    "weighted importance sampling": (0.6286, (0.6074, -0.4217, 0.9903)),
    "model-based": (0.9164, (0.8128, 0.5700, 0.9625)),
    "counterfactual": (0.9531, None),
    "true": (-0.4907, (-0.2743, -0.5850, 0.0549)),
}
"""Oberst and Sontag (2019): the value, and mean and 95 % range over 100 repeats where the appendix has them."""

_LEVEL = 0.95


def published_sheet(result: Result) -> Sheet:
    """The published off-policy values beside ours."""
    rows = result["rows"]
    lines: list[list[Value]] = []
    for name, (value, repeats) in PUBLISHED.items():
        values = np.array([row[name] for row in rows])
        before = "" if repeats is None else "{:.3f} ({:.3f}, {:.3f})".format(*repeats)
        errors = [row["errors that exactness removes"].get(name) for row in rows]
        gone = "" if errors[0] is None else f"{np.mean(errors):.4f}"
        span = percentile_interval(values, _LEVEL)
        assert span is not None
        here = f"{values.mean():.3f} ({span.lower:.3f}, {span.upper:.3f})"
        lines.append([name, f"{value:.4f}", before, here, f"{(values < value).mean():.0%} of repeats", gone])
    lower, upper = (np.mean([row[limit] for row in rows]) for limit in ("lower", "upper"))
    lines.append(["counterfactual, any coupling", "", "", f"{lower:.3f} to {upper:.3f} on average", "", ""])
    columns = (
        "estimate",
        "published",
        "published, 100 repeats",
        f"here, {result['num_repeats']} repeats",
        "published lies above",
        "sampling error that is gone",
    )
    return Sheet("Oberst and Sontag's values, and ours: mean and 95 % range", columns, ("",) * 6, lines)


def cohort_sheet(result: Result) -> Sheet:
    """Every estimate beside the truth."""
    by_name = [{each["name"]: each for each in found["estimates"]} for found in result.values()]
    wanted = dict.fromkeys(estimate for each in by_name for estimate in each)
    lines: list[list[Value]] = [[name, *(_entry(each.get(name)) for each in by_name)] for name in wanted]
    bounds = [found["bounds"] for found in result.values()]
    lines.append(["any coupling", *(f"{each['lower']:.3f} to {each['upper']:.3f}" for each in bounds)])
    lines.append(["**truth**", *(f"**{found['truth']:.3f}**" for found in result.values())])
    lines.append(["effective sample size", *(f"{found['effective_sample_size']:.1f}" for found in result.values())])
    columns = ("estimate", *result)
    return Sheet("What each estimate says, with its 95 % bootstrap interval", columns, ("",) * len(columns), lines)


def learned_sheet(result: Result) -> Sheet:
    """What a coupling learned on the log's pairs leaves of the variance."""
    lines: list[list[Value]] = []
    for name, row in result["whole trajectories"].items():
        above = result["one step"]["rows"][name]["above_optimum"]
        lines.append([name, above, row["variance within a patient"], row["variance between patients"]])
    columns = ("coupling", "one step, above the optimum", "variance within a patient", "variance between patients")
    return Sheet("Variance of what the other policy would have earned", columns, ("", ".2%", ".4f", ".4f"), lines)


def _entry(estimate: dict[str, Any] | None) -> str:
    if estimate is None:
        return ""
    interval = estimate["interval"]
    return f"{estimate['value']:.3f}" + ("" if interval is None else " ({lower:.3f}, {upper:.3f})".format(**interval))
