"""Probabilities of causation: necessity, sufficiency, benefit, harm, and whom to treat; for any number of outcomes."""

from countermax.causation._result import Causation as Causation
