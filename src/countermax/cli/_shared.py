"""What every command needs: errors in one line, numbers from text, printing."""

import csv
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import typer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from countermax._core.results import AbstractResult

Arguments = ParamSpec("Arguments")

WORDS_WITHOUT_SCORE = ("gumbel-max", "inverse-cdf", "maximal", "independent")
COUPLING_WORDS = ("gumbel-max", "inverse-cdf", "inverse-cdf-by-score", "maximal", "independent", "optimal")
"""`countermax.couplings.NAMES`, written out because help must not load JAX."""


def one_line_errors(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Turns bad input into one line on standard error and exit code 2."""

    @functools.wraps(command)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            _prepare()
            command(*args, **kwargs)
        except (ValueError, OSError, ImportError) as error:
            from countermax._core.errors import InputError

            missing_extra = isinstance(error, ImportError) and "pip install" in str(error)
            if isinstance(error, BrokenPipeError) or not (isinstance(error, InputError | OSError) or missing_extra):
                raise
            typer.echo(f"countermax: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(2) from error

    return wrapped


def numbers(option: str, text: str) -> list[float]:
    """Numbers separated by commas."""
    from countermax._core.errors import InputError

    def number(part: str) -> float:
        try:
            return float(part)
        except ValueError as error:
            raise InputError(f"{option} must be numbers separated by commas, got {part.strip()!r}") from error

    return [number(part) for part in text.split(",")]


def words(text: str) -> list[str]:
    """Words separated by commas; one in double quotes may contain commas."""
    return [word.strip() for word in next(csv.reader([text], skipinitialspace=True))]


def show(what: Any) -> None:
    """Prints text, or anything that rich can draw."""
    from countermax._core.console import show as print_it

    print_it(what)


def deliver(
    result: "AbstractResult",
    *,
    json: bool,
    pictures: Mapping[Path, Callable[[], "Figure"]],
    shown: Any = None,
    files: Mapping[Path, Callable[[Path], object]] | None = None,
) -> None:
    """Writes the files, then prints the result, as JSON or for people.

    Args:
        result: What was found.
        json: Whether to print JSON, and nothing else.
        pictures: How to draw each picture.
        shown: What people see; by default the result itself.
        files: How to write each other file.
    """
    from countermax import plotting
    from countermax._core.files import write_atomically

    for path, draw in pictures.items():
        write_atomically(path, plotting.picture(draw(), path.suffix.lower()))
    for path, write in (files or {}).items():
        write(path)
    if json:
        typer.echo(result.to_json())
        return
    show(result if shown is None else shown)
    for path in (*pictures, *(files or {})):
        show(f"written: {path}")


def checked_target(path: Path | None) -> Path | None:
    """A file to draw into, refused at once where its ending names no format; None stays None."""
    if path is None:
        return None
    from countermax import plotting

    return plotting.checked_format(path)


def _prepare() -> None:
    from countermax._core.compilation import keep_compiled

    keep_compiled()
