"""Settings for all tests: strict ranks, quiet and repeatable property tests."""

import os

# Compiling is most of the work here, and what is compiled runs once: optimise it less. Before JAX is imported.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

import jax
import jaxtyping
import pytest
from hypothesis import HealthCheck, settings

jax.config.update("jax_numpy_rank_promotion", "raise")

settings.register_profile(
    "countermax",
    deadline=None,  # the first example of a shape is compiled
    derandomize=True,
    print_blob=False,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("countermax")


@pytest.fixture
def double():
    """Runs a test in double precision."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def as_users_call():
    """Switches run-time type checks off, so that a test sees the error that users see."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
