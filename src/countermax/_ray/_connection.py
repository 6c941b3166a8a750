"""A connection to Ray: the one that is there, a running cluster by its address, or one inside this machine."""

import logging
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from countermax._core.errors import InputError
from countermax._core.extras import import_ray

_WAIT = 5.0  # seconds for an address to answer; Ray itself would try for minutes
_OBJECT_STORE = 2**30  # bytes, of an embedded Ray: work streams through it, and what does not fit is spilled to disk
_NAMED = ("auto", "local")


@contextmanager
def _forking() -> Iterator[None]:
    """JAX warns of forks, but those of Ray become other programs at once and wait for no lock."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"os\.fork", RuntimeWarning)
        yield


@_forking()
def connect(address: str | None = None) -> Any:
    """Ray, connected: the connection that is there already, else the cluster at the address, else one of its own.

    Args:
        address: Address of a running cluster, as `ray.init` takes it (`host:port`, `ray://host:port`, `auto`); None for
            the connection that is there, or a new one inside this machine.
    """
    ray = import_ray()
    if ray.is_initialized():
        return ray
    if address is not None and address not in _NAMED:
        _check_reachable(address)
    try:
        own = {"include_dashboard": False, "object_store_memory": _OBJECT_STORE} if address is None else {}
        ray.init(address=address or "local", logging_level=logging.ERROR, log_to_driver=False, **own)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"no Ray cluster can be used at {address or 'this machine'!r}: {reason}; start one (`ray start --head`) or "
            "leave the address out"
        ) from error
    return ray


def _check_reachable(address: str) -> None:
    """Refuses an address where nobody listens."""
    place = address.rpartition("://")[2].partition("/")[0]
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise InputError(f"`address` must be host:port, ray://host:port or auto, got {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_WAIT).close()
    except OSError as error:
        raise InputError(
            f"`address` must be that of a running Ray cluster, but nothing answers at {address!r} ({error}); start one "
            "(`ray start --head`), or leave the address out"
        ) from error
