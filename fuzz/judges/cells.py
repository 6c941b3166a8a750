"""Tables that commands write, cell by cell."""

import math
from collections.abc import Sequence
from typing import Any

from fuzz.judges.common import Line, first, off
from fuzz.second.laws import Law, moved, outcome_bounds, outside_bounds, score_bounds, wrong_row
from fuzz.second.programs import TOLERANCE, stable_bounds
from fuzz.second.questions import Question, Table, kind_of, same
from fuzz.second.reading import MustRefuseError, Sheet, Token, UnsureError, number


def new_columns(line: Line, table: Table, scored: bool, bounds: str) -> list[str]:
    """Names of the columns that answers come in."""
    prefix = line.option("--prefix", "counterfactual_") or ""
    sides = [] if bounds == "none" else ["_lower", "_upper"]
    new = [f"{prefix}{label}" for label in table.labels] + [f"{prefix}most_likely"]
    new += [f"{prefix}score{side}" for side in ("", *sides)] if scored else []
    new += [f"{prefix}{label}{side}" for label in table.labels for side in sides]
    new += [f"{prefix}coupling_matters"]
    return new + ([f"{prefix}problem"] if line.option("--errors") == "missing" else [])


def in_order(made: Sheet, columns: list[str]) -> Sheet:
    """The same cells by the order of these columns, where a format has none: names of an object in JSON."""
    if made.kind != "jsonl" or sorted(made.columns) != sorted(columns):
        return made
    places = [made.columns.index(name) for name in columns]
    return Sheet(made.kind, columns, [[row[place] for place in places] for row in made.rows])


def wrong_sheet(made: Sheet, sheet: Sheet, table: Table, new: list[str]) -> str:
    """Whether what was passed through came through as it was."""
    if made.columns != sheet.columns + new:
        return f"columns {made.columns}, {sheet.columns + new} expected"
    if len(made.rows) != len(sheet.rows):
        return f"{len(made.rows)} rows, {len(sheet.rows)} expected"
    for place, name in enumerate(sheet.columns):
        for row, (before, after) in enumerate(zip(sheet.rows, made.rows, strict=True)):
            if name in table.read:
                try:
                    if number(before[place]) == number(after[place]):
                        continue
                except (MustRefuseError, UnsureError):
                    continue
            if not _passed(before[place], after[place], sheet.kind, made.kind):
                return f"row {row}: {name!r} was {before[place]!r} and is {after[place]!r}"
    return ""


def _passed(before: Any, after: Any, kind: str, made: str) -> bool:
    """Whether a cell that nobody had to read is what it was."""
    if kind == made:
        return before == after or (before != before and after != after)
    if isinstance(before, list | dict) or isinstance(after, list | dict):
        return True  # formats differ in how they nest
    if made == "csv" and (before == "" or before != before):
        return True  # an empty cell is all there is
    if kind == "parquet":
        text = after.text if isinstance(after, Token) else after
        if isinstance(before, bool):
            return str(text).lower() == str(before).lower()
        if isinstance(before, int | float) and not isinstance(text, int | float):
            try:
                return text is None and before is None or float(str(text)) == float(before)
            except ValueError:
                return False
        return before == text or str(before) == str(text) or not isinstance(before, str)
    return _text(before) == _text(after)


def _text(cell: Any) -> str | None:
    if cell is None:
        return None
    if isinstance(cell, bool):
        return str(cell).lower()
    return cell.text if isinstance(cell, Token) else str(cell)


