"""Commands about logged episodes: `explain` and `evaluate-policy`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from countermax.cli._declared import Typed, declared, with_options
from countermax.cli._shared import READERS, Address, Outputs, connect, one_line_errors, words

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
    outputs: Outputs,
    seed: Annotated[int, typer.Option(help="Seed of the resamples.")] = 0,
    address: Address = None,
) -> None:
    """Estimate what a policy is worth from the log of another: every common estimate, with intervals and bounds.

    Example: countermax evaluate-policy steps.csv --policy policy.csv --plot estimates.png
    """
    import jax

    from countermax._core.quantities import as_seed

    key = jax.random.key(as_seed("--seed", seed))
    asked = given.of(_EVALUATE, READERS)
    couplings = words(given.values.get("couplings", ""))
    outputs.deliver(lambda: _cohort(given, log, policy, address).evaluate(**asked, key=key), log, policy, *couplings)


@one_line_errors
@with_options(_EXPLAIN.without("features").optional(), _COHORT, _POSTERIOR)
def explain(given: Typed, log: Log, policy: Policy, outputs: Outputs, address: Address = None) -> None:
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

    outputs.deliver(ask, log, policy, *words(given.values.get("couplings", "")))


def _cohort(
    given: Typed, log: Path, policy: Path, address: str | None, posterior: "Posterior | None" = None
) -> "Cohort":
    from countermax import Cohort

    connect(given.values.get("engine", "local"), address)
    return Cohort(log, policy, **given.of(_COHORT, READERS), posterior=posterior)
