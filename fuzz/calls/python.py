"""Calls of the library from Python: arrays, frames and numbers of many kinds."""

import random
from typing import Any

from fuzz.calls import vocabulary
from fuzz.case import Case

_COUPLINGS = {
    "gumbel-max": "GumbelMax()",
    "inverse-cdf": "InverseCDF()",
    "maximal": "Maximal()",
    "independent": "Independent()",
}
_NOT_SEEDS = ("-1", "2**32", "2**64", "1.5", "'0'", "True", "None")
_NOT_NUMBERS = (
    *("'abc'", "None", "[]", "[[0.5, 0.5]]", "[0.5, None]", "['a', 'b']", "[nan, 1.0]", "{}", "0.5", "[1j, 0]"),
    *("np.zeros((0,))", "[True, False]"),
)


def make(rng: random.Random) -> Case:
    """One call."""
    makers = ((_compare, 5), (_law, 6), (_bounds, 3), (_effect, 2), (_draws, 1), (_frame, 7), (_seeds, 1), (_wrong, 2))
    functions, weights = zip(*makers, strict=True)
    return rng.choices(functions, weights)[0](rng)


def _array(rng: random.Random, values: list[float]) -> str:
    """A vector as somebody may hand it in."""
    text = repr(values)
    return rng.choice((text, f"np.array({text})", f"tuple({text})"))


def _compare(rng: random.Random) -> Case:
    size = vocabulary.sized(rng)
    p, q, x = vocabulary.question(rng, size)
    labels = vocabulary.labels(rng, size)
    means: dict[str, Any] = {"asked": "compare", "p": p, "q": q, "x": x, "labels": labels}
    parts, seen = [_array(rng, p), _array(rng, q), f"labels={labels!r}"], repr(labels[x])
    kind = rng.randrange(6)
    if kind == 0:  # by label, in another order
        order = rng.sample(range(size), size)
        shuffled = {labels[place]: q[place] for place in order}
        parts[1] = f"pd.Series({shuffled!r})" if rng.random() < 0.5 else repr(shuffled)
        parts[0] = f"pd.Series({dict(zip(labels, p, strict=True))!r})" if rng.random() < 0.5 else parts[0]
    elif kind == 1:
        parts, seen = parts[:2], rng.choice((str(x), f"np.int64({x})", f"np.int32({x})"))
        means["labels"] = [str(place) for place in range(size)]
    if rng.random() < 0.4:
        means["score"] = vocabulary.scores(rng, size)
        parts.append(f"score={means['score']!r}")
    if "" in labels:
        means["unsure"] = "a label that means something else"
    return Case("python", source=f"countermax.Worlds({', '.join(parts)}).compare({seen})", means=means)


def _law(rng: random.Random) -> Case:
    size = vocabulary.sized(rng)
    p, q, x = vocabulary.question(rng, size)
    name = rng.choice(list(_COUPLINGS))
    coupling = _COUPLINGS[name]
    means: dict[str, Any] = {"p": p, "q": q, "coupling": name, "x": x}
    if name == "inverse-cdf" and rng.random() < 0.5:
        means["order"] = rng.sample(range(size), size)
        coupling = f"InverseCDF(np.array({means['order']!r}))"
    single = rng.random() < 0.4
    if single:
        means["single"] = True
        if min(each for each in (*p, *q) if each) < 1e-30:
            means["unsure"] = "below single precision"
    asked = rng.choice(("row", "row", "joint"))
    means["asked"] = asked
    if rng.random() < 0.1:
        means["x"] = rng.choice((-1, size, size + 5))
        if asked == "joint":
            means["x"] = x
    call = f"{coupling}.counterfactual_probs" if asked == "row" else f"{coupling}.joint"
    arguments = f"log({p!r}), log({q!r})" + (f", {means['x']}" if asked == "row" else "")
    return Case("python", source=f"{call}({arguments})" if single else f"double({call}, {arguments})", means=means)


def _bounds(rng: random.Random) -> Case:
    size = vocabulary.sized(rng)
    p, q, x = vocabulary.question(rng, size)
    means: dict[str, Any] = {"p": p, "q": q, "x": x, "asked": "outcome bounds"}
    call = f"double(bounds.outcome_bounds, log({p!r}), log({q!r}), {x})"
    if rng.random() < 0.5:
        means |= {"asked": "score bounds", "score": vocabulary.scores(rng, size)}
        call = f"double(bounds.score_bounds, log({p!r}), log({q!r}), {x}, np.array({means['score']!r}))"
    return Case("python", source=call, means=means)


def _effect(rng: random.Random) -> Case:
    size = vocabulary.sized(rng)
    p, q, _ = vocabulary.question(rng, size)
    name = rng.choice(list(_COUPLINGS))
    means = {"p": p, "q": q, "coupling": name, "asked": "effect", "score": vocabulary.scores(rng, size)}
    call = (
        f"double(countermax.treatment_effect, {_COUPLINGS[name]}, log({p!r}), log({q!r}), np.array({means['score']!r}))"
    )
    return Case("python", source=call, means=means)


def _draws(rng: random.Random) -> Case:
    size = vocabulary.sized(rng)
    p, q, x = vocabulary.question(rng, size)
    name = rng.choice(list(_COUPLINGS))
    means: dict[str, Any] = {"p": p, "q": q, "x": x, "coupling": name, "asked": "draws"}
    if p[x] < 1e-6:
        means["unsure"] = "so rare that single precision loses its place"
    call = (
        f"jax.vmap(lambda key: {_COUPLINGS[name]}.counterfactual(log({p!r}), log({q!r}), {x}, key=key))"
        f"(jax.random.split(jax.random.key({rng.randrange(2**32)}), 2000))"
    )
    return Case("python", source=call, means=means)


