"""Other processes that the same log could have come from: what an answer would be with other data."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import gammaln

from countermax._core.errors import InputError
from countermax._core.extras import on_ray
from countermax._core.memory import check_memory
from countermax._core.progress import ProgressBar
from countermax._core.quantities import as_seed
from countermax._ray import in_prepared_parts
from countermax.intervals._interval import check_level
from countermax.mdp._arrays import Floats, Ints, Values, as_number, as_whole, shortened
from countermax.mdp._process import MODEL_GIVEN, FiniteMDP

_NEVER = 1e-9  # a drawn probability below this is as good as none, and makes rows no wider
_PRIORS = {
    "pooled": (
        "Dirichlet draws of every row that was visited: its counts, and pseudo-visits spread over where the state led "
        "under other actions and over all states that were ever reached, {strength}"
    ),
    "seen": "Dirichlet draws of every row that was visited: its counts alone, so nothing unseen can happen",
}
_STRENGTHS = tuple(2.0**power for power in range(-3, 11))
_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
UNDOUBTED = (
    "No resample can doubt what the states hide: where something unrecorded moved both what was done and what came of "
    "it, all of this may be wrong."
)
"""What is left when the model was doubted."""

_UNVISITED = "rows that were never visited stay as the model has them"


@final
@dataclass(frozen=True, kw_only=True)
class Doubt:
    """How an estimated process is doubted: redrawn from its counts, again and again."""

    num_resamples: int = 100
    """How many processes are drawn; 0 to take the model as given."""
    prior: str = "pooled"
    """What is believed before any count: "pooled", that a row may lead where its state leads under other actions, or
    anywhere that was ever reached; "seen", that nothing unseen can happen."""
    strength: float | None = None
    """How many visits that belief is worth in every row; by default as many as make the counts likeliest."""
    level: float = 0.95
    """How sure a statement must be."""
    seed: int = 0

    def __post_init__(self) -> None:
        as_whole("num_resamples", self.num_resamples, least=0)
        if self.prior not in _PRIORS:
            raise InputError(f"`prior` must be one of {', '.join(_PRIORS)}, got {shortened(self.prior)}")
        if self.strength is not None:
            as_number("strength", self.strength, 0, 1e6)
        check_level(self.level)
        as_seed("seed", self.seed)

    @property
    def description(self) -> str:
        """In words."""
        strength = "as many as make the counts likeliest" if self.strength is None else f"{self.strength:g} in each row"
        return f"{_PRIORS[self.prior].format(strength=strength)}; {_UNVISITED}"

    def told(self, mdp: FiniteMDP) -> str:
        """What is said once beside numbers that were, or could not be, doubted."""
        if mdp.counts is None or not self.num_resamples:
            return MODEL_GIVEN
        return (
            f"Other data: {self.num_resamples} processes that the log could have come from, {100 * self.level:g}% of "
            f"them within each interval ({self.description}). {UNDOUBTED}"
        )

    def processes(self, mdp: FiniteMDP, outcomes: Values | None = None) -> Iterator[FiniteMDP]:
        """The processes, one after the other.

        Args:
            mdp: An estimate, with its counts.
            outcomes: Label of each state as an outcome, if that is not the state itself. Then no row leads to two
                states of one label: an outcome that was never seen there is the state that the action led to elsewhere.
        """
        yield from map(_drawing(mdp, self, outcomes), range(self.num_resamples))


def doubt_of(mdp: FiniteMDP, doubt: Doubt | None) -> Doubt:
    """What was asked for; by default estimates are doubted, and processes without counts are taken as given."""
    return doubt if doubt is not None else Doubt() if mdp.counts is not None else Doubt(num_resamples=0)


def doubted(
    mdp: FiniteMDP,
    doubt: Doubt,
    ask: Callable[[FiniteMDP], Floats],
    progress: bool | None,
    *,
    outcomes: Values | None = None,
    engine: str = "local",
) -> Float[np.ndarray, "r ..."]:
    """One question put to every process that the log could have come from.

    Args:
        mdp: The estimate.
        doubt: Doubt about the estimate.
        ask: Function from a process to numbers.
        progress: Whether to show a progress bar; by default if the output is a terminal.
        outcomes: Label of each state as an outcome, if the question goes by labels.
        engine: "local", or "ray" to draw and ask processes on a cluster.
    """
    if not doubt.num_resamples:
        return np.array([])
    shared, parts = (mdp, doubt, ask, outcomes), ((each,) for each in range(doubt.num_resamples))
    answers = in_prepared_parts(_asking, shared, parts) if on_ray(engine) else map(ask, doubt.processes(mdp, outcomes))
    found = []
    with ProgressBar("doubting", doubt.num_resamples, progress, unit="processes") as bar:
        for each in answers:
            found.append(each)
            bar.advance(1)
    return np.array(found)


def _asking(
    mdp: FiniteMDP, doubt: Doubt, ask: Callable[[FiniteMDP], Floats], outcomes: Values | None
) -> Callable[[int], Floats]:
    """A function from the number of a resample to the answer."""
    draw = _drawing(mdp, doubt, outcomes)
    return lambda resample: ask(draw(resample))


def _drawing(mdp: FiniteMDP, doubt: Doubt, outcomes: Values | None) -> Callable[[int], FiniteMDP]:
    """A function from the number of a resample to its process."""
    if mdp.counts is None:
        raise InputError(
            "`mdp` must have counts to be doubted: estimate it from a log, or hand in `counts`; "
            "`Doubt(num_resamples=0)` takes it as given"
        )
    cells = _cells(mdp, doubt, None if outcomes is None else np.unique(outcomes, return_inverse=True)[1])
    return lambda resample: _drawn(mdp, cells, np.random.default_rng([doubt.seed, resample]))


class _Cells(NamedTuple):
    """All transitions that may be drawn, row by row, with the weight of each."""

    row: Ints
    successor: Ints
    weight: Floats
    reward: Floats
    error: Floats
    """The standard error of the reward's mean."""
    variance: Floats
    kept: Ints
    """Those that were counted, which are always possible."""


