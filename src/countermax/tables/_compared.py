"""The couplings whose effects are compared: those asked for, the best one where there is one, and a learned one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import jax
from jaxtyping import PRNGKeyArray

from countermax._core.errors import InputError
from countermax.couplings import AbstractCoupling, Gadget2
from countermax.couplings._named import as_couplings, is_same
from countermax.learning import Fit
from countermax.learning._recipe import LEARNED
from countermax.tables._moments import EffectMoments
from countermax.tables._pairs import AbstractRows
from countermax.tables._rows import RowReader
from countermax.tables._scores import Scores, as_scores, fixed_couplings, learned_coupling, own_pairs

CouplingsLike: TypeAlias = Mapping[str, str | Path | AbstractCoupling] | Sequence[str | Path]
"""Couplings by name, or names of fixed ones."""


@dataclass(frozen=True, eq=False)
class Compared:
    """Scores of the outcomes, and the couplings whose effects on them are compared."""

    scores: Scores
    couplings: dict[str, AbstractCoupling]
    learned: Fit[Gadget2] | None
    """How the learned coupling came about, if one was asked for."""

    def moments(self, num_rows: int | None = None) -> EffectMoments:
        """Effects to be added up; with the number of rows, those of each row too."""
        return EffectMoments(self.scores, self.couplings, num_rows=num_rows or 0, individual=num_rows is not None)


def compare_couplings(
    reader: RowReader,
    rows: AbstractRows,
    *,
    score: Any,
    counterfactual_score: Any,
    couplings: CouplingsLike | None,
    learn: bool | Gadget2,
    key: PRNGKeyArray | None,
    fit_options: Mapping[str, Any] | None,
    num_times: int,
    progress: bool | None,
) -> Compared:
    """Makes sense of what was asked for; arguments are those of `effects`.

    Args:
        reader: Reader of the rows, or of a table without rows in the same columns.
        rows: All rows, for couplings that are fitted to them.
        score: Scores of the outcomes.
        counterfactual_score: Scores in the other world.
        couplings: Couplings to compare.
        learn: Whether to train a gadget; or the gadget to train.
        key: Key of the training.
        fit_options: Options of the training.
        num_times: Number of passes over the rows.
        progress: Whether to show progress bars.
    """
    if score is None:
        score = reader.ranks
    if score is None:
        raise InputError("`score` must say what each outcome is worth, unless the outcomes are an ordered category")
    scores = as_scores(reader.labels, score, counterfactual_score)
    compared = _compared(couplings, scores, rows, num_times)
    if learn is False:
        if fit_options is not None:
            raise InputError("`fit_options` needs learn=True")
        return Compared(scores, compared, None)
    if LEARNED in compared:
        _refuse_name(LEARNED)
    gadget = None if learn is True else learn
    key = jax.random.key(0) if key is None else key
    learned = learned_coupling(rows, scores, gadget, fit_options or {}, progress, key=key)
    return Compared(scores, compared | {LEARNED: learned.coupling}, learned)


def _compared(
    given: CouplingsLike | None,
    scores: Scores,
    rows: AbstractRows,
    num_times: int,
) -> dict[str, AbstractCoupling]:
    """The couplings asked for, with the one that is best where there is one; by default the fixed ones."""
    if given is None:
        return fixed_couplings(scores, rows, num_times)
    fixed = fixed_couplings(scores, rows, num_times) if scores.best is not None else {}
    with jax.enable_x64(True):
        both: dict[str, Any] = {"score": scores.factual, "counterfactual_score": scores.counterfactual}
        if len(scores.names) == 1:  # couplings that are made for a score look at one
            both = {name: each[:, 0] for name, each in both.items()}
        elif _wants_pairs(given):
            both["pairs"] = own_pairs(rows)
        own = as_couplings(given, len(scores.factual), **both)
    if scores.best in own and not is_same(own[scores.best], fixed[scores.best]):
        _refuse_name(scores.best)
    return own | {name: each for name, each in fixed.items() if name == scores.best}


def _wants_pairs(given: Mapping[str, Any] | Sequence[Any] | str | Path) -> bool:
    """Whether something among the couplings has to be fitted."""
    each = given.values() if isinstance(given, Mapping) else [given] if isinstance(given, str | Path) else given
    return any(isinstance(one, str) and one in ("vector-quantile", "vector quantile") for one in each)


def _refuse_name(name: str) -> NoReturn:
    raise InputError(f"`couplings` must not reuse the name {name!r}, which is the library's own; rename yours")
