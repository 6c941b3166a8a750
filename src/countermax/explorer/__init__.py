"""The explorer: one page, shipped as data of the package, that needs no server and no other file."""

from importlib.resources import files
from pathlib import Path

from countermax._core.errors import InputError
from countermax._core.files import write_atomically


def page_path() -> Path:
    """The page as it was installed."""
    page = files(__package__) / "index.html"
    if not isinstance(page, Path) or not page.is_file():
        raise InputError(
            f"the explorer's page must be a file of the installed package, found none at {page}; install countermax "
            "again (from a wheel or a clone, unpacked)"
        )
    return page


def write_page(path: str | Path) -> Path:
    """Writes a copy of the page, which needs no other file.

    Args:
        path: File to write; its folder must exist.
    """
    return write_atomically(path, page_path().read_bytes())
