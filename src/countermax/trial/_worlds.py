"""Two known laws, what is asked about them, and how people hand in numbers and scores."""

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any, final

import numpy as np
from rich.text import Text

from countermax._core.checks import as_array, log_probs_from
from countermax._core.errors import InputError
from countermax._core.labels import Labels, are_numbers, listed, told_apart
from countermax._core.quantities import as_amount
from countermax._core.types import Labelled, Numbers
from countermax.causation import Causation
from countermax.causation._answering import Known, causes_of
from countermax.causation._questions import Arms, Choosers, Evidence
from countermax.comparison import Comparison
from countermax.comparison._asking import Couplings, compare_worlds, score_words
from countermax.comparison._measuring import Floats, TwoWorlds

ELSEWHERE = "elsewhere"
_MOST_SHOWN = 12  # outcomes in a sentence


@final
class Worlds:
    """Two known laws of one outcome: the world in which something was seen, and the other one.

    The laws are taken as known; where they were estimated from people, a `Trial` has confidence intervals too.
    Everything is computed in double precision, whatever JAX's default is. Dictionaries and pandas series are matched by
    label, whatever order they are in; everything else is in the order of `labels`.
    """

    def __init__(
        self,
        factual: Numbers | Labelled | None,
        counterfactual: Numbers | Labelled | None,
        *,
        labels: Sequence[Hashable] | None = None,
        score: Numbers | Labelled | None = None,
        best: Hashable | None = None,
        counterfactual_score: Numbers | Labelled | None = None,
        logits: bool = False,
        normalise: bool = False,
        observational: Mapping[str, Any] | None = None,
        names: tuple[str, str] = ("factual", "counterfactual"),
    ):
        """Checks the laws.

        Args:
            factual: Probabilities of the outcomes in the factual world, the one in which something was seen; without
                the treatment, where causes are asked. None where people were only observed.
            counterfactual: Probabilities of the same outcomes in the other world; with the treatment, where causes are
                asked.
            labels: Names of the outcomes, in their order; by default those that the numbers bring along.
            score: Score of each outcome (higher is better), by label; a list is in the order of the outcomes.
            best: Best outcome: the good end of the order of the outcomes, whose ranks are then the score.
            counterfactual_score: Score in the other world, if it is another one.
            logits: Whether the numbers are logits instead of probabilities.
            normalise: Whether to rescale the numbers to sum to one.
            observational: Probabilities of people who chose, by world (`names`, and `elsewhere`) and then by outcome,
                which together sum to one; for causes.
            names: Names of the factual world and of the other one, or of the two arms.
        """
        given = Given(factual, counterfactual, observational, labels, names)
        self._labels, self.names = given.labels, given.names
        read = partial(log_probs_from, logits=logits, normalise=normalise)
        known = () if factual is None else ("factual", "counterfactual")
        self._logs = [read(name, given.numbers[name]) for name in known]
        if logits and observational is not None:
            raise InputError("`observational` holds probabilities: leave out `logits`, and give probabilities only")
        self._choices = None
        if observational is not None:
            table = given.observed()
            seen = np.exp(log_probs_from("observational", table.ravel(), normalise=normalise)).reshape(table.shape)
            self._choices = Choosers(seen[0], seen[1], np.asarray(seen[2].sum()))
        if counterfactual_score is not None and score is None:
            raise InputError("`counterfactual_score` needs a `score`")
        self._scores = None
        read_as = None if score is None else given.score("score", score)
        here = with_best(given.labels, read_as, best, ordered=given.ordered)
        if here is not None:
            other = counterfactual_score
            self._scores = here, here if other is None else given.score("counterfactual_score", other)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the outcomes, in their order."""
        return self._labels.names

    @property
    def score(self) -> Floats | None:
        """Score of each outcome in the factual world; None without one."""
        return None if self._scores is None else self._scores[0]

    def compare(
        self,
        seen: Hashable,
        *,
        couplings: Couplings | None = None,
        tolerance: int | float = 0.05,
        sharing: bool = False,
        nests: Mapping[str, Any] | None = None,
    ) -> Comparison:
        """Asks every coupling: this was seen in the factual world; what would have happened in the other one?

        What was seen is a label where there are labels, otherwise an index; all arguments are as of `Trial.compare`.
        """
        if not self._logs:
            raise InputError("`compare` needs both worlds: give `factual` and `counterfactual`")
        log_p, log_q = self._logs
        worlds = TwoWorlds(self._labels, self.names, log_p, log_q, self._scores)
        return compare_worlds(worlds, seen, couplings=couplings, tolerance=tolerance, sharing=sharing, nests=nests)

    def causes(
        self,
        event: Any = None,
        *,
        at_least: int | float | None = None,
        gain: Any = None,
        people: str | None = None,
        treated_share: float | None = None,
        couplings: Couplings | None = None,
    ) -> Causation:
        """What the change from the factual to the other world causes: necessity, sufficiency, benefit and harm.

        Arguments are as of `Trial.causes`, but nobody knows the share of the treated unless you say so.
        """
        share = None if treated_share is None else as_amount("`treated_share`", treated_share, above=0.0, most=1.0)
        trial = Arms(*map(np.exp, self._logs)) if self._logs else None
        known = Known(self._labels, self.names, Evidence(trial, self._choices, share), self._scores)
        return causes_of(known, event, at_least=at_least, gain=gain, people=people, couplings=couplings)

    def __repr__(self) -> str:
        lines = [f"Worlds of {len(self._labels)} outcomes: {self.names[0]} and {self.names[1]}"]
        for name, each in zip(self.names, self._logs, strict=False):
            lines.append(f"  {name}: {numbers_words(self.labels, np.exp(each))}")
        if self._choices is not None:
            lines.append(f"  observed: {self._choices.control.sum():.3g} chose {self.names[0]}, "
                         f"{self._choices.treated.sum():.3g} {self.names[1]}")  # fmt: skip
        return "\n".join([*lines, f"  {score_words(self.labels, self._scores)}"])

    def __rich__(self) -> Text:
        return Text(repr(self))


@final
class Given:
    """Numbers as users hand them in: lists, dictionaries and pandas series, matched by label where they have some."""

    def __init__(
        self,
        first: Any,
        second: Any,
        observational: Mapping[str, Any] | None,
        labels: Sequence[Hashable] | None,
        names: tuple[str, str],
        called: tuple[str, str] = ("factual", "counterfactual"),
    ):
        """Takes numbers of two worlds, or None, and of people who chose, by world, and finds the outcomes.

        `called` are the arguments that hold the worlds, for messages.
        """
        if isinstance(names, str) or len(tuple(names)) != 2 or len(set(names)) != 2:
            raise InputError(f"`names` must be two different names, got {names!r}")
        here, there = map(str, names)
        self.names = (here, there)
        if (first is None) != (second is None):
            raise InputError(f"give both `{called[0]}` and `{called[1]}`, or neither")
        if first is None and observational is None:
            raise InputError(f"say what is known: `{called[0]}` and `{called[1]}`, `observational`, or all of them")
        given = {} if first is None else {called[0]: first, called[1]: second}
        if observational is not None:
            odd = [each for each in observational if each not in (*self.names, ELSEWHERE)]
            if odd or not set(self.names) <= set(observational):
                raise InputError(
                    f"`observational` must have numbers for {self.names[0]!r} and {self.names[1]!r}, and may have some "
                    f"for 'elsewhere'; got {', '.join(map(repr, observational)) or 'nothing'}"
                )
            given |= {_source(name): each for name, each in observational.items()}
        own = {name: own_labels(each) for name, each in given.items()}
        if isinstance(labels, str):
            raise InputError(f"`labels` must be a list of names, got the text {labels!r}")
        brought = next((each for each in own.values() if each is not None), None)
        self.ordered = labels is not None or brought is None
        """Whether a list is in an order that somebody gave: that of `labels`, or that of all the numbers."""
        found = brought if labels is None else labels
        known = None if found is None else Labels(tuple(found))
        self.numbers = {
            name: as_array(name, plain_numbers(each), 1, "ask about rows of many with `countermax.Rows`")
            for name, each in given.items()
        }
        if known is not None:
            for name, each in own.items():
                if each is not None:
                    self.numbers[name] = self.numbers[name][known.order_of(name, each)]
        (one, size), *others = ((name, each.size) for name, each in self.numbers.items())
        if not size:
            raise InputError(f"`{one}` must have a number for each outcome, got none")
        for name, other in others:
            if other != size:
                raise InputError(f"`{one}` and `{name}` must have the same number of outcomes, got {size} and {other}")
        self.labels = known or Labels(tuple(range(size)))
        if len(self.labels) != size:
            raise InputError(f"`labels` must name each of the {size} outcomes, got {len(self.labels)} labels")

    def score(self, name: str, given: Any) -> Floats:
        """One number for each outcome."""
        return read_score(self.labels, name, given, ordered=self.ordered)

    def observed(self) -> Floats:
        """[3, outcomes]: the numbers of those who chose the first world, the second, or something else."""
        nobody = np.zeros(len(self.labels))
        found = (self.numbers.get(_source(name), nobody) for name in (*self.names, ELSEWHERE))
        table = np.stack([np.asarray(each, np.float64) for each in found])
        for name, each in zip(self.names, table, strict=False):
            if not each.any():
                raise InputError(f"`observational` must have people who chose {name!r}, got none")
        return table


def _source(name: str) -> str:
    """What messages call the numbers of people who chose."""
    return f"observational[{name!r}]"


def own_labels(given: Any) -> list[Any] | None:
    """The labels that a dictionary or a pandas series brings along; none where they only count from 0."""
    if not isinstance(given, Labelled):
        return None
    keys = list(given.keys())
    counts = type(given.keys()).__name__ == "RangeIndex" and keys == list(range(len(keys)))
    return None if counts else keys


def plain_numbers(given: Any) -> Any:
    """Without the labels, in the order that they came in."""
    return [number for _, number in given.items()] if isinstance(given, Labelled) else given


def read_score(labels: Labels, name: str, given: Any, *, ordered: bool) -> Floats:
    """One number for each outcome: by label, or as a list where the outcomes have an order that somebody gave."""
    if own_labels(given) is not None:
        return labels.scores(name, given)
    if not ordered:
        raise InputError(
            f"`{name}` must be a dictionary by label, because nobody gave the outcomes an order: pass "
            f"{{{', '.join(f'{each!r}: ...' for each in labels.values[:3])}{', ...' if len(labels) > 3 else ''}}}, or "
            "`labels` in order beside a list"
        )
    return labels.scores(name, as_array(name, plain_numbers(given), 1))


_EMPTY = "empty these cells and say `missing`"
_IF_MISSING = f"if it means that nothing is known, {_EMPTY}"


def with_best(labels: Labels, score: Floats | None, best: Hashable | None, *, ordered: bool) -> Floats | None:
    """The score, with which `best` must agree; without one the ranks of an order that somebody gave, up to `best`."""
    if best is None:
        return score
    place = labels.place_of("best", best)
    if score is not None:
        if score[place] < score.max():
            first = labels.values[int(score.argmax())]
            raise InputError(
                f"`best` must agree with the score, in which {listed([first])} is best, got {listed([best])}; higher "
                "is better, so turn the signs of the score if it is the other way round"
            )
        return score
    if not ordered:
        odd = [each for each in labels.values if not are_numbers([each])]
        why = "; give the outcomes in order with `labels`, or give a `score`"
        if 2 * len(odd) < len(labels):
            why = f", and {listed(odd)} is no number: {_IF_MISSING}; else{why[1:]}"
        raise InputError(f"`best` is an end of an order{why}")
    if place not in (0, len(labels) - 1):
        beyond = {1: f"if {labels.names[0]}", len(labels) - 2: f"if {labels.names[-1]}"}.get(place)
        hint = f"; {beyond} means that nothing is known, {_EMPTY}" if beyond and are_numbers(labels.values) else ""
        raise InputError(
            f"`best` must be the first or the last of {listed(labels.values)}, got {listed([best])}{hint}; give a "
            "`score` for any other order"
        )
    ranks = np.arange(len(labels), dtype=np.float64)
    return ranks if place else ranks[::-1].copy()


def numbers_words(labels: Sequence[str], numbers: Floats) -> str:
    """A number for each outcome, in a line."""
    shown = [f"{label} {each:.4g}" for label, each in zip(told_apart(labels), numbers.tolist(), strict=True)]
    return ", ".join(shown[:_MOST_SHOWN]) + (f" and {len(shown) - _MOST_SHOWN} more" * (len(shown) > _MOST_SHOWN))
