"""Command lines that hardly make sense: words of all commands thrown together."""

import random

from fuzz.case import Case

_COMMANDS = (
    *("compare", "counterfactuals", "transitions", "evaluate-policy", "explain", "train", "evaluate", "studies"),
    *("demo", "version", ""),
)
_WORDS = (
    *("--json", "--out", "--help", "-h", "--version", "--p", "0.5,0.5", "rows.csv", "--seed", "-1", "--", "-o"),
    *("plot", "all", "--preset", "best", "--seeds", "0", "--jobs", "\u00e9", "\udce9.csv", "--observed=", "="),
    *("run.toml", "--couplings", "gumbel-max", "--level", "nan", "--as-published", "x" * 5000),
)
_STUDIES = (
    *("plot", "plot nowhere", "plot rows.csv", "nothing", "sepsis x", "table1 --preset=x", "table1 --seeds=0"),
    *("table1 --jobs=0", "maximality --as-published", "", "--help", "plot --help"),
)
_ROWS = b"status,p_a,p_b,q_a,q_b\na,0.5,0.5,0.2,0.8\n"


def make(rng: random.Random) -> Case:
    """Anything; no experiment is started by it."""
    command = rng.choice(_COMMANDS)
    words = [rng.choice(_WORDS) for _ in range(rng.randint(0, 6))]
    if command == "studies":
        words = rng.choice(_STUDIES).split()
    if command == "demo":
        words = rng.choice((["x"], ["--out"], ["--help"], ["--out=rows.csv"]))
    if command == "train":
        words = [each for each in words if each != "run.toml"]
    argv = tuple(each for each in (command, *words) if each != "" or rng.random() < 0.5)
    return Case("plain", argv=argv or ("--help",), files={"rows.csv": _ROWS}, process=rng.random() < 0.03)
