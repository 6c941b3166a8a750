"""Which couplings a question about episodes is put to."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from countermax.couplings import AbstractCoupling, as_couplings, named_couplings

Couplings: TypeAlias = Mapping[str, str | Path | AbstractCoupling] | Iterable[str | Path]
"""Couplings by name, or a list of words and files, which name themselves."""


def chosen_couplings(couplings: Couplings | None) -> dict[str, AbstractCoupling]:
    """The couplings asked for; by default two that are known to disagree, Gumbel-max and inverse CDF."""
    return named_couplings(("gumbel-max", "inverse-cdf")) if couplings is None else as_couplings(couplings)
