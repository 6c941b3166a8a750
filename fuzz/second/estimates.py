"""What a policy would be worth, and what would have become of each episode: loops over dictionaries of fractions."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fuzz.second.laws import Law, law_of
from fuzz.second.logs import Action, Log, Policy, State, Step
from fuzz.second.reading import UnsureError

_LEAST_RATIO = Fraction(1, 10**300)  # of probabilities; smaller ones are promised to count as nothing


@dataclass(frozen=True)
class Model:
    """The process as the log's frequencies have it."""

    rows: dict[tuple[State, Action], dict[State, Fraction]]
    rewards: dict[tuple[State, Action, State], Fraction]
    counts: dict[State, Counter[Action]]

    def ends(self, state: State) -> bool:
        """Whether nothing is known of what follows."""
        return state not in self.counts


def estimated(log: Log) -> Model:
    """Frequencies of what followed, means of what was earned."""
    seen: dict[tuple[State, Action], Counter[State]] = defaultdict(Counter)
    earned: dict[tuple[State, Action, State], list[Fraction]] = defaultdict(list)
    counts: dict[State, Counter[Action]] = defaultdict(Counter)
    for steps in log.episodes.values():
        for step in steps:
            seen[step.state, step.action][step.successor] += 1
            earned[step.state, step.action, step.successor].append(step.reward)
            counts[step.state][step.action] += 1
    return Model(
        {key: {after: Fraction(times, row.total()) for after, times in row.items()} for key, row in seen.items()},
        {key: sum(each) / len(each) for key, each in earned.items()},
        dict(counts),
    )


def restricted(log: Log, model: Model, policy: Policy) -> Policy:
    """The policy among actions that were seen; where it wants none of them, what was done most often."""
    found: Policy = {}
    for state, counts in model.counts.items():
        kept = {action: chance for action, chance in policy[state].items() if chance and counts[action]}
        total = sum(kept.values())
        if total:
            found[state] = {action: chance / total for action, chance in kept.items()}
        else:
            most = max(counts.values())
            usual = [action for action in log.actions if counts[action] == most]
            if len(usual) > 1:
                raise UnsureError("two actions were most frequent")
            found[state] = {usual[0]: Fraction(1)}
    return found


def returns(log: Log, discount: Fraction) -> list[Fraction]:
    """What each episode earned."""
    return [
        sum((discount**t * step.reward for t, step in enumerate(steps)), Fraction(0)) for steps in log.episodes.values()
    ]


def ratios(log: Log, model: Model, policy: Policy) -> list[list[Fraction]]:
    """How much likelier each episode is under the policy, up to each step; behaviour is by frequency."""
    found = []
    for steps in log.episodes.values():
        running, row = Fraction(1), []
        for step in steps:
            done = Fraction(model.counts[step.state][step.action], model.counts[step.state].total())
            running *= policy[step.state].get(step.action, Fraction(0)) / done
            running = running if running >= _LEAST_RATIO else Fraction(0)
            row.append(running)
        found.append(row)
    return found


def compared(log: Log, model: Model, horizon: int) -> list[int]:
    """How many steps of each episode count: all, unless it stops where others were seen to continue."""
    return [
        horizon if len(steps) >= horizon or model.ends(steps[-1].successor) else len(steps)
        for steps in log.episodes.values()
    ]


