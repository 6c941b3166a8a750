"""The names of couplings: the one dictionary from words to couplings, for results, pictures and the command line."""

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.labels import Labels, Written, listed
from countermax._pairs import Pairs
from countermax.couplings._base import AbstractCoupling, AbstractSampler
from countermax.couplings._gumbel_max import GumbelMax, SharedGumbelMax
from countermax.couplings._inverse_cdf import InverseCDF
from countermax.couplings._matrix import Comonotone, Independent, Maximal
from countermax.couplings._nested import NestedGumbelMax, read_nests
from countermax.couplings._storage import load
from countermax.couplings._vector_quantile import VectorQuantile
from countermax.couplings._words import NAME_OF, NAMES, ORDER, SHARED, SHARED_SHOWN, VECTOR, rate_in, shown_as

Scores = NDArray[np.floating] | None

_ANY: Mapping[str, Callable[[], AbstractCoupling]] = {
    "Gumbel-max": GumbelMax,
    "inverse CDF": InverseCDF,
    "maximal": Maximal,
    "independent": Independent,
}
_OF_SCORE: Mapping[str, Callable[[Any, Any], AbstractCoupling]] = {
    "inverse CDF by score": lambda score, _: InverseCDF.sorted_by(score),
    "comonotone": lambda score, other: (
        InverseCDF.sorted_by(score) if _sorts_both(score, other) else Comonotone(score, other)
    ),  # has the least variance of the effect: a mechanism where one order sorts both worlds' scores
}
_NESTED = "nested-gumbel-max-"  # and a dissimilarity behind it, and nests in brackets
_NESTED_WORD = re.compile(rf"{_NESTED}([0-9]*\.?[0-9]+)(\[.+\])", re.IGNORECASE)
_NEST_FILES = (".json", ".yaml", ".yml")


def named_couplings(
    names: Iterable[str] | None = None,
    *,
    score: Scores = None,
    counterfactual_score: Scores = None,
    pairs: Pairs | None = None,
) -> dict[str, AbstractCoupling]:
    """Fixed couplings under the names that results and pictures show.

    By default all that the arguments allow and that differ: with one score, vector quantiles and the comonotone
    coupling are the inverse CDF by score. Couplings that are made for a score need one number for each outcome, or
    several for a vector quantile, which is then fitted to `pairs`.
    """
    if names is None:
        wanted = {*_ANY}
        if score is not None and np.ndim(score) == 1:
            wanted |= {*_OF_SCORE} - ({"comonotone"} if _sorts_both(score, counterfactual_score) else set())
        elif score is not None and pairs is not None:
            wanted.add(VECTOR)
        names = [name for name in ORDER if name in wanted]
    return {shown_as(name): _named(name, score, counterfactual_score, pairs) for name in names}


def as_coupling(
    coupling: str | Path | AbstractCoupling,
    outcomes: Labels | int | None = None,
    *,
    score: Scores = None,
    counterfactual_score: Scores = None,
    pairs: Pairs | None = None,
    argument: str = "coupling",
) -> AbstractCoupling:
    """A coupling with an exact law: itself, or what its name or its file says.

    A name is one of `NAMES`, `gumbel-max-shared-0.5`, or `nested-gumbel-max-0.5[bus|tram]`, with the labels of outcomes
    in brackets. A file holds a stored coupling, or nests (.json, .yaml). It must be for these outcomes, or this number
    of them, unless that is checked later; `argument` is its name in messages. The others are those of
    `named_couplings`.
    """
    num_outcomes = len(outcomes) if isinstance(outcomes, Labels) else outcomes
    if isinstance(coupling, str | Path):
        if _has_nests(coupling):
            coupling = _nested(coupling, outcomes, argument)
        else:
            coupling = _named(coupling, score, counterfactual_score, pairs, argument)
    if not isinstance(coupling, AbstractCoupling):
        hint = "; make an instance of it" if isinstance(coupling, type) else ""
        raise InputError(f"`{argument}` must be a coupling with an exact law, got {coupling!r}{hint}")
    if num_outcomes is not None and coupling.num_outcomes not in (None, num_outcomes):
        raise InputError(f"`{argument}` must be for {num_outcomes} outcomes, got one for {coupling.num_outcomes}")
    named = coupling.labels if isinstance(coupling, NestedGumbelMax) else ()
    if isinstance(outcomes, Labels) and named and named != outcomes.names:
        raise InputError(
            f"`{argument}` must have the outcomes in their order, labels=[{listed(outcomes.values)}], not "
            f"[{listed(named)}]"
        )
    return coupling


