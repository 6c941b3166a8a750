"""What a categorical node would have been: probabilities, bounds, and what both take as given."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from rich.console import Group
from rich.text import Text

from countermax import _plotting as plotting
from countermax._core.console import add_line, listing
from countermax._core.extras import import_pandas
from countermax._core.labels import Labels
from countermax._core.results import AbstractOldResult, plain
from countermax.bounds import Bounds
from countermax.integrations.dowhy._noise import Codes, Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

pd = import_pandas()

GIVEN = (
    "The graph, with noise of its own for each node, and the fitted classifiers are taken as known: how well they were "
    "estimated is left out, and so is what another sample would give."
)
_OVER = {"any": "any coupling", "stable": "any stable coupling"}
_SHARP = "Each limit is sharp: for each row some choice of couplings attains it."
_OUTER = (
    "Limits are outer bounds{rows}: valid for all couplings, but perhaps wider than any of them can be, because "
    "uncertain nodes meet again on the way."
)
_OUTER_STABLE = (
    "Limits are outer bounds{rows}: valid for all stable couplings, but perhaps wider than any of them can be, because "
    "several worlds of the parents, or uncertain nodes that meet again, are on the way."
)


@final
@dataclass(frozen=True, eq=False)
class NodeAnswer(AbstractOldResult):
    """What one node would have been, in each row."""

    node: Hashable
    labels: tuple[Hashable, ...]
    seen: Any
    """What was seen, a Series."""
    coupling: str
    """The name of the node's coupling."""
    above: Mapping[Hashable, str]
    """The couplings of the uncertain nodes that it depends on, from the first to the last."""
    remarks: tuple[str, ...]
    """What a reader should know about the couplings: an order of the classes that decides and that nobody gave."""
    probabilities: Any
    """A DataFrame with a column for each label, under these couplings."""
    bounds: Bounds | None
    """Two such frames: the least and the largest probability over couplings of all these nodes, each for itself."""
    bounds_over: str
    """The couplings that the bounds are over: `any`, `stable` or `none`."""
    is_sharp: NDArray[np.bool_]
    """For each row, whether some choice of couplings attains its bounds; if not they are outer bounds."""
    unchanged: NDArray[np.bool_]
    """The rows whose parents would have been as they were: they keep what was seen, whatever the coupling."""
    slack: Floats | None
    """For each row, how wide the widest bounds over all couplings are."""
    score: Any = None
    """With a score: its expectation in each row, a Series."""
    score_bounds: Bounds | None = None
    """Two such Series."""
    tolerance: float = 0.05
    prefix: str = field(default="counterfactual_", repr=False)

    @property
    def most_likely(self) -> Any:
        """The most likely label of each row, in the type of the observed column."""
        codes = self.probabilities.to_numpy().argmax(axis=1)
        values = [self.labels[code] for code in codes]
        try:
            return pd.Series(values, index=self.seen.index, dtype=self.seen.dtype)
        except (TypeError, ValueError):  # labels of a kind that the column cannot hold
            return pd.Series(values, index=self.seen.index)

    @property
    def coupling_matters(self) -> NDArray[np.bool_] | None:
        """For each row, whether data alone leave some probability open by more than the tolerance."""
        return None if self.slack is None else self.slack > self.tolerance

    @property
    def counts(self) -> Floats:
        """How many rows with each label are expected to have had which, [seen, instead]."""
        return self._by_seen(self.probabilities)

    @property
    def count_bounds(self) -> Bounds | None:
        """The rows' bounds, added up."""
        return None if self.bounds is None else Bounds(*map(self._by_seen, self.bounds))

    def to_frame(self) -> Any:
        """One row for each observed row: probabilities, most likely label, score, bounds and whether they matter."""
        names = Labels(self.labels).names
        columns = {f"{self.prefix}{name}": self.probabilities.iloc[:, place] for place, name in enumerate(names)}
        columns[f"{self.prefix}most_likely"] = self.most_likely
        if self.score is not None:
            columns[f"{self.prefix}score"] = self.score
        if self.score_bounds is not None:
            columns[f"{self.prefix}score_lower"], columns[f"{self.prefix}score_upper"] = self.score_bounds
        if self.bounds is not None:
            for place, name in enumerate(names):
                for side, limits in zip(("lower", "upper"), self.bounds, strict=True):
                    columns[f"{self.prefix}{name}_{side}"] = limits.iloc[:, place]
            kinds = np.where(self.is_sharp, "sharp", "outer")
            columns[f"{self.prefix}bounds"] = pd.Series(kinds, index=self.seen.index)
            columns[f"{self.prefix}coupling_matters"] = pd.Series(self.coupling_matters, index=self.seen.index)
        frame = pd.DataFrame(columns)
        frame.attrs = self.words()
        return frame

    def words(self) -> dict[str, Any]:
        """What the numbers are: couplings, bounds, and what is taken as given."""
        return plain(
            {
                "node": self.node,
                "coupling": self.coupling,
                "couplings_above": dict(self.above),
                "remarks": self.remarks,
                "bounds_over": self.bounds_over,
                "about_bounds": None if self.bounds is None else self._about_bounds(),
                "taken_as_given": GIVEN,
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, in the order of the rows."""
        limits = self.bounds and Bounds(*(each.to_numpy() for each in self.bounds))
        return plain(
            {
                **self.words(),
                "num_rows": len(self.seen),
                "num_unchanged": int(self.unchanged.sum()),
                "labels": self.labels,
                "seen": self.seen.astype(object).tolist(),
                "probabilities": self.probabilities.to_numpy(),
                "bounds": limits,
                "is_sharp": None if limits is None else self.is_sharp,
                "score": None if self.score is None else self.score.to_numpy(),
                "score_bounds": self.score_bounds and Bounds(*(each.to_numpy() for each in self.score_bounds)),
                "tolerance": self.tolerance,
                "coupling_matters": self.coupling_matters,
            }
        )

    def plot(self) -> "Figure":
        """Of one row bars with the bounds as whiskers; of several, how many with each label would have had which."""
        return plotting.draw_nodes([self.panel()], " ".join([*self.remarks, GIVEN]))

    def panel(self) -> plotting.NodePanel:
        """What `countermax._plotting.draw_nodes` draws of this node."""
        seen, bounds = np.bincount(self._places(), minlength=len(self.labels)), self.count_bounds
        rows = np.where(seen > 0, seen, np.nan)[:, None]
        over = _OVER.get(self.bounds_over, "")
        title = f"{self.node}: {self.seen.iloc[0]} was seen, what instead" if len(self.seen) == 1 else str(self.node)
        return plotting.NodePanel(
            title=f"{title} under {self._under()}",
            coupling=self.coupling,
            labels=[str(label) for label in self.labels],
            seen=seen,
            shares=self.counts / rows,
            bounds=None if bounds is None else (bounds.lower / rows, bounds.upper / rows),
            over=over if self.is_sharp.all() else f"{over} (outer bounds)",
        )

    def __rich__(self) -> Group:
        return Group(self._listing(), Text(" ".join(self._notes())), Text(GIVEN))

    def _listing(self) -> Any:
        whose = _OVER.get(self.bounds_over)
        numbers, limits = self.counts, self.count_bounds
        one = len(self.seen) == 1
        title = f"{self.node}, {len(self.seen):,} rows: what was seen, and what would have been under {self._under()}"
        if one:
            title = f"{self.node}: {self.seen.iloc[0]} was seen. What would have been under {self._under()}?"
        headers = ["instead", "probability"] if one else ["seen", "instead", "count", "share"]
        table = listing(title, headers if whose is None else [*headers, whose], left=1 if one else 2)
        form = "{:.3f}" if one else "{:,.1f}"
        for row in np.unique(self._places()):
            for column, other in enumerate(self.labels):
                cells = [str(other), form.format(numbers[row, column])]
                if not one:
                    share = numbers[row, column] / numbers[row].sum()
                    cells = [str(self.labels[row]) if column == 0 else "", *cells, f"{share:.1%}"]
                if limits is not None:
                    cells.append(" to ".join(form.format(each[row, column]) for each in limits))
                add_line(table, cells, last=column == len(self.labels) - 1)
        return table

    def _under(self) -> str:
        names = dict.fromkeys([*self.above.values(), self.coupling])
        if len(names) == 1:
            return self.coupling
        return ", ".join(f"{name} for {node}" for node, name in [*self.above.items(), (self.node, self.coupling)])

    def _notes(self) -> list[str]:
        notes = list(self.remarks)
        if self.above:
            notes.append(f"Summed exactly over what {', '.join(map(str, self.above))} would have been.")
        if self.bounds is not None:
            whose = f" of {', '.join(map(str, [*self.above, self.node]))}" if self.above else ""
            notes.append(
                f"{_OVER[self.bounds_over].capitalize()}{whose}, each number for itself. {self._about_bounds()}"
                + " Counts add the rows' limits up." * (len(self.seen) > 1)
            )
        if self.unchanged.any():
            what = f"{self.unchanged.sum():,} rows" if len(self.seen) > 1 else "This row"
            notes.append(f"{what}: the parents would have been as they were, so the outcome is the one seen.")
        return notes

    def _about_bounds(self) -> str:
        outer = len(self.seen) - int(self.is_sharp.sum())
        if not outer:
            return _SHARP
        words = _OUTER_STABLE if self.bounds_over == "stable" else _OUTER
        return words.format(rows="" if outer == len(self.seen) else f" in {outer:,} of {len(self.seen):,} rows")

    def _places(self) -> Codes:
        return Labels(self.labels).places(self.seen.astype(object).tolist())

    def _by_seen(self, frame: Any) -> Floats:
        sums = np.zeros((len(self.labels), len(self.labels)))
        np.add.at(sums, self._places(), frame.to_numpy())
        return sums
