"""Libraries that only some features need, imported where they are used."""

from typing import Any

from countermax._core.errors import InputError


def import_pandas() -> Any:
    """Pandas, or an error that says how to get it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("dataframes need pandas: pip install 'countermax[pandas]'") from error
    return pandas


def import_gymnasium() -> Any:
    """Gymnasium, or an error that says how to get it."""
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError("environments need gymnasium: pip install 'countermax[gymnasium]'") from error
    return gymnasium


def import_polars() -> Any:
    """Polars, or an error that says how to get it."""
    try:
        import polars
    except ImportError as error:
        raise ImportError("polars frames need polars: pip install 'countermax[polars]'") from error
    return polars


def import_pyarrow() -> Any:
    """Arrow with its readers and writers of files, or an error that says how to get it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.json
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("tables in files need pyarrow: pip install 'countermax[files]'") from error
    return pyarrow


def import_dowhy() -> Any:
    """DoWhy with its graphical causal models, or an error that says how to get it."""
    try:
        import dowhy.gcm
        import dowhy.graph
    except ImportError as error:
        raise ImportError("DoWhy models need dowhy: pip install 'countermax[dowhy]'") from error
    return dowhy


def import_ray() -> Any:
    """Ray, or an error that says how to get it."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ImportError("engine='ray' and Ray Datasets need ray: pip install 'countermax[ray]'") from error
    return ray


def on_ray(engine: str) -> bool:
    """Whether work is to be done on Ray; an engine that does not exist is refused."""
    if engine not in ("local", "ray"):
        raise InputError(f'`engine` must be "local" or "ray", got {engine!r:.60}')
    return engine == "ray"
