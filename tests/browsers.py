"""A browser to test in: what $COUNTERMAX_BROWSER names, or a Chromium on the PATH. As a script: is there one?

And axe-core, which finds what people with poor sight, a keyboard or a screen reader stumble over; npm has it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
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


NO_BROWSER = (
    "BROWSER TESTS DID NOT RUN: no browser that starts was found (looked for "
    f"{', '.join(NAMES)} on the PATH, and ${VARIABLE} is not set)"
)
NO_AXE = f"AXE DID NOT RUN: {AXE} is missing; `npm install --prefix {AXE.parents[2]} axe-core`"


def missing() -> str | None:
    """What is missing, in words that are hard to overlook."""
    return NO_BROWSER if find_browser() is None else None if AXE.exists() else NO_AXE


def started() -> Iterator[Any]:
    """A browser, until it is no longer needed; tests are skipped where there is none."""
    import pytest

    path = find_browser()
    if path is None:
        pytest.skip(NO_BROWSER)
    from playwright.sync_api import sync_playwright  # installed where there is a browser

    with sync_playwright() as playwright:
        # What is shown is a file of ours, and machines that test are often containers, in which the sandbox cannot be.
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield opened
        opened.close()


def axe_faults(page: Any, rules: list[str] | None = None) -> list[str]:
    """What axe-core finds on a page, by all rules or some: the rule, and the element."""
    import pytest

    if not AXE.exists():
        pytest.skip(NO_AXE)
    page.evaluate(AXE.read_text())
    found = page.evaluate("(rules) => axe.run(rules ? { runOnly: rules } : {})", rules)["violations"]
    return [f"{rule['id']}: {node['html'][:120]}" for rule in found for node in rule["nodes"]]


if __name__ == "__main__":
    sys.exit(find_browser() is None)