def as_couplings(
    couplings: Mapping[str, str | Path | AbstractCoupling] | Iterable[str | Path] | str | Path,
    outcomes: Labels | int | None = None,
    *,
    reserved: Iterable[str] = (),
    **beside: Any,
) -> dict[str, AbstractCoupling]:
    """Several by name, as `as_coupling` takes each: from a mapping, or from words and files, which name themselves.

    `all` is the library's own that the arguments allow. A file is called by its name without the ending; by its whole
    path where that would be the name of a fixed coupling, of another file, or reserved.
    """
    if isinstance(couplings, str) and couplings == "all":
        return named_couplings(**beside)
    if isinstance(couplings, str | Path):
        couplings = [couplings]
    if not isinstance(couplings, Iterable):
        raise InputError(f"`couplings` must be words or files, or couplings by name, got {couplings!r}")
    given = couplings if isinstance(couplings, Mapping) else _by_own_name(list(couplings), reserved)
    if not given:
        raise InputError("`couplings` must name at least one coupling, got none")
    called = "couplings[{!r}]" if isinstance(couplings, Mapping) else "couplings"
    return {name: as_coupling(each, outcomes, argument=called.format(name), **beside) for name, each in given.items()}


def _by_own_name(couplings: list[str | Path], reserved: Iterable[str]) -> Mapping[str, str | Path]:
    words = [str(each) for each in couplings]
    names = [name_of(each) for each in couplings]
    taken = {name.lower() for name in (*reserved, *ORDER, *NAMES)}

    def alone(name: str) -> bool:
        return names.count(name) == 1 and name.lower() not in taken and name not in words

    own = [
        name if word in NAME_OF or rate_in(word) is not None or alone(name) else word
        for word, name in zip(words, names, strict=True)
    ]
    twice = next((word for word, name in zip(words, own, strict=True) if own.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"`couplings` must differ from each other, got {twice!r} more than once")
    return dict(zip(own, couplings, strict=True))


def _sorts_both(score: NDArray[np.floating], other: Scores) -> bool:
    return other is None or bool((np.diff(np.asarray(other)[np.argsort(score, kind="stable")]) >= 0).all())


def name_of(given: str | Path | AbstractSampler, *, score: Scores = None) -> str:
    """What results call a coupling: its name among the fixed ones, else the file that it was in, else its class."""
    if not isinstance(given, AbstractSampler):
        word = _NESTED_WORD.fullmatch(str(given))
        if word is not None:
            return f"nested Gumbel-max {float(word[1]):g}"
        return NAME_OF.get(str(given)) or (shown_as(given) if rate_in(given) is not None else Path(given).stem)
    if isinstance(given, SharedGumbelMax):
        return f"{SHARED_SHOWN} {str(np.asarray(given.shared)[()])}"  # in as many digits as its precision has
    if isinstance(given, NestedGumbelMax):
        return given.title
    fixed = named_couplings(score=score).items()
    return next((name for name, each in fixed if is_same(each, given)), type(given).__name__)


def is_same(first: AbstractSampler, second: AbstractSampler) -> bool:
    """Whether two couplings have one class and equal fields; compared by NumPy, so that nothing is compiled."""
    leaves, structure = jax.tree.flatten(first)
    others, other_structure = jax.tree.flatten(second)
    return operator.eq(structure, other_structure) and all(map(np.array_equal, leaves, others))


def _named(
    name: str | Path, score: Scores, other: Scores, pairs: Pairs | None, argument: str = "coupling"
) -> AbstractCoupling:
    shown, rate = shown_as(name), rate_in(name)
    if rate is not None:
        return GumbelMax() if rate == 1 else SharedGumbelMax(rate)
    if shown in _ANY:
        return _ANY[shown]()
    if shown in _OF_SCORE or shown == VECTOR:
        if score is None or (shown in _OF_SCORE and np.ndim(score) != 1):
            several = "" if score is None else " that is one number for each outcome"
            raise InputError(
                f"`{argument}` can be {shown!r} only with a `score` beside it{several}; without one it must be one of "
                f"{', '.join(name for name in NAMES if NAME_OF[name] in _ANY)}, or a file with one"
            )
        if shown == VECTOR:
            return _vector_quantile(score, other, pairs, argument)
        return _OF_SCORE[shown](score, other)
    if not Path(name).exists():
        said = str(name).lower().strip()
        near = [each for each in NAMES if each.startswith(said)] or get_close_matches(said, NAMES)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise InputError(
            f"`{argument}` must be one of {', '.join(NAMES)}, {SHARED}RATE with a rate from 0 to 1, "
            f"{_NESTED}DISSIMILARITY[OUTCOME|OUTCOME], or a file with one, got {str(name)!r}{meant}"
        )
    return as_coupling(load(name), argument=argument)


def _has_nests(name: str | Path) -> bool:
    return Path(name).suffix.lower() in _NEST_FILES or _NESTED_WORD.fullmatch(str(name)) is not None


def _nested(name: str | Path, outcomes: Labels | int | None, argument: str) -> NestedGumbelMax:
    """Nested Gumbel-max as its name says, or its file."""
    if outcomes is None:
        raise InputError(f"`{argument}` needs outcomes to put into nests, and none are known here; give the coupling")
    word = _NESTED_WORD.fullmatch(str(name))
    try:
        given = {"nests": nests_in(word[2]), "dissimilarity": float(word[1])} if word else read_nests(name)
        return NestedGumbelMax(**given, labels=outcomes)
    except InputError as error:
        raise InputError(f"`{argument}` is {str(name)!r}, but {error}") from error


def nests_in(text: str) -> dict[str, list[Any]]:
    """Nests from their contents in brackets, `[ferry|[bus|tram]][car|taxi]`, by which they are called."""
    signs = re.findall(r"[\[\]|]|[^\[\]|]+", re.sub(r"\]\s*\[", "]|[", text.strip()))
    written = (each if each in "[]" else "," if each == "|" else json.dumps(each.strip()) for each in signs)
    try:
        found = json.loads(f"[{''.join(written)}]")
    except ValueError as error:
        raise InputError(f"nests must be written [OUTCOME|OUTCOME][OUTCOME|[OUTCOME|OUTCOME]], got {text!r}") from error

    def called(nest: Any) -> str:
        return "|".join(map(called, nest)) if isinstance(nest, list) else nest

    def by_name(nests: list[Any]) -> dict[str, list[Any]]:
        return {
            called(nest): [by_name([each]) if isinstance(each, list) else Written(each) for each in nest]
            for nest in nests
        }

    return by_name(found)


def _vector_quantile(
    score: NDArray[np.floating], other: Scores, pairs: Pairs | None, argument: str
) -> AbstractCoupling:
    if other is not None and not np.array_equal(score, other):
        raise InputError(
            f"`{argument}` can be {VECTOR!r} only where both worlds have the same scores: a mechanism does not know "
            "in which world it is; use 'comonotone' for one score, or a learned coupling"
        )
    if np.ndim(score) == 1:
        return VectorQuantile(np.mean(score).reshape(1, 1), score)
    if pairs is None:
        raise InputError(
            f"`{argument}` can be {VECTOR!r} of several scores only where there are pairs of worlds to fit it to; fit "
            "it with `VectorQuantile.fit`, and give that, or the file that `countermax.save` wrote"
        )
    return VectorQuantile.fit(score, pairs, key=jax.random.key(0))
