"""The explorer: one page, shipped as data of the package, that needs no server and no other file."""

from importlib.resources import files
from pathlib import Path

from countermax._core.errors import InputError
from countermax._core.files import check_new, write_atomically


def page_path() -> Path:
    """The page as it was installed."""
    page = files(__package__) / "index.html"
    if not isinstance(page, Path) or not page.is_file():
        raise InputError(
            f"the explorer's page must be a file of the installed package, found none at {page}; install countermax "
            "again (from a wheel or a clone, unpacked)"
        )
    return page


def write_page(path: str | Path, *, overwrite: bool = False) -> Path:
    """Writes a copy of the page, which needs no other file.

    Args:
        path: File to write; its folder must exist.
        overwrite: Whether a file that is there may be replaced.
    """
    check_new([path], overwrite=overwrite)
    return write_atomically(path, page_path().read_bytes())
