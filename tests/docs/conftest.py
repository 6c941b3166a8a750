"""The modules behind the site, which are no package."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]


def load(name):
    return SimpleNamespace(**runpy.run_path(str(ROOT / f"docs/_site/{name}.py"), run_name=name))


@pytest.fixture(scope="session")
def public():
    return load("public")


@pytest.fixture(scope="session")
def notebooks():
    assert "nbclient" not in sys.modules  # what reads notebooks does not need what runs them
    return load("notebooks")


@pytest.fixture(scope="session")
def links():
    return load("links")


@pytest.fixture(scope="session")
def commands():
    return load("commands")
