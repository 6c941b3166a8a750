"""`countermax compare` of two known laws, and the verb of that name: every number of the answer."""

import math
import operator
from collections.abc import Sequence
from typing import Any

from fuzz.case import Case, Failure
from fuzz.hands import Outcome
from fuzz.hygiene import dirty
from fuzz.judges.common import Line, answered, check_output, first, odd_text, off, taken_apart, verdict
from fuzz.second import programs
from fuzz.second.laws import (
    World,
    joint,
    law_of,
    outcome_bounds,
    score_bounds,
    sorts_both,
    world,
    world_of_logits,
    wrong_row,
)
from fuzz.second.questions import numbers, words
from fuzz.second.reading import MustRefuseError, UnsureError

PICTURES = (".png", ".pdf", ".svg")
_WORDS = {
    "Gumbel-max": "gumbel-max",
    "inverse CDF": "inverse-cdf",
    "inverse CDF by score": "inverse-cdf-by-score",
    "maximal": "maximal",
    "independent": "independent",
    "comonotone": "comonotone",
}


def judge(case: Case, outcome: Outcome) -> Failure | None:
    """Of the command."""
    line = taken_apart(case.argv)
    pictures = [line.options["--plot"]] if "--plot" in line.options else []
    found = dirty(case, outcome, outputs=pictures)
    if found is not None:
        return found

    def expected() -> Any:
        ask = asked(line)
        for name in pictures:
            check_output(case, line, name, PICTURES)
        if case.outside.get("stdout"):
            raise UnsureError("nobody reads the answer")
        return lambda: wrong_answer(answered(outcome), *ask) if "--json" in line.flags else odd_text(case, outcome)

    return verdict(outcome, expected)


def asked(line: Line) -> tuple[Any, ...]:
    """The question of a command line: worlds, labels, what was seen, scores."""
    if line.positional:
        raise MustRefuseError("words too many")
    logits, normalise = "--logits" in line.flags, "--normalise" in line.flags
    if logits and normalise:
        raise MustRefuseError("logits are not rescaled")
    p, q = (
        as_world(numbers(line.needed(name)), logits=logits, normalise=normalise)
        for name in ("--factual", "--counterfactual")
    )
    if len(p) != len(q):
        raise MustRefuseError("worlds of different sizes")
    seen = line.needed("--seen")
    given = line.option("--labels")
    labels = [str(place) for place in range(len(p))] if given is None else words(given)
    if len(labels) != len(p) or len(set(labels)) != len(labels):
        raise MustRefuseError("not a label for each outcome")
    if "" in labels:
        raise UnsureError("a label that means something else")
    if given is None and seen not in labels:
        try:
            float(seen)
        except ValueError:
            raise MustRefuseError("no such outcome") from None
        raise UnsureError("an index that is written another way")
    if seen not in labels:
        raise MustRefuseError("no such outcome")
    x = labels.index(seen)
    if not p[x]:
        raise MustRefuseError("an impossible outcome was seen")
    if "--counterfactual-score" in line.options and "--score" not in line.options:
        raise MustRefuseError("a score is missing")
    scores = [
        _scores(line.options[name], len(p)) if name in line.options else None
        for name in ("--score", "--counterfactual-score")
    ]
    return p, q, x, labels, *scores


def as_world(values: Sequence[float], *, logits: bool, normalise: bool) -> World:
    """Probabilities, weights or logits as a world."""
    if any(each != each for each in values) or not values:
        raise MustRefuseError("not a number")
    if logits:
        if math.inf in values or all(each == -math.inf for each in values):
            raise MustRefuseError("no logits")
        finite = [each for each in values if each > -math.inf]
        if max(finite) - min(finite) > 4000:
            raise UnsureError("logits far apart")
        return world_of_logits(values)
    if any(each < 0 or each == math.inf for each in values) or not any(values):
        raise MustRefuseError("no probabilities")
    total = math.fsum(values) if max(values) < 1e307 else math.inf
    if not 1e-300 < total < 1e300:
        raise UnsureError("a sum at the limits of double precision")
    if not normalise:
        if abs(abs(total - 1) - 1e-6) < 1e-9:
            raise UnsureError("at the limit of what sums to one")
        if abs(total - 1) > 1e-6:
            raise MustRefuseError(f"probabilities sum to {total}")
    exact = world(values)
    if any(each and float(each) < 5e-308 for each in exact):
        raise UnsureError("a probability below double precision")
    return exact


