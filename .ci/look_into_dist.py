"""Looks into dist/: one wheel and one sdist, the wheel with nothing but the package, both without what nobody needs.

python .ci/look_into_dist.py dist
"""

import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

SUFFIXES = {".py", ".pyi", ".typed", ".csv", ".json", ".html", ".js", ".css"}
LARGEST_WHEEL, LARGEST_SDIST = 1_500_000, 6_000_000  # bytes


def problems(folder: Path) -> list[str]:
    """What is wrong with the wheel and the sdist in a folder, in words."""
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    if len(wheels) != 1 or len(sdists) != 1:
        return [f"{folder} must hold one wheel and one sdist, and holds {len(wheels)} and {len(sdists)}"]
    found = []
    for name in map(PurePosixPath, zipfile.ZipFile(wheels[0]).namelist()):
        if name.parts[0].endswith(".dist-info"):
            continue
        if name.parts[0] != "countermax":
            found.append(f"the wheel holds {name}, which is outside of the package")
        elif name.name != "py.typed" and name.suffix not in SUFFIXES:
            found.append(f"the wheel holds {name}, which is no source, stub or data")
    with tarfile.open(sdists[0]) as archive:
        parts = {part for name in archive.getnames() for part in name.split("/")}
    found += [f"the sdist holds {part}" for part in sorted(parts & {".git", ".venv", "__pycache__", "site", "dist"})]
    for path, largest in ((wheels[0], LARGEST_WHEEL), (sdists[0], LARGEST_SDIST)):
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")
        if path.stat().st_size > largest:
            found.append(f"{path.name} is larger than {largest / 1e6:.1f} MB")
    return found


if __name__ == "__main__":
    sys.exit("\n".join(problems(Path(sys.argv[1]))) or 0)
