"""The package as a whole: public names, files written atomically, documents that run."""

import ast
import errno
import os
import re
import runpy
from pathlib import Path

import pytest

import countermax
from countermax import InputError
from countermax._core.files import writable_folder, write_atomically

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_public_names_are_those_that_type_checkers_see():
    tree = ast.parse((ROOT / "src/countermax/__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    declared = {alias.name for node in block.body for alias in node.names}
    assert declared == set(countermax.__all__) - {"__version__"}
    for name in countermax.__all__:
        assert getattr(countermax, name) is not None
        assert name in dir(countermax)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = countermax.nonsense


def test_every_public_name_is_in_the_reference():
    reference = (ROOT / "docs/reference.md").read_text()
    missing = [name for name in countermax.__all__ if f"`{name}" not in reference and name != "__version__"]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_python_in_documents_runs(document, tmp_path, monkeypatch):
    """The blocks of one document run one after the other, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)
    script = tmp_path / "document.py"
    script.write_text("\n".join(blocks))
    runpy.run_path(str(script))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_in_documents_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_an_interrupted_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    target = tmp_path / "result.json"
    write_atomically(target, "old")

    def no_room(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(InputError, match="no space left on device; make room"):
        write_atomically(target, "new")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_file_in_the_way_of_a_folder_is_named(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(InputError, match="cannot write to the folder"):
        writable_folder(blocker)
    with pytest.raises(InputError, match="cannot write"):
        write_atomically(tmp_path / "missing" / "file", "text")


def test_measurements_in_the_readme_are_those_on_file():
    measured = "".join(path.read_text() for path in (ROOT / "benchmarks/results").glob("*.md"))
    section = (ROOT / "README.md").read_text().split("## How fast")[1].split("## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    assert len(rows) > 3
    assert all(row in measured for row in rows)
