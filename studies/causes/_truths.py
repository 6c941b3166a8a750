"""Truths that data are drawn from: trials, people who chose, strata, clusters, missing outcomes, a classifier."""

from typing import NamedTuple

LEVEL = 0.95
SEED = 20261117
"""Seed of samples on which no rule was tried."""


class CausalTruth(NamedTuple):
    """What is true: in each stratum how outcomes are distributed without the treatment and with it."""

    control: tuple[tuple[float, ...], ...]
    treated: tuple[tuple[float, ...], ...]
    event: tuple[int, ...]
    size: int
    """People in each arm; of a second source, as many as in both."""
    choices: tuple[tuple[float, ...], ...] | None = None
    """P(chose, had) in each stratum, control first, where people who chose are observed, too. One number more is that
    for people who chose something else."""
    cluster: int = 0
    """People in each cluster; 0 for independent people."""
    tilt: tuple[float, ...] | None = None
    """How two kinds of people, or of clusters, differ from the mean. The first is sampled twice as often and weighs
    half as much."""
    mix: tuple[float, ...] | None = None
    """Shares of the strata among people who chose; in the trial they are equal."""
    people: str | None = None
    """Whom questions are about; by default those who chose where they were observed."""
    lost: tuple[tuple[float, ...], ...] | None = None
    """P(outcome is missing | outcome) in each arm, and among those who chose it."""
    missing: str = "refuse"
    """Treatment of missing outcomes."""
    couplings: tuple[str, ...] = ()
    """Couplings whose own answers have intervals, too."""
    cost: float = 0.1
    """Seconds that a sample takes, roughly."""
    samples: int = 2000
    seed: int = SEED


class RowTruth(NamedTuple):
    """A logistic truth with a covariate, to which a classifier is fitted, and fitted again."""

    effect: float
    """What the treatment adds to the logits of the last outcome, half as much to those of the one before it."""
    rows: int = 200
    refits: int = 200
    cost: float = 0.45
    samples: int = 2000
    seed: int = SEED


ALL_COUPLINGS = ("gumbel-max", "inverse-cdf", "maximal", "independent")

