"""Libraries that only some features need, imported where they are used."""

from typing import Any


def import_pandas() -> Any:
    """Pandas, or an error that says how to get it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("dataframes need pandas: pip install 'countermax[pandas]'") from error
    return pandas


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
