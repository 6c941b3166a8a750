"""Two public programs beside this one: `python -m studies.programs CLONE`.

CLONE is the folder of a clone of Networks-Learning/counterfactual-explanations-mdp (Tsirtsis, De and Gomez-Rodriguez
2021) or of ddv-lab/robust-cf-inference-in-MDPs (Lally, Kazemi and Paoletti 2025). Prints what was compared, and fails
where numbers differ that must not.
"""

import sys
import time
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from countermax import GumbelMax
from countermax._kernel import _loops
from countermax.cli._shared import show
from countermax.mdp import Changes, Cohort, EpisodeLog, FiniteMDP, simulate
from countermax.mdp._arrays import Floats
from countermax.mdp._improving import ChangedEpisodes
from countermax.mdp._replays._trajectories import Trajectories

REALISATIONS, SAMPLES, STATES, ACTIONS, HORIZON = 50, 1000, 20, 10, 20
TRANSITIONS, EPISODES, GRID_STEPS, PAIRS = 40, 300, 10, 2000
Box = tuple[Floats, Floats]


class _Remembering(ModuleType):
    """NumPy that remembers the last array of zeros with three axes: their values, for every number of changes."""

    values: Floats

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def zeros(self, shape: Any, dtype: Any = float) -> Any:
        found = np.zeros(shape, dtype)
        if found.ndim == 3 and dtype is float:
            self.values = found
        return found


def changed(mdp: FiniteMDP, log: EpisodeLog, **given: Any) -> ChangedEpisodes:
    """All numbers of changes to one episode, by Gumbel-max, or by answers that are given."""
    cohort = Cohort(log, np.full((mdp.num_states, mdp.num_actions), 1 / mdp.num_actions), process=mdp)
    model = Trajectories(mdp, cohort._one(log.name_of(0)), quiet=True)
    return ChangedEpisodes(model, "gumbel-max", Changes(most=None), **given)


def best_first_changes() -> None:
    """Tsirtsis et al.: their recursion and ours on their sampled rows, and these beside exact ones."""
    program = import_module("src.synth_mdp")
    kept = _Remembering("numpy")
    program.np = kept  # type: ignore[attr-defined]
    theirs = program.Synth_MDP(ACTIONS, STATES, 0.4, 1, HORIZON, "", 0.05)
    theirs.initialize_MDP(REALISATIONS)
    transitions = np.stack([theirs.P[action] for action in range(ACTIONS)], axis=1)  # [state, action, state]
    arriving = np.broadcast_to(np.arange(STATES, dtype=float), transitions.shape)
    mdp = FiniteMDP.from_dense(transitions, arriving, start=0, discount=1.0)
    logs = np.log(transitions)
    worst, least, cells, spent = 0.0, 1.0, 0, 0.0
    for one in range(REALISATIONS):
        states = np.array(theirs.trajectories[one]["states"])
        actions = np.array(theirs.trajectories[one]["actions"])
        rewards = np.append(states[1:], 0).astype(float)
        log = EpisodeLog(
            states=states[None],
            actions=actions[None, :-1],
            rewards=rewards[None, :-1],
            lengths=np.array([HORIZON - 1]),
            num_states=STATES,
            num_actions=ACTIONS,
        )
        clock = time.process_time()
        exact = changed(mdp, log)
        exact.best()
        spent += time.process_time() - clock
        rows, given = dict[tuple[int, int], Floats](), np.zeros((len(exact.facts.state), mdp.matrix.nnz))
        for step in range(HORIZON - 1):
            seen = theirs.P[actions[step]][states[step]], states[step + 1]
            noise = np.array(theirs._Synth_MDP__sample_gumbels(*seen, SAMPLES))
            drawn = np.argmax(noise[:, None, None] + logs, axis=3)  # [sample, state, action]
            counts = np.stack([(drawn == each).sum(axis=0) for each in range(STATES)], axis=2)
            rows |= {(action, step): counts[:, action] / SAMPLES for action in range(ACTIONS)}
            given[exact.facts.of_step[0, step]] = counts.reshape(-1) / SAMPLES
            chance = np.clip(gumbel_max_rows(seen[0], transitions.reshape(-1, STATES), int(seen[1])), 0, 1)
            chance = chance.reshape(counts.shape)
            chance[states[step], actions[step]] = np.eye(STATES)[states[step + 1]]
            cells += chance.size
            tails = stats.binom.cdf(counts, SAMPLES, chance), stats.binom.sf(counts - 1, SAMPLES, chance)
            least = min(least, float(2 * np.minimum(*tails).min()))
        rows |= {(action, HORIZON - 1): theirs.P[action] for action in range(ACTIONS)}
        if one == 0:
            clock = time.process_time()
            with TemporaryDirectory() as room:
                theirs.cf_mdp_directory = f"{room}/"
                own, _ = theirs.get_counterfactual_MDP(one, SAMPLES, recompute=True)
            show(f"their rows of one realisation take {time.process_time() - clock:.1f} s of the processor")
            assert all(np.array_equal(own[each], rows[each]) for each in rows)
        theirs.get_counterfactual_MDP = lambda trajectory_id, recompute, found=rows: (found, 0)
        _, value = theirs.maximize(one, HORIZON - 1)
        assert value == kept.values[states[0], -1, -1]
        ours = changed(mdp, log, given=given).best()[0][0] + states[0]
        del theirs.get_counterfactual_MDP
        worst = max(worst, float(np.abs(ours - kept.values[states[0], -1]).max()))
    show(f"exact rows and the best plans of all numbers of changes: {spent / REALISATIONS:.4f} s a realisation here")
    show(
        f"values on their rows, {REALISATIONS} realisations, 0 to {HORIZON - 1} changes: differ by {worst:.1e} at most"
    )
    show(
        f"their {cells} sampled cells beside exact rows: the least p-value is {least:.1e}, times their number "
        f"{least * cells:.2g}"
    )
    assert worst < 1e-9
    assert least * cells > 0.01


