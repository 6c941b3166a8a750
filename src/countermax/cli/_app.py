"""All commands under one name, and the options that come before any of them."""

from typing import Annotated

import typer

from countermax._version import __version__
from countermax.cli._cohort import evaluate_policy, explain, improve
from countermax.cli._faults import want_traceback
from countermax.cli._other import evaluate, explore, train
from countermax.cli._rows import counterfactuals, effects, switching, transitions
from countermax.cli._trial import causes, compare, demo

app = typer.Typer(
    help="What would have happened instead? Exact answers for categorical outcomes, under every coupling, with bounds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback when something fails; so does COUNTERMAX_DEBUG=1.")
    ] = False,
) -> None:
    del version
    want_traceback(debug)


_ASKING = (compare, causes, demo, explore, counterfactuals, transitions, effects, switching)
for _command in (*_ASKING, evaluate_policy, explain, improve, train, evaluate):
    app.command()(_command)