def estimates(log: Log, model: Model, policy: Policy, horizon: int, discount: Fraction) -> dict[str, Fraction | None]:
    """Every estimate without a coupling, by the name that results show; all are of the policy among actions seen."""
    policy = restricted(log, model, policy)
    earned, weights = returns(log, discount), ratios(log, model, policy)
    count, last = len(earned), [row[-1] for row in weights]
    total, lasting = sum(last), compared(log, model, horizon)
    episodes = list(log.episodes.values())
    follow = followed(log, lasting, horizon)
    values = planned(model, policy, follow, discount)  # by time
    plan = sum(values[0].get(steps[0].state, Fraction(0)) for steps in episodes)
    sums = dict.fromkeys(("gains", "weighted gains", "surprises", "weighted surprises"), Fraction(0))
    unknown = False
    for t in range(log.longest):
        here = [place for place in range(count) if t < lasting[place]]
        weight = {place: (weights[place][t] if t < len(weights[place]) else last[place]) for place in here}
        mean = sum(weight.values()) / Fraction(len(here) or 1)
        unknown = unknown or (bool(here) and not mean)
        for place in here:
            if t >= len(episodes[place]):
                continue
            step, going = episodes[place][t], t + 1 < lasting[place]
            share = weight[place] / mean if mean else Fraction(0)
            gain = discount**t * step.reward
            surprise = discount**t * (
                step.reward
                + (discount * values[t + 1].get(step.successor, Fraction(0)) if going else 0)
                - _worth(model, step.state, step.action, values[t + 1], discount * follow[t])
            )
            sums["gains"] += weight[place] * gain
            sums["weighted gains"] += share * gain
            sums["surprises"] += weight[place] * surprise
            sums["weighted surprises"] += share * surprise
    paid = sum(a * b for a, b in zip(last, earned, strict=True))
    return {
        "observed return": sum(earned) / count,
        "ordinary importance sampling": paid / count if total else None,
        "per-decision importance sampling": sums["gains"] / count,
        "weighted importance sampling": paid / total if total else None,
        "weighted per-decision importance sampling": None if unknown else sums["weighted gains"] / count,
        "marginalised importance sampling": marginalised(log, model, policy, horizon, discount),
        "doubly robust": (plan + sums["surprises"]) / count,
        "weighted doubly robust": (plan + sums["weighted surprises"]) / count,
        "model-based": plan / count,
    }


def marginalised(log: Log, model: Model, policy: Policy, horizon: int, discount: Fraction) -> Fraction:
    """Shares of the policy's episodes in each state at each time, carried on by the logged steps of that time."""
    episodes, total = list(log.episodes.values()), Fraction(0)
    shares: dict[State, Fraction] = {}
    for steps in episodes:
        shares[steps[0].state] = shares.get(steps[0].state, Fraction(0)) + Fraction(1, len(episodes))
    for t in range(min(horizon, log.longest)):
        here = [steps for steps in episodes if t < len(steps)]
        there = Counter(steps[t].state for steps in here)
        later: dict[State, Fraction] = {}
        for steps in here:
            step = steps[t]
            done = Fraction(model.counts[step.state][step.action], model.counts[step.state].total())
            ratio = policy[step.state].get(step.action, Fraction(0)) / done
            carried = shares.get(step.state, Fraction(0)) * ratio / there[step.state]
            total += discount**t * carried * step.reward
            if t + 1 < len(steps):
                later[step.successor] = later.get(step.successor, Fraction(0)) + carried
        shares = later
    return total


def effective_size(log: Log, model: Model, policy: Policy) -> Fraction:
    """The squared sum of the weights over the sum of their squares."""
    last = [row[-1] for row in ratios(log, model, policy)]
    return sum(last) ** 2 / sum(each**2 for each in last) if any(last) else Fraction(0)


def followed(log: Log, lasting: list[int], horizon: int) -> list[Fraction]:
    """After each step, the chance to be followed for another one: of those at risk, who was not cut off just then."""
    seen = [min(len(steps), horizon) for steps in log.episodes.values()]
    found = []
    for t in range(horizon):
        longer = sum(each > t + 1 for each in seen)
        cut = sum(each == t + 1 and most < horizon for each, most in zip(seen, lasting, strict=True))
        found.append(Fraction(longer, longer + cut) if longer + cut else Fraction(1))
    return found


def planned(model: Model, policy: Policy, follow: list[Fraction], discount: Fraction) -> list[dict[State, Fraction]]:
    """What is still to come from each state at each time."""
    values: list[dict[State, Fraction]] = [{}]
    for share in reversed(follow):
        later = values[0]
        values.insert(
            0,
            {
                state: sum(
                    (chance * _worth(model, state, action, later, discount * share) for action, chance in row.items()),
                    Fraction(0),
                )
                for state, row in policy.items()
            },
        )
    return values


