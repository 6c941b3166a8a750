"""Settings for all tests: strict ranks, property tests that can be repeated, and little time spent compiling.

`make test-slow` sets `COUNTERMAX_TESTS=slow`: then XLA optimises as it does for users, and Hypothesis draws fresh
examples.
"""

import ctypes
import functools
import gc
import os
import shutil
import signal
import tempfile
from importlib.metadata import version
from pathlib import Path

# Compiling is most of the work here, and what is compiled runs once: optimise it less. Before JAX is imported.
# A flag that XLA does not know is fatal, so the last two are for a version that is known to have them.
os.environ.setdefault(
    "XLA_FLAGS",
    ""
    if os.environ.get("COUNTERMAX_TESTS") == "slow"
    else "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    + " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    * version("jaxlib").startswith("0.10."),
)

if os.environ.get("COUNTERMAX_TESTS") != "slow":
    os.environ.setdefault("NUMBA_OPT", "1")  # not 0: what is compiled could not be kept

import jax
import jaxtyping
import pytest
from hypothesis import HealthCheck, settings
from jax._src import traceback_util

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_traceback_in_locations_limit", 0)  # nobody reads where compiled operations come from
if hasattr(traceback_util, "include_filename"):  # asked for each frame of each checked call, of a few hundred files
    traceback_util.include_filename = functools.cache(traceback_util.include_filename)

# A shell ignores Ctrl-C for what it runs in the background, and processes inherit that: those of the tests must not.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "countermax",
    deadline=None,  # the first example of a shape is compiled
    derandomize=True,
    max_examples=50,  # `make test-slow` draws 300 fresh ones
    print_blob=False,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.register_profile(
    "slow",
    parent=settings.get_profile("countermax"),
    derandomize=False,
    print_blob=True,  # how to see a failing example again
    max_examples=300,
)
settings.load_profile("slow" if os.environ.get("COUNTERMAX_TESTS") == "slow" else "countermax")

_CACHE = "COUNTERMAX_TEST_CACHE"
_MOST_MEMORY = 5 * 2**29
_LATER = ("test_trajectories.py", "test_demo.py", "test_ties.py")


def pytest_configure(config):
    """What one process has compiled, the others take from a folder that lives as long as the session."""
    if _CACHE not in os.environ:
        os.environ[_CACHE] = tempfile.mkdtemp(prefix="countermax-compiled-")
        os.environ["NUMBA_CACHE_DIR"] = os.path.join(os.environ[_CACHE], "numba")  # nothing of it reaches users' runs
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop(_CACHE), ignore_errors=True))
    jax.config.update("jax_compilation_cache_dir", os.environ[_CACHE])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def pytest_collection_modifyitems(items):
    """What is compiled for the tests of a room too waits for them: two workers would compile it twice."""
    items.sort(key=lambda item: item.path.name in _LATER)


def pytest_collection_finish():
    """Nothing that was imported becomes garbage, and looking for it there again and again takes time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True, scope="module")
def little_memory():
    """Forgets compiled programs once a worker has two and a half gigabytes, so that it stays under three.

    What is forgotten is compiled again, so this is done seldom, and what is free goes back to the system at once: what
    only seems to be in use would make it forget after every module.
    """
    yield
    if _memory() > _MOST_MEMORY:
        jax.clear_caches()
        gc.collect()
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # of the GNU C library
            trim(0)


def _memory():
    """How much of this process is in memory; nothing where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


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
