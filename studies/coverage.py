"""Coverage and power of the intervals of comparisons: two arms, drawn again and again from a known truth."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, final

import jax
import numpy as np
from numpy.typing import NDArray

from countermax._core.page import Sheet, Value
from countermax._core.words import ANY, STABLE
from countermax.bounds import Bounds
from countermax.comparison._measuring import Found, Measures, intervals_of, many_solved
from countermax.couplings._named import named_couplings
from countermax.intervals import Interval
from countermax.intervals._linearised import win_limits
from countermax.intervals._sampling import of_counts
from studies.experiments import AbstractExperiment, Cell, CellContext, Result, Section, checked_preset
from studies.refits import NUM_REFITS, NUM_ROWS, STUDIES, refit_coverage

Floats = NDArray[np.float64]
Spans = dict[str, tuple[Any, Any]]
"""Least and largest of each number."""
_Many = Callable[[Floats, Floats], tuple[Found, Any]]


class Truth(NamedTuple):
    """The truth, whom the question is about, and how many people are in the two arms."""

    p: tuple[float, ...]
    q: tuple[float, ...]
    observed: int
    sizes: tuple[tuple[int, int], ...] = ((50, 50), (400, 400))


def _step_up(weights: Floats, size: int = 200) -> Truth:
    """Everybody gains one step, so that all thresholds tie, and the effect does not vary."""
    law = weights / weights.sum()
    return Truth((*law.tolist(), 0.0), (0.0, *law.tolist()), 1, ((size, size),))


def _tilted(num_outcomes: int, by: float, size: int) -> Truth:
    """Every outcome is favoured more than the one below it: nobody is worse off under Gumbel-max."""
    law = np.exp(by * np.arange(num_outcomes))
    p, q = (1 / num_outcomes,) * num_outcomes, tuple((law / law.sum()).tolist())
    return Truth(p, q, num_outcomes // 2, ((size, size),))


def _proportional_odds(p: tuple[float, ...], ratio: float, size: int) -> Truth:
    """The odds of being above any threshold are multiplied by one ratio."""
    below = np.cumsum(p)
    q = np.diff(below / (below + ratio * (1 - below)), prepend=0)
    return Truth(p, tuple(q.tolist()), 1, ((size, size),))


def _no_effect(weights: Floats, sizes: tuple[tuple[int, int], ...]) -> Truth:
    law = tuple((weights / weights.sum()).tolist())
    return Truth(law, law, 1, sizes)


_EVEN, _FALLING = (0.1, 0.2, 0.3, 0.4), (0.4, 0.3, 0.2, 0.1)
_RANKIN = (0.22, 0.08, 0.2, 0.18, 0.14, 0.1, 0.08)  # from dead to no symptoms
TRUTHS: dict[str, Truth] = {
    "no effect, 2 outcomes": Truth((0.4, 0.6), (0.4, 0.6), 0),
    "no effect, 4 outcomes": Truth(_EVEN, _EVEN, 1),
    "no effect, 8 outcomes": _no_effect(np.arange(8.0, 0, -1), ((100, 100), (400, 400))),
    "no effect, 15 outcomes": _no_effect(np.ones(15), ((400, 400),)),
    "clear effect": Truth(_FALLING, _EVEN, 0),
    "ratios nearly tied": Truth((0.5, 0.25, 0.25), (0.2, 0.39, 0.41), 1),
    "skewed": Truth((0.85, 0.1, 0.05), (0.7, 0.2, 0.1), 0),
    "skewed, no effect": Truth((0.7, 0.15, 0.1, 0.05), (0.7, 0.15, 0.1, 0.05), 3),
    "rare outcome": Truth((0.01, 0.5, 0.49), (0.04, 0.46, 0.5), 0),
    "most one step up, 6 outcomes": Truth((0.05, 0.15, 0.3, 0.3, 0.15, 0.05), (0.05, 0.05, 0.15, 0.3, 0.3, 0.15), 1),
    **{f"one step up, uniform, {size} outcomes": _step_up(np.ones(size - 1)) for size in (4, 6, 8)},
    **{f"one step up, decreasing, {size} outcomes": _step_up(np.arange(size - 1.0, 0, -1)) for size in (4, 6, 8)},
    "one outcome moves, 8 outcomes": Truth((0.125,) * 8, (0.0625, *(0.125,) * 6, 0.1875), 0, ((1000, 1000),)),
    "Rankin, 40 % of deaths to grade 5": Truth(_RANKIN, (0.132, 0.168, *_RANKIN[2:]), 0, ((500, 500),)),
    "boundary, 8 outcomes": _tilted(8, 0.1, 60),
    "boundary, 12 outcomes": _tilted(12, 0.1, 150),
    "unequal arms, no effect": Truth(_EVEN, _EVEN, 1, ((30, 1000), (1000, 30))),
    "unequal arms, clear effect": Truth(_FALLING, _EVEN, 0, ((30, 1000), (1000, 30))),
    "proportional odds, 4 outcomes": _proportional_odds((0.25,) * 4, 1.8, 100),
    "proportional odds, Rankin": _proportional_odds(_RANKIN, 1.5, 200),
    "two proportions, .35 and .50": Truth((0.65, 0.35), (0.5, 0.5), 0, ((150, 150),)),
}

COUPLINGS = ("gumbel-max", "inverse-cdf", "maximal", "independent")
LEVEL = 0.95
SEED = 20261118
"""Seed of samples on which no rule was tried."""

SCORE, PERCENTILE, BONFERRONI = "score", "percentile", "Bonferroni-Newcombe"
"""Intervals: the library's, those of the bootstrap, and Newcombe's for each threshold."""
BENEFIT, HARM, WIN = f"{ANY}: everybody better", f"{ANY}: everybody worse", "win probability"
TESTS = (BENEFIT, f"{BENEFIT}, {BONFERRONI}", WIN, "Mann-Whitney test", "chi-square test")
"""What may exclude that the treatment has no effect; the last one for two outcomes only."""

_QUANTITIES = {"all_better": "everybody better", "all_worse": "everybody worse"}
_NUM_RESAMPLES = 400
_ROUNDING = 1e-8


def coverage(
    truth: Truth, sizes: tuple[int, int], num_trials: int, seed: int, advance: Callable[[float], None] = lambda _: None
) -> Result:
    """Coverage and mean width of every number's interval, and how often no effect is excluded.

    Samples in which nobody had the outcome that the question is about do not count.

    Args:
        truth: The truth.
        sizes: Number of people in the two arms.
        num_trials: Number of samples.
        seed: Seed of the samples.
        advance: Function that is told which fraction is done.
    """
    p, q = np.asarray(truth.p), np.asarray(truth.q)
    score = np.arange(len(p), dtype=np.float64)
    held: dict[tuple[str, str], int] = {}
    widths: dict[tuple[str, str], float] = {}
    excluded = dict.fromkeys(TESTS if len(p) == 2 else TESTS[:-1], 0)
    with jax.enable_x64(True):
        many = many_solved(named_couplings(COUPLINGS), truth.observed, (score, score), False)
        whole = np.tile(np.concatenate([p, q]), (_NUM_RESAMPLES, 1))  # one shape, so that one program is compiled
        true = {name: (least[0], largest[0]) for name, (least, largest) in _spans(_solved(many, whole)).items()}
        for place in range(num_trials):
            stream = np.random.default_rng([seed, place])
            counts = _sample(stream, sizes, p, q, truth.observed)
            score_based = score_intervals(counts, truth.observed, many)
            percentile = _percentiles(_spans(_solved(many, _resampled(stream, counts, truth.observed))))
            bonferroni = {BENEFIT: better_limits(*counts), HARM: better_limits(counts[0][::-1], counts[1][::-1])}
            for method, found in ((SCORE, score_based), (PERCENTILE, percentile), (BONFERRONI, bonferroni)):
                for name, (lower, upper) in found.items():
                    least, largest = true[name]
                    key = method, name
                    held[key] = held.get(key, 0) + int(lower - _ROUNDING <= least and largest <= upper + _ROUNDING)
                    widths[key] = widths.get(key, 0.0) + float(upper - lower)
            for name, rejects in _rejecting(counts, score_based, bonferroni).items():
                excluded[name] += rejects
            advance((place + 1) / num_trials)
    numbers: Result = {method: {} for method in (SCORE, PERCENTILE, BONFERRONI)}
    for method, name in held:
        numbers[method][name] = {
            "coverage": held[method, name] / num_trials,
            "width": round(widths[method, name] / num_trials, 6),
        }
    return numbers | {"excludes no effect": {name: number / num_trials for name, number in excluded.items()}}


def score_intervals(counts: tuple[Floats, Floats], observed: int, many: _Many) -> Spans:
    """What the library says about two arms whose outcomes are scored by their order."""
    score, sampling = np.arange(len(counts[0]), dtype=np.float64), of_counts(counts, "")
    _, (intervals, _), _ = intervals_of(
        sampling, lambda *laws: ((many(*laws)[0], ()), None), observed, (score, score), len(COUPLINGS), LEVEL
    )
    wins = (score > score[:, None]) + 0.5 * (score == score[:, None])
    return _spans(intervals._replace(win_probability=Interval(*win_limits(sampling, wins, LEVEL), LEVEL)))


def _sample(
    stream: np.random.Generator, sizes: tuple[int, int], p: Floats, q: Floats, seen: int
) -> tuple[Floats, Floats]:
    """Counts of two arms; drawn again until somebody had the outcome in question."""
    here = stream.multinomial(sizes[0], p)
    while here[seen] == 0:
        here = stream.multinomial(sizes[0], p)
    return here.astype(np.float64), stream.multinomial(sizes[1], q).astype(np.float64)


def _resampled(stream: np.random.Generator, counts: tuple[Floats, Floats], seen: int) -> Floats:
    """[resamples, cells]: laws of both arms, with people drawn again; those in which somebody had the outcome."""
    parts = [stream.multinomial(int(each.sum()), each / each.sum(), _NUM_RESAMPLES) / each.sum() for each in counts]
    laws = np.concatenate(parts, axis=1)
    some = laws[laws[:, seen] > 0]
    return np.resize(some if len(some) else np.concatenate([each / each.sum() for each in counts]), laws.shape)


def _solved(many: _Many, laws: Floats) -> Found:
    with np.errstate(divide="ignore"):
        return many(*np.split(np.log(laws), 2, axis=1))[0]


def _spans(found: Found) -> Spans:
    """Every number or range, or its interval, by coupling and quantity; of many laws at once, too."""
    spans: Spans = {WIN: _ends(found.win_probability)}
    for coupling, measures in found.by.items():
        for field in Measures._fields[1:]:
            value = getattr(measures, field)
            if value is not None:
                spans[f"{coupling}: {_QUANTITIES.get(field, field.replace('_', ' '))}"] = _ends(value)
        lower, upper = _ends(measures.probabilities)
        spans |= {f"{coupling}: P({place})": (lower[..., place], upper[..., place]) for place in range(lower.shape[-1])}
    return spans


def _ends(value: Any) -> tuple[Any, Any]:
    both = (value.lower, value.upper) if isinstance(value, Bounds | Interval) else (value, value)
    return np.asarray(both[0]), np.asarray(both[1])


def _percentiles(drawn: Spans) -> Spans:
    """Of resampled numbers: the lower one of what is least, the upper one of what is largest."""
    least, largest = (np.stack(each) for each in zip(*drawn.values(), strict=True))
    lower, upper = np.quantile(least, (1 - LEVEL) / 2, axis=1), np.quantile(largest, (1 + LEVEL) / 2, axis=1)
    return dict(zip(drawn, zip(lower, upper, strict=True), strict=True))


def better_limits(control: Floats, treated: Floats, level: float = LEVEL) -> tuple[float, float]:
    """Limits of how many are better off, over any coupling: Newcombe's of each threshold, with Bonferroni's correction.

    At least `P(Y > t) - P(X > t)` are better off, and at most `P(Y > t) - P(X >= t) + 1`, for every threshold t.
    """
    above_here, above_there = (np.append(each[::-1].cumsum()[::-1], 0) for each in (control, treated))
    sizes, size = (above_here[0], above_there[0]), len(control)
    tail = (1 - level) / 2
    least = newcombe((above_there[1:size], above_here[1:size]), sizes[::-1], tail / max(size - 1, 1))[0]
    most = newcombe((above_there[1:], above_here[:-1]), sizes[::-1], tail / size)[1]
    return max(0.0, float(least.max())), min(1.0, 1 + float(most.min()))


def newcombe(counts: tuple[Floats, Floats], sizes: tuple[float, float], tail: float) -> tuple[Floats, Floats]:
    """Newcombe's hybrid score limits of differences of two proportions, the first minus the second."""
    from scipy.special import ndtri

    squared = float(ndtri(tail)) ** 2
    found, lower, upper = [], [], []
    for count, size in zip(counts, sizes, strict=True):
        middle = (count + squared / 2) / (size + squared)
        half = np.sqrt(squared * (count * (size - count) / size + squared / 4)) / (size + squared)
        found.append(count / size)
        lower.append(middle - half)
        upper.append(middle + half)
    difference = found[0] - found[1]
    return (
        difference - np.hypot(found[0] - lower[0], upper[1] - found[1]),
        difference + np.hypot(upper[0] - found[0], found[1] - lower[1]),
    )


