"""A categorical node for DoWhy: a classifier for the probabilities, a mechanism for how worlds are coupled."""

import zlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int
from numpy.typing import NDArray

from countermax._core.checks import has_nan
from countermax._core.errors import InputError
from countermax._core.extras import import_dowhy, import_pandas
from countermax._core.labels import Labels, listed, sorted_labels
from countermax._core.quantities import as_seed
from countermax.couplings import AbstractMechanism, AbstractNoiseSampler, GumbelMax

dowhy, pd = import_dowhy(), import_pandas()


class CategoryColumn(np.ndarray):
    """Labels [rows, 1] that become a pandas Categorical where DoWhy makes a column of them.

    DoWhy flattens what a mechanism returns by `reshape(-1)` or `squeeze()` and puts it into a frame. Here these two
    return a Categorical, so that the column has its categories and their order again. What is computed from it is an
    array like any other.
    """

    dtype_of_column: Any = None
    """Not handed on to views and results."""

    @classmethod
    def of(cls, values: NDArray[Any], dtype: Any) -> NDArray[Any]:
        """The values as such a column; unchanged where there are no categories."""
        if dtype is None:
            return values
        column = values.view(cls)
        column.dtype_of_column = dtype
        return column

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """As of any array, but one axis is a Categorical."""
        return self._flat() if shape in ((-1,), ((-1,),)) else np.asarray(self).reshape(*shape, **options)

    def squeeze(self, axis: Any = None) -> Any:
        """A Categorical, of a single row too."""
        return self._flat() if axis is None else np.asarray(self).squeeze(axis)

    def _flat(self) -> Any:
        values = np.asarray(self).reshape(-1)
        return values if self.dtype_of_column is None else pd.Categorical(values.tolist(), dtype=self.dtype_of_column)


def as_labels(given: Any) -> tuple[Labels, Any]:
    """Labels in their order, checked, and the category dtype that they came as, if they did."""
    dtype = given if isinstance(given, pd.CategoricalDtype) else getattr(given, "dtype", None)
    if not isinstance(dtype, pd.CategoricalDtype):
        return Labels(tuple(given)), None
    if dtype.categories is None:
        raise InputError("`labels` must name the categories, got a category dtype without any")
    return Labels(tuple(dtype.categories.tolist())), dtype


def levels_of(values: NDArray[Any]) -> Labels | None:
    """The distinct values of a column of texts or booleans, sorted; None for numbers."""
    distinct = [value for value in pd.unique(np.asarray(values, object).reshape(-1)).tolist() if not pd.isna(value)]
    if not distinct or not all(isinstance(value, str | bool | np.bool_) for value in distinct):
        return None
    return Labels(tuple(sorted_labels(each.item() if isinstance(each, np.generic) else each for each in distinct)))


def unknown_level(levels: Labels, values: Sequence[Any] | NDArray[Any]) -> tuple[int, Hashable] | None:
    """Where the first value is that is none of the levels, and the value; None where there is no such value."""
    objects = np.asarray(values, object).reshape(-1)
    codes, distinct = pd.factorize(objects, use_na_sentinel=False)
    bad = levels.places(list(distinct)) < 0
    rows = np.flatnonzero(bad[codes])
    return (int(rows[0]), objects[rows[0]]) if len(rows) else None


def check_parents(levels: dict[int, Labels], parents: NDArray[Any]) -> None:
    """Refuses a level that a classifier was not fitted with: DoWhy would take it for no level at all."""
    for column, known in levels.items():
        values = parents[:, column]
        if all(isinstance(each, bool) for each in known.values):
            values = np.array([bool(each) if each in (0, 1) else each for each in values.tolist()], object)
        found = unknown_level(known, values)
        if found is not None:
            raise InputError(
                f"a categorical parent must have one of the levels it was fitted with, {listed(known.values)}, got "
                f"{listed([found[1]])} (column {column} of the parents by name, row {found[0]}, both counted from 0)"
            )


Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Mechanism: TypeAlias = AbstractNoiseSampler[Any]