def wrong_rows(
    made: Sheet,
    sheet: Sheet,
    table: Table,
    law: Law | None,
    score: list[float] | None,
    line: Line,
    bounds: str,
    tolerance: float,
) -> str:
    """What is wrong with the answers."""
    start = len(sheet.columns)
    names = new_columns(line, table, score is not None, bounds)
    kind = kind_of(sheet, sheet.column(line.needed("--outcome")))
    for row, (question, cells) in enumerate(zip(table.questions, made.rows, strict=True)):
        new = dict(zip(names, cells[start:], strict=True))
        if question is None:
            problem = new.pop(names[-1])
            full = next((name for name, cell in new.items() if cell is not None and cell == cell), None)
            if full is not None or not problem:
                return f"row {row} has no answer, but {full!r} holds {new.get(full or '')!r}, problem {problem!r}"
            continue
        wrong = _wrong_row(new, question, table.labels, law, score, line, bounds, tolerance, kind)
        if wrong:
            return f"row {row}: {wrong}"
    return ""


def _wrong_row(
    new: dict[str, Any],
    question: Question,
    labels: list[str],
    law: Law | None,
    score: list[float] | None,
    line: Line,
    bounds: str,
    tolerance: float,
    kind: str,
) -> str:
    prefix = line.option("--prefix", "counterfactual_") or ""
    x, p, q = question.x, question.p, question.q
    found = [number(new[f"{prefix}{label}"]) for label in labels]
    if any(each is None for each in found):
        return f"no answer: {found}"
    row = [each for each in found if each is not None]
    wrong = outside_bounds(p, q, x, row, 1e-6) if law is None else wrong_row(law, p, q, x, row)
    likeliest = new[f"{prefix}most_likely"]
    value = likeliest.text if isinstance(likeliest, Token) else likeliest
    if kind == "number" and isinstance(value, str):
        value = float(value)
    if kind == "boolean" and isinstance(value, str):
        value = value.lower() == "true"
    chosen = next((place for place, label in enumerate(labels) if same(label, kind) == value), None)
    if not wrong and (chosen is None or row[chosen] < max(row) - 1e-9):
        wrong = f"most likely is {likeliest!r} of {dict(zip(labels, row, strict=True))}"
    exact = outcome_bounds(p, q, x)
    if score is not None and not wrong:
        scale = max(1.0, *map(abs, score))
        mean = math.fsum(a * b for a, b in zip(row, score, strict=True))
        wrong = off("score", number(new[f"{prefix}score"]), mean, 1e-9 * scale)
        if bounds == "any":
            limits = score_bounds(p, q, x, score)
            wrong = wrong or first(
                off("lower score", number(new[f"{prefix}score_lower"]), limits[0], 1e-9 * scale),
                off("upper score", number(new[f"{prefix}score_upper"]), limits[1], 1e-9 * scale),
            )
    stable = stable_bounds(p, q, x) if bounds == "stable" else None
    if bounds != "none" and not wrong:
        for place, label in enumerate(labels):
            least, most = (number(new[f"{prefix}{label}{side}"]) for side in ("_lower", "_upper"))
            low, high = exact[place]
            if bounds == "any":
                wrong = wrong or first(off(f"{label}_lower", least, low), off(f"{label}_upper", most, high))
            elif least is None or most is None or not float(low) - 1e-8 <= least <= most + 1e-8 <= float(high) + 2e-8:
                wrong = wrong or f"stable bounds of {label} are {least} to {most}"
            elif stable is not None:
                wrong = wrong or first(
                    off(f"{label}_lower", least, stable[place][0], TOLERANCE),
                    off(f"{label}_upper", most, stable[place][1], TOLERANCE),
                )
    slack = max(float(high - low) for low, high in exact)
    flag = new[f"{prefix}coupling_matters"]
    said = str(flag.text if isinstance(flag, Token) else flag).lower() == "true"
    if not wrong and abs(slack - tolerance) > 1e-9 and said != (slack > tolerance):
        wrong = f"coupling_matters is {flag!r} for a slack of {slack} and a tolerance of {tolerance}"
    return wrong


