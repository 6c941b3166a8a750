"""Probabilities of causation of each row of a table, and on average; the counterfactual world is the treated one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from countermax._core.results import Row, column_names
from countermax._core.words import ANY, WARNING
from countermax._kernel import mean_worths
from countermax._tables.frames import Flags, Floats
from countermax.causation._limits import limits
from countermax.causation._questions import Arms, CausalQuestion, Evidence, as_event, as_gain, questions_about
from countermax.causation._result import ABOUT, ROWS, Causation, causation_title
from countermax.comparison._asking import refuse_families
from countermax.couplings import AbstractCoupling
from countermax.couplings._named import as_couplings
from countermax.tables._groups import added_up, rows_of
from countermax.tables._notes import count_notes, label_notes, unweighted_note, what_is_known
from countermax.tables._probabilities import Predicted
from countermax.tables._reading import AbstractSums, Chunk, RowCounts, RowReader
from countermax.tables._refit import Refitted, Refitting
from countermax.tables._sources import AbstractSource, FrameSource

_SHARE = 0.5  # of the treated; questions that it decides are not asked of rows
_NOT_OF_ROWS = ("disablement", "enablement")
_LIMITS = ("lower", "upper")
_DECISIONS = np.array(["leave", "open", "treat"])


@dataclass(frozen=True, eq=False)
class CausesAsked:
    """The questions, and the couplings that are asked beside the bounds."""

    questions: tuple[CausalQuestion, ...]
    couplings: Mapping[str, AbstractCoupling]
    columns: list[str]
    """Names of each row's numbers: for each question the bounds, then each coupling's answer."""
    has_gain: bool
    kept: list[Floats] | None = None
    """Each row's numbers, where they are kept while they are added up."""

    @property
    def width(self) -> int:
        """How many numbers each question has."""
        return 2 + len(self.couplings)

    def begin(self, first_row: int) -> "CauseSums":
        return CauseSums(np.zeros((2, len(self.columns))))

    def measure(self, chunk: Chunk) -> tuple[Floats, Floats]:
        """Each row's answers, and how many each is asked about."""
        values, whom = _of_chunk(self, chunk)
        if self.kept is not None:
            self.kept.append(np.where(chunk.bad, np.nan, values))
        return values, whom


@dataclass(eq=False)
class CauseSums(AbstractSums):
    """What the answers of some rows add up to."""

    total: Floats
    """[2, columns]: how many count, and how many are asked about."""
    counts: RowCounts = field(default_factory=RowCounts)

    def add(self, chunk: Chunk, numbers: tuple[Floats, Floats], among: Flags) -> None:
        values, whom = numbers
        weight = np.where(among & ~chunk.bad, chunk.weight, 0.0)
        self.total += np.stack([(values * whom) @ weight, whom @ weight])
        self.counts.add(chunk, among)

    @property
    def means(self) -> Floats:
        """The answer over all rows; NaN where nobody is asked about."""
        return self.total[0] / np.where(self.total[1] > 0, self.total[1], np.nan)


def table_causes(
    source: AbstractSource,
    refitting: Refitting | None,
    event: Any,
    at_least: int | float | None,
    gain: Any,
    arms: tuple[str, str],
    couplings: Mapping[str, str | AbstractCoupling] | Sequence[str] | None,
) -> Causation:
    """What the treatment causes in each row and on average; arguments are those of `Rows.causes`."""
    reader = source.reader
    names, scores = reader.labels, reader.one_score
    events = None if event is None else as_event(names, event)
    gains = None if gain is None else as_gain(names, gain)
    both = None if scores is None else (scores, scores)
    found = questions_about(names, arms, events, both, at_least, gains, False)
    with jax.enable_x64(True):
        by_score: dict[str, Any] = {} if scores is None else {"score": scores, "counterfactual_score": scores}
        chosen = as_couplings(couplings, names, **by_score) if couplings else {}
    refuse_families(chosen)
    questions = tuple(each for each in found if each.name not in _NOT_OF_ROWS)
    columns: list[str] = []
    for each in questions:
        columns += column_names(f"{each.name}_".replace(" ", "_"), [*_LIMITS, *chosen], columns)
    asked = CausesAsked(questions, chosen, columns, gain is not None)
    keeping = replace(asked, kept=[]) if isinstance(source, FrameSource) else asked
    totals = source.total(keeping)
    refitted = None
    if refitting is not None:

        def measure(chunks: Sequence[Chunk]) -> Floats:
            return added_up(asked, 0, chunks).each(lambda sums: sums.means, totals.values)

        refitted = Refitted(reader, refitting, measure, refitting.settings, totals.values)

    def result(sums: CauseSums, place: int, groups: Mapping[str, Causation]) -> Causation:
        count = sums.counts.num_rows
        return Causation(
            title=causation_title(names.names, arms, events),
            labels=names.names,
            arms=arms,
            people=ROWS,
            rows=(*_rows(asked, sums.means, refitted, place), *rows_of(groups)),
            level=None if refitting is None else refitting.settings.level,
            sample=f"{count:,} rows",
            notes=(
                *_same_world_notes(reader, sums.counts, arms),
                *(f"{each.name}: {each.meaning}." for each in questions),
                *_averages(questions, count),
                *(["Outcomes seen are not used here."] if refitting is None and reader.outcome is not None else []),
                what_is_known(reader, refitting),
                *unweighted_note(reader),
                *label_notes(reader, chosen.values()),
                *count_notes(sums.counts),
            ),
            questions=questions,
            groups=groups,
            individual=source.mapped(individual_causes, keeping) if sums is totals.whole else None,
        )

    return totals.result(source.question.by, result)


