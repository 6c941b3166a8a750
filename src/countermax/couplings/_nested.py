"""Nested Gumbel-max: outcomes in a hierarchy of nests, whose noise is the more alike the nearer they are."""

import csv
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, DTypeLike, Float, Int, PRNGKeyArray
from numpy.typing import NDArray

from countermax import _nests as nests
from countermax import race
from countermax._core.checks import as_floats, is_traced
from countermax._core.errors import InputError, first_line
from countermax._core.extras import import_yaml
from countermax._core.labels import Labels, listed
from countermax._core.quantities import as_flag
from countermax._core.types import Joint, Logits, LogProbs, Outcome, Probs, Scalar
from countermax.couplings._base import AbstractArgmaxSampler, AbstractCoupling, AbstractMechanism
from countermax.couplings._fields import check_floats

_LEAST = 1e-3  # scale of a nest that numbers can follow; below it is 0, as far as anybody can tell


class NestNoise(eqx.Module):
    """What outcomes add to their utilities, and what all outcomes of a nest do."""

    outcomes: Float[Array, " k"]
    """A standard Gumbel for each outcome."""
    nests: Float[Array, " n"]
    """For each nest the logarithm of a positive stable number; a Gumbel that nobody hears where its dissimilarity is 1,
    and one for the whole nest where it is 0."""