_SEEDS = 2.0**48
_ROWS = (1, 16, 256, 4096)  # computed at once, the last row repeated to fill up: few shapes to compile
_TRIES = 2**14  # seeds at once, shared evenly among the rows; some milliseconds
_MOST_TRIES = 3 * 10**8  # that one call may be expected to take; about a minute
_PATIENCE = 50  # times the expected tries: a mechanism that has its marginals needs more once in e^50 rows


def draw(count: int, uniforms: Callable[[int], Floats]) -> Floats:
    """So many numbers, from a source of uniform numbers in [0, 1)."""
    return np.floor(uniforms(count) * _SEEDS) / _SEEDS


def respond(mechanism: Mechanism, probs: Floats, noise: Floats) -> Codes:
    """The outcome of each row: `probs` is [rows, outcomes], `noise` one number for each row."""
    _check_probabilities(probs)
    if not ((noise >= 0) & (noise < 1)).all():
        raise InputError(f"the noise of a categorical node must lie in [0, 1), got {noise.min()} to {noise.max()}")
    if not len(noise):
        return np.zeros(0, np.int64)
    rows = _fitting(len(noise))
    batches = [slice(start, start + rows) for start in range(0, len(noise), rows)]
    return np.concatenate([_outcomes(mechanism, probs[batch], noise[batch, None], rows)[:, 0] for batch in batches])