def _rejecting(counts: tuple[Floats, Floats], found: Spans, bonferroni: Spans) -> dict[str, bool]:
    """Which intervals and tests exclude that the treatment has no effect."""
    from scipy.stats import chi2_contingency, mannwhitneyu

    here, there = (np.repeat(np.arange(float(len(each))), each.astype(int)) for each in counts)
    mann_whitney = mannwhitneyu(here, there, use_continuity=False, method="asymptotic").pvalue
    win = found[WIN]
    rejecting = [
        found[BENEFIT][0] > 0,
        bonferroni[BENEFIT][0] > 0,
        win[0] > 0.5 or win[1] < 0.5,
        mann_whitney <= 1 - LEVEL,
    ]
    if len(counts[0]) == 2:
        rejecting.append(chi2_contingency(np.stack(counts), correction=False).pvalue <= 1 - LEVEL)
    return {name: bool(each) for name, each in zip(TESTS, rejecting, strict=False)}


_NUM_TRIALS = {"quick": 20, "published": 1000, "best": 2000}
_KINDS = ("answers", ANY, STABLE, WIN)
_POWER = ("no effect", "skewed", "unequal arms, no effect", "proportional odds", "two proportions")
_ENOUGH, _NEVER = 0.93, "never"
_NUM_REFIT_TRIALS = {"quick": 4, "published": 500, "best": 500}
_COST_OF_REFITS = 20.0  # of a trial with refits, beside an outcome of a trial with two arms
_REFIT_KINDS = {
    "mean effect": "mean effect",
    "variance": "variance",
    "any coupling: variance": "variance, any coupling",
    "share": "transition shares",
    "any coupling: share": "transition shares, any coupling",
    "answer": "answers",
    "any coupling: answer": "answers, any coupling",
    "stable couplings: answer": "answers, stable couplings",
}