@final
class NestedGumbelMax(AbstractArgmaxSampler[NestNoise], AbstractMechanism[NestNoise], AbstractCoupling):
    """Gumbel-max for outcomes of which some are alike: those in one nest replace each other first.

    The noise is that of the nested logit (McFadden 1978), whatever the probabilities are. With a dissimilarity of 1 it
    is `GumbelMax`, to the bit; at 0 it is Gumbel-max between nests, then within the nest that is kept, and from a nest
    that is left the new one's own shares. In between a row is one integral of a piecewise analytic function
    (`countermax._nests`), exact to rounding. It is not stable, as no mechanism but Gumbel-max is for all worlds.
    """

    home: Int[Array, " k"]
    """The nest of each outcome: 0 for those that stand alone, else 1 and its place among `names`."""
    numbers: Float[Array, " n"]
    """The dissimilarity of each nest; training may move a number beyond 0 or 1, and then the end counts."""
    parents: tuple[int, ...] = eqx.field(static=True)
    """The nest around each nest: 0 for none."""
    names: tuple[str, ...] = eqx.field(static=True)
    labels: tuple[str, ...] = eqx.field(static=True)
    """Names of the outcomes in their order; none where nests hold indices."""
    is_limit: bool = eqx.field(static=True)
    """Whether all dissimilarities are 0."""

    def __init__(
        self,
        nests: Mapping[Any, Any],
        dissimilarity: Mapping[str, Any] | ArrayLike | Sequence[Any] | None = None,
        *,
        labels: int | Sequence[Hashable] | Labels,
        absolute: bool = False,
    ):
        """Puts outcomes into nests.

        Args:
            nests: Contents of each nest, by its name: a list of outcomes, and for several levels of further such
                mappings, `{"public": ["ferry", {"land": ["bus", "tram"]}]}`. What is in none stands alone. Or the root
                as ActivitySim writes it, with `name`, `coefficient` and `alternatives`.
            dissimilarity: Number in (0, 1], or 0, for all nests; or one by name or in the order of `names`, above 0. It
                is relative to the nest around, as ActivitySim writes logsum coefficients; of Biogeme's `mu` it is the
                inverse. Of ActivitySim's nests it has the values of coefficients that are names.
            labels: All outcomes in their order, or how many there are, and nests then hold their indices.
            absolute: Whether dissimilarities are relative to the root, as textbooks write them.
        """
        if isinstance(labels, int):
            labels = range(labels)
        known = labels if isinstance(labels, Labels) else Labels(tuple(labels))
        if not isinstance(nests, Mapping):
            raise InputError(f"`nests` must map names of nests to lists of outcomes, got {nests!r}")
        whole, content = "alternatives" in nests, [nests]
        if whole:
            content, dissimilarity = _of_activitysim(nests, dissimilarity)
        home, parents, names = _tree(content, known, whole)
        self.home, self.parents, self.names = jax.device_put(np.asarray(home, np.int32)), parents, names
        self.labels = () if isinstance(labels, range) else known.names
        found = _dissimilarities(dissimilarity, names)
        self.numbers = _relative(found, parents, names) if as_flag("`absolute`", absolute) else found
        self.is_limit = not is_traced(found) and not np.asarray(found).any()
        _check_numbers(self.numbers, parents, names)

    def __check_init__(self) -> None:
        as_flag("`is_limit`", self.is_limit)
        check_floats("numbers", self.numbers, 1)
        count = self.numbers.size
        if not eqx.is_array(self.home) or self.home.dtype not in (jnp.int32, jnp.int64) or self.home.ndim != 1:
            raise InputError("`home` must be a list of integers")
        for field, values, kind in (("parents", self.parents, int), ("names", self.names, str)):
            if not isinstance(values, tuple) or len(values) != count or any(type(each) is not kind for each in values):
                raise InputError(f"`{field}` must have one for each of {count} nests")
        of_words = isinstance(self.labels, tuple) and all(type(each) is str for each in self.labels)
        if not of_words or len(self.labels) not in (0, self.home.size):
            raise InputError(f"`labels` must name each of {self.home.size} outcomes, or none")
        if (
            any(not 0 <= parent <= place for place, parent in enumerate(self.parents))
            or (np.diff(nests.paths_of(self.parents).depth) < 0).any()
        ):
            raise InputError("`parents` must come before the nests that they hold, by their depth")
        if not is_traced(self.home):
            places = np.asarray(self.home)
            if not places.size or places.min() < 0 or places.max() > count:
                raise InputError(f"`home` must lie in 0..{count} for each of at least one outcome")
        if self.is_limit and not is_traced(self.numbers) and np.asarray(self.numbers).any():
            raise InputError("`numbers` must all be 0 in the limit")

    @property
    def dissimilarity(self) -> Float[Array, " n"]:
        """That of each nest, relative to the nest around it, in the order of `names`."""
        if self.is_limit:
            return self.numbers
        return jnp.where(self.numbers > 1, 1, jnp.where(self.numbers < _LEAST, _LEAST, self.numbers))

    @property
    def _plain_numbers(self) -> NDArray[np.float64]:
        """The same for code that is not JAX's, whatever precision that has now."""
        numbers = np.asarray(self.numbers, np.float64)
        return numbers if self.is_limit else np.clip(numbers, _LEAST, 1)

    @property
    def num_outcomes(self) -> int | None:
        return self.home.size

    @property
    def title(self) -> str:
        """What results call it: by its dissimilarities."""
        kind = np.asarray(self.numbers).dtype  # in as many digits as its precision has
        numbers = [str(each) for each in self._plain_numbers.astype(kind)]
        texts = [each.removesuffix(".0") for each in (numbers[:1] if len(set(numbers)) == 1 else numbers)]
        return f"nested Gumbel-max {', '.join(texts[:4])}{', ...' if len(texts) > 4 else ''}"

    def noise(self, num_outcomes: int, *, key: PRNGKeyArray, dtype: DTypeLike = float) -> NestNoise:
        """A standard Gumbel for each outcome, and the logarithm of a positive stable number for each nest."""
        key_outcomes, key_nests = jax.random.split(key)
        numbers = self._numbers(dtype)
        return NestNoise(
            jax.random.gumbel(key_outcomes, (num_outcomes,), dtype),
            self._of_nests(_log_stable(numbers, key=key_nests), key=key_nests),
        )

    def choice(self, utilities: Logits) -> tuple[LogProbs, Scalar]:
        """The nested logit: log-probabilities of the outcomes, and the logsum, which is the mean of the best utility.

        Up to Euler's constant, that is. Elasticities are their derivatives (`jax.jacobian`).

        Args:
            utilities: A number for each outcome; `-inf` where it is not available.
        """
        if self.is_limit:
            raise InputError("`dissimilarity` must be above 0 for utilities: at 0 those within a nest are all alike")
        return nests.choice(self._tree(u := as_floats("utilities", utilities, 1)), u)

    def _joint(self, log_p: LogProbs, log_q: LogProbs) -> Joint:
        tree = self._tree(log_p)
        if self.is_limit:
            return nests.limit_joint(tree, log_p, log_q)
        return self._or_race(nests.joint(tree, log_p, log_q), race.joint(log_p, log_q))

    def _counterfactual_probs(self, log_p: LogProbs, log_q: LogProbs, x: Outcome) -> Probs:
        tree = self._tree(log_p)
        if self.is_limit:
            return nests.limit_row(tree, log_p, log_q, x)
        return self._or_race(nests.row(tree, log_p, log_q, x), race.row(log_p, log_q, x))

    def _scores(self, noise: NestNoise, log_p: LogProbs) -> LogProbs:
        tree = self._tree(log_p)
        world = nests.world_of(tree, log_p)
        if self.is_limit:
            return self._limit_scores(noise, world)
        v, _ = nests.utilities(tree, world)
        return v + (tree.scale[tree.home] * noise.outcomes + self._shift(tree, noise.nests)[tree.home])

    def _abduct(self, log_p: LogProbs, x: Outcome, *, key: PRNGKeyArray) -> NestNoise:
        """Top down: the best utility is a standard Gumbel, whoever has it; then nests given that, then outcomes.

        That nothing in a nest beats the best tilts its stable number `S` by `exp(-t S)`. That the best is in it weighs
        by `S` too, which adds a Gamma number of shape `1 - dissimilarity` and rate `t`.
        """
        tree, (key_best, key_nests, key_rest) = self._tree(log_p), jax.random.split(key, 3)
        world = nests.world_of(tree, log_p)
        if self.is_limit:
            return self._limit_abduct(world, x, key=key)
        v, worth = nests.utilities(tree, world)
        best = jax.random.gumbel(key_best, (), log_p.dtype)
        numbers, around = self._numbers(log_p.dtype), tree.paths.around
        on_path = (jnp.asarray(around)[:, tree.home[x]][:, None] == jnp.arange(1, numbers.size + 1)[None, :]).any(
            axis=0
        )
        log_weight = jnp.where(worth > -jnp.inf, (worth - best) / tree.scale, -jnp.inf)[1:]
        size, edges = (
            jnp.zeros(numbers.size + 1, log_p.dtype),
            np.searchsorted(tree.paths.depth, np.arange(len(around) + 1)),
        )
        stable = jnp.zeros(numbers.size, log_p.dtype)
        for level in range(1, len(around)):  # `size`: log of the scale of the stable numbers, from the root down
            here = slice(edges[level] - 1, edges[level + 1] - 1)
            index, outer = numbers[here], size[np.asarray(self.parents)[here]] / numbers[here]
            drawn = _log_tilted(
                index, log_weight[here] + outer, on_path[here], key=jax.random.fold_in(key_nests, level)
            )
            stable = stable.at[here].set(drawn)
            size = size.at[edges[level] : edges[level + 1]].set(drawn + outer)
        common = self._of_nests(stable, key=key_nests)
        shift = self._shift(tree, common)[tree.home]
        scale = tree.scale[tree.home]
        possible = jnp.where(v > -jnp.inf, v, 0)
        winner = (best - v[x] - shift[x]) / scale[x]
        best = v[x] + (scale[x] * winner + shift[x])  # as it will be seen
        room = jnp.where(v > -jnp.inf, (best - possible - shift) / scale, jnp.inf)
        rest = jax.random.gumbel(key_rest, log_p.shape, log_p.dtype)
        losers = -jnp.logaddexp(-room, -rest)
        # Rounding can lift a loser to the winner's score; a few units in the last place keep it below.
        margin = 8 * np.finfo(log_p.dtype).eps * (1 + jnp.abs(possible) + jnp.abs(best) + jnp.abs(shift)) / scale
        losers = jnp.minimum(losers, room - margin)
        return NestNoise(losers.at[x].set(winner), common)

    def _tree(self, log_p: LogProbs) -> nests.Tree:
        return nests.Tree(self._home, self.parents, self._numbers(log_p.dtype))

    @property
    def _home(self) -> Int[Array, " k"]:
        return self.home.astype(int)  # of the precision that other indices have now

    def _numbers(self, dtype: DTypeLike) -> Float[Array, " n"]:
        return self.dissimilarity.astype(dtype)

    def _or_race(self, law: Array, without_nests: Array) -> Array:
        """Gumbel-max itself where all dissimilarities are 1; gradients there are those of the law."""
        changes = law - jax.lax.stop_gradient(law)
        return jnp.where((self.dissimilarity == 1).all(), jax.lax.stop_gradient(without_nests) + changes, law)

    def _of_nests(self, stable: Float[Array, " n"], *, key: PRNGKeyArray) -> Float[Array, " n"]:
        """Gumbels in place of numbers that are always the same."""
        unheard = jax.random.gumbel(jax.random.fold_in(key, 0), stable.shape, stable.dtype)
        return jnp.where((self._numbers(stable.dtype) % 1) == 0, unheard, stable)

    def _shift(self, tree: nests.Tree, noise: Float[Array, " n"]) -> Float[Array, " m"]:
        """What outcomes of each nest add together: scale times the logarithm of the stable number, along the path."""
        heard = jnp.where(tree.dissimilarity == 1, 0, noise)
        edge = jnp.zeros(1, noise.dtype)
        return jnp.concatenate([edge, tree.scale[1:] * heard, edge])[tree.paths.around].sum(axis=0)

    def _limit_scores(self, noise: NestNoise, world: nests.World) -> LogProbs:
        """Those of the top level as they are, below them by how much less than the best of a nest."""
        depth, around = nests.paths_of(self.parents)
        of_outcomes, of_nests = world.share + noise.outcomes, world.nest_share[1:] + noise.nests
        parent = np.asarray(self.parents, np.int64)
        best = jnp.maximum(
            jax.ops.segment_max(of_outcomes, self._home, len(depth)),
            jax.ops.segment_max(of_nests, jnp.asarray(parent), len(depth)),
        )
        best = jnp.where(jnp.isfinite(best), best, 0).at[0].set(0)
        edge = jnp.zeros(1, of_nests.dtype)
        steps = jnp.concatenate([edge, of_nests - best[parent], edge])
        return steps[around].sum(axis=0)[self._home] + (of_outcomes - best[self._home])

    def _limit_abduct(self, world: nests.World, x: Outcome, *, key: PRNGKeyArray) -> NestNoise:
        """On the way to x each nest's best child is the one that leads there; elsewhere noise is as it was."""
        key_best, key_rest = jax.random.split(key)
        depth, around = nests.paths_of(self.parents)
        size, dtype = self._home.size, world.share.dtype
        log_share = jnp.concatenate([world.share, world.nest_share[1:]])
        parent = jnp.concatenate([self._home, jnp.asarray(self.parents, self._home.dtype)])
        path = jnp.asarray(around)[:, self._home[x]]
        leads = jnp.concatenate(
            [jnp.arange(size) == x, (jnp.arange(1, len(depth))[:, None] == path[None, :]).any(axis=1)]
        )
        on_path = (parent[:, None] == path[None, :]).any(axis=1)
        rest = jax.random.gumbel(key_rest, log_share.shape, dtype)
        best = jax.random.gumbel(key_best, (len(depth),), dtype)[parent]
        possible = jnp.where(log_share > -jnp.inf, log_share, 0)
        winner = best - possible
        seen = jax.ops.segment_sum(jnp.where(leads, winner + possible, 0), parent, len(depth))[parent]
        margin = 8 * np.finfo(dtype).eps * (1 + jnp.abs(possible) + jnp.abs(seen))
        losers = jnp.minimum(-jnp.logaddexp(log_share - seen, -rest), seen - possible - margin)
        losers = jnp.where(log_share > -jnp.inf, losers, rest)
        noise = jnp.where(leads, winner, jnp.where(on_path, losers, rest))
        return NestNoise(noise[:size], noise[size:])


