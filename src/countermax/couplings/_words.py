"""What couplings are called: the words alone, for which nobody need import JAX."""

from pathlib import Path

VECTOR = "vector quantile"
ORDER = ("Gumbel-max", "inverse CDF", "inverse CDF by score", VECTOR, "maximal", "independent", "comonotone")
NAME_OF = {name.lower().replace(" ", "-"): name for name in ORDER}

NAMES = tuple(NAME_OF)
"""What couplings are called in words: gumbel-max, inverse-cdf, inverse-cdf-by-score, vector-quantile and so on."""

LEARNED = "learned Gadget 2"
"""What results call a Gadget 2 that was learned beside them."""
SHARED = "gumbel-max-shared-"  # and a rate behind it
SHARED_SHOWN = "Gumbel-max shared"


def shown_as(name: str | Path) -> str:
    """What results call the coupling of this name."""
    rate = rate_in(name)
    if rate is None:
        return NAME_OF.get(str(name), str(name))
    return "Gumbel-max" if rate == 1 else f"{SHARED_SHOWN} {rate}"


def rate_in(name: str | Path) -> float | None:
    """The rate of the shared clocks that a name ends in; None where it is no such name."""
    word = str(name).lower().replace(" ", "-")
    try:
        rate = float(word.removeprefix(SHARED)) if word.startswith(SHARED) else None
    except ValueError:
        return None
    return rate if rate is not None and 0 <= rate <= 1 else None
