"""`countermax counterfactuals` and `countermax transitions`: every cell of what they write and print."""

from typing import Any

from fuzz.case import Case, Failure
from fuzz.hands import Outcome
from fuzz.hygiene import dirty
from fuzz.judges.cells import (
    as_cells,
    as_numbers,
    in_order,
    new_columns,
    wrong_cells,
    wrong_rows,
    wrong_sheet,
    wrong_transitions,
)
from fuzz.judges.common import (
    Line,
    answered,
    check_output,
    odd_text,
    real_number,
    taken_apart,
    verdict,
    whole_number,
)
from fuzz.judges.compare import PICTURES
from fuzz.second.laws import Law, law_of
from fuzz.second.questions import Table, kind_of, read_questions, scores
from fuzz.second.reading import MustRefuseError, Sheet, UnsureError, read_sheet

TABLES = (".csv", ".parquet", ".pq", ".jsonl", ".ndjson")
_ANY = ("gumbel-max", "inverse-cdf", "maximal", "independent")
_BY_SCORE = ("inverse-cdf-by-score", "comonotone")


def judge_counterfactuals(case: Case, outcome: Outcome) -> Failure | None:
    """Rows in, rows with answers out."""
    line = taken_apart(case.argv)
    target = line.option("--out")
    found = dirty(case, outcome, outputs=[target] if target else [])
    if found is not None:
        return found

    def expected() -> Any:
        source, sheet, table, law, score = _asked(case, line)
        if target is None:
            raise MustRefuseError("no --out")
        bounds = line.option("--bounds", "any")
        if bounds not in ("any", "stable", "none"):
            raise MustRefuseError("no such bounds")
        tolerance = real_number(line.option("--tolerance", "0.05") or "")
        if not tolerance >= 0:
            raise MustRefuseError("a negative tolerance")
        check_output(case, line, target, TABLES)
        new = new_columns(line, table, score is not None, str(bounds))
        if len(set(new)) < len(new) or set(new) & set(sheet.columns):
            raise MustRefuseError("a column twice")
        if not sheet.rows:
            raise UnsureError("no rows")
        del source

        def check() -> str:
            made = in_order(read_sheet(target, outcome.files[target]), sheet.columns + new)
            return wrong_sheet(made, sheet, table, new) or wrong_rows(
                made, sheet, table, law, score, line, str(bounds), tolerance
            )

        return check

    return verdict(outcome, expected)


def judge_transitions(case: Case, outcome: Outcome) -> Failure | None:
    """Expected counts, shares and bounds, cell by cell."""
    line = taken_apart(case.argv)
    target, picture = line.option("--out"), line.option("--plot")
    found = dirty(case, outcome, outputs=[each for each in (target, picture) if each])
    if found is not None:
        return found

    def expected() -> Any:
        _, sheet, table, law, _ = _asked(case, line)
        resamples = whole_number(line.option("--num-resamples", "1000") or "")
        if resamples < 0 or resamples == 1:
            raise MustRefuseError("too few resamples")
        if not 0 < real_number(line.option("--level", "0.95") or "") < 1:
            raise MustRefuseError("no confidence")
        if not 0 <= whole_number(line.option("--seed", "0") or "") < 2**32:
            raise MustRefuseError("no seed")
        if resamples * len(table.labels) ** 2 > 10**8:
            raise MustRefuseError("more resamples than there is memory for")
        if resamples * len(table.labels) ** 2 > 10**7:
            raise UnsureError("many resamples")
        if target is not None:
            check_output(case, line, target, TABLES)
        if picture is not None:
            check_output(case, line, picture, PICTURES)
        if not any(each is not None for each in table.questions):
            raise UnsureError("no rows that can be answered")
        if case.outside.get("stdout"):
            raise UnsureError("nobody reads the answer")

        def check() -> str:
            wrong = ""
            if "--json" in line.flags:
                wrong = wrong_transitions(answered(outcome), table, law, resamples > 0)
            else:
                wrong = odd_text(case, outcome)
            if target is not None and not wrong:
                made = read_sheet(target, outcome.files[target])
                columns = {name: as_numbers(name, made.column(name)) for name in made.columns}
                rows = [dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)]
                wrong = wrong_cells(as_cells(rows, len(table.labels)), table, law)
            return wrong

        return check

    return verdict(outcome, expected)


def _asked(case: Case, line: Line) -> tuple[str, Sheet, Table, Law | None, list[float] | None]:
    """The question of a command line about a table; a law of None is some coupling, of which no more is known."""
    if len(line.positional) != 1:
        raise MustRefuseError("not one table")
    (source,) = line.positional
    if source not in case.files:
        raise MustRefuseError("no such file")
    sheet = read_sheet(source, case.files[source])
    if len(set(sheet.columns)) < len(sheet.columns):
        raise UnsureError("two columns of one name")
    table = read_questions(
        sheet,
        outcome=line.needed("--outcome"),
        factual=line.needed("--factual"),
        counterfactual=line.needed("--counterfactual"),
        labels=line.option("--labels"),
        normalise="--normalise" in line.flags,
        errors=line.option("--errors", "raise") or "",
    )
    size = len(table.labels)
    given = line.option("--score")
    kind = kind_of(sheet, sheet.column(line.needed("--outcome")))
    score = None if given is None else scores(given, table.labels, kind)
    coupling = line.option("--coupling", "gumbel-max") or ""
    if coupling in case.files:
        return source, sheet, table, _stored_law(case, coupling, size), score
    if coupling in _BY_SCORE and score is None:
        raise MustRefuseError("a coupling that needs a score")
    try:
        return source, sheet, table, law_of(coupling, size, score), score
    except KeyError:
        if coupling.lower().replace(" ", "-") in (*_ANY, *_BY_SCORE):
            raise UnsureError("a coupling by the name that results show") from None
        raise MustRefuseError(f"no coupling {coupling!r}") from None


def _stored_law(case: Case, name: str, size: int) -> Law | None:
    """What a stored coupling must answer: its case says whether anything is known of it."""
    known = case.means.get("couplings", {}).get(name)
    if known is None or known.get("size") not in (None, size):
        raise UnsureError("a stored coupling of which nothing is known")
    return None if known["law"] is None else law_of(known["law"], size, known.get("score"))
