"""One fitted model for all tests with DoWhy."""

import pytest


@pytest.fixture(scope="session")
def model():
    from trial import fitted

    return fitted()
