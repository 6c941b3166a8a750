"""The package as a whole: public names, rooms and their walls, documents that run."""

import ast
import importlib
import json
import re
import runpy
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import countermax

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "countermax"
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
WITH_PYTHON = [document for document in DOCUMENTS if "```python" in document.read_text()]


def test_every_public_name_is_found_where_the_stub_says():
    for name in countermax.__all__:
        assert getattr(countermax, name) is not None
        assert name in dir(countermax)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = countermax.nonsense


def test_every_room_resolves_without_being_imported_first():
    rooms = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    entrances = {"cli", "demo"}  # commands, not rooms
    assert {room for room in rooms if not room.startswith("_")} - entrances <= set(countermax.__all__)
    code = "import countermax\ncountermax.mdp.Cohort\ncountermax.integrations.gymnasium.EpisodeRecorder"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import sys, countermax\n"
        "heavy = {'jax', 'equinox', 'matplotlib', 'scipy', 'numpy', 'pandas', 'optax', 'ot'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "countermax.Trial\n"
        "heavy = {'matplotlib', 'scipy', 'pandas', 'optax', 'ot', 'pyarrow', 'polars'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


ROOMS = {
    "": "__init__.pyi",
    "couplings": "couplings/__init__.pyi",
    "tables": "tables/__init__.pyi",
    **{
        room: f"{room}/__init__.py"
        for room in (
            "bounds",
            "causation",
            "comparison",
            "integrations/dowhy",
            "intervals",
            "learning",
            "mdp",
            "testing",
            "trial",
        )
    },
}


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_in_the_reference(room):
    reference = (ROOT / "docs/reference.md").read_text()
    public = re.findall(r" as (\w+)$", (SOURCE / ROOMS[room]).read_text(), re.MULTILINE)
    assert public
    assert [name for name in public if not re.search(rf"\b{name}\b", reference) and name != "__version__"] == []


@pytest.mark.parametrize(
    "document", [*WITH_PYTHON, *sorted((ROOT / "examples").glob("*.py"))], ids=lambda path: path.name
)
def test_documents_use_public_modules_only(document):
    """What begins with an underscore is the library's own: rooms share it, users never need it."""
    assert not re.findall(r"(?:import|from) countermax[\w.]*\._\w+", document.read_text())


@pytest.mark.documents
@pytest.mark.parametrize("document", WITH_PYTHON, ids=lambda path: path.name)
def test_the_python_in_documents_runs(document, tmp_path, monkeypatch):
    """The blocks of one document run one after the other, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)
    script = tmp_path / "document.py"
    script.write_text("\n".join(blocks))
    runpy.run_path(str(script))


def test_the_readme_needs_nothing_but_what_make_demo_installs(tmp_path):
    """`.ci/readme` runs all of its blocks, in a clone; here those in Python run without any extra."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    extras = ("polars", "dowhy", "sklearn", "gymnasium", "ray")
    missing = (
        "import sys\nclass Missing:\n  def find_spec(name, *_):\n"
        f"    if name.split('.')[0] in {extras}: raise ModuleNotFoundError(name=name)\nsys.meta_path.insert(0, Missing)"
    )
    script = [missing, *blocks]
    subprocess.run([sys.executable, "-c", "\n".join(script)], check=True, cwd=tmp_path)
    assert (tmp_path / "answer.html").exists()


def test_measurements_in_the_readme_are_those_on_file():
    measured = "".join(path.read_text() for path in (ROOT / "benchmarks/results").glob("*.md"))
    section = (ROOT / "README.md").read_text().split("## How fast")[1].split("## ")[0]
    _, _, *rows = [line for line in section.splitlines() if line.startswith("|")]
    assert len(rows) == 5  # nobody scrolls past numbers they did not ask for
    assert [row for row in rows if row not in measured.splitlines()] == []


def test_what_the_conformance_suite_finds_is_documented_as_it_is_on_file():
    document = (ROOT / "docs/conformance.md").read_text()
    measured = json.loads((ROOT / "benchmarks/results/power.json").read_text())["rows"]
    found = {row["what"]: f"{row['value']:.3g}" for row in measured if row["unit"] == "of runs"}
    faults = [what.removesuffix("; quick") for what in found if what.endswith("; quick")]
    rows = [f"| {fault} | {found[f'{fault}; quick']} | {found[f'{fault}; thorough']} |" for fault in faults]
    assert "\n".join(rows) in document
    costs = document.split("compilation included,")[1].split("\n\n")[0]
    seconds = re.findall(r"(\d+) s\b", costs)
    assert sorted(seconds) == sorted(f"{row['value']:.0f}" for row in measured if row["unit"] == "s")


def test_the_plan_for_many_machines_is_what_follows_from_the_measurements(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    plan = importlib.import_module("benchmarks.plan")
    measured = json.loads((ROOT / "benchmarks/results/ray.json").read_text())
    document = plan.DOCUMENT.read_text()
    assert plan.written_into(document, plan.plan(measured)) == document  # else: python -m benchmarks.plan


def test_the_number_of_documented_mutants_is_that_of_the_tests():
    mutants = set[str]()
    for path in (ROOT / "tests/testing").glob("test_mutants_*.py"):
        body = ast.parse(path.read_text()).body
        classes = {each.name for each in body if isinstance(each, ast.ClassDef)}
        marks = [mark for each in body if isinstance(each, ast.FunctionDef) for mark in each.decorator_list]
        mutants |= {name.id for mark in marks for name in ast.walk(mark) if isinstance(name, ast.Name)} & classes
    assert f"`tests/testing`: {len(mutants)} couplings" in (ROOT / "docs/conformance.md").read_text()


def test_the_version_is_the_same_everywhere():
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    bibtex = re.search(r"version = \{(.*)\}", (ROOT / "docs/citing.md").read_text())
    assert cited[1] == bibtex[1] == countermax.__version__


def test_the_workflow_runs_the_commands_of_a_contributor_on_every_supported_python():
    workflow = (ROOT / ".github/workflows/checks.yml").read_text()
    targets = set(re.findall(r"run: make ([\w-]+)", workflow))
    assert targets == {"lint", "test", "docs", "test-site", "dist"}
    assert targets <= set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    classifiers = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert re.findall(r'"(3\.\d+)"', workflow.split("python: [")[1].split("]")[0]) == classifiers
    assert "bash .ci/smoke dist/" in workflow


def test_a_wheel_with_more_than_the_package_is_noticed(tmp_path):
    problems = runpy.run_path(str(ROOT / ".ci/look_into_dist.py"))["problems"]
    assert "one wheel and one sdist" in problems(tmp_path)[0]
    with tarfile.open(tmp_path / "countermax-0.tar.gz", "w:gz") as sdist:
        sdist.add(ROOT / "README.md", "countermax-0/README.md")
    for name, found in {"countermax/race.py": 0, "tests/test_race.py": 1, "countermax/notes.txt": 2}.items():
        with zipfile.ZipFile(tmp_path / "countermax-0.whl", "a") as wheel:
            wheel.writestr(name, "")
        assert len(problems(tmp_path)) == found
