"""What every command needs: errors in one line, numbers from text, outputs that destroy nothing, printing."""

import functools
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, ParamSpec

import typer
from typer.models import OptionInfo

from countermax._core.errors import InputError
from countermax._core.files import check_new, check_outputs
from countermax._core.interruption import raise_if_stopped
from countermax._core.quantities import shown
from countermax.cli._faults import complain, in_options, report

Arguments = ParamSpec("Arguments")

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that are there, even those that are read.")]
Address = Annotated[
    str | None,
    typer.Option(
        help="Address of a running Ray cluster (host:port, auto); by default RAY_ADDRESS, else one inside this machine."
    ),
]

_WORD = re.compile(r'\s*+(?:"((?:[^"]|"")*)"\s*|([^",][^,]*|))(,|\Z)')


class _Quoted(str):
    """A word that stood in quotation marks."""

    __slots__ = ()


def one_line_errors(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Turns bad input into one line on standard error and exit code 2, anything unexpected into one and exit code 1."""
    typed = inspect.signature(command).parameters.items()
    options = {name for name, each in typed if isinstance(each.annotation.__metadata__[0], OptionInfo)}

    @functools.wraps(command)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_, **__: complain(in_options(str(message), options))
                from countermax._core.keeping import keep_compiled

                keep_compiled()
                command(*args, **kwargs)
                raise_if_stopped()
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except (Exception, KeyboardInterrupt) as error:
            raise typer.Exit(report(error, options)) from error

    return wrapped


def numbers(option: str, text: str, rule: str = "numbers separated by commas") -> list[float]:
    """Numbers separated by commas."""

    def number(part: str) -> float:
        try:
            return float(part)
        except ValueError as error:
            raise InputError(f"{option} must be {rule}, got {shown(part.strip())}") from error

    return [number(part) for part in text.split(",")]


def words(text: str) -> list[str]:
    """Words separated by commas; one in double quotes is as it is: with commas, spaces, and quotes written twice."""
    found: list[str] = []
    place, comma = 0, "," if text.strip() else ""
    while comma:
        match = _WORD.match(text, place)
        if match is None:
            raise InputError(f"quotes must go around a whole word, got {shown(text[place:])}")
        quoted, plain, comma = match.groups()
        found.append(plain.strip() if quoted is None else _Quoted(quoted.replace('""', '"')))
        place = match.end()
    return found


def written(text: str) -> list[str]:
    """Labels that are read as the type of what they are compared with."""
    return list(map(label, words(text)))


def scores(text: str, option: str = "--score") -> Any:
    """Numbers in the order of the labels, or by label: label=number,..."""
    if "=" in text:
        return by_label(words(text), lambda part: numbers(option, part)[0])
    return numbers(option, text, "label=number,label=number,... or, in the order of the labels, numbers")


def by_label(parts: list[str], read: Callable[[str], Any]) -> dict[str, Any]:
    """The value of each label; no label may be given twice."""
    from countermax._core.labels import Written

    given = [_said_of(word) for word in parts]
    for label, equals, _ in given:
        if not (label and equals):
            raise InputError(f"must be label=value,label=value,..., got {','.join(parts)!r}")
    labels = [label for label, _, _ in given]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"each label must be given once, got {label!r} twice in {','.join(parts)!r}")
    return {Written(label): read(value) for label, _, value in given}


def _said_of(word: str) -> tuple[str, ...]:
    """What stands before and after the first `=`; spaces count between quotation marks only."""
    parts = word.partition("=")
    return parts if isinstance(word, _Quoted) else tuple(part.strip() for part in parts)


def show(what: Any, *, json: bool = False) -> None:
    """Prints text, or anything that rich can draw; a result as JSON where that was asked for."""
    from countermax._core.console import show as print_it

    if json:
        sys.stdout.write(f"{what.to_json()}\n")
    else:
        print_it(what)


def check_folder(
    folder: Path | None, names: Iterable[str], reads: Iterable[Path] = (), *, overwrite: bool, resumes: bool = False
) -> None:
    """Refuses, before any work is done, to write files of these names, with wildcards, over what is read or there.

    A command that `resumes` knows itself which files of an earlier run it may replace.
    """
    there = [] if folder is None else [path for name in names for path in sorted(folder.glob(name))]
    check_outputs([("--out", path) for path in there], reads, overwrite=overwrite)
    check_new(there, overwrite=overwrite or resumes)


class Outputs(NamedTuple):
    """Where an answer goes beside the screen: options of every command that has one."""

    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False
    plot: Annotated[Path | None, typer.Option(help="Draw the answer into this file (.png, .pdf, .svg).")] = None
    page: Annotated[Path | None, typer.Option(help="Write a self-contained page (.html) with everything.")] = None
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write all rows of numbers into this file (.csv, .jsonl, .parquet)."),
    ] = None
    overwrite: Overwrite = False

    def deliver(self, ask: Callable[[], Any], *reads: str | Path | None, explore: Path | None = None) -> None:
        """Asks, writes the files, then prints the answer; what is read must not be written, which is checked first."""
        from countermax import _plotting
        from countermax._core.page import check_ending

        picture = None if self.plot is None else _plotting.checked_format(self.plot)
        asked = {"--plot": picture, "--page": self.page, "--out": self.out, "--explore": explore}
        files = {name: path for name, path in asked.items() if path}
        check_outputs(files.items(), filter(None, reads), overwrite=self.overwrite)
        for path in filter(None, (self.page, explore)):
            check_ending(path, ".html", ".htm")
        check_new(files.values(), overwrite=self.overwrite)
        result = ask()
        if picture is not None:
            files |= {f"--plot ({path.name})": path for path in result._pictures(picture) if path != picture}
            check_outputs(files.items(), filter(None, reads), overwrite=self.overwrite)
            result.plot(picture, overwrite=self.overwrite)
        if self.page is not None:
            result.write_page(self.page, overwrite=self.overwrite)
        if explore is not None:
            result.explore(explore, overwrite=self.overwrite)
        if self.out is not None:
            from countermax._core.extras import import_pyarrow
            from countermax._tables.writing import write_table

            write_table(import_pyarrow().Table.from_pylist([each._asdict() for each in result.rows]), self.out)
        show(result, json=self.json)
        for path in () if self.json else files.values():
            show(f"written: {path}")


def columns(text: str) -> str | list[str] | dict[str, str]:
    """A prefix of names, names, or names by label."""
    parts = words(text)
    if "=" in text and not (len(parts) == 1 and text.endswith("=")):  # names may begin with P(X=
        return by_label(parts, str)
    return parts if len(parts) > 1 else text


def gains(text: str) -> dict[Any, float]:
    """Numbers by pairs of outcomes: without>with=number."""
    from countermax._core.labels import Written

    found = {}
    for pair, value in by_label(words(text), lambda part: numbers("--gain", part)[0]).items():
        without, arrow, with_it = str(pair).partition(">")
        if not arrow:
            raise InputError(f"--gain must be without>with=number,..., got {str(pair)!r}")
        found[Written(without.strip()), Written(with_it.strip())] = value
    return found


def label(text: str) -> str:
    """A label that is read as the type of what it is compared with."""
    from countermax._core.labels import Written

    return Written(text)


def connect(engine: str, address: str | None) -> None:
    """Connects to the cluster, where one is asked for; options that contradict each other are refused."""
    from countermax._core.extras import on_ray

    if on_ray(engine):
        from countermax._ray import connect

        connect(address)
    elif address is not None:
        raise InputError("--address needs --engine ray: without it nothing is done on a cluster")


def nests(text: str) -> Any:
    """Nests in brackets, [OUTCOME|OUTCOME][OUTCOME|OUTCOME]."""
    from countermax.couplings._named import nests_in

    return nests_in(text)


READERS: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("labels", "event", "absorbing", "forbidden"), written),
    "cost": lambda text: numbers("--cost", text)[0],
    "score": scores,
    "nests": nests,
    "counterfactual_score": lambda text: scores(text, "--counterfactual-score"),
    "gain": gains,
    "columns": lambda text: {str(name): str(theirs) for name, theirs in by_label(words(text), str).items()},
    "couplings": lambda text: text if text == "all" else words(text),
    **dict.fromkeys(("partition_by", "features", "doses"), words),
    **dict.fromkeys(("factual", "counterfactual", "strata"), columns),
    **dict.fromkeys(("control", "treated", "seen", "under", "best", "episode"), label),
}
"""How the text of an option becomes an argument; all others are words, numbers and flags."""
