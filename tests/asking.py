"""One call for one question about a table: options of the problem, of the refit and of the verb are told apart."""

from dataclasses import fields
from inspect import signature
from pathlib import Path

from countermax import Refit, Rows

PROBLEM = set(signature(Rows).parameters) - {"data", "refit"}
REFIT = {field.name for field in fields(Refit)}


def asked(data, options):
    """The problem, and what is left for the verb."""
    again = options.pop("refit", False)
    refit = Refit(**{name: options.pop(name) for name in REFIT & set(options)}) if again else None
    return Rows(data, **{name: options.pop(name) for name in PROBLEM & set(options)}, refit=refit), options


def counterfactuals(data, **options):
    rows, options = asked(data, options)
    return rows.counterfactuals(**options)


def counterfactuals_file(data, target, **options):
    rows, options = asked(data, options)
    return rows.write(target, **({"overwrite": bool(Path(target).suffix)} | options))


def transitions(data, **options):
    rows, options = asked(data, options)
    return rows.transitions(**options)


def effects(data, **options):
    rows, options = asked(data, options)
    return rows.effects(**options)


def causes(data, control, treated, **options):
    rows, options = asked(data, options | {"factual": control, "counterfactual": treated})
    return rows.causes(**options)


def pairs(data, **options):
    rows, options = asked(data, options)
    return rows.pairs(**options)
