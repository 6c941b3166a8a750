"""Array aliases: what the letters in every signature mean."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from jaxtyping import Array, ArrayLike, Float, Int, Key, Real, UInt32

Logits: TypeAlias = Real[ArrayLike, " k"] | Sequence[int | float]
"""Unnormalised log-probabilities of `k` outcomes; `-inf` marks an impossible one."""

LogProbs: TypeAlias = Float[Array, " k"]
"""Log-probabilities that sum to one; what the algebra works on."""

Probs: TypeAlias = Float[Array, " k"]
"""Probabilities of `k` outcomes."""

Joint: TypeAlias = Float[Array, "k k"]
"""P(X=i, Y=j): the factual outcome picks the row, the other world's the column."""

OutcomeLike: TypeAlias = Int[ArrayLike, ""]
"""The index of an outcome, as callers hand it in."""

Outcome: TypeAlias = Int[Array, ""]
"""The index of an outcome."""

Score: TypeAlias = Real[ArrayLike, " k"] | Sequence[int | float]
"""One number for each outcome: how good it is."""

Scalar: TypeAlias = Float[Array, ""]
"""A number."""

Keys: TypeAlias = Key[Array, " n"] | UInt32[Array, "n 2"]
"""A batch of PRNG keys, new-style or old."""

Numbers: TypeAlias = ArrayLike | Sequence[int | float]
"""A vector as users write it down: an array, a list or a tuple."""


@runtime_checkable
class Labelled(Protocol):
    """Numbers by label: a dictionary, or a pandas series."""

    def keys(self) -> Iterable[Any]:
        """The labels."""

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Each label with its number."""
