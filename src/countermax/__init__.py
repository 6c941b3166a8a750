"""Counterfactual reasoning about categorical outcomes, exactly.

Names are imported when they are first used, so that `import countermax` and the command line start at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from countermax._version import __version__ as __version__

if TYPE_CHECKING:
    from countermax._errors import InputError as InputError
    from countermax.bounds import Bounds as Bounds
    from countermax.bounds import effect_bounds as effect_bounds
    from countermax.bounds import outcome_bounds as outcome_bounds
    from countermax.bounds import score_bounds as score_bounds
    from countermax.comparison import Answer as Answer
    from countermax.comparison import Comparison as Comparison
    from countermax.comparison import compare as compare
    from countermax.couplings import AbstractArgmaxMechanism as AbstractArgmaxMechanism
    from countermax.couplings import AbstractCoupling as AbstractCoupling
    from countermax.couplings import AbstractMatrixCoupling as AbstractMatrixCoupling
    from countermax.couplings import AbstractMechanism as AbstractMechanism
    from countermax.couplings import AbstractPart as AbstractPart
    from countermax.couplings import AbstractSampler as AbstractSampler
    from countermax.couplings import BinnedInverseCDF as BinnedInverseCDF
    from countermax.couplings import Diagonal as Diagonal
    from countermax.couplings import Gadget1 as Gadget1
    from countermax.couplings import Gadget2 as Gadget2
    from countermax.couplings import GumbelMax as GumbelMax
    from countermax.couplings import Independent as Independent
    from countermax.couplings import InverseCDF as InverseCDF
    from countermax.couplings import Maximal as Maximal
    from countermax.couplings import Optimal as Optimal
    from countermax.couplings import Perceptron as Perceptron
    from countermax.couplings import ReferenceTransport as ReferenceTransport
    from countermax.couplings import Started as Started
    from countermax.couplings import Table as Table
    from countermax.effects import Effect as Effect
    from countermax.effects import SampledEffect as SampledEffect
    from countermax.effects import effect_from_joint as effect_from_joint
    from countermax.effects import individual_effect as individual_effect
    from countermax.effects import sampled_effect as sampled_effect
    from countermax.effects import treatment_effect as treatment_effect
    from countermax.evaluation import Evaluation as Evaluation
    from countermax.evaluation import evaluate as evaluate
    from countermax.losses import AbstractLoss as AbstractLoss
    from countermax.losses import Disagreement as Disagreement
    from countermax.losses import GivenOutcome as GivenOutcome
    from countermax.losses import MatrixLoss as MatrixLoss
    from countermax.losses import SquaredDifference as SquaredDifference
    from countermax.maximality import MaximalityGap as MaximalityGap
    from countermax.maximality import maximality_gap as maximality_gap
    from countermax.objectives import Exact as Exact
    from countermax.objectives import Reinforce as Reinforce
    from countermax.objectives import Relaxed as Relaxed
    from countermax.pairs import AbstractPairs as AbstractPairs
    from countermax.pairs import FixedPair as FixedPair
    from countermax.pairs import PairTable as PairTable
    from countermax.pairs import PerturbedPair as PerturbedPair
    from countermax.pairs import RandomPairs as RandomPairs
    from countermax.references import barycenter as barycenter
    from countermax.references import implicit_floor as implicit_floor
    from countermax.storage import load as load
    from countermax.storage import save as save
    from countermax.training import Fit as Fit
    from countermax.training import History as History
    from countermax.training import TrainingError as TrainingError
    from countermax.training import fit as fit
    from countermax.training import fit_many as fit_many

_HOMES = {
    "_errors": ("InputError",),
    "bounds": ("Bounds", "effect_bounds", "outcome_bounds", "score_bounds"),
    "comparison": ("Answer", "Comparison", "compare"),
    "couplings": (
        "AbstractArgmaxMechanism",
        "AbstractCoupling",
        "AbstractMatrixCoupling",
        "AbstractMechanism",
        "AbstractSampler",
        "GumbelMax",
        "AbstractPart",
        "BinnedInverseCDF",
        "Diagonal",
        "Gadget1",
        "Gadget2",
        "Perceptron",
        "ReferenceTransport",
        "Started",
        "Table",
        "Independent",
        "InverseCDF",
        "Maximal",
        "Optimal",
    ),
    "effects": (
        "Effect",
        "SampledEffect",
        "effect_from_joint",
        "individual_effect",
        "sampled_effect",
        "treatment_effect",
    ),
    "evaluation": (
        "Evaluation",
        "evaluate",
    ),
    "losses": (
        "AbstractLoss",
        "Disagreement",
        "GivenOutcome",
        "MatrixLoss",
        "SquaredDifference",
    ),
    "objectives": (
        "Exact",
        "Reinforce",
        "Relaxed",
    ),
    "pairs": (
        "AbstractPairs",
        "FixedPair",
        "PairTable",
        "PerturbedPair",
        "RandomPairs",
    ),
    "references": (
        "barycenter",
        "implicit_floor",
    ),
    "storage": (
        "load",
        "save",
    ),
    "training": (
        "Fit",
        "History",
        "TrainingError",
        "fit",
        "fit_many",
    ),
    "maximality": ("MaximalityGap", "maximality_gap"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_HOME_OF]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'countermax' has no attribute {name!r}")
    value = getattr(import_module(f"countermax.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