@final
class Coverage(AbstractExperiment):
    """Two arms, drawn again and again from a known truth."""

    name = "coverage"
    title = "Coverage of the intervals"

    def cells(self, preset: str, seeds: int | None) -> list[Cell]:
        """One for each truth and size of the arms, and for each truth of a table; `seeds` counts the trials."""
        number = _NUM_TRIALS[checked_preset(preset)] if seeds is None else seeds
        return [*self._of_arms(number), *self._of_tables(_NUM_REFIT_TRIALS[preset] if seeds is None else seeds)]

    def _of_arms(self, number: int) -> list[Cell]:
        found = []
        for name, truth in TRUTHS.items():
            for sizes in truth.sizes:
                settings = {
                    **{key: value for key, value in truth._asdict().items() if key != "sizes"},
                    "size": sizes,
                    "num_trials": number,
                    "seed": SEED,
                    "level": LEVEL,
                    "couplings": COUPLINGS,
                    "resamples": _NUM_RESAMPLES,
                }
                words = f"{sizes[0]} an arm" if sizes[0] == sizes[1] else "{} and {}".format(*sizes)
                found.append(Cell(self.name, f"{name}, {words}", settings, cost=float(len(truth.p) * number)))
        return sorted(found, key=lambda cell: -cell.cost)  # so that none that takes long is the last

    def _of_tables(self, number: int) -> list[Cell]:
        return [
            Cell(
                self.name,
                study,
                {"effect": effect, "rows": NUM_ROWS, "refits": NUM_REFITS, "num_trials": number, "level": LEVEL},
                cost=_COST_OF_REFITS * number,
            )
            for study, effect in STUDIES.items()
        ]

    def compute(self, cell: Cell, context: CellContext) -> Result | None:
        """Coverage and width of every number."""
        if context.train_only:
            return None
        if cell.name in STUDIES:
            return refit_coverage(cell.settings["effect"], cell.settings["num_trials"], 0, context.advance)
        truth = TRUTHS[cell.name.rsplit(", ", 1)[0]]
        return coverage(truth, tuple(cell.settings["size"]), cell.settings["num_trials"], SEED, context.advance)

    def section(self, stored: Mapping[str, Result]) -> Section:
        """The least coverage and the mean width, beside other intervals', and how often no effect is excluded."""
        arms = {name: result for name, result in stored.items() if name not in STUDIES}
        tables = {name: result for name, result in stored.items() if name in STUDIES}
        sheets = {
            "coverage": _sheet("Coverage of 95 % intervals: the least over all numbers", arms, _of_kinds(_least)),
            "coverage_truths": _sheet(
                "Coverage of 95 % intervals: the least over all numbers and sizes", _by_truth(arms), _of_kinds(_least)
            ),
            "coverage_numbers": _numbers_sheet(arms),
            "coverage_widths": _sheet(
                "Mean width, divided by that of percentile intervals where those cover as often",
                arms,
                {**_of_kinds(_ratio), f"benefit and harm, {BONFERRONI}": _beside_bonferroni},
            ),
            "coverage_width_summary": _width_sheet(arms),
            "coverage_power": _sheet(
                "Samples in which no effect is excluded",
                {name: result for name, result in arms.items() if name.startswith(_POWER)},
                {test.removeprefix(f"{BENEFIT}, "): partial(_excluding, test) for test in TESTS},
            ),
            **(
                {"coverage_refit": _refit_sheet(tables), "coverage_refit_summary": _refit_summary(tables)}
                if tables
                else {}
            ),
        }
        words = [
            "Two arms are drawn from a known truth; every number that a comparison prints has an interval, every range "
            "over couplings one that must cover all of it. Samples in which nobody had the outcome in question do not "
            "count. In parentheses: percentile bootstrap of the same numbers, on the same samples.",
            "People with a covariate and a treatment are drawn from a known logistic truth; a logistic regression is "
            "fitted to them, and fitted again on others of them (`Refit`). In parentheses: percentiles "
            "of refits. Beside it: intervals that take the classifier as known.",
        ]
        return Section(self.title, words, sheets)


