"""States from numbers: which rows are alike, in what order states come, and what they are called."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from countermax._core.extras import import_sklearn
from countermax.mdp._arrays import Floats, Ints
from countermax.mdp._log import EpisodeLog, step_mask

METHODS = ("k-means", "tree")
_STARTS = 3  # of k-means, of which the best is kept
_LEAST_SHARE = 20  # a leaf has at least one in so many of the rows that it would have if all were of one size
_NOTABLE, _VERY = 0.5, 1.5  # standard deviations from the mean
_WORDS = 2  # in a name, unless more are needed to tell states apart


class MeasuredSteps(NamedTuple):
    """Steps whose states are rows of numbers."""

    numbers: Floats
    """[row, feature], nothing missing."""
    features: tuple[str, ...]
    rows: Ints
    """[episode, time]: the row at each time, or an end, as -1 less its place; one more than there are actions."""
    actions: Ints
    rewards: Floats
    lengths: Ints
    episode: Ints
    """Whose each row is."""
    episodes: tuple[Hashable, ...]
    ends: tuple[Hashable, ...]
    action_names: tuple[Hashable, ...]

    def reached(self, chosen: Ints) -> Ints:
        """The row, or the end, at each time of some episodes, one after the other."""
        return self.rows[chosen][step_mask(self.lengths[chosen] + 1, self.rows.shape[1])]

    def to_go(self) -> Floats:
        """What each row's episode earned from there on."""
        later = self.rewards[:, ::-1].cumsum(axis=1)[:, ::-1]
        found = np.zeros(len(self.numbers))
        at = (self.rows[:, :-1] >= 0) & step_mask(self.lengths, self.actions.shape[1])
        found[self.rows[:, :-1][at]] = later[at]
        return found


class Partition(NamedTuple):
    """How rows become states."""

    num_states: int
    method: str
    seed: int


class States(NamedTuple):
    """Rows by state, worst first: by the mean return of the episodes that come there. Ends are states, too."""

    log: EpisodeLog
    of_row: Ints
    """The state of each row; -1 of episodes that were not chosen."""
    sizes: Ints
    """How many rows each state has, or how many episodes end there."""
    returns: Floats
    """The mean return of the episodes that come there, row by row."""


def discretised(steps: MeasuredSteps, how: Partition, chosen: Ints) -> States:
    """States of some episodes, repeats allowed, made from their rows alone."""
    reached = steps.reached(chosen)
    own = reached[reached >= 0]
    codes, names = _by_distance(steps, how, own) if how.method == "k-means" else _by_tree(steps, how, own)
    count, totals = len(names), steps.rewards.sum(axis=1)
    ended = -1 - steps.rows[chosen, steps.lengths[chosen]]
    stopped = ended >= 0
    where = np.concatenate([codes[own], count + ended[stopped]])
    worth = np.concatenate([totals[steps.episode[own]], totals[chosen[stopped]]])
    sizes = np.bincount(where, minlength=count + len(steps.ends))
    returns = np.bincount(where, worth, len(sizes)) / np.maximum(sizes, 1)
    returns[sizes == 0] = np.inf  # an end that nobody came to
    order = np.argsort(returns, kind="stable")
    place = np.argsort(order)
    of_row = np.full(len(steps.numbers), -1)
    of_row[own] = place[codes[own]]
    longest = int(steps.lengths[chosen].max())
    rows = steps.rows[chosen, : longest + 1]
    log = EpisodeLog(
        states=np.where(rows >= 0, of_row[rows], place[count - 1 - rows.clip(max=-1)]),
        actions=steps.actions[chosen, :longest],
        rewards=steps.rewards[chosen, :longest],
        lengths=steps.lengths[chosen],
        num_states=len(order),
        num_actions=len(steps.action_names),
        episodes=tuple(steps.episodes[each] for each in chosen.tolist()),
        state_names=tuple([*names, *steps.ends][each] for each in order),
        action_names=steps.action_names,
    )
    return States(log, of_row, sizes[order], returns[order])


