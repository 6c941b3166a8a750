"""Options are the library's own parameters: every one is there, is documented, and means what it means in Python."""

import inspect
import re

import pytest
import typer.main

import countermax
from countermax.cli import app
from countermax.cli._declared import REQUIRED, declared

PLACES = {
    "Trial": "trial/_trial.py",
    "Design": "trial/_trial.py",
    "Worlds": "trial/_worlds.py",
    "Rows": "tables/_problem.py",
    "Refit": "tables/_refit.py",
    "Cohort": "mdp/_cohort.py",
    "Posterior": "mdp/_posterior.py",
}
VERBS = {
    "Trial": ("compare", "causes"),
    "Rows": ("write", "transitions", "effects", "causes"),
    "Cohort": ("explain", "evaluate", "best_changes"),
}


def _everything():
    for name, file in PLACES.items():
        yield f"{file}:{name}", getattr(countermax, name)
        for verb in VERBS.get(name, ()):
            yield f"{file}:{name}.{verb}", getattr(getattr(countermax, name), verb)


EVERYTHING = list(_everything())


@pytest.mark.parametrize(("where", "what"), EVERYTHING, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_read_from_the_source_is_what_python_has(where, what):
    real = [each for each in inspect.signature(what).parameters.values()]
    real = [each for each in real if each.name != "self" and each.kind is not each.VAR_KEYWORD]
    found = declared(where).values()
    assert [each.name for each in found] == [each.name for each in real]
    for mine, its in zip(found, real, strict=True):
        assert mine.default == its.default or (mine.default is None and its.default is not REQUIRED), mine.name


@pytest.mark.parametrize(("where", "what"), EVERYTHING, ids=lambda value: value if isinstance(value, str) else "")
def test_every_parameter_says_what_it_is_in_a_sentence(where, what):
    for each in declared(where).values():
        assert re.fullmatch(r"[A-Z0-9\[`].*[.]", each.help), f"{where}, {each.name}: {each.help!r}"


@pytest.mark.parametrize("verb", VERBS["Trial"])
def test_worlds_are_asked_as_trials_are_where_the_arguments_are_documented(verb):
    asked = list(declared(f"trial/_worlds.py:Worlds.{verb}"))
    assert set(asked) <= set(declared(f"trial/_trial.py:Trial.{verb}"))


def test_no_command_has_an_option_without_help():
    for name, command in typer.main.get_command(app).commands.items():
        for option in command.params:
            assert option.name == "help" or option.help, f"{name} --{option.name}"
