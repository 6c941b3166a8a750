"""A table with two predictions for each row, checked once and asked many things.

Verbs are imported when they are asked: most need JAX, which takes longer than many an answer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, final

from countermax._core.errors import InputError
from countermax._core.extras import on_ray
from countermax._core.labels import listed
from countermax._core.quantities import as_choice, as_count, as_seed
from countermax._tables.files import MoreColumnsError
from countermax.tables._answers import AnswerColumns, Answered
from countermax.tables._batches import Answering, SchemaSource, Sums
from countermax.tables._probabilities import ProbabilitiesLike
from countermax.tables._reading import MOST_PAIRS, Question
from countermax.tables._refit import Refit, Refitting
from countermax.tables._sources import AbstractSource, FileSource, FrameSource, source_of
from countermax.tables._utilities import Utilities

if TYPE_CHECKING:
    from jaxtyping import PRNGKeyArray

    from countermax.causation import Causation
    from countermax.couplings import AbstractCoupling, Gadget2
    from countermax.learning import ObservedPairs, Training
    from countermax.tables._effects import TableEffects
    from countermax.tables._switching import SwitchingTable
    from countermax.tables._transitions import Transitions

P = ParamSpec("P")
T = TypeVar("T")

_NUM_RESAMPLES, _LEVEL, _SEED = 1000, 0.95, 0
_ADDED_UP = ("transitions", "effects", "causes")


def _to_the_end(verb: Callable[P, T]) -> Callable[P, T]:
    """Asks again where a row of JSON lines has a column that none before it had."""

    @wraps(verb)
    def asked(*args: P.args, **options: P.kwargs) -> T:
        rows = args[0]
        assert isinstance(rows, Rows)
        while True:
            try:
                return verb(*args, **options)
            except MoreColumnsError:
                assert isinstance(rows._source, FileSource)
                rows._source.look_again()

    return asked


@final
class Rows:
    """A table with two predictions for each row: the outcomes' probabilities in the factual and in another world.

    Each row is a question: this outcome was seen, where outcomes have these probabilities; what would it have been
    where they have those?
    """

    def __init__(
        self,
        data: Any,
        *,
        outcome: Any = None,
        factual: ProbabilitiesLike,
        counterfactual: ProbabilitiesLike,
        labels: Sequence[Hashable] | None = None,
        score: Any = None,
        unchanged: Any = None,
        normalise: bool = False,
        errors: str = "raise",
        utilities: Utilities | None = None,
        refit: Refit | None = None,
        engine: str = "local",
    ):
        """Checks columns and labels; rows are read when something is asked.

        Args:
            data: Table: a frame of pandas, polars or Arrow; a file (.csv, .parquet, or .jsonl with a JSON object in
                each line); a folder of Parquet files, or several by wildcards, local or s3://...; a Ray Dataset; or an
                Arrow schema, for `answering` and `sums`.
            outcome: Column with the outcomes seen. Of a frame also an array of them.
            factual: Probabilities, or utilities, in the factual world: the prefix of their columns (p_ for p_dead,
                p_ill, ...), a mapping from labels to columns, or columns in the order of `labels`. In Python also a
                fitted classifier, or `Predicted`; of a frame an array or frame [rows, outcomes].
            counterfactual: The same for the counterfactual world. For a classifier
                `Predicted(classifier, {"treated": True})`.
            labels: Outcomes in the order that results have; by default that of an ordered category, else of `factual`.
            score: Score of each outcome, by label or in the order of the labels; effects also take several by name.
            unchanged: Column (true, false) that marks rows which the change does not affect: they keep their outcome
                under every coupling. `Predicted` knows its own.
            normalise: Whether to rescale probabilities, for instance counts, to sum to one.
            errors: Treatment of rows without an answer: `raise` an error, or leave them `missing`.
            utilities: Choice model, where `factual` and `counterfactual` hold its utilities before and after a change;
                see `Utilities`. What is missing or -inf is not available.
            refit: Confidence intervals by refitting the classifier on resamples of the rows; see `Refit`.
            engine: Engine that does the work: `local`, or `ray` for a cluster (files, folders and refits).
        """
        if refit is not None and not isinstance(refit, Refit):
            raise InputError(f"`refit` must be a `Refit`, got {refit!r}")
        if utilities is not None and not isinstance(utilities, Utilities):
            raise InputError(f"`utilities` must be `Utilities(...)`, got {utilities!r:.60}")
        question = Question(outcome, factual, counterfactual, labels, normalise, errors, unchanged, score, utilities)
        ray = on_ray(engine)
        self._data, self._engine, self.refit = data, engine, refit
        self._source: AbstractSource = source_of(data, question, engine)
        in_memory = isinstance(self._source, FrameSource)
        if refit is not None and not in_memory:
            raise InputError("`refit` needs the frame in memory that the classifier was fitted on")
        if ray and in_memory and refit is None:
            raise InputError('engine="ray" is for files, Datasets and refits; this frame is in memory, without `refit`')
        self._refitting = None if refit is None else Refitting(self._source.reader, refit, engine)

    def by(self, column: str) -> Rows:
        """The same table, asked about each value of a column too, for instance each segment of customers.

        `transitions`, `switching`, `effects` and `causes` then have rows about `segment = student`, and so on, and a
        result for each of them in `groups`.

        Args:
            column: Column with at most 200 different values.
        """
        other = copy.copy(self)
        other._source = source_of(self._data, replace(self._source.question, by=column), self._engine)
        if self.refit is not None:
            other._refitting = Refitting(other._source.reader, self.refit, self._engine)
        return other

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The outcomes, in the order that results have."""
        return self._source.reader.labels.values

    def __repr__(self) -> str:
        question = self._source.question
        outcome = question.outcome if isinstance(question.outcome, str) else None
        seen = "" if question.outcome is None else f", seen in {outcome!r}" if outcome else ", seen in an array"
        refit = "" if self.refit is None else f"; {self.refit.num_resamples} refits"
        refit += "" if question.by is None else f"; by {question.by!r}"
        return f"Rows of {self._source}: {len(self.labels)} outcomes ({listed(self.labels)}){seen}{refit}"

    @_to_the_end
    def counterfactuals(
        self,
        coupling: str | Path | AbstractCoupling = "gumbel-max",
        *,
        bounds: str = "any",
        tolerance: int | float = 0.05,
        prefix: str = "counterfactual_",
    ) -> Any:
        """The table with each row's exact counterfactual probabilities, most likely outcome, bounds and a flag.

        A frame comes back as one of the same library with its index; a file as an Arrow table; a Dataset as a Dataset,
        whose rows are answered when it is consumed. New columns are in double precision, behind the table's own; in
        pandas and Arrow the coupling and notes go with them (`attrs["countermax"]`, metadata of the schema):

        | column | what |
        |---|---|
        | `counterfactual_<label>` | P(Y=label given what was seen) under the coupling |
        | `counterfactual_most_likely` | the label with the largest of them, in the type of the outcome's column |
        | `counterfactual_score`, `.._score_lower`, `.._score_upper` | with `score`: its expectation, and its bounds |
        | `counterfactual_<label>_lower`, `.._upper` | the least and the largest probability that data alone allow |
        | `.._<label>_ci_lower`, `.._ci_upper`, `.._score_ci_..` | with `refit`: confidence interval of the answer |
        | `.._<label>_bounds_ci_lower`, `.._bounds_ci_upper` | with `refit`: confidence interval of the whole range |
        | `counterfactual_coupling_matters` | whether couplings can differ in a probability by more than `tolerance` |
        | `counterfactual_problem` | with `errors="missing"`: why a row has no answer |

        Args:
            coupling: Coupling of the two worlds: gumbel-max, gumbel-max-shared-RATE (from 0, independent, to 1),
                nested-gumbel-max-DISSIMILARITY[OUTCOME|OUTCOME], inverse-cdf (in the order of the labels),
                inverse-cdf-by-score, comonotone, vector-quantile, maximal, independent, or a file with a coupling or
                with nests (.json, .yaml). In Python also a coupling itself.
            bounds: Couplings that the bounds are over: `any`, `stable` or `none` for no such columns.
            tolerance: Largest width of the bounds over all couplings at which the choice of coupling does not matter.
            prefix: Prefix of the names of new columns.
        """
        columns = self._columns(coupling, bounds, tolerance, prefix)
        if isinstance(self._source, FrameSource):
            found, counts = columns.counted(self._source.reader)
            return self._source.reader.frame.noted(found, columns.whole_metadata(counts))
        return self._source.mapped(AnswerColumns.of, columns)

    @_to_the_end
    def write(
        self,
        target: str | Path,
        coupling: str | Path | AbstractCoupling = "gumbel-max",
        *,
        bounds: str = "any",
        tolerance: int | float = 0.05,
        prefix: str = "counterfactual_",
        partition_by: str | Sequence[str] = (),
        overwrite: bool = False,
    ) -> Answered:
        """Writes the table with its `counterfactuals`, chunk by chunk; what is written need not fit into memory.

        A file appears with all rows, or not at all. In CSV and JSON lines an outcome is text, the exact characters of
        its cell or of its JSON value, and so are labels; the number 1 names the text "1". What is only passed through
        is not read: from CSV to CSV and from JSON lines to JSON lines byte for byte, into other formats as text.
        Columns of Parquet keep their types. Into a folder go Parquet files, which sort by name as rows do, and
        `_SUCCESS` when all of them are there; after an interruption the same call does what is left.

        Args:
            target: File to write: .csv, .parquet or .jsonl; for Parquet files also a folder, always so with
                `engine="ray"`.
            coupling: Coupling of the two worlds; see `counterfactuals`.
            bounds: Couplings that the bounds are over; see `counterfactuals`.
            tolerance: Width of bounds that does not matter; see `counterfactuals`.
            prefix: Prefix of the names of new columns.
            partition_by: Column, or columns, that divide the output into folders; of Parquet files.
            overwrite: Whether a file that is there, or a folder's answer to another question, may be replaced.
        """
        columns = self._columns(coupling, bounds, tolerance, prefix)
        parts = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        return self._source.write(str(target), columns, parts, overwrite)

    def answering(
        self,
        coupling: str | Path | AbstractCoupling = "gumbel-max",
        *,
        bounds: str = "any",
        tolerance: int | float = 0.05,
        prefix: str = "counterfactual_",
    ) -> Answering:
        """A function that adds `counterfactuals` to batches of Arrow, for any engine; `data` is an Arrow schema."""
        return Answering(self._schema.asking, self._columns(coupling, bounds, tolerance, prefix))

    def sums(self, verb: str = "transitions", **options: Any) -> Sums:
        """What batches of Arrow add up to, in any number of processes, for any engine; `data` is an Arrow schema.

        Args:
            verb: Question whose sums they are: `transitions`, `effects` or `causes`.
            options: Arguments of that verb.
        """
        return Sums(self._schema, partial(_ask, as_choice("`verb`", verb, _ADDED_UP), options))

    @property
    def _schema(self) -> SchemaSource:
        if isinstance(self._source, SchemaSource):
            return self._source
        raise InputError("`data` must be an Arrow schema, for batches that have its columns; tables are asked directly")

    @_to_the_end
    def transitions(
        self,
        coupling: str | Path | AbstractCoupling = "gumbel-max",
        *,
        num_resamples: int = _NUM_RESAMPLES,
        level: float = _LEVEL,
        seed: int = _SEED,
    ) -> Transitions:
        """Of those who churned, how many would have stayed, downgraded, or churned all the same.

        Counts are exact expectations under the coupling; bounds are the least and the largest count over all couplings.
        Intervals are bootstrap percentiles over rows, which take each row's probabilities as known; with `refit` the
        classifier is refitted for each resample, and the bounds have intervals too.

        Args:
            coupling: Coupling of the two worlds; see `counterfactuals`.
            num_resamples: Number of bootstrap resamples, 0 for no intervals; with `refit`, that of `Refit`.
            level: Confidence of the intervals; with `refit`, that of `Refit`.
            seed: Seed of the resampling; with `refit`, that of `Refit`.
        """
        from countermax.tables._transitions import table_transitions

        self._need_outcome("transitions")
        settings = num_resamples, level, seed
        if self.refit is not None:
            if settings != (_NUM_RESAMPLES, _LEVEL, _SEED):
                raise InputError("`num_resamples`, `level` and `seed` are those of `Refit`; leave them out here")
            settings = 0, self.refit.level, self.refit.seed
        return table_transitions(self._source, self._refitting, coupling, *settings)

    @_to_the_end
    def switching(self, *, level: float = _LEVEL) -> SwitchingTable:
        """Who switches from what to what, exactly, if what the choice model does not observe stays the same.

        Args:
            level: Confidence of the intervals, for the sampling of choosers.
        """
        from countermax.tables._switching import table_switching

        return table_switching(self._source, level)

    @_to_the_end
    def effects(
        self,
        couplings: Mapping[str, str | Path | AbstractCoupling] | Sequence[str | Path] | None = None,
        *,
        counterfactual_score: Any = None,
        learn: bool | Gadget2 = False,
        training: Training | None = None,
        checkpoint: str | Path | None = None,
        key: PRNGKeyArray | None = None,
    ) -> TableEffects:
        """Mean and individual effects of the change, their variance under each coupling, and which one to choose.

        An effect is `score(Y) - score(X)`: the counterfactual score minus the factual one. Data fix its mean; how much
        it varies between people depends on the coupling. For one score the inverse CDF in the order of the score has
        the least variance of all couplings, for every row at once; where the two worlds' scores sort the outcomes
        differently, the coupling of their quantiles has. For several scores no order is optimal; then a vector quantile
        is fitted to the table's own worlds (by default where its rows are few enough for that to take seconds, else by
        name), and `learn=True` trains a gadget on them. Variances of several scores are added up, so bring these to one
        scale. Least variance is a criterion of precision, not evidence that the mechanism is true.

        Args:
            couplings: Couplings to compare, by name, or names of fixed ones; by default `all` of the library's own.
            counterfactual_score: Score in the counterfactual world, if it is another one.
            learn: Whether to train a gadget; or the gadget to train.
            training: Settings of the training; by default 500 steps and batches of 64.
            checkpoint: File that an interrupted training resumes from.
            key: Key of the training, consumed once; by default `jax.random.key(0)`.
        """
        from countermax.tables._effects import table_effects
        from countermax.tables._scores import compare_couplings, learn_coupling, own_scores

        num_times = 1 if self.refit is None else 1 + self.refit.num_resamples
        scores = own_scores(self._source, counterfactual_score)
        compared = compare_couplings(self._source, scores, couplings, num_times)
        if learn is not False:
            compared = learn_coupling(self._source, compared, learn, training, checkpoint, key)
        elif training is not None or checkpoint is not None:
            raise InputError("`training` and `checkpoint` need learn=True")
        return table_effects(self._source, compared, self._refitting)

    @_to_the_end
    def causes(
        self,
        event: Any = None,
        *,
        at_least: int | float | None = None,
        gain: Any = None,
        arms: tuple[str, str] | None = None,
        couplings: Mapping[str, str | AbstractCoupling] | Sequence[str] | None = None,
    ) -> Causation:
        """Probabilities of causation, whom to treat, and their bounds, for each row and on average over rows.

        The factual world is the one without the treatment, the counterfactual world the one with it. Within rows with
        the same covariates the treatment must be as good as randomised. A classifier's estimation error makes averages
        too certain; `refit` gives intervals.

        Args:
            event: Outcome, or list of outcomes, that is the event.
            at_least: Gain of the score; adds the share of those who gain as much.
            gain: Worth of treating somebody with each pair (without, with) of outcomes.
            arms: Names of being without the treatment and with it; by default control and treated.
            couplings: Couplings to ask beside the bounds, by name, or `all`; by default none: each adds a column for
                every number.
        """
        from countermax.tables._causes import table_causes

        names = ("control", "treated") if arms is None else arms
        return table_causes(self._source, self._refitting, event, at_least, gain, names, couplings)

    @_to_the_end
    def pairs(self, *, most: int = MOST_PAIRS, seed: int = 0) -> ObservedPairs:
        """The pairs of worlds in the table's rows, to train a coupling on; of many rows some are drawn.

        Args:
            most: Largest number of rows that are drawn.
            seed: Seed of the drawing.
        """
        from countermax.tables._scores import own_pairs

        return own_pairs(self._source, as_count("`most`", most), as_seed("seed", seed))

    def _columns(
        self, coupling: str | Path | AbstractCoupling, bounds: str, tolerance: int | float, prefix: str
    ) -> AnswerColumns:
        self._need_outcome("counterfactuals")
        return AnswerColumns(self._source.reader, coupling, bounds, tolerance, prefix, self._refitting)

    def _need_outcome(self, verb: str) -> None:
        if self._source.question.outcome is None:
            raise InputError(
                f"`outcome` (--outcome) must name the column of outcomes seen: {verb} are asked given them"
            )


def _ask(verb: str, options: Mapping[str, Any], source: SchemaSource) -> Any:
    """What a verb says of a source; it can be pickled."""
    rows = Rows.__new__(Rows)
    rows._source, rows.refit, rows._refitting = source, None, None
    return getattr(rows, verb)(**options)