def _by_truth(stored: Mapping[str, Result]) -> dict[str, Result]:
    """Of each truth, the least coverage of each number over all sizes, with the sizes in its name."""
    sizes: dict[str, list[str]] = {}
    for name in stored:
        truth, size = name.rsplit(", ", 1)
        sizes.setdefault(truth, []).append(size)
    found = {}
    for truth, each in sizes.items():
        results = [stored[f"{truth}, {size}"] for size in each]
        words = "; ".join(
            sorted((size.removesuffix(" an arm") for size in each), key=lambda size: int(size.split()[0]))
        )
        found[f"{truth} ({words})"] = {
            method: {
                name: min((result[method][name] for result in results), key=lambda number: number["coverage"])
                for name in results[0][method]
            }
            for method in (SCORE, PERCENTILE)
        }
    return found


def _sheet(title: str, stored: Mapping[str, Result], columns: Mapping[str, Callable[[Result], str]]) -> Sheet:
    headers = ("truth and size", *columns)
    lines = [[name, *(entry(result) for entry in columns.values())] for name, result in stored.items()]
    return Sheet(title, headers, ("",) * len(headers), lines)


def _of_kinds(entry: Callable[[Result, list[str]], str]) -> dict[str, Callable[[Result], str]]:
    """A column for each kind of number."""
    return {kind: partial(_about, entry, kind) for kind in _KINDS}


