"""Exact losses of many couplings on the same held-out pairs, beside the best that any coupling can do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import PRNGKeyArray
from numpy.typing import NDArray

from countermax import _plotting as plotting
from countermax._core.checks import as_key
from countermax._core.errors import InputError
from countermax._core.page import Sheet
from countermax._core.quantities import as_choice, as_count
from countermax._core.results import AbstractResult, Row
from countermax._pairs import Pairs, draw_pairs, num_outcomes_of
from countermax.couplings import AbstractCoupling
from countermax.couplings._named import as_couplings
from countermax.intervals._interval import ratio_error, standard_error
from countermax.learning._losses import Loss, expected_losses, least_losses

OPTIMUM = "optimum"
"""What the row of the optimum is called, and no coupling."""

_NORMAL = 1.959963984540054  # standard errors on either side of an estimate, for 95% confidence
_COLUMNS = ("loss", "standard_error", "above_optimum", "above_optimum_error", "difference", "difference_error")


@final
@dataclass(frozen=True, eq=False)
class Evaluation(AbstractResult):
    """Losses by coupling and pair; everything else is computed from them."""

    losses: Mapping[str, NDArray[np.float64]]
    optimum: NDArray[np.float64]
    """The least loss that any coupling has, for each pair."""
    reference: str
    """The coupling that differences are taken from."""
    loss: str
    """What was measured: the name of the loss."""
    pairs: str
    """Which pairs it was measured on: the name of their distribution."""

    assumptions = ("Each loss is exact for its pair; 95% confidence intervals are over the pairs that were drawn.",)
    notes = ("The optimum sees both worlds of each pair at once, which no mechanism can.",)

    @property
    def by_coupling(self) -> dict[str, dict[str, float | None]]:
        """Mean loss, distance to the optimum and paired difference to the reference, each with its standard error.

        All couplings see the same pairs, so errors of differences are those of the pairs' differences, which are far
        smaller than the errors of the losses themselves.
        """
        best = self.optimum.mean()
        found: dict[str, dict[str, float | None]] = {}
        for name, losses in {**self.losses, OPTIMUM: self.optimum}.items():
            above = losses.mean() / best - 1 if best > 0 else None
            difference = losses - self.losses[self.reference]
            error = None if above is None else ratio_error(losses, self.optimum)
            first, last = (losses.mean(), standard_error(losses)), (difference.mean(), standard_error(difference))
            values = [None if value is None else float(value) for value in (*first, above, error, *last)]
            found[name] = dict(zip(_COLUMNS, values, strict=True))
        return found

    @property
    def title(self) -> str:
        return f"Expected loss ({self.loss}) on held-out pairs ({self.pairs})"

    @property
    def rows(self) -> tuple[Row, ...]:
        quantities = ("expected loss", "above the optimum", f"difference to {self.reference}")
        return tuple(
            _row(quantity, name, row[value], row[error])
            for name, row in self.by_coupling.items()
            for quantity, value, error in zip(quantities, _COLUMNS[::2], _COLUMNS[1::2], strict=True)
            if row[value] is not None
        )

    @property
    def sample(self) -> str:
        return f"{len(self.optimum)} held-out pairs"

    def _summary(self) -> str:
        means = {name: float(losses.mean()) for name, losses in self.losses.items()}
        best = min(means, key=lambda name: means[name])
        above = self.by_coupling[best]["above_optimum"]
        near = "" if above is None else f", {above:.2%} above the least of any coupling"
        return (
            f"Every coupling was asked about the same {len(self.optimum)} pairs. {best} has the least expected loss, "
            f"{means[best]:.4g}{near}."
        )

    def sheet(self) -> Sheet:
        """The table for a page."""
        lines = [[name, *row.values()] for name, row in self.by_coupling.items()]
        return Sheet(
            f"{self.loss} on {len(self.optimum)} held-out pairs of {self.pairs}; differences to {self.reference}",
            ("coupling", *_COLUMNS),
            ("", *(".4g" for _ in _COLUMNS)),
            lines,
        )

    def _plot(self) -> "plotting.Figure":
        means = {name: float(losses.mean()) for name, losses in self.losses.items()}
        return plotting.draw_losses(means, float(self.optimum.mean()), "Expected loss on held-out pairs")

    def _details(self) -> Mapping[str, Any]:
        return {**self._named("loss", "pairs", "reference", "by_coupling"), "num_pairs": len(self.optimum)}


def evaluate(
    couplings: Mapping[str, str | AbstractCoupling] | Sequence[str],
    pairs: Pairs,
    loss: Loss,
    *,
    key: PRNGKeyArray,
    num_pairs: int = 1000,
    reference: str | None = None,
) -> Evaluation:
    """Exact expected losses of many couplings, by name, or of fixed ones by their own names, on the same pairs.

    Fewer pairs are drawn if there are not so many different ones. Differences are taken from the coupling that is the
    `reference`; by default the first. The key is consumed once.
    """
    num_pairs = as_count("`num_pairs`", num_pairs)
    asked = as_couplings(couplings, num_outcomes_of(pairs), reserved=(OPTIMUM,))
    if OPTIMUM in asked:
        raise InputError(f"no coupling can be called {OPTIMUM!r}: that is the row of the optimum; choose another name")
    reference = as_choice("`reference`", next(iter(asked)) if reference is None else reference, asked)
    log_p, log_q = draw_pairs(pairs, num_pairs, key=as_key(key))
    losses = {name: np.asarray(expected_losses(each, loss, log_p, log_q), np.float64) for name, each in asked.items()}
    for name, values in losses.items():
        if not np.isfinite(values).all():
            pair = int((~np.isfinite(values)).argmax())
            raise InputError(f"the loss of {name!r} is not finite on pair {pair}: the loss or the logits are too large")
    return Evaluation(losses, least_losses(loss, log_p, log_q), reference, _name(loss), _name(pairs))


def _name(given: Loss | Pairs) -> str:
    """The name of a function, or of the class of anything else that can be called."""
    return getattr(given, "__name__", type(given).__name__)


def _row(quantity: str, coupling: str, value: float | None, error: float | None) -> Row:
    if value is None or error is None:
        return Row(quantity, "held-out pairs", coupling, value)
    ends = value - _NORMAL * error, value + _NORMAL * error
    return Row(quantity, "held-out pairs", coupling, value, None, None, *ends)
