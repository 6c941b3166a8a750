"""`python -m studies`: computes a study, or draws again what is stored."""

from collections.abc import Callable
from typing import Any

from countermax.cli import run


def load() -> Callable[[list[str]], Any]:
    """The command, which takes a while to import."""
    from studies.command import app

    return app


if __name__ == "__main__":
    run(load)
