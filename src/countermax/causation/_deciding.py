"""Whom to treat: what is certain about a gain, and what loses least."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class TreatmentDecision:
    """Whether to treat, by the mean gain."""

    certain: str
    """`treat`, `leave` or `open`: what every coupling says."""
    by_interval: str | None
    """The same, if other data could have shown all that the interval holds."""
    least_regret: str
    """`treat` or `leave`: what loses less in the worst case."""
    regret: float
    """What that can lose at most."""
    by_coupling: Mapping[str, str]


def decide(lower: float, upper: float) -> str:
    """What is certain about a gain between two limits."""
    return "treat" if lower > 0 else "leave" if upper <= 0 else "open"


def decision_words(decision: TreatmentDecision, arms: tuple[str, str]) -> str:
    """A decision in a sentence."""
    certain = {
        "treat": f"whatever the coupling, {arms[1]} gains on average",
        "leave": f"whatever the coupling, {arms[1]} gains nothing on average",
        "open": f"the data alone do not say whether {arms[1]} gains on average",
    }[decision.certain]
    says = "" if not decision.by_coupling else "; " + ", ".join(f"{k}: {v}" for k, v in decision.by_coupling.items())
    chance = {None: "", "open": " Other data could have shown otherwise."}.get(
        decision.by_interval, " So it would be with other data."
    )
    return (
        f"Whom to treat: {certain}.{chance} Least regret in the worst case: {decision.least_regret} (loses at most "
        f"{decision.regret:.3g}){says}."
    )
