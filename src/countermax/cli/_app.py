"""The command line: parses, calls, prints. Everything heavy is imported when a command runs."""

import gc
import os
import sys
from typing import Annotated, NoReturn

import typer

from countermax._version import __version__
from countermax.cli._ask import compare, demo
from countermax.cli._learn import evaluate, train
from countermax.cli._reproduce import reproduce
from countermax.cli._tables import counterfactuals, transitions
from countermax.cli._trajectories import evaluate_policy, explain

app = typer.Typer(
    help="Counterfactual reasoning about categorical outcomes, exactly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> NoReturn:
    """Entry point of the `countermax` command."""
    gc.set_threshold(100_000, 50, 100)  # imports and traces make many objects and hardly any garbage
    try:
        app()
    except SystemExit as done:
        _leave(done.code)
    _leave(0)


def _leave(code: str | int | None) -> NoReturn:
    """Ends the process at once: to take JAX down piece by piece takes longer than many an answer.

    Nothing is lost by it. What commands write is closed when they return, and what they print is flushed here.
    """
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
    status = code if isinstance(code, int) else int(code is not None)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # whoever read the output has gone
        status = status or 1
    os._exit(status)


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"countermax {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    del version


_COMMANDS = (
    compare,
    demo,
    counterfactuals,
    transitions,
    evaluate_policy,
    explain,
    train,
    evaluate,
    reproduce,
)
for _command in _COMMANDS:
    app.command()(_command)
