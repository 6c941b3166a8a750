"""The one exception that says: what you handed in cannot be right; and the warning that says: probably it is not."""

from collections.abc import Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """Something handed in cannot be right; the message says what, and what to do."""


class ProbabilitiesAsLogitsWarning(UserWarning):
    """Logits were asked for, and what was handed in looks like probabilities."""


@contextmanager
def refusing(what: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turns errors of other libraries into an `InputError`: what cannot be done, and the first line of why."""
    try:
        yield
    except kinds as error:
        raise InputError(f"{what}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """What an error says, but for what follows in further lines; what is no Parquet file is said to be none."""
    line = str(error).strip().partition("\n")[0]
    if "Parquet magic bytes" in line:
        return "it is damaged or no Parquet file; if it is another format, end its name in .csv or .jsonl"
    return line
