"""Command lines of `countermax counterfactuals` and `countermax transitions`, over tables that are made for them."""

import io
import random
from dataclasses import dataclass
from typing import Any

from fuzz.calls import vocabulary
from fuzz.calls.compare import _OUTSIDE
from fuzz.case import Case

_COUPLINGS = ("gumbel-max", "inverse-cdf", "inverse-cdf-by-score", "maximal", "independent", "comonotone")
_PASSED = (
    "007",
    "1.0",
    "1.50",
    "2020-01-01",
    "12345678901234567890",
    "a,b",
    'say "x"',
    "",
    "x\ny",
    "\u00e9",
    "True",
    "None",
    "-0",
    "1e5",
    "NaN",
    " padded ",
)


@dataclass
class Made:
    """A table in a file, and the options that ask about it."""

    name: str
    content: bytes
    options: dict[str, str]
    flags: list[str]
    labels: list[str]


def make_counterfactuals(rng: random.Random) -> Case:
    """From file to file."""
    made = _table(rng)
    options = made.options
    options["--out"] = f"out.{rng.choice(('csv', 'csv', 'parquet', 'jsonl'))}"
    if rng.random() < 0.03:
        options["--out"] = rng.choice((made.name, "out", "out.xlsx", "nowhere/out.csv", ".csv"))
    if rng.random() < 0.3:
        options["--bounds"] = rng.choice(("any", "stable", "none", "none", "every"))
    if rng.random() < 0.15:
        options["--tolerance"] = rng.choice(("0", "0.5", "1", "-1", "nan", "inf", "x"))
    if rng.random() < 0.1:
        options["--prefix"] = rng.choice(("cf_", "", "p_", "q_", "\u00e9", "counterfactual_counterfactual_"))
    return _case(rng, "counterfactuals", made)


def make_transitions(rng: random.Random) -> Case:
    """From file to cells."""
    made = _table(rng)
    options, flags = made.options, made.flags
    options["--num-resamples"] = str(rng.choice((0, 0, 10, 50, 2)))
    if rng.random() < 0.08:
        options["--num-resamples"] = rng.choice(("-1", "1", "1000000000", "x", "99999999999999999999", "2.5"))
    if rng.random() < 0.1:
        options["--level"] = rng.choice(("0.5", "0.999", "0", "1", "nan", "-1", "95"))
    if rng.random() < 0.2:
        options["--seed"] = rng.choice(("1", "4294967295", "4294967296", "-1", "99999999999999999999", "x"))
    if rng.random() < 0.8:
        flags.append("--json")
    if rng.random() < 0.3:
        options["--out"] = f"cells.{rng.choice(('csv', 'parquet', 'jsonl'))}"
    if rng.random() < 0.02:
        options["--out"] = rng.choice((made.name, "cells", "cells.txt"))
    if rng.random() < 0.01:
        options["--plot"] = rng.choice(("flows.png", "flows.svg", "flows.doc"))
    return _case(rng, "transitions", made)


def _case(rng: random.Random, command: str, made: Made) -> Case:
    if rng.random() < 0.04:
        made.options.pop(rng.choice(list(made.options)))
    if rng.random() < 0.02:
        made.options[rng.choice(("--outcome", "--factual", "--counterfactual"))] = rng.choice(
            ("nothing", "", "p", "p_a")
        )
    process = rng.random() < 0.015
    argv = [command, made.name, *(f"{name}={value}" for name, value in made.options.items()), *made.flags]
    return Case(
        command,
        argv=tuple(argv),
        files={made.name: made.content},
        process=process,
        outside=dict(rng.choice(_OUTSIDE)) if process else {},
    )