_EVEN, _FALLING = (0.1, 0.2, 0.3, 0.4), (0.4, 0.3, 0.2, 0.1)
_KINKS = ((0.5, 0.3, 0.2), (0.5, 0.2, 0.3), (0.5, 0.25, 0.25), (0.2, 0.3, 0.5), (0.3, 0.2, 0.5))
_SICK, _SHARES, _FIT = (0.45, 0.35, 0.2), (0.35, 0.4, 0.25), (0.2, 0.32, 0.48)
_MIXED = ((0.3, 0.3, 0.4), (0.5, 0.2, 0.3), (0.6, 0.25, 0.15), (0.2, 0.3, 0.5), (0.1, 0.2, 0.7))
_CHOSE = ((0.45, 0.1, 0.1, 0.35), (0.3, 0.1, 0.2, 0.4), (0.2, 0.3, 0.1, 0.4))
_ELSEWHERE = ((0.35, 0.1, 0.1, 0.3, 0.15), (0.25, 0.1, 0.15, 0.3, 0.2), (0.2, 0.2, 0.1, 0.4, 0.1))
_THREE = ((0.7, 0.3), (0.6, 0.4), (0.5, 0.5)), ((0.4, 0.6), (0.4, 0.6), (0.35, 0.65))
_LOST, _LOST_BY_CHANCE = ((0.2, 0.1, 0.05), (0.05, 0.1, 0.1)), ((0.15, 0.15, 0.15), (0.1, 0.1, 0.1))
TRUTHS: dict[str, CausalTruth] = {
    "no effect, 2 outcomes": CausalTruth(((0.6, 0.4),), ((0.6, 0.4),), (1,), 50, cost=0.08),
    "clear effect, 4 outcomes": CausalTruth((_FALLING,), (_EVEN,), (2, 3), 50, cost=0.2),
    "rare event": CausalTruth(((0.99, 0.01),), ((0.96, 0.04),), (1,), 400, cost=0.08),
    "two sources, 2 outcomes": CausalTruth(((0.7, 0.3),), ((0.4, 0.6),), (1,), 400, _CHOSE[:1], cost=0.15),
    "3 strata, no effect": CausalTruth((_SICK, _SHARES, _FIT), (_SICK, _SHARES, _FIT), (2,), 150, cost=0.02),
    "5 strata, no effect, kinks": CausalTruth(_KINKS, _KINKS, (2,), 250, cost=0.02),
    "5 strata, mixed effects": CausalTruth(_KINKS, _MIXED, (2,), 250, cost=0.02),
    "3 strata, two sources": CausalTruth(*_THREE, (1,), 300, _CHOSE, cost=0.04),
    "clusters, weights": CausalTruth(
        ((0.4, 0.35, 0.25),),
        ((0.3, 0.3, 0.4),),
        (2,),
        400,
        cluster=10,
        tilt=(-0.15, 0.0, 0.15),
        cost=0.11,
    ),
    "clusters, weights, 3 strata": CausalTruth(
        (_SICK, _SHARES, _FIT),
        (_SICK, _FIT, _FIT),
        (2,),
        600,
        cluster=10,
        tilt=(-0.1, 0.0, 0.1),
        cost=0.05,
    ),
    "clusters, weights, two sources": CausalTruth(
        ((0.7, 0.3),), ((0.4, 0.6),), (1,), 400, _CHOSE[:1], cluster=10, tilt=(-0.05, 0.05), cost=0.06
    ),
    "some chose something else": CausalTruth(((0.7, 0.3),), ((0.4, 0.6),), (1,), 400, _ELSEWHERE[:1], cost=0.15),
    "some chose something else, 3 strata": CausalTruth(*_THREE, (1,), 300, _ELSEWHERE, cost=0.03),
    "another population, 3 strata": CausalTruth(*_THREE, (1,), 300, _CHOSE, mix=(0.6, 0.3, 0.1), cost=0.04),
    "people of the trial, two sources": CausalTruth(
        *_THREE, (1,), 300, _CHOSE, mix=(0.6, 0.3, 0.1), people="trial", cost=0.03
    ),
    "missing outcomes, worst": CausalTruth((_SICK,), (_FIT,), (2,), 150, lost=_LOST, missing="worst", cost=0.4),
    "missing outcomes, worst, 3 strata": CausalTruth(
        (_SICK, _SHARES, _FIT), (_SICK, _FIT, _FIT), (2,), 200, lost=_LOST, missing="worst", cost=0.03
    ),
    "missing outcomes, worst, two sources": CausalTruth(
        ((0.7, 0.3),),
        ((0.4, 0.6),),
        (1,),
        400,
        _CHOSE[:1],
        lost=((0.1, 0.05), (0.05, 0.1)),
        missing="worst",
        cost=0.6,
    ),
    "missing outcomes, left out": CausalTruth(
        (_SICK,), (_FIT,), (2,), 150, lost=_LOST_BY_CHANCE, missing="drop", cost=0.1
    ),
    "couplings, no effect": CausalTruth((_SHARES,), (_SHARES,), (2,), 100, couplings=ALL_COUPLINGS, cost=0.35),
    "couplings, clear effect": CausalTruth((_SICK,), (_FIT,), (2,), 100, couplings=ALL_COUPLINGS, cost=0.35),
    "couplings, two sources": CausalTruth(
        ((0.7, 0.3),), ((0.4, 0.6),), (1,), 400, _CHOSE[:1], couplings=ALL_COUPLINGS, cost=0.35
    ),
    "couplings, 3 strata, no effect": CausalTruth(
        (_SICK, _SHARES, _FIT), (_SICK, _SHARES, _FIT), (2,), 150, couplings=ALL_COUPLINGS, cost=0.04
    ),
    "couplings, 5 strata, mixed effects": CausalTruth(_KINKS, _MIXED, (2,), 250, couplings=ALL_COUPLINGS, cost=0.05),
}
ROWS: dict[str, RowTruth] = {
    "rows, refit, no effect": RowTruth(0.0),
    "rows, refit, small effect": RowTruth(0.6),
    "rows, refit, clear effect": RowTruth(1.5),
}
