"""Memory that a request would take, refused before it is asked for.

An allocation that cannot be met ends the process, or the machine, without a word. So what grows with a number that a
person typed is estimated first.
"""

import functools
import os
from pathlib import Path

from countermax._core.errors import InputError

_VARIABLE = "COUNTERMAX_MAX_MEMORY"
_BEYOND_WORDS = 10**24  # bytes; a whole number may also be beyond every float
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def check_memory(what: str, needed: int | float, advice: str) -> None:
    """Refuses what would need more memory than there is."""
    limit = memory_limit()
    if needed > limit:
        size = f"about {in_words(needed)}" if needed < _BEYOND_WORDS else "more than a million million TB"
        raise InputError(
            f"{what} would need {size} of memory, and the limit is {in_words(limit)}; {advice}, "
            f"or set {_VARIABLE} (in gigabytes) if you know better"
        )


def memory_limit() -> float:
    """Bytes that one request may take: the variable COUNTERMAX_MAX_MEMORY (gigabytes), else what this machine has."""
    wanted = os.environ.get(_VARIABLE)
    if wanted is None:
        return _physical()
    try:
        gigabytes = float(wanted)
    except ValueError:
        gigabytes = float("nan")
    if not gigabytes > 0:
        raise InputError(f"{_VARIABLE} must be a positive number of gigabytes, got {wanted!r}")
    return gigabytes * 1e9


def in_words(size: int | float) -> str:
    """A number of bytes for a message."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= scale:
            return f"{size / scale:,.3g} {unit}" if size < 1000 * scale else f"{size / scale:,.0f} {unit}"
    return f"{size:,.0f} bytes"


@functools.cache
def _physical() -> float:
    try:
        limit = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # not on every system
        limit = 16e9
    for path in _CGROUP_LIMITS:
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            limit = min(limit, float(text))
    return limit
