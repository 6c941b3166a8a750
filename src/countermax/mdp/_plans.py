"""The best changes in words and numbers: of one episode, and of all of them."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float

from countermax import _plotting as plotting
from countermax._core.results import Row, Table, tables_of
from countermax._core.words import confidence, number, percent
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling
from countermax.couplings._named import name_of
from countermax.intervals import Interval
from countermax.mdp._arrays import Floats, Ints
from countermax.mdp._changes import FAMILIES, JUDGED, Changes, PathStep
from countermax.mdp._labels import spoken
from countermax.mdp._log import EpisodeLog
from countermax.mdp._planning import policy_values
from countermax.mdp._posterior import PosteriorDraws
from countermax.mdp._process import FiniteMDP
from countermax.mdp._replays._course import Setting
from countermax.mdp._replays._trajectories import Trajectories
from countermax.mdp._results import (
    ANY,
    PERSISTENT,
    SMALL,
    AbstractCohortResult,
    Claim,
    Context,
    Estimated,
    agreed_on,
    at,
    counted,
    draw_first,
    trusted,
    widest,
)

FADED = 0.05
"""Total variation below which what was logged no longer matters, unless `within` says otherwise."""
_MOST_TOLD, _MOST_LISTED = 3, 10  # changes in a sentence, and in the table
_RARE = 0.005  # ends that are less likely are not told
_RULE = (
    "Unchanged: the logged action, whatever the state; where it is not known there, and after the log's end, what was "
    "usual. Nothing is changed after the log's end."
)
_RANGE = (
    "Ranges of plans may be wider than need be: worst and best cases are taken apart for each number of changes left."
)
_MONOTONE = (
    "'stable and monotone': what was seen is at least as likely as it would be anyway, other outcomes that might have "
    "been seen at most as likely. Gumbel-max need not be."
)
_OPTIMISM = (
    "'In-sample' is the effect on the estimate that the plan was made on. It tends to be too large: the plan that "
    "looks best of all owes part of its lead to chance in the log."
)
_IN_SAMPLE = (
    "Plans are made and judged on one process. If that is an estimate, their effects tend to be too large: the plan "
    "that looks best of all owes part of its lead to chance in the log. A posterior judges them."
)


class BestPlan(NamedTuple):
    """The best plan of at most so many changes for one episode."""

    most: int
    """Largest number of changes."""
    effect: float
    """What it would have added: the mean over the posterior, unless the model is taken as given."""
    interval: Interval | None
    """Model uncertainty of the effect; None where the model is taken as given."""
    in_sample: float
    """What the process that it was made on promises."""
    bounds: Mapping[str, Bounds]
    """What the same plan would have added over families of couplings, by their names; means over the posterior too."""
    intervals: Mapping[str, Interval]
    """Model uncertainty of these ranges; empty where the model is taken as given."""
    persistent: Bounds
    """What it would have added if chance may persist across steps, model uncertainty included."""
    guaranteed: Bounds | None
    """The largest worst case of any plan over all adapted couplings, and the largest best case, on the estimate.

    None where plans are kept `within` what the log informs.
    """
    worst: float
    """The worst case of this plan over all adapted couplings, on the estimate."""
    gap: float
    """How much more another sequence could add at most, where a search was given up; zero where this is the best."""
    number: float
    """How many changes it makes on average."""
    ends: Mapping[str, float]
    """The chance of each end of the process, by the coupling, on the estimate."""
    path: tuple[PathStep, ...]
    """The most likely path, up to the end of the log."""
    path_chance: float
    """The probability of exactly that path."""
    fades: int | None
    """The step from which on what was logged no longer matters; None where it always does."""
    visits: int | None
    """The least number of visits behind a change on that path, where the process has counts."""
    untried: bool
    """Whether it may lead to an action that nobody took there."""

    @property
    def claim(self) -> Claim:
        """That it would have helped, with all that this depends on."""
        known = self.interval, self.intervals.get("any"), self.persistent, self.untried
        return Claim(self.effect, self.bounds["any"], *known)

    @property
    def agreed(self) -> bool:
        """Whether every adapted coupling says that it would have helped, with confidence in the model too."""
        return bool(self.claim.agreed)

    @property
    def robust(self) -> bool:
        """The same even if chance may persist across steps. Nothing that rests on no visit is robust."""
        return bool(self.claim.robust)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class BestChanges(AbstractCohortResult):
    """The best plans of at most one, two, ... changes for one episode, each with what it rests on."""

    context: Context
    episode: Hashable
    observed: float
    """What the episode earned."""
    coupling: str
    changes: Changes
    plans: tuple[BestPlan, ...]
    """By the largest number of changes, from one on; empty where none is allowed."""
    logged: tuple[PathStep, ...]
    """What happened."""
    moments: tuple[str, ...]
    """Each step in words."""
    state_names: tuple[str, ...]
    """All states, in words."""
    state_values: Float[np.ndarray, " s"]
    """What it earns to come to each of them and to go on as usual."""
    action_names: tuple[str, ...]
    """All actions, in words."""

    @property
    def title(self) -> str:
        return f"Episode {self.episode}: the best of at most {counted(len(self.plans), 'change')} to what was done"

    @property
    def best(self) -> BestPlan | None:
        """The plan with the largest number of changes."""
        return self.plans[-1] if self.plans else None

    @property
    def rows(self) -> tuple[Row, ...]:
        about, found = f"episode {self.episode}", list[Row]()
        for each in self.plans:
            what = f"effect of at most {counted(each.most, 'change')}"
            found.append(Row.of(what, about, self.coupling, each.effect, None, each.interval))
            for family, bounds in each.bounds.items():
                found.append(Row.of(what, about, FAMILIES[family], None, bounds, each.intervals.get(family)))
            found.append(Row.of(what, about, PERSISTENT, None, each.persistent))
            found.append(Row(f"in-sample {what}", about, self.coupling, each.in_sample))
            if each.guaranteed is not None:
                what = f"largest worst and best case of at most {counted(each.most, 'change')}"
                found.append(Row.of(what, about, ANY, None, each.guaranteed))
        return tuple(found)

    def _summary(self) -> str:
        best, meaning = self.best, self.context.meaning
        most = f"at most {counted(len(self.plans), 'change')}"
        earned = f"Episode {self.episode} earned {number(self.observed)}. " if meaning.rewards is None else ""
        if best is None or best.number <= SMALL:
            return f"{earned}No plan of {most} to what was done would have added anything, by {self.coupling}."
        kind = (
            "best plan that reacts to the state"
            if self.changes.aim == "coupling"
            else f"plan with the best worst case ({FAMILIES[self.changes.aim]})"
        )
        kind = "best sequence fixed in advance" if self.changes.plan == "fixed" else kind
        between = partial(meaning.between, gain=True)
        known = ""
        if best.interval is not None:
            level, promised = confidence(best.interval.level), between(best.in_sample, best.in_sample)
            known = f" ({level} interval {between(*best.interval[:2])}); in-sample {promised}"
        safe = best.guaranteed
        other = (
            f" In-sample, another plan adds at least {between(safe.lower, safe.lower)} under each of them, this "
            f"one {between(best.worst, best.worst)}: ask with aim any."
            if safe is not None and self.changes.aim != "any" and safe.lower > max(best.worst, 0) + SMALL
            else ""
        )
        return (
            f"{earned}By {self.coupling}, the {kind} with {most} would have {meaning.gain(best.effect)}{known}.\n"
            f"Over all couplings that draw afresh at each step it adds {between(*best.bounds['any'])}. That it "
            f"{'helps' if best.effect > 0 else 'hurts'} {best.claim.sure}.{other}\n{self._told_ends(best)}"
            f"{self._told_path(best)}"
        )

    def _plot(self) -> "plotting.Figure":
        curves = {
            self.coupling: np.array([each.effect for each in self.plans]),
            "in-sample": np.array([each.in_sample for each in self.plans]),
        }
        known = [each.interval for each in self.plans if each.interval is not None]
        return plotting.draw_changes(
            curves,
            Bounds(*np.array([each.bounds["any"] for each in self.plans]).reshape(-1, 2).T),
            Bounds(*np.array([each[:2] for each in known]).T) if known else None,
            self._in_words(self.logged),
            self._in_words(() if self.best is None else self.best.path),
            [self.state_names[place] for place in np.argsort(-self.state_values, kind="stable")],
            moments=self.moments,
            title=self.title,
            label=f"effect on the {self.context.meaning.drawn}",
        )

    def _in_words(self, path: tuple[PathStep, ...]) -> list[tuple[str, str]]:
        """States by name, and what is done instead."""
        return [(self.state_names[each.state], self.action_names[each.action] if each.changed else "") for each in path]

    def _told_ends(self, plan: BestPlan) -> str:
        """How likely it comes to each end."""
        if not plan.ends:
            return ""
        none = 1 - sum(plan.ends.values())
        told = [f"{name} {percent(each)}" for name, each in (*plan.ends.items(), ("no end", none)) if each > _RARE]
        was = self.state_names[self.logged[-1].state]
        return f"With it, by {self.coupling} on the estimate: {', '.join(told)}; what was logged led to {was}. "

    def _told_path(self, plan: BestPlan) -> str:
        """What is changed on the most likely path."""
        told = [
            f"{self.action_names[each.action]} instead of {self.action_names[was.action]} at {self.moments[each.step]} "
            f"({self.state_names[each.state]})"
            for each, was in zip(plan.path, self.logged, strict=False)
            if each.changed
        ]
        where = self.state_names[plan.path[-1].state]
        said = "; ".join(told) if told else "nothing is changed"
        return f"Its most likely path (probability {percent(plan.path_chance)}) leads to {where}: {said}."

    def __repr__(self) -> str:
        return f"BestChanges(at most {len(self.plans)} of episode {self.episode!r}, by {self.coupling})"

    def _sentences(self) -> tuple[str, ...]:
        best, found = self.best, [_RULE, _RANGE, _MONOTONE]
        if best is None:
            return tuple(found)
        found += [f"{counted(each.most, 'change')}: {self._told_path(each)}" for each in self.plans[:-1]]
        if best.fades is not None:
            far = f"total variation below {self.changes.within or FADED:g}"
            found.append(f"From step {best.fades} on, what was logged no longer matters to it ({far}).")
        if np.any(np.asarray(self.changes.cost) > 0):
            found.append("Costs of changes are taken off.")
        if best.visits is not None and best.visits < plotting.FEW_VISITS:
            found.append(f"It rests on an action that was taken there {counted(best.visits, 'time')} only.")
        if self.changes.plan == "fixed":
            gap = max(each.gap for each in self.plans)
            proven = "The sequences are proven to be the best ones."
            found.append(f"The search was given up: others could add up to {number(gap)} more." if gap else proven)
        return tuple(found)

    def _details(self) -> Mapping[str, Any]:
        plans = [{**each._asdict(), "agreed": each.agreed, "robust": each.robust} for each in self.plans]
        kind = {"plan": self.changes.plan, "aim": self.changes.aim}
        names = {"state_names": self.state_names, "action_names": self.action_names}
        return self._fields("episode", "observed", "coupling") | kind | names | {"logged": self.logged, "plans": plans}


class CommonChange(NamedTuple):
    """One change that would have been the best single one in several episodes."""

    state: str
    done: str
    instead: str
    episodes: int
    effect: float
    """What it would have added to each of them on average."""
    share: float
    """Its share of what the best single changes would have added in all."""

    def told(self) -> str:
        """`iv instead of oral in ward`."""
        return f"{self.instead} instead of {self.done} in {self.state}"


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ChangesRanking(AbstractCohortResult):
    """Who had the most to gain from at most one, two, ... changes to what was done."""

    context: Context
    episodes: tuple[Hashable, ...]
    observed: Float[np.ndarray, " n"]
    coupling: str
    changes: Changes
    effects: Float[np.ndarray, "n k"]
    """What the best plan of at most one, two, ... changes would have added to each episode."""
    interval: Interval | None
    """Model uncertainty of the effects; None where the model is taken as given."""
    in_sample: Float[np.ndarray, "n k"]
    """What the process that plans were made on promises."""
    bounds: Bounds
    """What the same plans would have added over all adapted couplings."""
    any_interval: Interval | None
    """Model uncertainty of the whole range."""
    untried: Bool[np.ndarray, "n k"]
    """Which plans may lead to an action that nobody took there."""
    robust: Bool[np.ndarray, "n k"]
    """Which are agreed on even if chance may persist across steps."""
    totals: Mapping[str, Row]
    """The mean effect, and the share of episodes that gain, for each number of changes; by words."""
    common: tuple[CommonChange, ...]
    """Which single changes those are, over all episodes, the largest share of the gain first."""

    @property
    def title(self) -> str:
        most = counted(self.effects.shape[1], "change")
        return f"{counted(len(self.episodes), 'episode')}, ranked by what at most {most} would have added"

    @property
    def agreed(self) -> Bool[np.ndarray, "n k"]:
        """Whether every adapted coupling says that a plan would have helped, with confidence in the model too."""
        return agreed_on(self.bounds, self.any_interval, self.untried)

    @property
    def order(self) -> Ints:
        """The positions of the episodes, the largest effect of the most changes first."""
        return np.lexsort((-self.bounds.lower[:, -1], -self.effects[:, -1]))

    @property
    def rows(self) -> tuple[Row, ...]:
        found = list(self.totals.values())
        for each in self.common:
            found += [
                Row("number of episodes", each.told(), "", float(each.episodes)),
                Row("effect", each.told(), self.coupling, each.effect),
                Row("share of the gain", each.told(), self.coupling, each.share),
            ]
        for place in self.order.tolist():
            about = f"episode {self.episodes[place]}"
            for k in range(self.effects.shape[1]):
                what = f"effect of at most {counted(k + 1, 'change')}"
                found.append(Row.of(what, about, self.coupling, self.effects, None, self.interval, (place, k)))
                found.append(Row.of(what, about, ANY, None, self.bounds, self.any_interval, (place, k)))
        return tuple(found)

    def _summary(self) -> str:
        told, meaning, whole = [], self.context.meaning, len(self.episodes)
        for k, (effect, agreed, robust) in enumerate(zip(self.effects.T, self.agreed.T, self.robust.T, strict=True)):
            most = f"at most {counted(k + 1, 'change')}"
            helped = self.totals[f"share helped by {most}"]
            limits = None
            if helped.ci_lower is not None and helped.ci_upper is not None and self.any_interval is not None:
                limits = Interval(whole * helped.ci_lower, whole * helped.ci_upper, self.any_interval.level)
            told.append(
                f"By {self.coupling}, {most} would have raised the expected {meaning.drawn} of "
                f"{Estimated(whole * (helped.value or 0.0), limits).told()} of {counted(whole, 'episode')}, and that "
                f"of all by {meaning.size(effect.mean())} on average. Every coupling that draws afresh at each step "
                f"agrees for {int(agreed.sum())}; even if chance persists, for {int(robust.sum())} (robust), "
                f"{trusted(self.any_interval)}."
            )
        if self.common:
            some = [
                f"{each.told()} ({percent(each.share)}, {counted(each.episodes, 'episode')})" for each in self.common
            ]
            told.append(f"Most of the gain from one change comes from {'; '.join(some[:_MOST_TOLD])}.")
        return "\n".join(told)

    def tables(self) -> list[Table]:
        """Which changes, then the numbers by episode."""
        common = {each.told() for each in self.common}
        rows = [each for each in self.rows if each.about not in common]
        lines = [
            [*each[:3], f"{each.episodes:,}", number(each.effect), percent(each.share)]
            for each in self.common[:_MOST_LISTED]
        ]
        heads = ["in", "was done", "best single change", "episodes", "effect on each", "share of the gain"]
        return [*([Table(heads, lines, 3)] if lines else []), *tables_of(rows)]

    def _plot(self, most: int = 20) -> "plotting.Figure":
        last, what = (slice(None), -1), f"at most {counted(self.effects.shape[1], 'change')}"
        effects = {self.coupling: self.effects[last], "in-sample": self.in_sample[last]}
        return draw_first(self, most, effects, at(self.bounds, last), at(self.any_interval, last), what)

    def __repr__(self) -> str:
        return f"ChangesRanking({self._summary()})"

    def _sentences(self) -> tuple[str, ...]:
        return _RULE, _RANGE

    def _details(self) -> Mapping[str, Any]:
        order = self.order
        return self._fields("coupling") | {
            "plan": self.changes.plan,
            "aim": self.changes.aim,
            "episodes": [self.episodes[place] for place in order],
            "in_sample": self.in_sample[order],
            "agreed": self.agreed[order],
            "robust": self.robust[order],
        }


def told_of_optimism(draws: PosteriorDraws) -> str:
    """What is said of plans that are judged on the process that they were made on, or on others."""
    return _OPTIMISM if draws.posterior.num_draws else _IN_SAMPLE


def _judged(
    model: Trajectories,
    coupling: AbstractCoupling,
    changes: Changes,
    plan: Any,
    families: tuple[str, ...],
    lasting: Any = None,
) -> Floats:
    """[value, ranges; episode; changes]: what plans would have added in one process.

    Ranges are over the families, and at last those if chance may persist, for plans that are asked about it.
    """
    some = _changed(model, coupling, replace(changes, min_visits=0))  # the plan is made, and draws are not counted
    values = some.values(plan, JUDGED)
    ranges = [each for family in families for each in some.limits(plan, family)]
    if lasting is not None:
        ranges += some.persistent(plan, lasting)
    return np.stack([values, *ranges]) - values[:, :1]


def best_changes_of(
    mdp: FiniteMDP,
    setting: Setting,
    coupling: AbstractCoupling,
    changes: Changes,
    draws: PosteriorDraws,
    context: Context,
) -> BestChanges:
    """The best changes to one episode."""
    model = Trajectories(mdp, setting, quiet=True)
    some = _changed(model, coupling, changes)
    told = some.sequences() if changes.plan == "fixed" else ()
    plan = some.plan_of(told) if told else some.best()[1]
    promised = some.values(plan)[0]
    observed = float(promised[0])
    safe = None if changes.within is not None else some.guaranteed("any")[0]
    lasting = np.ones((1, some.num_layers), bool)
    asked = partial(_judged, coupling=coupling, changes=changes, plan=plan, families=tuple(FAMILIES), lasting=lasting)
    given = asked(model)
    means, known = draws.summarise(setting, asked, given, ranges=len(FAMILIES) + 1, spread=False)
    where = {family: (1 + 2 * place, 2 + 2 * place) for place, family in enumerate(FAMILIES)}
    untried = _untried(mdp, some, plan)
    visits, plans = mdp.visits, []
    for k in range(1, some.num_layers):
        path, chance = some.alone.likeliest(plan[0], k)
        changed, away, where_to = some.alone.followed(plan[0], k)
        rare = [int(visits[each.state, each.action]) for each in path if each.changed] if visits is not None else []
        plans.append(
            BestPlan(
                k,
                float(means[0, 0, k]),
                at(known, (0, 0, k)),
                float(promised[k]) - observed,
                {family: Bounds(*(float(means[row, 0, k]) for row in both)) for family, both in where.items()},
                {}
                if known is None
                else {family: at(known, (low, 0, k), (high, 0, k)) for family, (low, high) in where.items()},
                widest(Bounds(float(means[-2, 0, k]), float(means[-1, 0, k])), at(known, (-2, 0, k), (-1, 0, k))),
                None if safe is None else Bounds(*(float(each[0, k]) - observed for each in safe)),
                float(given[where["any"][0], 0, k]),
                told[k].gap if told else 0.0,
                changed,
                {
                    spoken("state", int(end), mdp.state_names): float(where_to[end])
                    for end in np.argsort(-where_to, kind="stable")
                    if mdp.ends[end] and where_to[end] > SMALL
                },
                path,
                chance,
                _fades(away, changes.within or FADED),
                min(rare, default=None),
                bool(untried[0, k]),
            )
        )
    log, length = setting.log, int(some.course.seen[0])
    return BestChanges(
        context=context,
        episode=log.name_of(0),
        observed=observed,
        coupling=name_of(coupling),
        changes=changes,
        plans=tuple(plans),
        logged=tuple(
            PathStep(step, int(log.states[0, step]), int(log.actions[0, step]) if step < length else -1, False)
            for step in range(length + 1)
        ),
        moments=tuple(log.when(0, step) for step in range(length + 1)),
        state_names=tuple(spoken("state", each, mdp.state_names) for each in range(mdp.num_states)),
        state_values=_state_values(mdp, setting),
        action_names=tuple(spoken("action", each, mdp.action_names) for each in range(mdp.num_actions)),
    )


def _state_values(mdp: FiniteMDP, setting: Setting) -> Floats:
    """What it earns to come to each state and to go on as usual; an end is worth what arriving there earns."""
    taken = mdp.probs * (~mdp.absorbing[:, None, None] & mdp.allowed[:, :, None])
    total, earned = (
        np.bincount(mdp.successors.ravel(), each.ravel(), mdp.num_states) for each in (taken, taken * mdp.rewards)
    )
    later = policy_values(mdp, setting.usual, horizon=setting.horizon, discount=setting.discount)
    return earned / np.where(total > 0, total, 1) + setting.discount * later


def _fades(distance: Floats, threshold: float) -> int | None:
    """The step from which on the log no longer matters."""
    matters = np.flatnonzero(distance > threshold)
    last = int(matters[-1]) + 1 if len(matters) else 0
    return last if last < len(distance) else None


def _untried(mdp: FiniteMDP, some: Any, plan: Any) -> Bool[np.ndarray, "n k"]:
    """Which plans may come to an action that nobody took there, though there are counts."""
    if not mdp.untried.any():
        return np.zeros((len(some.course), some.num_layers), bool)
    return some.most_of(plan, np.broadcast_to(mdp.untried[:, :, None], mdp.probs.shape).astype(np.float64)) > 0


def ranked_changes(
    mdp: FiniteMDP,
    setting: Setting,
    coupling: AbstractCoupling,
    changes: Changes,
    draws: PosteriorDraws,
    context: Context,
) -> ChangesRanking:
    """The best changes to every episode, the largest effect first."""
    model = Trajectories(mdp, setting, quiet=True)
    some = _changed(model, coupling, changes)
    _, plan = some.best()
    asked = partial(_totalled, coupling=coupling, changes=changes, plan=plan)
    given, count = asked(model), len(setting.log)
    means, known = draws.summarise(setting, asked, given, ranges=1, spread=False)
    name, totals = name_of(coupling), dict[str, Row]()
    about = f"mean of {counted(count, 'episode')}"
    for k in range(1, some.num_layers):
        most = f"at most {counted(k, 'change')}"
        for place, words in ((count, f"effect of {most}"), (count + 1, f"share helped by {most}")):
            totals[words] = Row.of(words, about, name, means, None, known, (0, place, k))
        limits = Bounds(means[1], means[2]), at(known, 1, 2)
        totals[f"effect of {most}, {ANY}"] = Row.of(f"effect of {most}", about, ANY, None, *limits, (count, k))
    each, later = slice(count), slice(1, None)
    bounds, whole = Bounds(means[1, each], means[2, each]), at(known, (1, each), (2, each))
    untried = _untried(mdp, some, plan)
    robust = agreed_on(bounds, whole, untried)
    if robust.any():  # what is not agreed on need not be asked about more
        asked = partial(_judged, coupling=coupling, changes=changes, plan=plan, families=(), lasting=robust)
        wide, known = draws.summarise(setting, asked, asked(model), ranges=1, spread=False)
        robust = robust & agreed_on(Bounds(wide[1], wide[2]), at(known, 1, 2), untried)
    return ChangesRanking(
        context=context,
        episodes=setting.log.names,
        observed=some.values(plan)[:, 0],
        coupling=name,
        changes=changes,
        effects=means[0, each, later],
        interval=at(known, (0, each, later)),
        in_sample=given[0, each, later],
        bounds=at(bounds, (slice(None), later)),
        any_interval=at(whole, (slice(None), later)),
        untried=untried[:, 1:],
        robust=robust[:, 1:],
        totals=totals,
        common=_common(mdp, setting.log, plan, means[0, each]),
    )


def _totalled(model: Trajectories, coupling: AbstractCoupling, changes: Changes, plan: Any) -> Floats:
    """The same as `_judged`, and behind the episodes their mean, and the share of those who gain."""
    found = _judged(model, coupling, changes, plan, ("any",))
    totals = np.stack([found.mean(axis=1), (found > SMALL).mean(axis=1)], axis=1)
    return np.concatenate([found, totals], axis=1)


def _common(mdp: FiniteMDP, log: EpisodeLog, plan: Any, effects: Floats) -> tuple[CommonChange, ...]:
    """The best single change of each episode, counted: up to it both worlds are one, so its state is the logged one."""
    if effects.shape[1] < 2:
        return ()
    width = plan.shape[1]
    there = np.take_along_axis(plan[:, :, :, 1], log.states[:, :width, None], axis=2)[:, :, 0]
    changed = (there >= 0) & log.mask[:, :width]
    some = np.flatnonzero(changed.any(axis=1) & (effects[:, 1] > SMALL))
    step = changed[some].argmax(axis=1)
    which = np.stack([log.states[some, step], log.actions[some, step], there[some, step]], axis=1)
    distinct, place, times = np.unique(which, axis=0, return_inverse=True, return_counts=True)
    gains = np.bincount(place.ravel(), effects[some, 1], len(distinct))
    found = []
    for row in np.argsort(-gains, kind="stable").tolist():
        state, done, instead = distinct[row].tolist()
        found.append(
            CommonChange(
                spoken("state", state, mdp.state_names),
                spoken("action", done, mdp.action_names),
                spoken("action", instead, mdp.action_names),
                int(times[row]),
                float(gains[row] / times[row]),
                float(gains[row] / gains.sum()),
            )
        )
    return tuple(found)


def _changed(*given: Any, **more: Any) -> Any:
    """Episodes with changes; Numba is imported with the first question."""
    from countermax.mdp._improving import ChangedEpisodes

    return ChangedEpisodes(*given, **more)
