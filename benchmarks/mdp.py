"""Decision processes: exact rows, planning, simulation and logs of the sepsis process."""

from collections.abc import Iterator

import jax

from benchmarks.measure import Row, seconds
from countermax.mdp import EpisodeLog, estimate, policy_iteration, sepsis, simulate, softened

NUM_EPISODES, HORIZON = 20_000, 20


def rows() -> Iterator[Row]:
    """All measurements of this file."""
    yield from _sepsis()


def _sepsis() -> Iterator[Row]:
    mdp = sepsis.process()
    cells = int((mdp.probs > 0).sum())
    yield Row("sepsis: exact rows of all states and actions", seconds(sepsis.process) * 1e3, "ms", f"{cells} cells")
    yield Row("sepsis: policy iteration, 1440 states", seconds(policy_iteration, mdp) * 1e3, "ms")
    policy = softened(policy_iteration(mdp).policy, 0.95)

    def draw() -> EpisodeLog:
        return simulate(mdp, policy, num_episodes=NUM_EPISODES, horizon=HORIZON, key=jax.random.key(0))

    log = draw()
    spent = seconds(draw)
    yield Row(f"sepsis: {NUM_EPISODES} episodes of up to {HORIZON} steps, once compiled", spent * 1e3, "ms")
    yield Row("the same in steps", log.num_steps / spent, "steps per second")
    frame = log.to_frame()
    read = seconds(lambda: EpisodeLog.from_frame(frame, num_states=mdp.num_states, num_actions=mdp.num_actions))
    yield Row(f"a log of {log.num_steps} rows, read and checked", read * 1e3, "ms")
    yield Row("a process estimated from it", seconds(estimate, log) * 1e3, "ms")