def _frame(rng: random.Random) -> Case:
    """Counterfactuals, transitions or effects of a frame."""
    size = vocabulary.sized(rng)
    count = rng.choice((1, 2, 5))
    rows = [vocabulary.question(rng, size) for _ in range(count)]
    labels, shown = _labels(rng, size)
    library = rng.choice(("pandas", "polars", "arrow"))
    seen: list[Any] = [labels[x] for _, _, x in rows]
    means: dict[str, Any] = {
        "p": [p for p, _, _ in rows],
        "q": [q for _, q, _ in rows],
        "x": [x for _, _, x in rows],
        "labels": labels,
        "names": [str(each) for each in labels],
        "coupling": rng.choice(list(_COUPLINGS)),
    }
    options = ["outcome='status'", "factual='p_'", "counterfactual='q_'"]
    if rng.random() < 0.2:
        place = rng.randrange(count)
        seen[place], means["x"][place] = None, None
    elif rng.random() < 0.15:
        place = rng.randrange(count)
        means["q"][place] = [-0.25, *means["q"][place][1:]]
    columns: dict[str, Any] = {"status": seen}
    for at, name in enumerate(means["names"]):
        columns[f"p_{name}"] = [row[at] for row in means["p"]]
        columns[f"q_{name}"] = [row[at] for row in means["q"]]
    if rng.random() < 0.3:
        options[1] = f"factual=np.array({means['p']!r})"
        options[2] = f"counterfactual=np.array({means['q']!r})"
        options.append(f"labels={labels!r}")
    if rng.random() < 0.3:
        options.append("errors='missing'")
        means["missing"] = True
    asked = rng.choice(("table", "table", "transitions", "effects"))
    means["asked"] = asked
    if asked == "effects":
        means["score"] = vocabulary.scores(rng, size)
        options.append(f"score={means['score']!r}")
    verb = {
        "table": f"counterfactuals({means['coupling']!r})",
        "transitions": f"transitions({means['coupling']!r}, num_resamples=0)",
        "effects": "effects()",
    }[asked]
    frame = _framed(library, columns, shown)
    collides = {"most_likely", "coupling_matters", "problem", "score", "x_lower"} & set(means["names"])
    if collides:
        means["unsure"] = "a label that means something else"
    if asked == "effects" and len({label for label in means["x"] if label is not None}) == 0:
        means["unsure"] = "nothing was seen"
    return Case("python", source=f"countermax.Rows({frame}, {', '.join(options)}).{verb}", means=means)


def _labels(rng: random.Random, size: int) -> tuple[list[Any], str]:
    """Labels of one type, and that type."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.sample(range(10), size), "int"
    if kind == 1 and size == 2:
        return [False, True], "bool"
    return vocabulary.labels(rng, size), "text"


def _framed(library: str, columns: dict[str, Any], shown: str) -> str:
    """A frame as an expression; a column with a gap keeps its type."""
    kind = {"int": "Int64", "bool": "boolean", "text": "object"}[shown]
    if library == "pandas":
        rest = {name: each for name, each in columns.items() if name != "status"}
        return f"pd.DataFrame({{'status': pd.Series({columns['status']!r}, dtype={kind!r}), **{rest!r}}})"
    if library == "polars":
        return f"pl.DataFrame({columns!r}, strict=False)"
    return f"pa.table({columns!r})"


def _seeds(rng: random.Random) -> Case:
    """Seeds that are none."""
    seed = rng.choice(_NOT_SEEDS)
    worlds = "factual='p_', counterfactual='q_'"
    frame = "pd.DataFrame({'s': ['a', 'b'], 'p_a': 0.5, 'p_b': 0.5, 'q_a': 0.2, 'q_b': 0.8})"
    call = rng.choice(
        (
            f"countermax.Rows({frame}, outcome='s', {worlds}).transitions(num_resamples=5, seed={seed})",
            f"countermax.Rows({frame}, {worlds}).pairs(most=1, seed={seed})",
        )
    )
    return Case("python", source=call, means={"asked": "anything", "refuse": f"a seed of {seed}"})


def _wrong(rng: random.Random) -> Case:
    """Arguments that are no numbers, or no question."""
    bad = rng.choice(_NOT_NUMBERS)
    good = "[0.5, 0.5]"
    call = rng.choice(
        (
            f"countermax.Worlds({bad}, {good})",
            f"countermax.Worlds({good}, {bad})",
            f"countermax.Worlds({good}, {good}, score={bad})" if bad != "None" else "countermax.Worlds([], [])",
            f"GumbelMax().joint({bad}, {good})",
            f"bounds.outcome_bounds({bad}, {good}, 0)",
            f"countermax.treatment_effect(GumbelMax(), {good}, {good}, {bad})",
            f"InverseCDF({rng.choice(('[0, 0]', '[1.5]', '[]', '[-1, 0]', '[2, 3]'))})",
            f"Optimal({rng.choice(('[[1, 2]]', '[1, 2]', '[[nan]]', '[]', '[[1, 2], [3]]'))})",
            f"couplings._named.as_coupling({rng.choice(('3', 'GumbelMax', repr('x'), '[]', 'None'))})",
            "countermax.maximality_gap([nan, 0.0], [0.0, 0.0])",
        )
    )
    return Case("python", source=call, means={"asked": "anything", "refuse": "no question"})
