"""The sentences of a story: what happened, what would have happened, how sure that is, what would change it."""

from collections.abc import Iterator

import numpy as np

from countermax.bounds import Bounds
from countermax.intervals import Interval
from countermax.mdp._posterior import UNDOUBTED
from countermax.mdp.story import _words
from countermax.mdp.story._story import Story
from countermax.mdp.story._words import DATA, LUCK, Told, behind

_SMALL = 0.005  # widths below this are not worth a sentence


def tell(story: Story) -> Told:
    """All of it."""
    return Told(tuple(_happened(story)), tuple(_instead(story)), tuple(_sure(story)), tuple(_changes(story)))


def _happened(story: Story) -> Iterator[str]:
    steps = len(story.given)
    spent = f"{steps} steps" if steps > 1 else "one step"
    if story.ended:
        yield f"In {spent} the episode came to its end: {story.state_labels[-1]}."
    else:
        yield f"After {spent} the record stops without an end, at: {story.state_labels[-1]}."
    if story.end_rewards is None:
        yield f"It earned {story.observed_return:.3g} in all."
    else:
        yield story.meaning.told()
    if len(story.differing) == steps > 1:
        yield "In the recorded states the other policy would rather have done something else at every step."
    elif story.differing:
        steps_told = _words.steps_in_words(story.differing)
        yield f"In the recorded states the other policy would rather have done something else at {steps_told}."
    else:
        yield "In the recorded states the other policy would have done the same at every step."


def _instead(story: Story) -> Iterator[str]:
    if story.ends:
        answers = {name: _chances(story, name) for name in story.chances}
        yield f"Under the other policy: {_words.by_coupling(answers)}{_least(story)}."
    if story.end_rewards is None:
        answers = {name: f"{each:.3g}" for name, each in story.values.items()}
        yield f"Under the other policy it would have earned on average {_words.by_coupling(answers)}{_least(story)}."
    if story.best is None:
        if story.decisions:
            yield "No other single decision would have helped."
        return
    best, name = story.best, next(iter(story.values))
    claim = _words.claim_of(best)
    within = story.meaning.between(*best.effect_bounds, gain=True)
    if best.doubted is not None:
        other = story.meaning.between(*best.doubted[:2], gain=True)
        within = f"{within} whatever is assumed about luck, {other} with other data too"
    else:
        within = f"{within} whatever is assumed about luck"
    yield (
        f"The single decision that would have mattered most: at step {best.step}, "
        f"{story.action_names[best.other_action]} instead of {story.action_names[best.action]} would have "
        f"{story.meaning.gain(best.effect)} by {name}{behind(best.visits)}; that this would have helped {claim.sure} "
        f"({within})."
    )


def _sure(story: Story) -> Iterator[str]:
    names = list(story.values)
    which = f"{' and '.join(names)} are two assumptions" if len(names) == 2 else f"{', '.join(names)}: assumptions"
    yield (
        "No record shows how the luck of this episode would have carried over to other treatment; "
        + (f"{names[0]} is one assumption" if len(names) == 1 else which)
        + f" about that ({'a coupling' if len(names) == 1 else 'couplings'})."
    )
    yield f"{_ranges(story)}{_least(story)}."
    claim = story.claim
    word = "better" if claim.effect > 0 else "worse"
    if claim.same:
        other = "; with other data it might" if claim.depends_on else ""
        yield (
            f"The other policy would not have changed the {story.meaning.measure}, whatever is assumed about luck"
            f"{other}{_least(story)}."
        )
    else:
        yield f"That it would have been {word} {claim.sure}{_least(story)}."
    width = story.step_bounds.width
    if len(width) and width.max() > _SMALL:
        step = int(width.argmax())
        within = story.meaning.between(float(story.step_bounds.lower[step]), float(story.step_bounds.upper[step]))
        yield (
            f"What is assumed about luck matters most at step {step}: another assumption there alone could move the "
            f"{story.meaning.measure} anywhere from {within}{behind(float(story.visits[step]))}."
        )
    rare = np.flatnonzero(story.visits < _words.FEW_VISITS).tolist()
    if rare:
        yield (
            f"What the other policy would have done at {_words.steps_in_words(rare)} was seen fewer than "
            f"{_words.FEW_VISITS} times: read that as a guess."
        )


