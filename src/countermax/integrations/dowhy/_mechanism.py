"""A categorical node for DoWhy: a classifier for the probabilities, a mechanism for how worlds are coupled."""

import zlib
from collections.abc import Hashable, Sequence
from typing import Any, final

import jax
import numpy as np
from numpy.typing import NDArray

from countermax._core.checks import has_nan
from countermax._core.errors import InputError
from countermax._core.extras import import_dowhy
from countermax._core.labels import Labels, listed
from countermax._core.seeds import as_seed
from countermax.couplings import AbstractMechanism, AbstractNoiseSampler, GumbelMax
from countermax.integrations.dowhy._categories import CategoryColumn, as_labels, check_parents, levels_of
from countermax.integrations.dowhy._noise import Codes, Floats, Mechanism, abduct, draw, respond

dowhy = import_dowhy()

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
        # Plain values, so that whatever labels keep for themselves need not be pickled.
        self._values: tuple[Hashable, ...] | None = None
        self._dtype: Any = None
        if labels is not None:
            self._values, self._dtype = as_labels(labels)
        self._generator = None if random_state is None else np.random.default_rng(random_state)
        self._parent_levels: dict[int, tuple[Hashable, ...]] = {}

    @property
    def mechanism(self) -> Mechanism:
        """How worlds are coupled."""
        return self._mechanism

    @property
    def labels(self) -> Labels:
        """The classes in the order of the mechanism."""
        return Labels(self._values or tuple(np.asarray(self.classifier_model.classes).tolist()))

    @property
    def has_order(self) -> bool:
        """Whether somebody gave the order of the classes; if not, they are sorted."""
        return self._values is not None

    def fit(self, X: NDArray[Any], Y: NDArray[Any]) -> None:  # noqa: N803 (DoWhy's names)
        """Fits the classifier; strings, booleans and whole numbers are classes."""
        parents, target = shape_into_2d(X, Y)
        values = list(dict.fromkeys(target[:, 0].tolist()))
        if any(isinstance(value, float) and not value.is_integer() for value in values):
            raise InputError(f"a categorical node must hold classes, got numbers such as {values[0]!r}")
        if len(values) < 2:
            raise InputError(f"a categorical node must have at least two classes to be learned, got {listed(values)}")
        if self._values is not None and (Labels(self._values).places(values) < 0).any():
            unknown = [value for value in values if Labels(self._values).places([value])[0] < 0]
            raise InputError(f"`labels` must name every class in the data, but {listed(unknown)} is not there")
        self.classifier_model.fit(X=parents, Y=target.astype(_kind_of(values)))
        self._mechanism.check_size(len(self.labels))
        levels = {column: levels_of(parents[:, column]) for column in range(parents.shape[1])}
        self._parent_levels = {column: each.values for column, each in levels.items() if each is not None}
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
        """The index of each class that was seen; one that is unknown or impossible is an error.

        Args:
            target_samples: The classes.
            probs: Each row's probabilities, [rows, classes].
            rows: Names of the rows in messages; by default they are counted from 0.
        """
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
            labels=self._values if self._dtype is None else self._dtype,
            smoothing=self._smoothing,
            random_state=self._random_state,
        )

    def _uniforms(self, count: int) -> Floats:
        if self._generator is None:
            return np.random.random_sample(count)  # noqa: NPY002 (the source of randomness that DoWhy seeds)
        return self._generator.random(count)

    def __repr__(self) -> str:
        return f"CategoricalMechanism({self.classifier_model}, {type(self._mechanism).__name__})"

    def __str__(self) -> str:
        return repr(self)


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
