"""Table 1 written down: as the paper has it, with everything that was measured, and as a picture."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from countermax import plotting
from countermax.experiments.engine import Result, Table, Value
from countermax.experiments.synthetic._measuring import FLOOR
from countermax.experiments.synthetic._tasks import Published, task

_ROUNDING = 0.005  # the paper prints two decimals
_FIXED_ROWS = (
    "independent",
    "Gumbel-max",
    "inverse CDF",
    "inverse CDF by score",
    "best projected inverse CDF",
    FLOOR,
    "optimal",
)
_STARTS = ("random", "Gumbel-max", "inverse CDF", "sorted inverse CDF", "barycenter")


def cell_name(column: str, gadget: str, start: str) -> str:
    """The cell of a gadget in a column."""
    origin = "" if start == "random" else f"-from-{start}"
    return f"{column}-{gadget}{origin}".replace(" ", "-").lower()


def _rows(column: str, stored: Mapping[str, Result]) -> Iterator[tuple[str, str, Result]]:
    """Mechanism, start and result of every row of a column that is stored."""
    fixed = stored[f"{column}-fixed"]["rows"]
    for name in _FIXED_ROWS:
        if name in fixed:
            yield name, "", fixed[name]
    for gadget in ("Gadget 1", "Gadget 2"):
        for start in _STARTS:
            name = cell_name(column, gadget, start)
            if name in stored:
                yield gadget, start, stored[name]


def detailed_table(columns: Sequence[str], stored: Mapping[str, Result]) -> Table:
    """A line for each mechanism and start, with errors, the paper's figure and whether it was reproduced."""
    lines: list[list[Value]] = []
    for column in columns:
        published = task(column).published
        for mechanism, start, row in _rows(column, stored):
            line: list[Value] = [column, mechanism, start]
            line += [row.get(key) for key in ("figure", "error", "above", "above_error")]
            theirs = published.get(mechanism)
            if theirs is None:
                lines.append([*line, None, None, None, ""])
                continue
            above = theirs.figure / published["optimal"].figure - 1
            lines.append([*line, theirs.figure, theirs.error, above, _verdict(row, theirs)])
    columns_and_formats = {
        "column": "",
        "mechanism": "",
        "start": "",
        "figure": ".4f",
        "error": ".4f",
        "above the optimum": ".2%",
        "its error": ".2%",
        "published": ".2f",
        "published error": ".2f",
        "published above optimum": ".1%",
        "reproduced": "",
    }
    caption = "Table 1 with everything that was measured"
    return Table(caption, list(columns_and_formats), list(columns_and_formats.values()), lines)


def _verdict(row: Result, theirs: Published) -> str:
    """Whether the paper's figure lies within two errors of ours; only where its settings were used."""
    if not row.get("as_published", True):
        return "other settings"
    combined = float(np.sqrt(row["error"] ** 2 + theirs.error**2 + _ROUNDING**2))
    away = (row["figure"] - theirs.figure) / combined
    return "yes" if abs(away) <= 2 else f"no: {abs(away):.1f} errors {'above' if away > 0 else 'below'}"


def compact_table(columns: Sequence[str], stored: Mapping[str, Result]) -> Table:
    """Mechanisms down, tasks across; each entry: figure, its error, ratio to the optimum, and the paper's figure."""
    entries: dict[str, dict[str, str]] = {}
    for column in columns:
        published = task(column).published
        for mechanism, start, row in _rows(column, stored):
            name = mechanism if start in ("", "random") else f"{mechanism} from {_short(start)}"
            error = f" ± {row['error']:#.2g}" if row.get("error") is not None else ""
            theirs = f"; paper {published[mechanism].figure:.2f}" if mechanism in published else ""
            entries.setdefault(name, {})[column] = f"{row['figure']:#.3g}{error} ({1 + row['above']:.3f}{theirs})"
    order = [*(name for name in _FIXED_ROWS if name in entries), *(name for name in entries if name not in _FIXED_ROWS)]
    rows = [[name, *(entries[name].get(column, "") for column in columns)] for name in order]
    caption = "Figure ± standard error (ratio to the optimum; the paper's figure)"
    return Table(caption, ("mechanism", *columns), ("",) * (1 + len(columns)), rows)


def _short(start: str) -> str:
    return "inverse CDF" if start.endswith("inverse CDF") else start


def picture(columns: Sequence[str], stored: Mapping[str, Result]) -> Figure:
    """Percent above the optimum; where a gadget has several starts the random one stands for it."""
    ours: dict[str, dict[str, float]] = {}
    published: dict[str, dict[str, float]] = {}
    for column in columns:
        theirs = task(column).published
        for mechanism, start, row in _rows(column, stored):
            if mechanism in ("optimal", FLOOR) or start not in ("", "random"):
                continue
            ours.setdefault(mechanism, {})[column] = 100 * row["above"]
            if mechanism in theirs:
                above = 100 * (theirs[mechanism].figure / theirs["optimal"].figure - 1)
                published.setdefault(mechanism, {})[column] = above
    order = [name for name in (*_FIXED_ROWS, "Gadget 1", "Gadget 2") if name in ours]
    return plotting.draw_distances(
        {name: ours[name] for name in order}, published, columns, "Percent above the optimum"
    )
