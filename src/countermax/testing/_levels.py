"""How much is looked at: while you write a coupling, and before you rely on it."""

from typing import NamedTuple


class Level(NamedTuple):
    """What one level of checking asks for."""

    num_samples: int
    """Draws of a statistical law, unless a suspicion calls for more."""
    glance: int
    """Draws of a first look that can only condemn, so that gross faults are told soon; 0 for none."""
    other_sizes: tuple[int, ...]
    """Numbers of outcomes to try beside the one asked for, where a coupling takes any."""
    drawn: tuple[str, ...]
    """Cases that are drawn from."""
    num_facts: int
    """Observations to be explained in each case."""
    both_precisions: bool
    """Whether draws and other sizes are tried in both precisions; exact laws always are."""


LEVELS = {
    "quick": Level(
        num_samples=100_000,
        glance=0,
        other_sizes=(1, 33),
        drawn=("random", "zeros", "rare"),
        num_facts=4096,
        both_precisions=False,
    ),
    "thorough": Level(
        num_samples=4_000_000,
        glance=100_000,
        other_sizes=(1, 2, 3, 17, 33, 130, 300),
        drawn=("random", "sparse", "zeros", "voids", "equal", "tied", "rare"),
        num_facts=32_768,
        both_precisions=True,
    ),
}