def _scores(text: str, size: int) -> list[float]:
    values = numbers(text)
    if len(values) != size or not all(abs(each) <= 1e100 for each in values):
        raise MustRefuseError("not a finite score for each outcome")
    return values


def wrong_answer(
    found: dict[str, Any],
    p: World,
    q: World,
    x: int,
    labels: Sequence[str],
    score: Sequence[float] | None,
    other: Sequence[float] | None,
    couplings: dict[str, str] | None = None,
) -> str:
    """What is wrong with a comparison as JSON has it."""
    if found["labels"] != list(labels) or found["seen"] != labels[x]:
        return f"labels {found['labels']}, seen {found['seen']!r}; {list(labels)} and {labels[x]!r} expected"
    rows = {(each["quantity"], each["about"], each["coupling"]): each for each in found["rows"]}
    wrong = first(
        *(off(f"p[{i}]", value, p[i]) for i, value in enumerate(found["p"])),
        *(off(f"q[{i}]", value, q[i]) for i, value in enumerate(found["q"])),
    )
    expected = _WORDS if couplings is None else couplings
    wanted = [name for name in expected if score is not None or "score" not in name and name != "comonotone"]
    if couplings is None and score is not None and sorts_both(score, score if other is None else other):
        wanted.remove("comonotone")
    names = list(found["joints"])
    if couplings is None and names == ["Gumbel-max"]:  # the default
        wanted = names
    if not wrong and names != wanted:
        return f"answers of {names}, {wanted} expected"
    there = score if other is None else other
    for name in names:
        if wrong:
            return wrong
        each = _said(rows, name, labels, found["joints"][name])
        wrong = _wrong_law(each, expected[name], p, q, x, score, there, other)
    exact = outcome_bounds(p, q, x)
    low, high = _limits(rows, "any coupling", labels)
    wrong = wrong or first(
        *(off(f"lower bound {j}", low[j], exact[j][0]) for j in range(len(q))),
        *(off(f"upper bound {j}", high[j], exact[j][1]) for j in range(len(q))),
        _wrong_stable(rows, labels, p, q, x, there),
    )
    if score is not None and there is not None and not wrong:
        here, limits = score[x], score_bounds(p, q, x, there)
        whole = {name: rows[name, _PERSON, "any coupling"] for name in ("expected score", "effect", *_COUNTED)}
        for side, value in zip(("lower", "upper"), limits, strict=True):
            wrong = wrong or first(
                _scored(f"{side} bound of the score", whole["expected score"][side], value, there),
                _scored(f"{side} bound of the effect", whole["effect"][side], float(value) - here, [*there, here]),
            )
        for name, counts in _COUNTED.items():
            among = [float(counts(each, here)) for each in there]
            for side, value in zip(("lower", "upper"), score_bounds(p, q, x, among), strict=True):
                wrong = wrong or off(f"{side} bound of {name}", whole[name][side], value)
    slack = max(float(b - a) for a, b in exact)
    if (
        not wrong
        and abs(slack - found["tolerance"]) > 1e-9
        and found["coupling_matters"] != (slack > found["tolerance"])
    ):
        wrong = f"coupling_matters is {found['coupling_matters']} for a slack of {slack}"
    return wrong


_PERSON = "this person"
_COUNTED = {"better": operator.gt, "worse": operator.lt, "same": operator.eq}


def _said(rows: dict[Any, Any], name: str, labels: Sequence[str], cells: Any) -> dict[str, Any]:
    """What one coupling says."""
    found = {"name": name, "joint": cells}
    found["probabilities"] = [rows[f"P({label})", _PERSON, name]["value"] for label in labels]
    for quantity, about in (
        *((each, _PERSON) for each in ("expected score", "effect", *_COUNTED)),
        ("agreement", "everybody"),
        ("effect variance", "everybody"),
    ):
        row = rows.get((quantity, about, name))
        found[quantity.replace(" ", "_")] = None if row is None else row["value"]
    return found


