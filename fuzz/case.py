"""One thing to try, self-contained: files, and a command line or a line of Python. Those that fail are kept."""

import base64
import hashlib
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KEPT = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Case:
    """What is run, in an empty folder that holds these files, and what its judge has to know."""

    judge: str
    """Name of the judge, see `fuzz.judges`."""
    argv: tuple[str, ...] = ()
    """Arguments of the `countermax` command, or `studies` and its arguments; empty where Python is called."""
    source: str = ""
    """A Python expression; `countermax`, `np`, `pd` and others are known to it."""
    files: dict[str, bytes] = field(default_factory=dict)
    means: dict[str, Any] = field(default_factory=dict)
    """What the judge cannot read off the command line, as JSON has it."""
    outside: dict[str, str] = field(default_factory=dict)
    """How a real process is run: `environment` variables by name, `stdout` (closed, pipe)."""
    process: bool = False
    """Whether a process of its own is started."""

    def to_json(self) -> dict[str, Any]:
        """Plain values; files as text where they are text."""
        found: dict[str, Any] = {"judge": self.judge}
        found |= {"argv": list(self.argv)} if self.argv else {"source": self.source}
        found["files"] = {name: _written(content) for name, content in self.files.items()}
        for name in ("means", "outside", "process"):
            if getattr(self, name):
                found[name] = getattr(self, name)
        return found

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Case":
        """The case that `to_json` wrote."""
        return cls(
            judge=content["judge"],
            argv=tuple(content.get("argv", ())),
            source=content.get("source", ""),
            files={name: _read(each) for name, each in content["files"].items()},
            means=content.get("means", {}),
            outside=content.get("outside", {}),
            process=content.get("process", False),
        )


def command(argv: tuple[str, ...]) -> list[str]:
    """How arguments of a case are run as a process."""
    module, *words = argv if argv[:1] == ("studies",) else ("countermax.cli", *argv)
    return [sys.executable, "-m", module, *words]


@dataclass(frozen=True)
class Failure:
    """What was wrong with what came of a case."""

    kind: str
    """One of a few words: traceback, wrong answer, partial output, ..."""
    words: str

    @property
    def signature(self) -> str:
        """The same for failures that look alike."""
        return f"{self.kind}: {''.join('0' if each.isdigit() else each for each in self.words)[:80]}"


def keep(case: Case, failure: Failure, where: str, folder: Path = KEPT) -> Path:
    """Writes a case that failed; one that is there already is written over."""
    content = {"failed": {"kind": failure.kind, "words": failure.words[:2000]}, "found": where, **case.to_json()}
    digest = hashlib.sha256(json.dumps(case.to_json(), sort_keys=True).encode()).hexdigest()[:10]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{case.judge}-{failure.kind.replace(' ', '-')}-{digest}.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=True) + "\n")
    return path


def read_case(path: Path) -> Case:
    """A kept case."""
    return Case.from_json(json.loads(path.read_text()))


def _written(content: bytes) -> dict[str, str]:
    try:
        return {"text": content.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def _read(content: dict[str, str]) -> bytes:
    return content["text"].encode() if "text" in content else base64.b64decode(content["base64"])