def _rows(asked: CausesAsked, means: Floats, refitted: Refitted | None, group: int) -> Iterator[Row]:
    low = high = np.full(len(means), np.nan)
    if refitted is not None:
        ends = [np.repeat([f(each.worth) for each in asked.questions], asked.width)[:, None] for f in (np.min, np.max)]
        low, high = (each[:, group] for each in refitted.limits(*ends))
    for place, question in enumerate(asked.questions):
        start = place * asked.width
        lower, upper, *said = means[start : start + asked.width].tolist()
        if lower != lower:
            continue
        yield Row(question.name, ABOUT[ROWS], ANY, None, lower, upper, _or_none(low[start]), _or_none(high[start + 1]))
        for more, (name, value) in enumerate(zip(asked.couplings, said, strict=True), start + 2):
            yield Row(question.name, ABOUT[ROWS], name, value, None, None, _or_none(low[more]), _or_none(high[more]))


def _or_none(value: float) -> float | None:
    return None if value != value else float(value)


def _same_world_notes(reader: RowReader, counts: RowCounts, arms: tuple[str, str]) -> list[str]:
    """That some rows are the same with and without the treatment, so that nothing is caused there."""
    if not counts.num_unchanged:
        return []
    change = reader.worlds[1].change if isinstance(reader.worlds[1], Predicted) else {}
    control, treated = arms
    found = f"{WARNING}{counts.num_unchanged:,} of {counts.num_rows:,} rows are the same in both worlds"
    if change and isinstance(reader.worlds[0], Predicted) and not reader.worlds[0].change:
        set_to = {name: "..." for name in change}
        values = " and ".join(f"{name}={value!r:.20}" for name, value in change.items())
        return [
            f"{found}: they had {values} already. They cause nothing, and dilute every number. To compare {treated} "
            f"with {control} in every row, say what {control} is: factual=Predicted(classifier, {set_to})."
        ]
    return [f"{found}, where {treated} cannot cause anything; they count in every number."]


def _averages(questions: Sequence[CausalQuestion], number: int) -> list[str]:
    """What the averages are, and where each row's own numbers are."""
    ratios = [each.name for each in questions if not each.of_everybody]
    words = f"Means over {number:,} rows"
    if ratios:
        words += f"; {', '.join(ratios[:-1])} and {ratios[-1]} are shares of all who are asked about, "
        words += "not means of the rows' own shares"
    return [
        f"{words}. Each row's own numbers are in `individual`, in Python.",
        "Bounds over stable or monotone couplings are not computed for rows.",
    ]


def individual_causes(asked: CausesAsked, reader: RowReader) -> Any:
    """Each row's numbers; with a gain, what is certain about treating it, and what has the least regret."""
    kept = asked.kept
    if kept is None:
        added_up(again := replace(asked, kept=[]), 0, reader.chunks())
        kept = again.kept or []
    rows = np.concatenate([np.zeros((len(asked.columns), 0)), *kept], axis=1)
    pieces: list[Any] = [(asked.columns, rows)]
    if asked.has_gain:
        lower, upper = (rows[asked.columns.index(f"gain_{side}")] for side in _LIMITS)
        with np.errstate(invalid="ignore"):
            place = np.where(lower > 0, 2, np.where(upper <= 0, 0, 1))
            regret = np.where(lower + upper > 0, 2, 0)
        unknown = np.isnan(lower)
        for name, each in (("decision", place), ("least_regret", regret)):
            words = _DECISIONS[each].astype(object)
            words[unknown] = None
            pieces.append((name, reader.frame.texts(words.tolist())))
    return reader.frame.made(pieces, extend=False)


def _of_chunk(asked: CausesAsked, chunk: Chunk) -> tuple[Floats, Floats]:
    """Answers and how many each is asked about, [columns, rows]; whoever is left as they are has one outcome twice."""
    p, q = np.exp(chunk.log_p), np.exp(chunk.log_q)
    evidence = Evidence(Arms(p, q), None, _SHARE)
    worths = np.stack([np.asarray(each.worth, np.float64) for each in asked.questions])
    said = [mean_worths(each, chunk.log_p, chunk.log_q, worths) for each in asked.couplings.values()]
    values, whom = [], []
    for place, question in enumerate(asked.questions):
        lower, upper = limits(question, evidence, "trial")
        among = np.ones(len(p))
        if not question.of_everybody:
            among = q @ question.among_treated if question.of_treated else p @ question.among_control
        if chunk.kept.any():
            same = (p @ np.diag(question.worth)) / np.where(among > 0, among, 1)
            lower, upper = np.where(chunk.kept, same, lower), np.where(chunk.kept, same, upper)
        both = [lower, upper]
        both += [np.where(chunk.kept, lower, each[place] / np.where(among > 0, among, 1)) for each in said]
        values += [np.where(among > 0, each, 0.0) for each in both]
        whom += [among] * len(both)
    found, about = np.stack(values), np.stack(whom)
    chunk.check(np.where(about > 0, found, 0), "a coupling")
    return found, about
