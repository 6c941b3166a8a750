"""Libraries that only some features need, imported where they are used."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from countermax._core.errors import InputError


def _importer(what: str, *modules: str, extra: str = "") -> Callable[[], Any]:
    def imported() -> Any:
        """The library, or an error that says how to get it."""
        try:
            return [import_module(each) for each in modules][0]
        except ImportError as error:
            raise ImportError(f"{what} {modules[0]}: pip install 'countermax[{extra or modules[0]}]'") from error

    return imported


@cache
def import_pandas() -> Any:
    """Pandas, where the first frame comes: importing it takes longer than most answers."""
    return import_module("pandas")


@cache
def import_pyarrow() -> Any:
    """Arrow, where the first file comes, with all of it that reads and writes tables."""
    return [import_module(f"pyarrow{each}") for each in ("", ".compute", ".csv", ".parquet")][0]


import_polars = _importer("polars frames need", "polars")
import_gymnasium = _importer("environments need", "gymnasium")
import_dowhy = _importer("DoWhy models need", "dowhy", "dowhy.gcm", "dowhy.graph")
import_yaml = _importer("YAML files need", "yaml")
import_sklearn = _importer("states from measurements need", "sklearn", "sklearn.base", extra="measurements")
import_ray = _importer("engine='ray' and Ray Datasets need", "ray", "ray.data")


def on_ray(engine: str) -> bool:
    """Whether work is to be done on Ray; an engine that does not exist is refused."""
    if engine not in ("local", "ray"):
        raise InputError(f'`engine` must be "local" or "ray", got {engine!r:.60}')
    return engine == "ray"
