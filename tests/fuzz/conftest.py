"""One worker for all cases: JAX starts once."""

import pytest

from fuzz.hands import Hands


@pytest.fixture(scope="session")
def hands():
    with Hands() as made:
        yield made