def _log_stable(index: Float[Array, " n"], *, key: PRNGKeyArray) -> Float[Array, " n"]:
    """Logarithms of positive stable numbers, `E exp(-t S) = exp(-t^index)`, after Kanter (1975)."""
    key_angle, key_exponential = jax.random.split(key)
    tiny = np.finfo(index.dtype).tiny
    turn = jax.random.uniform(key_angle, index.shape, index.dtype, minval=tiny)
    log_exponential = -jax.random.gumbel(key_exponential, index.shape, index.dtype)
    usable = (index > 0) & (index < 1)
    index = jnp.where(usable, index, 0.5)
    log_sine = jnp.log(jnp.sin(np.pi * jnp.minimum(turn, 1 - turn)))
    angle = np.pi * turn
    power = (1 - index) / index
    found = (
        jnp.log(jnp.sin(index * angle))
        - log_sine / index
        + power * (jnp.log(jnp.sin((1 - index) * angle)) - log_exponential)
    )
    return jnp.where(usable, found, 0)


def _log_tilted(index: Float[Array, " n"], log_tilt: Float[Array, " n"], weighed: Array, *, key: PRNGKeyArray) -> Array:
    """Logarithms of stable numbers whose density is weighed by `exp(-tilt S)`, and by `S` too where `weighed`.

    By rejection: a number is the sum of as many smaller ones as make each likely to be accepted.
    """
    key_sum, key_more = jax.random.split(key)
    index, log_tilt = jax.lax.stop_gradient((index, log_tilt))
    plain = index == 1
    count = jnp.ceil(jnp.maximum(jnp.exp(jnp.minimum(index * log_tilt, 60.0)), 1.0))
    less = jnp.log(count) / index

    def attempt(state: tuple[PRNGKeyArray, Array, Array]) -> tuple[PRNGKeyArray, Array, Array]:
        key, accepted, total = state
        key, key_number, key_test = jax.random.split(key, 3)
        number = _log_stable(index, key=key_number) - less
        passed = jax.random.exponential(key_test, index.shape, index.dtype) > jnp.exp(log_tilt + number)
        passed = (passed | plain) & (accepted < count)
        return key, accepted + passed, jnp.where(passed, jnp.logaddexp(total, number), total)

    start = (key_sum, jnp.zeros_like(count), jnp.full_like(log_tilt, -jnp.inf))
    _, _, total = jax.lax.while_loop(lambda state: (state[1] < count).any(), attempt, start)
    more = jax.random.loggamma(key_more, jnp.where(plain, 1.0, 1 - index)) - jnp.where(weighed, log_tilt, 0)
    return jnp.where(plain, 0, jnp.where(weighed, jnp.logaddexp(total, more), total))


