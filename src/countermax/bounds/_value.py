"""The range of answers that couplings can give: one type wherever there is one."""

from typing import Any, NamedTuple

from jaxtyping import Array, Bool


class Bounds(NamedTuple):
    """The least and the largest answer over couplings, all of which fit the data equally well.

    One number each, or arrays with one for each answer. Sampling is left out: for that there is `Interval`.
    """

    lower: Any
    upper: Any

    @property
    def width(self) -> Any:
        """How much is left to the choice of coupling."""
        return self.upper - self.lower

    def shifted(self, by: Any) -> "Bounds":
        """The same range, moved."""
        return Bounds(self.lower + by, self.upper + by)

    def contains(self, value: Any, tolerance: float = 1e-6) -> Bool[Array, "..."] | Any:
        """Whether an answer is compatible with the data, up to rounding."""
        return (self.lower - tolerance <= value) & (value <= self.upper + tolerance)
