"""A log under another policy, in one process: exact values, variances, bounds, and drawn trajectories.

Given a logged episode, the counterfactual state is a Markov chain. At each logged step its transitions answer one
question: given that action a took the patient from s to s', where would action b have taken a patient in state c? After
the log's end they are the process's own. A forward recursion carries three numbers for each state: the probability, and
the first two moments of the reward so far. Nothing is sampled.

Bounds: at each step a coupling may answer with any row `w` between 0 and `q / p_x`, which is all that the data say of
it. Backwards from the last step, the best (the worst) such row from every state gives bounds for the value of a whole
trajectory. The logged action in the logged state leads to the logged successor for certain. No coupling that draws
afresh at each step (an adapted coupling) gives a value outside the bounds; some attain each, if they may differ from
step to step. Where chance may persist across steps there are wider ones, in `_persistent`. Where the rewards of one
transition vary, bounds let each be any that was seen, or as far from its mean as any into the same state.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray
from scipy import sparse

from countermax._core.errors import InputError
from countermax._core.memory import check_memory
from countermax._core.progress import ProgressBar
from countermax.bounds import Bounds
from countermax.couplings import AbstractCoupling, AbstractSampler
from countermax.couplings._named import name_of
from countermax.mdp._arrays import Floats, Ints, Values, one_hot
from countermax.mdp._planning import edges_of, pick
from countermax.mdp._process import FiniteMDP
from countermax.mdp._replays import _course as courses
from countermax.mdp._replays._chains import AbstractChains, Arrived, ToCome, Valued, chains_for, each_batch
from countermax.mdp._replays._course import Choices, Course, Setting
from countermax.mdp._replays._persistent import persistent_actions, persistent_values
from countermax.mdp._replays._questions import Facts, Questions, TransitionCoupling, facts_of, questions

AnyCoupling: TypeAlias = str | Path | AbstractSampler
"""A coupling, its name, or its file."""
Groups: TypeAlias = tuple[tuple[int, Ints], ...]
"""Ends, each with the positions of the episodes that came to it."""


class ReplayedValues(NamedTuple):
    """What would have become of each episode."""

    values: Float[np.ndarray, " n"]
    variances: Float[np.ndarray, " n"]
    last: sparse.csr_array
    path: Float[np.ndarray, "n times s"] | None


class Trajectories:
    """Every question about a log that needs one process; what several of them need is computed once."""

    def __init__(self, mdp: FiniteMDP, setting: Setting, *, spread: bool = False, quiet: bool = False):
        """Computes nothing yet; `spread` asks on Ray, and `quiet` shows no progress bar, which cannot be in another."""
        self.mdp, self.setting, self._spread = mdp, setting, spread
        self._shown = False if quiet else None
        self._known: dict[bool, Bounds] = {}

    @cached_property
    def facts(self) -> Facts:
        """Which transition each logged step was."""
        return facts_of(self.mdp, self.setting.log)

    @cached_property
    def plain_course(self) -> Course:
        """The episodes with actions that are drawn afresh."""
        return self._course(courses.fresh(self.setting.policy, self.facts))

    @cached_property
    def observed(self) -> Floats:
        """What each episode earned in the steps that are compared; where the model carries on, with what was usual."""
        course, log = self.plain_course, self.setting.log
        found = log.returns(course.discount, horizon=course.horizon)
        rest = course.censored & (course.steps > course.seen)
        if not rest.any():
            return found
        usually = replace(course, choices=course.choices._replace(after=self.setting.usual))
        worth, rows = usually.to_come()
        later = course.discount**course.seen * worth[rows, log.last_states]
        return found + np.where(rest, later, 0)

    def law(self, coupling: AnyCoupling, *, exact: bool = True) -> TransitionCoupling:
        """A coupling between the rows of the process; where it must be exact, one that can only draw is refused."""
        return TransitionCoupling.of(self.mdp, coupling, self.setting.outcomes, exact=exact)

    def values(self, coupling: AnyCoupling) -> Floats:
        """What each episode would have earned on average, and nothing else."""
        law = self.law(coupling)
        course = self._course_of(law.answering)
        found = np.zeros(len(course))
        batches = each_batch(chains_for(course, law), course, course.to_come(), _valued, spread=self._spread)
        for episodes, values in _watched("replaying", course, batches, self._shown):
            found[episodes] = values
        return found

    def replayed(self, coupling: AnyCoupling, *, path: bool = False) -> ReplayedValues:
        """Values with variances and where episodes would have ended; with `path`, where they would have been."""
        law = self.law(coupling)
        course = self._course_of(law.answering)
        if path:
            check_memory(
                f"the paths of {len(course)} episodes over {self.mdp.num_states} states and {course.horizon} steps",
                16 * len(course) * self.mdp.num_states * (course.horizon + 1),
                "leave out `path`, or lower `horizon`",
            )
        centred, taken = courses.centred(course)
        law = law if centred is course else TransitionCoupling.of(centred.mdp, law.answering, self.setting.outcomes)
        count = len(course)
        first, second = np.zeros(count), np.zeros(count)
        paths = np.zeros((count, course.horizon + 1, self.mdp.num_states)) if path else None
        ends: list[tuple[Ints, sparse.csr_array]] = []
        take, to_come = partial(_moments_of, path=path), centred.squares_to_come()
        batches = each_batch(chains_for(centred, law), centred, to_come, take, spread=self._spread)
        for episodes, one, two, last, followed in _watched("replaying", course, batches, self._shown):
            first[episodes], second[episodes] = one, two
            if paths is not None:
                paths[episodes] = followed
            ends.append((episodes, last))
        order = np.argsort(np.concatenate([episodes for episodes, _ in ends]))
        last = sparse.csr_array(sparse.vstack([each for _, each in ends], format="csr"))
        return ReplayedValues(first + taken, np.maximum(second - first**2, 0), last[order], paths)

    def bounds(self, *, stable: bool = False, rewards: Values | None = None, final: Values | None = None) -> Bounds:
        """The least and the largest value of each episode over all adapted couplings; see `Cohort.bounds`."""
        plain = rewards is None and final is None
        if plain and stable in self._known:
            return self._known[stable]
        course, last = self._asked(rewards, final)
        found = [
            _bounds(some, some.to_come(last), stable=stable, spread=self._spread, shown=self._shown)
            for some in self._extremes(course, rewards)
        ]
        whole = Bounds(found[0].lower, found[-1].upper)
        if plain:
            self._known[stable] = whole
        return whole

    def persistent_bounds(self, rewards: Values | None = None, final: Values | None = None) -> Bounds:
        """The same if chance may persist across steps."""
        course, last = self._asked(rewards, final)
        if last is not None and last.ndim > 1:
            raise InputError(f"`final` must be [state] where chance may persist, got shape {last.shape}")
        score = np.zeros(self.mdp.num_states) if last is None else last
        found = [persistent_values(some, score, signs) for some, signs in self._signed(course, rewards)]
        return Bounds(*np.concatenate(found))

    @cached_property
    def untried(self) -> Bool[np.ndarray, " n"]:
        """Which episodes may come to an action that nobody took where it would be taken, under some coupling."""
        mark = self.mdp.untried
        used = mark & ((self.setting.policy > 0) | (self.plain_course.choices.after > 0))
        if not used.any():
            return np.zeros(len(self.setting.log), bool)
        return self.bounds(rewards=np.broadcast_to(mark[:, :, None], self.mdp.probs.shape)).upper > 0

    def untried_actions(self) -> Bool[np.ndarray, "t a"]:
        """Which single decisions about one episode may come to such an action."""
        mark = self.mdp.untried
        if not mark.any():
            return np.zeros((int(self.plain_course.seen[0]), self.mdp.num_actions), bool)
        rewards = np.broadcast_to(mark[:, :, None], self.mdp.probs.shape).astype(np.float64)
        return self._worth_of_actions((), rewards)[-1] > 0

    def _asked(self, rewards: Values | None, final: Values | None) -> tuple[Course, Floats | None]:
        course = self._course_of(None, rewards)
        shape = (len(course), self.mdp.num_states)
        return course, None if final is None else courses.as_shape("final", final, shape, shape[1:])

    def _extremes(self, course: Course, rewards: Values | None) -> tuple[Course, ...]:
        """The course with the least and with the largest rewards; one course where rewards do not vary."""
        if rewards is not None or self.setting.varying is None:
            return (course,)
        return tuple(replace(course, gains=gains, spreads=None) for gains in self.setting.varying.of(self.mdp))

    def _signed(self, course: Course, rewards: Values | None = None) -> list[tuple[Course, tuple[int, ...]]]:
        """Which course has the least values, -1, and which the largest, 1."""
        extremes = self._extremes(course, rewards)
        return [(course, (-1, 1))] if len(extremes) == 1 else list(zip(extremes, ((-1,), (1,)), strict=True))

    def final_bounds(self, marks: Floats) -> Float[np.ndarray, "4 n m"]:
        """The chances of where episodes end, [mark, state]: least, largest, and the same if chance may persist."""
        same = Trajectories(self.mdp, replace(self.setting, discount=1.0), spread=self._spread, quiet=True)
        found = [
            (*same.bounds(rewards=0.0, final=mark), *same.persistent_bounds(rewards=0.0, final=mark)) for mark in marks
        ]
        return np.clip(np.stack(found, axis=-1), 0, 1)

    def feature_bounds(self, scores: Floats) -> Bounds:
        """The bounds of features, [state, feature], along one episode, [time, feature].

        Each is a backward pass from that time, with nothing earned.
        """
        count, horizon = scores.shape[1], self.setting.horizon
        check_memory(
            f"{count} features of {self.mdp.num_states} states over {horizon} steps",
            24 * count * self.mdp.num_states * (horizon + 1),
            "lower `horizon`, or follow fewer features",
        )
        times = np.repeat(np.arange(horizon + 1), count)
        copies = self.setting.log.select(np.zeros(len(times), np.int64))
        asked = replace(self.setting, log=copies, discount=1.0, censored="model", behaviour=None)
        course = Trajectories(self.mdp, asked)._course_of(None, 0.0)
        timed = replace(course, seen=np.minimum(course.seen, times), steps=times)
        found = _bounds(timed, timed.to_come(np.tile(scores.T, (horizon + 1, 1))), stable=False, shown=False)
        return Bounds(found.lower.reshape(-1, count), found.upper.reshape(-1, count))

    def step_bounds(self, coupling: AnyCoupling) -> Bounds:
        """The bounds of one episode's value if one step's coupling is any other, for each logged step; sharp."""
        course = self.plain_course
        chains, any_coupling = chains_for(course, self.law(coupling)), chains_for(course, None)
        nobody = np.zeros(1, np.int64)
        chain = chains.forwards(nobody, path=True).path
        values = chains.backwards(nobody, *course.to_come(), keep=True).values
        assert chain is not None
        assert values is not None
        count = int(course.seen[0])
        whole = float(values[0, 0, 0, course.first[0]])
        limits = np.full((2, count), whole)
        for step in range(count):
            fact, earned = int(self.facts.of_step[0, step]), float(course.earned[0, step])
            gained = any_coupling.one_step(fact, earned, values[0, 0, step + 1]) - values[0, 0, step]
            limits[:, step] += course.discount**step * (gained @ chain[0, step])
        return Bounds(np.minimum(limits[0], whole), np.maximum(limits[1], whole))

    def effects_of_actions(self, couplings: Sequence[AnyCoupling]) -> Floats:
        """[couplings, ranges; step; action]: what would have been added, had this been done there.

        Ranges are the least and the largest over adapted couplings, then the same if chance may persist. All other
        actions stay as logged; where those are not known, and after the log's end, both worlds do what was usual.
        """
        course = self._course(courses.as_logged(self.mdp, self.facts, self.setting.usual))
        wide = [persistent_actions(some, signs) for some, signs in self._signed(course)]
        return np.concatenate([self._worth_of_actions(couplings), *wide]) - self.observed[0]

    def _worth_of_actions(self, couplings: Sequence[AnyCoupling], rewards: Values | None = None) -> Floats:
        """[couplings, least and largest; step; action]: what one episode would have earned.

        Up to the change nothing differs, so the other world is where the log was: what was earned until then, and one
        row that leads to states whose worth under the logged actions one backward pass gives for all decisions at
        once.
        """
        course = self._course(courses.as_logged(self.mdp, self.facts, self.setting.usual), rewards)
        count = int(course.seen[0])
        earned = course.discount ** np.arange(count) * course.earned[0, :count]
        before = np.concatenate([[0], np.cumsum(earned)])
        asked = [(course, self.law(each), 1) for each in couplings]
        extremes = self._extremes(course, rewards)
        found = []
        for some, law, sign in (*asked, (extremes[0], None, -1), (extremes[-1], None, 1)):
            chains = chains_for(some, law)
            values = chains.backwards(np.zeros(1, np.int64), *some.to_come(), keep=True).values
            assert values is not None
            worth = np.zeros((count, self.mdp.num_actions))
            for step in range(count):
                later = np.ascontiguousarray(values[0 if sign < 0 else 1, 0, step + 1])
                fact, state = int(self.facts.of_step[0, step]), int(self.setting.log.states[0, step])
                rows = chains.one_row(fact, float(course.earned[0, step]), later, state, sign=sign)
                worth[step] = before[step] + course.discount**step * rows
            found.append(worth)
        return np.stack(found)

    def drawn(self, rows: TransitionCoupling, num_samples: int, *, key: PRNGKeyArray) -> tuple[Ints, Ints, Floats]:
        """States, actions and returns of trajectories that might have been, [episode, sample, ...].

        Noise that explains what was seen is put to the other policy's rows.
        """
        mdp, log, facts = self.mdp, self.setting.log, self.facts
        law = rows.coupling if isinstance(rows.coupling, AbstractCoupling) else None
        if self.setting.behaviour is not None and law is None:
            name = name_of(rows.coupling)
            raise InputError(f"`coupling` must have an exact law for coupled actions, but {name} can only draw")
        course = self.plain_course if law is None else self._course_of(law)
        choices, steps, factor = course.choices, course.horizon, course.discount
        count = len(log) * num_samples
        check_memory(
            f"{num_samples} draws of {len(log)} episodes over {steps} steps",
            8 * count * (2 * steps + 8 + 3 * (mdp.width + mdp.num_actions)),
            "lower `num_samples` or `horizon`",
        )
        episode = np.repeat(np.arange(len(log)), num_samples)
        states, done = np.zeros((count, steps + 1), np.int64), np.zeros((count, steps), np.int64)
        returns = np.zeros(count)
        states[:, 0] = log.states[episode, 0]
        for step in range(steps):
            key_uniform, key_answers = jax.random.split(jax.random.fold_in(key, step))
            for_action, for_state = np.asarray(jax.random.uniform(key_uniform, (2, count), jnp.float32))
            state, fact = states[:, step], facts.of_step[episode, step] if step < log.longest else np.full(count, -1)
            logged = choices.tables[choices.of_fact[np.maximum(fact, 0)], state]
            wanted = np.where((fact >= 0)[:, None], logged, choices.after[state])
            action = pick(edges_of(wanted), for_action)
            slot = pick(edges_of(mdp.probs[state, action]), for_state)
            seen = np.flatnonzero((fact >= 0) & ~mdp.absorbing[state])
            asked = questions(facts, fact[seen], state[seen], action[seen])
            same = (asked.state == asked.other_state) & (asked.action == asked.other_action)
            slot[seen[~same]] = rows.draws(Questions(*(each[~same] for each in asked)), key=key_answers)
            gain = mdp.rewards[state, action, slot]
            kept = seen[same]  # nothing is changed there, so nothing changes
            slot[kept], gain[kept] = asked.next_slot[same], log.rewards[episode[kept], min(step, log.longest - 1)]
            going = step < course.steps[episode]
            states[:, step + 1] = np.where(going, mdp.successors[state, action, slot], state)
            done[:, step] = np.where(going, action, 0)
            returns += factor**step * np.where(going, gain, 0)
        shape = (len(log), num_samples)
        return states.reshape(*shape, -1), done.reshape(*shape, -1), returns.reshape(shape)

    def _course_of(self, coupling: AbstractCoupling | None, rewards: Values | None = None) -> Course:
        """The episodes with the choices of the policy; without a coupling, for bounds."""
        policy, behaviour = self.setting.policy, self.setting.behaviour
        if behaviour is None:
            return self.plain_course if rewards is None else self._course(self.plain_course.choices, rewards)
        never = behaviour[self.facts.state, self.facts.action] <= 0
        if never.any():
            at = int(never.argmax())
            raise InputError(
                "`behaviour` must give what was done a positive probability, but has none for "
                f"{self.mdp.name_of_action(int(self.facts.action[at]))} in "
                f"{self.mdp.name_of_state(int(self.facts.state[at]))}"
            )
        if coupling is None:
            return self._course(courses.any_coupled(self.facts, policy, behaviour), rewards)
        return self._course(courses.coupled(coupling, self.facts, policy, behaviour), rewards)

    def _course(self, choices: Choices, rewards: Values | None = None) -> Course:
        return courses.course_of(self.mdp, self.setting, self.facts, choices, rewards)


def moved(last: Sequence[sparse.csr_array], groups: Groups) -> Floats:
    """[coupling, group, group]: how many of those who came to an end would come to which, and elsewhere (the last)."""
    where, members = [end for end, _ in groups], groups_of(groups, last[0].shape[0])
    found = np.zeros((len(last), len(members), len(members)))
    for place, those in enumerate(members):
        for row, each in zip(found, last, strict=True):
            row[place, :-1] = each[those][:, where].sum(axis=0)
            row[place, -1] = len(those) - row[place, :-1].sum()
    return found


def groups_of(groups: Groups, count: int) -> list[Ints]:
    """The positions of the episodes that came to each end, and at last of all others."""
    ended = [members for _, members in groups]
    return [*ended, np.setdiff1d(np.arange(count), np.concatenate([*ended, np.zeros(0, np.int64)]))]


def expected(model: Trajectories, groups: Groups) -> Floats:
    """The mean return of the policy from the same first states, and how many come to each end, and elsewhere.

    For the episodes that the log is a sample of, these are the same under every coupling. They are followed as long as
    those of the log: an episode that ended was followed for longer, so follow-up is estimated.
    """
    course = model.plain_course
    mdp, policy = course.mdp, course.choices.after
    chain, gains = course.chain, (policy * mdp.expected_rewards).sum(axis=1)
    worth, found = np.zeros((mdp.num_states, 1 + len(groups))), np.zeros(2 + len(groups))
    worth[[end for end, _ in groups], np.arange(len(groups)) + 1] = 1
    starts = np.bincount(course.first, minlength=mdp.num_states)
    for steps, share in enumerate(course.follow_up):
        if steps:
            later = chain @ worth
            later[:, 0] = gains + course.discount * later[:, 0]
            worth = later
        if share:
            found[:-1] += share * (starts @ worth)
    found[0] /= len(course)
    found[-1] = len(course) - found[1:-1].sum()
    return found


def spared_bounds(model: Trajectories, groups: Groups) -> Floats:
    """[range, group]: the least and the most over adapted couplings, and the same if chance may persist."""
    found = np.zeros((4, len(groups)))
    for place, (end, members) in enumerate(groups):
        some = Trajectories(model.mdp, replace(model.setting, log=model.setting.log.select(members)), quiet=True)
        again = some.final_bounds(one_hot(end, model.mdp.num_states)[None])[[1, 0, 3, 2], :, 0]
        found[:, place] = len(members) - again.sum(axis=1)
    return found


def _valued(chains: AbstractChains, course: Course, batch: Ints, to_come: ToCome) -> tuple[Ints, Floats]:
    """Some episodes and their values: what was earned when the log ends, and what is still to come."""
    arrived, (later, rows) = chains.forwards(batch, path=False), to_come
    after = (arrived.moments[:, :, 0] * later[rows[arrived.episodes]]).sum(axis=1)
    factor = course.discount ** course.seen[arrived.episodes]
    return arrived.episodes, arrived.moments[:, :, 1].sum(axis=1) + factor * after


def _moments_of(
    chains: AbstractChains, course: Course, batch: Ints, to_come: ToCome, *, path: bool
) -> tuple[Ints, Floats, Floats, sparse.csr_array, Floats | None]:
    """Some episodes, both moments of their returns, where they are at the end and, with `path`, at all times."""
    arrived, (first, second, rows) = chains.forwards(batch, path=path), to_come
    row = rows[arrived.episodes]
    factor = course.discount ** course.seen[arrived.episodes]
    mass, one, two = np.moveaxis(arrived.moments, 2, 0)
    later, its_square = first[row], second[row]
    moments = (
        one.sum(axis=1) + factor * (mass * later).sum(axis=1),
        two.sum(axis=1) + 2 * factor * (one * later).sum(axis=1) + factor**2 * (mass * its_square).sum(axis=1),
    )
    if path:
        followed = _followed(course, arrived)
        return arrived.episodes, *moments, sparse.csr_array(followed[:, -1]), followed
    rest = course.steps[arrived.episodes] - course.seen[arrived.episodes]
    return arrived.episodes, *moments, sparse.csr_array(chains.carry_on(mass, rest)), None


def _followed(course: Course, arrived: Arrived) -> Floats:
    """[episode, time, state]: where chains are, on plain rows after the log's end."""
    seen, steps = course.seen[arrived.episodes], course.steps[arrived.episodes]
    here = arrived.moments[:, :, 0].copy()
    paths = np.zeros((len(here), course.horizon + 1, course.mdp.num_states))
    if arrived.path is not None:
        paths[:, : arrived.path.shape[1]] = arrived.path
    for step in range(int(seen.min()), course.horizon):
        going = np.flatnonzero((seen <= step) & (step < steps))
        if len(going):
            here[going] = np.asarray(here[going] @ course.chain)
        over = np.flatnonzero(seen <= step)
        paths[over, step + 1] = here[over]
    return paths


def _bounds(course: Course, to_come: ToCome, *, stable: bool, spread: bool = False, shown: bool | None) -> Bounds:
    lower, upper = np.zeros(len(course)), np.zeros(len(course))
    chains = chains_for(course, None, stable=stable)
    batches = each_batch(chains, course, to_come, _bounded, backwards=True, spread=spread)
    for episodes, least, most, _ in _watched("bounding", course, batches, shown):
        lower[episodes], upper[episodes] = least, most
    return Bounds(lower, upper)


def _watched(what: str, course: Course, batches: Iterable[Any], shown: bool | None) -> Iterator[Any]:
    """What is found of each batch, beside a progress bar."""
    with ProgressBar(what, len(course), shown, unit="episodes") as bar:
        for found in batches:
            yield found
            bar.advance(len(found[0]))


def _bounded(chains: AbstractChains, course: Course, batch: Ints, to_come: ToCome) -> Valued:
    del course
    return chains.backwards(batch, *to_come, keep=False)