def gumbel_max_rows(p: Floats, q: Floats, x: int) -> Floats:
    """[row, outcome]: what Gumbel-max answers for many rows of the other world."""
    with jax.enable_x64(True), np.errstate(divide="ignore"):
        logits = jnp.log(jnp.asarray(p)), jnp.log(jnp.asarray(q))
        found = jax.vmap(lambda other: GumbelMax().counterfactual_probs(logits[0], other, x))(logits[1])
        return np.asarray(found)


def box_of(family: str, p: Floats, q: Floats, x: int) -> Box:
    """The rows of a family given what was seen: each cell's limits, tightened by that they sum to one."""
    lower, upper = np.zeros(len(q)), np.minimum(q / p[x], 1)
    other = (p > 0) & (np.arange(len(q)) != x)
    if family != "any" and (p * q).any():
        kept = q[x] / p[x] >= np.divide(q, p, out=np.zeros(len(q)), where=p > 0)
        upper = np.where(other & kept, 0, upper)
        if family == "monotone":
            lower[x] = q[x]
            upper = np.where(other, np.minimum(upper, q), upper)
    return np.maximum(lower, 1 - (upper.sum() - upper)), np.minimum(upper, 1 - (lower.sum() - lower))


def compiled_box(p: Floats, q: Floats, x: int) -> Box:
    """Each cell's limits over the stable and monotone family, by the loops that plans are bounded with."""
    with np.errstate(divide="ignore"):
        pair = np.stack([p, q, np.log(p), np.log(q)])
    ints, floats, size = np.zeros((4, len(p)), np.int64), np.zeros((8, len(p))), len(p)
    found = [
        [_loops.monotone_mean(pair, size, x, np.eye(size)[j], sign, ints, floats) for j in range(size)]
        for sign in (-1, 1)
    ]
    return np.array(found[0]), np.array(found[1])


def worst_case(boxes: list[list[list[Box]]], rewards: Floats, discount: float, first: int) -> float:
    """The largest worst case of any plan, by an interval recursion; boxes by step, state and action."""
    later = np.zeros(len(rewards))
    for at_step in reversed(boxes):
        now = np.full(len(rewards), -np.inf)
        for state, by_action in enumerate(at_step):
            for action, (lower, upper) in enumerate(by_action):
                order = np.argsort(later)
                row, left = lower.copy(), 1 - lower.sum()
                for j in order:
                    more = min(upper[j] - lower[j], left)
                    row[j], left = row[j] + more, left - more
                now[state] = max(now[state], rewards[state, action] + discount * float(row @ later))
        later = now
    return float(later[first])