def _tree(content: list[Any], labels: Labels, whole: bool) -> tuple[list[int], tuple[int, ...], tuple[str, ...]]:
    """The nest of each outcome, the nest around each nest, and names; nests by their depth, from what the root holds.

    With `whole`, outcomes that stand alone must be there too.
    """
    home, holder = [0] * len(labels), dict[int, str]()
    parents, names = list[int](), list[str]()
    level: list[tuple[int, str, Any]] = [(0, "the root", content)]
    while level:
        inner = []
        for nest, name, given in level:
            held = [given] if isinstance(given, Mapping) else given
            if isinstance(held, str) or not isinstance(held, Iterable):
                raise InputError(f"`nests` must map {name!r} to a list of outcomes, got {held!r}")
            for each in held:
                if isinstance(each, Mapping):
                    inner += [(nest, *pair) for pair in each.items()]
                    continue
                place = labels.place_of("nests", each)
                if place in holder:
                    raise InputError(
                        f"`nests` must hold each outcome once, but {listed([each])} is in {holder[place]!r} and in "
                        f"{name!r}; leave it out of one of them"
                    )
                holder[place], home[place] = name, nest
        level = []
        for parent, name, held in inner:
            if not isinstance(name, str):
                raise InputError(f"`nests` must have texts for names, got {name!r}")
            if name in names:
                raise InputError(f"`nests` must have different names, got {name!r} more than once")
            parents.append(parent)
            names.append(name)
            level.append((len(names), name, held))
    if not names:
        raise InputError("`nests` must map names of nests to lists of outcomes, got none; without nests use gumbel-max")
    if whole and len(holder) < len(labels):
        left = [label for place, label in enumerate(labels.values) if place not in holder]
        raise InputError(f"`nests` must hold every alternative, as ActivitySim has it, but {listed(left)} is in none")
    return home, tuple(parents), tuple(names)


