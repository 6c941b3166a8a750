"""Calls from Python about logs, processes and trainings."""

import random
from typing import Any

from fuzz.calls import vocabulary
from fuzz.case import Case

_NAMES = (["home", "ward", "dead"], ["10", "2", "1"], ["01", "1", "1.0"], ["None", "nan", "x"])
_BAD_FITS = (
    *("steps=0", "steps=-1", "steps=2.5", "steps='a'", "batch_size=0", "batch_size=10**12", "num_held_out=0"),
    *("num_held_out=10**12", "evaluate_every=0", "evaluate_every=-1", "patience=0", "patience=-1", "learning_rate=nan"),
    *("learning_rate=-1.0", "objective='none'", "clip=-1.0", "clip=0.0"),
)
_BAD_PROCESSES = (
    "mdp.FiniteMDP.from_dense([[[0.5, 0.6]], [[0.0, 1.0]]], [[0.0], [0.0]], start=0)",
    "mdp.FiniteMDP.from_dense([[[nan, 1.0]], [[0.0, 1.0]]], [[0.0], [0.0]], start=0)",
    "mdp.FiniteMDP.from_dense([[[-1.0, 2.0]], [[0.0, 1.0]]], [[0.0], [0.0]], start=0)",
    "mdp.FiniteMDP.from_dense([[[0.5, 0.5]], [[0.0, 1.0]]], [[nan], [0.0]], start=0)",
    "mdp.FiniteMDP.from_dense([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [0.0]], start=2)",
    "mdp.FiniteMDP.from_dense([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [0.0]], start=[0.5, 0.6])",
    "mdp.FiniteMDP.from_dense([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [0.0]], start=0, discount=1.5)",
    "mdp.FiniteMDP.from_dense([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [0.0]], start=0, state_names=['a', 'a'])",
    "mdp.FiniteMDP.from_dense([0.5, 0.5], [0.0], start=0)",
    "mdp.FiniteMDP.from_dense('abc', [0.0], start=0)",
    "mdp.FiniteMDP.from_dense([], [], start=0)",
)


def make(rng: random.Random) -> Case:
    """One call."""
    makers = ((_policy, 8), (_fit, 1), (_process, 1), (_stored, 2))
    functions, weights = zip(*makers, strict=True)
    return rng.choices(functions, weights)[0](rng)


def _policy(rng: random.Random) -> Case:
    """A log in a frame: states and actions as positions, as names, or as names that look like positions."""
    size, num_actions = 3, 2
    episodes = []
    for _ in range(rng.choice((1, 2, 3))):
        state, steps = rng.randrange(size - 1), []
        for _ in range(rng.choice((1, 2, 3))):
            after = rng.randrange(size)
            steps.append([state, rng.randrange(num_actions), after, rng.choice((0.0, 1.0, -0.5))])
            if after == size - 1:
                break
            state = after
        episodes.append(steps)
    chances = [vocabulary.probabilities(rng, num_actions) for _ in range(size)]
    means: dict[str, Any] = {"asked": "policy", "episodes": episodes, "policy": chances}
    way = rng.choice(("positions", "names", "names", "numbers beside names", "fractions"))
    names, options = rng.choice(_NAMES), ""
    shown: list[Any] = list(range(size))
    if way == "fractions":
        shown = [float(each) for each in shown]
    if way == "names":
        shown, options = names, f", state_names={names!r}"
    if way == "numbers beside names":
        names = ["10", "2", "1"]
        options = f", state_names={names!r}"
        means["refuse"] = "numbers where names are texts"
    columns: dict[str, list[Any]] = {
        name: [] for name in ("episode", "step", "state", "action", "next_state", "reward")
    }
    for number, steps in enumerate(episodes):
        for at, (state, action, after, reward) in enumerate(steps):
            row = (number, at, shown[state], action, shown[after], reward)
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
    sizes = "num_actions=2" if options else f"num_states={size}, num_actions=2"
    log = f"mdp.EpisodeLog.from_frame(pd.DataFrame({columns!r}), {sizes}{options})"
    source = f"mdp.Cohort({log}, np.array({chances!r})).evaluate(['gumbel-max', 'maximal'], num_resamples=0)"
    return Case("python", source=source, means=means)


def _fit(rng: random.Random) -> Case:
    bad = rng.choice(_BAD_FITS)
    options = {"steps": "steps=2", "batch_size": "batch_size=2", "num_held_out": "num_held_out=2"}
    options[bad.partition("=")[0]] = bad
    gadget = "Gadget2(3, 2, key=jax.random.key(0), hidden=(4,))"
    call = f"learning.fit({gadget}, learning.RandomPairs(3), learning.Disagreement(), key=jax.random.key(0), "
    return Case(
        "python",
        source=f"{call}training=learning.Training({', '.join(options.values())}))",
        means={"asked": "anything", "refuse": f"fits with {bad}"},
    )


def _process(rng: random.Random) -> Case:
    return Case("python", source=rng.choice(_BAD_PROCESSES), means={"asked": "anything", "refuse": "no process"})


def _stored(rng: random.Random) -> Case:
    """There and back: a coupling answers the same after it was saved and loaded."""
    p, q, x = vocabulary.question(rng, 3)
    order = rng.sample(range(3), 3)
    source = f"double(couplings.load(couplings.save(InverseCDF({order!r}), 'x.safetensors')).counterfactual_probs, "
    return Case(
        "python",
        source=f"{source}log({p!r}), log({q!r}), {x})",
        means={"asked": "row", "p": p, "q": q, "x": x, "order": order, "outputs": ["x.safetensors"]},
    )
