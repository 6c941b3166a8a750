"""Laws of joint probabilities, rows and losses: no draws, checked to rounding."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, ArrayLike

from countermax._core.errors import InputError
from countermax.couplings import AbstractCoupling
from countermax.testing._cases import GENERIC, BrokenError, Case, close
from countermax.testing._subject import BOTH, DOUBLE, SINGLE, Reply, Subject, askable, on_each, precision

_COARSE = 1e-3  # how far a rare outcome's row may be from the joint's: at extreme logits p itself has lost digits
_COMMON = 1e-3


def marginals(answer: Reply) -> float:
    """Row sums are p, column sums are q, nothing is negative, and what is impossible has probability zero."""
    case, joint, p, q = answer.case, answer.joint, *answer.case.probs
    if (joint < 0).any():
        raise BrokenError(f"the joint law has a negative entry, {joint.min():.2g}")
    if joint[p == 0].any() or joint[:, q == 0].any():
        raise BrokenError("an impossible outcome has positive probability")
    return max(
        close("the factual marginal", joint.sum(axis=1), p, case.tolerance),
        close("the other world's marginal", joint.sum(axis=0), q, case.tolerance),
    )


def rows(answer: Reply) -> float:
    """What is answered given x is row x of the joint law, normalised."""
    case, joint, p, q = answer.case, answer.joint.astype(np.float64), *answer.case.probs
    if (answer.rows < 0).any() or answer.rows[:, q == 0].any():
        raise BrokenError("a counterfactual row is negative, or holds an impossible outcome")
    largest = close(
        "the sum of a counterfactual row", answer.rows.sum(axis=1), np.ones(len(answer.asked)), case.tolerance
    )
    for x, row in zip(answer.asked, answer.rows, strict=True):
        expected = joint[x] / joint[x].sum() if p[x] > _COMMON else joint[x] / p[x]
        tolerance = min(case.tolerance / p[x], 0.1) if p[x] > _COMMON else _COARSE
        largest = max(largest, close(f"the counterfactual row of outcome {x}", row, expected, tolerance))
    return largest


def rarest(subject: Subject) -> str:
    """Rows of outcomes whose probability underflows are distributions over what is possible, or refused."""
    answered = refused = 0
    for case in (case for dtype in BOTH for case in subject.cases(dtype) if case.name in ("extreme", "rare")):
        coupling, (_, q) = subject.in_precision(case.p.dtype), case.probs
        for x in np.setdiff1d(case.possible, askable(case)):
            with precision(case.p.dtype):
                try:
                    row = np.asarray(coupling.counterfactual_probs(case.p, case.q, int(x)))
                except InputError:
                    refused += 1
                    continue
            answered += 1
            if not (row >= 0).all() or row[q == 0].any() or abs(row.sum() - 1) > case.tolerance:
                raise BrokenError(f"{case}: the counterfactual row of outcome {x} is not a distribution")
    return f"{answered} answered, {refused} refused"


def losses(subject: Subject, answer: Reply) -> float:
    """An expected loss is the sum of the joint law times the loss, however it is computed."""
    case, size = answer.case, answer.case.p.size
    loss = np.cos(np.arange(size * size)).reshape(size, size)  # of both signs, and no symmetry that could hide a swap
    expected = (answer.joint.astype(np.float64) * loss).sum()
    with precision(case.p.dtype):
        found = np.asarray(_loss(subject.in_precision(case.p.dtype), case.p, case.q, loss.astype(case.p.dtype)))
    return close("the expected loss", found, np.asarray(expected), case.tolerance)


def shift(subject: Subject, answer: Reply) -> float:
    """Logits are unnormalised: a constant added to them changes nothing."""
    case = answer.case
    kind = case.p.dtype.type
    moved = subject.ask(Case(case.name, case.p + kind(7.25), case.q - kind(3.5)))
    scale = max(1.0, float(np.abs(case.p[case.p > -np.inf]).max()))  # shifting rounds the logits themselves
    return close("the law of shifted logits", moved.joint, answer.joint, scale * case.tolerance)


def exchange(subject: Subject, answer: Reply) -> float:
    """All worlds see one noise, so that it does not matter which of two worlds is called the factual one."""
    case = answer.case
    turned = subject.ask(Case(case.name, case.q, case.p))
    return close("the law of exchanged worlds", turned.joint.T, answer.joint, case.tolerance)


def still(subject: Subject, answer: Reply) -> float:
    """Equal worlds have equal outcomes: the row of x is x."""
    again = subject.ask(Case(answer.case.name, answer.case.p, answer.case.p))
    expected = np.eye(answer.case.p.size)[again.asked]
    return close("a counterfactual row of equal worlds", again.rows, expected, answer.case.tolerance)


def precisions(subject: Subject) -> str:
    """Single precision says what double precision says, as far as its digits reach."""
    doubles = {answer.case.name: answer for answer in subject.answers(subject.size, DOUBLE)}

    def agree(single: Reply) -> float:
        double, (p, _) = doubles[single.case.name], single.case.probs
        scale = max(1.0, float(np.abs(single.case.p[single.case.p > -np.inf]).max()))
        error = close("the joint law", single.joint, double.joint, scale * single.case.tolerance)
        for place, x in enumerate(single.asked):
            # Where an interval of a line begins is known to rounding, which is much of a rare outcome's interval.
            tolerance = _COARSE + scale * single.case.tolerance / p[x]
            if double.asked[place] == x and tolerance < 0.1:
                what = f"the counterfactual row of outcome {x}"
                error = max(error, close(what, single.rows[place], double.rows[place], tolerance))
        return error

    return on_each((each for each in subject.answers(subject.size, SINGLE) if each.case.name in GENERIC), agree)


@eqx.filter_jit
def _loss(coupling: AbstractCoupling, p: ArrayLike, q: ArrayLike, loss: ArrayLike) -> Array | Any:
    return coupling.expected_loss(p, q, loss)
