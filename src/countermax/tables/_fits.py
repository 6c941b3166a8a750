"""A classifier that is fitted again: a copy of it, the rows it is given, and how much they count."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._tables.frames import AbstractFrame, Codes, Floats


def copy_of(classifier: Any) -> Any:
    """A classifier with the same settings that was not fitted."""
    try:
        from sklearn.base import clone
    except ImportError as error:
        raise ImportError("refit=True needs scikit-learn: pip install scikit-learn") from error
    kind = type(classifier).__name__
    try:
        fresh = clone(classifier)
    except (TypeError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"refit=True needs a classifier that sklearn.base.clone can copy, got {kind}: {reason}"
        ) from error
    if fresh is classifier:
        raise InputError(f"refit=True needs a classifier that can be fitted again, but {kind} is frozen")
    return fresh


class FitData(NamedTuple):
    """What all fits have in common: classifiers, what each of them reads, and what it is to predict."""

    classifiers: Sequence[Any]
    inputs: Sequence[Any]
    outcomes: Sequence[Any]
    weights: Floats | None


def fit_some(data: FitData, rows: Codes, seed: int) -> list[Any]:
    """Each classifier, fitted again to some rows; what it leaves to chance is drawn from the seed."""
    result = []
    weights = None if data.weights is None else data.weights[rows]
    for classifier, inputs, outcomes in zip(data.classifiers, data.inputs, data.outcomes, strict=True):
        features, outcome = taken(inputs, rows), outcomes[rows]
        fresh = copy_of(classifier)
        chance = {
            name: seed for name, value in fresh.get_params().items()
            if value is None and (name == "random_state" or name.endswith("__random_state"))
        }  # fmt: skip
        fresh.set_params(**chance)
        argument = None if weights is None else weight_argument(fresh)
        fresh.fit(features, outcome, **({} if argument is None else {argument: weights}))
        if not np.array_equal(fresh.classes_, classifier.classes_):
            raise InputError(
                f"the frame must be what the classifier was fitted on, but fitted again it has the classes "
                f"{list(fresh.classes_)} in place of {list(classifier.classes_)}"
            )
        result.append(fresh)
    return result


def weight_argument(classifier: Any) -> str | None:
    """What `fit` calls the weights of rows; None where it takes none."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    if isinstance(classifier, Pipeline):
        name, last = classifier.steps[-1]
        inner = weight_argument(last)
        return None if inner is None else f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(classifier, "sample_weight") else None


def taken(inputs: Any, rows: Codes) -> Any:
    """Some rows of what a classifier reads."""
    return inputs.iloc[rows] if hasattr(inputs, "iloc") else inputs[rows]


def row_weights(frame: AbstractFrame, given: Any) -> Floats:
    """How much each row counts, from a column or an array."""
    values = frame.numbers("weights", [given])[:, 0] if isinstance(given, str) else np.asarray(given, np.float64)
    if values.shape != (frame.num_rows,):
        raise InputError(f"`weights` must have one value for each of {frame.num_rows} rows, got shape {values.shape}")
    if not ((values >= 0) & (values < np.inf)).all() or not values.sum() > 0:
        raise InputError("`weights` must be finite, not negative, and not all zero")
    return values


def members_of_clusters(frame: AbstractFrame, given: Any, used: NDArray[np.bool_]) -> list[Codes]:
    """The rows of each cluster that are used, from a column or an array."""
    column = frame.column("clusters", given) if isinstance(given, str) else frame.own("clusters", given)
    codes, values = frame.factorised(column)
    if (codes < 0).any():
        raise InputError(f"`clusters` is missing for {int((codes < 0).sum()):,} rows; fill it in, or drop them")
    if len(values) < 2:
        raise InputError(f"`clusters` must name at least two clusters, got {len(values)}")
    members = [np.flatnonzero((codes == place) & used) for place in range(len(values))]
    return [each for each in members if len(each)]
