"""Mechanisms by name, so that they can be asked for on the command line."""

from collections.abc import Mapping
from pathlib import Path

from countermax._errors import InputError
from countermax.couplings import AbstractCoupling, Gadget1, Gadget2, GumbelMax, Independent, InverseCDF, Maximal
from countermax.storage import load
from countermax.tables._frames import Floats
from countermax.tables._labels import Labels

_FIXED: Mapping[str, type[AbstractCoupling]] = {
    "gumbel-max": GumbelMax,
    "inverse-cdf": InverseCDF,
    "maximal": Maximal,
    "independent": Independent,
}
_BY_SCORE = "inverse-cdf-by-score"
NAMES = (*_FIXED, _BY_SCORE)


def as_mechanism(
    mechanism: str | Path | AbstractCoupling, labels: Labels, score: Floats | None = None
) -> AbstractCoupling:
    """A coupling with an exact law for these labels: itself, one of `NAMES`, or the file that one is stored in."""
    if isinstance(mechanism, str | Path):
        mechanism = _named(mechanism, score)
    if not isinstance(mechanism, AbstractCoupling):
        hint = "; make an instance of it" if isinstance(mechanism, type) else ""
        raise InputError(f"`mechanism` must be a coupling with an exact law, got {mechanism!r}{hint}")
    size = _size_of(mechanism)
    if size is not None and size != len(labels):
        raise InputError(f"`mechanism` must be for {len(labels)} outcomes, got one for {size}")
    return mechanism


def _named(name: str | Path, score: Floats | None) -> AbstractCoupling:
    if name in _FIXED:
        return _FIXED[str(name)]()
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