def _by_distance(steps: MeasuredSteps, how: Partition, own: Ints) -> tuple[Ints, list[str]]:
    """The cluster of each row, by k-means on standardised numbers; and what the clusters are called."""
    import_sklearn()
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    middle, spread = steps.numbers[own].mean(axis=0), steps.numbers[own].std(axis=0)
    scaled = (steps.numbers - middle) / np.where(spread > 0, spread, 1)
    number = min(how.num_states, len(np.unique(scaled[own], axis=0)))
    with threadpool_limits(1):  # on busy cores threads wait for each other
        fitted = KMeans(number, n_init=_STARTS, random_state=how.seed).fit(scaled[own])
        codes = fitted.predict(scaled).astype(np.int64)
    used, codes[own] = np.unique(codes[own], return_inverse=True)
    centres = np.stack([scaled[own][codes[own] == each].mean(axis=0) for each in range(len(used))])
    return codes, distinct_names([_told(centre, steps.features) for centre in centres], steps.ends)


def _by_tree(steps: MeasuredSteps, how: Partition, own: Ints) -> tuple[Ints, list[str]]:
    """The leaf of each row, of a tree that predicts what is still to come; and the path to each."""
    import_sklearn()
    from sklearn.tree import DecisionTreeRegressor

    least = max(1, len(own) // (_LEAST_SHARE * how.num_states))
    tree = DecisionTreeRegressor(max_leaf_nodes=how.num_states, min_samples_leaf=least, random_state=how.seed)
    tree.fit(steps.numbers[own], steps.to_go()[own])
    leaves = tree.apply(steps.numbers)
    used, codes = np.unique(leaves[own], return_inverse=True)
    found = np.full(len(leaves), -1)
    found[own] = codes
    paths = _paths(tree.tree_, steps.features)
    told = [paths[leaf] or ["all"] for leaf in used.tolist()]
    return found, distinct_names(told, steps.ends, max(map(len, told)))


def _told(centre: Floats, features: Sequence[str]) -> list[str]:
    """What is notable of a cluster, the most notable first: `lactate high`, `MAP very low`."""
    order = np.argsort(-np.abs(centre), kind="stable").tolist()
    return [
        f"{features[each]} {'very ' if abs(centre[each]) >= _VERY else ''}{'high' if centre[each] > 0 else 'low'}"
        for each in order
        if abs(centre[each]) >= _NOTABLE
    ] or ["average"]


def _paths(tree: Any, features: Sequence[str]) -> dict[int, list[str]]:
    """The limits of each leaf, one for each feature: `lactate > 2.1`, `60 < MAP <= 75`."""
    found: dict[int, list[str]] = {}
    waiting: list[tuple[int, dict[tuple[int, str], float]]] = [(0, {})]
    while waiting:
        node, limits = waiting.pop()
        if tree.children_left[node] < 0:
            used = dict.fromkeys(feature for feature, _ in limits)
            found[node] = [_range(features[each], limits.get((each, ">")), limits.get((each, "<="))) for each in used]
            continue
        split = int(tree.feature[node]), float(tree.threshold[node])
        for child, side in ((tree.children_left[node], "<="), (tree.children_right[node], ">")):
            waiting.append((int(child), limits | {(split[0], side): split[1]}))
    return found


def _range(name: str, above: float | None, up_to: float | None) -> str:
    if up_to is None:
        return f"{name} > {above:.4g}"
    return f"{name} <= {up_to:.4g}" if above is None else f"{above:.4g} < {name} <= {up_to:.4g}"


def distinct_names(told: Sequence[Sequence[str]], taken: Sequence[Hashable], shortest: int = _WORDS) -> list[str]:
    """A name for each from its words, as many as tell states apart and at least two; where none do, it is numbered."""
    lengths = [shortest] * len(told)
    for _ in range(max(map(len, told))):
        names = [", ".join(each[:length]) for each, length in zip(told, lengths, strict=True)]
        times = Counter(names)
        lengths = [length + (times[name] > 1) for name, length in zip(names, lengths, strict=True)]
    names = [", ".join(each[:length]) for each, length in zip(told, lengths, strict=True)]
    times, seen = Counter(names), Counter(str(each) for each in taken)
    found = []
    for name in names:
        seen[name] += 1
        found.append(f"{name} ({seen[name]})" if times[name] > 1 or seen[name] > 1 else name)
    return found
