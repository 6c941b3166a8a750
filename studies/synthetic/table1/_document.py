"""Table 1 written down: as the paper has it, with everything that was measured, and as a picture."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from countermax._core.sheet import Sheet, Value
from studies import plots
from studies.engine import GADGET_NAMES, Result
from studies.synthetic._tasks import Published, task
from studies.synthetic.table1._measuring import FLOOR, PROJECTED

_ROUNDING = 0.005  # the paper prints two decimals
_FIXED_ROWS = (
    "independent",
    "Gumbel-max",
    "inverse CDF",
    "inverse CDF by score",
    PROJECTED,
    FLOOR,
    "optimal",
)
_STARTS = {
    "random": "random",
    "gumbel-max": "Gumbel-max",
    "inverse-cdf": "inverse CDF",
    "inverse-cdf-by-score": "inverse CDF by score",
    "vector-quantile": "vector quantile",
    "barycenter": "barycenter",
}
_SAME_START = {"inverse CDF": "inverse CDF by score"}  # it is started from only where the score is the index


def cell_name(column: str, gadget: str, start: str) -> str:
    """The cell of a gadget in a column."""
    return f"{column}-{gadget}" + ("" if start == "random" else f"-from-{start}")


def _rows(column: str, stored: Mapping[str, Result]) -> Iterator[tuple[str, str, Result]]:
    """Coupling, start and result of every row of a column that is stored."""
    fixed = stored[f"{column}-fixed"]["rows"]
    for name in _FIXED_ROWS:
        if name in fixed:
            yield name, "", fixed[name]
    for gadget, shown in GADGET_NAMES.items():
        for start, origin in _STARTS.items():
            name = cell_name(column, gadget, start)
            if name in stored:
                yield shown, origin, stored[name] if task(column).is_fixed else _carried(stored[name], fixed)


def _carried(row: Result, fixed: Mapping[str, Result]) -> Result:
    """A learned coupling's value where others are known better than on the pairs that it was measured on.

    By its ratio to the optimum or by what it saves against Gumbel-max, both on the same pairs: whichever errs less.
    """
    optimum, gumbel, saved = fixed["optimal"], fixed["Gumbel-max"], row["saved_against_gumbel_max"]
    ratio = 1 + row["above"]
    ways = (
        (float(np.hypot(row["above_error"] * optimum["value"], ratio * optimum["error"])), ratio * optimum["value"]),
        (float(np.hypot(saved["error"], gumbel["error"])), gumbel["value"] - saved["mean"]),
    )
    error, value = min(ways)
    return {**row, "value": value, "error": error}


def detailed_sheet(columns: Sequence[str], stored: Mapping[str, Result]) -> Sheet:
    """A line for each coupling and start, with errors, the paper's value and whether it was reproduced."""
    lines: list[list[Value]] = []
    for column in columns:
        published = task(column).published
        for coupling, start, row in _rows(column, stored):
            line: list[Value] = [column, coupling, start]
            line += [row.get(key) for key in ("value", "error", "above", "above_error")]
            theirs = published.get(coupling)
            if theirs is None:
                lines.append([*line, None, None, None, ""])
                continue
            above = theirs.value / published["optimal"].value - 1
            lines.append([*line, theirs.value, theirs.error, above, _verdict(row, theirs)])
    columns_and_formats = {
        "column": "",
        "coupling": "",
        "start": "",
        "value": ".4f",
        "error": ".4f",
        "above the optimum": ".2%",
        "its error": ".2%",
        "published": ".2f",
        "published error": ".2f",
        "published above optimum": ".1%",
        "reproduced": "",
    }
    caption = "Table 1 with everything that was measured"
    return Sheet(caption, list(columns_and_formats), list(columns_and_formats.values()), lines)


def _verdict(row: Result, theirs: Published) -> str:
    """Whether the paper's value lies within two errors of ours; only where its settings were used."""
    if not row.get("as_published", True):
        return "other settings"
    combined = float(np.sqrt(row["error"] ** 2 + theirs.error**2 + _ROUNDING**2))
    away = (row["value"] - theirs.value) / combined
    return "yes" if abs(away) <= 2 else f"no: {abs(away):.1f} errors {'above' if away > 0 else 'below'}"


def compact_sheet(columns: Sequence[str], stored: Mapping[str, Result]) -> Sheet:
    """Couplings down, tasks across; each entry: value, its error, ratio to the optimum, and the paper's value."""
    entries: dict[str, dict[str, str]] = {}
    for column in columns:
        published = task(column).published
        for coupling, start, row in _rows(column, stored):
            name = coupling if start in ("", "random") else f"{coupling} from {_SAME_START.get(start, start)}"
            error = f" ± {row['error']:#.2g}" if row.get("error") is not None else ""
            theirs = f"; paper {published[coupling].value:.2f}" if coupling in published else ""
            entries.setdefault(name, {})[column] = f"{row['value']:#.4g}{error} ({1 + row['above']:.3f}{theirs})"
    order = [*(name for name in _FIXED_ROWS if name in entries), *(name for name in entries if name not in _FIXED_ROWS)]
    rows = [[name, *(entries[name].get(column, "") for column in columns)] for name in order]
    caption = "Value ± standard error (ratio to the optimum; the paper's value)"
    return Sheet(caption, ("coupling", *columns), ("",) * (1 + len(columns)), rows)


def picture(columns: Sequence[str], stored: Mapping[str, Result]) -> Figure:
    """Percent above the optimum; where a gadget has several starts the random one stands for it."""
    ours: dict[str, dict[str, float]] = {}
    published: dict[str, dict[str, float]] = {}
    for column in columns:
        theirs = task(column).published
        for coupling, start, row in _rows(column, stored):
            if coupling in ("optimal", FLOOR) or start not in ("", "random"):
                continue
            ours.setdefault(coupling, {})[column] = 100 * row["above"]
            if coupling in theirs:
                above = 100 * (theirs[coupling].value / theirs["optimal"].value - 1)
                published.setdefault(coupling, {})[column] = above
    order = [name for name in (*_FIXED_ROWS, *GADGET_NAMES.values()) if name in ours]
    return plots.draw_distances({name: ours[name] for name in order}, published, columns, "Percent above the optimum")
