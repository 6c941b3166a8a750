"""Which format a file has."""

from pathlib import Path

from countermax._core.errors import InputError

FORMATS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}

_COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")


def format_of(path: str | Path) -> str:
    """The format that a file's name says."""
    name, suffix = Path(path).name or str(path), Path(path).suffix.lower()
    if suffix not in FORMATS:
        hint = "; compressed files are not read: unpack it first" if suffix in _COMPRESSED else ""
        if Path(path).is_dir():
            hint = '; counterfactuals and transitions read a folder of Parquet files with engine="ray" (--engine ray)'
        raise InputError(f"cannot tell the format from {name!r}; end it in {', '.join(FORMATS)}{hint}")
    return FORMATS[suffix]