def _about(entry: Callable[[Result, list[str]], str], kind: str, result: Result) -> str:
    kinds = {name: next((each for each in _KINDS if name.startswith(each)), _KINDS[0]) for name in result[SCORE]}
    return entry(result, [name for name in kinds if kinds[name] == kind])


def _numbers_sheet(stored: Mapping[str, Result]) -> Sheet:
    """The least coverage over all truths, by quantity and coupling."""
    least: dict[tuple[str, str], float] = {}
    for result in stored.values():
        for name, each in result[SCORE].items():
            coupling, _, quantity = name.partition(": ")
            key = ("P(outcome)" if quantity.startswith("P(") else quantity, coupling)
            least[key] = min(least.get(key, 1.0), each["coverage"])
    couplings = dict.fromkeys((ANY, STABLE, *(coupling for quantity, coupling in least if quantity)))
    lines: list[list[Value]] = [
        [quantity, *(f"{least[quantity, each]:.1%}" if (quantity, each) in least else "" for each in couplings)]
        for quantity in dict.fromkeys(quantity for quantity, _ in least if quantity)
    ]
    headers = ("number", *couplings)
    return Sheet("Coverage of 95 % intervals: the least over all truths", headers, ("",) * len(headers), lines)


def _beside_bonferroni(result: Result) -> str:
    """The ratio of mean widths of who is better and worse off over any coupling, and the least coverage of both."""
    ours, theirs = ([result[method][name] for name in (BENEFIT, HARM)] for method in (SCORE, BONFERRONI))
    ratio = sum(each["width"] for each in ours) / sum(each["width"] for each in theirs)
    least = [min(each["coverage"] for each in both) for both in (ours, theirs)]
    return f"{ratio:.2f} ({least[0]:.1%}, {least[1]:.1%})"


