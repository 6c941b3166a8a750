"""Commands about logged episodes: `explain` and `evaluate-policy`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from countermax.cli._declared import Typed, declared, with_options
from countermax.cli._shared import (
    READERS,
    Address,
    Json,
    Out,
    Outputs,
    Overwrite,
    Page,
    Plot,
    connect,
    deliver,
    one_line_errors,
    words,
)

if TYPE_CHECKING:
    from countermax import Cohort, Posterior
    from countermax._core.results import AbstractResult

_COHORT = declared("mdp/_cohort.py:Cohort").without("log", "policy", "process", "outcomes", "behaviour", "posterior")
_POSTERIOR = declared("mdp/_posterior.py:Posterior")
_EVALUATE, _EXPLAIN = (declared(f"mdp/_cohort.py:Cohort.{verb}") for verb in ("evaluate", "explain"))

Log = Annotated[
    Path,
    typer.Argument(help="Log with columns episode, step, state, action, next_state, reward: .csv, .jsonl or .parquet."),
]
Policy = Annotated[Path, typer.Option(help="Policy with columns state, action and, unless it is 1, probability.")]


@one_line_errors
@with_options(_EVALUATE.without("key"), _COHORT.without("censored", "actions"))
def evaluate_policy(
    given: Typed,
    log: Log,
    policy: Policy,
    seed: Annotated[int, typer.Option(help="Seed of the resamples.")] = 0,
    json: Json = False,
    plot: Plot = None,
    page: Page = None,
    out: Out = None,
    address: Address = None,
    overwrite: Overwrite = False,
) -> None:
    """Estimate what a policy is worth from the log of another: every common estimate, with intervals and bounds.

    Example: countermax evaluate-policy steps.csv --policy policy.csv --plot estimates.png
    """
    import jax

    from countermax._core.quantities import as_seed

    key = jax.random.key(as_seed("--seed", seed))
    outputs = Outputs(json, plot, page, out, overwrite)
    deliver(
        lambda: _cohort(given, log, policy, address).evaluate(**given.of(_EVALUATE, READERS), key=key),
        [log, policy, *words(given.values.get("couplings", ""))],
        outputs,
    )


@one_line_errors
@with_options(_EXPLAIN.without("features").optional(), _COHORT, _POSTERIOR)
def explain(
    given: Typed,
    log: Log,
    policy: Policy,
    json: Json = False,
    plot: Plot = None,
    page: Page = None,
    out: Out = None,
    address: Address = None,
    overwrite: Overwrite = False,
) -> None:
    """Get one episode's story under another policy; without --episode, all episodes ranked by what it would have added.

    The process is estimated from the log.

    Example: countermax explain steps.csv --policy policy.csv --episode 17 --page story.html
    """
    from countermax import Posterior

    asked = given.of(_EXPLAIN, READERS)
    posterior = Posterior(**given.of(_POSTERIOR, READERS))

    def ask() -> "AbstractResult":
        cohort = _cohort(given, log, policy, address, posterior)
        return cohort.explain(**asked) if "episode" in asked else cohort.rank(**asked)

    reads: list[str | Path] = [log, policy, *words(given.values.get("couplings", ""))]
    deliver(ask, reads, Outputs(json, plot, page, out, overwrite))


def _cohort(
    given: Typed, log: Path, policy: Path, address: str | None, posterior: "Posterior | None" = None
) -> "Cohort":
    from countermax import Cohort

    connect(given.values.get("engine", "local"), address)
    return Cohort(log, policy, **given.of(_COHORT, READERS), posterior=posterior)
