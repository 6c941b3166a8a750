"""The command line: parses, calls, prints. Everything heavy is imported when a command runs."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ParamSpec

import typer

from countermax._version import __version__

Arguments = ParamSpec("Arguments")

app = typer.Typer(
    help="Counterfactual reasoning about categorical outcomes, exactly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Entry point of the `countermax` command."""
    app()


def _one_line_errors(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Turns bad input into one line on standard error and exit code 2."""

    @functools.wraps(command)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (ValueError, OSError) as error:
            from countermax._errors import InputError

            if isinstance(error, BrokenPipeError) or not isinstance(error, InputError | OSError):
                raise
            typer.echo(f"countermax: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(2) from error

    return wrapped


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


@app.command()
@_one_line_errors
def compare(
    p: Annotated[str, typer.Option(help="Probabilities in the world that was seen, separated by commas.")],
    q: Annotated[str, typer.Option(help="Probabilities of the same outcomes in the other world.")],
    observed: Annotated[str, typer.Option(help="What was seen: a label, or an index from 0 without --labels.")],
    labels: Annotated[str | None, typer.Option(help="Names of the outcomes, separated by commas.")] = None,
    score: Annotated[str | None, typer.Option(help="A number for each outcome: how good it is.")] = None,
    counterfactual_score: Annotated[
        str | None, typer.Option(help="The score in the other world, if different.")
    ] = None,
    logits: Annotated[
        bool, typer.Option("--logits", help="P and q are logits (-inf allowed), not probabilities.")
    ] = False,
    normalise: Annotated[
        bool, typer.Option("--normalise", help="Rescale p and q, e.g. counts, to sum to one.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the answers into this file (.png, .pdf, .svg).")] = None,
    plot_couplings: Annotated[Path | None, typer.Option(help="Draw each mechanism's joint law into this file.")] = None,
) -> None:
    """Ask every mechanism one question: this was seen; what would have happened in the other world?

    Example: countermax compare --p 0.3,0.4,0.3 --q 0.1,0.3,0.6 --labels dead,ill,well --observed dead --score 0,1,2
    """
    from countermax import comparison, plotting
    from countermax._files import write_atomically

    targets = [
        (plotting.checked_format(path), which)
        for path, which in ((plot, "plot"), (plot_couplings, "plot_couplings"))
        if path
    ]
    result = comparison.compare(
        _numbers("--p", p),
        _numbers("--q", q),
        observed,
        labels=None if labels is None else [label.strip() for label in labels.split(",")],
        score=None if score is None else _numbers("--score", score),
        counterfactual_score=None
        if counterfactual_score is None
        else _numbers("--counterfactual-score", counterfactual_score),
        logits=logits,
        normalise=normalise,
    )
    for target, which in targets:
        write_atomically(target, plotting.picture(getattr(result, which)(), target.suffix.lower()))
    if json:
        typer.echo(result.to_json())
        return
    _print(result)
    for target, _ in targets:
        _print(f"written: {target}")


@app.command()
@_one_line_errors
def demo(
    out: Annotated[Path, typer.Option(help="The folder to write pictures and report.html into.")] = Path(
        "countermax-demo"
    ),
) -> None:
    """Show on a bundled clinical trial what the choice of mechanism does."""
    from countermax.demo import run_demo

    result = run_demo(out)
    _print(f"{result.trial.title}\n{result.trial.about}\n")
    _print(result.comparison)
    for finding in result.findings:
        _print(f"\n* {finding}")
    _print("\nwritten: " + ", ".join(path.name for path in result.written))
    _print(f"open {result.written[-1]} in a browser")


@app.command()
@_one_line_errors
def train(
    config: Annotated[Path, typer.Argument(help="A TOML file with the sections task, mechanism and training.")],
    out: Annotated[Path, typer.Option(help="The folder for mechanisms, history, table and curves.")] = Path(
        "countermax-run"
    ),
) -> None:
    """Learn a mechanism as a TOML file says; call again to resume after an interruption.

    Example file: [task] pairs = "independent", num_outcomes = 10; [mechanism] kind = "gadget2"; [training] steps = 500
    """
    from countermax.config import read_config
    from countermax.runs import train_run
    from countermax.training import TrainingError

    try:
        run = train_run(read_config(config), out)
    except TrainingError as error:
        typer.echo(f"countermax: {error}", err=True)
        raise typer.Exit(1) from error
    _print(run.evaluation)
    if run.fits[0].ended == "interrupted":
        _print("interrupted; the same command resumes from the last evaluation")
    _print("written: " + ", ".join(path.name for path in run.written) + f" in {out}")


@app.command()
@_one_line_errors
def evaluate(
    config: Annotated[Path, typer.Argument(help="The TOML file that says on which task.")],
    mechanisms: Annotated[list[Path] | None, typer.Argument(help="Files that `countermax train` wrote.")] = None,
    num_pairs: Annotated[int, typer.Option(min=1, help="How many held-out pairs.")] = 1000,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write table and picture into this folder.")] = None,
) -> None:
    """Compare stored mechanisms with the fixed ones and with the optimum, on the same held-out pairs."""
    from countermax._files import writable_folder
    from countermax.config import read_config
    from countermax.runs import evaluate_run, load_mechanisms, write_table

    result = evaluate_run(read_config(config), load_mechanisms(mechanisms or []), num_pairs)
    if out is not None:
        write_table(result, writable_folder(out))
    if json:
        import json as encoder

        typer.echo(encoder.dumps(result.to_dict(), indent=2))
        return
    _print(result)


def _numbers(option: str, text: str) -> list[float]:
    from countermax._errors import InputError

    def number(part: str) -> float:
        try:
            return float(part)
        except ValueError as error:
            raise InputError(f"{option} must be numbers separated by commas, got {part.strip()!r}") from error

    return [number(part) for part in text.split(",")]


def _print(what: object) -> None:
    from rich.console import Console

    # A pipe has no width to keep to: tables then take what they need instead of cutting numbers off.
    width = None if sys.stdout.isatty() else 10_000
    Console(width=width, soft_wrap=isinstance(what, str)).print(what, highlight=False, markup=False)


if __name__ == "__main__":
    main()
