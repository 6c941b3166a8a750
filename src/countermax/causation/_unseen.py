"""Limits from a trial and people who chose, whatever the outcomes were that are missing in either.

Whoever has no outcome may have had any. So what is known of an outcome is how many had it at least: in each arm of the
trial, and of those who chose each arm. Laws of both outcomes in the groups of those who chose that give everybody at
least as many are the feasible points of a linear program; its dual says what each number that is known is worth.
Every feasible point of the dual is a limit for all data, so that those that are found near the estimates are pieces.
"""

from functools import lru_cache

import numpy as np

from countermax.bounds import Pieces
from countermax.causation._evidence import Evidence
from countermax.causation._limits import Term
from countermax.causation._questions import Floats

_FARTHEST = 4.0  # price of an outcome, in the range of the worth and by outcome; what is dearer says that nothing fits
_DIGITS = 9


def is_unseen(evidence: Evidence) -> bool:
    """Whether there are both sources, and outcomes are missing."""
    return evidence.unknown and evidence.choices is not None


def unseen_pieces(worth: Floats, counted: tuple[float, float, float], data: list[Evidence]) -> Pieces:
    """Pieces of the largest total worth: those that bind in the worlds of the `data`.

    Args:
        worth: A number for each pair of outcomes.
        counted: Weights of people in control, with the treatment and elsewhere.
        data: Evidence with both sources, whose last outcome is that none is known.
    """
    worlds = np.concatenate([_known(each).reshape(-1, 3 + 4 * len(worth)) for each in data])
    found = [_prices(worth.tobytes(), len(worth), counted, world.tobytes()) for world in worlds]
    near = [each for each in found if each[3:].max() < _farthest(worth) / 2] or found
    prices = np.unique(np.round(near, _DIGITS), axis=0)
    groups, size = prices[:, :3], len(worth)
    seen_control, seen_treated, control, treated = (prices[:, 3 + k * size : 3 + (k + 1) * size] for k in range(4))
    nothing = np.zeros((len(prices), 1))
    return Pieces(
        np.concatenate([groups[:, :1] - seen_control, groups[:, :1], -control, nothing, groups[:, 2:]], axis=1),
        np.concatenate([groups[:, 1:2] - seen_treated, groups[:, 1:2], -treated, nothing], axis=1),
    )


def unseen_term(pieces: Pieces, evidence: Evidence) -> Term:
    """The masses that such pieces count."""
    others = np.asarray(evidence.chosen.elsewhere)[..., None]
    rows = np.concatenate([evidence.chosen.control, evidence.arms.control, others], axis=-1)
    return Term(1.0, pieces, rows, np.concatenate([evidence.chosen.treated, evidence.arms.treated], axis=-1))


def _known(evidence: Evidence) -> Floats:
    """How many chose what, and had which outcome at least."""
    laws = evidence.chosen.control, evidence.chosen.treated, evidence.arms.control, evidence.arms.treated
    groups = [*(each.sum(axis=-1) for each in laws[:2]), np.asarray(evidence.chosen.elsewhere)]
    return np.concatenate([np.stack(groups, axis=-1), *(each[..., :-1] for each in laws)], axis=-1)


def _farthest(worth: Floats) -> float:
    return _FARTHEST * len(worth) * max(float(np.ptp(worth)), 1e-12)


@lru_cache(maxsize=4096)
def _prices(data: bytes, size: int, counted: tuple[float, float, float], known: bytes) -> Floats:
    """Prices of being in each group, less those of each outcome that is known: the cheapest that pay every worth."""
    from scipy.optimize import linprog

    worth = np.frombuffer(data).reshape(size, size)
    rows, limits = [], []
    for group, weight in enumerate(counted):
        for i, j in np.ndindex(size, size):
            row = np.zeros(3 + 4 * size)
            row[group] = -1.0
            row[[3 + 2 * size + i, 3 + 3 * size + j]] = 1.0
            if group < 2:
                row[3 + i if group == 0 else 3 + size + j] = 1.0
            rows.append(row)
            limits.append(-weight * worth[i, j])
    cost = np.frombuffer(known) * np.append(np.ones(3), -np.ones(4 * size))
    bounds: list[tuple[float | None, float | None]] = [(None, None)] * 3 + [(0.0, _farthest(worth))] * (4 * size)
    if not cost[2] > 0:  # nobody is elsewhere, whose price then is the least that pays
        cost[2] = 1e-12
    found = linprog(cost, A_ub=np.array(rows), b_ub=np.array(limits), bounds=bounds, method="highs")
    assert found.status == 0, found.message
    return np.asarray(found.x)
