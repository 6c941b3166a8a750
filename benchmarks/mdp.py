"""Decision processes: exact rows, planning, simulation and logs of the sepsis process."""

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.measure import Row, seconds
from countermax import Gadget2
from countermax.learning import SquaredDifference
from countermax.mdp import EpisodeLog, estimate, policy_iteration, simulate
from countermax.mdp._estimation import softened, visits
from studies.processes import sepsis
from studies.queries import query

NUM_EPISODES, HORIZON = 20_000, 20


def rows() -> Iterator[Row]:
    """All measurements of this file."""
    yield from _sepsis()
    yield from _supports()


def _supports() -> Iterator[Row]:
    """What leaving out unreachable outcomes saves: a training step of Gadget 2 on a typical query."""
    mdp = estimate(_projected_log())
    state, action = divmod(int(visits(_projected_log()).argmax()), mdp.num_actions)
    other = next(each for each in np.flatnonzero(mdp.allowed[state]).tolist() if each != action)
    asked = query(mdp, state, action, other)
    wide = np.full((2, mdp.num_states), -np.inf)
    wide[:, asked.successors] = asked.p, asked.q
    times = [_step_time(*logits) for logits in (wide, np.stack([asked.p, asked.q]))]
    sizes = f"{mdp.num_states} outcomes, {len(asked.successors)} of them reachable"
    yield Row("a training step of Gadget 2 on all outcomes takes", times[0] / times[1], "times as long", sizes)


def _step_time(p: np.ndarray, q: np.ndarray) -> float:
    gadget = Gadget2(p.size, 20, key=jax.random.key(0))
    params, rest = eqx.partition(gadget, eqx.is_inexact_array)
    log_p, log_q = jnp.asarray(p, jnp.float32), jnp.asarray(q, jnp.float32)
    loss = SquaredDifference(np.arange(float(p.size)))(log_p, log_q)
    gradient = jax.jit(jax.grad(lambda each: (eqx.combine(each, rest)._joint(log_p, log_q) * loss).sum()))
    return seconds(gradient, params)


def _projected_log() -> EpisodeLog:
    mdp = sepsis.process()
    policy = softened(policy_iteration(mdp).policy, 0.95)
    log = simulate(mdp, policy, num_episodes=NUM_EPISODES, horizon=HORIZON, key=jax.random.key(0))
    return log.with_states(sepsis.projection(), sepsis.NUM_PROJECTED)


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
    names = {"state_names": mdp.state_names, "action_names": mdp.action_names}
    read = seconds(lambda: EpisodeLog.from_frame(frame, **names))
    yield Row(f"a log of {log.num_steps} rows, read and checked", read * 1e3, "ms")
    yield Row("a process estimated from it", seconds(estimate, log) * 1e3, "ms")
