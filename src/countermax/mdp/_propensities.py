"""How likely each action was, given what was measured: a classifier, cross-fitted over episodes and calibrated."""

from typing import Any, NamedTuple

import numpy as np

from countermax._core.extras import import_sklearn
from countermax.mdp._arrays import Floats, Ints

_FOLDS = 5
_FLATTEST, _SHARPEST = 0.05, 5.0  # powers of probabilities


class Propensities(NamedTuple):
    """Probabilities of all actions, [row, action], by fits that have not seen the row's episode."""

    probabilities: Floats
    loss: float
    """The mean log loss of what was done."""
    baseline: float
    """That of the frequencies of the actions, whatever was measured."""


def cross_fitted(
    numbers: Floats, actions: Ints, episode: Ints, num_actions: int, classifier: Any, seed: int
) -> Propensities:
    """Fits to all episodes but a fifth, in turn, and predicts that one; then one power of all probabilities is fitted.

    That is temperature scaling: one number cannot overfit, and no probability becomes zero. None is less than that of
    one row in all.
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
    logs, done = np.log(np.maximum(found, 1 / len(actions))), np.arange(len(actions))

    def loss(power: float) -> float:
        scaled = power * logs
        return float((np.logaddexp.reduce(scaled, axis=1) - scaled[done, actions]).mean())

    from scipy.optimize import minimize_scalar

    power = minimize_scalar(loss, bounds=(_FLATTEST, _SHARPEST), method="bounded").x
    scaled = power * logs
    probabilities = np.exp(scaled - np.logaddexp.reduce(scaled, axis=1)[:, None])
    return Propensities(probabilities, loss(power), float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum()))


def usual_classifier() -> Any:
    """Multinomial logistic regression on standardised numbers."""
    import_sklearn()
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
