"""Does Gumbel-max keep the outcome as often as it could? Corollary 1 of Lorberbom et al. (2021), as a function."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool

from countermax import race
from countermax._core.checks import as_answer, as_log_prob_pair
from countermax._core.types import Logits, Probs, Scalar
from countermax.bounds._stable import ratio_tie


class MaximalityGap(NamedTuple):
    """How often the outcome stays the same, under Gumbel-max and at best."""

    gumbel_max: Scalar
    """P(X=Y) under Gumbel-max."""
    maximal: Scalar
    """P(X=Y) under a maximal coupling, the most that any coupling has. Never more than twice `gumbel_max`."""
    gap_by_outcome: Probs
    """min(p_i, q_i) - P(X=Y=i): what Gumbel-max misses at each outcome."""
    is_maximal: Bool[Array, ""]
    """Whether Gumbel-max is a maximal coupling of this pair."""

    @property
    def gap(self) -> Scalar:
        """By how much Gumbel-max misses the maximum."""
        return self.gap_by_outcome.sum()


def maximality_gap(p: Logits, q: Logits) -> MaximalityGap:
    """Says whether Gumbel-max is maximal for `p` and `q`, and by how much it misses.

    Corollary 1: it misses at outcome i exactly if the ratios `p_j / p_i` and `q_j / q_i` disagree about which world
    favours j, for different j. In other words it is maximal if and only if every outcome that both worlds can have has
    the smallest or the largest ratio `q_i / p_i` of all. So it always is for two outcomes, and for p = q.
    """
    log_p, log_q = as_log_prob_pair(p, q)
    somewhere = (log_p > -jnp.inf) | (log_q > -jnp.inf)
    log_ratio = jnp.where(somewhere, log_q - log_p, 0)
    smallest = jnp.where(somewhere, log_ratio, jnp.inf).min()
    largest = jnp.where(somewhere, log_ratio, -jnp.inf).max()
    known = jnp.isfinite(log_ratio)
    tie = ratio_tie(jnp.where(known, log_ratio, 0), jnp.where(known, log_p, 0))
    extreme = (log_ratio <= smallest + tie) | (log_ratio >= largest - tie)
    shared = (log_p > -jnp.inf) & (log_q > -jnp.inf)
    kept = race.agreement_by_outcome(log_p, log_q)
    best = jnp.exp(jnp.minimum(log_p, log_q))
    gap = MaximalityGap(kept.sum(), best.sum(), jnp.maximum(best - kept, 0), (extreme | ~shared).all())
    return as_answer("the gap", gap)
