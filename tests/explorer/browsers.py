"""A browser to test in: what $COUNTERMAX_BROWSER names, or a Chromium on the PATH. As a script: is there one?

And axe-core, which finds what people with poor sight, a keyboard or a screen reader stumble over; npm has it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

AXE = Path(sys.prefix, "axe/node_modules/axe-core/axe.min.js")
VARIABLE = "COUNTERMAX_BROWSER"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str | None:
    """A browser that starts; some systems have a script of that name that only says how to install one."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        if shutil.which(named) is None:
            raise FileNotFoundError(f"${VARIABLE} must name a browser, got {named!r}")
        return shutil.which(named)
    return next((path for path in map(shutil.which, NAMES) if path is not None and _starts(path)), None)


def _starts(path: str) -> bool:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and bool(done.stdout.strip())


def axe_faults(page: Any) -> list[str]:
    """What axe-core finds on a page: the rule, and the element."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run()")["violations"]
    return [f"{rule['id']}: {node['html'][:120]}" for rule in found for node in rule["nodes"]]


if __name__ == "__main__":
    sys.exit(find_browser() is None)