def read_nests(path: str | Path) -> dict[str, Any]:
    """Arguments from a file: `{"nests": ..., "dissimilarity": ..., "absolute": ...}`, or settings of ActivitySim.

    Those name a file of coefficients beside them, which have the columns `coefficient_name` and `value`.
    """
    file = Path(path)
    yaml = None if file.suffix.lower() == ".json" else import_yaml()
    broken = () if yaml is None else (yaml.YAMLError,)
    try:
        text = file.read_text()
        given = json.loads(text) if yaml is None else yaml.safe_load(text)
        found, numbers = given.get("nests", given.get("NESTS", given)), given.get("dissimilarity")
        if "COEFFICIENTS" in given:
            with (file.parent / given["COEFFICIENTS"]).open(newline="") as lines:
                numbers = {each["coefficient_name"]: each["value"] for each in csv.DictReader(lines, strict=True)}
    except (OSError, AttributeError, TypeError, KeyError, ValueError, *broken) as error:
        why = first_line(error)
        raise InputError(f"the file must hold `nests` and `dissimilarity`, or ActivitySim's NESTS: {why}") from error
    return {"nests": found, "dissimilarity": numbers, "absolute": given.get("absolute", False)}


def _of_activitysim(root: Mapping[str, Any], values: Any) -> tuple[list[Any], dict[str, float]]:
    """What the root holds, and the coefficients of nests, of which some are names for one of the values."""
    coefficients: dict[str, float] = {}

    def held(given: Mapping[str, Any]) -> list[Any]:
        missing = {"name", "coefficient", "alternatives"} - set(given)
        if missing:
            raise InputError(f"`nests` must have name, coefficient and alternatives, but {min(missing)!r} is missing")
        if not isinstance(given["alternatives"], list | tuple):
            raise InputError(f"`nests` must have a list of alternatives in {given['name']!r}")
        number = given["coefficient"]
        if isinstance(values, Mapping) and number in values:
            number = values[number]
        try:
            coefficients[given["name"]] = float(number)
        except (TypeError, ValueError) as error:
            raise InputError(f"`dissimilarity` must have the value of the coefficient {number!r}") from error
        return [{each["name"]: held(each)} if isinstance(each, Mapping) else each for each in given["alternatives"]]

    found = held(root)
    if coefficients.pop(root["name"]) != 1:
        raise InputError(f"`nests` must have a root {root['name']!r} whose coefficient is 1; divide the others by it")
    return found, coefficients


