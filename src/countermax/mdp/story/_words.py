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
        """What could turn the sign around: nothing, if every coupling agrees, and with other data too."""
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
        return f"is robust: it holds whatever is assumed about luck, and with {self.doubted.level:.0%} confidence over other data"


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

    def gain(self, effect: float) -> str:
        """What a decision would have done: `raised the chance of survival by 12 percentage points`."""
        only = [] if self.rewards is None else np.flatnonzero(self.rewards).tolist()
        if self.rewards is None or len(only) != 1 or self.discount != 1:
            return f"added {effect:.2g} to the return"
        points = 100 * effect / self.rewards[only[0]]
        return f"{'raised' if points > 0 else 'lowered'} the chance of {self.ends[only[0]]} by {_points(abs(points))}"

    def between(self, lower: float, upper: float) -> str:
        """A range of gains."""
        only = [] if self.rewards is None else np.flatnonzero(self.rewards).tolist()
        if self.rewards is None or len(only) != 1 or self.discount != 1:
            return f"{lower:.2g} to {upper:.2g}"
        low, high = sorted(100 * each / float(self.rewards[only[0]]) for each in (lower, upper))
        return f"{low:.0f} to {high:.0f} points"


def behind(visits: float | None) -> str:
    """How many visits are behind a sentence, to be put after it."""
    if visits is None or np.isnan(visits):
        return ""
    told = f"{visits:.0f} visit{'' if visits == 1 else 's'}"
    return f" (rests on {told} only)" if visits < FEW_VISITS else f" (rests on {told})"


def few(visits: float | None) -> bool:
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
    """`step 3`, `steps 3, 4 and 7`."""
    *most, last = map(str, steps)
    return f"steps {', '.join(most)} and {last}" if most else f"step {last}"


def _points(number: float) -> str:
    return f"{number:.0f} percentage point{'' if round(number) == 1 else 's'}"


def _beyond(limits: Bounds | Interval, sign: int) -> bool:
    """Whether all of a range lies on one side of zero."""
    return bool(limits.lower > SMALL if sign > 0 else limits.upper < -SMALL)