def wrong_transitions(found: dict[str, Any], table: Table, law: Law | None, resampled: bool) -> str:
    """What is wrong with transitions as JSON has them."""
    asked = sum(each is not None for each in table.questions)
    if found["num_rows"] != asked or found["num_left_out"] != len(table.questions) - asked:
        return (
            f"{found['num_rows']} rows and {found['num_left_out']} left out, {asked} of {len(table.questions)} expected"
        )
    if [str(each) for each in found["labels"]] != table.labels and len(found["labels"]) != len(table.labels):
        return f"labels {found['labels']}, {table.labels} expected"
    wanted = 4 * len(table.labels) * (len(table.labels) + 1)
    if len(found["rows"]) != wanted:
        return f"{len(found['rows'])} rows, {wanted} expected"
    cells = as_cells(found["rows"], len(table.labels))
    if resampled:
        for name in ("count", "share"):
            for low, high in zip(cells[f"{name}_ci_lower"], cells[f"{name}_ci_upper"], strict=True):
                if (low is None) != (high is None) or (low is not None and not -1e-9 <= low <= high + 1e-9):
                    return f"an interval of {name} from {low} to {high}"
    return wrong_cells(cells, table, law)


def as_cells(rows: Sequence[dict[str, Any]], size: int) -> dict[str, list[Any]]:
    """Rows of a result by cell: for each outcome seen counts, then shares; each under the coupling, then under any.

    Those about everybody, which come last, are sums of them.
    """
    found: dict[str, list[Any]] = {}
    for at, row in enumerate(rows[: 4 * size**2]):
        cell, any_coupling = divmod(at, 2)
        kind, instead = divmod(cell, size)
        seen, share = divmod(kind, 2)
        name = "share" if share else "count"
        names = {"_lower": "lower", "_upper": "upper"} if any_coupling else {"": "value"}
        names |= {} if any_coupling else {"_ci_lower": "ci_lower", "_ci_upper": "ci_upper"}
        for side, column in names.items():
            found.setdefault(f"{name}{side}", [None] * size**2)[seen * size + instead] = row[column]
    return found


def wrong_cells(cells: dict[str, list[Any]], table: Table, law: Law | None) -> str:
    """What is wrong with the cells of a table of transitions, by column."""
    size = len(table.labels)
    counts, lower, upper = ([[0.0] * size for _ in range(size)] for _ in range(3))
    seen, loose = [0] * size, [0.0] * size
    for question in table.questions:
        if question is None:
            continue
        x = question.x
        seen[x] += 1
        row = None if law is None else law(question.p, question.q, x)
        if law is not None and (question.p[x] < 1e-6 or question.q[x] < question.p[x] * 1e-6):
            loose[x] += moved(law, question.p, question.q, x)
        for j, (low, high) in enumerate(outcome_bounds(question.p, question.q, x)):
            counts[x][j] += math.nan if row is None else float(row[j])
            lower[x][j] += float(low)
            upper[x][j] += float(high)
    if len(cells["count"]) != size**2:
        return f"{len(cells['count'])} cells, {size**2} expected"
    for x in range(size):
        for j in range(size):
            at, where = x * size + j, f"[{table.labels[x]!r}, {table.labels[j]!r}]"
            limit = 1e-7 * max(1, seen[x]) + 8 * loose[x]
            wrong = first(
                "" if law is None else off(f"count{where}", cells["count"][at], counts[x][j], limit),
                off(f"count_lower{where}", cells["count_lower"][at], lower[x][j], limit),
                off(f"count_upper{where}", cells["count_upper"][at], upper[x][j], limit),
            )
            share = cells["share"][at]
            if not wrong and seen[x] == 0 and share is not None:
                wrong = f"share{where} is {share} of nobody"
            if not wrong and seen[x] and law is not None:
                wrong = off(f"share{where}", share, counts[x][j] / seen[x], 1e-7 + 8 * loose[x])
            if wrong:
                return wrong
    return ""


def as_numbers(name: str, cells: Sequence[Any]) -> list[Any]:
    """A column of numbers; of anything else its cells."""
    if name in ("quantity", "about", "coupling"):
        return list(cells)
    return [number(cell) for cell in cells]
