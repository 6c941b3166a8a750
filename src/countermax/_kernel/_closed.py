"""Closed forms of rows of a table: what compiled loops have to know, and nothing that needs JAX."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.threads import num_threads
from countermax.couplings._words import rate_in, shown_as

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BOUNDS = ("any", "stable", "none")
_FEW = 4096  # numbers that are done before a second thread has begun
_KINDS = {
    "Gumbel-max": "GUMBEL_MAX",
    "inverse CDF": "INVERSE_CDF",
    "maximal": "MAXIMAL",
    "independent": "INDEPENDENT",
}


class ClosedForm(NamedTuple):
    """A coupling as compiled loops know it."""

    kind: str
    """What they call it; `GIVEN` where something else finds its answers, so that only bounds are left to find."""
    shared: float = 1.0
    """The rate of the clocks that both worlds hear."""
    order: tuple[int, ...] | None = None
    """Of the outcomes on the line, where they are not lined up as they come."""

    @classmethod
    def named(cls, name: str | Path) -> "ClosedForm | None":
        """That of the coupling of this name; None where there is none, or where it takes more than the name."""
        rate, kind = rate_in(name), _KINDS.get(shown_as(name))
        if rate is not None:
            return cls("GUMBEL_MAX", rate)
        return None if kind is None else cls(kind)

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.kind.lower().replace("_", "-")

    @property
    def needs_no_logarithms(self) -> bool:
        """Whether probabilities will do for all but the rarest outcomes."""
        return self.kind in ("GUMBEL_MAX", "INDEPENDENT")


def as_shares(values: Floats, tolerance: float) -> bool:
    """Divides each row by its sum, in place, from left to right; False where a row is none of probabilities.

    Sums may differ from 1 by the tolerance. Where one is refused, some rows have been divided.
    """
    from countermax._kernel import _loops

    return bool(_loops.share_lines(values, tolerance))


def likeliest(probs: Floats) -> Ints:
    """Which outcome has the largest probability, [outcome, row], in each row, the first of equal ones."""
    from countermax._kernel import _loops

    places = np.empty(probs.shape[1], np.int64)
    _loops.likeliest_lines(probs, np.empty(len(places)), places)
    return places


def num_columns(size: int, *, score: bool, bounds: str) -> int:
    """How many numbers `answer_rows` has for each row with so many outcomes."""
    sides = 0 if bounds == "none" else 2
    return size + (1 + sides if score else 0) + sides * size + 1


def closed_rows(
    form: ClosedForm,
    p: Floats,
    q: Floats,
    x: Ints,
    *,
    score: Floats | None = None,
    bounds: str = "any",
    out: Floats | None = None,
    first: int = 0,
    logs: bool = True,
) -> Floats:
    """What a closed form says about each row, beside bounds: one line of numbers for each column.

    The probabilities of all outcomes; with a score its expectation, and its bounds; the lower and the upper bound of
    each probability in turn; last, the slack: how wide the widest bounds over all couplings are. They are written to
    the C-contiguous array `out`, [columns, more rows], from the row `first` on. Worlds are given by log-probabilities;
    without `logs` by probabilities, which is quicker; for forms that need no logarithms.
    """
    if bounds not in BOUNDS:
        raise InputError(f"`bounds` must be one of {', '.join(BOUNDS)}, got {bounds!r}")
    from countermax._kernel import _loops

    size = p.shape[1]
    if out is None:
        out = np.empty((num_columns(size, score=score is not None, bounds=bounds), len(x)))
    arguments = (as_asked(form, size, score, bounds != "none", logs), *plain(p, q, x), out, first)
    in_strips(_loops.answer_lines, arguments, len(x), len(out))
    if bounds == "stable":
        in_strips(_loops.stable_lines, arguments, len(x), len(out))
    return out[:, first : first + len(x)]


def as_asked(form: ClosedForm, size: int, score: Floats | None, bounded: bool, logs: bool) -> Any:
    """What compiled loops have to know."""
    from countermax._kernel import _loops

    order = np.arange(size) if form.order is None else np.array(form.order, np.int64)
    scores = np.zeros(0) if score is None else np.asarray(score, np.float64)[order]
    by_score = np.stack([np.argsort(scores, kind="stable"), np.argsort(-scores, kind="stable")])
    kind = getattr(_loops, form.kind)
    return _loops.Asked(kind, form.shared, order, np.argsort(order), scores, by_score, bounded, logs)


def plain(*arrays: NDArray) -> list[NDArray]:
    """Writable C-contiguous arrays of one kind: code is compiled once for each kind."""
    kinds = (np.float64 if each.dtype.kind == "f" else np.int64 for each in arrays)
    return [np.require(each, kind, ["C", "W"]) for each, kind in zip(arrays, kinds, strict=True)]


def in_strips(loop: Callable[..., Any], arguments: tuple[Any, ...], count: int, work: int) -> list[Any]:
    """Calls a compiled loop over so many rows, in as many threads as pay; `work` is how many numbers a row has."""
    strips = min(num_threads(), -(-count * work // _FEW))
    if strips < 2:
        return [loop(*arguments, 0, count)]
    edges = [count * strip // strips for strip in range(strips + 1)]
    with ThreadPoolExecutor(strips) as pool:
        return list(pool.map(lambda edge: loop(*arguments, *edge), pairwise(edges)))