def _dissimilarities(given: Any, names: tuple[str, ...]) -> Float[Array, " n"]:
    if given is None:
        raise InputError("`dissimilarity` must say how unlike outcomes of a nest are: 1 is Gumbel-max, 0 all alike")
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise InputError(
                f"`dissimilarity` must have one number for each of the nests {listed(names)}, got {listed(given)}"
            )
        given = jnp.stack([as_floats("dissimilarity", given[name], 0) for name in names])
    elif np.ndim(given) == 0:
        given = jnp.broadcast_to(as_floats("dissimilarity", given, 0), (len(names),))
    found = as_floats("dissimilarity", given, 1)
    if found.size != len(names):
        raise InputError(f"`dissimilarity` must have one number for each of {len(names)} nests, got {found.size}")
    return found


def _relative(found: Float[Array, " n"], parents: tuple[int, ...], names: tuple[str, ...]) -> Float[Array, " n"]:
    """Each number over that of the nest around it."""
    around = jnp.append(1.0, found).astype(found.dtype)[np.asarray(parents)]
    if not is_traced(found):
        for name, own, outer, parent in zip(names, np.asarray(found), np.asarray(around), parents, strict=True):
            if own > outer and parent:
                raise InputError(
                    f"`dissimilarity` must fall towards the leaves, or there is no such random utility, got {own:g} "
                    f"for {name!r} within {names[parent - 1]!r} of {outer:g}; merge the two nests"
                )
    return jnp.where(around == 0, 0, found / jnp.where(around == 0, 1, around))


def _check_numbers(found: Float[Array, " n"], parents: tuple[int, ...], names: tuple[str, ...]) -> None:
    """Above 0 and at most 1, or 0 for all."""
    if is_traced(found):
        return
    values = np.asarray(found, np.float64)
    wrong = ~((values > 0) & (values <= 1))
    if wrong.any() and not (values == 0).all():
        place = int(wrong.argmax())
        raise InputError(
            f"`dissimilarity` must lie in (0, 1], or be 0 for all nests, got {values[place]:g} for {names[place]!r}: "
            "outside there is no such random utility, so put these outcomes into other nests"
        )
    scale = np.append(1.0, values)
    for place, parent in enumerate(parents):
        scale[place + 1] *= scale[parent]
    if values.all() and scale.min() < _LEAST:
        name = names[int(scale.argmin()) - 1]
        raise InputError(
            f"`dissimilarity` must come to at least {_LEAST:g} along the path from the root, got {scale.min():g} for "
            f"{name!r}; 0 for all nests is the limit"
        )