def _ranges(story: Story) -> str:
    least, most = story.value_bounds
    said, other = [], []
    if story.ends:
        said += [_words.ranges(story.ends, story.chance_bounds), *_open(story, story.unfinished_bounds)]
        if story.chances_doubted is not None and story.unfinished_doubted is not None:
            other += [_words.ranges(story.ends, story.chances_doubted), *_open(story, story.unfinished_doubted)]
    if story.end_rewards is None:
        said.append(f"earning {least:.3g} to {most:.3g}")
        if story.doubted is not None:
            other.append(f"earning {story.doubted.lower:.3g} to {story.doubted.upper:.3g}")
    told = f"Whatever is assumed about luck: {', '.join(said)}"
    if story.doubted is not None:
        told += f"; with other data too ({100 * story.doubted.level:g}% confidence): {', '.join(other)}"
    return told


def _changes(story: Story) -> Iterator[str]:
    claim, (least, most), measure = story.claim, story.value_bounds, story.meaning.measure
    earned = story.observed_return
    turned = "could change the answer" if LUCK in claim.depends_on else "would not change the answer"
    yield (
        f"Another assumption about luck {turned}: over all of them the {measure} would be "
        f"{story.meaning.between(least, most)}; it was {story.meaning.between(earned, earned)}{_least(story)}."
    )
    if story.doubted is None:
        yield "Other data: the process is not doubted here, so nothing is said of how another sample would have been."
    else:
        turned = "could change the answer" if DATA in claim.depends_on else "would hardly change the answer"
        yield (
            f"Other data {turned}: with {100 * story.doubted.level:g}% confidence over them, and any assumption about "
            f"luck, the {measure} would be {story.meaning.between(*story.doubted[:2])}{_least(story)}."
        )
    yield f"Something that the records do not hold. {UNDOUBTED}"
    yield f"Another horizon: {_steps(story)} {'is' if story.num_steps == 1 else 'are'} compared in both worlds. " + (
        _horizon(story)
    )


def _horizon(story: Story) -> str:
    """What the horizon leaves out."""
    recorded = len(story.given)
    if not story.ended and story.num_steps > recorded:
        return f"The record stops after {recorded} without an end; from there the model carries both worlds on."
    if not story.ended:
        return "No end is recorded within them; what came later in either world is not counted."
    most = max(*story.unfinished.values(), float(story.unfinished_bounds.upper))
    if most < _SMALL:
        return "The episode came to its end within them, and so would the other world: nothing is left out."
    answers = {name: f"{each:.0%}" for name, each in story.unfinished.items()}
    return (
        "The episode came to its end, so nothing of it is left out; but the other world would not have ended by then "
        f"with a chance of {_words.by_coupling(answers)}, and what came later there is not counted."
    )


def _chances(story: Story, name: str) -> str:
    """The chance of each end and, where there is any, that of another end or of none."""
    told, unfinished = [_words.chances(story.ends, story.chances[name])], story.unfinished[name]
    other = 1 - float(story.chances[name].sum()) - unfinished
    told += [f"another end {other:.0%}"] * (other >= _SMALL)
    return ", ".join(told + [f"no end within {_steps(story)} {unfinished:.0%}"] * (unfinished >= _SMALL))


def _open(story: Story, limits: Bounds | Interval) -> list[str]:
    """How likely no end may be, where it may be at all."""
    return [f"no end within {_steps(story)} {limits.lower:.0%} to {limits.upper:.0%}"] * bool(limits.upper >= _SMALL)


def _steps(story: Story) -> str:
    return f"{story.num_steps} step{'' if story.num_steps == 1 else 's'}"


def _least(story: Story) -> str:
    """The visits behind the least known step, as words in brackets."""
    known = story.visits[~np.isnan(story.visits)]
    return behind(float(known.min()), "its least known step ") if len(known) else ""
