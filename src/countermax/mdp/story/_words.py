"""Numbers in words that need no knowledge of couplings: chances, gains, what an answer depends on, what it rests on."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from countermax.bounds import Bounds
from countermax.intervals import Interval
from countermax.mdp.replays import SMALL, Decision

FEW_VISITS = 5
"""What rests on fewer visits than this is marked."""

LUCK, DATA = "what is assumed about luck", "the data"


class Claim(NamedTuple):
    """One effect, with all that could make it another."""

    effect: float
    bounds: Bounds
    interval: Interval | None
    """By the same coupling, with other data."""
    doubted: Interval | None
    """By any coupling, with other data."""

    @property
    def same(self) -> bool:
        """Whether there is no effect, whatever the coupling."""
        return max(abs(self.bounds.lower), abs(self.bounds.upper), abs(self.effect)) <= SMALL

    @property
    def depends_on(self) -> tuple[str, ...]:
        """What could make it none, or the opposite: nothing, if every coupling agrees, and with other data too."""
        if self.same:
            known = self.doubted is None or max(abs(self.doubted.lower), abs(self.doubted.upper)) <= SMALL
            return () if known else (DATA,)
        sign = 1 if self.effect > 0 else -1
        agreed = _beyond(self.bounds, sign)
        sure = self.doubted is None or _beyond(self.doubted, sign)
        if agreed and sure:
            return ()
        by_data = self.interval is not None and not _beyond(self.interval, sign)
        return (() if agreed else (LUCK,)) + ((DATA,) if by_data or (agreed and not sure) else ())

    @property
    def sure(self) -> str:
        """How sure the sign is, in words."""
        if self.depends_on:
            return f"depends on {' and on '.join(self.depends_on)}"
        if self.doubted is None:
            return "holds whatever is assumed about luck, if the model is right"
        level = f"{100 * self.doubted.level:g}%"
        return f"is robust: it holds whatever is assumed about luck, and with {level} confidence over other data"


def claim_of(decision: Decision) -> Claim:
    """What is said of one decision."""
    return Claim(decision.effect, decision.effect_bounds, decision.interval, decision.doubted)


class Told(NamedTuple):
    """A story in sentences."""

    happened: tuple[str, ...]
    instead: tuple[str, ...]
    """What would have happened."""
    sure: tuple[str, ...]
    """How sure that is."""
    changes: tuple[str, ...]
    """What would change the answer."""


class Meaning(NamedTuple):
    """What the return stands for."""

    ends: tuple[str, ...]
    rewards: Float[np.ndarray, " e"] | None
    """What each end earns, where nothing else earns anything."""
    discount: float

    def scale(self) -> str:
        """What each end counts: `death -1, discharge 1`; empty where the return is a sum like any other."""
        if self.rewards is None:
            return ""
        return ", ".join(f"{end} {reward:g}" for end, reward in zip(self.ends, self.rewards, strict=True))

    def told(self) -> str:
        """The same as a sentence."""
        if self.rewards is None:
            return ""
        later = "" if self.discount == 1 else f", each step later worth {self.discount:g} of it"
        return f"The return counts nothing but how it ends: {self.scale()}, anything else 0{later}."

    @property
    def only(self) -> int | None:
        """The one end that counts; then a return is its chance."""
        counting = [] if self.rewards is None or self.discount != 1 else np.flatnonzero(self.rewards).tolist()
        return counting[0] if len(counting) == 1 else None

    @property
    def measure(self) -> str:
        """What is added to: `return`, or `chance of survival`."""
        return "return" if self.only is None else f"chance of {self.ends[self.only]}"

    @property
    def drawn(self) -> str:
        """What pictures of returns show: a chance only where an end counts just 1."""
        return self.measure if self._worth == 1 else "return"

    def gain(self, effect: float) -> str:
        """What a decision would have done: `raised the chance of survival by 12 percentage points`."""
        if self.only is None:
            return f"added {effect:.3g} to the return"
        points = 100 * effect / self._worth
        told = f"{abs(points):.0f} percentage point{'' if round(abs(points)) == 1 else 's'}"
        return f"{'raised' if points > 0 else 'lowered'} the {self.measure} by {told}"

    def between(self, lower: float, upper: float, *, gain: bool = False) -> str:
        """A range of returns, or of gains in them."""
        if self.only is None:
            return _range(f"{lower:z.3g}", f"{upper:z.3g}")
        low, high = sorted(100 * each / self._worth for each in (lower, upper))
        unit = " points" if gain else "%"
        return _range(f"{low:z.0f}", f"{high:z.0f}") + unit

    @property
    def _worth(self) -> float:
        return 1.0 if self.only is None or self.rewards is None else float(self.rewards[self.only])


def behind(visits: int | float | None, what: str = "") -> str:
    """How many visits are behind a sentence, to be put after it.

    Args:
        visits: Number of visits; None or NaN where nothing rests on them.
        what: Part of the sentence that rests on them, if not all of it.
    """
    if visits is None or np.isnan(visits):
        return ""
    only = " only" if visits < FEW_VISITS else ""
    return f" ({what}rests on {visits:.0f} visit{'' if visits == 1 else 's'}{only})"


def few(visits: int | float | None) -> bool:
    """Whether so few visits must be marked."""
    return visits is not None and bool(visits < FEW_VISITS)


def chances(ends: Sequence[str], numbers: Float[np.ndarray, " e"]) -> str:
    """`death 23%, discharge 61%`."""
    return ", ".join(f"{end} {each:.0%}" for end, each in zip(ends, numbers, strict=True))


def ranges(ends: Sequence[str], limits: Bounds | Interval) -> str:
    """`death 5% to 60%, discharge 20% to 80%`."""
    return ", ".join(
        f"{end} {least:.0%} to {most:.0%}" for end, least, most in zip(ends, limits.lower, limits.upper, strict=True)
    )


def by_coupling(answers: Mapping[str, str]) -> str:
    """The first answer, the others in brackets."""
    (name, first), *others = answers.items()
    rest = "; ".join(f"{other}: {each}" for other, each in others)
    return f"{first} by {name}" + (f" ({rest})" if rest else "")


def steps_in_words(steps: Sequence[int]) -> str:
    """`step 3`, `steps 0 to 4, 7`."""
    runs: list[list[int]] = []
    for step in steps:
        if runs and runs[-1][-1] == step - 1:
            runs[-1].append(step)
        else:
            runs.append([step])
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else " and ".join(map(str, run)) for run in runs]
    return f"step{'' if len(steps) == 1 else 's'} {', '.join(parts)}"


def _range(lower: str, upper: str) -> str:
    return lower if lower == upper else f"{lower} to {upper}"


def _beyond(limits: Bounds | Interval, sign: int) -> bool:
    """Whether all of a range lies on one side of zero."""
    return bool(limits.lower > SMALL if sign > 0 else limits.upper < -SMALL)
