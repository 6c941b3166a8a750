"""Probabilities of causation: the result, and how it shows itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from rich.console import Group, RenderableType
from rich.text import Text

from countermax import plotting, report
from countermax._core.console import add_line, listing
from countermax._core.errors import InputError
from countermax._core.extras import import_pandas
from countermax._core.labels import told_apart
from countermax._core.results import AbstractResult, plain
from countermax.bounds import Bounds
from countermax.causation._deciding import TreatmentDecision, decide, decision_words
from countermax.causation._questions import GAIN, Floats
from countermax.intervals import Interval

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_FAMILIES = {"": "bounds", "stable_": "stable_bounds", "monotone_": "monotone_bounds"}


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
    """If the treatment does harm to nobody; None where the data contradict that, or where it adds nothing."""
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
class Causation(AbstractResult):
    """Probabilities of causation, each with its bounds."""

    labels: tuple[str, ...]
    arms: tuple[str, str]
    """What being without the treatment, and being with it, is called."""
    event: tuple[str, ...] | None
    people: str
    """Who is asked about: units of the `trial`, or people who have `chosen` their arm."""
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
        who = (
            "Units of the trial are asked about: people whose arm was drawn by lot. Of people who chose, an experiment "
            "alone bounds neither PN nor PS."
            if self.people == "trial"
            else "People who chose their arm are asked about."
        )
        if self.level is None:
            return f"{who} Takes the probabilities as known: how well they were estimated is left out."
        comparable = "whether the arms are comparable (randomised, or alike in all that matters)"
        if self.observational is not None:
            comparable = "whether the samples are of one population"
        return f"{who} Intervals are for the sampling of {self.sample}. Left out: {comparable}."

    def columns(self) -> dict[str, list[Any]]:
        """One entry for each number."""
        columns: dict[str, list[Any]] = {"name": [each.name for each in self.answers]}
        for prefix, field in _FAMILIES.items():
            for side in ("lower", "upper"):
                limits = [getattr(each, field) for each in self.answers]
                columns[prefix + side] = [None if each is None else getattr(each, side) for each in limits]
        for name in dict.fromkeys(name for each in self.answers for name in each.by_coupling):
            columns[name] = [each.by_coupling.get(name) for each in self.answers]
        if self.level is not None:
            for prefix, field in _FAMILIES.items():
                for side in ("lower", "upper"):
                    found = [
                        None if each.intervals is None else getattr(each.intervals, field) for each in self.answers
                    ]
                    columns[f"{prefix}ci_{side}"] = [None if each is None else getattr(each, side) for each in found]
        columns["meaning"] = [each.meaning for each in self.answers]
        return columns

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
        """Ranges, one line for each number, with their intervals as bands."""
        lines = [
            plotting.CausationLine(
                each.name,
                each.bounds,
                each.stable_bounds,
                each.monotone_bounds,
                None if each.intervals is None else each.intervals.bounds[:2],
                each.by_coupling,
            )
            for each in self.answers
        ]
        return plotting.draw_causation(lines, self.title, "probability" if self.decision is None else "value")

    def write_report(self, path: str | Path) -> Path:
        """A self-contained page: the picture, every number with its meaning, and what is left out."""
        families = [field.replace("_", " ") for field in _FAMILIES.values()]
        rows = []
        for each in self.answers:
            found = each.intervals
            cells = [
                _cell(getattr(each, field), None if found is None else getattr(found, field))
                for field in _FAMILIES.values()
            ]
            rows.append([each.name, *(cell.replace("\n", " ") for cell in cells), each.meaning])
        blocks: list[report.Block] = [
            report.Picture(plotting.picture(self.plot()), self.title),
            report.Grid(("number", *families, "meaning"), rows),
            *(report.Paragraph(words) for words in self.sentences()),
            report.Preformatted("All numbers", self.to_json()),
        ]
        return report.write_report(Path(path), self.title, blocks)

    @property
    def title(self) -> str:
        """The question."""
        if self.event is None:
            return f"What {self.arms[1]} changes, rather than {self.arms[0]}"
        texts = zip(self.labels, told_apart(self.labels), strict=True)
        event = [text for label, text in texts if label in self.event]
        return f"{' or '.join(event)}: is {self.arms[1]} rather than {self.arms[0]} the cause?"

    def __rich__(self) -> Group:
        table = listing(self.title, ["number", "any coupling", "stable", "harms nobody", "meaning"], left=1)
        table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
        for each in self.answers:
            found = each.intervals
            cells = []
            for field in _FAMILIES.values():
                interval = None if found is None else getattr(found, field)
                cells.append(_cell(getattr(each, field), interval))
            add_line(table, [each.name, *cells, each.meaning])
        parts: list[RenderableType] = [table]
        names = list(dict.fromkeys(name for each in self.answers for name in each.by_coupling))
        if names:
            said = listing("What single couplings say", ["number", *names])
            for each in self.answers:
                if each.by_coupling:
                    add_line(said, [each.name, *(f"{each.by_coupling[name]:z.3f}" for name in names)])
            parts.append(said)
        return Group(*parts, *(Text(words) for words in self.sentences()))

    def sentences(self) -> list[str]:
        """What stands below the numbers."""
        words = []
        if self.level is not None:
            words.append(
                f"In parentheses: {self.level:.0%} intervals of the whole range, what other data could have shown. Any "
                "coupling: from the least to the largest number that the data allow."
            )
        if self.decision is not None:
            words.append(decision_words(self.decision, self.arms))
        return [*words, *self.notes, self.left_out]


def _cell(bounds: Bounds | None, interval: Interval | None) -> str:
    if bounds is None:
        return ""
    low, high = bounds
    text = f"{low:z.3f}" if high - low < 5e-4 else f"{low:z.3f} to {high:z.3f}"
    return text if interval is None else f"{text}\n({interval.lower:z.3f} to {interval.upper:z.3f})"
