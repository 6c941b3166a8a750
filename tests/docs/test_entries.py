"""The generated reference: every public name has one entry, and what it documents is what a user imports."""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path
from types import FunctionType

import typer.main

import countermax
from countermax._core.results import AbstractResult
from countermax.cli import app

ROOT = Path(__file__).parents[2]
NEEDS_AN_EXTRA = ("countermax.integrations",)


def test_every_public_name_has_exactly_one_entry(public):
    shown = re.findall(r"^::: (.*)$", "\n".join(public.api_pages().values()), re.MULTILINE)
    assert len(shown) == len(set(shown)) > 100
    rooms = public.rooms()
    assert {public.origin(name) for name in shown} == {where for room in rooms for where in room.exports.values()}


def test_public_is_what_a_user_types_and_stands_in_a_guide(public):
    guides = [path.read_text() for path in (ROOT / "docs").glob("*.md") if path.name != "reference.md"]
    written = set(re.findall(r"\w+", "\n".join(guides)))
    names = {name.rpartition(".")[2] for name in public.homes(public.rooms()).values()}
    assert len(public.homes(public.rooms())) <= 180
    assert names <= written, sorted(names - written)


def test_names_of_the_stub_are_the_names_of_the_first_page(public):
    first = public.api_pages()["api/countermax.md"]
    modules = {name for name in countermax.__all__ if inspect.ismodule(getattr(countermax, name))}
    for name in set(countermax.__all__) - modules - {"__version__"}:
        assert re.search(rf"\[`{name}`\]|^::: countermax\.{name}$", first, re.MULTILINE), name


def test_rooms_have_their_pages(public):
    pages = public.api_pages()
    for name in countermax.__all__:
        if inspect.ismodule(getattr(countermax, name)) and name != "integrations":  # which has rooms only
            assert f"api/countermax.{name}.md" in pages


def test_entries_document_what_is_imported_and_say_what_it_is(public):
    for name in public.homes(public.rooms()).values():
        if name.startswith(NEEDS_AN_EXTRA):
            continue
        module, _, last = name.rpartition(".")
        found = getattr(import_module(module), last)
        if inspect.isfunction(found) or inspect.isclass(found):
            assert (inspect.getdoc(found) or "").strip(), f"{name} says nothing about itself"
        for member in vars(found) if inspect.isclass(found) else ():
            method = inspect.getattr_static(found, member)
            if not member.startswith("_") and isinstance(method, property | classmethod | FunctionType):
                said = inspect.getdoc(getattr(found, member))  # there, or where it was declared
                assert (said or "").strip(), f"{name}.{member} says nothing about itself"


MADE_BY_VERBS = ("BestPlan",)  # a part of an answer, which nobody else makes


def test_no_callable_takes_more_than_eight_parameters_and_no_constructor_more_than_twelve(public):
    """Functions, methods and class methods; answers, which verbs make, may hold as much as they say."""
    called, made = dict[str, int](), dict[str, int]()
    for where, name in public.homes(public.rooms()).items():
        module, _, last = where.rpartition(".")
        folder = ROOT / "src" / module.replace(".", "/")
        tree = ast.parse((folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")).read_text())
        found = next((each for each in tree.body if getattr(each, "name", None) == last), None)
        for each in found.body if isinstance(found, ast.ClassDef) else [found]:
            if isinstance(each, ast.FunctionDef) and (each.name == "__init__" or not each.name.startswith("_")):
                names = {one.arg for one in ast.walk(each.args) if isinstance(one, ast.arg)} - {"self", "cls"}
                (made if each.name == "__init__" else called)[f"{name}.{each.name}"] = len(names)
        if isinstance(found, ast.ClassDef) and not name.startswith(NEEDS_AN_EXTRA) and last not in MADE_BY_VERBS:
            loaded = getattr(import_module(module), last)
            if not issubclass(loaded, AbstractResult | Exception):
                made[name] = len(inspect.signature(loaded).parameters)
    assert len(called) > 200
    assert len(made) > 50
    assert {name: count for name, count in called.items() if count > 8} == {}
    assert {name: count for name, count in made.items() if count > 12} == {}


def test_a_new_module_without_an_underscore_would_be_found(public):
    names = {room.name for room in public.rooms()}
    assert {"countermax.mdp", "countermax.race", "countermax.couplings"} <= names
    assert not any(part.startswith("_") for name in names for part in name.split("."))


def test_names_in_documents_lead_to_their_entries(public):
    entries = public.entries()
    assert entries["Trial"] == "countermax.trial.Trial"
    assert entries["race.joint"] == "countermax.race.joint"
    assert "joint" not in entries  # race's or comonotone's
    shown = set(re.findall(r"^::: (.*)$", "\n".join(public.api_pages().values()), re.MULTILINE))
    assert set(entries.values()) <= shown


def test_the_page_of_the_command_line_has_every_command_and_option(commands):
    page = commands.page()
    found = typer.main.get_command(app).commands
    assert re.findall(r"^## countermax (.*)$", page, re.MULTILINE) == list(found)
    for command in found.values():
        for option in command.params:
            if getattr(option, "help", None) and option.param_type_name == "option":
                assert f"`{', '.join(option.opts)}`" in page
    assert "\n    countermax explain steps.csv --policy policy.csv --episode 17 --page story.html\n" in page
