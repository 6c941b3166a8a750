"""The page set to one answer."""

import tempfile
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from countermax._core.errors import InputError
from countermax._core.files import check_new, write_atomically
from countermax._core.page import check_ending
from countermax.explorer import page_path

_START = '<meta name="start" content="'
_FEWEST, _MOST, _LARGEST = 2, 8, 1e9  # outcomes; people and scores: what the page takes
_OWN = ("Gumbel-max", "inverse CDF", "inverse CDF by score", "maximal", "independent")  # couplings of the page
_LEVELS = (0.5, 0.99)


class Start(NamedTuple):
    """What the page starts with: two worlds, and a question about them."""

    names: Sequence[str]
    """Names of the outcomes; no two alike."""
    worlds: tuple[str, str]
    numbers: Sequence[NDArray[np.float64]]
    """People with each outcome in either world, or its probabilities."""
    counts: bool
    """Whether people were counted, so that there are confidence intervals."""
    score: NDArray[np.float64]
    seen: int
    asked: int
    """Index of the outcome that is asked about."""
    couplings: Sequence[str]
    """Couplings by name; the first that the page has is shown."""
    level: float | None

    def fragment(self) -> str:
        """The part of a link behind #."""
        level = 0.95 if self.level is None else self.level
        wrong = [
            (not _FEWEST <= len(self.names) <= _MOST, f"2 to 8 outcomes, got {len(self.names)}"),
            (not _LEVELS[0] <= level <= _LEVELS[1], f"a level of 0.5 to 0.99, got {level:g}"),
            (max(np.abs([*self.numbers, self.score]).ravel()) > _LARGEST, "numbers of people and scores up to 1e9"),
        ]
        for is_so, needed in wrong:
            if is_so:
                raise InputError(f"`explore` needs {needed}; `write_page` shows this answer")
        p, q, score = (" ".join(f"{each:.17g}" for each in row) for row in (*self.numbers, self.score))
        said = {"p": p, "q": q, "score": score, "x": self.seen, "y": self.asked, "level": level}
        chosen = next((each for each in self.couplings if each in _OWN), _OWN[0])
        several = [*(("o", each) for each in self.names), *(("w", each) for each in self.worlds)]
        return urlencode([*several, *said.items(), ("counts", int(self.counts)), ("m", chosen)])


def explore(start: Start, path: str | Path | None, *, overwrite: bool = False) -> Path:
    """Writes the page with this start and, where no path is given, opens it; some browsers drop the # of a link."""
    before, _, after = page_path().read_text(encoding="utf-8").partition(_START)
    text = f"{before}{_START}{escape(start.fragment())}{after}".encode()
    if path is not None:
        check_ending(path, ".html", ".htm")
        check_new([path], overwrite=overwrite)
        return write_atomically(path, text)
    page = write_atomically(Path(tempfile.mkdtemp(prefix="countermax-")) / "explorer.html", text)
    with suppress(webbrowser.Error):
        webbrowser.open(page.as_uri())
    return page
