"""Parquet files: which ones a path means, how they are cut into parts, and how the rows of a part are read.

Each file is read once, by whichever links it is reached, and what cannot be read is an error. Parts have about the same
number of bytes: some row groups of a large file, or many small files.
"""

import json
import os
import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import translate
from itertools import accumulate
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

from countermax._core.errors import InputError, refusing
from countermax._core.extras import import_pyarrow
from countermax._ray import in_parts
from countermax.tables._reading import rows_at_once
from countermax.tables._sources import difference

PART_BYTES = 2**25  # of a part, unless one row group has more: what is done again when a worker dies
SUCCESS, UNFINISHED = "_SUCCESS", "_UNFINISHED"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_ENDINGS = (".parquet", ".pq")
_WHOLE = re.compile(r"0|-?[1-9]\d{0,8}")  # numbers whose text is the only one that they have
_FILES_AT_ONCE = 256
_BUFFER, _LEAST_BUFFER = 2**18, 2**15  # bytes of a column that are read at a time, fewer where there are many columns
_FEW_COLUMNS = 32
_WHOLE_BYTES, _BATCH_BYTES = 3 * 2**25, 2**24  # of row groups that are read at once, and of rows that are passed on
_WITH_BUCKETS = ("s3", "gs", "gcs", "abfs", "abfss")
_TABLE_FORMATS = {"_delta_log": "Delta Lake", ".hoodie": "Apache Hudi"}
_EDITED = "{} is not as countermax writes it; was it edited? Remove the folder, and write it again"
_ICEBERG = "metadata"  # a folder, with files that end in .metadata.json


class FoundFile(NamedTuple):
    """A Parquet file."""

    path: str
    size: int
    changed: int
    """When it was changed last, in nanoseconds."""
    values: tuple[tuple[str, str | None], ...] = ()
    """What the folders that it lies in say about its rows: `year=2024`."""


class Piece(NamedTuple):
    """Row groups of a file that follow each other."""

    file: FoundFile
    row_groups: tuple[int, ...]
    starts: tuple[int, ...]
    """Position in the file of the first row of each of them."""


class Part(NamedTuple):
    """Some rows of the table that follow each other: what one task reads."""

    number: int
    pieces: tuple[Piece, ...]
    num_rows: int
    first_row: int
    """Position of the first row in the whole table."""


@dataclass(frozen=True)
class Places:
    """Where the rows of a table that was read come from."""

    starts: list[int]
    """Rows of the table from which on rows are of the next piece."""
    pieces: list[tuple[Piece, int]]
    """Pieces, and the position in its file of the first row that was read."""

    def __call__(self, row: int) -> tuple[int, str]:
        """The position of a row in its file, and the file and the row group that it stands in."""
        place = max(bisect_right(self.starts, row) - 1, 0)
        piece, first_row = self.pieces[place]
        position = first_row + row - self.starts[place]
        group = max(bisect_right(piece.starts, position) - 1, 0)
        return position, f"{piece.file.path}, row group {piece.row_groups[group]}"


