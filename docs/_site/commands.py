"""The page of the command line, from the commands themselves: what each gives, and its arguments and options."""

import re
from typing import Any

import typer.main

from countermax.cli import app

PAGE = "api/commands.md"


def page() -> str:
    """The text of the page."""
    group = typer.main.get_command(app)
    text = [f"# Command line\n\n{group.help}\n\n`countermax COMMAND --help` shows the same."]
    for name, command in group.commands.items():
        summary, *more = re.split(r"\n\s*\n", (command.help or "").strip())
        text += [f"## countermax {name}", _line(summary)]
        text += [_example(each) for each in more]
        rows = [_row(each) for each in command.params if getattr(each, "help", None)]
        text.append("\n".join(["| option | what | default |", "|---|---|---|", *rows]))
    return "\n\n".join(text) + "\n"


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _example(paragraph: str) -> str:
    before, found, command = _line(paragraph).partition(": countermax ")
    return f"{before}:\n\n    countermax {command}" if found and "; countermax" not in command else _line(paragraph)


def _row(option: Any) -> str:
    shown = option.name.upper() if option.param_type_name == "argument" else ", ".join(option.opts)
    default = option.default
    required = "required" if option.required else ""
    shows = isinstance(default, str | int | float) and not isinstance(default, bool)
    return f"| `{shown}` | {_line(option.help)} | {f'`{default}`' if shows else required} |"
