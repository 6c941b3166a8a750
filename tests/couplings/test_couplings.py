"""What each fixed coupling promises beyond the common laws."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import wasserstein_distance
from worlds import AWKWARD, pairs, softmax

from countermax import (
    Comonotone,
    Gadget2,
    GumbelMax,
    Independent,
    InputError,
    InverseCDF,
    Maximal,
    Optimal,
    comonotone,
    save,
)
from countermax.couplings import AbstractMatrixCoupling
from countermax.couplings._named import as_coupling, as_couplings, is_same, name_of, named_couplings
from countermax.couplings._words import NAMES

pytestmark = pytest.mark.usefixtures("double")

FIXED = [Independent(), GumbelMax(), InverseCDF(), Maximal()]
JOINTS = {type(each): jax.jit(lambda p, q, each=each: each.joint(p, q)) for each in FIXED}
joint_in_order = jax.jit(lambda score, p, q: InverseCDF.sorted_by(score).joint(p, q))
least_cost = jax.jit(lambda loss, p, q: Optimal(loss).cost(p, q))
row_of_inverse_cdf = jax.jit(InverseCDF().counterfactual_probs)


def _law_and_answer(coupling):
    def loss(p, q, x, weights):
        return (coupling.joint(p, q) * weights).sum() + (coupling.counterfactual_probs(p, q, x) * weights[0]).sum()

    return jax.jit(loss)


LOSSES = {type(each): _law_and_answer(each) for each in FIXED}
GRADIENTS = {each: jax.jit(jax.grad(loss, (0, 1))) for each, loss in LOSSES.items()}


def _transport(score):
    """Optimal transport for the squared difference of one score."""
    return Optimal((score[:, None] - score[None, :]) ** 2)


def least_loss(p, q, loss):
    """The transport LP, by SciPy."""
    size = len(p)
    rows = np.kron(np.eye(size), np.ones(size))
    columns = np.kron(np.ones(size), np.eye(size))
    return linprog(loss.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([p, q])).fun


@given(pairs(spread=5.0), st.integers(0, 2**31))
def test_optimal_attains_the_linear_programme(pair, seed):
    loss = np.random.default_rng(seed).normal(size=(len(pair[0]),) * 2)
    assert float(least_cost(loss, *pair)) == pytest.approx(least_loss(*map(softmax, pair), loss), abs=1e-6)


def test_negative_losses_have_an_optimum_too():
    """POT by itself calls these problems infeasible."""
    p, q = np.array([-np.inf, 0.0]), np.zeros(2)
    for seed in (11698, 9):
        loss = np.random.default_rng(seed).normal(size=(2, 2)) - 2
        assert float(least_cost(loss, p, q)) == pytest.approx(least_loss(softmax(p), softmax(q), loss))


@given(pairs(spread=5.0), st.integers(0, 2**31))
def test_inverse_cdf_sorted_by_a_score_is_optimal_for_it(pair, seed):
    score = np.round(np.random.default_rng(seed).normal(size=len(pair[0])), 1)
    loss = (score[:, None] - score[None, :]) ** 2
    found = (joint_in_order(score, *pair) * loss).sum()
    assert float(found) == pytest.approx(least_loss(*map(softmax, pair), loss), abs=1e-6)


def test_inverse_cdf_in_another_order_is_worse():
    """So that the law above can fail."""
    p, q = np.log([0.5, 0.1, 0.4]), np.log([0.1, 0.5, 0.4])
    score = np.array([0.0, 2.0, 1.0])
    loss = (score[:, None] - score[None, :]) ** 2
    assert (InverseCDF().joint(p, q) * loss).sum() > 1.1 * least_loss(softmax(p), softmax(q), loss)


@given(pairs())
def test_inverse_cdf_overlaps_intervals(pair):
    p, q = map(softmax, pair)
    upper_p, upper_q = np.cumsum(p)[:, None], np.cumsum(q)[None, :]
    overlap = np.minimum(upper_p, upper_q) - np.maximum(upper_p - p[:, None], upper_q - q[None, :])
    np.testing.assert_allclose(JOINTS[InverseCDF](*pair), np.maximum(overlap, 0), atol=1e-12)


def test_inverse_cdf_pairs_rare_outcomes_at_the_far_end():
    """At the upper end of the line sums from the left have lost all digits; the answer must not have."""
    p, q = np.log([1 - 1e-18, 1e-18]), np.log([1 - 1e-21, 1e-21])
    np.testing.assert_allclose(InverseCDF().counterfactual_probs(p, q, 1), [0.999, 0.001], atol=1e-9)


@given(pairs())
def test_maximal_keeps_the_overlap_and_splits_the_rest_as_a_product(pair):
    p, q = map(softmax, pair)
    law = np.asarray(JOINTS[Maximal](*pair))
    np.testing.assert_allclose(np.diag(law), np.minimum(p, q), atol=1e-14)
    leaving, arriving = np.maximum(p - q, 0), np.maximum(q - p, 0)
    if leaving.sum() > 1e-6:
        expected = np.outer(leaving, arriving) / leaving.sum()
        np.testing.assert_allclose(law - np.diag(np.diag(law)), expected, atol=1e-13)


@pytest.mark.parametrize("coupling", FIXED, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("name", AWKWARD)
def test_gradients_of_laws_and_answers_are_finite(coupling, name):
    p, q = AWKWARD[name]
    weights = np.random.default_rng(0).normal(size=(p.size, p.size))
    for gradient in GRADIENTS[type(coupling)](p, q, int(np.argmax(p)), weights):
        assert jnp.isfinite(gradient).all()


@pytest.mark.parametrize("coupling", FIXED, ids=lambda each: type(each).__name__)
def test_gradients_of_laws_are_finite_differences(coupling):
    rng = np.random.default_rng(3)
    p, q, weights = rng.normal(size=4), rng.normal(size=4), rng.normal(size=(4, 4))

    loss = LOSSES[type(coupling)]
    found = np.asarray(GRADIENTS[type(coupling)](p, q, 1, weights)[0])
    steps = 1e-6 * np.eye(4)
    expected = [(loss(p + step, q, 1, weights) - loss(p - step, q, 1, weights)) / 2e-6 for step in steps]
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize(
    "coupling", [*FIXED, Optimal(np.arange(16.0).reshape(4, 4))], ids=lambda each: type(each).__name__
)
def test_batches_are_what_single_calls_are(coupling):
    rng = np.random.default_rng(0)
    p, q = rng.normal(size=(2, 6, 4))
    x = rng.integers(0, 4, 6)
    single = jax.jit(lambda p, q, x: coupling.counterfactual_probs(p, q, x))
    rows = jax.jit(jax.vmap(lambda p, q, x: coupling.counterfactual_probs(p, q, x)))(p, q, x)
    for index in range(6):
        np.testing.assert_allclose(rows[index], single(p[index], q[index], x[index]), atol=1e-12)


def test_no_intervention_means_no_change():
    logits = np.array([0.3, -np.inf, 1.0, -2.0])
    keys = jax.random.split(jax.random.key(0), 1000)
    for mechanism in (GumbelMax(), InverseCDF()):
        draws = jax.jit(jax.vmap(lambda x, key, m=mechanism: m.counterfactual(logits, logits, x, key=key), (None, 0)))
        for x in (0, 2, 3):
            assert (draws(x, keys) == x).all()


def test_wasserstein_distance_is_scipys():
    rng = np.random.default_rng(0)
    places = np.sort(rng.normal(size=6))
    distance = np.abs(places[:, None] - places[None, :])
    p, q = rng.normal(size=(2, 6))
    expected = wasserstein_distance(places, places, softmax(p), softmax(q))
    assert float(Optimal(distance).wasserstein(p, q)) == pytest.approx(expected, abs=1e-12)
    second = float(Optimal(distance).wasserstein(p, q, order=2))
    assert second == pytest.approx(float(_transport(places).cost(p, q)) ** 0.5, abs=1e-12)


def test_wasserstein_refuses_what_is_no_metric(as_users_call):
    with pytest.raises(InputError, match="third outcome"):
        _transport(np.arange(3.0)).wasserstein(np.zeros(3), np.zeros(3))
    with pytest.raises(InputError, match="symmetric"):
        Optimal(np.array([[0.0, 1.0], [2.0, 0.0]])).wasserstein(np.zeros(2), np.zeros(2))
    with pytest.raises(InputError, match="diagonal"):
        Optimal(np.ones((2, 2))).wasserstein(np.zeros(2), np.zeros(2))
    with pytest.raises(InputError, match="`order` must lie between 1 and 32"):
        Optimal(1 - np.eye(2)).wasserstein(np.zeros(2), np.zeros(2), order=0.5)


def test_optimal_answers_for_outcomes_below_the_solvers_resolution():
    p, q = np.array([0.0, 0.0, -120.0]), np.array([0.0, 0.3, 0.2])
    score = np.array([0.0, 1.0, 2.0])
    row = _transport(score).counterfactual_probs(p, q, 2)
    np.testing.assert_allclose(row, [0, 0, 1], atol=1e-9)


def test_comonotone_is_the_transport_optimum_and_sorted_where_the_scores_agree():
    rng = np.random.default_rng(5)
    p, q, score, other = rng.normal(size=(4, 6))
    loss = (score[:, None] - other[None, :]) ** 2
    law = Comonotone(score, other).joint(p, q)
    np.testing.assert_allclose(law.sum(axis=1), softmax(p), atol=1e-14)
    np.testing.assert_allclose(law.sum(axis=0), softmax(q), atol=1e-14)
    assert float((law * loss).sum()) == pytest.approx(least_loss(softmax(p), softmax(q), loss), abs=1e-9)
    worlds = [jnp.log(softmax(each)) for each in (p, q)]
    closed = comonotone.expected_squared_difference(*worlds, jnp.asarray(score), jnp.asarray(other))
    assert float(closed) == pytest.approx(float((law * loss).sum()), abs=1e-12)
    same, sorted_law = Comonotone(score).joint(p, q), InverseCDF.sorted_by(score).joint(p, q)
    np.testing.assert_allclose(same, sorted_law, atol=1e-14)


def test_opposed_scores_have_the_most_of_any_coupling():
    rng = np.random.default_rng(6)
    p, q, score, other = rng.normal(size=(4, 5))
    worlds = [jnp.log(softmax(each)) for each in (p, q)]
    most = comonotone.expected_squared_difference(*worlds, jnp.asarray(score), jnp.asarray(other), opposed=True)
    loss = (score[:, None] - other[None, :]) ** 2
    assert float(most) == pytest.approx(-least_loss(softmax(p), softmax(q), -loss), abs=1e-9)


@pytest.mark.parametrize("coupling", [*FIXED, Comonotone([0.0, 2.0, 1.0])], ids=lambda each: type(each).__name__)
def test_an_expected_loss_is_the_sum_over_the_law(coupling, as_users_call):
    p, q, loss = np.log([0.2, 0.3, 0.5]), np.log([0.6, 0.1, 0.3]), np.arange(9.0).reshape(3, 3)
    expected = (coupling.joint(p, q) * loss).sum()
    assert float(coupling.expected_loss(p, q, loss)) == pytest.approx(float(expected))
    with pytest.raises(InputError, match="`loss` must be a matrix of 3 by 3"):
        coupling.expected_loss(p, q, np.zeros((2, 2)))


def test_no_coupling_is_lost_however_files_are_called(tmp_path, monkeypatch, as_users_call):
    """Two files with one stem are called by their paths, one of which is the stem of a third."""
    monkeypatch.chdir(tmp_path)
    files = ["there/mine.safetensors", "mine.safetensors", "there/mine.safetensors.safetensors"]
    for place, name in enumerate(files):
        Path(name).parent.mkdir(exist_ok=True)
        save(InverseCDF([place % 2, 1 - place % 2]), name)
    assert list(as_couplings(files)) == files
    with pytest.raises(InputError, match="`couplings` must differ from each other, got 'maximal' more than once"):
        as_couplings(["maximal", "Maximal", "maximal"])
    with pytest.raises(InputError, match="`couplings` must differ from each other, got 'gumbel-max' more than once"):
        as_couplings(["gumbel-max", "Gumbel-max"])


def test_couplings_are_found_by_name_in_one_place(tmp_path, as_users_call):
    score = np.array([0.0, 2.0, 1.0])
    assert list(named_couplings()) == ["Gumbel-max", "inverse CDF", "maximal", "independent"]
    words = [name.lower().replace(" ", "-") for name in named_couplings(score=score)]
    assert words == [name for name in NAMES if name not in ("vector-quantile", "comonotone")]  # one law with the third
    assert isinstance(as_coupling("gumbel-max"), GumbelMax)
    assert as_coupling("inverse-cdf-by-score", 3, score=score).order.tolist() == [0, 2, 1]
    stored = save(InverseCDF([1, 0]), tmp_path / "mine.safetensors")
    assert list(as_couplings(["maximal", stored], 2)) == ["maximal", "mine"]
    assert [name_of(each) for each in ("gumbel-max", stored, Maximal(), InverseCDF([1, 0]))] == [
        "Gumbel-max", "mine", "maximal", "InverseCDF",
    ]  # fmt: skip
    twin = save(InverseCDF([0, 1]), _folder(tmp_path) / "mine.safetensors")
    impostor = save(GumbelMax(), tmp_path / "maximal.safetensors")
    assert list(as_couplings([stored, twin, "maximal", impostor])) == [str(stored), str(twin), "maximal", str(impostor)]
    confusable = [save(GumbelMax(), tmp_path / name) for name in ("gumbel-max.st", "Maximal.st", "inverse cdf.st")]
    assert list(as_couplings(["gumbel-max", *confusable])) == ["Gumbel-max", *map(str, confusable)]
    assert list(as_couplings("gumbel-max")) == ["Gumbel-max"]
    with pytest.raises(InputError, match="`couplings` must differ from each other, got 'maximal' more than once"):
        as_couplings(["maximal", "maximal"])
    assert name_of(InverseCDF.sorted_by(score), score=score) == "inverse CDF by score"
    for bad, message in (
        (
            "gumble-max",
            "`coupling` must be one of gumbel-max, .*, got 'gumble-max'; did you mean gumbel-max",
        ),
        (stored, "`coupling` must be for 3 outcomes, got one for 2"),
        (GumbelMax, "make an instance"),
        (
            "comonotone",
            "can be 'comonotone' only with a `score` beside it; without one .* gumbel-max, inverse-cdf,",
        ),
    ):
        with pytest.raises(InputError, match=message):
            as_coupling(bad, 3)


def test_couplings_are_the_same_if_class_and_fields_are():
    key = jax.random.key(0)
    assert is_same(InverseCDF([1, 0]), InverseCDF([1, 0]))
    assert is_same(GumbelMax(), GumbelMax())
    assert not is_same(InverseCDF([1, 0]), InverseCDF([0, 1]))
    assert not is_same(InverseCDF(), InverseCDF([0, 1]))
    assert not is_same(Maximal(), GumbelMax())
    gadgets = [Gadget2(3, 2, key=key, hidden=(2,), rounds=rounds) for rounds in (3, 4)]
    assert not is_same(*gadgets)  # they differ in a field that is no array


def _folder(path):
    (path / "other").mkdir()
    return path / "other"


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 0, 1], "each of the outcomes"),
        ([1, 2, 3], "each of"),
        ([[0, 1]], "each of"),
        ([], "integers"),
        ([0.0, 1.0], "integers"),
        ([False, True], "integers"),
    ],
)
def test_an_order_must_be_a_permutation(order, message, as_users_call):
    with pytest.raises(InputError, match=message):
        InverseCDF(order)


def test_sizes_that_do_not_fit_are_refused(as_users_call):
    with pytest.raises(InputError, match="this InverseCDF is for 3 outcomes, but the logits have 2"):
        InverseCDF([2, 1, 0]).joint(np.zeros(2), np.zeros(2))
    with pytest.raises(InputError, match="this Optimal is for 3 outcomes, but the logits have 2"):
        Optimal(np.zeros((3, 3))).joint(np.zeros(2), np.zeros(2))
    with pytest.raises(InputError, match="`loss` must be square"):
        Optimal(np.zeros((3, 2)))
    with pytest.raises(InputError, match="`loss` must be finite"):
        Optimal(np.array([[0, np.inf], [1, 0]]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("logits", [np.log([0.5, 1e-10, 0.5]), [80, -80, 80], [80, -80], [-80, 80]])
def test_inverse_cdf_keeps_rare_outcomes_where_nothing_changed(logits, dtype):
    logits = np.asarray(logits, dtype)
    for x in range(logits.size):
        np.testing.assert_array_equal(row_of_inverse_cdf(logits, logits, x), np.eye(logits.size)[x])


def test_inverse_cdf_pairs_rare_outcomes_between_equal_ones():
    p, q = np.log([0.5, 1e-20, 0.3, 0.2]), np.log([0.5, 1e-20, 0.1, 0.4])
    np.testing.assert_array_equal(InverseCDF().counterfactual_probs(p, q, 1), [0, 1, 0, 0])
    np.testing.assert_array_equal(InverseCDF([3, 2, 1, 0]).counterfactual_probs(p, q, 1), [0, 1, 0, 0])


def test_optimal_refuses_to_be_differentiated():
    coupling, logits = Optimal(1 - np.eye(3)), np.arange(3.0)
    for function in (lambda p: coupling.cost(p, logits), jax.jit(lambda p: coupling.counterfactual_probs(p, p, 0)[0])):
        with pytest.raises(InputError, match="`Optimal` has no gradient"):
            jax.grad(function)(jnp.arange(3.0))
    held = jax.grad(lambda p: (coupling.joint(*jax.lax.stop_gradient((p, -p))) * p[:, None]).sum())(jnp.arange(3.0))
    np.testing.assert_allclose(held, softmax(np.arange(3.0)), atol=1e-12)


def test_couplings_can_be_built_inside_jit():
    score = jnp.array([0.0, 2.0, 1.0])
    distance = jnp.abs(score[:, None] - score[None, :])
    for function in (
        lambda s, d: _transport(s).cost(s, -s),
        lambda s, d: Optimal(d).wasserstein(s, -s, order=2),
        lambda s, d: InverseCDF.sorted_by(s).joint(s, -s),
    ):
        np.testing.assert_allclose(jax.jit(function)(score, distance), function(score, distance), atol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_what_is_no_metric_is_refused_inside_jit():
    with pytest.raises(Exception, match="third outcome"):
        jax.block_until_ready(jax.jit(lambda s: _transport(s).wasserstein(s, -s))(jnp.arange(3.0)))


def test_a_maximal_row_has_no_negative_zeros():
    logits = np.log([0.5, 0.2, 0.3])
    for ask in (Maximal().counterfactual_probs, jax.jit(lambda *each: Maximal().counterfactual_probs(*each))):
        assert not np.signbit(ask(logits, logits, 1)).any()


@given(pairs(spread=20.0), st.floats(-50, 50), st.floats(-50, 50))
def test_adding_a_constant_to_the_logits_changes_nothing(pair, first, second):
    p, q = pair
    for coupling in FIXED:
        law = JOINTS[type(coupling)]
        np.testing.assert_allclose(law(p + first, q + second), law(p, q), atol=1e-12)


def test_what_is_no_list_of_couplings_is_refused(as_users_call):
    with pytest.raises(InputError, match="`couplings` must be words or files, or couplings by name, got 7"):
        as_couplings(7)


class _Lost(AbstractMatrixCoupling):
    """Answers with NaN."""

    @property
    def num_outcomes(self):
        return None

    def _joint(self, log_p, log_q):
        return jnp.full((log_p.size, log_p.size), jnp.nan)

    def _counterfactual_probs(self, log_p, log_q, x):
        return jnp.full(log_p.size, jnp.nan)


def test_nothing_is_drawn_from_a_row_of_nan():
    p, key = jnp.zeros(3), jax.random.key(0)
    with pytest.raises(InputError, match="_Lost must draw from finite probabilities, got NaN"):
        _Lost().counterfactual(p, p, 0, key=key)
    with pytest.raises(InputError, match="_Lost must draw from finite probabilities, got NaN"):
        _Lost().pair(p, p, key=key)
    assert jax.jit(lambda: _Lost().counterfactual(p, p, 0, key=key))() == -1  # which is no outcome


def test_one_score_has_one_coupling_of_least_variance_and_two_that_sort_differently_have_two():
    """Where one order sorts both worlds' scores, the comonotone coupling is the inverse CDF in that order."""
    score = np.array([0.0, 2.0, 1.0])
    for other in (None, score, 3 * score + 1, np.zeros(3)):
        named = named_couplings(score=score, counterfactual_score=other)
        assert "comonotone" not in named
        again = as_coupling("comonotone", score=score, counterfactual_score=other)
        assert is_same(named["inverse CDF by score"], again)
    named = named_couplings(score=score, counterfactual_score=-score)
    assert is_same(named["comonotone"], Comonotone(score, -score))
    assert is_same(named["inverse CDF by score"], InverseCDF.sorted_by(score))
