"""A cohort: logged episodes beside another policy, checked once, and everything that can be asked about them."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, final

import jax
import numpy as np
from scipy import sparse

from countermax._core.errors import InputError
from countermax._core.extras import on_ray
from countermax._core.quantities import as_amount, as_count, as_seed, shown
from countermax._core.words import confidence, number
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling, AbstractSampler
from countermax.couplings._named import as_couplings, name_of, named_couplings
from countermax.intervals import Interval
from countermax.intervals._interval import check_level
from countermax.mdp import _cautions as cautions
from countermax.mdp import _estimation as estimation
from countermax.mdp._arrays import Floats, Ints, Values, as_mask
from countermax.mdp._changes import Changes, as_changes
from countermax.mdp._decisions import Decisions, decisions_of
from countermax.mdp._distribution import SHARES, ReturnDistribution, distribution_of
from countermax.mdp._estimation import estimate, estimate_policy
from countermax.mdp._evaluation import RESTRICTED, WHOLE, Estimating, PolicyEvaluation, evaluated
from countermax.mdp._files import StepsFile, decisions_frame, is_table, read_log, read_log_and_policy, read_policy
from countermax.mdp._importance import effective_sample_size, importance_ratios
from countermax.mdp._labels import places_of, spoken
from countermax.mdp._log import EpisodeLog, steps_compared, steps_of
from countermax.mdp._measurements import Measurements, Resampling
from countermax.mdp._plans import BestChanges, ChangesRanking, best_changes_of, ranked_changes, told_of_optimism
from countermax.mdp._posterior import NO_CONFOUNDING, Posterior, PosteriorDraws, attained
from countermax.mdp._process import MODEL_GIVEN, FiniteMDP, as_discount
from countermax.mdp._replays._course import Setting, VaryingRewards
from countermax.mdp._replays._questions import outcome_labels
from countermax.mdp._replays._trajectories import (
    Groups,
    ReplayedValues,
    Trajectories,
    expected,
    groups_of,
    moved,
    spared_bounds,
)
from countermax.mdp._results import (
    Answer,
    Context,
    Estimated,
    Fates,
    Meaning,
    Ranking,
    Replay,
    answer_of,
    at,
    counted,
    signs,
)
from countermax.mdp._story import Story, earned_at, ends_of, find_episode, story_of

if TYPE_CHECKING:
    import pandas as pd

Couplings: TypeAlias = Mapping[str, str | Path | AbstractCoupling] | Iterable[str | Path]
"""Couplings by name, or a list of words and files, which name themselves."""

_DRAWN = {
    "fresh": "Where the policy leaves the action to chance, it is drawn afresh, whatever was done.",
    "coupled": "Where the policy leaves the action to chance, it is drawn with the noise that explains what was done.",
}
_RANGES = (
    "'any coupling': the range over all couplings that draw afresh at each step (adapted couplings){interval}. 'chance "
    "may persist': the range if what is not recorded may carry over from step to step{too}."
)
_LOWER_LIMITS = (
    "Lower limits are one-sided, by ordinary importance sampling, if no return is below {least}, the least that the "
    "process allows; by empirical Bernstein they hold in any sample, by Student in large ones."
)
_NOT_KNOWN = " Both need a known behaviour policy; here it is estimated, which is left out."


@final
class Cohort:
    """Logged episodes beside another policy: what would have become of them, and what the policy is worth.

    Each episode starts in its own first state, and both worlds cover the same steps. Where the other world is in the
    logged state and does what was done, it goes where the log went and earns what the log earned, whatever the
    coupling; elsewhere rewards are the process's means, and their variances are carried.

    A policy that asks for actions that an estimated process does not know is restricted to those that it knows, and
    every answer says so. What several questions need is computed once and kept.
    """

    def __init__(
        self,
        log: "EpisodeLog | StepsFile | Measurements | pd.DataFrame | str | Path",
        policy: "Values | Mapping[Any, Any] | pd.DataFrame | str | Path | None" = None,
        *,
        process: FiniteMDP | Callable[[EpisodeLog], FiniteMDP] | None = None,
        absorbing: Values | None = None,
        outcomes: Values | None = None,
        horizon: int | None = None,
        discount: float | None = None,
        censored: str = "stop",
        actions: str = "fresh",
        behaviour: Values | None = None,
        posterior: Posterior | None = None,
        engine: str = "local",
    ):
        """Checks the episodes, the process and the policy.

        Args:
            log: Logged episodes, or a CSV or Parquet file or dataframe of steps: episode, step, state, action,
                next_state, reward; a `StepsFile` where columns have other names or follow from time, outcome and score,
                `Measurements` where there are numbers in place of states.
            policy: Policy that would have been followed: a file or dataframe of state, action and, unless certain,
                probability. In Python also a mapping from states to actions (or to the probabilities of several), or an
                array [state, action] beside an `EpisodeLog`; beside measurements a column that names the action in each
                row. By default what was usual, for questions that need none.
            process: Process behind the log, or a function that estimates one from a log; by default its frequencies.
                Every logged step must be possible under it.
            absorbing: States where episodes end by themselves, by name or index, where the process is estimated
                here; by default those that nobody was seen to leave. In Python also a mask. Episodes that stop
                elsewhere are censored.
            outcomes: Label of each state as an outcome. Two worlds agree where their outcomes have one label, so states
                that differ by the action alone (a treatment flag, say) deserve a common one; couplings that go by order
                take the order of the labels. By default each state is an outcome of its own.
            horizon: Largest number of steps of an episode; by default that of the longest one.
            discount: Discount factor for each step; by default the process's own, which is 1 for estimates.
            censored: Treatment of episodes that stop before their end: "stop" compares both worlds up to there; "model"
                carries both on with the process, the factual one by what was usually done.
            actions: Way in which a policy that leaves something to chance draws its actions: "fresh", whatever was
                done, or "coupled", as outcomes of the same coupling, with the noise that explains what was done.
            behaviour: Policy that the log was made with, [state, action], if known; by default frequencies, which are
                consistent but make importance sampling biased in small logs.
            posterior: Posterior of an estimated process, for intervals that include model uncertainty. By default
                `rank`, `decisions` and `explain` draw 100 models where the process has counts, and `replay` none.
            engine: Engine: "local", or "ray" for parts of the episodes, posterior draws and resamples on the Ray
                cluster that is connected, else on one inside this machine. The numbers are the same.
        """
        self._spread = on_ray(engine)
        self._again: Resampling | None = None
        self._made: tuple[str, ...] = ()
        chosen: Any
        policy = decisions_frame(policy) if isinstance(policy, Mapping) else policy
        if isinstance(log, Measurements):
            if isinstance(process, FiniteMDP) or not (behaviour is None and outcomes is None):
                raise InputError(
                    "`log` must have states of its own beside a `process` that is not a function, `behaviour` or "
                    "`outcomes`, for measurements make states again in each resample; `Measurements.log` keeps them"
                )
            by_row, chosen = log.wanted(estimate_policy(log.log) if policy is None else policy)
            self._again, self._made = log.resampling(by_row), log.notes
            absorbing = list(log.ends) if process is None and absorbing is None else absorbing
            log = log.log
        elif isinstance(log, EpisodeLog):
            chosen = read_policy(policy, log) if is_table(policy) else policy
        elif not isinstance(log, StepsFile) and not is_table(log):
            raise InputError(f"`log` must be an EpisodeLog, a file or a dataframe, got {shown(log)}")
        elif policy is None:
            log, chosen = read_log(log), None
        elif is_table(policy):
            log, chosen = read_log_and_policy(log, policy)
        else:
            raise InputError(
                "`policy` must name states and actions, as a file, a dataframe or {state: action}, beside a `log` that "
                f"does, got {shown(policy)}"
            )
        self._made += log.notes
        self.log = log
        self._learn, self._source = _learner(log, process, absorbing, measured=self._again is not None)
        self.process = self._learn if isinstance(self._learn, FiniteMDP) else self._learn(log)
        estimation.check_log(log, self.process)
        usual = estimation.usual_policy(self.process)
        self._wanted = usual if chosen is None else estimation.policy_rows(self.process, chosen)
        self.policy = estimation.restricted(self.process, self._wanted)[0]
        self.horizon = steps_of(log, horizon)
        self.discount = as_discount(self.process, discount)
        for name, value, words in (("censored", censored, ("stop", "model")), ("actions", actions, tuple(_DRAWN))):
            if value not in words:
                raise InputError(f'`{name}` must be "{words[0]}" or "{words[1]}", got {shown(value)}')
        if posterior is not None and not isinstance(posterior, Posterior):
            raise InputError(f"`posterior` must be a Posterior, got {shown(posterior)}")
        self._behaviour = (
            None if behaviour is None else estimation.policy_rows(self.process, behaviour, argument="behaviour")
        )
        done = estimate_policy(log) if self._behaviour is None else self._behaviour
        # an estimate's means say nothing of whether rewards of one transition vary
        varying = self.process.reward_variances is not None or self.process.counts is not None
        self._actions, self._posterior = actions, posterior
        self._setting = Setting(
            log=log,
            policy=self.policy,
            outcomes=outcomes,
            horizon=self.horizon,
            discount=self.discount,
            censored=censored,
            behaviour=done if actions == "coupled" else None,
            usual=usual,
            varying=VaryingRewards.of_log(log) if varying else None,
        )
        self._compared = steps_compared(log, self.process.ends, self.horizon)
        self._censored = int((self._compared < self.horizon).sum())
        latest = log.states[np.arange(len(log)), np.minimum(log.lengths, self.horizon)]
        self._open = int((~self.process.ends[latest] & (self._compared >= self.horizon)).sum())

    def __len__(self) -> int:
        return len(self.log)

    def __repr__(self) -> str:
        return f"Cohort({self._sample})"

    def replay(self, coupling: str | Path | AbstractCoupling = "gumbel-max", *, path: bool = False) -> Replay:
        """What would have become of every episode, exactly; with `path`, at all times and not at the last one only.

        The coupling, fixed or learned, by itself, by name or as a file, has an exact law; for others there is `sample`.
        """
        answering = self._model.law(coupling).answering
        found = self._model.replayed(answering, path=path)
        asked = partial(_replayed, coupling=answering, groups=self._groups)
        given, draws = asked(self._model, found=found), self._no_draws if self._posterior is None else self._draws
        drawn = draws.ask_parts(self._setting, asked, given)
        numbers, (means, limits) = found._asdict(), draws.posterior.summarise(given[0], drawn[0])
        if len(drawn[0]):
            numbers |= {"values": self._model.observed + means, "interval": limits}
        return self._replay(draws, name_of(answering), given[1:], drawn[1:], **numbers)

    def sample(
        self, coupling: str | Path | AbstractSampler = "gumbel-max", *, num_samples: int, seed: int = 0
    ) -> Replay:
        """Trajectories of every episode, drawn; `replay` is their exact law.

        For couplings that can only be drawn from, and for looking at single trajectories. Rewards are the process's
        means, or what the log earned where nothing is changed. A seed means the same trajectories whatever JAX's
        default precision is.
        """
        as_count("`num_samples`", num_samples)
        rows = self._model.law(coupling, exact=False)
        states, actions, returns = self._model.drawn(rows, num_samples, key=jax.random.key(as_seed("seed", seed)))
        episode, share = np.repeat(np.arange(len(self)), num_samples), np.full(returns.size, 1 / num_samples)
        last = sparse.csr_array((share, (episode, states[..., -1].ravel())), (len(self), self.process.num_states))
        values = returns.mean(axis=1)
        given = _of_all(self._model, (values - self._model.observed)[None], [last], self._groups)
        return self._replay(
            self._no_draws,
            name_of(rows.coupling),
            given,
            [np.array([])] * len(given),
            values=values,
            variances=returns.var(axis=1),
            last=last,
            states=states,
            actions=actions,
            returns=returns,
        )

    def bounds(
        self,
        *,
        stable: bool = False,
        persistent: bool = False,
        rewards: Values | None = None,
        final: Values | None = None,
    ) -> Bounds:
        """The least and the largest value of each episode over couplings; the process is taken as given.

        Valid for every coupling that draws afresh at each step (adapted couplings); sharp if these may differ from step
        to step. What persists, such as a trait of a patient that is not recorded, is no such coupling. Where rewards of
        one transition vary, each may be any that was seen there, or as far from its mean as any into the same state.
        They are about single episodes: the mean over episodes like these is the same under every coupling
        (`mean_effect` of `rank`).

        Args:
            stable: Whether to allow only couplings that are counterfactually stable (Gumbel-max is one), over states as
                outcomes: each pair of the logged row and a row of the other world is stable, step by step.
            persistent: Whether chance may persist across steps. Then a path of the other world has at most its own
                probability over that of what was logged since both parted, and values lie between tail means (CVaR) of
                the policy's returns. Wider, and valid for every coupling.
            rewards: Rewards in the shape of `process.rewards`, in place of its own and of those in the log; zeros to
                ask for `final` alone.
            final: Score for being in each state at the end, [state] or [episode, state]. With zero rewards and an
                indicator it bounds a probability.
        """
        if persistent and stable:
            raise InputError("`stable` must be left out where chance may persist: stability says nothing about that")
        if persistent:
            return self._model.persistent_bounds(rewards=rewards, final=final)
        return self._model.bounds(stable=stable, rewards=rewards, final=final)

    def decisions(
        self,
        episode: Hashable,
        coupling: str | Path | AbstractCoupling = "gumbel-max",
        *,
        otherwise: Values | None = None,
    ) -> Decisions:
        """Every other action at every step of one episode, the largest effect first; exact.

        The episode goes by its name, or by its position where episodes have none. All other actions stay as logged,
        whatever the state; so without the change the episode would be what it was. The policy `otherwise`, by default
        the log's frequencies as far as the process has counts, acts where a logged action is not known, and in both
        worlds after the log's end.
        """
        setting, answering = self._one(episode), self._model.law(coupling).answering
        if otherwise is not None:
            setting = replace(setting, usual=estimation.as_policy(self.process, otherwise))
        model = Trajectories(self.process, setting, quiet=True)
        observed, name = float(model.observed[0]), name_of(answering)
        asked = partial(Trajectories.effects_of_actions, couplings=[answering])
        found = self._draws.summarise(setting, asked, asked(model), ranges=2, spread=False)
        context, untried = self._context(self._draws, ranges=True), model.untried_actions()
        return decisions_of(self.process, setting, context, {name: name}, found, untried, observed)[name]

    def best_changes(
        self,
        episode: Hashable,
        coupling: str | Path | AbstractCoupling = "gumbel-max",
        *,
        changes: int | Changes = 3,
    ) -> BestChanges:
        """The plans of at most one, two, ... changes to what was done that would have helped one episode most; exact.

        Unchanged means what it does for `decisions`, and the policy of the cohort plays no part. Plans are made on the
        process and judged on models drawn from the posterior.

        Args:
            episode: Name of the episode, or its position where episodes have no names.
            coupling: Coupling that answers, by itself, by name or as a file.
            changes: Largest number of changes, or all that there is to say about them.
        """
        setting, answering = self._one(episode), self._model.law(coupling).answering
        context = self._context(self._draws, ranges=True, told=(told_of_optimism(self._draws),))
        return best_changes_of(self.process, setting, answering, as_changes(changes), self._draws, context)

    def rank_changes(
        self, coupling: str | Path | AbstractCoupling = "gumbel-max", *, changes: int | Changes = 3
    ) -> ChangesRanking:
        """All episodes by what the best plans of at most so many changes would have added; see `best_changes`."""
        answering = self._model.law(coupling).answering
        context = self._context(self._draws, ranges=True, told=(told_of_optimism(self._draws),))
        return ranked_changes(self.process, self._setting, answering, as_changes(changes), self._draws, context)

    def explain(
        self, episode: Hashable, *, couplings: Couplings | None = None, features: Mapping[str, Values] | None = None
    ) -> Story:
        """What would have become of one episode, and how much of the answer is the coupling's doing.

        Args:
            episode: Name of the episode, or its position where episodes have no names.
            couplings: Couplings by name; steps are judged by the first, decisions by all. By default Gumbel-max and
                inverse CDF.
            features: Features to follow over time: a number for each state, by name; probabilities and indicators read
                best. By default the ends that episodes come to; where the log has no end of the process, their last
                states.
        """
        if self._actions != "fresh":
            raise InputError('`explain` needs a cohort with actions="fresh": steps are judged one by one')
        setting, chosen, _ = self._one(episode), self._couplings(couplings), self._model
        context = self._context(self._draws, ranges=True)
        return story_of(self.process, self.log, setting, chosen, features, self._draws, context)

    def rank(self, couplings: Couplings | None = None) -> Ranking:
        """All episodes by what the other policy would have added: which claims rest on the coupling, which on the data.

        The first coupling is the one to sort by; by default there are Gumbel-max and inverse CDF.
        """
        chosen = self._couplings(couplings)
        asked = partial(_effects, couplings=list(chosen.values()), groups=self._groups)
        given = asked(self._model)
        drawn = self._draws.ask_parts(self._setting, asked, given)
        found = self._draws.posterior.summarise(given[0], drawn[0], 2)
        each = answer_of(found, chosen, "effect")
        assert each.persistent is not None
        return Ranking(
            context=self._context(self._draws, ranges=True),
            episodes=self.log.names,
            observed=self._model.observed,
            effects=each.values,
            bounds=each.bounds,
            intervals=each.intervals,
            any_interval=each.any_interval,
            persistent=each.persistent,
            untried=self._model.untried,
            **self._known(chosen, given[1:], drawn[1:]),
        )

    def evaluate(
        self, couplings: Couplings | None = None, *, num_resamples: int = 100, level: float = 0.95, seed: int = 0
    ) -> PolicyEvaluation:
        """Estimates of what the policy is worth, in every common way, all of one policy and over the same steps.

        Each episode is compared from its own first state over the horizon or, where it is censored, as far as it was
        seen. Intervals come from resampling episodes. Everything that is learned from the log, the model and the
        behaviour policy, is learned again from each resample; the policy stays as it is. With states and actions that
        can be counted, fitted Q evaluation is the model-based estimate: there is one row for both.

        Args:
            couplings: Couplings for the counterfactual estimates, by name; by default Gumbel-max and inverse CDF.
                Without any, nothing is replayed.
            num_resamples: Number of resamples for the intervals; 0 for none.
            level: Confidence of the intervals, which reach at least as far as this share of the resamples; fewer than
                40 cannot say 95 %, and then less is said. Lower limits have it on their one side.
            seed: Seed of the resamples.
        """
        as_count("`num_resamples`", num_resamples, least=0)
        check_level(level)
        if self._setting.censored != "stop":
            raise InputError(
                '`evaluate` needs a cohort with censored="stop": importance sampling weighs what was earned, and '
                "nobody earned what a model adds; `replay` and `rank` can carry episodes on with the model"
            )
        chosen = self._couplings(couplings, none=True)
        task = Estimating(self._setting, chosen, self._learn, self._behaviour, self._compared, self._again)
        found = evaluated(task, self.process, num_resamples, level, as_seed("seed", seed), spread=self._spread)
        level = attained(level, num_resamples)
        changed = (self.policy != self._wanted)[~self.process.absorbing].any()
        told = (
            *cautions.told_of_weights(self.log, self._wanted, found.ratios),
            cautions.told_of_overlap(self.log, self.policy),
            *cautions.told_of_support(self.process, self.log, self._wanted, self.horizon),
            _bootstrap(num_resamples, level),
            _LOWER_LIMITS.format(least=number(found.least)) + (_NOT_KNOWN if self._behaviour is None else "")
            if found.lower_limits
            else "",
        )
        return PolicyEvaluation(
            context=self._context(self._no_draws, told=told, assumed=()),
            estimates=found.estimates,
            target=RESTRICTED if changed else WHOLE,
            policy=self.policy,
            effective_sample_size=effective_sample_size(found.ratios),
            num_censored=self._censored,
            num_resamples=num_resamples,
            level=level,
            lower_limits=found.lower_limits,
        )

    def returns(
        self,
        *,
        weighted: bool = True,
        shares: Sequence[float] = SHARES,
        num_resamples: int = 0,
        level: float = 0.95,
        seed: int = 0,
    ) -> ReturnDistribution:
        """How returns would be distributed under the policy, by trajectory-wise importance sampling, without a model.

        A censored episode's return counts as far as it was seen.

        Args:
            weighted: Whether to divide ratios by their mean (self-normalised), so that probabilities sum to one. Else
                they are unbiased at each return if the behaviour is known, and cut off where they would sum to more
                than one.
            shares: Shares of the worst episodes whose mean is shown.
            num_resamples: Number of resamples for intervals; the behaviour policy is estimated again from each, unless
                it is known. By default there are no intervals.
            level: Confidence of the intervals; see `evaluate`.
            seed: Seed of the resamples.
        """
        as_count("`num_resamples`", num_resamples, least=0)
        check_level(level)
        level = attained(level, num_resamples)
        kept = tuple(as_amount("`shares`", each, least=0.0, most=1.0) for each in shares)
        if not kept or min(kept) == 0:
            raise InputError(f"`shares` must hold numbers above 0 and at most 1, got {list(kept)}")
        told = (
            *cautions.told_of_weights(self.log, self._wanted, self._weighed(None)[1]),
            _bootstrap(num_resamples, level),
        )
        context = self._context(self._no_draws, told=told, assumed=())
        return distribution_of(context, self._weighed, kept, weighted, num_resamples, level, as_seed("seed", seed))

    def _weighed(self, chosen: Ints | None) -> tuple[EpisodeLog, Floats]:
        """Some of the episodes, by default all, and their ratios; the behaviour is estimated from them unless known."""
        log, policy = self.log, self._wanted
        if chosen is not None:
            log, policy = (log.select(chosen), policy) if self._again is None else self._again(chosen)
        return log, importance_ratios(log, policy, self._behaviour)[:, : self.horizon]

    @cached_property
    def _groups(self) -> Groups:
        """The episodes that came to each end, the worst first where ends have a score."""
        ends, rewards = ends_of(self.process, self.log), self._meaning.rewards
        order, seen = range(len(ends)) if rewards is None else np.argsort(rewards), self.log.lengths <= self.horizon
        found = [(end, np.flatnonzero(seen & (self.log.last_states == end))) for end in ends[list(order)].tolist()]
        return tuple((end, members) for end, members in found if len(members))

    @cached_property
    def _given_ranges(self) -> Floats:
        return spared_bounds(self._model, self._groups)

    @cached_property
    def _drawn_ranges(self) -> Floats:
        """The ranges of fates in all models that are drawn."""
        return np.array(self._draws.ask(self._setting, partial(spared_bounds, groups=self._groups)))

    def _known(self, couplings: Iterable[str], given: Sequence[Floats], drawn: Sequence[Floats]) -> dict[str, Any]:
        """What is said of all episodes at once, from the parts of `_of_all`."""
        names, groups = list(couplings), self._groups
        counts, moves, means = (self._draws.posterior.summarise(*both) for both in zip(given, drawn, strict=True))
        by_sign = [{name: _known_at(counts, row, sign) for row, name in enumerate(names)} for sign in (0, 1)]
        found: dict[str, Any] = {"gains": by_sign[0], "losses": by_sign[1], "mean_effect": _known_at(means, 0)}
        if groups:
            rest = "no end" if self.process.ends.sum() <= len(groups) else "elsewhere"
            sizes = [len(each) for each in groups_of(groups, len(self))]
            places = range(len(sizes))
            found["fates"] = Fates(
                (*(spoken("state", end, self.process.state_names) for end, _ in groups), rest),
                tuple(sizes),
                {
                    name: tuple(tuple(_known_at(moves, row, k, j) for j in places) for k in places)
                    for row, name in enumerate(names)
                },
                tuple(_known_at(means, 1 + k) for k in places),
                partial(self._ranged, names, sizes, given[1:], drawn[1:]),
            )
        return found

    def _ranged(
        self, couplings: list[str], sizes: list[int], given: Sequence[Floats], drawn: Sequence[Floats]
    ) -> tuple[Answer, ...]:
        """By end: how many would not have come there, of those who did, from how many move and come there in all."""
        followed = self._setting.censored == "model" or not self._censored
        ranged = _spared(sizes, given[0], given[1], self._given_ranges, followed)
        models = _spared(sizes, drawn[0], drawn[1], self._drawn_ranges, followed) if len(drawn[0]) else drawn[0]
        spared = self._draws.posterior.summarise(ranged, models, 2)
        ends = range(len(self._groups))
        return tuple(answer_of(spared, couplings, "number that would not be there", end) for end in ends)

    def _replay(
        self, draws: PosteriorDraws, coupling: str, given: Sequence[Floats], drawn: Sequence[Floats], **found: Any
    ) -> Replay:
        """What was found, beside what is known of the episodes and said of all of them."""
        course, known = self._model.plain_course, self._known([coupling], given, drawn)
        return Replay(
            context=self._context(draws, ranges=bool(self._groups)),
            coupling=coupling,
            episodes=self.log.names,
            observed=self._model.observed,
            steps=course.steps,
            censored=course.censored,
            **known | {sign: known[sign][coupling] for sign in ("gains", "losses")},
            **found,
        )

    @cached_property
    def _model(self) -> Trajectories:
        if self.process.counts is None:
            estimation.as_policy(self.process, self._wanted)  # what a known process does not allow is refused
        return Trajectories(self.process, self._setting, spread=self._spread)

    @cached_property
    def _draws(self) -> PosteriorDraws:
        if self._posterior is None and self.process.counts is None:
            return self._no_draws
        return PosteriorDraws(self.process, self._posterior or Posterior(), self._setting.outcomes, spread=self._spread)

    @cached_property
    def _no_draws(self) -> PosteriorDraws:
        return PosteriorDraws(self.process, Posterior(num_draws=0), None, spread=False)

    def _couplings(self, couplings: Couplings | None, *, none: bool = False) -> dict[str, AbstractCoupling]:
        """The couplings asked for; by default two that are known to disagree. `none` allows none at all."""
        if couplings is None:
            return named_couplings(("gumbel-max", "inverse-cdf"))
        if not isinstance(couplings, Mapping | str | Path):
            couplings = list(couplings) if isinstance(couplings, Iterable) else couplings
            if not isinstance(couplings, list) or any(not isinstance(each, str | Path) for each in couplings):
                raise InputError(f"`couplings` must be words or files, or couplings by name, got {shown(couplings)}")
        labels = outcome_labels(self.process, self._setting.outcomes)
        return {} if none and not couplings else as_couplings(couplings, labels)

    def _one(self, episode: Hashable) -> Setting:
        """The same questions about one episode, over the steps that are compared."""
        position = find_episode(self.log, episode)
        known = int(self._compared[position]) if self._setting.censored == "stop" else self.horizon
        return replace(self._setting, log=self.log.select([position]), horizon=known)

    @cached_property
    def _meaning(self) -> Meaning:
        """What returns stand for."""
        ends = ends_of(self.process, self.log)
        names = tuple(spoken("state", int(end), self.process.state_names) for end in ends)
        return Meaning(names, earned_at(self.process, self.log, ends), self.discount)

    @cached_property
    def _sample(self) -> str:
        mdp, without = self.process, f"{self._censored} censored"
        if self._open:
            without += f", {self._open} without an end by the horizon"
        return (
            f"{counted(len(self.log), 'episode')}, {counted(self.log.num_steps, 'step')}, "
            f"{counted(mdp.num_states, 'state')}, {counted(mdp.num_actions, 'action')}; {without}; "
            f"horizon {self.horizon}, discount {self.discount:g}; {self._source}"
        )

    def _context(
        self,
        draws: PosteriorDraws,
        *,
        ranges: bool = False,
        told: tuple[str, ...] | None = None,
        assumed: tuple[str, ...] = (MODEL_GIVEN,),
    ) -> Context:
        """What is said beside an answer."""
        note = draws.posterior.note(self.process)
        level = f"; in parentheses, {confidence(draws.posterior.attained)} limits, one-sided" if note else ""
        left = self.policy[~self.process.absorbing]
        chance = told is None and bool(((left > 0) & (left < 1)).any())
        fixed = "Intervals take the states that were made as given; those of `evaluate` and `returns` do not."
        notes = (
            *(cautions.told_of_restriction(self.process, self.log, self._wanted) if told is None else told),
            *cautions.told_of_meaning(self._meaning),
            cautions.told_of_few(self.log) if told is None and self.process.counts is not None else "",
            *cautions.told_of_rewards(self.log, self.process),
            *cautions.told_of_ends(self.log, self.process.ends, self.process.never_left),
            *cautions.told_of_labels(self.log),
            *cautions.told_of_censoring(self._censored, len(self.log), carried_on=self._setting.censored == "model"),
            _DRAWN[self._actions] if chance else "",
            _RANGES.format(interval=level, too=", with these limits" if note else "") if ranges else "",
            note,
            *self._made,
            fixed if self._again is not None and note else "",
        )
        return Context(
            self._sample,
            (*(() if note else assumed), NO_CONFOUNDING),
            tuple(each for each in notes if each),
            self.horizon,
            self.discount,
            len(self.log),
            0 if self._setting.censored == "model" else self._censored,
            self._meaning,
        )


def _estimate_to(ends: tuple[Hashable, ...], log: EpisodeLog) -> FiniteMDP:
    """The estimate whose ends go by name: where states are made again, other positions may be theirs."""
    assert log.state_names is not None
    return estimate(log, absorbing=[place for place, name in enumerate(log.state_names) if name in ends])


def _learner(
    log: EpisodeLog,
    process: FiniteMDP | Callable[[EpisodeLog], FiniteMDP] | None,
    absorbing: Values | None,
    *,
    measured: bool,
) -> tuple[FiniteMDP | Callable[[EpisodeLog], FiniteMDP], str]:
    """The process, or what estimates it from a log; and where it comes from, in words."""
    if process is None:
        ends = None if absorbing is None else _named_states(log, absorbing)
        if measured:
            assert log.state_names is not None
            kept = () if ends is None else tuple(log.state_names[each] for each in np.flatnonzero(ends))
            return partial(_estimate_to, kept), "process estimated from these episodes"
        return partial(estimate, absorbing=ends), "process estimated from these episodes"
    if absorbing is not None:
        raise InputError("`absorbing` must be left out beside a `process`, which says itself where episodes end")
    if isinstance(process, FiniteMDP):
        return process, "process given" + ("" if process.counts is None else ", an estimate with counts")
    if not callable(process):
        raise InputError(f"`process` must be a FiniteMDP, or a function from a log to one, got {shown(process)}")
    return process, "process estimated from these episodes"


def _named_states(log: EpisodeLog, absorbing: Values) -> Values:
    """States by name, where they are given as text; else as they are."""
    found = [absorbing] if isinstance(absorbing, str) else absorbing
    if not isinstance(found, np.ndarray) and any(isinstance(each, str) for each in found):  # type: ignore[union-attr]
        names = log.state_names or tuple(range(log.num_states))
        found = places_of("absorbing", "states of the log", found, names)  # type: ignore[arg-type]
    return as_mask("absorbing", found, log.num_states)


def _bootstrap(num_resamples: int, level: float) -> str:
    if not num_resamples or not level:
        return f"{'Too few' if num_resamples else 'No'} resamples were drawn: sampling uncertainty is left out."
    return (
        f"In parentheses: {confidence(level)} confidence intervals, from {num_resamples} resamples of episodes; "
        "whatever is learned from the log is learned again in each. Their degrees of freedom are the effective sample "
        "size, of model-based estimates too: a model knows little of what was seldom done."
    )


def _replayed(
    model: Trajectories, coupling: AbstractCoupling, groups: Groups, found: ReplayedValues | None = None
) -> tuple[Floats, ...]:
    """[episode]: effects by one coupling, which may have been `found` already; and all episodes at once."""
    replay = model.replayed(coupling) if found is None else found
    effects = replay.values - model.observed
    return effects, *_of_all(model, effects[None], [replay.last], groups)


def _effects(model: Trajectories, couplings: list[AbstractCoupling], groups: Groups) -> tuple[Floats, ...]:
    """[couplings, two ranges; episode]: over adapted couplings, and if chance may persist; and all episodes at once."""
    replays, ranges = [model.replayed(each) for each in couplings], (*model.bounds(), *model.persistent_bounds())
    effects = np.stack([*(each.values for each in replays), *ranges]) - model.observed
    return effects, *_of_all(model, effects[: len(couplings)], [each.last for each in replays], groups)


def _of_all(
    model: Trajectories, effects: Floats, last: list[sparse.csr_array], groups: Groups
) -> tuple[Floats, Floats, Floats]:
    """How many gain and lose by each coupling, who comes where by it, and what is the same under all of them."""
    means = expected(model, groups)
    means[0] -= model.observed.mean()
    return signs(effects), moved(last, groups), means


def _spared(sizes: list[int], moves: Floats, means: Floats, ranges: Floats, followed: bool) -> Floats:
    """[..., couplings and two ranges, end]: how many of those who came to an end would not have.

    Ranges are sums over episodes. Where all are `followed` up to the horizon, they are no wider than the numbers who
    come there in all leave open: those who stay are no more than these, and those who come from elsewhere no more than
    all others.
    """
    size, there = np.array(sizes[:-1]), means[..., None, 1:-1]
    by_coupling = size - np.diagonal(moves, axis1=-2, axis2=-1)[..., :-1]
    least, most = (size - there, size - np.maximum(there - (sum(sizes) - size), 0)) if followed else (0.0, size)
    lower = np.minimum(np.maximum(ranges[..., ::2, :], least), by_coupling.min(axis=-2, keepdims=True))
    upper = np.maximum(np.minimum(ranges[..., 1::2, :], most), by_coupling.max(axis=-2, keepdims=True))
    both = np.stack([lower, upper], axis=-2).reshape(ranges.shape)
    return np.concatenate([by_coupling, both], axis=-2)


def _known_at(found: tuple[Floats, Interval | None], *place: int) -> Estimated:
    return Estimated(float(found[0][place]), at(found[1], place))
