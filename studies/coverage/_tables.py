"""Everything that a table of counts and its fitted probabilities say, for many tables at once."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from countermax._core.extras import import_pandas
from countermax.tables import counterfactuals
from studies.coverage._logistic import fit_tables, predict_tables

Floats = NDArray[np.float64]
Range = tuple[Any, Any]

LABELS = ("worse", "same", "better")
SCORE = np.array([0.0, 1.0, 2.0])
AGES = (-1.0, 0.0, 1.0)
CELLS = np.array([(age, treated) for age in AGES for treated in (0.0, 1.0)])
"""Age and treatment of the people in each cell of a table."""
TREATED = np.column_stack([CELLS[:, 0], np.ones(len(CELLS))])
"""The same, if everybody was treated."""
COUPLINGS = ("gumbel-max", "inverse-cdf", "maximal", "independent")

_UNTREATED = CELLS[:, 1] == 0


def numbers(counts: Floats, p: Floats, q: Floats) -> dict[str, Range]:
    """The least and the largest of every number of each table: twice the same where the coupling is known.

    Args:
        counts: Number of people in each cell with each outcome, [tables, cells, outcomes].
        p: Probabilities of the outcomes in each cell.
        q: The same, if everybody was treated.
    """
    people = counts.sum(axis=(1, 2))
    share = counts[:, _UNTREATED].sum(axis=2) / people[:, None]  # of people who would change
    p, q = p[:, _UNTREATED], q[:, _UNTREATED]
    effect = (q - p) @ SCORE
    mean = (effect * share).sum(axis=1)
    result: dict[str, Range] = {"mean effect": (mean, mean)}

    def variance(squares: Floats) -> Floats:
        return np.asarray((squares * share).sum(axis=1) - mean**2)

    for coupling in COUPLINGS:
        ((given, _),) = _answers(p, q, coupling, "none")
        loss = (SCORE[:, None] - SCORE) ** 2
        result[f"variance {coupling}"] = (variance((p[..., None] * given * loss).sum(axis=(2, 3))),) * 2
    result["any coupling: variance"] = variance(_squares(p, q, opposed=False)), variance(_squares(p, q, opposed=True))
    (given, _), any_coupling = _answers(p, q, COUPLINGS[0], "any")
    _, stable = _answers(p, q, COUPLINGS[0], "stable")
    families = {"": (given, given), "any coupling: ": any_coupling, "stable couplings: ": stable}
    for family, limits in families.items():
        for place, seen in enumerate(LABELS):
            among = counts[:, _UNTREATED, place]
            kept = counts[:, ~_UNTREATED, place].sum(axis=1)
            for column, other in enumerate(LABELS):
                change = f"{seen} to {other}"
                cells = [each[:, :, place, column] for each in limits]
                if family != "stable couplings: ":
                    same = kept if place == column else 0.0
                    total = among.sum(axis=1) + kept
                    result[f"{family}share {change}"] = tuple(
                        ((each * among).sum(axis=1) + same) / total for each in cells
                    )
                for age, each in zip(AGES, zip(*(cell.T for cell in cells), strict=True), strict=True):
                    result[f"{family}answer {change}, age {age:g}"] = each
    return result


def percentiles(counts: Floats, number: int, level: float, stream: np.random.Generator) -> dict[str, Range]:
    """The percentile bootstrap of every number: people are drawn again, and the regression is fitted again."""
    drawn = stream.multinomial(int(counts.sum()), counts.ravel() / counts.sum(), number)
    again = drawn.reshape(number, *counts.shape).astype(np.float64)
    again = again[(again.sum(axis=1) > 0).all(axis=1)]  # every outcome was seen
    found = numbers(again, *fitted(again))
    tail = (1 - level) / 2
    return {
        name: (float(np.quantile(low, tail)), float(np.quantile(high, 1 - tail))) for name, (low, high) in found.items()
    }


def fitted(counts: Floats) -> tuple[Floats, Floats]:
    """Fitted probabilities of each cell as it is, and if everybody was treated."""
    coefficients = fit_tables(CELLS, counts)
    return predict_tables(CELLS, coefficients), predict_tables(TREATED, coefficients)


def _answers(p: Floats, q: Floats, coupling: str, bounds: str) -> tuple[tuple[Floats, Floats], ...]:
    """Answers and, where asked for, their bounds: each twice [tables, ages, seen, other]."""
    size = len(LABELS)
    log = [np.repeat(each.reshape(-1, size), size, axis=0) for each in (p, q)]
    frame = import_pandas().DataFrame({"status": np.tile(LABELS, len(log[0]) // size)})
    rows: Mapping[str, Any] = counterfactuals(
        frame, outcome="status", factual=log[0], counterfactual=log[1], coupling=coupling, labels=LABELS,
        bounds=bounds, progress=False,
    )  # fmt: skip

    def columns(side: str) -> Floats:
        found = np.stack([rows[f"counterfactual_{label}{side}"].to_numpy() for label in LABELS], axis=1)
        return found.reshape(*p.shape[:2], size, size)

    given = columns(""), columns("")
    return (given,) if bounds == "none" else (given, (columns("_lower"), columns("_upper")))


def _squares(p: Floats, q: Floats, *, opposed: bool) -> Floats:
    """Expected squared effects where quantiles are coupled, or opposite ones: the least and the largest."""
    other = SCORE[::-1] if opposed else SCORE
    above, aside = np.cumsum(p, axis=-1), np.cumsum(q[..., ::-1] if opposed else q, axis=-1)
    below = np.minimum(above[..., :, None], aside[..., None, :])
    padded = np.pad(below, [(0, 0)] * (below.ndim - 2) + [(1, 0), (1, 0)])
    joint = np.diff(np.diff(padded, axis=-1), axis=-2)
    return np.asarray((joint * (SCORE[:, None] - other) ** 2).sum(axis=(-2, -1)))
