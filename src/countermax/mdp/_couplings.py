"""Which couplings a question about episodes is put to."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from countermax._core.errors import InputError
from countermax.couplings import AbstractCoupling
from countermax.couplings._named import as_couplings, named_couplings
from countermax.mdp._arrays import shortened

Couplings: TypeAlias = Mapping[str, str | Path | AbstractCoupling] | Iterable[str | Path]
"""Couplings by name, or a list of words and files, which name themselves."""


def chosen_couplings(couplings: Couplings | None, *, none: bool = False) -> dict[str, AbstractCoupling]:
    """The couplings asked for; by default two that are known to disagree, Gumbel-max and inverse CDF.

    Args:
        couplings: Couplings as the caller gave them.
        none: Whether it may be none at all.
    """
    if couplings is None:
        return named_couplings(("gumbel-max", "inverse-cdf"))
    if not isinstance(couplings, Mapping | str | Path):
        try:
            couplings = list(couplings)
        except TypeError:
            raise InputError(
                f"`couplings` must be words or files, or couplings by name, got {shortened(couplings)}"
            ) from None
        if any(not isinstance(each, str | Path) for each in couplings):
            raise InputError(f"`couplings` must be words or files, or couplings by name, got {shortened(couplings)}")
    return {} if none and not couplings else as_couplings(couplings)
