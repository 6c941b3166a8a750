"""The command that opens the explorer."""

from pathlib import Path
from typing import Annotated

import typer

from countermax.cli._shared import Overwrite, check_outputs, one_line_errors, show


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

    from countermax._core.errors import InputError
    from countermax.explorer import page_path, write_page

    if out is not None and print_path:
        raise InputError("--out and --print-path must not both be given; leave one out")
    page = page_path()
    if print_path:
        show(str(page))
        return
    if out is not None:
        if out.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"--out must be a file that ends in .html, got {out}")
        check_outputs({"--out": out}, [page], overwrite=overwrite)
        show(f"written: {write_page(out)}")
        return
    try:
        opened = webbrowser.open(page.as_uri())
    except webbrowser.Error:
        opened = False
    if not opened:
        raise InputError(f"no browser could be opened here; open {page} yourself, or copy it with --out explorer.html")
    show(f"opened {page}")
