"""`countermax evaluate-policy` and `countermax explain`: every estimate, every episode."""

from fractions import Fraction
from functools import partial
from typing import Any

from fuzz.case import Case, Failure
from fuzz.hands import Outcome
from fuzz.hygiene import dirty
from fuzz.judges.common import (
    Line,
    answered,
    check_output,
    first,
    odd_text,
    off,
    real_number,
    taken_apart,
    verdict,
    whole_number,
)
from fuzz.judges.compare import PICTURES
from fuzz.second import estimates, logs
from fuzz.second.questions import words
from fuzz.second.reading import MustRefuseError, UnsureError, read_sheet

_NAMES = {"gumbel-max": "Gumbel-max", "inverse-cdf": "inverse CDF", "maximal": "maximal", "independent": "independent"}
_TOLERANCE = 1e-8


def judge_evaluation(case: Case, outcome: Outcome) -> Failure | None:
    """Every estimate of the policy's value."""
    line = taken_apart(case.argv)
    picture = line.option("--plot")
    found = dirty(case, outcome, outputs=[picture] if picture else [])
    if found is not None:
        return found

    def expected() -> Any:
        log, policy, horizon, discount, couplings = _asked(case, line)
        resamples = whole_number(line.option("--num-resamples", "100") or "")
        if resamples < 0:
            raise MustRefuseError("too few resamples")
        if resamples > 10**8:
            raise MustRefuseError("more resamples than there is memory for")
        if not 0 <= whole_number(line.option("--seed", "0") or "") < 2**32:
            raise MustRefuseError("no seed")
        if picture is not None:
            check_output(case, line, picture, PICTURES)
        if "--json" not in line.flags:
            return lambda: odd_text(case, outcome)
        model = estimates.estimated(log)
        within = estimates.restricted(log, model, policy)
        exact = estimates.estimates(log, model, within, horizon, discount)
        lasting = estimates.compared(log, model, horizon)
        for word in couplings:
            values = estimates.replayed(log, model, within, word, lasting, discount)
            exact[f"counterfactual, {_NAMES[word]}"] = sum(values) / len(values)

        def check() -> str:
            given = answered(outcome)
            told = {each["name"]: each["value"] for each in given["estimates"]}
            blend = told.pop("MAGIC")
            if set(told) != set(exact):
                return f"estimates {sorted(told)}, {sorted(exact)} expected"
            wrong = first(*(_off(name, told[name], value) for name, value in exact.items()))
            return wrong or first(
                "" if isinstance(blend, float) else f"MAGIC is {blend}",
                _off("effective size", given["effective_sample_size"], estimates.effective_size(log, model, within)),
                "" if given["num_episodes"] == len(log.episodes) else f"{given['num_episodes']} episodes",
            )

        return check

    return verdict(outcome, expected)


def judge_explanation(case: Case, outcome: Outcome) -> Failure | None:
    """The ranking of all episodes, or the story of one."""
    line = taken_apart(case.argv)
    outputs = [line.options[name] for name in ("--plot", "--page") if name in line.options]
    found = dirty(case, outcome, outputs=outputs)
    if found is not None:
        return found

    def expected() -> Any:
        log, policy, horizon, discount, couplings = _asked(case, line)
        if not couplings:
            raise MustRefuseError("no coupling to explain by")
        episode = line.option("--episode")
        if "--page" in line.options and episode is None:
            raise MustRefuseError("a page without an episode")
        if "--plot" in line.options:
            check_output(case, line, line.options["--plot"], PICTURES)
        if "--page" in line.options:
            if line.options["--page"] in case.files:
                raise MustRefuseError("an output over an input")
            if not line.options["--page"].lower().endswith((".html", ".htm")):
                raise UnsureError("a page by another name")
        if episode is not None and episode not in [_episode(name) for name in log.episodes]:
            raise UnsureError("an episode that is not there, or written another way")
        model = estimates.estimated(log)
        within = estimates.restricted(log, model, policy)
        lasting = estimates.compared(log, model, horizon)
        if episode is not None and not any(model.ends(steps[-1].successor) for steps in log.episodes.values()):
            raise UnsureError("no episode comes to an end")
        if "--json" not in line.flags:
            return lambda: odd_text(case, outcome)
        values = {word: estimates.replayed(log, model, within, word, lasting, discount) for word in couplings}
        limits = estimates.bounds(log, model, within, lasting, discount)
        earned = estimates.returns(log, discount)
        names = [_episode(name) for name in log.episodes]

        def check() -> str:
            given = answered(outcome)
            if episode is None:
                if sorted(map(_episode, given["episodes"])) != sorted(names):
                    return f"episodes {given['episodes']}, {names} expected"
                return first(
                    *(
                        _wrong_rank(given, each, names, earned, values, limits, model_drawn(line))
                        for each in given["episodes"]
                    )
                )
            place, told = names.index(episode), partial(_row, given, "return", f"episode {given['episode']}")
            return first(
                "" if _episode(given["episode"]) == episode else f"episode {given['episode']!r}, {episode!r} expected",
                _off("observed return", told("observed")["value"], earned[place]),
                ""
                if model_drawn(line)
                else first(
                    *(_off(f"value, {word}", told(_NAMES[word])["value"], values[word][place]) for word in couplings),
                    _narrow("bounds", told("any coupling"), *limits[place]),
                ),
            )

        return check

    return verdict(outcome, expected)