def abduct(mechanism: Mechanism, probs: Floats, x: Codes, uniforms: Callable[[int], Floats]) -> Floats:
    """Draws numbers under which each row has the outcome `x`, which must be possible."""
    _check_probabilities(probs)
    chance = probs[np.arange(len(x)), x]
    if (1 / chance).sum() > _MOST_TRIES:
        raise InputError(
            f"explaining what was seen would take about {(1 / chance).sum():.0e} tries, one over its probability for "
            f"each row: row {chance.argmin()} (counted from 0) saw a class of probability {chance.min():.0e}; give the "
            "mechanism more `smoothing` (1e-4, say), or ask for exact probabilities, which need no noise"
        )
    noise, tried, waiting = np.empty(len(x)), np.zeros(len(x)), np.arange(len(x))
    while len(waiting):
        rows = _fitting(len(waiting))
        rows = min(rows, _fitting(_TRIES * np.median(chance[waiting[:rows]])))  # rare outcomes: fewer rows, more tries
        batch, waiting = waiting[:rows], waiting[rows:]
        candidates = draw(len(batch) * (_TRIES // rows), uniforms).reshape(len(batch), -1)
        hit = _outcomes(mechanism, probs[batch], candidates, rows) == x[batch, None]
        found = hit.any(axis=1)
        noise[batch[found]] = candidates[found, hit[found].argmax(axis=1)]
        tried[batch] += candidates.shape[1]
        waiting = np.concatenate([waiting, batch[~found]])
        late = batch[~found & (tried[batch] > _PATIENCE * (1 + 1 / chance[batch]))]
        if len(late):
            raise InputError(
                f"`mechanism` must yield each class as often as the logits say, but in {tried[late[0]]:.0f} tries this "
                f"{type(mechanism).__name__} never yielded one of probability {chance[late[0]]:.2g}; see what "
                "`countermax.testing.check_coupling` says about it"
            )
    return noise


def _outcomes(mechanism: Mechanism, probs: Floats, noise: Floats, rows: int) -> Codes:
    """What each of a row's numbers [rows, tries] yields; the last row is repeated to reach one of the usual shapes."""
    padding = ((0, rows - len(probs)), (0, 0))
    seeds = np.pad(np.rint(noise * _SEEDS).astype(np.int64), padding, mode="edge")
    with np.errstate(divide="ignore"):
        log_p = np.pad(np.log(probs), padding, mode="edge")
    # In double precision and with one kind of random numbers, whatever the settings of JAX are: noise may be stored.
    with jax.enable_x64(True), jax.threefry_partitionable(True):
        return np.asarray(_responses(mechanism, log_p, seeds), np.int64)[: len(probs)]


@eqx.filter_jit
def _responses(
    mechanism: Mechanism, log_p: Float[ArrayLike, "n k"], seeds: Int[ArrayLike, "n tries"]
) -> Int[Array, "n tries"]:
    # In single precision a gadget rounds differently in batches of different shapes, by 1e-7.
    double = jax.tree.map(lambda leaf: leaf.astype(float) if eqx.is_inexact_array(leaf) else leaf, mechanism)

    def one(log_p: Float[Array, " k"], seed: Int[Array, ""]) -> Int[Array, ""]:
        key = jax.random.key(seed, impl="threefry2x32")
        return double._respond(double.noise(log_p.size, key=key, dtype=log_p.dtype), log_p)

    # Two maps, so that what depends on the logits alone is computed once for all tries of a row.
    return jax.vmap(jax.vmap(one, (None, 0)))(jnp.asarray(log_p), jnp.asarray(seeds))


def _fitting(count: int | np.floating) -> int:
    return next((rows for rows in _ROWS if rows >= count), _ROWS[-1])


def _check_probabilities(probs: Floats) -> None:
    """NaN would pass for the most likely class."""
    bad = ~((probs >= 0) & (probs < np.inf)).all(axis=1)
    if bad.any():
        raise InputError(
            f"the classifier must give probabilities, but gave {probs[bad.argmax()].tolist()} in row {bad.argmax()} "
            "(counted from 0); look at its parents there, or train it again"
        )


ClassifierFCM: Any = dowhy.gcm.causal_mechanisms.ClassifierFCM
InvertibleFunctionalCausalModel: Any = dowhy.gcm.causal_mechanisms.InvertibleFunctionalCausalModel
ClassificationModel = dowhy.gcm.ml.classification.ClassificationModel
SklearnClassificationModel = dowhy.gcm.ml.classification.SklearnClassificationModel
shape_into_2d = dowhy.gcm.util.general.shape_into_2d


@final
class CategoricalMechanism(ClassifierFCM, InvertibleFunctionalCausalModel):
    """A categorical node `Y := f(parents, noise)` that can explain what was seen.

    The classifier says how likely each class is given the parents; the mechanism turns that and the noise into a class.
    The noise is one number in [0, 1), the seed of what the mechanism draws, so noise data can be stored (15 digits are
    enough), and passed to DoWhy again to see the same individual in another world. Many noises explain one class:
    `estimate_noise` draws one of them, given what was seen.
    """

    def __init__(
        self,
        classifier: Any = None,
        mechanism: Mechanism = GumbelMax(),  # noqa: B008 (immutable)
        *,
        labels: Sequence[Hashable] | Any = None,
        smoothing: int | float = 1e-6,
        random_state: int | np.random.Generator | None = None,
    ):
        """Puts a classifier and a mechanism together; `gcm.fit` fits the classifier.

        Args:
            classifier: A classifier of scikit-learn, or DoWhy's wrapper of one; by default DoWhy's own choice.
            mechanism: One function of noise and logits: `GumbelMax()`, `InverseCDF(...)`, a trained `Gadget2`, or any
                `countermax.couplings.AbstractMechanism` of your own.
            labels: The classes in the order that the mechanism numbers them; by default sorted. The order is all that
                `InverseCDF` assumes. With a pandas category dtype, DoWhy's samples of this node are categories again.
            smoothing: Share of the probability that is spread evenly over the classes, so that one that was seen is
                never impossible. With 0 such a row is an error. Noise for a class is found by trying, about one over
                its probability times: some million tries a second.
            random_state: Seed or generator of its own; by default NumPy's global state, which DoWhy's seed sets. The
                data are mixed into a seed, so that nodes with the same one do not share their noise.
        """
        if classifier is None or isinstance(classifier, ClassificationModel):
            wrapped = classifier
        elif hasattr(classifier, "fit") and hasattr(classifier, "predict_proba"):
            wrapped = SklearnClassificationModel(classifier)
        else:
            raise InputError(f"`classifier` must have `fit` and `predict_proba`, got {type(classifier).__name__}")
        if not 0 <= smoothing < 1:
            raise InputError(f"`smoothing` must lie in [0, 1), got {smoothing}")
        super().__init__(wrapped)
        _check_mechanism(mechanism)
        if random_state is not None and not isinstance(random_state, np.random.Generator):
            random_state = as_seed("random_state", random_state)
        self._mechanism, self._smoothing, self._random_state = mechanism, smoothing, random_state
        self._labels: Labels | None = None
        self._dtype: Any = None
        if labels is not None:
            self._labels, self._dtype = as_labels(labels)
        self._generator = None if random_state is None else np.random.default_rng(random_state)
        self._parent_levels: dict[int, Labels] = {}

    @property
    def mechanism(self) -> Mechanism:
        """How worlds are coupled."""
        return self._mechanism

    @property
    def labels(self) -> Labels:
        """The classes in the order of the mechanism."""
        return self._labels or Labels(tuple(np.asarray(self.classifier_model.classes).tolist()))

    @property
    def has_order(self) -> bool:
        """Whether somebody gave the order of the classes; if not, they are sorted."""
        return self._labels is not None

    def fit(self, X: NDArray[Any], Y: NDArray[Any]) -> None:  # noqa: N803 (DoWhy's names)
        """Fits the classifier; strings, booleans and whole numbers are classes."""
        parents, target = shape_into_2d(X, Y)
        values = list(dict.fromkeys(target[:, 0].tolist()))
        if any(isinstance(value, float) and not value.is_integer() for value in values):
            raise InputError(f"a categorical node must hold classes, got numbers such as {values[0]!r}")
        if len(values) < 2:
            raise InputError(f"a categorical node must have at least two classes to be learned, got {listed(values)}")
        if self._labels is not None and (self._labels.places(values) < 0).any():
            unknown = [value for value in values if self._labels.places([value])[0] < 0]
            raise InputError(f"`labels` must name every class in the data, but {listed(unknown)} is not there")
        self.classifier_model.fit(X=parents, Y=target.astype(_kind_of(values)))
        self._mechanism.check_size(len(self.labels))
        levels = {column: levels_of(parents[:, column]) for column in range(parents.shape[1])}
        self._parent_levels = {column: each for column, each in levels.items() if each is not None}
        if isinstance(self._random_state, int):
            data = [zlib.crc32("\n".join(map(str, table.ravel().tolist())).encode()) for table in (parents, target)]
            self._generator = np.random.default_rng([self._random_state, *data])

    def estimate_probabilities(self, parent_samples: NDArray[Any]) -> Floats:
        """Smoothed probabilities [rows, classes], in the classifier's order; refuses unknown levels of parents."""
        parent_samples = shape_into_2d(parent_samples)
        check_parents(self._parent_levels, parent_samples)
        probs = np.asarray(super().estimate_probabilities(parent_samples), np.float64)
        probs = probs / probs.sum(axis=1, keepdims=True)
        return (1 - self._smoothing) * probs + self._smoothing / probs.shape[1]

    def probabilities(self, parent_samples: NDArray[Any]) -> Floats:
        """The same in the order of `labels`; a label that was never seen in training has probability zero."""
        probs = self.estimate_probabilities(parent_samples)
        ordered = np.zeros((len(probs), len(self.labels)))
        ordered[:, self.labels.places(np.asarray(self.classifier_model.classes).tolist())] = probs
        return ordered

    def draw_noise_samples(self, num_samples: int) -> Floats:
        """Fresh noise: one number for each sample."""
        return draw(num_samples, self._uniforms)[:, None]

    def evaluate(self, parent_samples: NDArray[Any], noise_samples: NDArray[Any]) -> NDArray[Any]:
        """The class of each row."""
        noise = np.asarray(noise_samples, np.float64).reshape(-1)
        codes = respond(self._mechanism, self.probabilities(shape_into_2d(parent_samples)), noise)
        classes = np.asarray(self.classifier_model.classes)
        places = Labels(tuple(classes.tolist())).places(self.labels.values)
        return CategoryColumn.of(classes[places[codes]][:, None], self._dtype)

    def estimate_noise(self, target_samples: NDArray[Any], parent_samples: NDArray[Any]) -> Floats:
        """Draws noise under which each row has the class that was seen."""
        probs = self.probabilities(shape_into_2d(parent_samples))
        return abduct(self._mechanism, probs, self.outcomes(target_samples, probs), self._uniforms)[:, None]

    def outcomes(self, target_samples: NDArray[Any], probs: Floats, rows: Codes | None = None) -> Codes:
        """The index of each class that was seen; one that is unknown or impossible is an error, which names its row."""
        values = np.asarray(target_samples).reshape(-1).tolist()
        codes = self.labels.places(values)
        names = range(len(values)) if rows is None else rows
        for row in np.flatnonzero(codes < 0):
            raise InputError(
                f"row {names[row]} (counted from 0) has the class {listed([values[row]])}, which is none of "
                f"{listed(self.labels.values)}"
            )
        for row in np.flatnonzero(probs[np.arange(len(codes)), codes] <= 0):
            raise InputError(
                f"row {names[row]} (counted from 0) has the class {listed([values[row]])}, which has probability zero "
                "there; give the mechanism some `smoothing`, or train on data that have this class"
            )
        return codes

    def clone(self) -> "CategoricalMechanism":
        """An unfitted copy with the same settings; with a seed, its random numbers start again."""
        return CategoricalMechanism(
            self.classifier_model.clone(),
            self._mechanism,
            labels=self._labels.values if self._labels is not None and self._dtype is None else self._dtype,
            smoothing=self._smoothing,
            random_state=self._random_state,
        )

    def _uniforms(self, count: int) -> Floats:
        if self._generator is None:
            return np.random.random_sample(count)  # noqa: NPY002 (the source of randomness that DoWhy seeds)
        return self._generator.random(count)

    def __repr__(self) -> str:
        return f"CategoricalMechanism({self.classifier_model}, {type(self._mechanism).__name__})"

    __str__ = __repr__


def _kind_of(values: list[Any]) -> type:
    """The one type of all classes: text, boolean or number; the same class is never written in two types."""
    kinds = {type(value) for value in values}
    if kinds <= {int, float}:
        return float if float in kinds else int
    if len(kinds) > 1 or not kinds <= {str, bool}:
        examples = [next(value for value in values if type(value) is kind) for kind in kinds]
        raise InputError(
            f"a categorical node must hold classes of one type: text, booleans or whole numbers, got {listed(examples)}"
            "; convert the column, with `astype(str)` for instance"
        )
    return kinds.pop()


def _check_mechanism(given: object) -> None:
    if isinstance(given, AbstractMechanism):
        if any(has_nan(leaf) for leaf in jax.tree.leaves(given)):
            raise InputError(f"`mechanism` must not have NaN among its parameters, got such a {type(given).__name__}")
        return
    name = given.__name__ if isinstance(given, type) else type(given).__name__
    if isinstance(given, type):
        why = "a class; make an instance of it"
    elif isinstance(given, AbstractNoiseSampler):
        why = "the other world sees its noise rearranged, so that outcomes could change where nothing is done"
    else:
        why = "it has no noise that all worlds share"
    raise InputError(
        "`mechanism` must be one function of noise and logits for all worlds (a `countermax.couplings."
        f"AbstractMechanism`: GumbelMax(), InverseCDF(), a Gadget2 or your own), got {name}: {why}"
    )
