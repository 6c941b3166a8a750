"""Mechanisms by name or from a file, so that they can be asked for in words and on the command line."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from countermax._errors import InputError
from countermax.couplings import AbstractCoupling, Gadget1, Gadget2, GumbelMax, Independent, InverseCDF, Maximal
from countermax.storage import load

_FIXED: Mapping[str, type[AbstractCoupling]] = {
    "Gumbel-max": GumbelMax,
    "inverse CDF": InverseCDF,
    "maximal": Maximal,
    "independent": Independent,
}
_WORDS = {name.lower().replace(" ", "-"): name for name in _FIXED}
_BY_SCORE = "inverse-cdf-by-score"
NAMES = (*_WORDS, _BY_SCORE)


def as_mechanism(
    mechanism: str | Path | AbstractCoupling, num_outcomes: int, score: NDArray[np.floating] | None = None
) -> AbstractCoupling:
    """A coupling with an exact law for so many outcomes: itself, one of `NAMES`, or the file that one is stored in."""
    if isinstance(mechanism, str | Path):
        mechanism = _named(mechanism, score)
    if not isinstance(mechanism, AbstractCoupling):
        hint = "; make an instance of it" if isinstance(mechanism, type) else ""
        raise InputError(f"`mechanism` must be a coupling with an exact law, got {mechanism!r}{hint}")
    size = _size_of(mechanism)
    if size is not None and size != num_outcomes:
        raise InputError(f"`mechanism` must be for {num_outcomes} outcomes, got one for {size}")
    return mechanism


def mechanisms_by_name(words: list[str]) -> dict[str, AbstractCoupling]:
    """Several mechanisms without a score, under the names that tables and pictures show."""
    return {_WORDS.get(word, Path(word).stem): _named(word, None) for word in words}


def _named(name: str | Path, score: NDArray[np.floating] | None) -> AbstractCoupling:
    if name in _WORDS:
        return _FIXED[_WORDS[str(name)]]()
    if name == _BY_SCORE:
        if score is None:
            raise InputError(f"`mechanism` must have a `score` beside it to be {_BY_SCORE}")
        return InverseCDF.sorted_by(score)
    if not Path(name).exists():
        raise InputError(f"`mechanism` must be one of {', '.join(NAMES)}, or a file with one, got {str(name)!r}")
    return load(name)


def _size_of(mechanism: AbstractCoupling) -> int | None:
    if isinstance(mechanism, Gadget1 | Gadget2):
        return mechanism.num_outcomes
    if isinstance(mechanism, InverseCDF) and mechanism.order is not None:
        return mechanism.order.size
    return None
