"""Logistic regression by Newton's method, for many tables at once: finds what scikit-learn's does, and is quicker."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_MOST_STEPS, _LONGEST_STEP, _CONVERGED = 50, 2.0, 1e-10


def fit_tables(features: Floats, counts: Floats) -> Floats:
    """The coefficients of many regressions, [tables, features + 1, outcomes]: those of an intercept come first.

    The penalty is scikit-learn's own: half the sum of squared coefficients, without those of the intercept.

    Args:
        features: Features of each cell, [cells, features].
        counts: Number of people in each cell with each outcome, [tables, cells, outcomes].
    """
    design = _with_intercept(features)
    tables, _, outcomes = counts.shape
    penalised = np.append(0.0, np.ones(features.shape[1]))
    size = design.shape[1] * outcomes
    # To add a number to the coefficients of all outcomes changes nothing; a small penalty on their sum decides.
    free = np.einsum("f,g,kl->fkgl", *(np.eye(design.shape[1])[0],) * 2, np.ones((outcomes, outcomes)))
    penalty = (np.einsum("fg,kl->fkgl", np.diag(penalised), np.eye(outcomes)) + free).reshape(size, size)
    people = counts.sum(axis=2, keepdims=True)
    found = np.zeros((tables, design.shape[1], outcomes))
    for _ in range(_MOST_STEPS):
        probs = softmax(design @ found)
        slope = (design.T @ (counts - people * probs)).reshape(tables, size)
        slope -= found.reshape(tables, size) @ penalty
        weights = people[..., None] * (np.eye(outcomes) * probs[..., None] - probs[..., None] * probs[..., None, :])
        curvature = np.einsum("cf,cg,tckl->tfkgl", design, design, weights, optimize=True).reshape(tables, size, size)
        step = np.linalg.solve(curvature + penalty, slope[..., None])[..., 0]
        longest = np.abs(step).max(axis=1, keepdims=True)
        step *= np.minimum(1.0, _LONGEST_STEP / np.maximum(longest, _CONVERGED))
        found += step.reshape(found.shape)
        if longest.max() < _CONVERGED:
            break
    return found


def predict_tables(features: Floats, coefficients: Floats) -> Floats:
    """The probabilities of all outcomes, [tables, cells, outcomes]."""
    return softmax(_with_intercept(features) @ coefficients)


def softmax(logits: Floats) -> Floats:
    """Probabilities over the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


class Logistic:
    """A classifier with the interface of scikit-learn, for features of few values."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """No settings."""
        return {}

    def set_params(self) -> "Logistic":
        """Sets nothing."""
        return self

    def fit(self, features: Any, outcome: Any) -> "Logistic":
        """Counts equal rows, and fits the table."""
        self.feature_names_in_ = np.asarray(features.columns, object)
        cells, cell = np.unique(features.to_numpy(np.float64), axis=0, return_inverse=True)
        self.classes_, label = np.unique(outcome, return_inverse=True)
        counts = np.zeros((1, len(cells), len(self.classes_)))
        np.add.at(counts[0], (cell, label), 1.0)
        self.coefficients_ = fit_tables(cells, counts)
        return self

    def predict_proba(self, features: Any) -> Floats:
        """The probabilities of the classes, for each row."""
        return np.asarray(predict_tables(features.to_numpy(np.float64), self.coefficients_)[0])


def _with_intercept(features: Floats) -> Floats:
    return np.column_stack([np.ones(len(features)), features])
