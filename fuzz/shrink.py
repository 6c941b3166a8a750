"""Makes a failing case smaller, as long as it fails in the same way."""

from collections.abc import Iterator
from dataclasses import replace

from fuzz.case import Case, Failure
from fuzz.hands import Hands
from fuzz.judges import judged

_MOST_TRIES = 60


def shrunk(case: Case, failure: Failure, hands: Hands) -> tuple[Case, Failure]:
    """A smaller case, and how it fails."""
    tries = 0
    again = True
    while again:
        again = False
        for smaller in _smaller(case):
            tries += 1
            if tries > _MOST_TRIES:
                return case, failure
            found = _still(smaller, hands)
            if found is not None and found.signature[:45] == failure.signature[:45]:
                case, failure, again = smaller, found, True
                break
    return case, failure


def _still(case: Case, hands: Hands) -> Failure | None:
    try:
        return judged(case, hands.run(case))
    except Exception:  # a judge that no longer understands the case
        return None


def _smaller(case: Case) -> Iterator[Case]:
    """The case without one option, or without some lines of a file."""
    if case.process:
        yield replace(case, process=False, outside={})
    for place, word in enumerate(case.argv):
        if word.startswith("--") and ("=" in word or word in ("--json", "--normalise")):
            yield replace(case, argv=case.argv[:place] + case.argv[place + 1 :])
    for name, content in case.files.items():
        if not name.endswith((".csv", ".jsonl", ".toml")):
            continue
        lines = content.splitlines(keepends=True)
        first = 1 if name.endswith(".csv") else 0
        for size in (max(1, (len(lines) - first) // 2), 1):
            for start in range(first, len(lines), size):
                rest = lines[:start] + lines[start + size :]
                yield replace(case, files={**case.files, name: b"".join(rest)})
