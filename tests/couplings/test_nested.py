"""Nested Gumbel-max: its law against simulation, its ends, its gradients, and what it refuses."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from scipy.integrate import quad
from scipy.stats import binomtest
from worlds import AWKWARD, softmax

from countermax import GumbelMax, InputError, NestedGumbelMax, fit, load, save
from countermax import _nests as nests
from countermax._core.labels import Labels
from countermax.couplings._named import as_coupling, as_couplings, name_of
from countermax.couplings._nested import _log_stable, _log_tilted
from countermax.learning import RandomPairs, SquaredDifference, Training

pytestmark = pytest.mark.usefixtures("double")

FALSE_ALARM = 1e-6
LABELS = ["dead", "home", "hospital", "nursing home", "hospice", "lost"]
THREE_LEVELS = {"alive": ["home", {"institution": ["hospital", "nursing home"]}], "gone": ["hospice", "lost"]}


def _worlds(rng, size, spread=1.5, zeros=0.0):
    p, q = spread * rng.normal(size=(2, size))
    for each in (p, q):
        each[rng.random(size) < zeros] = -np.inf
        each[rng.integers(size)] = 0.0
    return p, q


def _random_tree(rng, size):
    """Nests of random sizes at random depths; some hold one outcome, some none, some outcomes stand alone."""
    home = rng.integers(0, 5, size)
    held = {nest: [int(each) for each in np.flatnonzero(home == nest)] for nest in range(1, 5)}
    return {"a": [*held[1], {"b": [*held[2], {"c": held[3]}], "empty": []}], "d": held[4]}


def _frozen(utilities, children, scale, drawn, rng):
    """Noise of the nested logit by its recursion, one nest after the other: a shared stable shift, Gumbels at the ends.

    Written from the generating function alone: `children` maps a nest to (dissimilarity, outcomes, inner nests).
    """
    noise = np.zeros((drawn, utilities))

    def fill(nest, around, shift):
        index, outcomes, inner = children[nest]
        own = around * index
        if index < 1:
            angle, wait = rng.uniform(0, np.pi, drawn), rng.exponential(size=drawn)
            stable = np.sin(index * angle) / np.sin(angle) ** (1 / index)
            stable *= (np.sin((1 - index) * angle) / wait) ** ((1 - index) / index)
            shift = shift + own * np.log(stable)
        for outcome in outcomes:
            noise[:, outcome] = shift + own * rng.gumbel(size=drawn)
        for each in inner:
            fill(each, own, shift)

    fill("root", scale, np.zeros(drawn))
    return noise


def _utilities(p, path):
    """Utilities by the closed form: `path[k]` lists (scale, outcomes of the holder, of the held) from the root down."""
    found = np.zeros(len(p))
    for k, steps in enumerate(path):
        for scale, whole, part in steps:
            found[k] += scale * np.log(p[list(part)].sum() / p[list(whole)].sum())
    return found


def test_the_law_is_that_of_noise_with_positive_stable_shifts():
    """Two and three levels; every cell by an exact binomial test, at a family-wise level of 1e-6."""
    rng, drawn = np.random.default_rng(0), 400_000
    everybody = range(6)
    alive, inside, gone = (1, 2, 3), (2, 3), (4, 5)
    cases = []
    for t in ((0.5, 0.6, 0.3), (0.9, 0.3, 0.7), (0.2, 0.9, 1.0)):
        children = {
            "root": (1.0, [0], ["alive", "gone"]),
            "alive": (t[0], [1], ["institution"]),
            "gone": (t[1], [4, 5], []),
            "institution": (t[2], [2, 3], []),
        }
        scale = (1.0, t[0], t[1], t[0] * t[2])
        path = [
            [(1, everybody, {0})],
            [(1, everybody, alive), (scale[1], alive, {1})],
            *[[(1, everybody, alive), (scale[1], alive, inside), (scale[3], inside, {k})] for k in (2, 3)],
            *[[(1, everybody, gone), (scale[2], gone, {k})] for k in (4, 5)],
        ]
        coupling = NestedGumbelMax(THREE_LEVELS, {"alive": t[0], "gone": t[1], "institution": t[2]}, labels=LABELS)
        cases.append((coupling, children, path))
    values = []
    for coupling, children, path in cases:
        p, q = (softmax(each) for each in rng.normal(size=(2, 6)))
        noise = _frozen(6, children, 1.0, drawn, rng)
        x, y = (np.argmax(_utilities(each, path) + noise, axis=1) for each in (p, q))
        counts = np.bincount(6 * x + y, minlength=36)
        law = np.asarray(coupling.joint(np.log(p), np.log(q))).ravel()
        assert not counts[law == 0].any()
        values += [binomtest(int(n), drawn, float(c)).pvalue for n, c in zip(counts, law, strict=True) if c > 0]
    assert min(values) > FALSE_ALARM / len(values)


def test_the_law_is_the_integral_of_the_generating_function():
    """Two levels, by SciPy's quadrature of the second derivatives of G, which appear nowhere in the code."""
    rng = np.random.default_rng(1)
    p, q = (softmax(each) for each in rng.normal(size=(2, 4)))
    groups, scale = [[0, 1], [2, 3]], [0.4, 0.7]
    v, w = (
        np.concatenate(
            [t * np.log(each[n] / each[n].sum()) + np.log(each[n].sum()) for n, t in zip(groups, scale, strict=True)]
        )
        for each in (p, q)
    )
    d = w - v

    def density(s, i, j):
        m = np.maximum(np.exp(v), np.exp(w - s))
        sums = [(m[n] ** (1 / t)).sum() for n, t in zip(groups, scale, strict=True)]
        whole = sum(h**t for h, t in zip(sums, scale, strict=True))
        nest = [0, 0, 1, 1]

        def first(k):
            h, t = sums[nest[k]], scale[nest[k]]
            return h ** (t - 1) * m[k] ** (1 / t - 1)

        h, t = sums[nest[i]], scale[nest[i]]
        second = (t - 1) / t * h ** (t - 2) * (m[i] * m[j]) ** (1 / t - 1) if nest[i] == nest[j] else 0.0
        return m[i] * m[j] * (first(i) * first(j) / whole**2 - second / whole)

    law = np.asarray(NestedGumbelMax({"a": [0, 1], "b": [2, 3]}, scale, labels=4).joint(np.log(p), np.log(q)))
    for i in range(4):
        for j in range(4):
            if i != j:
                kinks = [each for each in d if d[i] < each < d[j]]
                found = quad(density, d[i], d[j], args=(i, j), points=kinks or None, epsabs=1e-13)[0]
                assert law[i, j] == pytest.approx(found if d[i] < d[j] else 0.0, abs=1e-12)


