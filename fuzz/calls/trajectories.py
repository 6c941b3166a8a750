"""Command lines of `countermax evaluate-policy` and `countermax explain`, over logs that are made for them."""

import io
import random
from typing import Any

from fuzz.calls import vocabulary
from fuzz.case import Case

_STATES = (
    ["home", "ward", "icu", "dead", "well"],
    ["0", "1", "2", "3", "4"],
    ["10", "2", "1", "20", "3"],
    ["01", "1", "1.0", "2", "02"],
    ["None", "nan", "NA", "a", "b"],
    ["a,b", 'c"d', "\u00e9", "x y", "#1"],
)
_ACTIONS = (["wait", "treat", "stop"], ["0", "1", "2"], ["None", "drug", "nan"], ["10", "9", "1"], ["1", "01", "1.0"])
_COUPLINGS = ("gumbel-max", "inverse-cdf", "maximal", "independent")


def make_evaluation(rng: random.Random) -> Case:
    """What a policy is worth."""
    files, options, flags, _ = _logged(rng)
    options["--num-resamples"] = str(rng.choice((0, 0, 0, 3)))
    if rng.random() < 0.06:
        options["--num-resamples"] = rng.choice(("-1", "1000000000", "x"))
    if rng.random() < 0.15:
        options["--seed"] = rng.choice(("1", "4294967295", "4294967296", "-1", "99999999999999999999"))
    return _case(rng, "evaluate-policy", files, options, flags)


def make_explanation(rng: random.Random) -> Case:
    """A ranking, or a story."""
    files, options, flags, episodes = _logged(rng)
    if rng.random() < 0.5:
        options["--episode"] = rng.choice(episodes) if rng.random() < 0.9 else rng.choice(("nobody", "", "1.0", "01"))
    if rng.random() < 0.05:
        options["--page"] = rng.choice(("story.html", "story.html", "log.csv", "story"))
    options["--num-draws"] = rng.choice(("0", "0", "0", "3"))
    return _case(rng, "explain", files, options, flags)


def _case(rng: random.Random, command: str, files: dict[str, bytes], options: dict[str, str], flags: list[str]) -> Case:
    if rng.random() < 0.9:
        flags.append("--json")
    if rng.random() < 0.2:
        options["--discount"] = rng.choice(("0.9", "0", "1", "0.5", "-0.1", "1.1", "nan", "x"))
    if rng.random() < 0.15:
        options["--horizon"] = rng.choice(("1", "5", "7", "0", "-1", "x", "1000000000000000000000"))
    if rng.random() < 0.5:
        options["--couplings"] = ",".join(rng.sample(_COUPLINGS, rng.randint(1, 3)))
    if rng.random() < 0.03:
        options["--couplings"] = rng.choice(("", ",", "comonotone", "gumbel-max,gumbel-max", "nowhere.safetensors"))
    if rng.random() < 0.03:
        options.pop(rng.choice(list(options)), None)
    if rng.random() < 0.008:
        options["--plot"] = "picture.png"
    argv = [command, next(iter(files)), *(f"{name}={value}" for name, value in options.items()), *flags]
    return Case(command, argv=tuple(argv), files=files, process=rng.random() < 0.01)


def _logged(rng: random.Random) -> tuple[dict[str, bytes], dict[str, str], list[str], list[str]]:
    states = rng.choice(_STATES)[: rng.choice((2, 3, 4, 5))]
    actions = rng.choice(_ACTIONS)[: rng.choice((1, 2, 2, 3))]
    ends = states[-1:] if rng.random() < 0.8 else []
    base = rng.choice((0, 0, 1))
    named = rng.choice((["1", "2", "3", "10", "20"], ["p1", "p2", "p3", "p4", "p5"], ["01", "1", "2", "3", "4"]))
    episodes = named[: rng.choice((1, 2, 3, 5))]
    rows: list[list[Any]] = []
    for episode in episodes:
        state = rng.choice([each for each in states if each not in ends] or states)
        for step in range(rng.choice((1, 2, 3, 4))):
            after = rng.choice(states)
            reward = rng.choice(("0", "1", "-1", "0.5", repr(round(rng.gauss(0, 1), 3))))
            rows.append([episode, str(step + base), state, rng.choice(actions), after, reward])
            if after in ends:
                break
            state = after
    if rng.random() < 0.3:
        rng.shuffle(rows)
    decisions = [["state", "action", "probability"]]
    for state in states:
        if rng.random() < 0.5:
            decisions.append([state, rng.choice(actions), "1"])
            continue
        chances = vocabulary.probabilities(rng, len(actions))
        decisions += [[state, action, repr(chance)] for action, chance in zip(actions, chances, strict=True)]
    if all(row[2] == "1" for row in decisions[1:]) and rng.random() < 0.5:
        decisions = [row[:2] for row in decisions]
    log = [["episode", "step", "state", "action", "next_state", "reward"], *rows]
    if rng.random() < 0.2:
        _spoil(rng, log, decisions)
    if rng.random() < 0.2:
        order = rng.sample(range(6), 6)
        log = [[row[each] if each < len(row) else "" for each in order] for row in log]
    kinds = rng.choice((("csv", "csv"), ("csv", "csv"), ("parquet", "parquet"), ("csv", "parquet")))
    names = [f"log.{kinds[0]}", f"policy.{kinds[1]}"]
    typed = kinds[0] == kinds[1] and rng.random() < 0.5  # beside a CSV, whose labels are texts, they must be texts too
    files = {
        name: _written(rng, kind, rows, typed) for name, kind, rows in zip(names, kinds, (log, decisions), strict=True)
    }
    return files, {"--policy": names[1]}, [], episodes


def _spoil(rng: random.Random, log: list[list[Any]], decisions: list[list[Any]]) -> None:
    table = rng.choice((log, log, decisions))
    at = rng.randrange(1, len(table))
    place = rng.randrange(len(table[at]))
    kind = rng.randrange(8)
    if kind < 4:
        table[at][place] = rng.choice(("", "nan", "-1", "x", "None", "1e400", "9", "0.5", "99999999999999999999"))
    elif kind == 4:
        del table[at]
    elif kind == 5:
        table.append(list(table[at]))
    elif kind == 6:
        table[0][place] = rng.choice(("", "State", "state", "x"))
    else:
        for row in table:
            del row[place]


def _written(rng: random.Random, kind: str, rows: list[list[Any]], typed: bool) -> bytes:
    if kind == "csv":
        text = vocabulary.as_csv(rows)
        return rng.choice((text.encode(), text.encode(), text.encode(), text.encode("utf-8-sig")))
    import pyarrow as pa
    from pyarrow import parquet

    header, *body = rows
    arrays = []
    for place, name in enumerate(header):
        texts = [None if row[place] == "" else row[place] for row in body]
        if name in ("step", "reward", "probability") or (typed and all(_whole(each) for each in texts)):
            try:
                arrays.append(pa.array([None if each is None else float(each) for each in texts], pa.float64()))
                if name == "step" or (typed and name not in ("reward", "probability") and rng.random() < 0.7):
                    arrays[-1] = arrays[-1].cast(pa.int64())
                continue
            except (ValueError, pa.ArrowInvalid):
                arrays = arrays[:place]
        arrays.append(pa.array(texts, pa.string()))
    out = io.BytesIO()
    parquet.write_table(pa.Table.from_arrays(arrays, header), out)
    return out.getvalue()


def _whole(text: str | None) -> bool:
    return text is not None and text.isdigit() and (text == "0" or not text.startswith("0")) and len(text) < 15
