"""How much is looked at: while you write a coupling, and before you rely on it."""

from typing import NamedTuple


class Level(NamedTuple):
    """What one level of checking asks for."""

    num_samples: int
    """Draws of a statistical law, unless a suspicion calls for more."""
    glances: tuple[int, ...]
    """Draws of looks before, which can only condemn, so that gross faults are told soon."""
    other_sizes: tuple[int, ...]
    """Numbers of outcomes to try beside the one asked for, where a coupling takes any."""
    drawn: tuple[str, ...]
    """Cases that are drawn from."""
    num_facts: int
    """Observations to be explained in each case."""
    both_precisions: bool
    """Whether noise, draws and other sizes are tried in both precisions; exact laws always are."""
    without_jit: bool
    """Whether everything is asked without any compilation too, operation by operation."""


LEVELS = {
    "quick": Level(
        num_samples=100_000,
        glances=(),
        other_sizes=(1, 33),
        drawn=("random", "zeros", "scarce", "rare"),
        num_facts=4096,
        both_precisions=False,
        without_jit=False,
    ),
    "thorough": Level(
        num_samples=4_000_000,
        glances=(100_000, 600_000),
        other_sizes=(1, 2, 33, 300, 3),
        drawn=("random", "sparse", "zeros", "voids", "equal", "tied", "scarce", "rare"),
        num_facts=32_768,
        both_precisions=True,
        without_jit=True,
    ),
}
