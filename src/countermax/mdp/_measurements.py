"""Logs with measurements in place of states: read, made into states, and made into states again in each resample."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import entr

from countermax import _plotting as plotting
from countermax._core.errors import InputError
from countermax._core.extras import import_sklearn
from countermax._core.labels import UNKNOWN, listed
from countermax._core.quantities import as_choice, as_count, as_seed, shown
from countermax._core.results import AbstractResult, Row, Table
from countermax._core.words import number
from countermax.mdp import _measured_rows as reading
from countermax.mdp._arrays import Floats, Ints, Values, plainly
from countermax.mdp._clusters import METHODS, MeasuredSteps, Partition, discretised
from countermax.mdp._estimation import visits
from countermax.mdp._files import is_table, read_every_column, read_policy
from countermax.mdp._labels import coded
from countermax.mdp._log import EpisodeLog, step_mask
from countermax.mdp._results import counted

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredStates(AbstractResult):
    """States that were made from measurements, from worst to best, and the ends of episodes among them."""

    names: tuple[str, ...]
    sizes: Ints
    """Rows of each state; of an end, episodes."""
    features: tuple[str, ...]
    means: Float[np.ndarray, "s f"]
    """The mean of each feature; NaN for ends."""
    returns: Float[np.ndarray, " s"]
    """The mean return of the episodes that come there."""
    usual: tuple[str, ...]
    """What was done there most often; nothing at ends."""
    sample_size: int
    told: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{len(self.names)} states, {int(self._ends.sum())} of them ends, from {listed(self.features)}"

    @property
    def rows(self) -> tuple[Row, ...]:
        found = []
        for place, name in enumerate(self.names):
            found += [
                Row("rows" if not self._ends[place] else "episodes", name, "", float(self.sizes[place])),
                Row("mean return", name, "", float(self.returns[place])),
            ]
            if not self._ends[place]:
                means = zip(self.features, self.means[place], strict=True)
                found += [Row(f"mean {each}", name, "", float(mean)) for each, mean in means]
        return tuple(found)

    @property
    def sample(self) -> str:
        return f"{self.sample_size} episodes, {int(self.sizes[~self._ends].sum())} rows"

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (
            "What comes next depends on the state and on what is done, not on what else was measured or came before.",
        )

    @property
    def notes(self) -> tuple[str, ...]:
        return self.told

    def _summary(self) -> str:
        order = np.flatnonzero(~self._ends)
        worst, best = order[self.returns[order].argmin()], order[self.returns[order].argmax()]
        return (
            f'Episodes that come to "{self.names[worst]}" earn {number(self.returns[worst])} on average, those that '
            f'come to "{self.names[best]}" {number(self.returns[best])}. The smallest state has '
            f"{self.sizes[order].min()} rows, the largest {self.sizes[order].max()}."
        )

    def tables(self) -> list[Table]:
        heads = ["state", "most often", "rows", "mean return", *self.features]
        lines = [
            [
                name,
                self.usual[place] or "(end)",
                str(self.sizes[place]),
                number(self.returns[place]),
                *("" if mean != mean else f"{mean:.4g}" for mean in self.means[place]),
            ]
            for place, name in enumerate(self.names)
        ]
        return [Table(heads, lines, 2)]

    def _plot(self) -> "plotting.Figure":
        kept = np.flatnonzero(~self._ends)
        return plotting.draw_states(
            [self.names[each] for each in kept],
            list(self.features),
            self.means[kept],
            self.sizes[kept],
            title=self.title,
        )

    @property
    def _ends(self) -> Bool[np.ndarray, " s"]:
        return np.array([not each for each in self.usual])


_FOLDS = 5
_FLATTEST, _SHARPEST = 0.05, 5.0  # powers of probabilities


def cross_fitted(
    numbers: Floats, actions: Ints, episode: Ints, num_actions: int, classifier: Any, seed: int
) -> tuple[Floats, float, float]:
    """Fits to all episodes but a fifth, in turn, and predicts that one; then one power of all probabilities is fitted.

    That is temperature scaling: one number cannot overfit, and no probability becomes zero. None is less than that of
    one row in all. With the probability of what was done in each row come its mean log loss, and that of the
    frequencies of the actions, whatever was measured.
    """
    sklearn = import_sklearn()
    groups, group = np.unique(episode, return_inverse=True)
    fold = np.random.default_rng(seed).permutation(len(groups))[group] % min(_FOLDS, len(groups))
    shares = np.bincount(actions, minlength=num_actions) / len(actions)
    found = np.tile(np.maximum(shares, 1 / len(actions)), (len(actions), 1))
    for each in np.unique(fold).tolist():
        held = fold == each
        if len(np.unique(actions[~held])) > 1:
            fitted = sklearn.base.clone(classifier).fit(numbers[~held], actions[~held])
            found[held] = 0
            found[np.ix_(held, fitted.classes_.astype(np.int64))] = fitted.predict_proba(numbers[held])
    logs = np.log(np.maximum(found, 1 / len(actions)))

    def done(power: float) -> Floats:
        """The logarithms of the probabilities of what was done."""
        return power * logs[np.arange(len(actions)), actions] - np.logaddexp.reduce(power * logs, axis=1)

    from scipy.optimize import minimize_scalar

    power = minimize_scalar(lambda each: -done(each).mean(), bounds=(_FLATTEST, _SHARPEST), method="bounded").x
    return np.exp(done(power)), float(-done(power).mean()), float(entr(shares).sum())


Resampling: TypeAlias = Callable[[Ints], tuple[EpisodeLog, Floats]]
"""From episodes, drawn with replacement, to their log and the policy in its states."""

_FREQUENCIES, _CLASSIFIER = "frequencies", "classifier"


@final
class Measurements:
    """Steps with measurements in place of states (heart rate, lactate), as a log for `Cohort`.

    Rows whose numbers are alike become one state. States are named by what they are, and ordered from worst to best by
    the mean return of the episodes that come there. Where intervals come from resampled episodes, states are made again
    from each resample, and the policy, which speaks of the same rows, is carried over.

    The last row of an episode leads to its outcome, which is an end. Where the outcome is missing the episode was
    censored: its last row is where it was seen last, and nothing that was done then counts. Missing measurements are
    carried forward within an episode, else they are the median; `notes` says how many.
    """

    def __init__(
        self,
        steps: "pd.DataFrame | str | Path",
        features: Sequence[str],
        *,
        num_states: int = 20,
        method: str = "k-means",
        doses: Sequence[str] | None = None,
        dose_levels: int = 4,
        columns: Mapping[str, str] | None = None,
        score: Mapping[Hashable, int | float] | None = None,
        behaviour: Any = _FREQUENCIES,
        seed: int = 0,
    ):
        """Reads the steps and makes the states.

        Args:
            steps: Dataframe, or CSV or Parquet file, with a row for each step, in any order.
            features: Columns of numbers that make the states of a log that has none.
            num_states: Number of states that are made, beside the ends.
            method: Method that makes states: "k-means" on standardised numbers, or "tree", whose leaves predict what an
                episode still earns.
            doses: Columns of doses that are the action, in place of a column action. Each becomes a level from 0 (none)
                up, by quantiles of the doses above zero.
            dose_levels: Number of levels of each dose above zero.
            columns: Columns of the steps, by what they stand for: episode=patient,time=hour,outcome=status.
            score: Score of each final outcome, where there is no column reward: home=1,dead=0.
            behaviour: Estimate of the behaviour policy: "frequencies" of the states, or "classifier", a logistic
                regression on the features, cross-fitted and calibrated. A classifier of scikit-learn that was not
                fitted takes its place.
            seed: Seed of k-means and of the folds.
        """
        as_choice("`method`", method, METHODS)
        as_count("`num_states`", num_states, least=2)
        as_count("`dose_levels`", dose_levels)
        self._classifier = _checked_classifier(behaviour)
        self._partition = Partition(num_states, method, as_seed("seed", seed))
        frame = read_every_column(steps)
        self._frame = reading.arranged_rows(frame, columns, score is not None, doses)
        names = reading.checked_features(self._frame, features)
        numbers, missing = reading.measured_numbers(self._frame, names)
        actions, labels, levels = reading.actions_of(self._frame, doses, dose_levels)
        self._steps = reading.steps_of_rows(self._frame, numbers, names, (actions, labels), score)
        dropped = len(set(self._frame["episode"])) - len(self._steps.episodes)
        alone = (
            f"Left out: {counted(dropped, 'episode')} of one row without an outcome, which show nothing that followed."
        )
        self._states = discretised(self._steps, self._partition, np.arange(len(self._steps.episodes)))
        self._propensities, known = None, ""
        if self._classifier is not None:
            self._propensities, known = _propensities(
                self._steps, self._classifier, self._partition.seed, np.arange(len(self._steps.episodes))
            )
        self.notes: tuple[str, ...] = (
            f"{_made(self._partition, len(self._states.log.state_names or ()) - len(self._steps.ends))} from "
            f"{listed(names)}; see `states`.",
            *missing,
            *levels,
            *([alone] if dropped else []),
            *([known] if known else []),
        )

    @property
    def log(self) -> EpisodeLog:
        """The episodes by state. A cohort of this log takes the states as given."""
        return replace(self._states.log, propensities=self._propensities)

    @property
    def ends(self) -> tuple[Hashable, ...]:
        """States where episodes end, by name."""
        return self._steps.ends

    @property
    def states(self) -> MeasuredStates:
        """What the states are: their names, sizes, and means."""
        log, of_row = self._states.log, self._states.of_row
        used = of_row >= 0
        sizes = np.maximum(np.bincount(of_row[used], minlength=log.num_states), 1)
        means = [np.bincount(of_row[used], each[used], log.num_states) / sizes for each in self._steps.numbers.T]
        ends = np.isin(np.arange(log.num_states), [(log.state_names or ()).index(each) for each in self.ends])
        return MeasuredStates(
            names=tuple(map(str, log.state_names or ())),
            sizes=self._states.sizes,
            features=self._steps.features,
            means=np.where(ends[:, None], np.nan, np.stack(means, axis=1)),
            returns=self._states.returns,
            usual=tuple(
                "" if end else str((log.action_names or ())[each.argmax()])
                for end, each in zip(ends, visits(log), strict=True)
            ),
            sample_size=len(log),
            told=self.notes,
        )

    def wanted(self, policy: "Values | pd.DataFrame | str | Path") -> tuple[Floats, Floats]:
        """What a policy does in each row, [row, action], and in each state, [state, action].

        The policy is given by state, as an array or a file, or as a column that names the action in each row.
        """
        log, of_row = self._states.log, self._states.of_row
        if isinstance(policy, str | Path) and str(policy) in self._frame.columns:
            column = self._frame[str(policy)]
            places = coded(column).places(self._steps.action_names)
            if (places < 0).any():
                at = int((places < 0).argmax())
                told = plainly(column.iloc[at]) if places[at] == UNKNOWN else "nothing"
                raise InputError(
                    f"`policy` must name an action in each row ({listed(self._steps.action_names)}), got {told} in row "
                    f"{self._frame.index[at]} of column {policy}"
                )
            by_row = np.eye(log.num_actions)[places]
            return by_row, averaged(by_row, of_row, log.num_states)
        if is_table(policy):
            policy = read_policy(policy, log)
        by_state = np.asarray(policy, np.float64)
        if by_state.shape != (log.num_states, log.num_actions):
            return np.zeros((len(of_row), 0)), by_state  # which is refused elsewhere, in words
        return by_state[of_row], by_state

    def resampling(self, by_row: Floats) -> Resampling:
        """A function from episodes, drawn with replacement, to their log, by states made from them, and the policy."""
        return partial(_again, self._steps, self._partition, self._classifier, by_row)

    def __repr__(self) -> str:
        return f"Measurements({listed(self._steps.features)}; {self.log})"


def _again(
    steps: MeasuredSteps, partition: Partition, classifier: Any, by_row: Floats, chosen: Ints
) -> tuple[EpisodeLog, Floats]:
    states = discretised(steps, partition, chosen)
    log, reached = states.log, steps.reached(chosen)
    if classifier is not None:
        log = replace(log, propensities=_propensities(steps, classifier, partition.seed, chosen)[0])
    own = reached[reached >= 0]
    return log, averaged(by_row[own], states.of_row[own], log.num_states)


def averaged(by_row: Floats, of_row: Ints, num_states: int) -> Floats:
    """[state, action]: the mean over the rows of each state; all actions alike where there are none."""
    known = of_row >= 0
    found = np.zeros((num_states, by_row.shape[1]))
    np.add.at(found, of_row[known], by_row[known])
    sizes = np.bincount(of_row[known], minlength=num_states)[:, None]
    return np.where(sizes > 0, found / np.maximum(sizes, 1), 1 / by_row.shape[1])


def _made(partition: Partition, found: int) -> str:
    how = "by k-means" if partition.method == "k-means" else "by a tree that saw the returns"
    return f"{found} states were made {how}"


def _checked_classifier(behaviour: Any) -> Any:
    """The classifier asked for, by its word a logistic regression on standardised numbers; None for frequencies."""
    if isinstance(behaviour, str):
        if behaviour not in (_FREQUENCIES, _CLASSIFIER):
            raise InputError(f'`behaviour` must be "{_FREQUENCIES}", "{_CLASSIFIER}", or one, got {shown(behaviour)}')
        if behaviour == _FREQUENCIES:
            return None
        import_sklearn()
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    if not (hasattr(behaviour, "fit") and hasattr(behaviour, "predict_proba")):
        raise InputError(f"`behaviour` must have fit and predict_proba, as classifiers do, got {shown(behaviour)}")
    return behaviour


def _propensities(steps: MeasuredSteps, classifier: Any, seed: int, chosen: Ints) -> tuple[Floats, str]:
    """How likely what was done was at each step of some episodes, and how well that is known."""
    longest = int(steps.lengths[chosen].max())
    real = step_mask(steps.lengths[chosen], longest)
    rows, actions = steps.rows[chosen, :longest][real], steps.actions[chosen, :longest][real]
    done = np.ones(real.shape)
    done[real], loss, baseline = cross_fitted(
        steps.numbers[rows], actions, steps.episode[rows], len(steps.action_names), classifier, seed
    )
    return done, (
        f"The behaviour policy is a classifier of the features, cross-fitted over episodes and calibrated: its log "
        f"loss is {loss:.3f}, that of the frequencies of the actions {baseline:.3f}."
    )