def _table(rng: random.Random) -> Made:
    size = vocabulary.sized(rng)
    kind = rng.choices(("csv", "jsonl", "parquet"), (5, 3, 3))[0]
    labels = vocabulary.labels(rng, size)
    count = rng.choice((1, 1, 2, 3, 5, 8, 12))
    rows = [vocabulary.question(rng, size) for _ in range(count)]
    if rng.random() < 0.2:
        rows = [rows[0]] * len(rows)
    flags = []
    if rng.random() < 0.15:
        flags.append("--normalise")
        rows = [([each * 3 for each in p], [each * 1e-3 for each in q], x) for p, q, x in rows]
    header = ["id", "status", *(f"p_{each}" for each in labels), *(f"q_{each}" for each in labels)]
    passed = [rng.choice(_PASSED) for _ in range(count)]
    cells: list[list[Any]] = [[passed[at], labels[x], *p, *q] for at, (p, q, x) in enumerate(rows)]
    options = {"--outcome": "status", "--factual": "p_", "--counterfactual": "q_"}
    _ask(rng, options, labels)
    if rng.random() < 0.25:
        _spoil(rng, header, cells, labels)
    if rng.random() < 0.25:
        options["--errors"] = rng.choice(("missing", "missing", "missing", "raise", "ignore"))
    name = f"rows.{kind}"
    if rng.random() < 0.02:
        name = rng.choice((f"rows {chr(0xE9)}.{kind}", f"r\udce9.{kind}", f"ROWS.{kind.upper()}"))
    return Made(name, _written(rng, kind, header, cells), options, flags, labels)


def _ask(rng: random.Random, options: dict[str, str], labels: list[str]) -> None:
    """Columns by prefix, by label or by list; a coupling; a score."""
    simple = not any(set(each) & set('=,"\n') or each != each.strip() for each in labels)
    way = rng.randrange(8)
    if way == 0 and simple:
        options["--factual"] = vocabulary.listed([f"{each}=p_{each}" for each in labels])
        options["--counterfactual"] = vocabulary.listed([f"{each}=q_{each}" for each in labels[::-1]])
    elif way == 1 and len(labels) > 1:
        options["--labels"] = vocabulary.listed(labels)
        options["--factual"] = vocabulary.listed([f"p_{each}" for each in labels])
    elif way == 2:
        options["--labels"] = vocabulary.listed(rng.sample(labels, len(labels)))
    options["--coupling"] = rng.choice(_COUPLINGS) if rng.random() < 0.7 else "gumbel-max"
    if rng.random() < 0.02:
        options["--coupling"] = rng.choice(("", "gumbel", "Gumbel-max", "nowhere.safetensors", "rows.csv"))
    if options["--coupling"] in ("inverse-cdf-by-score", "comonotone") or rng.random() < 0.25:
        values = vocabulary.scores(rng, len(labels))
        options["--score"] = vocabulary.joined(values)
        if simple and rng.random() < 0.4:
            pairs = list(zip(labels, values, strict=True))
            rng.shuffle(pairs)
            options["--score"] = vocabulary.listed([f"{label}={value}" for label, value in pairs])
        if rng.random() < 0.05:
            options["--score"] = rng.choice(("", "nan", "a=1,a=2", "=1", "01=0,01=5", "1,2,3,4,5,6,7,8"))


def _spoil(rng: random.Random, header: list[str], cells: list[list[Any]], labels: list[str]) -> None:
    """Makes one thing odd."""
    at, size = rng.randrange(len(cells)), len(labels)
    place = 2 + rng.randrange(2 * size)
    kind = rng.randrange(12)
    if kind < 4:
        cells[at][place] = rng.choice((*["", "nan", "-0.1", "inf", "abc"] * 2, vocabulary.bad_number(rng), 0.77, 0, 2))
    elif kind == 4:
        cells[at][1] = rng.choice(("", "nobody", labels[0] + " ", labels[0].upper(), "nan", "None"))
    elif kind == 5:
        header[place] = rng.choice((header[place] + " ", "p_", header[2], "P_x", "p_value", "id", ""))
    elif kind == 6:
        header.append(rng.choice(("p_value", "q_value", "counterfactual_a", "id", "status", "p_")))
        for row in cells:
            row.append(rng.choice(("0.5", "x", "")))
    elif kind == 7:
        for row in [header, *cells]:
            del row[place]
    elif kind == 8:
        cells[at] = cells[at][:-1] if rng.random() < 0.5 else [*cells[at], "1"]
    elif kind == 9:
        cells.clear()
    elif kind == 10:
        order = rng.sample(range(len(header)), len(header))
        for row in [header, *cells]:
            row[:] = [row[each] for each in order]
    else:
        for row in cells:
            row[2 : 2 + size] = row[2 + size : 2 + 2 * size]


