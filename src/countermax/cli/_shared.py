"""What every command needs: errors in one line, numbers from text, printing."""

import csv
import functools
import sys
from collections.abc import Callable
from typing import ParamSpec

import typer

Arguments = ParamSpec("Arguments")


def one_line_errors(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Turns bad input into one line on standard error and exit code 2."""

    @functools.wraps(command)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
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


def show(what: object) -> None:
    """Prints text, or a table that rich can draw."""
    from rich.console import Console

    # A pipe has no width to keep to: tables then take what they need instead of cutting numbers off.
    width = None if sys.stdout.isatty() else 10_000
    Console(width=width, soft_wrap=isinstance(what, str)).print(what, highlight=False, markup=False)
