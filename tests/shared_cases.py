"""Questions that every implementation of a formula is asked: JAX, the compiled loops and the explorer's page.

Random worlds with zeros and ties, rare and extreme ones, and what the fuzzer found. A question is a dictionary of
weights `p` and `q` (not normalised), the position `x` of what was seen, and a `score`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

RAREST = 1e-3
"""Least probability of what is seen in random questions: an answer given something rarer has lost digits."""

Question = dict[str, Any]

FOUND: list[Question] = [
    # A seen outcome of rate 1e-11 beside one of probability nearly one: all of it leaves, and all goes there.
    {"p": [2.94, 0.0, 2.0000000000000003e-06, 380000000000.0], "q": [0.0, 0.0, 0.0, 1e-05], "x": 0},
    {"p": [0.61, 0.39, 0.0, 0.0], "q": [0.3333333333333333, 0.0, 0.3333333333333333, 0.3333333333333333], "x": 0},
    {"p": [0.8953414531569864, 0.0483345318066435, 0.03502579847918965, 0.02129821655718041], "q": [1.0] * 4, "x": 2},
    {"p": [0.1, 0.2, 0.7], "q": [0.3, 0.6, 0.1], "x": 0},  # 0.3 / 0.1 and 0.6 / 0.2 are equal
    {"p": [1.0, 0.0], "q": [0.0, 1.0], "x": 0},
    {"p": [0.0, 0.0, 1.0], "q": [0.0, 0.0, 1.0], "x": 2},
    {"p": [1e-300, 1.0, 1e-9], "q": [1e-9, 1.0, 1e-300], "x": 2},
    {"p": [1.0, 1e-17, 1e-20], "q": [1.0, 1e-20, 1e-17], "x": 1},
    {"p": [0.5, 0.5 - 1e-13, 1e-13], "q": [0.5 - 1e-13, 0.5, 1e-13], "x": 2},
]
"""What once went wrong somewhere, or nearly did."""
for _each in FOUND:
    _each["score"] = [float(place) for place in range(len(_each["p"]))]


def random_questions(number: int, seed: int) -> list[Question]:
    """Questions over 2 to 8 outcomes: weights and counts, impossible outcomes, equal worlds, ratios and scores."""
    stream = np.random.default_rng(seed)
    return [_question(stream) for _ in range(number)]


def _question(stream: np.random.Generator) -> Question:
    size = int(stream.integers(2, 9))
    while True:
        if stream.random() < 0.5:
            p, q = (stream.integers(0, 12, size).astype(float) for _ in range(2))  # small counts: ties all over
        else:
            p, q = (stream.dirichlet(np.full(size, stream.choice([0.3, 1.0, 5.0]))) for _ in range(2))
        for world in (p, q):
            world[stream.random(size) < 0.15] = 0.0
        if stream.random() < 0.2:  # some outcomes have one ratio
            some = stream.random(size) < 0.5
            q = np.where(some, p * stream.choice([0.5, 1.0, 3.0]), q)
        if stream.random() < 0.05:
            q = p.copy()
        if p.sum() <= 0 or q.sum() <= 0:
            continue
        seen = np.flatnonzero(p / p.sum() >= RAREST)
        if not len(seen):
            continue
        score = stream.normal(size=size) if stream.random() < 0.5 else stream.integers(-2, 4, size).astype(float)
        rho = float(stream.choice([0.0, 1.0, stream.random()], p=[0.1, 0.1, 0.8]))
        return {
            "p": p.tolist(),
            "q": q.tolist(),
            "x": int(stream.choice(seen)),
            "score": score.tolist(),
            "rho": rho,
        }


def extreme_logits(size: int, number: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Normalised log-probabilities [question, outcome] of two worlds with outcomes of any rarity, some impossible."""
    stream = np.random.default_rng(seed)
    spread = stream.choice([1.0, 10.0, 40.0, 1000.0], (number, 1))
    p, q = spread * stream.normal(size=(2, number, size))
    q = np.where(stream.random((number, 1)) < 0.3, p + stream.choice([1e-12, 1e-3, 1.0]) * (q / spread), q)
    for world in (p, q):
        world[stream.random((number, size)) < 0.1] = -np.inf
        world[np.isinf(world).all(axis=1), 0] = 0.0
    return log_probs(p), log_probs(q)


def log_probs(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normalised along the last axis, in a way that keeps the digits of a probability of nearly one."""
    order = np.argsort(logits, axis=-1)
    ordered = np.take_along_axis(logits, order, axis=-1)
    rest = np.exp(ordered[..., :-1] - ordered[..., -1:]).sum(axis=-1, keepdims=True)
    return logits - ordered[..., -1:] - np.log1p(rest)