def _cells(mdp: FiniteMDP, doubt: Doubt, labels: Ints | None) -> _Cells:
    counts = mdp.counts
    assert counts is not None
    state, action, slot = np.nonzero(counts * ~mdp.absorbing[:, None, None])
    if not len(state):
        raise InputError("`mdp` must have counted some transition to be doubted")
    times, successor = counts[state, action, slot].astype(np.float64), mdp.successors[state, action, slot]
    reward = mdp.rewards[state, action, slot]
    spread = np.zeros(len(state)) if mdp.reward_variances is None else mdp.reward_variances[state, action, slot]
    row, size = state * mdp.num_actions + action, mdp.num_states
    seen = _Cells(row, successor, times, reward, np.sqrt(spread / times), spread, np.arange(len(row)))
    if doubt.prior == "seen" or doubt.strength == 0:
        return seen
    reached = np.bincount(successor, times, minlength=size)
    earned = np.bincount(successor, times * reward, minlength=size) / np.where(reached > 0, reached, 1)
    anywhere = np.flatnonzero(reached)
    rows = np.unique(row)
    check_memory(
        f"doubts about {len(rows)} rows of {len(anywhere)} successors",
        80 * len(rows) * len(anywhere),
        'use prior="seen"',
    )
    by_row = np.zeros((len(rows), size))
    np.add.at(by_row, (np.searchsorted(rows, row), successor), times)
    base, strength = _believed(by_row, rows // mdp.num_actions, mdp.num_states, doubt.strength)
    if labels is not None:
        base = _one_of_each_name(base, labels, _stands_for(labels, rows % mdp.num_actions, by_row))
    base = base[:, anywhere]
    more_row, more_successor = np.repeat(rows, len(anywhere)), np.tile(anywhere, len(rows))
    known = np.searchsorted(row * size + successor, more_row * size + more_successor)
    known = np.minimum(known, len(row) - 1)
    same = (row[known] == more_row) & (successor[known] == more_successor)
    weight = times.copy()
    weight[known[same]] += strength * base.ravel()[same]
    new = ~same
    nothing = np.zeros(int(new.sum()))
    return _Cells(
        np.concatenate([row, more_row[new]]),
        np.concatenate([successor, more_successor[new]]),
        np.concatenate([weight, strength * base.ravel()[new]]),
        np.concatenate([reward, earned[more_successor[new]]]),
        np.concatenate([seen.error, nothing]),
        np.concatenate([spread, nothing]),
        seen.kept,
    )


def _stands_for(labels: Ints, action: Ints, counts: Floats) -> Ints:
    """[row, label]: the state that was seen there, else where the action led elsewhere, else where any did."""
    by_action = np.zeros((int(action.max()) + 1, counts.shape[1]))
    np.add.at(by_action, action, counts)
    found = np.zeros((len(action), int(labels.max()) + 1), np.int64)
    for label in range(found.shape[1]):
        states = np.flatnonzero(labels == label)
        worth = np.stack(
            [counts[:, states], by_action[action][:, states], np.tile(counts[:, states].sum(0), (len(action), 1))]
        )
        likeliest = worth.argmax(axis=2)
        found[:, label] = states[np.where(worth[0].any(1), likeliest[0], np.where(worth[1].any(1), *likeliest[1:]))]
    return found


def _one_of_each_name(base: Floats, labels: Ints, stands_for: Ints) -> Floats:
    """The same beliefs, with all states of one name in the one that stands for them."""
    found = np.zeros_like(base)
    sums = base @ (labels[:, None] == np.arange(stands_for.shape[1])).astype(np.float64)
    np.put_along_axis(found, stands_for, sums, axis=1)
    return found


def _believed(counts: Floats, state: Ints, num_states: int, strength: float | None) -> tuple[Floats, float]:
    """[row, successor]: where each row is believed to lead before it is visited, and how many visits that is worth.

    A mixture of where the state led under its other actions and of all states that were ever reached, in the share, and
    for the strength, that make the counts of all rows likeliest.
    """
    by_state = np.zeros((num_states, counts.shape[1]))
    np.add.at(by_state, state, counts)
    elsewhere, everywhere = by_state[state] - counts, counts.sum(axis=0) / counts.sum()
    totals = elsewhere.sum(axis=1, keepdims=True)
    elsewhere = np.where(totals > 0, elsewhere / np.maximum(totals, 1), everywhere)
    row, successor = np.nonzero(counts)
    times, visits = counts[row, successor], counts.sum(axis=1)
    best = -np.inf, _SHARES[0], _STRENGTHS[0]
    for share in _SHARES:
        base = share * elsewhere[row, successor] + (1 - share) * everywhere[successor]
        for each in _STRENGTHS if strength is None else (max(strength, _STRENGTHS[0]),):
            likely = (gammaln(each) - gammaln(each + visits)).sum()
            likely += (gammaln(each * base + times) - gammaln(each * base)).sum()
            best = max(best, (float(likely), share, each))
    _, share, found = best
    return share * elsewhere + (1 - share) * everywhere, found if strength is None else strength


def _drawn(mdp: FiniteMDP, cells: _Cells, random: np.random.Generator) -> FiniteMDP:
    drawn = random.standard_gamma(cells.weight)
    drawn[cells.kept] = np.maximum(drawn[cells.kept], np.finfo(float).tiny)
    sums = np.bincount(cells.row, drawn, minlength=mdp.num_states * mdp.num_actions)
    probs = drawn / sums[cells.row]
    keep = probs > _NEVER
    keep[cells.kept] = True
    row, reward = cells.row[keep], cells.reward[keep] + cells.error[keep] * random.standard_normal(int(keep.sum()))
    probs = np.maximum(probs[keep], _NEVER)
    probs /= np.bincount(row, probs, minlength=len(sums))[row]
    fixed, slot = _as_given(mdp, sums > 0)
    given = *np.divmod(fixed, mdp.num_actions), slot
    row = np.concatenate([row, fixed])
    variance = np.concatenate([cells.variance[keep], np.zeros(len(fixed))])
    return FiniteMDP.from_transitions(
        row // mdp.num_actions,
        row % mdp.num_actions,
        np.concatenate([cells.successor[keep], mdp.successors[given]]),
        np.concatenate([probs, mdp.probs[given]]),
        np.concatenate([reward, mdp.rewards[given]]),
        num_states=mdp.num_states,
        num_actions=mdp.num_actions,
        start=mdp.start,
        discount=mdp.discount,
        absorbing=mdp.absorbing,
        reward_variances=variance if variance.any() else None,
        state_names=mdp.state_names,
        action_names=mdp.action_names,
        never_left=mdp.never_left,
    )


def _as_given(mdp: FiniteMDP, drawn: Bool[np.ndarray, " rows"]) -> tuple[Ints, Ints]:
    """Rows and slots of the transitions that nobody counted."""
    left = ~drawn & (mdp.allowed & ~mdp.absorbing[:, None]).ravel()
    row, slot = np.nonzero((mdp.probs > 0).reshape(-1, mdp.width) & left[:, None])
    return row, slot
