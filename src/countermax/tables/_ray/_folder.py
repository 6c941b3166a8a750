"""A folder that parts are written into: each is there or not, and all of them are when `_SUCCESS` is."""

import json
import posixpath
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from countermax._core.errors import InputError
from countermax._core.files import atomic_file, remove_left_over, writable_folder
from countermax.tables._ray._places import UNFINISHED, filesystem_of

SUCCESS = "_SUCCESS"
_RECORDS = "_parts"


@dataclass(frozen=True)
class Folder:
    """A folder, local or in an object store."""

    filesystem: Any
    path: str

    @classmethod
    def at(cls, path: str) -> "Folder":
        """The folder at a path or URI, which need not be there yet."""
        return cls(*filesystem_of(path.rstrip("/") or path))

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine's file system."""
        return self.filesystem.type_name == "local"

    def names(self) -> set[str]:
        """All files in it and below it, but for hidden ones."""
        import pyarrow.fs

        selector = pyarrow.fs.FileSelector(self.path, recursive=True, allow_not_found=True)
        files = [each.path for each in self.filesystem.get_file_info(selector) if each.type == pyarrow.fs.FileType.File]
        inside = (path[len(self.path) :].lstrip("/") for path in files)
        return {name for name in inside if not posixpath.basename(name).startswith(".")}

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """A file in it, which appears when it is whole; in an object store that is how all files are."""
        path = posixpath.join(self.path, name)
        self.filesystem.create_dir(posixpath.dirname(path), recursive=True)
        if self.is_local:
            with atomic_file(path) as file:
                yield file
        else:
            with self.filesystem.open_output_stream(path) as stream:
                yield stream

    def write_record(self, name: str, record: dict[str, Any]) -> None:
        """Writes a JSON file."""
        with self.writing(name) as file:
            file.write(f"{json.dumps(record, indent=2)}\n".encode())

    def read_record(self, name: str) -> dict[str, Any]:
        """A JSON file; empty where it cannot be read."""
        try:
            with self.filesystem.open_input_stream(posixpath.join(self.path, name)) as stream:
                found = json.loads(stream.read())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        with suppress(FileNotFoundError):
            self.filesystem.delete_file(posixpath.join(self.path, name))


class AnswerFolder:
    """A folder that answers one question: begun, resumed or whole."""

    def __init__(self, folder: Folder, question: str, *, overwrite: bool):
        """Looks at what is there; refuses to destroy it, or to mix two questions.

        Args:
            folder: The folder.
            question: Hash of the question and of the rows that it is asked about.
            overwrite: Whether an answer to another question may be lost.
        """
        self._folder, self._question = folder, question
        if folder.is_local:
            writable_folder(folder.path)
            remove_left_over(folder.path)
        names = folder.names()
        marks = [folder.read_record(name).get("question") for name in (SUCCESS, UNFINISHED) if name in names]
        if names and not marks:
            raise InputError(f"{folder.path} must be empty, or a folder that countermax has begun; choose another one")
        if marks and question not in marks:
            begun = SUCCESS in names or any(name.startswith(f"{_RECORDS}/") for name in names)
            if begun and not overwrite:
                raise InputError(
                    f"{folder.path} holds the answer to another question, or to one about other rows; choose another "
                    "folder, or pass --overwrite"
                )
            self._clear(names)
            names = {UNFINISHED}
        whole = folder.read_record(SUCCESS) if SUCCESS in names else {}
        self.manifest: dict[str, Any] | None = whole if whole.get("question") == question else None
        """What `_SUCCESS` says, where the answer is there already."""
        self.done: dict[int, dict[str, Any]] = {}
        """Records of parts that are there, by number."""
        if self.manifest is None:
            self._resume(names)

    def _resume(self, names: set[str]) -> None:
        if UNFINISHED not in names:
            self._folder.write_record(UNFINISHED, {"question": self._question})
        for name in sorted(name for name in names if name.startswith(f"{_RECORDS}/")):
            record = self._folder.read_record(name)
            if record and names.issuperset(record["files"]):
                self.done[record["number"]] = record

    def finish(self, manifest: dict[str, Any], files: Collection[str]) -> dict[str, Any]:
        """Says that all is there, and tidies up.

        Args:
            manifest: Facts about the whole.
            files: All files with rows; others are left over from a run that was stopped.
        """
        for name in self._folder.names():
            if is_ours(name) and name not in files:
                self._folder.remove(name)
        whole = {"question": self._question} | manifest
        self._folder.write_record(SUCCESS, whole)
        self.tidy()
        return whole

    def tidy(self) -> None:
        """Removes what only a run that is not finished needs."""
        for name in self._folder.names():
            if name.startswith(f"{_RECORDS}/"):
                self._folder.remove(name)
        with suppress(OSError):
            self._folder.filesystem.delete_dir(posixpath.join(self._folder.path, _RECORDS))
        self._folder.remove(UNFINISHED)

    def _clear(self, names: set[str]) -> None:
        """Removes what was written for another question, the sign that it is whole first."""
        ours = {SUCCESS, UNFINISHED, *(name for name in names if is_ours(name) or name.startswith(f"{_RECORDS}/"))}
        other = sorted(names - ours)
        if other:
            raise InputError(f"{self._folder.path} holds {other[0]!r}, which countermax did not write; remove it first")
        self._folder.remove(SUCCESS)
        self._folder.write_record(UNFINISHED, {"question": self._question})
        for name in sorted(ours - {SUCCESS, UNFINISHED}):
            self._folder.remove(name)


def part_name(number: int) -> str:
    """The name of the file that holds a part's rows: names sort as rows do."""
    return f"part-{number:08d}.parquet"


def record_name(number: int) -> str:
    """The name of the file that says that a part is there."""
    return f"{_RECORDS}/{number:08d}.json"


def is_ours(name: str) -> bool:
    """Whether a file in the folder is one of parts."""
    base = posixpath.basename(name)
    return base.startswith("part-") and base.endswith(".parquet") and base[5:-8].isdigit()
