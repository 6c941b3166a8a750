"""Where work is done: in this process, or on the workers of an engine."""

from countermax._core.errors import InputError

ENGINES = ("ray",)


def check_engine(engine: str | None) -> None:
    """Refuses an engine that is not known; None is this process."""
    if engine is not None and engine not in ENGINES:
        raise InputError(f"`engine` must be None or one of {', '.join(ENGINES)}, got {engine!r}")