def _width_sheet(stored: Mapping[str, Result]) -> Sheet:
    """Ratios of mean widths over all truths and sizes."""
    columns = _of_kinds(_ratio)
    beside = {f"{kind}, beside the bootstrap": entry for kind, entry in columns.items()}
    beside["benefit and harm, any coupling, beside Bonferroni-Newcombe"] = _beside_bonferroni
    lines: list[list[Value]] = []
    for name, entry in beside.items():
        ratios = [float(said.split()[0]) for said in map(entry, stored.values()) if said != _NEVER]
        if ratios:
            lines.append([name, *(f"{each:.2f}" for each in np.quantile(ratios, [0, 0.5, 1]))])
    headers = ("ratio of mean widths", "least", "median", "largest")
    return Sheet("Mean widths, divided by those of other intervals", headers, ("",) * len(headers), lines)


def _refit_summary(stored: Mapping[str, Result]) -> Sheet:
    """One line for each kind of number: the least coverage over all truths, and the range of mean widths."""
    sheet = _refit_sheet(stored)
    lines: list[list[Value]] = []
    for kind in _REFIT_KINDS.values():
        own = [[str(each) for each in line] for line in sheet.rows if line[1] == kind]
        least = min(own, key=lambda line: float(line[2].split("%")[0]))[2]
        ratios = [line[3].split()[0] for line in own if line[3] != _NEVER]
        known = [line[4] for line in own if line[4] != "none"]
        width = f"{min(ratios)} to {max(ratios)}" if ratios else _NEVER
        lines.append([kind, least, width, min(known, key=lambda each: float(each[:-1])) if known else "none"])
    return Sheet(sheet.caption, ("numbers", *sheet.columns[2:]), ("",) * 4, lines)


def _excluding(test: str, result: Result) -> str:
    found = result["excludes no effect"]
    return f"{found[test]:.1%}" if test in found else ""


def _refit_sheet(stored: Mapping[str, Result]) -> Sheet:
    """One line for each kind of number: the least coverage, and the mean width."""
    lines: list[list[Value]] = []
    for study, result in stored.items():
        for kind, words in _REFIT_KINDS.items():
            names = [name for name in result["refitted"] if name == kind or name.startswith(f"{kind} ")]
            known = [result["classifier as known"][name]["coverage"] for name in names if _is_known(result, name)]
            lines.append(
                [
                    study,
                    words,
                    _least(result, names, "refitted"),
                    _ratio(result, names, "refitted"),
                    f"{min(known):.1%}" if known else "none",
                ]
            )
    headers = ("truth", "numbers", "refitted", "width", "classifier as known")
    title = "Coverage of 95 % intervals where a classifier is fitted: the least over numbers"
    return Sheet(title, headers, ("",) * len(headers), lines)


def _is_known(result: Result, name: str) -> bool:
    """Whether a number has an interval without refits."""
    return name in result["classifier as known"]


def _least(result: Result, names: list[str], method: str = SCORE) -> str:
    ours, theirs = (min(result[each][name]["coverage"] for name in names) for each in (method, PERCENTILE))
    return f"{ours:.1%} ({theirs:.1%})"


def _ratio(result: Result, names: list[str], method: str = SCORE) -> str:
    """Of mean widths over numbers of a kind: those whose percentile intervals cover and have a width."""
    covered = [
        name
        for name in names
        if result[PERCENTILE][name]["coverage"] >= _ENOUGH and result[PERCENTILE][name]["width"] > 0
    ]
    if not covered:
        return _NEVER
    ours, theirs = (np.mean([result[each][name]["width"] for name in covered]) for each in (method, PERCENTILE))
    return f"{ours / theirs:.2f} ({len(covered)} of {len(names)} numbers)"