def _limits(rows: dict[Any, Any], family: str, labels: Sequence[str]) -> list[list[float]]:
    """Lower and upper bounds of all outcomes."""
    return [[rows[f"P({label})", _PERSON, family][side] for label in labels] for side in ("lower", "upper")]


def _wrong_law(
    found: dict[str, Any],
    name: str,
    p: World,
    q: World,
    x: int,
    score: Sequence[float] | None,
    there: Sequence[float] | None,
    other: Sequence[float] | None,
) -> str:
    law = law_of(name, len(p), score, other)
    wrong = wrong_row(law, p, q, x, found["probabilities"])
    if wrong:
        return f"{found['name']}: {wrong}"
    cells = joint(law, p, q)
    for i in range(len(p)):
        for j in range(len(q)):
            if abs(float(cells[i][j]) - found["joint"][i][j]) > 1e-9:
                return f"{found['name']}: joint[{i}][{j}] is {found['joint'][i][j]!r}, {float(cells[i][j])!r} expected"
    wrong = off(f"{found['name']}: agreement", found["agreement"], sum(cells[i][i] for i in range(len(p))))
    if score is None or there is None or wrong:
        return wrong
    # The row was found right but for rounding, and scores may be large: go by the row that was given.
    expected = math.fsum(a * b for a, b in zip(found["probabilities"], there, strict=True))
    mean = math.fsum(float(b) * h for b, h in zip(q, there, strict=True)) - math.fsum(
        float(a) * h for a, h in zip(p, score, strict=True)
    )
    square = math.fsum(float(cells[i][j]) * (there[j] - score[i]) ** 2 for i in range(len(p)) for j in range(len(q)))
    for name, counts in _COUNTED.items():
        share = math.fsum(a for a, b in zip(found["probabilities"], there, strict=True) if counts(b, score[x]))
        wrong = wrong or off(f"{found['name']}: {name}", found[name], share)
    return wrong or first(
        _scored(f"{found['name']}: expected score", found["expected_score"], expected, there),
        _scored(f"{found['name']}: effect", found["effect"], expected - score[x], [*there, *score]),
        _scored(
            f"{found['name']}: variance",
            found["effect_variance"],
            square - mean**2,
            [max(map(abs, [*there, *score])) ** 2],
        ),
    )


def _scored(name: str, found: Any, exact: Any, scale: Sequence[float]) -> str:
    """A mean of scores is as exact as the scores are large."""
    return off(name, found, exact, 1e-9 * max(1.0, *map(abs, scale)))


def _wrong_stable(
    rows: dict[Any, Any], labels: Sequence[str], p: World, q: World, x: int, score: Sequence[float] | None
) -> str:
    """Bounds over stable couplings: within those over all, and by linear programming where that is accurate."""
    low, high = _limits(rows, "stable couplings", labels)
    exact = outcome_bounds(p, q, x)
    row = law_of("gumbel-max", len(p))(p, q, x)
    for j, (least, most) in enumerate(exact):
        if not float(least) - 1e-8 <= low[j] <= high[j] + 1e-8 <= float(most) + 2e-8:
            return f"stable bounds of outcome {j} are {low[j]} to {high[j]}, outside of {float(least)} to {float(most)}"
        if not low[j] - 1e-8 <= float(row[j]) <= high[j] + 1e-8:
            return (
                f"stable bounds of outcome {j} are {low[j]} to {high[j]}; Gumbel-max is stable and has {float(row[j])}"
            )
    for j, (least, most) in enumerate(programs.stable_bounds(p, q, x) or []):
        wrong = first(
            off(f"stable lower bound {j}", low[j], least, programs.TOLERANCE),
            off(f"stable upper bound {j}", high[j], most, programs.TOLERANCE),
        )
        if wrong:
            return wrong
    if score is None or max(map(abs, score)) > 1e4:
        return ""
    sides = rows["expected score", _PERSON, "stable couplings"]
    for least, most in programs.stable_bounds(p, q, x, score) or []:
        return first(
            off("stable lower bound of the score", sides["lower"], least, programs.TOLERANCE * 100),
            off("stable upper bound of the score", sides["upper"], most, programs.TOLERANCE * 100),
        )
    return ""