@dataclass(frozen=True, eq=False)
class ParquetColumns:
    """What all files of a table have in common; little enough to go with every part."""

    filesystem: Any
    schema: Any
    """The columns, as an Arrow schema: those in the files, then those that folders are named after."""
    own: list[str]
    """The columns in the files."""

    def tables(self, part: Part, columns: Sequence[str]) -> Iterator[tuple[Any, Places]]:
        """Arrow tables of the part's rows, none of them large, and where their rows come from."""
        pa, most = import_pyarrow(), rows_at_once(len(columns))
        waiting: list[Any] = []
        places = Places([], [])
        count = 0
        for piece in part.pieces:
            for table, first_row in self._batches(piece, columns, most):
                if count and count + table.num_rows > most:
                    yield pa.concat_tables(waiting), places
                    waiting, places, count = [], Places([], []), 0
                places.starts.append(count)
                places.pieces.append((piece, first_row))
                waiting.append(table)
                count += table.num_rows
        if count:
            yield pa.concat_tables(waiting), places

    def _batches(self, piece: Piece, columns: Sequence[str], rows: int) -> Iterator[tuple[Any, int]]:
        pa, asked = import_pyarrow(), set(columns)
        wanted, place = [name for name in self.own if name in asked], ", ".join(map(str, piece.row_groups))
        with opened(self.filesystem, piece.file, f", row group {place}", len(wanted)) as file:
            for group, first_row in zip(piece.row_groups, piece.starts, strict=True):
                about = file.metadata.row_group(group)
                step = max(min(rows, _BATCH_BYTES * about.num_rows // max(about.total_byte_size, 1)), 1)
                if about.total_byte_size <= _WHOLE_BYTES:  # quickest; reading batches keeps a page of every column
                    whole = file.read_row_group(group, columns=wanted)
                    found = (whole.slice(start, step) for start in range(0, about.num_rows, step))
                else:
                    batches = file.iter_batches(step, row_groups=[group], columns=wanted)
                    found = (pa.Table.from_batches([batch]) for batch in batches)
                for table in found:
                    table.validate(full=True)  # Arrow takes it on trust that texts are UTF-8
                    yield self._whole(table, piece.file, columns), first_row
                    first_row += table.num_rows

    def _whole(self, table: Any, file: FoundFile, columns: Sequence[str]) -> Any:
        """With what the names of folders say, in the order of the columns."""
        pa = import_pyarrow()
        for name, value in file.values:
            if name in columns:
                kind = self.schema.field(name).type
                scalar = pa.scalar(int(value) if value is not None and pa.types.is_integer(kind) else value, kind)
                table = table.append_column(name, pa.repeat(scalar, table.num_rows))
        asked = set(columns)
        return table.select([name for name in self.schema.names if name in asked])


@dataclass(frozen=True, eq=False)
class ParquetFiles:
    """A table in Parquet files."""

    path: str
    """As it was given."""
    columns: ParquetColumns
    files: list[FoundFile]
    folder: str | None
    """The folder all of whose files are read; None where files were named."""

    def check_unchanged(self) -> None:
        """Refuses files that are no longer what they were when they were found."""
        for file in self.files:
            with refusing(f"cannot read {file.path}", OSError):
                _check_same(self.columns.filesystem, file)


def find_files(path: str) -> ParquetFiles:
    """The table that a path means: a Parquet file, a folder of them, or several by wildcards; local, or a URI.

    Folders that are named `column=value` give all files in them that column.
    """
    pa = import_pyarrow()
    filesystem, files, folder = _find(path)
    with opened(filesystem, files[0]) as file:
        schema = file.schema_arrow
    own = schema.names
    for name in [name for name, _ in files[0].values]:
        if name in own:
            raise InputError(f"the column {name!r} of {files[0].path} is also the name of a folder; rename one of them")
        whole = all(
            value is None or _WHOLE.fullmatch(value) for file in files for key, value in file.values if key == name
        )
        schema = schema.append(pa.field(name, pa.int32() if whole else pa.string()))
    return ParquetFiles(path, ParquetColumns(filesystem, schema, own), files, folder)


def parts_of(source: ParquetFiles, engine: str) -> list[Part]:
    """All parts, in order; the columns of all files must be the same."""
    files, columns = source.files, source.columns
    some = [(files[start : start + _FILES_AT_ONCE],) for start in range(0, len(files), _FILES_AT_ONCE)]
    schema = import_pyarrow().schema([columns.schema.field(name) for name in columns.own])
    shared = columns.filesystem, schema, files[0].path
    parts: list[Part] = []
    pieces: list[Piece] = []
    size = count = first_row = 0
    found = in_parts(_row_groups, shared, some, engine=engine if len(some) > 1 else "local")
    groups = (each for sizes in found for each in sizes)
    for file, (rows, sizes) in zip(files, groups, strict=True):
        starts = [0, *accumulate(rows)]
        for group, (num_rows, num_bytes) in enumerate(zip(rows, sizes, strict=True)):
            if count and size + num_bytes > PART_BYTES:
                parts.append(Part(len(parts), tuple(pieces), count, first_row))
                pieces, size, first_row, count = [], 0, first_row + count, 0
            if pieces and pieces[-1].file is file:
                last = pieces.pop()
                pieces.append(Piece(file, (*last.row_groups, group), (*last.starts, starts[group])))
            elif num_rows:
                pieces.append(Piece(file, (group,), (starts[group],)))
            size, count = size + num_bytes, count + num_rows
    return [*parts, Part(len(parts), tuple(pieces), count, first_row)] if count else parts


def _row_groups(shared: tuple[Any, Any, str], files: list[FoundFile]) -> list[tuple[list[int], list[int]]]:
    """How many rows the row groups of each file have, and how many bytes: at least eight for each number."""
    filesystem, schema, first = shared
    result = []
    for each in files:
        with opened(filesystem, each) as file:
            found, metadata = file.schema_arrow, file.metadata
            groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
            rows = [group.num_rows for group in groups]
            sizes = [max(group.total_byte_size, 8 * group.num_rows * group.num_columns) for group in groups]
        if found.names != schema.names or found.types != schema.types:
            differs = f"{each.path} differs from {first}: {difference(schema, found)}"
            raise InputError(f"all files must have the same columns, but {differs}")
        result.append((rows, sizes))
    return result


@contextmanager
def opened(filesystem: Any, found: FoundFile, where: str = "", columns: int = 1) -> Iterator[Any]:
    """A Parquet file to read from, which must be the one that was found."""
    pa = import_pyarrow()
    with refusing(f"cannot read {found.path}{where}", pa.ArrowException, OSError):
        _check_same(filesystem, found)
        local = filesystem.type_name == "local"  # where any name can be opened, also one that is not UTF-8
        raw = pa.OSFile(os.fsencode(found.path)) if local else filesystem.open_input_file(found.path)
        buffered = _BUFFER if local else 32 * _BUFFER  # else whole row groups would be held; ...
        buffered = max(buffered // max(columns // _FEW_COLUMNS, 1), _LEAST_BUFFER)
        with raw, pa.parquet.ParquetFile(raw, pre_buffer=False, buffer_size=buffered) as file:  # ... or all of them
            yield file


def _look_at(filesystem: Any, path: str) -> FoundFile:
    """A file as it is now; one that is not there has the size -1."""
    if filesystem.type_name == "local":
        about = os.stat(path)
        return FoundFile(path, about.st_size, about.st_mtime_ns)
    now = filesystem.get_file_info(path)
    return FoundFile(path, -1 if now.size is None else now.size, now.mtime_ns or 0)


def _check_same(filesystem: Any, file: FoundFile) -> None:
    now = _look_at(filesystem, file.path)
    if (now.size, now.changed) != (file.size, file.changed):
        raise InputError(f"{file.path} was changed while it was read; ask again when it is as it should be")


def filesystem_of(path: str) -> tuple[Any, str]:
    """The file system that a path or URI lies in, and the path there."""
    pa = import_pyarrow()
    import pyarrow.fs

    scheme, is_uri, rest = path.partition("://")
    if not path.strip() or (not is_uri and path.startswith(tuple(f"{each}:" for each in _WITH_BUCKETS))):
        raise InputError(f"{path!r} must name a file or folder, as s3://bucket/folder does; is a variable empty?")
    if not is_uri:
        return pyarrow.fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(path))
    if not rest.partition("?")[0].strip("/") or (scheme in _WITH_BUCKETS and rest.startswith("/")):
        raise InputError(f"{path!r} must name a bucket or folder behind {scheme}://, got none; is a variable empty?")
    with refusing(f"cannot reach {path}", pa.ArrowException, OSError, ValueError, ImportError):
        try:
            filesystem, inside = pyarrow.fs.FileSystem.from_uri(path)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # a scheme that Arrow does not know
            try:
                import fsspec
            except ImportError as error:
                raise InputError(f"for {scheme}:// pip install fsspec, and its package for that store") from error
            address, _, options = path.partition("?")
            store = fsspec.filesystem(scheme, **dict(parse_qsl(options)))
            filesystem = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(store))
            inside = store._strip_protocol(address)
    return filesystem, inside.rstrip("/") or inside


def _find(path: str) -> tuple[Any, list[FoundFile], str | None]:
    import pyarrow.fs

    bare, query = path, ""
    if "://" in path:
        bare, mark, query = path.partition("?")
        query = mark + query
    is_wild = not os.path.lexists(path) and any(each in bare for each in ("*[" if query or "://" in path else "*?["))
    pieces = bare.split("/")
    fixed = (
        next((n for n, piece in enumerate(pieces) if set(piece) & set("*?[")), len(pieces)) if is_wild else len(pieces)
    )
    above = "/".join(pieces[:fixed]) or ("/" if bare.startswith("/") else "." if is_wild else "")
    filesystem, base = filesystem_of(above + query)
    with refusing(f"cannot read {path}", OSError):
        _check_above(filesystem, base)
        local = filesystem.type_name == "local"
        is_file = os.path.isfile(base) if local else filesystem.get_file_info(base).type == pyarrow.fs.FileType.File
        if is_file and not is_wild:
            if not base.lower().endswith(_ENDINGS):
                raise InputError(f'with engine="ray" tables are Parquet files, got {path}; leave the engine out')
            return filesystem, [_look_at(filesystem, base)], None
        found = list(_walked(base) if local else _stored(filesystem, base))
    inside = {each.path: each.path[len(base) :].lstrip("/") for each in found}
    pattern = [translate(piece.replace("[^", "[!")) for piece in pieces[fixed:]]
    chosen = []
    for each in found:
        names = inside[each.path].split("/")
        if any(name.startswith((".", "_")) for name in names):
            continue
        if _matches(names, pieces[fixed:], pattern) if is_wild else names[-1].lower().endswith(_ENDINGS):
            if each.size < 0:
                lost = "it is a link to a file that is not there"
                raise InputError(f"cannot read {each.path}: {lost}; fetch it (git annex get, dvc pull) or remove it")
            chosen.append(each._replace(values=_values(names)))
    _check_whole(filesystem, base, inside, found, chosen if is_wild else found)
    if not chosen:
        what = f"no file matches {path}" if is_wild else f"there is no Parquet file at {path}"
        raise InputError(f"{what}; name a .parquet file, a folder of them, or several by wildcards (data/*.parquet)")
    for file in chosen:
        if [name for name, _ in file.values] != [name for name, _ in chosen[0].values]:
            differs = f"{file.path} differs from {chosen[0].path}"
            raise InputError(f"all files must lie in folders named after the same columns, but {differs}")
    return filesystem, chosen, None if is_wild else base


def _walked(base: str) -> Iterator[FoundFile]:
    """All files in a local folder and below it, each of them once, by its own name rather than that of a link.

    A link that leads nowhere has the size -1.
    """

    def refuse(error: OSError) -> None:
        if error.filename != base:  # which need not be there
            raise error

    places: set[str] = set()
    files: dict[str, FoundFile] = {}
    for place, folders, names in os.walk(base, onerror=refuse, followlinks=True):
        real = os.path.realpath(place)
        if real in places:
            folders.clear()
            continue
        places.add(real)
        folders.sort(key=lambda name: (os.path.islink(os.path.join(place, name)), name))
        for name in names:
            path = os.path.join(place, name)
            link = os.path.islink(path)
            target = os.path.realpath(path) if link else os.path.join(real, name)
            if link and target in files:
                continue
            try:
                about = os.stat(path)
                files[target] = FoundFile(path, about.st_size, about.st_mtime_ns)
            except FileNotFoundError:
                files[target] = FoundFile(path, -1, 0)
    yield from sorted(files.values())


def _stored(filesystem: Any, base: str) -> Iterator[FoundFile]:
    import pyarrow.fs

    selector = pyarrow.fs.FileSelector(base, recursive=True, allow_not_found=True)
    for each in sorted(filesystem.get_file_info(selector), key=lambda each: each.path):
        if each.type == pyarrow.fs.FileType.File:
            yield FoundFile(each.path, each.size, each.mtime_ns or 0)


def _check_above(filesystem: Any, base: str) -> None:
    """Refuses what lies in a folder that must not be read file by file."""
    import pyarrow.fs

    above = [base]
    while posixpath.dirname(above[-1]) not in ("", above[-1]):
        above.append(posixpath.dirname(above[-1]))
    marks = [posixpath.join(each, mark) for each in above[1:] for mark in (UNFINISHED, *_TABLE_FORMATS, _ICEBERG)]
    if filesystem.type_name == "local":
        there = list(filter(os.path.exists, marks))
    else:
        there = [each.path for each in filesystem.get_file_info(marks) if each.type != pyarrow.fs.FileType.NotFound]
    for mark in there:
        if posixpath.basename(mark) != _ICEBERG:
            _refuse_mark(mark)
            continue
        for each in filesystem.get_file_info(pyarrow.fs.FileSelector(mark)):
            if each.path.endswith(".metadata.json"):
                _refuse_mark(each.path)


def _check_whole(
    filesystem: Any, base: str, inside: dict[str, str], found: Iterable[FoundFile], read: Iterable[FoundFile]
) -> None:
    """Refuses folders that are not what they seem: begun, without some of their parts, or with a log of their own.

    That is, folders that some of what is read lies in; `inside` has the paths of all that was found from `base` on.
    """
    sizes = {each.path: each.size for each in found}
    places = {place for each in read for place in accumulate(inside[each.path].split("/"), posixpath.join)} | {""}
    for path in sizes:
        *folders, name = inside[path].split("/")
        tables = (n for n, each in enumerate(folders) if each in _TABLE_FORMATS or each == _ICEBERG)
        if "/".join(folders[: next(tables, len(folders))]) not in places:
            continue
        if (
            name == UNFINISHED
            or (folders[-1:] == [_ICEBERG] and name.endswith(".metadata.json"))
            or set(folders) & set(_TABLE_FORMATS)
        ):
            _refuse_mark(path)
        if name == SUCCESS and (manifest := read_manifest(filesystem, path)) is not None:
            folder = posixpath.dirname(path)
            listing = {posixpath.join(folder, part["name"]): part["size"] for part in manifest["parts"]}
            lost = next((each for each, size in listing.items() if sizes.get(each) != size), None)
            if lost is not None:
                raise InputError(f"{folder} is not whole: {lost} is not there, or not what was written; write it again")
            more = [
                each for each in sizes if _is_below(each, folder) and each not in listing and each.endswith(_ENDINGS)
            ]
            if more:
                raise InputError(f"{folder} holds {more[0]}, which its {SUCCESS} does not name; move it elsewhere")


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _refuse_mark(path: str) -> None:
    folder, name = posixpath.split(path)
    if name == UNFINISHED:
        raise InputError(f"{folder} is not whole: the run that writes it was stopped, or goes on; run it again")
    kind = next((_TABLE_FORMATS[each] for each in path.split("/") if each in _TABLE_FORMATS), "Apache Iceberg")
    raise InputError(
        f"{path} says that this is a table of {kind}, whose log decides which files count; read it with a library "
        "that knows the log, and hand over what it reads (a frame, or a Ray Dataset)"
    )


def is_record(found: dict[str, Any]) -> bool:
    """Whether a record of rows and of the files that they are in is one that can have been written."""
    try:
        parts, answered = found["parts"], [found[name] for name in ("num_rows", "num_left_out")]
        counts = [*answered, found["num_unchanged"], found["num_overruled"], found.get("number", 0)]
        counts += [part[name] for part in parts for name in ("num_rows", "size", "crc32")]
        names = [part["name"] for part in parts]
    except (KeyError, TypeError):
        return False
    typed = all(type(each) is int and each >= 0 for each in counts) and all(type(each) is str for each in names)
    return typed and len(set(names)) == len(names) and sum(part["num_rows"] for part in parts) == sum(answered)


def read_manifest(filesystem: Any, path: str) -> dict[str, Any] | None:
    """What `_SUCCESS` says; None if it is not ours: other programs write an empty file of that name, or their own."""
    with filesystem.open_input_stream(path) as stream:
        text = stream.read()
    try:
        found = json.loads(text)
    except ValueError:
        if b'"question"' in text:  # ours, cut short
            raise InputError(_EDITED.format(path)) from None
        return None
    if not isinstance(found, dict) or "question" not in found:
        return None
    notes = found.get("notes")
    texts = [found["question"], found.get("coupling"), *(notes if isinstance(notes, list) else [notes])]
    if is_record(found) and all(type(each) is str for each in texts):
        return found
    raise InputError(_EDITED.format(path))


def _matches(names: Sequence[str], wild: Sequence[str], patterns: Sequence[str]) -> bool:
    """Wildcards as in a shell: `*` and `?` within a name, `[ab]`, `[!ab]`, and `**` for any number of folders."""
    if not wild:
        return not names
    if wild[0] == "**":
        rest = wild[1:] or ["*"], patterns[1:] or [translate("*")]
        return any(_matches(names[place:], *rest) for place in range(len(names)))
    return bool(names) and re.match(patterns[0], names[0]) is not None and _matches(names[1:], wild[1:], patterns[1:])


def _values(names: Sequence[str]) -> tuple[tuple[str, str | None], ...]:
    """What the names of folders say: `year=2024`."""
    values = [name.partition("=") for name in names[:-1] if "=" in name]
    return tuple((unquote(name), None if value == NO_VALUE else unquote(value)) for name, _, value in values)
