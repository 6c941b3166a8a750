"""Probabilities of causation: the result, and how it shows itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from rich.console import Group

from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._core.labels import told_apart
from countermax._core.results import AbstractOldResult, plain
from countermax.bounds import Bounds
from countermax.causation import _showing
from countermax.causation._deciding import TreatmentDecision, decide
from countermax.causation._questions import GAIN, Floats
from countermax.intervals import Interval

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class CausalIntervals:
    """What other data could have shown: of ranges, the whole range."""

    bounds: Interval
    stable_bounds: Interval | None
    monotone_bounds: Interval | None
    by_coupling: Mapping[str, Interval]


@dataclass(frozen=True, eq=False)
class CausalAnswer:
    """One number: what data alone leave open, and what each coupling says."""

    name: str
    meaning: str
    bounds: Bounds | None
    """Over all couplings; None where nobody is asked about."""
    stable_bounds: Bounds | None
    """Over counterfactually stable couplings, where they are known."""
    monotone_bounds: Bounds | None
    """Under monotonicity; None where the data contradict that, or where it adds nothing."""
    monotonicity: str | None
    """What that assumes about this number, in words."""
    by_coupling: Mapping[str, float]
    intervals: CausalIntervals | None


@dataclass(frozen=True, eq=False)
class Attained:
    """Joint laws under which a number is as small, or as large, as it can be."""

    joints: Mapping[str, Floats]
    """[without, with] for each group of people: everybody, or those who chose an arm. Together they sum to one."""
    value: float
    """The number under these laws."""


@final
@dataclass(frozen=True, eq=False)
class Causation(AbstractOldResult):
    """Probabilities of causation, each with its bounds."""

    labels: tuple[str, ...]
    arms: tuple[str, str]
    """What being without the treatment, and being with it, is called."""
    event: tuple[str, ...] | None
    people: str
    """Who is asked about: units of the `trial`, people who have `chosen` their arm, or the `rows` of a table."""
    control: Floats | None
    """P(outcome without the treatment) in the experiment; None without one."""
    treated: Floats | None
    observational: Floats | None
    """[control, treated, elsewhere; outcomes]: P(chose, had); None without observations."""
    answers: tuple[CausalAnswer, ...]
    level: float | None
    """Confidence of the intervals; None where probabilities are taken as known."""
    sample: str | None
    """Whose outcomes were counted, in words."""
    notes: tuple[str, ...]
    attain: Callable[[str, str, str], Attained] | None
    """Couplings that attain a limit: name, side, kind; None for averages over strata or rows."""
    individual: Any = None
    """A frame with each row's own numbers, where rows were asked about."""

    def __getitem__(self, name: str) -> CausalAnswer:
        found = next((each for each in self.answers if each.name == name), None)
        if found is None:
            raise InputError(f"the result has {', '.join(each.name for each in self.answers)}, not {name!r}")
        return found

    def attaining(self, name: str, side: str, kind: str = "any") -> Attained:
        """Joint laws of both outcomes under which a number is at its `lower` or `upper` limit.

        Args:
            name: The number, for instance `PN`.
            side: `lower` or `upper`.
            kind: Couplings that the answer ranges over: `any`, `stable` or `monotone` ones.
        """
        if side not in ("lower", "upper") or kind not in ("any", "stable", "monotone"):
            raise InputError(f"`side` must be lower or upper and `kind` any, stable or monotone, got {side}, {kind}")
        bounds = getattr(self[name], "bounds" if kind == "any" else f"{kind}_bounds")
        if self.attain is None or bounds is None:
            raise InputError(f"no coupling is known for the {side} limit of {name} over {kind} couplings")
        return self.attain(name, side, kind)

    @property
    def decision(self) -> TreatmentDecision | None:
        """Whether to treat; None where no `gain` was given."""
        answer = next((each for each in self.answers if each.name == GAIN), None)
        if answer is None or answer.bounds is None:
            return None
        lower, upper = answer.bounds
        treat = upper + lower > 0
        interval = None if answer.intervals is None else decide(*answer.intervals.bounds[:2])
        says = {name: "treat" if value > 0 else "leave" for name, value in answer.by_coupling.items()}
        regret = max(0.0, -lower if treat else upper)
        return TreatmentDecision(decide(lower, upper), interval, "treat" if treat else "leave", regret, says)

    @property
    def left_out(self) -> str:
        """What the numbers take as given."""
        return _showing.left_out(self)

    def columns(self) -> dict[str, list[Any]]:
        """One entry for each number.

        `lower` and `upper` are the bounds over all couplings (`stable_` and `monotone_` over some), `bounds_ci_lower`
        and `bounds_ci_upper` the interval of the whole range. Each coupling has a column for its own answer, and
        with `_ci_lower` and `_ci_upper` behind its name, for the interval of that.
        """
        return _showing.columns(self)

    def to_frame(self) -> "pd.DataFrame":
        """One row for each number."""
        return import_pandas().DataFrame(self.columns()).dropna(axis="columns", how="all").set_index("name")

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        answers = [
            {**vars(each), "intervals": None if each.intervals is None else vars(each.intervals)}
            for each in self.answers
        ]
        return plain(
            {
                "labels": self.labels,
                "arms": self.arms,
                "event": self.event,
                "people": self.people,
                "control": self.control,
                "treated": self.treated,
                "observational": self.observational,
                "answers": answers,
                "decision": None if self.decision is None else vars(self.decision),
                "level": self.level,
                "sample": self.sample,
                "notes": self.notes,
                "left_out": self.left_out,
            }
        )

    def plot(self) -> "Figure":
        """Ranges and answers of couplings, one block for each number, with their intervals."""
        return _showing.drawn(self)

    def write_report(self, path: str | Path) -> Path:
        """A self-contained page: the picture, every number with its meaning, and what is left out."""
        return _showing.write_page(self, path)

    @property
    def title(self) -> str:
        """The question."""
        if self.event is None:
            return f"What {self.arms[1]} changes, rather than {self.arms[0]}"
        texts = zip(self.labels, told_apart(self.labels), strict=True)
        event = [text for label, text in texts if label in self.event]
        return f"{' or '.join(event)}: is {self.arms[1]} rather than {self.arms[0]} the cause?"

    def __rich__(self) -> Group:
        return _showing.shown(self)

    def sentences(self) -> list[str]:
        """What stands below the numbers."""
        return _showing.sentences(self)
