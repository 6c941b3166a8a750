"""Exact variances of every mechanism in every trial of a panel."""

from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from countermax.couplings import AbstractCoupling, GumbelMax, Independent, InverseCDF
from countermax.experiments.engine import Result
from countermax.experiments.sepsis import _variances as variances
from countermax.experiments.sepsis._trials import Trials
from countermax.experiments.sepsis._variances import Split

Floats = NDArray[np.float64]

PANELS = ("joint-fixed", "joint-generalised", "counterfactual-fixed", "counterfactual-generalised")
BY_SCORE = "inverse CDF by score"
_NOISE_KEY = 7_310  # of the perturbed pairs that everything is measured on; no training draws from it


def is_generalised(panel: str) -> bool:
    """Whether the pair is perturbed by noise on its logits, of scale one."""
    return panel.endswith("generalised")


def is_counterfactual(panel: str) -> bool:
    """Whether the factual outcome is known."""
    return panel.startswith("counterfactual")


def measured_pairs(trials: Trials, index: int, panel: str, num_noisy: int) -> tuple[Floats, Floats]:
    """Log-probabilities [query, outcome] of the pairs that a trial is measured on, common to all mechanisms."""
    log_p, log_q = trials.log_p[index][None], trials.log_q[index][None]
    if is_generalised(panel):
        noise = np.random.default_rng([_NOISE_KEY, index]).normal(size=(2, num_noisy, log_p.shape[1]))
        log_p, log_q = log_p + noise[0], log_q + noise[1]
    return log_p - _logsumexp(log_p), log_q - _logsumexp(log_q)


def measure_fixed(trials: Trials, panel: str, *, faithful: bool, num_noisy: int) -> Result:
    """All mechanisms that are not learned, and the least that any coupling can have."""
    scalar = trials.score.shape[2] == 1
    fixed: dict[str, AbstractCoupling] = {
        "independent": Independent(),
        "Gumbel-max": GumbelMax(),
        "inverse CDF": InverseCDF(),
    }
    rows: dict[str, list[Split]] = {name: [] for name in fixed}
    if scalar:
        rows[BY_SCORE] = []
    optimum: list[Split | None] = []
    for index in range(len(trials)):
        log_p, log_q = measured_pairs(trials, index, panel, num_noisy)
        for name, mechanism in fixed.items():
            rows[name].append(_split(joints(mechanism, log_p, log_q), trials, index, panel, faithful))
        p, q = np.exp(log_p), np.exp(log_q)
        if scalar:
            score, other = trials.score[index, :, 0], trials.other_score[index, :, 0]
            by_score = np.stack([variances.sorted_joint(*each, score, other) for each in zip(p, q, strict=True)])
            rows[BY_SCORE].append(_split(by_score, trials, index, panel, faithful))
        optimum.append(_least(p, q, trials, index, panel, faithful))
    result: Result = {name: _stored(splits) for name, splits in rows.items()}
    known = [each for each in optimum if each is not None]
    if len(known) == len(trials):
        result["optimal"] = _stored(known)
    return {"rows": result, "pair": trials.pair.tolist(), "overlap": trials.overlap.round(6).tolist()}


def measure_learned(
    mechanisms: Sequence[AbstractCoupling],
    members: Sequence[int],
    trials: Trials,
    panel: str,
    *,
    faithful: bool,
    num_noisy: int,
) -> Mapping[str, list[float] | None]:
    """One gadget or more for each trial; of several restarts on one pair the best, which training knows.

    Args:
        mechanisms: The trained gadgets.
        members: The trial of each.
        trials: All trials.
        panel: One of `PANELS`.
        faithful: Whether what is measured is the published quantity.
        num_noisy: Perturbed pairs for each trial.
    """
    found: dict[int, Split] = {}
    for index, mechanism in zip(members, mechanisms, strict=True):
        laws = joints(mechanism, *measured_pairs(trials, index, panel, num_noisy))
        split = _split(laws, trials, index, panel, faithful)
        if index not in found or split.within < found[index].within:
            found[index] = split
    return _stored([found[index] for index in range(len(trials))])


def joints(mechanism: AbstractCoupling, log_p: Floats, log_q: Floats) -> Floats:
    """Exact joint laws [query, x, y], in double precision."""
    with jax.enable_x64(True):
        return np.asarray(_joints(mechanism, jnp.asarray(log_p), jnp.asarray(log_q)), np.float64)


@eqx.filter_jit
def _joints(
    mechanism: AbstractCoupling, log_p: Float[Array, "m k"], log_q: Float[Array, "m k"]
) -> Float[Array, "m k k"]:
    return jax.lax.map(lambda pair: mechanism._joint(*pair), (log_p, log_q), batch_size=min(32, len(log_p)))


def _split(laws: Floats, trials: Trials, index: int, panel: str, faithful: bool) -> Split:
    score, other = trials.score[index], trials.other_score[index]
    if not is_counterfactual(panel):
        return variances.over_everybody(laws, score, other)
    if faithful:
        return variances.given_one_outcome(laws, other, int(trials.outcome[index]))
    return variances.given_what_was_seen(laws, score, other)


def _least(p: Floats, q: Floats, trials: Trials, index: int, panel: str, faithful: bool) -> Split | None:
    """The least variance within queries that any coupling has; None where it is not known.

    Between queries couplings differ only where the outcome is known, and there not by themselves: `between` is left
    out. As published it belongs to the figure, so that with several queries the least figure is not known.
    """
    score, other = trials.score[index], trials.other_score[index]
    if not is_counterfactual(panel):
        joint_of = variances.sorted_joint if score.shape[1] == 1 else variances.transported_joint
        flat = (score[:, 0], other[:, 0]) if score.shape[1] == 1 else (score, other)
        laws = [joint_of(*each, *flat) for each in zip(p, q, strict=True)]
        return variances.over_everybody(np.stack(laws), score, other)
    if score.shape[1] > 1 or (faithful and len(p) > 1):
        return None
    if faithful:
        return Split(float(variances.least_given_one_outcome(p, q, other[:, 0], int(trials.outcome[index]))[0]), 0.0)
    least = variances.least_given_what_was_seen(p, q, other[:, 0])
    return None if least is None else Split(float(least.mean()), np.nan)


def _stored(splits: Sequence[Split]) -> dict[str, list[float] | None]:
    """As JSON has it; None where the second part is not known."""
    unknown = any(np.isnan(each.between) for each in splits)
    between = None if unknown else [each.between for each in splits]
    return {"within": [each.within for each in splits], "between": between}


def _logsumexp(values: Floats) -> Floats:
    top = values.max(axis=1, keepdims=True)
    return top + np.log(np.exp(values - top).sum(axis=1, keepdims=True))
