"""Exact losses of many mechanisms on the same held-out pairs, beside the best that any coupling can do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich import box
from rich.table import Table
from rich.text import Text

from countermax import plotting
from countermax._errors import InputError
from countermax._extras import import_pandas
from countermax.couplings import AbstractCoupling
from countermax.losses import Loss
from countermax.optima import least_losses
from countermax.pairs import Pairs, draw_pairs

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = ("loss", "standard_error", "above_optimum", "above_optimum_error", "difference", "difference_error")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Losses by mechanism and pair; everything else is computed from them."""

    losses: Mapping[str, NDArray[np.float64]]
    optimum: NDArray[np.float64]
    """The least loss that any coupling has, for each pair."""
    reference: str
    """The mechanism that differences are taken from."""

    def rows(self) -> dict[str, dict[str, float | None]]:
        """Mean loss, distance to the optimum and paired difference to the reference, each with its standard error.

        All mechanisms see the same pairs, so errors of differences are those of the pairs' differences, which are far
        smaller than the errors of the losses themselves.
        """
        best = self.optimum.mean()
        rows: dict[str, dict[str, float | None]] = {}
        for name, losses in {**self.losses, "optimum": self.optimum}.items():
            above = losses.mean() / best - 1 if best > 0 else None
            difference = losses - self.losses[self.reference]
            values = (
                losses.mean(),
                _error(losses),
                above,
                None if above is None else _error((losses - (1 + above) * self.optimum) / best),
                difference.mean(),
                _error(difference),
            )
            rows[name] = {
                column: None if value is None else float(value) for column, value in zip(_COLUMNS, values, strict=True)
            }
        return rows

    def to_frame(self) -> "pd.DataFrame":
        """One row for each mechanism, and one for the optimum."""
        pd = import_pandas()
        return pd.DataFrame.from_dict(self.rows(), orient="index").rename_axis("mechanism")

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers: the rows and what they were computed from."""
        return {"num_pairs": len(self.optimum), "reference": self.reference, "rows": self.rows()}

    def plot(self) -> Figure:
        """Bars of the mean losses, with their distance to the optimum."""
        means = {name: float(losses.mean()) for name, losses in self.losses.items()}
        return plotting.draw_losses(means, float(self.optimum.mean()), "Expected loss on held-out pairs")

    def __rich__(self) -> Table:
        title = f"{len(self.optimum)} held-out pairs; differences to {self.reference}"
        table = Table(title=Text(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("mechanism", no_wrap=True)
        for column in ("loss", "above optimum", "difference"):
            table.add_column(column, justify="right", no_wrap=True)
        for name, row in self.rows().items():
            table.add_row(
                Text(name),
                _with_error(row["loss"], row["standard_error"], "{:.4g}", "{:.2g}"),
                _with_error(row["above_optimum"], row["above_optimum_error"], "{:.2%}", "{:.2%}"),
                _with_error(row["difference"], row["difference_error"], "{:+.4g}", "{:.2g}"),
            )
        return table


def evaluate(
    mechanisms: Mapping[str, AbstractCoupling],
    pairs: Pairs,
    loss: Loss,
    *,
    key: PRNGKeyArray,
    num_pairs: int = 1000,
    reference: str | None = None,
) -> Evaluation:
    """Exact expected losses of many mechanisms on the same pairs.

    Args:
        mechanisms: Couplings with an exact law, by name.
        pairs: The query distribution.
        loss: The loss.
        key: Consumed once; draws the pairs.
        num_pairs: How many pairs; fewer if there are not so many different ones.
        reference: The mechanism that differences are taken from; by default the first.
    """
    if not mechanisms:
        raise InputError("`mechanisms` must name at least one mechanism")
    for name, mechanism in mechanisms.items():
        if not isinstance(mechanism, AbstractCoupling):
            raise InputError(f"`mechanisms` must have exact laws, but {name!r} is a {type(mechanism).__name__}")
    reference = next(iter(mechanisms)) if reference is None else reference
    if reference not in mechanisms:
        raise InputError(f"`reference` must be one of {', '.join(mechanisms)}, got {reference!r}")
    log_p, log_q = draw_pairs(pairs, num_pairs, key=key)
    losses = {name: np.asarray(exact_losses(each, loss, log_p, log_q), np.float64) for name, each in mechanisms.items()}
    return Evaluation(losses, least_losses(loss, log_p, log_q), reference)


@eqx.filter_jit
def exact_losses(
    mechanism: AbstractCoupling, loss: Loss, log_p: Float[Array, "n k"], log_q: Float[Array, "n k"]
) -> Float[Array, " n"]:
    """The expected loss of each pair, a batch at a time so that memory stays bounded."""
    return jax.lax.map(lambda pair: (mechanism._joint(*pair) * loss(*pair)).sum(), (log_p, log_q), batch_size=100)


def _error(values: NDArray[np.float64]) -> float | None:
    return None if len(values) < 2 else float(values.std(ddof=1) / np.sqrt(len(values)))


def _with_error(value: float | None, error: float | None, form: str, error_form: str) -> str:
    if value is None:
        return ""
    return form.format(value) + ("" if error is None else f" +- {error_form.format(error)}")
