"""From a matrix of scores to conditional distributions p(x | z) with exact marginals, in log space.

Balancing brings the columns near p; a correction then makes them exact for every matrix and every number of rounds.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from countermax._core.types import LogProbs

Conditionals = Float[Array, "z k"]


def balance(
    scores: Float[Array, "z k"],
    log_p: LogProbs,
    log_latents: Float[Array, " z"],
    *,
    rounds: int,
    relaxation: float,
    momentum: float,
) -> Conditionals:
    """Sinkhorn's algorithm on one potential: log p(x | z) with exact rows and columns that approach p.

    Plain Sinkhorn (`relaxation` 1, `momentum` 0) is slow on sharp matrices. Overrelaxed and with a heavy ball it needs
    far fewer rounds; pushed too far it oscillates, which costs sharpness but never the marginals.
    """
    possible = log_p > -jnp.inf
    target = jnp.where(possible, log_p, 0)
    masked = jnp.where(possible[None, :], scores, -jnp.inf)

    def normalised(potential: LogProbs) -> Conditionals:
        return jax.nn.log_softmax(masked + potential[None, :], axis=1)

    def step(state: tuple[LogProbs, LogProbs], _: None) -> tuple[tuple[LogProbs, LogProbs], None]:
        potential, last = state
        columns = jax.nn.logsumexp(
            jnp.where(possible[None, :], normalised(potential), 0) + log_latents[:, None], axis=0
        )
        move = jnp.where(possible, relaxation * (target - columns), 0) + momentum * last
        return (potential + move, move), None

    nothing = jnp.zeros_like(target)
    (potential, _), _ = jax.lax.scan(step, (nothing, nothing), length=rounds, unroll=min(5, max(1, rounds)))
    return normalised(potential)


def accept_reject(log_conditionals: Conditionals, log_p: LogProbs, log_latents: Float[Array, " z"]) -> Conditionals:
    """The paper's correction: thin each proposal by its column's ratio to the worst one, and fall back to p."""
    log_lifts, log_columns = _against_p(log_conditionals, log_p, log_latents)
    accepted = jnp.exp(log_lifts + (log_columns.min() - log_columns)[None, :])
    rejected = jnp.maximum(1 - accepted @ jnp.exp(log_p), 0)
    return _log(accepted + rejected[:, None], log_p)


def round_off(log_conditionals: Conditionals, log_p: LogProbs, log_latents: Float[Array, " z"]) -> Conditionals:
    """Scales down the columns that have too much, and spreads what is missing by the product of the shortfalls.

    It moves only the total-variation error of the columns, where accept-reject scales everything by the worst column.
    """
    log_lifts, log_columns = _against_p(log_conditionals, log_p, log_latents)
    kept = jnp.exp(log_lifts - jnp.maximum(log_columns, 0)[None, :])
    missing = jnp.maximum(1 - kept @ jnp.exp(log_p), 0)
    short = -jnp.expm1(jnp.minimum(log_columns, 0))
    total = jnp.exp(log_latents) @ missing
    # Nothing missing means that rounding alone is left; every latent is then as good a place for it as any other.
    enough = total > np.finfo(log_p.dtype).eps
    share = jnp.where(enough, missing / jnp.where(enough, total, 1), 1)
    return _log(kept + share[:, None] * short[None, :], log_p)


CORRECTIONS: dict[str, Callable[[Conditionals, LogProbs, Float[Array, " z"]], Conditionals]] = {
    "round-off": round_off,
    "accept-reject": accept_reject,
}


def _against_p(
    log_conditionals: Conditionals, log_p: LogProbs, log_latents: Float[Array, " z"]
) -> tuple[Conditionals, LogProbs]:
    """The logarithms of the lifts p(x | z) / p(x), and of their mixture over z, which ought to be one.

    As multiples of p the parts of an outcome have one size, however rare it is. Those of an impossible outcome are one,
    and stand for nothing.
    """
    possible = log_p > -jnp.inf
    log_lifts = jnp.where(possible[None, :], log_conditionals, 0) - jnp.where(possible, log_p, 0)[None, :]
    return log_lifts, jax.nn.logsumexp(log_lifts + log_latents[:, None], axis=0)


def _log(lifts: Conditionals, log_p: LogProbs) -> Conditionals:
    """Log-probabilities from lifts, normalised along each row; a lift that underflows is an impossible outcome."""
    positive = (lifts > np.finfo(lifts.dtype).tiny) & (log_p > -jnp.inf)[None, :]
    sums = jnp.where(positive, lifts, 0) @ jnp.exp(log_p)
    logs = jnp.log(jnp.where(positive, lifts, 1)) + jnp.where(log_p > -jnp.inf, log_p, 0)[None, :]
    return jnp.where(positive, logs - jnp.log(sums)[:, None], -jnp.inf)
