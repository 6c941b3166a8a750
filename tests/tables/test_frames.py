"""Libraries of frames are imported when a frame of theirs comes, and not before."""

import subprocess
import sys

import pytest

CODE = """
import sys
import countermax.tables
heavy = {"pandas", "polars", "pyarrow", "sklearn", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""


def test_tables_import_no_library_of_frames():
    subprocess.run([sys.executable, "-c", CODE], check=True)


@pytest.mark.parametrize(
    ("library", "make", "other"),
    [("pandas", "DataFrame", "polars"), ("polars", "DataFrame", "pandas"), ("pyarrow", "table", "polars")],
)
def test_a_frame_brings_its_own_library_only(library, make, other):
    code = f"{CODE}\nimport {library}\nfrom countermax.tables.frames import as_frame\n"
    code += f"assert as_frame({library}.{make}({{'a': [1, 2]}}), 7).row_name(1) == 'row 8 (counted from 0)'\n"
    code += f"assert {other!r} not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
