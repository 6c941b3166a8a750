"""Random questions with zeros and ties, and what the library answers to them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax import SharedGumbelMax, Trial, Worlds

Floats = NDArray[np.float64]
COUPLINGS = ("Gumbel-max", "inverse CDF", "inverse CDF by score", "maximal", "independent")
"""Those of the page, beside its dial."""


def library_answer(question: dict[str, Any]) -> dict[str, Any]:
    """Every number that the page shows, from the library."""
    found = Worlds(question["p"], question["q"], score=question["score"], normalise=True).compare(
        question["x"], couplings="all"
    )
    numbers = by_coupling(found, lambda row: row.value if row.lower is None else (row.lower, row.upper))
    answers = {name: {**numbers[name], "joint": found.joints[name]} for name in found.joints}
    answers["dial"] = _on_the_dial(found.p, found.q, question)
    for each in answers.values():
        each["correlation"] = _correlation(each["joint"], found.p, found.q, np.asarray(question["score"]))
    return {
        "answers": answers,
        "bounds": numbers["any coupling"],
        "stable": numbers["stable couplings"],
        "win_probability": found.row("win probability").value,
    }


def by_coupling(found: Any, number: Any) -> dict[str, dict[str, Any]]:
    """Numbers of a result as the page has them: by coupling, then by name; of `better` and `worse` everybody's."""
    result: dict[str, dict[str, Any]] = {}
    for row in sorted(found.rows, key=lambda row: row.quantity):  # outcomes in their own order, which are digits
        each = result.setdefault(row.coupling, {})
        if row.quantity.startswith("P("):
            each.setdefault("probabilities", []).append(number(row))
        elif row.quantity != "same" and (row.quantity not in ("better", "worse") or row.about == "everybody"):
            each[row.quantity.replace(" ", "_")] = number(row)
    for each in result.values():
        if "probabilities" in each:
            pairs = np.array(each["probabilities"], float)
            each["probabilities"] = pairs if pairs.ndim == 1 else tuple(pairs.T)
    return result


def _on_the_dial(p: Floats, q: Floats, question: dict[str, Any]) -> dict[str, Any]:
    joint, score, seen = dial(p, q, question["rho"]), np.asarray(question["score"]), question["x"]
    row = joint[seen] / joint[seen].sum()
    difference = score[None, :] - score[:, None]
    mean = (joint * difference).sum()
    return {
        "probabilities": row,
        "joint": joint,
        "agreement": np.trace(joint),
        "expected_score": row @ score,
        "effect": row @ score - score[seen],
        "effect_variance": (joint * (difference - mean) ** 2).sum(),
        "better": joint[difference > 0].sum(),
        "worse": joint[difference < 0].sum(),
    }


def dial(p: Floats, q: Floats, rho: float) -> Floats:
    """The law with own clocks of rate 1 - rho and shared ones of rate rho: its formula, written out term by term."""
    both = p + q
    share = np.where(both > 0, p / np.where(both > 0, both, 1), 0.5)

    def race(u: float) -> float:
        return (1 - rho) + rho * float(np.maximum((1 - u) * p, u * q).sum())

    def clock(end: float) -> float:
        edges = sorted({0.0, end, *(float(t) for t in share if t < end)})
        return sum((b - a) / (race(a) * race(b)) for a, b in zip(edges, edges[1:], strict=False))

    whole, at = clock(1.0), [clock(float(t)) for t in share]
    joint = np.zeros((len(p), len(p)))
    for i in range(len(p)):
        for j in range(len(p)):
            if i == j:
                stay = rho / (both[i] * race(float(share[i]))) if both[i] > 0 else 0.0
                joint[i, j] = p[i] * q[i] * ((1 - rho) * whole + stay)
            else:
                terms = (1 - rho) ** 2 * whole + rho * (1 - rho) * (at[i] + whole - at[j])
                joint[i, j] = p[i] * q[j] * (terms + rho**2 * max(0.0, at[i] - at[j]))
    return joint


def _correlation(joint: Floats, p: Floats, q: Floats, score: Floats) -> float | None:
    here, there = score - p @ score, score - q @ score
    scale = np.sqrt((p @ here**2) * (q @ there**2))
    return None if scale <= 1e-12 else float(here @ joint @ there / scale)


def random_counts(number: int, seed: int) -> list[dict[str, Any]]:
    """Samples over 2 to 8 outcomes, of 3 to 60,000 people in either arm; some outcomes nobody had, some arms alike."""
    stream = np.random.default_rng(seed)
    found: list[dict[str, Any]] = []
    while len(found) < number:
        size = int(stream.integers(2, 9))
        people = stream.choice([3, 10, 30, 100, 1000, 60_000], 2, p=[0.1, 0.2, 0.25, 0.2, 0.2, 0.05])
        p, q = (stream.dirichlet(np.full(size, stream.choice([0.3, 1.0, 3.0]))) for _ in range(2))
        counts = [stream.multinomial(number, law) for number, law in zip(people, (p, q), strict=True)]
        counts[1] = stream.choice([counts[0], counts[1], stream.multinomial(people[1], p)], p=[0.1, 0.7, 0.2])
        seen = int(stream.integers(size))
        if counts[0][seen] == 0 and stream.random() < 0.8:
            continue
        score = stream.integers(-2, 4, size).astype(float) if stream.random() < 0.5 else stream.normal(size=size)
        found.append(
            {
                "p": counts[0].tolist(),
                "q": counts[1].tolist(),
                "x": seen,
                "score": score.tolist(),
                "rho": int(stream.integers(65)) / 64,  # exact in single precision, in which the library keeps it
                "level": float(stream.choice([0.9, 0.95, 0.999])),
            }
        )
    return found


def library_intervals(question: dict[str, Any]) -> dict[str, Any]:
    """Limits of every interval that the page shows, from the library, as the page has them."""
    trial = Trial.from_counts(question["p"], question["q"], score=question["score"])
    couplings = {name: name for name in COUPLINGS} | {"dial": SharedGumbelMax(question["rho"])}
    found = trial.compare(question["x"], couplings=couplings, level=question.get("level", 0.95))
    ends = by_coupling(found, lambda row: (row.ci_lower, row.ci_upper))
    return {
        "answers": {name: ends[name] for name in couplings},
        "bounds": ends["any coupling"],
        "stable": ends["stable couplings"],
        "win_probability": ends[""]["win_probability"],
    }