def _worth(model: Model, state: State, action: Action, later: dict[State, Fraction], discount: Fraction) -> Fraction:
    row = model.rows[state, action]
    return sum(
        (
            chance * (model.rewards[state, action, after] + discount * later.get(after, Fraction(0)))
            for after, chance in row.items()
        ),
        Fraction(0),
    )


def replayed(
    log: Log, model: Model, policy: Policy, coupling: str, horizons: list[int], discount: Fraction
) -> list[Fraction]:
    """What each episode would have earned on average over so many steps, had the policy acted in its place."""
    memory: dict[Any, dict[State, Fraction]] = {}

    def row(step: Step | None, state: State, action: Action) -> dict[State, Fraction]:
        if step is None:
            return model.rows[state, action]
        key = (step.state, step.action, step.successor, state, action)
        if key not in memory:
            memory[key] = _answer(log, model, coupling, step, state, action)
        return memory[key]

    found = []
    for steps, horizon in zip(log.episodes.values(), horizons, strict=True):
        here, value = {steps[0].state: Fraction(1)}, Fraction(0)
        for t in range(horizon):
            after: dict[State, Fraction] = defaultdict(Fraction)
            for state, chance in here.items():
                if model.ends(state):
                    after[state] += chance
                    continue
                for action, wish in policy[state].items():
                    step = steps[t] if t < len(steps) else None
                    if step is not None and (step.state, step.action) == (state, action):
                        after[step.successor] += chance * wish  # as it was, and for what it earned
                        value += discount**t * chance * wish * step.reward
                        continue
                    for successor, each in row(step, state, action).items():
                        after[successor] += chance * wish * each
                        value += discount**t * chance * wish * each * model.rewards[state, action, successor]
            here = {state: chance for state, chance in after.items() if chance}
        found.append(value)
    return found


def _answer(log: Log, model: Model, coupling: str, step: Step, state: State, action: Action) -> dict[State, Fraction]:
    """Where the action would have led, given what was seen; outcomes are in the order of the states."""
    p, q = model.rows[step.state, step.action], model.rows[state, action]
    outcomes = [each for each in log.states if each in p or each in q]
    law: Law = law_of(coupling, len(outcomes))
    worlds = ([world.get(each, Fraction(0)) for each in outcomes] for world in (p, q))
    found = law(*worlds, outcomes.index(step.successor))
    return {each: chance for each, chance in zip(outcomes, found, strict=True) if chance}


def bounds(
    log: Log, model: Model, policy: Policy, horizons: list[int], discount: Fraction
) -> list[tuple[Fraction, Fraction]]:
    """The least and the largest value of each episode over so many steps and all couplings, backwards from its end."""
    pick: list[Callable[..., Fraction]] = [min, max]
    found = []
    for steps, horizon in zip(log.episodes.values(), horizons, strict=True):
        sides = []
        for which in pick:
            later: dict[State, Fraction] = {}
            for t in reversed(range(horizon)):
                step = steps[t] if t < len(steps) else None
                later = {
                    state: sum(
                        (
                            wish * _limit(model, step, state, action, later, discount, which)
                            for action, wish in policy[state].items()
                        ),
                        Fraction(0),
                    )
                    for state in model.counts
                }
            sides.append(later.get(steps[0].state, Fraction(0)))
        found.append((sides[0], sides[1]))
    return found


def _limit(
    model: Model,
    step: Step | None,
    state: State,
    action: Action,
    later: dict[State, Fraction],
    discount: Fraction,
    which: Callable[..., Fraction],
) -> Fraction:
    row = model.rows[state, action]
    worth = {after: model.rewards[state, action, after] + discount * later.get(after, Fraction(0)) for after in row}
    if step is None:
        return sum((chance * worth[after] for after, chance in row.items()), Fraction(0))
    if (step.state, step.action) == (state, action):
        return step.reward + discount * later.get(step.successor, Fraction(0))
    room = model.rows[step.state, step.action][step.successor]
    left, mean = Fraction(1), Fraction(0)
    for after in sorted(row, key=lambda each: worth[each], reverse=which is max):
        taken = min(left, row[after] / room)
        mean, left = mean + taken * worth[after], left - taken
    return mean