def _row(given: dict[str, Any], quantity: str, about: str, coupling: str) -> dict[str, Any]:
    """The one row; a return is called a score where nothing but ends counts."""
    names = ("return", "score") if quantity == "return" else (quantity,)
    of = [each for each in given["rows"] if (each["about"], each["coupling"]) == (about, coupling)]
    (found,) = [each for each in of if each["quantity"] in names]
    return dict(found)


def _wrong_rank(
    given: dict[str, Any],
    episode: Any,
    names: list[str],
    earned: list[Fraction],
    values: dict[str, list[Fraction]],
    limits: list[tuple[Fraction, Fraction]],
    drawn: bool,
) -> str:
    place, about = names.index(_episode(episode)), f"episode {episode}"
    here, told = earned[place], partial(_row, given, "effect", about)
    return first(
        _off("observed", _row(given, "return", about, "observed")["value"], here),
        ""
        if drawn
        else first(
            *(
                _off(f"effect, {word}", told(_NAMES[word])["value"], each[place] - here)
                for word, each in values.items()
            ),
            _narrow("effects", told("any coupling"), limits[place][0] - here, limits[place][1] - here),
        ),
    )


def model_drawn(line: Line) -> bool:
    """Whether values are means over transition models that were drawn, which no second program draws alike."""
    return whole_number(line.option("--num-draws", "100") or "") > 0


def _narrow(what: str, given: dict[str, Any], lower: Any, upper: Any) -> str:
    """Complains about a range that leaves out what it must hold; rewards that vary within a transition widen it."""
    slack = 1e-9 * (1 + abs(float(lower)) + abs(float(upper)))
    fits = given["lower"] <= float(lower) + slack and float(upper) <= given["upper"] + slack
    return "" if fits else f"{what} are {given['lower']} to {given['upper']}, {float(lower)} to {float(upper)} expected"


def _asked(case: Case, line: Line) -> tuple[logs.Log, logs.Policy, int, Fraction, list[str]]:
    if len(line.positional) != 1:
        raise MustRefuseError("not one log")
    names = [line.positional[0], line.needed("--policy")]
    for name in names:
        if name not in case.files:
            raise MustRefuseError("no such file")
        if not name.lower().endswith((".csv", ".parquet")):
            raise UnsureError("a file of another kind")
    couplings = words(line.option("--couplings", "gumbel-max,inverse-cdf") or "")
    if len(set(couplings)) < len(couplings):
        raise MustRefuseError("a coupling twice")
    if any(each in case.files for each in couplings):
        raise UnsureError("a stored coupling")
    if any(each not in _NAMES for each in couplings):
        raise MustRefuseError("no such coupling")
    log, policy = logs.read_log(*(read_sheet(name, case.files[name]) for name in names))
    discount = real_number(line.option("--discount", "1") or "")
    if not 0 <= discount <= 1:
        raise MustRefuseError("no discount")
    horizon = whole_number(line.option("--horizon", str(log.longest)) or "")
    if horizon < 0:
        raise MustRefuseError("a negative horizon")
    if horizon > 10**7:
        raise UnsureError("a long way to go")
    if horizon < log.longest:
        raise UnsureError("episodes that are longer than the horizon")
    if max((abs(step.reward) for steps in log.episodes.values() for step in steps), default=0) > 10**12:
        raise UnsureError("rewards beyond what double precision can add up")
    return log, policy, horizon, Fraction(discount), couplings


def _episode(name: Any) -> str:
    """As people write it: 1 and 1.0 are one number, and so one episode."""
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)


def _off(name: str, found: Any, exact: Any) -> str:
    if exact is None:
        return "" if found is None else f"{name} is {found!r}, nothing expected"
    return off(name, found, exact, _TOLERANCE)