@pytest.mark.parametrize("size", [1, 6, 200])
@pytest.mark.parametrize("zeros", [0.0, 0.4])
def test_rows_and_columns_add_up(size, zeros):
    rng = np.random.default_rng(size)
    tree = _random_tree(rng, size)
    for _ in range(3):
        names = NestedGumbelMax(tree, 0.5, labels=size).names
        coupling = NestedGumbelMax(tree, dict(zip(names, rng.uniform(0.2, 1, 5), strict=True)), labels=size)
        p, q = _worlds(rng, size, zeros=zeros)
        law = np.asarray(coupling.joint(p, q))
        assert (law >= 0).all()
        np.testing.assert_allclose(law.sum(axis=1), softmax(p), rtol=0, atol=1e-12)
        np.testing.assert_allclose(law.sum(axis=0), softmax(q), rtol=0, atol=1e-12)
        x = int(np.argmax(p))
        row = np.asarray(coupling.counterfactual_probs(p, q, x))
        np.testing.assert_allclose(row, law[x] / softmax(p)[x], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("dissimilarity", [0.0, 0.05, 0.6])
def test_awkward_worlds_have_both_marginals(name, dissimilarity):
    p, q = AWKWARD[name]
    coupling = NestedGumbelMax({"first": [0, *range(2, p.size)]}, dissimilarity, labels=p.size)
    law = np.asarray(coupling.joint(p, q))
    np.testing.assert_allclose(law.sum(axis=1), softmax(p), rtol=0, atol=1e-12)
    np.testing.assert_allclose(law.sum(axis=0), softmax(q), rtol=0, atol=1e-12)


def test_rows_of_many_outcomes_are_integrated_in_parts(monkeypatch):
    """Beyond some size pieces come in parts with fewer nodes each; the numbers are those of one part."""
    rng = np.random.default_rng(2)
    size = 3000
    home = rng.integers(0, 60, size)
    tree = {str(nest): np.flatnonzero(home == nest).tolist() for nest in range(59)}
    coupling = NestedGumbelMax(tree, rng.uniform(0.3, 1, 59), labels=size)
    p, q = _worlds(rng, size)
    row = np.asarray(coupling.counterfactual_probs(p, q, 7))
    assert row.sum() == pytest.approx(1, abs=1e-12)
    few = [7, *np.argsort(-row)[:5].tolist()]
    monkeypatch.setattr(nests, "_WHOLE", 2**40)
    logs = [jnp.log(softmax(each)) for each in (p, q)]
    whole = np.asarray(jax.jit(lambda p: nests._rows(nests._setting(coupling._tree(p), *logs), jnp.array([7])))(p))[0]
    np.testing.assert_allclose(row, whole, rtol=0, atol=1e-14)
    assert (row[few] > 0).all()


def test_a_dissimilarity_of_one_is_gumbel_max_to_the_bit():
    rng = np.random.default_rng(3)
    coupling = NestedGumbelMax(THREE_LEVELS, 1.0, labels=LABELS)
    for zeros in (0.0, 0.4):
        p, q = _worlds(rng, 6, zeros=zeros)
        assert np.array_equal(coupling.joint(p, q), GumbelMax().joint(p, q))
        x = int(np.argmax(p))
        assert np.array_equal(coupling.counterfactual_probs(p, q, x), GumbelMax().counterfactual_probs(p, q, x))


def test_just_below_one_the_law_is_still_close_to_gumbel_max():
    """So that the switch to the race hides no error of the integral."""
    p, q = _worlds(np.random.default_rng(4), 6)
    near = NestedGumbelMax(THREE_LEVELS, 1 - 1e-9, labels=LABELS).joint(p, q)
    np.testing.assert_allclose(near, GumbelMax().joint(p, q), rtol=0, atol=1e-8)


def test_one_nest_that_holds_everything_is_gumbel_max_whatever_its_dissimilarity():
    p, q = _worlds(np.random.default_rng(5), 6)
    law = NestedGumbelMax({"all": range(6)}, 0.3, labels=6).joint(p, q)
    np.testing.assert_allclose(law, GumbelMax().joint(p, q), rtol=0, atol=1e-14)


def test_nests_of_one_outcome_are_no_nests():
    p, q = _worlds(np.random.default_rng(6), 4)
    law = NestedGumbelMax({"a": [0], "b": [2]}, 0.3, labels=4).joint(p, q)
    np.testing.assert_allclose(law, GumbelMax().joint(p, q), rtol=0, atol=1e-14)


def test_at_zero_nests_race_first_and_outcomes_of_the_nest_that_is_kept_after_them():
    rng = np.random.default_rng(7)
    p, q = (softmax(each) for each in rng.normal(size=(2, 5)))
    groups = [[0, 1], [2, 3], [4]]
    found = np.asarray(NestedGumbelMax({"a": [0, 1], "b": [2, 3]}, 0, labels=5).joint(np.log(p), np.log(q)))
    whole = np.array([[each[n].sum() for n in groups] for each in (p, q)])
    between = np.asarray(GumbelMax().joint(*np.log(whole)))
    expected = np.zeros((5, 5))
    for a, here in enumerate(groups):
        for b, there in enumerate(groups):
            shares = p[here] / whole[0, a], q[there] / whole[1, b]
            within = np.asarray(GumbelMax().joint(*map(np.log, shares))) if a == b else np.outer(*shares)
            expected[np.ix_(here, there)] = between[a, b] * within
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("tree", [{"a": [0, 1, 2], "b": [3, 4]}, {"a": [0, {"b": [1, 2]}], "c": [3, 4]}])
def test_the_law_tends_to_that_at_zero_in_proportion(tree):
    p, q = _worlds(np.random.default_rng(8), 6)
    limit = np.asarray(NestedGumbelMax(tree, 0, labels=6).joint(p, q))
    apart = [np.abs(np.asarray(NestedGumbelMax(tree, t, labels=6).joint(p, q)) - limit).max() for t in (0.1, 0.05)]
    assert 0 < apart[1] < 0.6 * apart[0] < 0.05


def test_ties_of_gains_send_nobody_from_one_to_the_other():
    coupling = NestedGumbelMax({"a": [0, 1]}, 0.5, labels=4)
    v = np.array([0.3, -0.2, 0.1, 0.5])
    tree = coupling._tree(jnp.asarray(v))
    p = _shares_of(coupling, v)
    q = _shares_of(coupling, v + [0.0, 0.0, 0.0, 0.7])
    law = np.asarray(coupling.joint(np.log(p), np.log(q)))
    assert np.abs(law[:3, :3] - np.diag(np.diag(law[:3, :3]))).max() < 1e-15
    assert (law[:3, 3] > 0).all()
    assert tree.scale.tolist() == [1.0, 0.5]


def _shares_of(coupling, utilities):
    """The nested logit of two levels, by its textbook formula."""
    home, scale = np.asarray(coupling.home), np.append(1.0, np.asarray(coupling.dissimilarity))
    shares, totals = np.zeros(len(home)), np.zeros(len(home))
    for nest in range(len(scale)):
        held = home == nest
        sums = np.exp(utilities[held] / scale[nest]).sum()
        shares[held] = np.exp(utilities[held] / scale[nest]) / sums if nest else 1.0
        totals[held] = sums ** scale[nest] if nest else np.exp(utilities[held])
    whole = sum(totals[np.flatnonzero(home == nest)[:1]].sum() for nest in range(1, len(scale)))
    return shares * totals / (whole + totals[home == 0].sum())


def test_outcomes_of_one_nest_replace_each_other_first():
    """If a tram becomes better, a bus loses more of its riders to it than a car does, which Gumbel-max cannot say."""
    p = np.array([0.5, 0.3, 0.2])  # car, bus, tram
    q = np.array([0.45, 0.2, 0.35])
    plain, nested = (
        np.asarray(each.counterfactual_probs(np.log(p), np.log(q), 1))
        for each in (GumbelMax(), NestedGumbelMax({"public": [1, 2]}, 0.3, labels=3))
    )
    assert nested[2] > plain[2]


def test_gradients_are_those_of_differences():
    """With respect to both worlds and to each dissimilarity, at 1 too."""
    rng = np.random.default_rng(9)
    weights = rng.normal(size=(6, 6))
    p, q = _worlds(rng, 6)

    @jax.jit
    def value(p, q, t):
        coupling = NestedGumbelMax(THREE_LEVELS, t, labels=LABELS)
        return (coupling.joint(p, q) * weights).sum() + coupling.counterfactual_probs(p, q, 2) @ weights[0]

    for numbers in (np.array([0.5, 0.7, 0.4]), np.ones(3)):
        given = (p, q, numbers)
        for place, gradient in enumerate(jax.grad(value, (0, 1, 2))(*given)):
            for index, slope in enumerate(np.asarray(gradient)):
                step = np.zeros(len(given[place]))
                step[index] = 1e-6
                at_end = place == 2 and numbers[0] == 1  # above 1 there is no law
                ends = [
                    (*given[:place], given[place] + s * step, *given[place + 1 :]) for s in (0 if at_end else 1, -1)
                ]
                difference = (value(*ends[0]) - value(*ends[1])) / (1e-6 if at_end else 2e-6)
                assert slope == pytest.approx(float(difference), abs=3e-6 if at_end else 1e-7)


def test_stable_numbers_have_their_laplace_transform_tilted_or_not():
    """E exp(-u S) over what the tilt makes of it, within five standard errors: a false alarm of 1e-5 for 18 numbers."""
    count, key = 50_000, jax.random.key(0)
    stable, tilted = jax.jit(_log_stable), jax.jit(_log_tilted)
    for place, (index, log_tilt) in enumerate([(0.3, -1.0), (0.6, 1.5), (0.95, 0.5)]):
        tilt = np.exp(log_tilt)
        keys = jax.random.split(jax.random.fold_in(key, place), 3)
        indices = jnp.full(count, index)
        drawn = [
            stable(indices, key=keys[0]),
            *(tilted(indices, jnp.full(count, log_tilt), jnp.full(count, w), key=keys[1 + w]) for w in (0, 1)),
        ]
        for kind, logs in enumerate(drawn):
            for u in (0.5, 2.0):
                base = tilt if kind else 0.0
                expected = np.exp(-((base + u) ** index) + base**index)
                if kind == 2:
                    expected *= (tilt / (tilt + u)) ** (1 - index)
                values = np.exp(-u * np.exp(np.asarray(logs)))
                assert abs(values.mean() - expected) < 5 * values.std() / np.sqrt(count)


@pytest.mark.parametrize("dissimilarity", [0.0, 0.3, 1.0])
def test_abducted_noise_explains_what_was_seen(dissimilarity):
    coupling = NestedGumbelMax(THREE_LEVELS, dissimilarity, labels=LABELS)
    p = np.random.default_rng(10).normal(size=6) * 5
    respond = jax.jit(jax.vmap(lambda x, key: coupling.respond(coupling.abduct(p, x, key=key), p)))
    seen = np.resize(np.arange(6), 6000)
    assert np.array_equal(respond(seen, jax.random.split(jax.random.key(0), 6000)), seen)


def test_a_coupling_in_a_file_answers_as_it_did(tmp_path):
    p, q = _worlds(np.random.default_rng(11), 6)
    for numbers in ({"alive": 0.5, "gone": 0.25, "institution": 0.75}, 0):
        coupling = NestedGumbelMax(THREE_LEVELS, numbers, labels=LABELS)
        found = load(save(coupling, tmp_path / "nested.safetensors", overwrite=True))
        assert found.names == coupling.names == ("alive", "gone", "institution")
        assert np.array_equal(found.joint(p, q), coupling.joint(p, q))
        assert as_coupling(str(tmp_path / "nested.safetensors"), 6).num_outcomes == 6
    assert name_of(coupling) == "nested Gumbel-max 0"
    assert name_of(NestedGumbelMax(THREE_LEVELS, {"alive": 0.5, "gone": 0.25, "institution": 1}, labels=LABELS)) == (
        "nested Gumbel-max 0.5, 0.25, 1"
    )


def test_absolute_numbers_are_divided_by_those_of_the_nest_around():
    absolute = {"alive": 0.8, "gone": 0.5, "institution": 0.2}
    coupling = NestedGumbelMax(THREE_LEVELS, absolute, labels=LABELS, absolute=True)
    np.testing.assert_allclose(coupling.dissimilarity, [0.8, 0.5, 0.25])
    growing = {"alive": 0.4, "gone": 0.5, "institution": 0.6}
    with pytest.raises(InputError, match=r"must fall towards the leaves.*0.6 for 'institution' within 'alive' of 0.4"):
        NestedGumbelMax(THREE_LEVELS, growing, labels=LABELS, absolute=True)


@pytest.mark.parametrize(
    ("tree", "numbers", "message"),
    [
        (
            {"a": ["dead", "home"], "b": ["home"]},
            0.5,
            r"hold each outcome once, but 'home' is in 'a' and in 'b'; leave",
        ),
        ({"a": ["dead", "hom"]}, 0.5, r"`nests` must be one of the labels 'dead', .*got 'hom'"),
        ({"a": ["dead", "Home"]}, 0.5, r"the label 'home' and 'Home' differ in how they are written"),
        ({"a": ["dead"]}, 1.5, r"must lie in \(0, 1\], or be 0 for all nests, got 1.5 for 'a'"),
        ({"a": ["dead"]}, -0.5, r"must lie in \(0, 1\], or be 0 for all nests, got -0.5 for 'a'"),
        ({"a": ["dead"]}, np.nan, r"must lie in \(0, 1\]"),
        ({"a": ["dead"], "b": ["home"]}, [0.5, 0.0], r"must lie in \(0, 1\], or be 0 for all nests, got 0 for 'b'"),
        ({"a": ["dead"]}, 1e-5, r"at least 0.001 along the path from the root, got 1e-05 for 'a'; 0 for all"),
        ({"a": ["dead"]}, {"b": 0.5}, r"one number for each of the nests 'a', got 'b'"),
        ({"a": ["dead"]}, [0.5, 0.5], r"one number for each of 1 nests, got 2"),
        ({"a": [{"a": ["dead"]}]}, 0.5, r"different names, got 'a' more than once"),
        ({"a": "dead"}, 0.5, r"must map 'a' to a list of outcomes, got 'dead'"),
        ({1: ["dead"]}, 0.5, r"texts for names, got 1"),
        ({}, 0.5, r"must map names of nests to lists of outcomes"),
    ],
)
def test_bad_input_is_refused_in_one_line(tree, numbers, message):
    with pytest.raises(InputError, match=message) as refusal:
        NestedGumbelMax(tree, numbers, labels=LABELS)
    assert "\n" not in str(refusal.value)


@pytest.mark.slow
def test_training_finds_the_nests_that_a_loss_calls_for():
    """Scores in two groups, which are kept the better the more alike their outcomes are; no number escapes."""
    score = np.array([0.0, 0.2, 0.1, 3.0, 3.2, 2.9])
    start = NestedGumbelMax({"low": [0, 1, 2], "high": [3, 4, 5]}, 0.6, labels=6)
    training = Training(steps=30, batch_size=8, learning_rate=0.05)
    found = fit(start, RandomPairs(6), SquaredDifference(score), training, key=jax.random.key(0)).coupling
    assert (np.asarray(found.dissimilarity) < 0.5).all()
    assert (np.asarray(found.dissimilarity) > 0).all()
    p, q = _worlds(np.random.default_rng(0), 6)
    loss = (score[:, None] - score[None, :]) ** 2
    expected = eqx.filter_jit(lambda coupling: coupling.expected_loss(p, q, loss))
    assert expected(found) < expected(start) < expected(GumbelMax())


def test_a_name_or_a_file_says_which_outcomes_are_alike(tmp_path):
    labels, rng = Labels(tuple(LABELS)), np.random.default_rng(5)
    p, q = _worlds(rng, len(LABELS))
    activitysim = {
        "name": "root",
        "coefficient": 1.0,
        "alternatives": [
            *("dead", "hospice", "lost"),
            {
                "name": "alive",
                "coefficient": "coef_alive",
                "alternatives": [
                    "home",
                    {"name": "institution", "coefficient": 0.5, "alternatives": ["hospital", "nursing home"]},
                ],
            },
        ],
    }
    tree = {"alive": ["home", {"institution": ["hospital", "nursing home"]}]}
    (tmp_path / "own.json").write_text(json.dumps({"nests": tree, "dissimilarity": 0.5}))
    (tmp_path / "numbers.csv").write_text("coefficient_name,value,constrain\ncoef_alive,0.5,F\n")
    (tmp_path / "model.yaml").write_text(yaml.safe_dump({"NESTS": activitysim, "COEFFICIENTS": "numbers.csv"}))
    absolute = {"nests": tree, "dissimilarity": {"alive": 0.5, "institution": 0.25}, "absolute": True}
    (tmp_path / "absolute.json").write_text(json.dumps(absolute))
    wanted = NestedGumbelMax(tree, 0.5, labels=LABELS).joint(p, q)
    for named in (
        as_coupling(tmp_path / "absolute.json", labels),
        as_coupling("nested-gumbel-max-0.5[home|[hospital|nursing home]]", labels),
        as_coupling(str(tmp_path / "own.json"), labels),
        as_coupling(tmp_path / "model.yaml", labels),
        NestedGumbelMax(activitysim, {"coef_alive": 0.5}, labels=LABELS),
    ):
        np.testing.assert_array_equal(named.joint(p, q), wanted)
    two = as_couplings(["nested-gumbel-max-0.5[0|1]", "nested-gumbel-max-0.5[0|2][1|3]"], 4)
    assert list(two) == ["nested-gumbel-max-0.5[0|1]", "nested-gumbel-max-0.5[0|2][1|3]"]
    assert list(as_couplings("nested-gumbel-max-0.5[0|1]", 4)) == ["nested Gumbel-max 0.5"]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("nested-gumbel-max-0.5[home|hotel]", "must be one of the labels .* got 'hotel'"),
        ("nested-gumbel-max-0.5[home|lost", "must be one of gumbel-max"),
        ("nested-gumbel-max-0.5[home[lost|dead]]", "must be written \\[OUTCOME"),
        ("nested-gumbel-max-1.5[home|lost]", "must lie in \\(0, 1\\]"),
        ("nested-gumbel-max-0.5.5[home|lost]", "must be one of gumbel-max"),
    ],
)
def test_a_bad_name_is_refused_in_one_line(word, message):
    with pytest.raises(InputError, match=message):
        as_coupling(word, Labels(tuple(LABELS)))
    with pytest.raises(InputError, match="needs outcomes to put into nests|must be one of"):
        as_coupling(word)


