"""What every command needs: errors in one line, numbers from text, outputs that destroy nothing, printing."""

import functools
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import typer

from countermax._core.interruption import raise_if_stopped
from countermax.cli._faults import complain, report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from countermax._core.results import AbstractOldResult, AbstractResult

Arguments = ParamSpec("Arguments")

WORDS_WITHOUT_SCORE = ("gumbel-max", "inverse-cdf", "maximal", "independent")
COUPLING_WORDS = (
    "gumbel-max",
    "inverse-cdf",
    "inverse-cdf-by-score",
    "vector-quantile",
    "maximal",
    "independent",
    "comonotone",
)
"""`countermax.couplings._named.NAMES`, written out because help must not load JAX."""
SHARED_WORD = "gumbel-max-shared-RATE (from 0, independent, to 1)"

Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace outputs even if they are also inputs."),
]

_WORD = re.compile(r'\s*+(?:"((?:[^"]|"")*)"\s*|([^",][^,]*|))(,|\Z)')
_LONGEST_SHOWN = 40


class _Quoted(str):
    """A word that stood in quotation marks."""

    __slots__ = ()


def one_line_errors(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Turns bad input into one line on standard error and exit code 2, anything unexpected into one and exit code 1."""

    @functools.wraps(command)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_, **__: complain(str(message))
                _prepare()
                command(*args, **kwargs)
                raise_if_stopped()
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except (Exception, KeyboardInterrupt) as error:
            raise typer.Exit(report(error)) from error

    return wrapped


def numbers(option: str, text: str) -> list[float]:
    """Numbers separated by commas."""
    from countermax._core.errors import InputError

    def number(part: str) -> float:
        try:
            return float(part)
        except ValueError as error:
            raise InputError(f"{option} must be numbers separated by commas, got {_shown(part.strip())}") from error

    return [number(part) for part in text.split(",")]


def words(text: str) -> list[str]:
    """Words separated by commas; one in double quotes is as it is: with commas, spaces, and quotes written twice."""
    from countermax._core.errors import InputError

    found: list[str] = []
    place, comma = 0, "," if text.strip() else ""
    while comma:
        match = _WORD.match(text, place)
        if match is None:
            raise InputError(f"quotes must go around a whole word, got {_shown(text[place:])}")
        quoted, plain, comma = match.groups()
        found.append(plain.strip() if quoted is None else _Quoted(quoted.replace('""', '"')))
        place = match.end()
    return found


def written(text: str | None) -> list[str] | None:
    """Labels that are read as the type of what they are compared with; None stays None."""
    from countermax._core.labels import Written

    return None if text is None else [Written(word) for word in words(text)]


def scores(text: str | None, option: str = "--score") -> Any:
    """Numbers in the order of the labels, or by label: label=number,...; None stays None."""
    if text is None:
        return None
    if "=" in text:
        return by_label(words(text), lambda part: numbers(option, part)[0])
    return numbers(option, text)


def by_label(parts: list[str], read: Callable[[str], Any]) -> dict[str, Any]:
    """The value of each label; no label may be given twice."""
    from countermax._core.errors import InputError
    from countermax._core.labels import Written

    pairs = [_said_of(word) for word in parts]
    for label, equals, _ in pairs:
        if not (label and equals):
            raise InputError(f"must be label=value,label=value,..., got {','.join(parts)!r}")
    labels = [label for label, _, _ in pairs]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"each label must be given once, got {label!r} twice in {','.join(parts)!r}")
    return {Written(label): read(value) for label, _, value in pairs}


def _said_of(word: str) -> tuple[str, ...]:
    """What stands before and after the first `=`; spaces count between quotation marks only."""
    parts = word.partition("=")
    return parts if isinstance(word, _Quoted) else tuple(part.strip() for part in parts)


def show(what: Any) -> None:
    """Prints text, or anything that rich can draw."""
    from countermax._core.console import show as print_it

    print_it(what)


def check_outputs(
    outputs: Mapping[str, Path | None],
    reads: Iterable[str | Path] = (),
    *,
    overwrite: bool,
    folder: Path | None = None,
    names: Iterable[str] = (),
) -> None:
    """Refuses, before any work is done, outputs that would destroy something.

    Args:
        outputs: Files to write, by option.
        reads: Files that are read; names of couplings may be among them.
        overwrite: Whether the user allows files to be replaced.
        folder: The folder that `names` are written into.
        names: Names of files there, with wildcards.
    """
    from countermax._core.files import check_outputs as check

    wanted = [(option, path) for option, path in outputs.items() if path]
    there = [] if folder is None else [("--out", path) for name in names for path in sorted(folder.glob(name))]
    check([*wanted, *there], reads, overwrite=overwrite)


def deliver(
    result: "AbstractOldResult | AbstractResult",
    *,
    json: bool,
    pictures: Mapping[Path | None, Callable[[], "Figure"]],
    shown: Any = None,
    files: Mapping[Path | None, Callable[[Path], object]] | None = None,
) -> None:
    """Writes the files, then prints the result, as JSON or for people.

    Args:
        result: Result to deliver.
        json: Whether to print JSON, and nothing else.
        pictures: Function that draws each picture, by file; those without a file are left out.
        shown: Object to show to people; by default the result itself.
        files: Function that writes each other file, likewise.
    """
    from countermax import _plotting as plotting
    from countermax._core.files import write_atomically

    drawn = {path: plotting.picture(draw(), path.suffix.lower()) for path, draw in pictures.items() if path}
    wanted = {path: write for path, write in (files or {}).items() if path}
    for path, picture in drawn.items():
        write_atomically(path, picture)
    for path, write in wanted.items():
        write(path)
    if json:
        sys.stdout.write(f"{result.to_json()}\n")
        return
    show(result if shown is None else shown)
    for path in (*drawn, *wanted):
        show(f"written: {path}")


def checked_target(path: Path | None) -> Path | None:
    """A file to draw into, refused at once where its ending names no format; None stays None."""
    if path is None:
        return None
    from countermax import _plotting as plotting

    return plotting.checked_format(path)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}...")


def _prepare() -> None:
    from countermax._core.compilation import keep_compiled

    keep_compiled()
