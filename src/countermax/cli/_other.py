"""Commands that learn a coupling and measure it, `train` and `evaluate`; and the one that opens the explorer."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from countermax._core.errors import InputError
from countermax._core.files import check_outputs, writable_folder
from countermax.cli._shared import Overwrite, check_folder, one_line_errors, show

_EVALUATION = ("evaluation.csv", "evaluation.md", "losses.png")
_RUN = ("coupling-*.safetensors", "checkpoint.safetensors", "run.json", "curves.png", *_EVALUATION)


@one_line_errors
def train(
    config: Annotated[Path, typer.Argument(help="TOML file with the sections task, recipe and repeats.")],
    out: Annotated[Path, typer.Option(help="Folder for couplings, history, evaluation and curves.")] = Path(
        "countermax-run"
    ),
    overwrite: Overwrite = False,
) -> None:
    """Train a coupling as described in a TOML file; the same command resumes after an interruption.

    Example: in section task, pairs = "independent" and num_outcomes = 10; in section recipe, gadget = "gadget-2".
    """
    from countermax._core.interruption import unwinding
    from countermax.learning import TrainingError
    from countermax.learning._config import read_config, train_run

    check_folder(out, _RUN, [config], overwrite=overwrite, resumes=True)
    try:
        with unwinding():
            run = train_run(read_config(config), out)
    except TrainingError as error:
        typer.echo(f"countermax: {error}", err=True)
        raise typer.Exit(1) from error
    show(run.evaluation)
    show("written: " + ", ".join(path.name for path in run.written) + f" in {out}")


@one_line_errors
def evaluate(
    config: Annotated[Path, typer.Argument(help="TOML file that describes the task.")],
    couplings: Annotated[list[Path] | None, typer.Argument(help="Files that `countermax train` wrote.")] = None,
    num_pairs: Annotated[int, typer.Option(min=1, help="Number of held-out pairs.")] = 1000,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a listing.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write evaluation and picture into this folder.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Get the exact losses of stored couplings beside the fixed ones and the optimum, on the same held-out pairs."""
    from countermax.learning._config import evaluate_run, read_config, write_evaluation

    check_folder(out, _EVALUATION, [config, *(couplings or [])], overwrite=overwrite)
    result = evaluate_run(read_config(config), couplings or [], num_pairs)
    if out is not None:
        write_evaluation(result, writable_folder(out))
    show(result, json=json)


@one_line_errors
def explore(
    out: Annotated[Path | None, typer.Option(help="Copy the page to this .html file instead of opening it.")] = None,
    print_path: Annotated[
        bool, typer.Option("--print-path", help="Print the path of the page instead of opening it.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Open the explorer in a browser: two worlds, what was seen, and every coupling's answer as you drag."""
    import webbrowser

    from countermax.explorer import page_path, write_page

    if out is not None and print_path:
        raise InputError("--out and --print-path must not both be given; leave one out")
    page = page_path()
    if print_path:
        show(str(page))
    elif out is not None:
        if out.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"--out must be a file that ends in .html, got {out}")
        check_outputs([("--out", out)], [page], overwrite=overwrite)
        show(f"written: {write_page(out, overwrite=overwrite)}")
    else:
        with suppress(webbrowser.Error):
            if webbrowser.open(page.as_uri()):
                show(f"opened {page}")
                return
        raise InputError(f"no browser could be opened here; open {page} yourself, or copy it with --out explorer.html")