def test_a_tree_of_activitysim_needs_all_its_numbers(tmp_path):
    root = {"name": "root", "coefficient": 0.8, "alternatives": []}
    with pytest.raises(InputError, match="a root 'root' whose coefficient is 1"):
        NestedGumbelMax(root, labels=2)
    with pytest.raises(InputError, match="the value of the coefficient 'coef'"):
        NestedGumbelMax({**root, "coefficient": "coef"}, labels=2)
    with pytest.raises(InputError, match="'coefficient' is missing"):
        NestedGumbelMax({"name": "root", "alternatives": []}, labels=2)
    for name, text in (("nests.json", "[1]"), ("nests.yaml", "a: [")):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match="must hold `nests` and `dissimilarity`"):
            as_coupling(tmp_path / name, 3)


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ([0, {"name": "a", "coefficient": 0.5, "alternatives": [0, 1]}], "0 is in 'the root' and in 'a'; leave"),
        ([2, {"name": "a", "coefficient": 0.5, "alternatives": [0, 1]}], "one of the labels 0, 1, got 2"),
        ([0, {"name": "a", "coefficient": 0.5, "alternatives": [1]}] * 2, "0 is in 'the root' and in 'the root'"),
        ([{"name": "a", "coefficient": 0.5, "alternatives": [each]} for each in (0, 1)], "'a' more than once"),
        ([{"name": "a", "coefficient": 0.5, "alternatives": [0]}], "every alternative, .* but 1 is in none"),
        ([{"name": "a", "coefficient": 0.5, "alternatives": None}], "a list of alternatives in 'a'"),
        ([{"name": "a", "coefficient": 1.2, "alternatives": [0, 1]}], r"in \(0, 1\], .*got 1.2 for 'a'"),
        ([0, 1], "got none; without nests use gumbel-max"),
    ],
)
def test_a_tree_of_activitysim_holds_every_alternative_once(held, message):
    with pytest.raises(InputError, match=message):
        NestedGumbelMax({"name": "root", "coefficient": 1, "alternatives": held}, labels=2)
