"""Who switches from what to what, from the utilities of a choice model before and after a change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from countermax import _plotting as plotting
from countermax._core.errors import InputError
from countermax._core.labels import Labels, told_apart
from countermax._core.results import AbstractResult, Row
from countermax._core.words import confidence, number, percents, span
from countermax._kernel import joint_sums
from countermax.bounds import Bounds
from countermax.couplings import GumbelMax, NestedGumbelMax
from countermax.couplings._named import name_of
from countermax.intervals import Interval
from countermax.intervals._interval import check_level

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANY = "any coupling"
_AT_ONCE = 2**14  # choosers

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SwitchingTable(AbstractResult):
    """How many choosers go from each alternative to each other, in cells [before, after]."""

    labels: tuple[str, ...]
    coupling: str
    counts: Floats
    """Expected numbers of choosers; rows add up to the model's demand before, columns to that after."""
    bounds: Bounds
    """The least and the largest number over all couplings of each chooser's two choices, each cell for itself."""
    interval: Interval | None
    """Confidence interval of `counts` for the sampling of choosers; None for a single one."""
    surplus: Floats
    """Total rise of the best utility of those in each cell; all cells add up to the change of the logsums."""
    logsums: tuple[float, float]
    """The sum over choosers of their logsums, before and after."""
    unit: str
    """What surplus and logsums are measured in."""
    num_choosers: int

    @property
    def title(self) -> str:
        """The question."""
        return "Which alternative does who chooses each one take after the change?"

    @property
    def sample(self) -> str:
        """How many there were."""
        return f"{self.num_choosers:,} choosers"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the numbers take as given."""
        return ("The model's probabilities are true, and what it does not observe about a chooser stays the same.",)

    @property
    def notes(self) -> tuple[str, ...]:
        """What intervals are for."""
        if self.interval is None:
            return ()
        return (f"(...): {confidence(self.interval.level)} confidence interval for the sampling of choosers.",)

    @property
    def mean_surplus(self) -> Floats:
        """By how much the best utility of a chooser in each cell rises; NaN where there is none."""
        return self.surplus / np.where(self.counts > 0, self.counts, np.nan)

    @property
    def rows(self) -> Sequence[Row]:
        """For each pair of alternatives: the number, its bounds, and the surplus."""
        found, labels = [], told_apart(self.labels)
        for i, before in enumerate(labels):
            for j, after in enumerate(labels):
                name, about = f"count({after})", f"before {before}"
                ends = () if self.interval is None else (self.interval.lower[i, j], self.interval.upper[i, j])
                found.append(Row(name, about, self.coupling, float(self.counts[i, j]), None, None, *map(float, ends)))
                found.append(Row(name, about, ANY, None, *(float(each[i, j]) for each in self.bounds)))
                found.append(Row(f"surplus({after})", about, self.coupling, float(self.surplus[i, j])))
        found += [
            Row(f"logsum {when}", "everybody", "", each)
            for when, each in zip(("before", "after"), self.logsums, strict=True)
        ]
        return found

    def summary(self) -> str:
        """How many switch, and the largest flow."""
        total = self.counts.sum()
        stay = float(np.trace(self.counts)) / total
        low, high = (1 - float(np.trace(each)) / total for each in (self.bounds.upper, self.bounds.lower))
        words = [
            f"Of {number(total, 0)} choosers {percents(1 - stay, 1 - stay)} switch under {self.coupling}; whatever "
            f"the coupling, {percents(low, high)}."
        ]
        moved = np.where(np.eye(len(self.labels), dtype=bool), -1.0, self.counts)
        i, j = np.unravel_index(int(moved.argmax()), moved.shape)
        if moved.max() > 0:
            labels = told_apart(self.labels)
            words.append(
                f"The largest flow is from {labels[i]} to {labels[j]}: {number(moved[i, j], 1)} ({ANY}: "
                f"{span(self.bounds.lower[i, j], self.bounds.upper[i, j], 1)})."
            )
        change = self.logsums[1] - self.logsums[0]
        words.append(f"The change is worth {number(change)} {self.unit} in all.")
        return " ".join(words)

    def plot(self, title: str | None = None) -> "Figure":
        """The flows."""
        told = "Before the change, and after it" if title is None else title
        return plotting.draw_flows(self.counts, told_apart(self.labels), told, self.coupling, self.bounds)

    def _details(self) -> Mapping[str, Any]:
        return {"coupling": self.coupling, "labels": self.labels, "counts": self.counts, "surplus": self.surplus}


def switching_table(
    base: Any,
    scenario: Any,
    coupling: Any = None,
    *,
    labels: Sequence[str] | None = None,
    weights: Any = None,
    money: float | None = None,
    level: float = 0.95,
) -> SwitchingTable:
    """The exact table of who switches from what to what, if what the model does not observe stays the same.

    Args:
        base: Utilities before the change, [choosers or segments, alternatives]: an array or a frame. NaN or -inf marks
            what is not available.
        scenario: The same after it.
        coupling: The choice model: `NestedGumbelMax` for the nested logit; by default the logit.
        labels: Names of the alternatives; by default the columns of a frame, or their numbers.
        weights: Number of choosers that each row stands for; by default one.
        money: Marginal utility of money, so that surplus is in its unit; by default it is in that of utility.
        level: Confidence of the intervals for the sampling of choosers.
    """
    names = getattr(base, "columns", None) if labels is None else labels
    before, after = _utilities("base", base), _utilities("scenario", scenario)
    if before.shape != after.shape:
        raise InputError(f"`base` and `scenario` must have one shape, got {before.shape} and {after.shape}")
    count, size = before.shape
    known = Labels(tuple(map(str, range(size) if names is None else names)))
    if len(known) != size:
        raise InputError(f"`labels` must name {size} alternatives, got {len(known)}")
    model = GumbelMax() if coupling is None else coupling
    if not isinstance(model, GumbelMax | NestedGumbelMax):
        raise InputError(f"`coupling` must be a `NestedGumbelMax` or `GumbelMax`, which have utilities, got {model!r}")
    model.check_size(size)
    amounts = np.ones(count) if weights is None else np.asarray(weights, np.float64)
    if amounts.shape != (count,) or not (np.isfinite(amounts) & (amounts >= 0)).all() or not amounts.any():
        raise InputError(f"`weights` must be {count} finite numbers, none of them negative and not all 0")
    if money is not None and not (0 < money < np.inf):
        raise InputError(f"`money` must be positive, got {money}; it is minus the coefficient of cost")
    check_level(level)
    price = 1.0 if money is None else float(money)
    sums, limits, logsums = np.zeros((3, size, size)), np.zeros((2, size, size)), np.zeros(2)
    for start in range(0, count, _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        (log_p, own), (log_q, other) = (_chosen(model, each[part]) for each in (before, after))
        sums += joint_sums(model, log_p, log_q, amounts[part], other - own)
        logsums += np.array([amounts[part] @ own, amounts[part] @ other])
        p, q = np.exp(log_p), np.exp(log_q)
        for i in range(size):
            limits[0, i] += amounts[part] @ np.maximum(p[:, i : i + 1] + q - 1, 0)
            limits[1, i] += amounts[part] @ np.minimum(p[:, i : i + 1], q)
    return SwitchingTable(
        labels=tuple(map(str, known.values)),
        coupling=name_of(model),
        counts=sums[0],
        bounds=Bounds(*limits),
        interval=_interval(sums[0], sums[1], count, level),
        surplus=sums[2] / price,
        logsums=(float(logsums[0] / price), float(logsums[1] / price)),
        unit="units of utility" if money is None else "units of money",
        num_choosers=count,
    )


def _utilities(name: str, given: Any) -> Floats:
    try:
        array = np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` must hold numbers, [choosers, alternatives]") from error
    if array.ndim != 2 or not array.size:
        raise InputError(f"`{name}` must have the shape [choosers, alternatives], got {array.shape}")
    array = np.where(np.isnan(array), -np.inf, array)
    if (array == np.inf).any():
        raise InputError(f"`{name}` must be below +inf; row {int((array == np.inf).any(axis=1).argmax())} is not")
    if (none := (array == -np.inf).all(axis=1)).any():
        raise InputError(f"`{name}` must leave an alternative available, but row {int(none.argmax())} has none")
    return array


def _chosen(model: GumbelMax | NestedGumbelMax, utilities: Floats) -> tuple[Floats, Floats]:
    """Log-probabilities and logsums."""
    if isinstance(model, GumbelMax):
        most = utilities.max(axis=1)
        logsum = most + np.log(np.exp(utilities - most[:, None]).sum(axis=1))
        return utilities - logsum[:, None], logsum
    with jax.enable_x64(True):
        log_probs, logsum = _choices(model, jnp.asarray(utilities))
        return np.asarray(log_probs), np.asarray(logsum)


@eqx.filter_jit
def _choices(model: NestedGumbelMax, utilities: Any) -> Any:
    return jax.vmap(model.choice)(utilities)


def _interval(total: Floats, squares: Floats, count: int, level: float) -> Interval | None:
    """Choosers are a sample of many: the normal interval of a sum."""
    if count < 2:
        return None
    from scipy.stats import norm

    spread = norm.ppf((1 + level) / 2) * np.sqrt(np.maximum(squares - total**2 / count, 0) * count / (count - 1))
    return Interval(np.maximum(total - spread, 0), total + spread, level)
