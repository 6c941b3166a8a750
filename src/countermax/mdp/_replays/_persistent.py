"""What values can be if chance may persist across steps: tail means of the other policy's returns.

Both worlds are one until something else is done. From there on all that is known of their joint law is that each has
its own: a path of the other world has at most its own probability divided by that of what was logged since they
parted. So a value lies between the means of the lower and of the upper tail of the other world's returns, tails as
large as the latter probability (conditional value at risk).

Returns are distributed over a grid, backwards from the last step. What falls between two points is split between them
with its mean kept. This can only spread a distribution, so that ranges get wider by less than the grid is fine, never
narrower.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from countermax.mdp._arrays import Floats, Ints
from countermax.mdp._process import FiniteMDP
from countermax.mdp._replays._course import Course

_POINTS = 128
_EXACT = 1e-9  # of a grid's step: offsets nearer than this to a point are on it
_RARE = 1e-9  # shares below this are as good as none: the worst and the best that can happen


class Grid(NamedTuple):
    """Points for what is still to come."""

    points: Floats
    shrink: sparse.csr_array | None
    """Moves mass from x to discount * x; None where nothing is discounted."""

    @property
    def step(self) -> float:
        """The distance of two points."""
        return float(self.points[1] - self.points[0])

    def masses(self, values: Floats) -> Floats:
        """[value, point]: each value as mass on the grid."""
        place, share = _split(values / self.step - self.points[0] / self.step)
        found = np.zeros((len(values), len(self.points)))
        found[np.arange(len(values)), place] = 1 - share
        found[np.arange(len(values)), np.minimum(place + 1, len(self.points) - 1)] += share
        return found


def possible_returns(mdp: FiniteMDP, earned: Floats, last: Floats, steps: int, discount: float) -> tuple[float, float]:
    """The least and the largest that any actions could earn from any state on, in at most so many steps.

    What one step earns is `earned`, for the entries of `matrix`.
    """
    matrix = mdp.matrix
    live = np.flatnonzero(np.diff(matrix.indptr))
    begin, successor = matrix.indptr[live], matrix.indices
    state = live // mdp.num_actions
    first = np.searchsorted(state, np.arange(mdp.num_states))
    least, most = last, last
    limits = float(last.min()), float(last.max())
    for _ in range(steps):
        least = np.minimum.reduceat(np.minimum.reduceat(earned + discount * least[successor], begin), first)
        most = np.maximum.reduceat(np.maximum.reduceat(earned + discount * most[successor], begin), first)
        found = min(limits[0], float(least.min())), max(limits[1], float(most.max()))
        if found == limits and discount == 1 and not earned.any():
            break
        limits = found
    return limits


def grid_of(course: Course, last: Floats, costs: Floats | None = None, times: int = 0) -> Grid:
    """A grid that holds all that can come, exactly where rewards are multiples of one number.

    Costs may be taken off, so many times.
    """
    steps, discount, earned = int(course.steps.max()), course.discount, course.slot_gains
    low, high = possible_returns(course.mdp, earned, last, steps, discount)
    taken = np.zeros(1) if costs is None else costs.ravel()
    low -= times * float(taken.max())
    whole = high - low or 1.0
    single = np.concatenate([earned[earned != 0], last - low, taken])  # mostly ends alone earn something
    unit = np.abs(single[np.abs(single) > _EXACT * whole]).min(initial=whole)
    exact, number = False, _POINTS
    for finer in (1, 2, 3, 4, 5, 10) if discount == 1 and unit * _POINTS > whole else ():
        offsets = np.append(single, whole) * finer / unit
        exact = bool((np.abs(offsets - np.round(offsets)) < _EXACT).all())
        if exact:
            number = round(whole * finer / unit)
            break
    step = whole / number
    margin = 0 if exact else int(np.ceil(2 * (discount ** np.arange(steps)).sum())) + 1
    points = np.asarray(low + step * np.arange(-margin, number + margin + 1), np.float64)
    if discount == 1:
        return Grid(points, None)
    place, share = _split(discount * points / step - points[0] / step)
    size = np.arange(len(points))
    inside = np.clip(np.stack([place, place + 1]), 0, len(points) - 1).ravel()
    entries = np.concatenate([1 - share, share]), (np.tile(size, 2), inside)
    return Grid(points, sparse.csr_array(entries, shape=(len(points), len(points))))


class _Rows:
    """One step back: from the distributions of all states to those of some rows, each a mixture of (state, action)."""

    def __init__(self, course: Course, grid: Grid, row: Ints, pair: Ints, share: Floats):
        """Entry by entry: the row, state * num_actions + action, and its share of the row."""
        self._grid, matrix = grid, course.mdp.matrix
        sizes = np.diff(matrix.indptr)[pair]
        entry = np.repeat(np.arange(len(pair)), sizes)
        slot = np.arange(len(entry)) + np.repeat(matrix.indptr[pair] + sizes - np.cumsum(sizes), sizes)
        weight, successor, earned = share[entry] * matrix.data[slot], matrix.indices[slot], course.slot_gains[slot]
        offset, rest = _split(earned / grid.step)
        shape = int(row.max(initial=-1)) + 1, course.mdp.num_states
        offsets = np.concatenate([offset, offset + 1])
        weights = np.concatenate([weight * (1 - rest), weight * rest])
        places = np.tile(row[entry], 2), np.tile(successor, 2)
        self._moves = [
            (int(each), sparse.csr_array((weights[at], (places[0][at], places[1][at])), shape=shape))
            for each in np.unique(offsets[weights > 0]).tolist()
            for at in (np.flatnonzero((offsets == each) & (weights > 0)),)
        ]
        self._count = shape[0]
        self._entries = row[entry], successor, earned

    def limit(self, later: Floats, sign: int, discount: float) -> Floats:
        """[row]: the least (sign -1) or the largest that can come, from that of all states."""
        row, successor, earned = self._entries
        found = np.full(self._count, -sign * np.inf)
        (np.minimum if sign < 0 else np.maximum).at(found, row, earned + discount * later[successor])
        return found

    def back(self, later: Floats) -> Floats:
        """[row, point], from [state, point]."""
        moved = later if self._grid.shrink is None else np.asarray(later @ self._grid.shrink)
        size = later.shape[1]
        found = np.zeros((self._count, size))
        for offset, matrix in self._moves:
            mass = matrix @ moved
            if offset >= 0:
                found[:, offset:] += mass[:, : size - offset]
            else:
                found[:, :offset] += mass[:, -offset:]
        return found


def rows_of(course: Course, grid: Grid, table: Floats, more: Ints) -> _Rows:
    """All states under a table of choices, and behind them some pairs of state and action by themselves."""
    state, action = np.nonzero(table)
    row = np.concatenate([state, course.mdp.num_states + np.arange(len(more))])
    pair = np.concatenate([state * course.mdp.num_actions + action, more])
    return _Rows(course, grid, row, pair, np.concatenate([table[state, action], np.ones(len(more))]))


def tail_means(grid: Grid, masses: Floats, shares: Floats, limits: Floats, sign: int) -> Floats:
    """The mean of the lower tail (sign -1), or of the upper one, of each distribution, as large as its share.

    None lies beyond the limit of its distribution, though the grid may spread it that far.
    """
    points, mass = (grid.points, masses) if sign < 0 else (grid.points[::-1], masses[:, ::-1])
    mass = np.where(mass > 1e-15, mass, 0)
    mass /= mass.sum(axis=1, keepdims=True)
    below = np.minimum(np.cumsum(mass, axis=1), 1)
    share = np.clip(shares, _RARE, 1)[:, None]
    taken = np.diff(np.minimum(below, share), axis=1, prepend=0)
    means = taken @ points / taken.sum(axis=1)
    return np.where(shares < _RARE, limits, np.maximum(means, limits) if sign < 0 else np.minimum(means, limits))


def persistent_values(course: Course, last: Floats, signs: tuple[int, ...]) -> Floats:
    """[sign, episode]: the least (sign -1) and the largest value if chance may persist, for one policy in all steps."""
    policy, mdp, facts = course.choices.after, course.mdp, course.facts
    count, width = course.earned.shape
    logged = np.arange(width) < course.seen[:, None]
    fact = np.maximum(facts.of_step[:, :width], 0)
    state, action = facts.state[fact], facts.action[fact]
    chance = np.where(logged, mdp.probs[facts[:3]][fact], 1)
    if course.choices.doing is None:
        together = np.where(logged, policy[state, action], 1)
    else:  # both policies' actions may be coupled in any way, where they differ
        assert course.choices.steady is not None
        together = np.where(logged & ~course.choices.steady[fact], 0.0, 1.0)
        chance = chance * np.where(logged, course.choices.doing[fact], 1)
    share: Floats = np.cumprod(chance[:, ::-1], axis=1, dtype=np.float64)[:, ::-1]
    still = np.cumprod(np.concatenate([np.ones((count, 1)), together], axis=1), axis=1)
    factors = course.discount ** np.arange(width + 1)
    before = np.concatenate([np.zeros((count, 1)), np.cumsum(np.where(logged, course.earned, 0) * factors[:-1], 1)], 1)
    parting = np.where(logged, still[:, :-1] * (1 - together), 0)
    grid = grid_of(course, last)
    mixed = (parting > 0) & (together > 0)
    entries, place = np.unique((state * mdp.num_actions + action)[mixed], return_inverse=True)
    of_pair = np.zeros(state.shape, np.int64)
    of_pair[mixed] = mdp.num_states + place
    rows = rows_of(course, grid, policy, entries)
    found, to_go = np.zeros((len(signs), count)), course.steps[:, None] - np.arange(width)
    each, end = np.arange(count), course.seen
    never = still[each, end]
    arrived = mdp.successors[facts[:3]][facts.of_step[each, np.maximum(end - 1, 0)]]
    final_state = np.where(end > 0, arrived, course.first)
    ending = course.steps - end
    masses, limits = grid.masses(last), [last] * len(signs)
    for left in range(int(course.steps.max()) + 1):
        if left:
            masses = rows.back(masses[: mdp.num_states])
            limits = [rows.limit(limit, sign, course.discount) for limit, sign in zip(limits, signs, strict=True)]
        done = np.flatnonzero((ending == left) & (never > 0))
        means = masses[final_state[done]] @ grid.points
        found[:, done] += never[done] * (before[done, end[done]] + factors[end[done]] * means)
        some, step = np.nonzero((to_go == left) & (parting > 0))
        if len(some):
            with_logged = np.where(mixed[some, step], together[some, step], 0)[:, None]
            those = masses[state[some, step]]
            if with_logged.any():
                those = (those - with_logged * masses[of_pair[some, step]]) / (1 - with_logged)
            for one, limit, sign in zip(found, limits, signs, strict=True):
                tail = tail_means(grid, those, share[some, step], limit[state[some, step]], sign)
                np.add.at(one, some, parting[some, step] * (before[some, step] + factors[step] * tail))
    return found


def persistent_actions(course: Course, signs: tuple[int, ...]) -> Floats:
    """[sign, step, action]: the same for one episode whose other actions stay as logged, had this been done there."""
    mdp, facts, count = course.mdp, course.facts, int(course.seen[0])
    last = np.zeros(mdp.num_states)
    grid = grid_of(course, last)
    factors = course.discount ** np.arange(count)
    before = np.concatenate([[0], np.cumsum(course.earned[0, :count] * factors)])
    none, masses, limits = np.zeros(0, np.int64), grid.masses(last), [last] * len(signs)
    found = np.zeros((len(signs), count, mdp.num_actions))

    def moved(rows: _Rows) -> list[Floats]:
        return [rows.limit(limit, sign, course.discount) for limit, sign in zip(limits, signs, strict=True)]

    after = rows_of(course, grid, course.choices.after, none)
    for _ in range(int(course.steps[0]) - count):
        masses, limits = after.back(masses), moved(after)
    share, known = 1.0, dict[int, _Rows]()
    for step in reversed(range(count)):
        fact = int(facts.of_step[0, step])
        state, table = int(facts.state[fact]), int(course.choices.of_fact[fact])
        share *= float(mdp.probs[facts[:3]][fact])
        actions = np.flatnonzero(mdp.allowed[state])
        entries = state * mdp.num_actions + actions
        alone = _Rows(course, grid, np.arange(len(entries)), entries, np.ones(len(entries)))
        those, shares = alone.back(masses), np.full(len(entries), share)
        for one, limit, sign in zip(found, moved(alone), signs, strict=True):
            tail = tail_means(grid, those, shares, limit, sign)
            one[step, actions] = before[step] + factors[step] * tail
        if table not in known:
            known[table] = rows_of(course, grid, course.choices.tables[table], none)
        masses, limits = known[table].back(masses), moved(known[table])
    return found


def returns_after(course: Course, grid: Grid) -> tuple[Floats, Floats, Ints]:
    """[row, state, point]: what is still to come when the log ends; the limits of it, and the row of each episode."""
    numbers, rows = np.unique(course.steps - course.seen, return_inverse=True)
    last, none = np.zeros(course.mdp.num_states), np.zeros(0, np.int64)
    after = rows_of(course, grid, course.choices.after, none)
    masses, limits = grid.masses(last), np.stack([last, last])
    found = list[tuple[Floats, Floats]]()
    for left in range(int(numbers.max()) + 1):
        if left:
            masses = after.back(masses)
            both = [after.limit(limit, sign, course.discount) for limit, sign in zip(limits, (-1, 1), strict=True)]
            limits = np.stack(both)
        if left in numbers:
            found.append((masses, limits.T))
    return np.stack([each for each, _ in found]), np.stack([each for _, each in found]), rows


def _split(places: Floats) -> tuple[Ints, Floats]:
    """The point below each place, and how far it is to the next; places that are all but on a point are on it."""
    nearest = np.round(places)
    below = np.where(np.abs(places - nearest) < _EXACT, nearest, np.floor(places))
    return below.astype(np.int64), np.clip(places - below, 0, 1) * (np.abs(places - nearest) >= _EXACT)
