"""One embedded Ray for all tests here."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from countermax._ray import connect


@pytest.fixture(scope="session")
def ray() -> Iterator[Any]:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = os.environ["COUNTERMAX_TEST_CACHE"]  # workers share what they compile
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    connected = connect()
    settings = connected.data.DataContext.get_current()
    settings.enable_progress_bars, settings.read_op_min_num_blocks = False, 2
    yield connected
    connected.shutdown()
