"""What a run found: a summary for people, and files that documents take their numbers from."""

import json
import os
import platform
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PROMISES = Path(__file__).parent.parent / "docs" / "promises.md"
_START, _END = "<!-- written by python -m fuzz --store -->", "<!-- until here -->"
_PACKAGES = ("countermax", "jax", "numpy", "pyarrow", "pandas", "polars")


@dataclass
class Tally:
    """Counts of one fuzzer."""

    name: str
    seed: int
    tried: int = 0
    answered: int = 0
    """Calls that ended with an answer, which was judged."""
    refused: int = 0
    """Calls that were refused in one line."""
    kinds: Counter[str] = field(default_factory=Counter)
    """How many of each kind were tried."""
    failures: Counter[str] = field(default_factory=Counter)
    """How many failed in each way."""
    seconds: float = 0.0

    @property
    def failed(self) -> int:
        """How many failed."""
        return self.failures.total()

    def line(self) -> str:
        """In one line."""
        return (
            f"{self.name}: {self.tried:,} tried, {self.answered:,} answered, {self.refused:,} refused, "
            f"{self.failed:,} failed; {self.seconds:,.0f} s"
        )


def about() -> dict[str, Any]:
    """Versions and machine."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "versions": {package: version(package) for package in _PACKAGES},
    }


def store(tally: Tally) -> None:
    """Writes what was found where documents look for it, and renews the table in the document."""
    RESULTS.mkdir(exist_ok=True)
    content = {
        "about": about(),
        "seed": tally.seed,
        "tried": tally.tried,
        "answered": tally.answered,
        "refused": tally.refused,
        "failed": tally.failed,
        "kinds": dict(sorted(tally.kinds.items())),
        "failures": dict(tally.failures),
        "seconds": round(tally.seconds),
    }
    (RESULTS / f"{tally.name}.json").write_text(json.dumps(content, indent=1) + "\n")
    (RESULTS / f"{tally.name}.md").write_text(_page(tally.name, content))
    if PROMISES.exists():
        text = PROMISES.read_text()
        before, _, rest = text.partition(_START)
        _, _, after = rest.partition(_END)
        if rest:
            PROMISES.write_text(f"{before}{_START}\n\n{table()}\n{_END}{after}")


def table() -> str:
    """All stored results as a table."""
    lines = [
        "| fuzzer | seed | tried | answered | refused in one line | failed | version | date |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    for name in ("calls", "files", "kills"):
        path = RESULTS / f"{name}.json"
        if path.exists():
            each = json.loads(path.read_text())
            numbers = [f"{each[key]:,}" for key in ("tried", "answered", "refused", "failed")]
            about_ = each["about"]
            cells = [f"[{name}](../fuzz/results/{name}.md)", str(each["seed"]), *numbers]
            lines.append(f"| {' | '.join([*cells, about_['versions']['countermax'], about_['date']])} |")
    return "\n".join(lines) + "\n"


def _page(name: str, content: dict[str, Any]) -> str:
    about_ = content["about"]
    versions = ", ".join(f"{package} {each}" for package, each in about_["versions"].items())
    rows = "".join(f"| {kind} | {count:,} |\n" for kind, count in content["kinds"].items())
    failures = "".join(f"- {count} times {words}\n" for words, count in content["failures"].items()) or "None.\n"
    return (
        f"# {name}\n\n{about_['date']}, {about_['machine']}, Python {about_['python']}, {versions}; "
        f"seed {content['seed']}, {content['seconds']:,} seconds\n\n"
        f"{content['tried']:,} tried: {content['answered']:,} answered, "
        f"{content['refused']:,} refused in one line, {content['failed']:,} failed.\n\n"
        f"| kind | tried |\n| --- | ---: |\n{rows}\n## Failures\n\n{failures}"
    )
