"""Calls of the library from Python; what was asked stands beside each as plain numbers."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from fuzz.case import Case, Failure
from fuzz.hands import Outcome
from fuzz.hygiene import dirty
from fuzz.judges.common import first, off, verdict
from fuzz.judges.compare import as_world, wrong_answer
from fuzz.second import estimates, logs
from fuzz.second.laws import (
    SINGLE,
    TOLERANCE,
    Law,
    World,
    joint,
    law_of,
    line,
    outcome_bounds,
    score_bounds,
    wrong_row,
)
from fuzz.second.reading import MustRefuseError, UnsureError

Check = Callable[[], str]


def judge(case: Case, outcome: Outcome) -> Failure | None:
    """By what the case says was asked."""
    found = dirty(case, outcome, outputs=case.means.get("outputs", ()))
    if found is not None:
        return found

    def expected() -> Check:
        means = case.means
        if means.get("unsure"):
            raise UnsureError(str(means["unsure"]))
        if means.get("refuse"):
            raise MustRefuseError(str(means["refuse"]))
        return _ASKED[means["asked"]](means, outcome.value)

    return verdict(outcome, expected)


def _worlds(means: dict[str, Any]) -> tuple[World, World]:
    logits, normalise = means.get("logits", False), means.get("normalise", False)
    p, q = (as_world([_number(each) for each in means[name]], logits=logits, normalise=normalise) for name in "pq")
    if len(p) != len(q):
        raise MustRefuseError("worlds of different sizes")
    return p, q


def _number(value: Any) -> float:
    """JSON has no infinities and no NaN; they are written as words."""
    return float(value)


def _seen(means: dict[str, Any], p: World) -> int:
    x = means["x"]
    if not 0 <= x < len(p) or not p[x]:
        raise MustRefuseError("an impossible outcome was seen")
    return x


def _law(means: dict[str, Any], size: int) -> Law:
    if "order" in means:
        return line(means["order"])
    return law_of(means["coupling"], size, means.get("score"), means.get("other_score"))


def _tolerance(means: dict[str, Any]) -> float:
    return SINGLE if means.get("single") else TOLERANCE


def _compare(means: dict[str, Any], value: Any) -> Check:
    p, q = _worlds(means)
    x = _seen(means, p)
    return lambda: wrong_answer(value, p, q, x, means["labels"], means.get("score"), means.get("other_score"))


def _row(means: dict[str, Any], value: Any) -> Check:
    p, q = _worlds(means)
    x = _seen(means, p)
    return lambda: wrong_row(_law(means, len(p)), p, q, x, value, _tolerance(means))


def _joint(means: dict[str, Any], value: Any) -> Check:
    p, q = _worlds(means)
    exact = joint(_law(means, len(p)), p, q)
    return lambda: first(
        *(
            off(f"joint[{i}][{j}]", value[i][j], exact[i][j], _tolerance(means))
            for i in range(len(p))
            for j in range(len(q))
        )
    )


def _outcome_bounds(means: dict[str, Any], value: Any) -> Check:
    p, q = _worlds(means)
    exact = outcome_bounds(p, q, _seen(means, p))
    limit = _tolerance(means)
    return lambda: first(
        *(off(f"lower {j}", value["lower"][j], low, limit) for j, (low, _) in enumerate(exact)),
        *(off(f"upper {j}", value["upper"][j], high, limit) for j, (_, high) in enumerate(exact)),
    )


def _score_bounds(means: dict[str, Any], value: Any) -> Check:
    p, q = _worlds(means)
    low, high = score_bounds(p, q, _seen(means, p), means["score"])
    limit = _tolerance(means) * max(1.0, *map(abs, means["score"]))
    return lambda: first(off("lower", value["lower"], low, limit), off("upper", value["upper"], high, limit))


def _effect(means: dict[str, Any], value: Any) -> Check:
    p, q = _worlds(means)
    score = [Fraction(each) for each in means["score"]]
    cells = joint(_law(means, len(p)), p, q)
    pairs = [(cells[i][j], score[j] - score[i]) for i in range(len(p)) for j in range(len(q))]
    mean = sum(mass * gain for mass, gain in pairs)
    variance = sum(mass * gain**2 for mass, gain in pairs) - mean**2
    largest = max(1.0, *map(abs, means["score"]))
    limit = _tolerance(means) * largest
    return lambda: first(
        off("mean", value["mean"], mean, limit), off("variance", value["variance"], variance, limit * largest)
    )


def _draws(means: dict[str, Any], value: Any) -> Check:
    """Outcomes that were drawn: possible ones, as often as they should be."""
    p, q = _worlds(means)
    x = _seen(means, p)
    exact = _law(means, len(p))(p, q, x)

    def check() -> str:
        count = len(value)
        for j, chance in enumerate(exact):
            hits = sum(each == j for each in value)
            # Six standard errors: a false alarm in half a billion.
            spread = 6 * math.sqrt(float(chance * (1 - chance)) / count) + 1e-6
            if abs(hits / count - float(chance)) > spread:
                return f"outcome {j} was drawn {hits} times of {count}, {float(chance)} expected"
        return ""

    return check


def _table(means: dict[str, Any], value: Any) -> Check:
    """The new columns of a frame."""
    rows = _rows(means)
    names = means["names"]
    law = _law(means, len(names))

    def check() -> str:
        for place, row in enumerate(rows):
            found = [value[f"counterfactual_{name}"][place] for name in names]
            if row is None:
                if any(each is not None and each == each for each in found):
                    return f"row {place} has no answer, and gets {found}"
                continue
            p, q, x = row
            wrong = wrong_row(law, p, q, x, found)
            likeliest = value["counterfactual_most_likely"][place]
            place_of = next((i for i, each in enumerate(means["labels"]) if _same(each, likeliest)), None)
            if not wrong and (place_of is None or found[place_of] < max(found) - 1e-9):
                wrong = f"most likely is {likeliest!r} of {dict(zip(names, found, strict=True))}"
            exact = outcome_bounds(p, q, x)
            for name, (low, high) in zip(names, exact, strict=True):
                wrong = wrong or first(
                    off(f"{name}_lower", value[f"counterfactual_{name}_lower"][place], low),
                    off(f"{name}_upper", value[f"counterfactual_{name}_upper"][place], high),
                )
            if wrong:
                return f"row {place}: {wrong}"
        return ""

    return check


def _same(label: Any, found: Any) -> bool:
    if isinstance(label, bool) or isinstance(found, bool):
        return isinstance(label, bool) and isinstance(found, bool) and label == found
    return bool(label == found)


def _transitions(means: dict[str, Any], value: Any) -> Check:
    rows = _rows(means)
    size = len(means["labels"])
    law = _law(means, size)
    counts = [[0.0] * size for _ in range(size)]
    for row in rows:
        if row is not None:
            p, q, x = row
            for j, chance in enumerate(law(p, q, x)):
                counts[x][j] += float(chance)
    return lambda: first(
        *(off(f"count[{i}][{j}]", value["counts"][i][j], counts[i][j], 1e-7) for i in range(size) for j in range(size))
    )


def _effects(means: dict[str, Any], value: Any) -> Check:
    """The mean effect and its variance under each coupling, over the rows of a table."""
    rows = [row for row in _rows(means) if row is not None]
    score = [Fraction(each) for each in means["score"]]
    size = len(score)
    scale = max(1.0, *map(abs, means["score"]))
    if not rows:
        raise MustRefuseError("no rows")
    means_of = [sum((b - a) * h for a, b, h in zip(p, q, score, strict=True)) for p, q, _ in rows]
    mean = sum(means_of) / len(rows)

    def variance(law: Law) -> Fraction:
        total = Fraction(0)
        for p, q, _ in rows:
            cells = joint(law, p, q)
            total += sum(cells[i][j] * (score[j] - score[i]) ** 2 for i in range(size) for j in range(size))
        return total / len(rows) - mean**2

    def check() -> str:
        words = {
            "Gumbel-max": "gumbel-max",
            "inverse CDF": "inverse-cdf",
            "maximal": "maximal",
            "independent": "independent",
            "inverse CDF by score": "inverse-cdf-by-score",
        }
        told = {row["coupling"]: row["value"] for row in value["rows"] if row["quantity"] == "effect variance"}
        return first(
            off("mean", value["mean"][0], mean, 1e-9 * scale),
            *(
                off(f"variance, {name}", told[name], variance(law_of(word, size, means["score"])), 1e-8 * scale**2)
                for name, word in words.items()
                if name in told
            ),
            "" if value["num_rows"] == len(rows) else f"{value['num_rows']} rows, {len(rows)} expected",
        )

    return check


def _rows(means: dict[str, Any]) -> list[tuple[World, World, int] | None]:
    """The questions of a table; a row without an answer is refused, or None where such are left out."""
    found: list[tuple[World, World, int] | None] = []
    for p, q, x in zip(means["p"], means["q"], means["x"], strict=True):
        try:
            worlds = _worlds({"p": p, "q": q, "normalise": means.get("normalise", False)})
            if x is None:
                raise MustRefuseError("nothing was seen")
            found.append((*worlds, _seen({"x": x}, worlds[0])))
        except MustRefuseError:
            if not means.get("missing"):
                raise
            found.append(None)
    return found


def _policy(means: dict[str, Any], value: Any) -> Check:
    """Every estimate of a policy's value from a log in a frame; states and actions are told by position."""
    steps = [
        [logs.Step(state, action, after, Fraction(reward)) for state, action, after, reward in each]
        for each in means["episodes"]
    ]
    log = logs.Log(dict(enumerate(steps)), list(range(len(means["policy"]))), list(range(len(means["policy"][0]))))
    policy = {state: dict(enumerate(map(Fraction, row))) for state, row in enumerate(means["policy"])}
    model, horizon, discount = estimates.estimated(log), log.longest, Fraction(1)
    exact = estimates.estimates(log, model, policy, horizon, discount)
    within = estimates.restricted(log, model, policy)
    for word, name in (("gumbel-max", "Gumbel-max"), ("maximal", "maximal")):
        lasting = estimates.compared(log, model, horizon)
        values = estimates.replayed(log, model, within, word, lasting, discount)
        exact[f"counterfactual, {name}"] = sum(values) / len(values)

    def check() -> str:
        told = {each["name"]: each["value"] for each in value["estimates"]}
        return first(
            *(
                ("" if told[name] is None else f"{name} is {told[name]}, nothing expected")
                if number is None
                else off(name, told[name], number, 1e-8)
                for name, number in exact.items()
            )
        )

    return check


def _fine(means: dict[str, Any], value: Any) -> Check:
    del means, value
    return lambda: ""


_ASKED: dict[str, Callable[[dict[str, Any], Any], Check]] = {
    "compare": _compare,
    "row": _row,
    "joint": _joint,
    "outcome bounds": _outcome_bounds,
    "score bounds": _score_bounds,
    "effect": _effect,
    "draws": _draws,
    "table": _table,
    "transitions": _transitions,
    "effects": _effects,
    "policy": _policy,
    "anything": _fine,
}
