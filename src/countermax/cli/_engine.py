"""Where the work of a command is done: in this process, or on Ray."""

from typing import Annotated

import typer

Engine = Annotated[
    str, typer.Option(help="Engine that does the work: local, or ray for a cluster (needs the extra `ray`).")
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Address of a running Ray cluster (host:port, ray://host:port, auto); by default one inside this machine."
    ),
]


def prepare_engine(engine: str, address: str | None) -> None:
    """Connects to the cluster, where one is asked for; options that contradict each other are refused.

    Args:
        engine: Word after `--engine`.
        address: Word after `--address`.
    """
    from countermax._core.errors import InputError
    from countermax._core.extras import on_ray

    if engine not in ("local", "ray"):
        raise InputError(f"--engine must be local or ray, got {engine!r:.60}")
    if on_ray(engine):
        from countermax._ray import connect

        connect(address)
    elif address is not None:
        raise InputError("--address needs --engine ray: without it nothing is done on a cluster")
