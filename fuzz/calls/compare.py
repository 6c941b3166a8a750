"""Command lines of `countermax compare`."""

import math
import random

from fuzz.calls import vocabulary
from fuzz.case import Case

_OUTSIDE = (
    {"stdout": "closed"},
    {"stdout": "head"},
    {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {},
    {},
)


def make(rng: random.Random) -> Case:
    """One question, with or without labels and scores; some of them no question."""
    size = vocabulary.sized(rng)
    p, q, x = vocabulary.question(rng, size)
    options: dict[str, str] = {}
    flags = []
    if rng.random() < 0.15:
        flags.append("--logits")
        p, q = ([math.log(each) if each else -math.inf for each in world] for world in (p, q))
        if rng.random() < 0.5:
            p = [each + 1.5 for each in p]
        if rng.random() < 0.2:
            p = [each * 3 for each in p]
    elif rng.random() < 0.2:
        flags.append("--normalise")
        p, q = ([each * rng.choice((1, 7, 1e-5, 1e12)) for each in world] for world in (p, q))
    options["--factual"], options["--counterfactual"] = vocabulary.joined(p), vocabulary.joined(q)
    options["--seen"] = str(x)
    if rng.random() < 0.7:
        labels = vocabulary.labels(rng, size)
        options["--labels"], options["--seen"] = vocabulary.listed(labels), labels[x]
    if rng.random() < 0.4:
        options["--score"] = vocabulary.joined(vocabulary.scores(rng, size))
        if rng.random() < 0.4:
            options["--counterfactual-score"] = vocabulary.joined(vocabulary.scores(rng, size))
    if rng.random() < 0.85:
        flags.append("--json")
    if rng.random() < 0.01:
        options["--plot"] = rng.choice(("answers.png", "answers.svg", "answers.pdf", "answers.txt", "answers"))
    if rng.random() < 0.3:
        _spoil(rng, options, flags, size)
    argv = ["compare", *(f"{name}={value}" for name, value in options.items()), *flags]
    process = rng.random() < 0.015
    return Case("compare", argv=tuple(argv), process=process, outside=dict(rng.choice(_OUTSIDE)) if process else {})


def _spoil(rng: random.Random, options: dict[str, str], flags: list[str], size: int) -> None:
    """Makes one thing odd."""
    kind = rng.randrange(9)
    which = rng.choice(("--factual", "--counterfactual"))
    if kind == 0:
        parts = options[which].split(",")
        parts[rng.randrange(size)] = vocabulary.bad_number(rng)
        options[which] = ",".join(parts)
    elif kind == 1:
        options[which] += rng.choice((",", ",0", ",0.1"))
    elif kind == 2:
        options["--seen"] = rng.choice(("-1", str(size), "0.0", "00", "", "nobody", "1e0", " 0"))
    elif kind == 3:
        flags += [rng.choice(("--logits", "--normalise"))] * rng.choice((1, 1, 2))
    elif kind == 4:
        options["--labels"] = rng.choice(("a", "a,a,a", "", ",", '"', "a,b,c,d,e,f,g", "1,01,1.0"))
    elif kind == 5:
        options["--score"] = rng.choice(("1", "nan,1,2", "inf,0,0", "1e308,-1e308,0", "a,b,c", ""))
    elif kind == 6:
        options.pop(rng.choice(list(options)))
    elif kind == 7:
        options["--counterfactual-score"] = vocabulary.joined(vocabulary.scores(rng, size))
    else:
        options[rng.choice(("--nothing", "--jsn", "--observed"))] = "1"
