"""Training that learns, resumes, stops and fails as it should."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from countermax import Gadget1, Gadget2, Independent, InputError, fit
from countermax.learning import (
    Disagreement,
    FixedPair,
    RandomPairs,
    Reinforce,
    Relaxed,
    SquaredDifference,
    TrainingError,
    fit_many,
)

KEY = jax.random.key(0)
P, Q = (np.asarray(each, np.float32) for each in np.random.default_rng(0).normal(size=(2, 4)))
LOG_P, LOG_Q = jax.nn.log_softmax(P), jax.nn.log_softmax(Q)
MATRIX = SquaredDifference(np.arange(4.0))(LOG_P, LOG_Q)


def small(seed=0, size=4):
    return Gadget2(size, 4, key=jax.random.key(seed), hidden=(8,), rounds=5)


def test_training_lowers_the_loss_towards_the_optimum():
    result = fit(
        small(size=6), RandomPairs(6, scale=4.0), SquaredDifference(np.arange(6.0)), key=KEY, steps=150, batch_size=32
    )
    assert result.ended == "finished"
    assert result.history.step[-1] == 150
    assert result.optimum is not None
    assert result.history.held_out[-1] >= result.optimum - 1e-4
    assert result.above_optimum < 0.35
    assert list(result.to_frame().columns) == ["step", "loss", "held_out"]


@pytest.mark.parametrize("objective", [Relaxed(0.3), Reinforce(32)], ids=["relaxed", "reinforce"])
def test_the_other_objectives_learn_too(objective):
    p, q = np.arange(5, 0, -1) / 4, np.arange(5) / 4
    start, loss = small(size=5), SquaredDifference(np.arange(5.0))
    before = float((start.joint(p, q) * loss(jnp.zeros(5), jnp.zeros(5))).sum())
    result = fit(start, FixedPair(p, q), loss, key=KEY, steps=200, objective=objective)
    assert result.history.held_out[-1] < 0.95 * before


def test_many_at_once_are_what_they_are_alone():
    scores = [np.arange(4.0), np.array([1.0, 0.0, 3.0, 2.0])]
    couplings = [small(seed) for seed in range(2)]
    together = fit_many(couplings, FixedPair(P, Q), [SquaredDifference(each) for each in scores], key=KEY, steps=40)
    for index in range(2):
        alone = fit_many([couplings[index]] * 2, FixedPair(P, Q), SquaredDifference(scores[index]), key=KEY, steps=40)[
            index
        ]
        np.testing.assert_allclose(alone.history.held_out, together[index].history.held_out, rtol=1e-4)


def test_a_resumed_run_is_an_uninterrupted_one(tmp_path, monkeypatch):
    arguments = (RandomPairs(4), SquaredDifference(np.arange(4.0)))
    options = {"key": KEY, "steps": 40, "evaluate_every": 10, "batch_size": 8}
    whole = fit(small(), *arguments, **options)

    import countermax.learning._fit as training

    original, calls = training.write_checkpoint, []

    def interrupt(*args):
        original(*args)
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(training, "write_checkpoint", interrupt)
    checkpoint = tmp_path / "run.npz"
    half = fit(small(), *arguments, **options, checkpoint=checkpoint)
    assert half.ended == "interrupted"
    assert half.history.step == [10, 20]
    monkeypatch.setattr(training, "write_checkpoint", original)
    resumed = fit(small(), *arguments, **options, checkpoint=checkpoint)
    assert resumed.history == whole.history
    for first, second in zip(jax.tree.leaves(resumed.coupling), jax.tree.leaves(whole.coupling), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    arguments = (small(), RandomPairs(4), SquaredDifference(np.arange(4.0)))
    fit(*arguments, key=KEY, steps=4, checkpoint=tmp_path / "run.npz", batch_size=4)
    other_loss = (*arguments[:2], SquaredDifference(np.arange(4.0) ** 2))
    for changed, steps in ((arguments, 5), (other_loss, 4)):
        with pytest.raises(InputError, match="belongs to another run"):
            fit(*changed, key=KEY, steps=steps, checkpoint=tmp_path / "run.npz", batch_size=4)


def test_a_non_finite_loss_names_the_step_and_keeps_the_last_good_state():
    def poisoned(log_p, log_q):
        return jnp.where(log_p[0] > log_p[1], jnp.nan, 1.0) * MATRIX

    with pytest.raises(TrainingError, match="non-finite at step") as caught:
        fit(small(), RandomPairs(4), poisoned, key=KEY, steps=20, batch_size=2)
    kept = caught.value.fits[0]
    assert kept.ended == "non-finite"
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(kept.coupling))


def test_an_exploding_optimiser_is_caught_too():
    with pytest.raises(TrainingError, match="non-finite at step"):
        fit(
            small(),
            RandomPairs(4),
            SquaredDifference(np.arange(4.0)),
            key=KEY,
            steps=60,
            optimizer=optax.sgd(1e38),
            batch_size=4,
        )


def test_patience_ends_a_run_without_progress():
    result = fit(
        small(),
        FixedPair(P, Q),
        SquaredDifference(np.arange(4.0)),
        key=KEY,
        steps=500,
        evaluate_every=5,
        patience=2,
        learning_rate=1e-12,
    )
    assert result.ended == "patience"
    assert result.history.step[-1] < 100


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fit(small(), RandomPairs(4), Disagreement(), key=KEY, objective="guess"), "must be one of exact"),
        (lambda: fit_many([], RandomPairs(4), Disagreement(), key=KEY), "must not be empty"),
        (
            lambda: fit_many([small(), Gadget1(4, key=KEY)], RandomPairs(4), Disagreement(), key=KEY),
            "one kind and shape",
        ),
        (lambda: fit(small(), RandomPairs(4), SquaredDifference(np.zeros(3)), key=KEY), "is for 3 outcomes"),
        (lambda: fit(small(), RandomPairs(4), Disagreement(), key=KEY, steps=0), "at least 1"),
        (lambda: fit(Independent(), RandomPairs(4), Disagreement(), key=KEY), "Independent has nothing to learn"),
    ],
)
def test_bad_input_is_refused(make, message, as_users_call):
    with pytest.raises(InputError, match=message):
        make()
