"""One embedded Ray for all tests here."""

from collections.abc import Iterator
from typing import Any

import pytest

from countermax._ray import connect


@pytest.fixture(scope="session")
def ray() -> Iterator[Any]:
    connected = connect()
    yield connected
    connected.shutdown()
