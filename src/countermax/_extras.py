"""Libraries that only some features need, imported where they are used."""

from typing import Any


def import_pandas() -> Any:
    """Pandas, or an error that says how to get it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("dataframes need pandas: pip install 'countermax[pandas]'") from error
    return pandas
