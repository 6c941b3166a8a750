"""Exact variances of every coupling in every trial of a panel."""

from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from countermax.couplings import AbstractCoupling, Comonotone
from countermax.couplings._named import named_couplings
from countermax.learning import SquaredDifference, expected_losses, least_losses
from studies.engine import Result
from studies.sepsis import _variances as variances
from studies.sepsis._trials import Trials
from studies.sepsis._variances import Split

Floats = NDArray[np.float64]

PANELS = ("joint-fixed", "joint-generalised", "counterfactual-fixed", "counterfactual-generalised")
_FIXED = ("independent", "gumbel-max", "inverse-cdf")
BY_SCORE = "comonotone by score"  # pairs quantiles of two scores, one for each world; in general no mechanism
_NOISE_KEY = 7_310  # of the perturbed pairs that everything is measured on; no training draws from it


def is_generalised(panel: str) -> bool:
    """Whether the pair is perturbed by noise on its logits, of scale one."""
    return panel.endswith("generalised")


def is_counterfactual(panel: str) -> bool:
    """Whether the factual outcome is known."""
    return panel.startswith("counterfactual")


def measure_fixed(trials: Trials, panel: str, *, as_published: bool, num_noisy: int) -> Result:
    """All couplings that are not learned, and the least that any coupling can have."""
    rows: dict[str, list[Split]] = {}
    optimum: list[Split | None] = []
    for index in range(len(trials)):
        with jax.enable_x64(True):
            problem = _Problem(trials, index, panel, as_published=as_published, num_noisy=num_noisy)
            fixed = named_couplings(_FIXED)
            if problem.is_scalar:
                fixed[BY_SCORE] = Comonotone(*(each[:, 0] for each in problem.scores))
            for name, coupling in fixed.items():
                rows.setdefault(name, []).append(problem.split(coupling))
            optimum.append(problem.least())
    result: Result = {name: _stored(splits) for name, splits in rows.items()}
    known = [each for each in optimum if each is not None]
    if len(known) == len(trials):
        result["optimal"] = _stored(known)
    return {"rows": result, "pair": trials.pair.tolist(), "overlap": trials.overlap.round(6).tolist()}


def measure_learned(
    couplings: Sequence[AbstractCoupling],
    members: Sequence[int],
    trials: Trials,
    panel: str,
    *,
    as_published: bool,
    num_noisy: int,
) -> Mapping[str, list[float] | None]:
    """One gadget or more for each trial; of several restarts on one pair the best, which training knows.

    Args:
        couplings: The trained gadgets.
        members: The trial of each.
        trials: All trials.
        panel: One of `PANELS`.
        as_published: Whether what is measured is the published quantity.
        num_noisy: Perturbed pairs for each trial.
    """
    found: dict[int, Split] = {}
    for index, coupling in zip(members, couplings, strict=True):
        with jax.enable_x64(True):
            problem = _Problem(trials, index, panel, as_published=as_published, num_noisy=num_noisy)
            split = problem.split(coupling)
        if index not in found or split.within < found[index].within:
            found[index] = split
    return _stored([found[index] for index in range(len(trials))])


class _Problem:
    """One trial in one panel: the pairs it is measured on, and which variance is asked for. In double precision."""

    def __init__(self, trials: Trials, index: int, panel: str, *, as_published: bool, num_noisy: int):
        log_p, log_q = trials.log_p[index][None], trials.log_q[index][None]
        if is_generalised(panel):  # the same perturbed pairs for all couplings
            noise = np.random.default_rng([_NOISE_KEY, index]).normal(size=(2, num_noisy, log_p.shape[1]))
            log_p, log_q = log_p + noise[0], log_q + noise[1]
        self.log_p, self.log_q = (jax.nn.log_softmax(jnp.asarray(each), axis=1) for each in (log_p, log_q))
        self.p, self.q = (np.exp(np.asarray(each)) for each in (self.log_p, self.log_q))
        self.scores = trials.score[index], trials.other_score[index]
        self.outcome = int(trials.outcome[index])
        self.is_known, self.as_published = is_counterfactual(panel), as_published

    @property
    def is_scalar(self) -> bool:
        """Whether the score is one number."""
        return self.scores[0].shape[1] == 1

    def split(self, coupling: AbstractCoupling) -> Split:
        """The variance under a coupling."""
        coupling.check_size(self.log_p.shape[1])
        if not self.is_known:
            squares = expected_losses(coupling, SquaredDifference(*self.scores), self.log_p, self.log_q)
            return variances.over_everybody(np.asarray(squares), self.p, self.q, *self.scores)
        laws = np.asarray(_joints(coupling, self.log_p, self.log_q))
        if self.as_published:
            return variances.given_one_outcome(laws, self.scores[1], self.outcome)
        return variances.given_what_was_seen(laws, *self.scores)

    def least(self) -> Split | None:
        """The least variance within queries that any coupling has; None where it is not known.

        Between queries couplings differ only where the outcome is known, and there not by themselves: `between` is left
        out. As published it belongs to the value, so that with several queries the least value is not known.
        """
        if not self.is_known:
            squares = least_losses(SquaredDifference(*self.scores), self.log_p, self.log_q)
            return variances.over_everybody(squares, self.p, self.q, *self.scores)
        if not self.is_scalar or (self.as_published and len(self.p) > 1):
            return None
        worth = self.scores[1][:, 0]
        if self.as_published:
            return Split(float(variances.least_given_one_outcome(self.p, self.q, worth, self.outcome)[0]), 0.0)
        least = variances.least_given_what_was_seen(self.p, self.q, worth)
        return None if least is None else Split(float(least.mean()), np.nan)


@eqx.filter_jit
def _joints(
    coupling: AbstractCoupling, log_p: Float[Array, "m k"], log_q: Float[Array, "m k"]
) -> Float[Array, "m k k"]:
    """Exact joint laws, a batch at a time so that memory stays bounded."""
    return jax.lax.map(lambda pair: coupling._joint(*pair), (log_p, log_q), batch_size=min(32, len(log_p)))


def _stored(splits: Sequence[Split]) -> dict[str, list[float] | None]:
    """The parts as JSON has them; None where the second part is not known."""
    unknown = any(np.isnan(each.between) for each in splits)
    between = None if unknown else [each.between for each in splits]
    return {"within": [each.within for each in splits], "between": between}
