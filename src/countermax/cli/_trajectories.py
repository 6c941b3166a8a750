"""Commands about logged episodes: `evaluate-policy` and `explain`."""

from pathlib import Path
from typing import Annotated

import typer

from countermax.cli._engine import Address, Engine, prepare_engine
from countermax.cli._shared import (
    SHARED_WORD,
    WORDS_WITHOUT_SCORE,
    Overwrite,
    check_outputs,
    checked_target,
    deliver,
    one_line_errors,
    words,
)

_LOG = typer.Argument(help="CSV or Parquet file of logged steps: episode, step, state, action, next_state, reward.")
_POLICY = typer.Option(help="CSV or Parquet file of the other policy: state, action and, unless certain, probability.")
_COUPLINGS = typer.Option(
    help=f"Couplings, separated by commas: {', '.join(WORDS_WITHOUT_SCORE)}, {SHARED_WORD}, or files."
)
_HORIZON = typer.Option(help="Largest number of steps in an episode; by default that of the longest one.")
_ABSORBING = typer.Option(
    help="States where episodes end by themselves, separated by commas; episodes that stop elsewhere are censored. By "
    "default those that nobody was seen to leave."
)
_DISCOUNT = typer.Option(help="Discount factor for each step; by default 1.")


@one_line_errors
def evaluate_policy(
    log: Annotated[Path, _LOG],
    policy: Annotated[Path, _POLICY],
    couplings: Annotated[str, _COUPLINGS] = "gumbel-max,inverse-cdf",
    horizon: Annotated[int | None, _HORIZON] = None,
    discount: Annotated[float | None, _DISCOUNT] = None,
    absorbing: Annotated[str | None, _ABSORBING] = None,
    resamples: Annotated[int, typer.Option(help="Number of resamples for the intervals.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the resamples.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the estimates into this file (.png, .pdf, .svg).")] = None,
    overwrite: Overwrite = False,
    engine: Engine = "local",
    address: Address = None,
) -> None:
    """Estimate what a policy is worth from the log of another: every common estimate, with intervals and bounds.

    Example: countermax evaluate-policy steps.csv --policy policy.csv --plot estimates.png
    """
    import jax

    from countermax import mdp
    from countermax._core.labels import Written
    from countermax._core.quantities import as_seed
    from countermax.couplings._named import as_couplings

    key = jax.random.key(as_seed("--seed", seed))
    target = checked_target(plot)
    check_outputs({"--plot": target}, [log, policy, *words(couplings)], overwrite=overwrite)
    chosen = as_couplings(words(couplings)) if words(couplings) else {}
    read = mdp.read_log_and_policy(log, policy)
    prepare_engine(engine, address)
    cohort = mdp.Cohort(
        read.log,
        read.policy,
        absorbing=None if absorbing is None else [Written(each) for each in words(absorbing)],
        horizon=horizon,
        discount=discount,
        engine=engine,
    )
    result = cohort.evaluate(chosen, num_resamples=resamples, key=key)
    deliver(result, json=json, pictures={target: result.plot})


@one_line_errors
def explain(
    log: Annotated[Path, _LOG],
    policy: Annotated[Path, _POLICY],
    episode: Annotated[str | None, typer.Option(help="Name of the episode; without it, episodes are ranked.")] = None,
    couplings: Annotated[str, _COUPLINGS] = "gumbel-max,inverse-cdf",
    horizon: Annotated[int | None, _HORIZON] = None,
    discount: Annotated[float | None, _DISCOUNT] = None,
    absorbing: Annotated[str | None, _ABSORBING] = None,
    censored: Annotated[
        str,
        typer.Option(
            help="Treatment of episodes that stop before their end: 'stop' there or continue with the 'model'."
        ),
    ] = "stop",
    most: Annotated[int, typer.Option(help="Number of ranked episodes to show.")] = 20,
    resamples: Annotated[
        int,
        typer.Option(help="Number of models redrawn from the counts to doubt the estimate; 0 takes it as given."),
    ] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the resamples.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the story (without --episode the ranking) into this file (.png, .pdf, .svg)."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the story as a self-contained page (.html).")] = None,
    overwrite: Overwrite = False,
    engine: Engine = "local",
    address: Address = None,
) -> None:
    """Get one episode's story under another policy, or all episodes ranked by what it would have added.

    The process is estimated from the log. Answers come with what other data of the same kind could have given.

    Example: countermax explain steps.csv --policy policy.csv --episode 17 --out story.html
    """
    from countermax import mdp
    from countermax._core.errors import InputError
    from countermax._core.labels import Written
    from countermax._core.quantities import as_seed
    from countermax.couplings._named import as_couplings

    posterior = mdp.Posterior(num_draws=resamples, seed=as_seed("--seed", seed))
    if most < 1:
        raise InputError(f"--most must be at least 1, got {most}")
    if episode is not None and engine != "local":
        raise InputError("--engine is for ranking episodes: leave out --episode; one episode's story needs no cluster")
    if episode is None and out is not None:
        raise InputError("--out needs --episode: a page is the story of one episode")
    target = checked_target(plot)
    reads: list[str | Path] = [log, policy, *words(couplings)]
    check_outputs({"--plot": target, "--out": out}, reads, overwrite=overwrite)
    chosen = as_couplings(words(couplings))
    read = mdp.read_log_and_policy(log, policy)
    prepare_engine(engine, address)
    cohort = mdp.Cohort(
        read.log,
        read.policy,
        absorbing=None if absorbing is None else [Written(each) for each in words(absorbing)],
        horizon=horizon,
        discount=discount,
        censored=censored,
        posterior=posterior,
        engine=engine,
    )
    if episode is None:
        ranking = cohort.rank(chosen)
        deliver(ranking, json=json, pictures={target: lambda: ranking.plot(most)})
        if target is not None:
            typer.echo(f"{target} shows the ranking; with --episode it would show one story", err=True)
        return
    story = cohort.explain(Written(episode), couplings=chosen)
    deliver(story, json=json, pictures={target: story.plot}, files={out: story.write_page})
