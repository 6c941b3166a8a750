"""Which names are public, read from the source: nothing is imported, so that a page and a test can both ask.

A module is public unless a part of its name begins with an underscore. It exports what it defines under a plain name
and what it imports `as` itself (`from countermax.bounds._questions import Bounds as Bounds`).
"""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
PACKAGE = "countermax"
ENTRANCES = ("cli", "demo")  # commands, not rooms


@dataclass(frozen=True)
class Room:
    """A public module: its own summary, and where each name that it exports is defined."""

    name: str
    summary: str
    exports: dict[str, str]


@cache
def _file_of(module: str) -> Path | None:
    base = SOURCE.joinpath(*module.split("."))
    candidates = (base / "__init__.pyi", base / "__init__.py", base.with_suffix(".py"))
    return next((path for path in candidates if path.exists()), None)


def _absolute(module: str, node: ast.ImportFrom, path: Path) -> str:
    if not node.level:
        return node.module or ""
    package = module.split(".") if path.stem == "__init__" else module.split(".")[:-1]
    parts = package[: len(package) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])])


@cache
def _bindings(module: str) -> dict[str, str]:
    """Every name at the top of a module, and where it comes from."""
    path = _file_of(module)
    if path is None:
        return {}
    found: dict[str, str] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            source = _absolute(module, node, path)
            found |= {alias.asname or alias.name: f"{source}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = f"{module}.{node.name}"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: f"{module}.{target.id}" for target in targets if isinstance(target, ast.Name)}
    return found


def _exported(module: str) -> list[str]:
    path = _file_of(module)
    assert path is not None
    names = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            names += [alias.name for alias in node.names if alias.asname == alias.name]
    own = [name for name, origin in _bindings(module).items() if origin == f"{module}.{name}"]
    return [name for name in dict.fromkeys([*names, *own]) if not name.startswith("_")]


def origin(name: str) -> str:
    """Where a dotted name is defined, following imports."""
    module, _, last = name.rpartition(".")
    found = _bindings(module).get(last, name)
    return found if found == name or _file_of(found) or not found.startswith(PACKAGE) else origin(found)


@cache
def rooms() -> list[Room]:
    """Every public module that exports something, in alphabetical order; the package itself comes first."""
    found = []
    for path in sorted((SOURCE / PACKAGE).rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if any(part.startswith("_") for part in parts) or (len(parts) > 1 and parts[1] in ENTRANCES):
            continue
        module = ".".join(parts)
        exports = {name: origin(f"{module}.{name}") for name in _exported(module)}
        exports = {name: where for name, where in exports.items() if where.startswith(PACKAGE) and not _file_of(where)}
        if exports:
            found.append(Room(module, ast.get_docstring(ast.parse(path.read_text())) or "", exports))
    return sorted(found, key=lambda room: room.name)


def homes(found: list[Room]) -> dict[str, str]:
    """For each place where something is defined, the public name that it is documented under.

    That is its name in the shallowest room that has it. The top level comes last, for it repeats what rooms have.
    """
    chosen: dict[str, str] = {}
    for room in sorted(found, key=lambda room: (room.name == PACKAGE, room.name.count("."), room.name)):
        for name, where in room.exports.items():
            chosen.setdefault(where, f"{room.name}.{name}")
    return chosen


def page_of(module: str) -> str:
    """The page of a module, as a path in the folder of documents."""
    return f"api/{module}.md"


def entries() -> dict[str, str]:
    """Names as documents write them, `compare` or `race.joint`, and the entries that they mean, unless ambiguous."""
    all_rooms = rooms()
    home_of = homes(all_rooms)
    meant: dict[str, set[str]] = {}
    for room in all_rooms:
        for name, where in room.exports.items():
            inner = room.name.removeprefix(PACKAGE).removeprefix(".")
            for written in {name, f"{inner}.{name}" if inner else name}:
                meant.setdefault(written, set()).add(home_of[where])
    top = next(room for room in all_rooms if room.name == PACKAGE)
    clear = {written: found.copy().pop() for written, found in meant.items() if len(found) == 1}
    return clear | {name: home_of[where] for name, where in top.exports.items()}


def api_pages() -> dict[str, str]:
    """The text of each module's page: entries of the names that live there, and links to those that it only repeats."""
    all_rooms = rooms()
    home_of = homes(all_rooms)
    top = set(next(room for room in all_rooms if room.name == PACKAGE).exports.values())
    pages = {}
    for room in all_rooms:
        own = [name for name, where in room.exports.items() if home_of[where] == f"{room.name}.{name}"]
        own.sort(key=lambda name: room.exports[name] not in top)  # what users type first
        repeated = {name: home_of[where] for name, where in room.exports.items() if name not in own}
        text = [f"# {room.name}", room.summary]
        if repeated:
            text.append(
                "\n".join(f"- [`{name}`][{home}] (in `{home.rpartition('.')[0]}`)" for name, home in repeated.items())
            )
        text += [f"::: {room.name}.{name}" for name in own]
        pages[page_of(room.name)] = "\n\n".join(text) + "\n"
    return pages
