"""Options of commands, made from the signatures and docstrings of the library: each is declared and documented once.

Sources are read, not imported: help must not wait for JAX.
"""

import ast
import functools
import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from countermax.cli._shared import READERS

_SOURCE = Path(__file__).parents[1]
REQUIRED = inspect.Parameter.empty
_ARGUMENT = re.compile(r"^\**(\w+): (.*)$")


class Declared(NamedTuple):
    """A parameter of a problem, a strategy or a verb."""

    name: str
    annotation: str
    default: Any
    help: str

    @property
    def kind(self) -> type:
        """What its text is read as first: a flag, a number or a word."""
        kinds = {"bool": bool, "int": int, "float": float}
        words = [each.strip() for each in self.annotation.split("|")]
        return next((kinds[each] for each in reversed(words) if each in kinds), str) if "str" not in words else str

    @property
    def initial(self) -> Any:
        """What an option holds that nobody typed."""
        if self.kind is bool:
            return self.default is True
        return self.default if self.default is REQUIRED or isinstance(self.default, self.kind | int) else None

    @property
    def option(self) -> Any:
        """Its type on a command line, with its help."""
        kind, help = self.kind, self.help.replace("`", "").replace("[", r"\[")  # no markup
        wanted = kind | None if self.initial is None else kind
        return Annotated[wanted, typer.Option(f"--{self.name.replace('_', '-')}", help=help)]


class Group(dict[str, Declared]):
    """Parameters that one callable of the library takes, by name."""

    @classmethod
    def of(cls, parameters: Iterable[Declared]) -> "Group":
        """Some parameters, in their order."""
        return cls((each.name, each) for each in parameters)

    def without(self, *names: str) -> "Group":
        """All but some of them."""
        return Group.of(each for name, each in self.items() if name not in names)

    def optional(self) -> "Group":
        """The same, none of them required."""
        return Group.of(each._replace(default=None) if each.default is REQUIRED else each for each in self.values())


@functools.cache
def declared(where: str) -> Group:
    """Parameters of a class or function: `trial/_trial.py:Trial`, or `...:Trial.compare` for a method."""
    file, _, path = where.partition(":")
    node = _parsed(file)
    constants = {
        each.targets[0].id: each.value
        for each in node.body
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
    }
    for name in path.split("."):
        node = _named(node, name)
    helps = _arguments(node)
    if isinstance(node, ast.ClassDef):
        if (init := _named(node, "__init__")) is None:
            return Group.of(_fields(node))
        node, helps = init, helps | _arguments(init)
    plain = [each for each in node.args.args if each.arg not in ("self", "cls")]
    defaults: list[Any] = [None] * (len(plain) - len(node.args.defaults)) + node.args.defaults
    both = [*zip(plain, defaults, strict=True), *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    return Group.of(
        Declared(
            each.arg,
            "" if each.annotation is None else ast.unparse(each.annotation),
            _value(constants.get(getattr(default, "id", ""), default)),
            helps.get(each.arg, ""),
        )
        for each, default in both
    )


@functools.cache
def _parsed(file: str) -> Any:
    return ast.parse((_SOURCE / file).read_text())


def _named(node: Any, name: str) -> Any:
    return next((each for each in node.body if getattr(each, "name", None) == name), None)


def _fields(node: ast.ClassDef) -> list[Declared]:
    """Fields of a dataclass, each with the string below it; else what `Args:` or `Attributes:` of the class say."""
    found, helps = [], _arguments(node)
    for each, below in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and not each.target.id.startswith("_"):
            text = helps.get(each.target.id, "")
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                text = _first_sentence(" ".join(str(below.value.value).split()))
            found.append(Declared(each.target.id, ast.unparse(each.annotation), _value(each.value), text))
    return found


def _value(node: ast.expr | None) -> Any:
    if node is None:
        return REQUIRED
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _arguments(node: Any) -> dict[str, str]:
    """The first sentence about each argument, from the section `Args:` of a docstring."""
    found: dict[str, str] = {}
    name, inside = "", False
    for line in (ast.get_docstring(node) or "").splitlines():
        if line.strip() in ("Args:", "Attributes:"):
            inside = True
        elif inside and line.strip() and not line.startswith(" "):
            inside = False
        elif inside and (match := _ARGUMENT.match(line.strip())) and len(line) - len(line.lstrip()) <= 4:
            name, found[match[1]] = match[1], match[2]
        elif inside and name and line.strip():
            found[name] += " " + line.strip()
    return {name: _first_sentence(text) for name, text in found.items()}


def _first_sentence(text: str) -> str:
    match = re.match(r"(.+?[.])(?:\s+[A-Z`]|\Z)", text)
    return match[1] if match else text


class Typed(dict[str, Any]):
    """What was typed, by the name of the parameter; what was left out is absent."""

    def of(self, group: Group) -> dict[str, Any]:
        """The arguments of one callable, read from their texts."""
        found = {name: self[name] for name in group if name in self}
        return {name: READERS[name](value) if name in READERS else value for name, value in found.items()}


def with_options(*groups: Group) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of all groups, the first of which that has a name declares it, beside its own.

    The first parameter of the command is what was typed of these; one that is a named tuple stands for its fields.
    """

    def made(command: Callable[..., None]) -> Callable[..., None]:
        every: dict[str, Declared] = {}
        for group in groups:
            for name, each in group.items():
                every.setdefault(name, each)
        own = list(inspect.signature(command).parameters.values())[1:]
        options = [_option(name, each.initial, each.option) for name, each in every.items()]
        options += [option for each in own for option in _own_options(each)]
        ordered = sorted(options, key=lambda each: each.default is not REQUIRED)

        @functools.wraps(command)
        def wrapped(**arguments: Any) -> None:
            def mine(each: inspect.Parameter) -> Any:
                fields = getattr(each.annotation, "_fields", None)
                return arguments.pop(each.name) if fields is None else each.annotation(*map(arguments.pop, fields))

            given = {each.name: mine(each) for each in own}
            command(Typed({name: each for name, each in arguments.items() if each != every[name].initial}), **given)

        wrapped.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {each.name: each.annotation for each in ordered}
        del wrapped.__wrapped__
        return wrapped

    return made


def _own_options(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    kind = parameter.annotation
    if not hasattr(kind, "_fields"):
        return [_option(parameter.name, parameter.default, kind)]
    hints = get_type_hints(kind, include_extras=True)
    return [_option(name, kind._field_defaults.get(name, REQUIRED), hints[name]) for name in kind._fields]


def _option(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
