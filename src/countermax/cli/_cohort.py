"""Commands about logged episodes: `explain`, `improve` and `evaluate-policy`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from countermax.cli._declared import Typed, declared, with_options
from countermax.cli._shared import Address, Outputs, connect, one_line_errors, words

if TYPE_CHECKING:
    from countermax import Cohort, Posterior
    from countermax._core.results import AbstractResult

_COHORT = declared("mdp/_cohort.py:Cohort").without("log", "policy", "process", "outcomes", "behaviour", "posterior")
_STEPS = declared("mdp/_files.py:StepsFile").without("path")
_MEASURED = declared("mdp/_measurements.py:Measurements").without("steps", "seed").optional()
_POSTERIOR = declared("mdp/_posterior.py:Posterior")
_CHANGES = declared("mdp/_changes.py:Changes")
_EVALUATE, _EXPLAIN, _IMPROVE = (
    declared(f"mdp/_cohort.py:Cohort.{verb}") for verb in ("evaluate", "explain", "best_changes")
)

Log = Annotated[
    Path,
    typer.Argument(
        help="Log with columns episode, step, state, action, next_state, reward: .csv, .jsonl or .parquet. A column "
        "time may stand for step, outcome (how the episode ended) for next_state, and --score for reward."
    ),
]
Policy = Annotated[
    Path,
    typer.Option(
        help="Policy with columns state, action and, unless it is 1, probability; beside --features also a column of "
        "the log that names the action in each row."
    ),
]


@one_line_errors
@with_options(_EVALUATE, _COHORT.without("censored", "actions"), _STEPS, _MEASURED)
def evaluate_policy(
    given: Typed,
    log: Log,
    policy: Policy,
    outputs: Outputs,
    address: Address = None,
) -> None:
    """Estimate what a policy is worth from the log of another: every common estimate, with intervals and bounds.

    Example: countermax evaluate-policy steps.csv --policy policy.csv --plot estimates.png

    Example: countermax evaluate-policy icu.csv --features lactate,map --policy advice --score home=1,dead=0
    """
    asked = given.of(_EVALUATE)
    couplings = words(given.get("couplings", ""))
    outputs.deliver(lambda: _cohort(given, log, policy, address).evaluate(**asked), log, policy, *couplings)


@one_line_errors
@with_options(_EXPLAIN.without("features").optional(), _COHORT, _STEPS, _POSTERIOR, _MEASURED)
def explain(given: Typed, log: Log, policy: Policy, outputs: Outputs, address: Address = None) -> None:
    """Get one episode's story under another policy; without --episode, all episodes ranked by what it would have added.

    The process is estimated from the log.

    Example: countermax explain steps.csv --policy policy.csv --episode 17 --page story.html
    """
    from countermax import Posterior

    asked = given.of(_EXPLAIN.without("features"))
    posterior = Posterior(**given.of(_POSTERIOR))

    def ask() -> "AbstractResult":
        cohort = _cohort(given, log, policy, address, posterior)
        return (cohort.explain if "episode" in asked else cohort.rank)(**asked)

    outputs.deliver(ask, log, policy, *words(given.get("couplings", "")))


@one_line_errors
@with_options(
    _IMPROVE.without("changes").optional(),
    _CHANGES.without("most"),
    _COHORT.without("actions"),
    _STEPS,
    _POSTERIOR,
)
def improve(
    given: Typed,
    log: Log,
    outputs: Outputs,
    changes: Annotated[int, typer.Option(help="Largest number of changes; smaller ones are answered too.")] = 3,
    policy: Annotated[Path | None, typer.Option(hidden=True, help="Not taken: a plan of its own is found.")] = None,
    address: Address = None,
) -> None:
    """Find the few changes that would have helped an episode most; without --episode, ranks all of them.

    The process is estimated from the log; plans are judged on models drawn from the posterior.

    Example: countermax improve steps.csv --episode 17 --changes 3 --page changes.html
    """
    from countermax import Posterior
    from countermax._core.errors import InputError
    from countermax.mdp import Changes

    if policy is not None:
        raise InputError("--policy is for explain and evaluate-policy: improve finds a plan of its own")
    asked, posterior = given.of(_IMPROVE), Posterior(**given.of(_POSTERIOR))
    wanted = Changes(**given.of(_CHANGES), most=changes)

    def ask() -> "AbstractResult":
        cohort = _cohort(given, log, None, address, posterior)
        return (cohort.best_changes if "episode" in asked else cohort.rank_changes)(**asked, changes=wanted)

    outputs.deliver(ask, log, *words(given.get("coupling", "")))


def _cohort(
    given: Typed, log: Path, policy: Path | None, address: str | None, posterior: "Posterior | None" = None
) -> "Cohort":
    from countermax._core.errors import InputError
    from countermax.mdp import Cohort, Measurements, StepsFile

    connect(given.get("engine", "local"), address)
    steps: StepsFile | Measurements = StepsFile(log, **given.of(_STEPS))
    if "features" in given:
        steps = Measurements(log, **given.of(_MEASURED))
    elif idle := list(given.of(_MEASURED.without("columns", "score"))):
        raise InputError(f"--{idle[0].replace('_', '-')} needs --features: without them the log has states of its own")
    return Cohort(steps, policy, **given.of(_COHORT), posterior=posterior)
