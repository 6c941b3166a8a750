"""Mutants are many and take seconds each: every second one waits for `make test-slow`."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    mutants = [item for item in items if item.path.name.startswith("test_mutants")]
    for item in mutants[1::2]:
        item.add_marker(pytest.mark.slow)
