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
    conditionals, log_ratio = _against_columns(log_conditionals, log_p, log_latents)
    accepted = conditionals * jnp.exp(log_ratio - log_ratio.max())[None, :]
    rejected = jnp.maximum(1 - accepted.sum(axis=1), 0)
    return _log(accepted + rejected[:, None] * jnp.exp(log_p)[None, :], log_p)


def round_off(log_conditionals: Conditionals, log_p: LogProbs, log_latents: Float[Array, " z"]) -> Conditionals:
    """Scales down the columns that have too much, and spreads what is missing by the product of the shortfalls.

    It moves only the total-variation error of the columns, where accept-reject scales everything by the worst column.
    """
    conditionals, log_ratio = _against_columns(log_conditionals, log_p, log_latents)
    kept = conditionals * jnp.exp(jnp.minimum(log_ratio, 0))[None, :]
    missing = jnp.maximum(1 - kept.sum(axis=1), 0)
    probs = jnp.exp(log_p)
    short = jnp.maximum(probs - jnp.exp(log_latents) @ conditionals, 0)
    total = short.sum()
    # Nothing short means that rounding alone is left; p itself is then as good a place as any for it.
    enough = total > np.finfo(probs.dtype).eps
    share = jnp.where(enough, short / jnp.where(enough, total, 1), probs)
    return _log(kept + missing[:, None] * share[None, :], log_p)


CORRECTIONS: dict[str, Callable[[Conditionals, LogProbs, Float[Array, " z"]], Conditionals]] = {
    "round-off": round_off,
    "accept-reject": accept_reject,
}


def _against_columns(
    log_conditionals: Conditionals, log_p: LogProbs, log_latents: Float[Array, " z"]
) -> tuple[Conditionals, LogProbs]:
    """The conditionals, and the logarithm of p over their mixture; `-inf` for impossible outcomes.

    A quotient of probabilities would have an infinite derivative where both underflow.
    """
    possible = log_p > -jnp.inf
    logs = jnp.where(possible[None, :], log_conditionals, 0)
    columns = jax.nn.logsumexp(logs + log_latents[:, None], axis=0)
    conditionals = jnp.where(possible[None, :], jnp.exp(logs), 0)
    return conditionals, jnp.where(possible, jnp.where(possible, log_p, 0) - columns, -jnp.inf)


def _log(probs: Conditionals, log_p: LogProbs) -> Conditionals:
    """Log-probabilities, normalised along each row.

    What underflows for one latent is impossible there; what underflows in p itself has no share to speak of, and keeps
    p's own logarithm for every latent, so that even its observation has an explanation.
    """
    tiny = np.finfo(probs.dtype).tiny
    positive = probs > tiny
    sums = jnp.where(positive, probs, 0).sum(axis=1, keepdims=True)
    vanished = jnp.where(jnp.exp(log_p) > tiny, -jnp.inf, log_p)
    return jnp.where(positive, jnp.log(jnp.where(positive, probs, 1)) - jnp.log(sums), vanished[None, :])