def grid_world() -> None:
    """Lally et al.: the intervals of their three calculators, and worst cases of plans over the families."""
    sys.modules.setdefault("h5py", ModuleType("h5py"))
    room = "bound_calculators.calculate_cf_bounds"
    calculators = {
        "any": import_module(f"{room}_no_assumptions").CFBoundCalculatorNoAssumptions,
        "row stable": import_module(f"{room}_CS_only").CFBoundCalculatorCSOnly,
        "monotone": import_module(room).CFBoundCalculator,
    }
    for name in ("gridworld_less_stochastic", "gridworld_more_stochastic"):
        grid = import_module(name).MDP()
        transitions, rewards = grid.transition_matrix, grid.rewards
        size, actions = rewards.shape
        gains = np.broadcast_to(rewards[:, :, None], transitions.shape)
        mdp = FiniteMDP.from_dense(transitions, gains, start=0, discount=grid.discount)
        usual = np.full((size, actions), 1 / actions)
        log = simulate(mdp, usual, num_episodes=EPISODES, horizon=GRID_STEPS, key=jax.random.key(0))
        steps = log.steps()
        seen = np.unique(np.stack([steps.state, steps.action, steps.next_state], axis=1), axis=0)
        apart = dict.fromkeys((*calculators, "compiled"), 0.0)
        for state, action, after in seen[:: max(1, len(seen) // TRANSITIONS)].tolist():
            p = transitions[state, action]
            for family, calculator in calculators.items():
                theirs = calculator(state, action, after, transitions).calculate_all_bounds()
                for other, instead in np.ndindex(size, actions):
                    if (other, instead) == (state, action):
                        continue
                    q = transitions[other, instead]
                    box = box_of(family, p, q, after)
                    apart[family] = max(apart[family], float(np.abs(np.stack(box, 1) - theirs[other, instead]).max()))
                    if family == "monotone":
                        own = np.abs(np.subtract(compiled_box(p, q, after), box)).max()
                        apart["compiled"] = max(apart["compiled"], float(own))
        found = ", ".join(f"{each} {gap:.1e}" for each, gap in apart.items())
        show(f"{name}: intervals differ by at most {found}")
        assert max(apart.values()) < 1e-12
        _values(mdp, log, rewards, transitions)
    above = 0
    random = np.random.default_rng(0)
    for p, q in random.dirichlet(np.ones(4), size=(PAIRS, 2)):
        row = gumbel_max_rows(p, q[None], 0)[0]
        lower, upper = box_of("monotone", p, q, 0)
        above += bool((row < lower - 1e-9).any() or (row > upper + 1e-9).any())
    show(f"Gumbel-max lies outside of the stable and monotone family in {above / PAIRS:.0%} of {PAIRS} random pairs")


def _values(mdp: FiniteMDP, log: EpisodeLog, rewards: Floats, transitions: Floats) -> None:
    """Worst cases of the best plans, family by family."""
    found, apart = [], 0.0
    below = 0.0
    for one in range(len(log)):
        model, own = changed(mdp, log.select([one])), {}
        for family in ("any", "stable", "monotone"):
            own[family] = float(model.guaranteed(family)[0].lower[0, -1])
        found.append((own["any"], own["stable"], own["monotone"]))
        if one < 10:
            wanted = {
                each: worst_case(_boxes(each, log, one, transitions), rewards, mdp.discount, 0) for each in _BOXED
            }
            apart = max(apart, abs(wanted["any"] - own["any"]), abs(wanted["monotone"] - own["monotone"]))
            below = max(below, wanted["row stable"] - own["stable"])
    any_coupling, stable, monotone = np.array(found).T
    show(
        f"  worst cases by an interval recursion: any and monotone differ by {apart:.1e} at most; a stable row alone "
        f"is never above stable couplings (by {below:.1e} at most); stable and monotone is above stable in "
        f"{np.mean(monotone > stable + 1e-9):.0%} of {len(found)} episodes"
    )
    assert apart < 1e-9
    assert below < 1e-9
    assert (any_coupling <= stable + 1e-9).all()


_BOXED = ("any", "row stable", "monotone")


def _boxes(family: str, log: EpisodeLog, one: int, transitions: Floats) -> list[list[list[Box]]]:
    size, actions = transitions.shape[:2]
    found = []
    for step in range(int(log.lengths[one])):
        state, action, after = (
            int(each) for each in (log.states[one, step], log.actions[one, step], log.states[one, step + 1])
        )
        kept = np.eye(size)[after]
        found.append(
            [
                [
                    (kept, kept)
                    if (c, b) == (state, action)
                    else box_of(family, transitions[state, action], transitions[c, b], after)
                    for b in range(actions)
                ]
                for c in range(size)
            ]
        )
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(folder))
    (best_first_changes if (folder / "src").is_dir() else grid_world)()
