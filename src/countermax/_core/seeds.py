"""Seeds: one rule for all of them."""

import operator
from typing import Any

from countermax._core.errors import InputError
from countermax._core.quantities import shown

MOST = 2**32 - 1
"""JAX keeps 32 bits of a seed, so a larger one would silently be another one."""


def as_seed(argument: str, value: Any) -> int:
    """A seed from 0 to 2**32 - 1.

    Args:
        argument: Name of the argument or option, for the message.
        value: Value that was given.
    """
    try:
        seed = operator.index(value)
    except TypeError:
        seed = -1
    if isinstance(value, bool) or not 0 <= seed <= MOST:
        raise InputError(f"`{argument}` must be a whole number from 0 to {MOST}, got {shown(value)}")
    return seed
