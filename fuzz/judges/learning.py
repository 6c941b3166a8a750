"""`countermax train` and `countermax evaluate`: what is known of a task without drawing pairs."""

import json
import math
import tomllib
from typing import Any

from fuzz.case import Case, Failure
from fuzz.hands import Outcome
from fuzz.hygiene import dirty, refused
from fuzz.judges.common import answered, first, odd_text, off, taken_apart
from fuzz.second import programs
from fuzz.second.laws import joint, law_of, world_of_logits

_SINGLE = 2e-4  # trainings, and what they are measured by, are in single precision
_WORDS = {
    "Gumbel-max": "gumbel-max",
    "inverse CDF": "inverse-cdf",
    "inverse CDF by score": "inverse-cdf-by-score",
    "maximal": "maximal",
    "independent": "independent",
}
_DIVERGED = 1


def judge_training(case: Case, outcome: Outcome) -> Failure | None:
    """A folder with everything, or none that looks finished."""
    line = taken_apart(case.argv)
    out = line.option("--out", "countermax-run") or ""
    found = dirty(case, outcome, outputs=[f"{out.rstrip('/')}/"], statuses=[_DIVERGED])
    if found is not None and not (outcome.status == _DIVERGED and "checkpoint" in found.words):
        return found
    found = _told(case, outcome)
    if found is not None or outcome.status != 0:
        return found
    record = outcome.files.get(f"{out.rstrip('/')}/run.json")
    if record is None:
        return Failure("partial output", "no run.json, and exit status 0")
    try:
        content = json.loads(record, parse_constant=_constant)
    except ValueError as error:
        return Failure("wrong answer", f"run.json: {error}")
    wrong = _wrong_evaluation(case, line.positional[0], content["evaluation"])
    return Failure("wrong answer", wrong) if wrong else None


def judge_evaluation(case: Case, outcome: Outcome) -> Failure | None:
    """Losses of couplings on common pairs."""
    line = taken_apart(case.argv)
    out = line.option("--out")
    found = dirty(case, outcome, outputs=[f"{out.rstrip('/')}/"] if out else []) or _told(case, outcome)
    if found is not None or outcome.status != 0:
        return found
    if "--json" not in line.flags:
        wrong = odd_text(case, outcome)
    else:
        content = answered(outcome)
        files = case.means.get("couplings", 0)
        wrong = _wrong_evaluation(case, line.positional[0], content)
        fixed = len(set(_WORDS) & set(content["by_coupling"]))
        if not wrong and len(content["by_coupling"]) != fixed + files + 1:
            wrong = f"rows {list(content['by_coupling'])} for {files} files"
    return Failure("wrong answer", wrong) if wrong else None


def _told(case: Case, outcome: Outcome) -> Failure | None:
    """Whether what is known to be good, or bad, was taken for that."""
    if case.means.get("refuse") and not refused(outcome):
        return Failure("accepted", str(case.means["refuse"]))
    if case.means.get("good") and refused(outcome) and outcome.status != _DIVERGED:
        return Failure("refused", outcome.stderr.decode("utf-8", "replace").strip()[:400])
    return None


def _constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _wrong_evaluation(case: Case, config: str, found: dict[str, Any]) -> str:
    rows = found["by_coupling"]
    for name, row in rows.items():
        if row["loss"] is None or not math.isfinite(row["loss"]):
            return f"the loss of {name} is {row['loss']}"
    least = rows["optimum"]["loss"]
    scale = max(1.0, *(abs(row["loss"]) for row in rows.values()))
    for name, row in rows.items():
        if row["loss"] < least - _SINGLE * scale:
            return f"the loss of {name} is {row['loss']}, below the optimum {least}"
    task = tomllib.loads(case.files[config].decode()).get("task", {})
    if task.get("pairs") != "fixed":
        return ""
    p, q = world_of_logits(task["p"]), world_of_logits(task["q"])
    size = len(p)
    score = task.get("score", list(range(size)))
    kind = task.get("loss", "squared-difference")
    if kind == "squared-difference":
        vectors = [each if isinstance(each, list) else [each] for each in score]
        loss = [[math.fsum((a - b) ** 2 for a, b in zip(u, v, strict=True)) for v in vectors] for u in vectors]
    elif kind == "disagreement":
        loss = [[float(i != j) for j in range(size)] for i in range(size)]
    else:
        loss = task["matrix"]
    scalar = score if kind == "squared-difference" and not isinstance(score[0], list) else None
    limit = _SINGLE * max(1.0, *(abs(each) for row in loss for each in row))
    wrong = off("the optimum", least, programs.least_loss([*map(float, p)], [*map(float, q)], loss), limit)
    for name, word in _WORDS.items():
        if name in rows and (scalar is not None or "score" not in name):
            cells = joint(law_of(word, size, scalar), p, q)
            exact = math.fsum(float(cells[i][j]) * loss[i][j] for i in range(size) for j in range(size))
            wrong = first(wrong, off(f"the loss of {name}", rows[name]["loss"], exact, limit))
    return wrong