def _written(rng: random.Random, kind: str, header: list[str], cells: list[list[Any]]) -> bytes:
    if kind == "parquet":
        return _parquet(rng, header, cells)
    if kind == "csv":
        rows = [[vocabulary.written(rng, each) if isinstance(each, float) else each for each in row] for row in cells]
        text = vocabulary.as_csv([header, *rows], rng.choice(("\n", "\n", "\r\n")))
        content = text.encode("utf-8", "surrogatepass")
        if rng.random() < 0.02:
            latin = text.encode("latin-1", "replace") + b"\xe9,"
            whole = (b"\xef\xbb\xbf" + content, content + b"\n", content.rstrip(b"\n"))
            content = rng.choice((*whole, latin, text.encode("utf-16"), b""))
        return content
    return _jsonl(rng, header, cells)


def _jsonl(rng: random.Random, header: list[str], cells: list[list[Any]]) -> bytes:
    lines = []
    loose, ascii_only = rng.random() < 0.3, rng.random() < 0.5
    for row in cells:
        parts = []
        for name, value in zip(header, row, strict=False):
            token = vocabulary.as_json_text(value, ascii_only=ascii_only)
            if isinstance(value, float):
                token = vocabulary.written(rng, value)
            elif value == "":
                if loose:
                    continue
                token = "null"
            elif (
                loose
                and isinstance(value, str)
                and value.lstrip("-").isdigit()
                and not value.lstrip("-").startswith("0")
            ):
                token = value  # a number in JSON: its characters count
            parts.append(f"{vocabulary.as_json_text(name, ascii_only=ascii_only)}:{token}")
        if loose and rng.random() < 0.3:
            rng.shuffle(parts)
        lines.append("{" + ", ".join(parts) + "}")
    text = "\n".join(lines) + rng.choice(("\n", "", "\n\n"))
    if rng.random() < 0.03:
        text = rng.choice(
            (
                text[: len(text) // 2],
                text + "[1]\n",
                text + "{}\n",
                "{" + text,
                text.replace(":", ": NaN", 1),
                "[" * 3000,
            )
        )
    return text.encode("utf-8", "surrogatepass")


def _parquet(rng: random.Random, header: list[str], cells: list[list[Any]]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    width = len(header)
    rows = [(row + [None] * width)[:width] for row in cells]
    columns = [[row[place] for row in rows] for place in range(width)]
    arrays = []
    for values in columns:
        if all(isinstance(each, int | float) for each in values):
            arrays.append(pa.array([float(each) for each in values], rng.choice((pa.float64(), pa.float64()))))
            continue
        texts = [None if each in ("", None) else str(each) for each in values]
        if _all_whole(texts) and rng.random() < 0.7:
            numbers = [None if each is None else int(each) for each in texts]
            arrays.append(pa.array(numbers, rng.choice((pa.int64(), pa.float64(), pa.int64()))))
        elif rng.random() < 0.2:
            arrays.append(pa.array(texts, pa.string()).dictionary_encode())
        elif all(each in ("True", "False", None) for each in texts) and rng.random() < 0.7:
            arrays.append(pa.array([None if each is None else each == "True" for each in texts], pa.bool_()))
        else:
            arrays.append(pa.array(texts, rng.choice((pa.string(), pa.large_string()))))
    out = io.BytesIO()
    parquet.write_table(pa.Table.from_arrays(arrays, header), out)
    return out.getvalue()


def _all_whole(texts: list[str | None]) -> bool:
    known = [each for each in texts if each is not None]
    return bool(known) and all(each.lstrip("-").isdigit() and abs(int(each)) < 2**53 for each in known)
