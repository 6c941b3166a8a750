"""Training that learns, resumes, stops and fails as it should."""

import signal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from countermax import Gadget1, Gadget2, Independent, InputError, learning
from countermax._core.archive import pack, unpack
from countermax.couplings import BinnedInverseCDF, Constant
from countermax.couplings._named import is_same
from countermax.learning import (
    Disagreement,
    FixedPair,
    GivenOutcome,
    RandomPairs,
    Reinforce,
    Relaxed,
    SquaredDifference,
    Training,
    TrainingError,
    TrainingInterrupted,
    _loop,
)

KEY = jax.random.key(0)
P, Q = (np.asarray(each, np.float32) for each in np.random.default_rng(0).normal(size=(2, 4)))
LOG_P, LOG_Q = jax.nn.log_softmax(P), jax.nn.log_softmax(Q)
MATRIX = SquaredDifference(np.arange(4.0))(LOG_P, LOG_Q)


def train(*task, key, checkpoint=None, report=None, **settings):
    return learning.fit(*task, Training(**settings), key=key, checkpoint=checkpoint, report=report)


def train_many(*task, key, **settings):
    return learning.fit_many(*task, Training(**settings), key=key)


def small(seed=0, size=4):
    return Gadget2(size, 4, key=jax.random.key(seed), hidden=(8,), rounds=5)


def test_training_lowers_the_loss_towards_the_optimum():
    result = train(
        small(size=6), RandomPairs(6, scale=4.0), SquaredDifference(np.arange(6.0)), key=KEY, steps=150, batch_size=32
    )
    assert result.ended == "finished"
    assert result.history.step[-1] == 150
    assert result.optimum is not None
    assert result.history.held_out[-1] >= result.optimum - 1e-4
    assert result.above_optimum < 0.35
    assert [row.about for row in result.rows][-3:] == ["step 150", "before training", "optimum"]
    assert result.row("held-out loss", about="optimum").value == result.optimum
    assert "finished at step 150" in str(result)


@pytest.mark.slow
@pytest.mark.parametrize("objective", [Relaxed(0.3), Reinforce(32)], ids=["relaxed", "reinforce"])
def test_the_other_objectives_learn_too(objective):
    p, q = np.arange(5, 0, -1) / 4, np.arange(5) / 4
    start, loss = small(size=5), SquaredDifference(np.arange(5.0))
    before = float((start.joint(p, q) * loss(jnp.zeros(5), jnp.zeros(5))).sum())
    result = train(start, FixedPair(p, q), loss, key=KEY, steps=200, objective=objective)
    assert result.history.held_out[-1] < 0.95 * before


@pytest.mark.slow
def test_many_at_once_are_what_they_are_alone():
    scores = [np.arange(4.0), np.array([1.0, 0.0, 3.0, 2.0])]
    couplings = [small(seed) for seed in range(2)]
    together = train_many(couplings, FixedPair(P, Q), [SquaredDifference(each) for each in scores], key=KEY, steps=40)
    for index in range(2):
        task = FixedPair(P, Q), SquaredDifference(scores[index])
        alone = train_many([couplings[index]] * 2, *task, key=KEY, steps=40)[index]
        np.testing.assert_allclose(alone.history.held_out, together[index].history.held_out, rtol=1e-4)


OPTIONS = {"key": KEY, "steps": 12, "evaluate_every": 4, "batch_size": 8, "num_held_out": 8}
TASK = (RandomPairs(4), SquaredDifference(np.arange(4.0)))


def tiny(seed=0):
    return Gadget2(4, 2, key=KEY, part=Constant(2, 4, key=jax.random.key(seed)), rounds=1)


def same(first, second):
    assert first.history == second.history
    assert first.ended == second.ended
    for one, other in zip(jax.tree.leaves(first.coupling), jax.tree.leaves(second.coupling), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_resumed_run_is_an_uninterrupted_one(tmp_path):
    whole = train(tiny(), *TASK, **OPTIONS)
    checkpoint = tmp_path / "run.ckpt"

    def interrupt(done, steps):
        if done == 8:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(TrainingInterrupted, match=r"at step 8 of 12; .*run\.ckpt holds step 8: run it again") as caught:
        train(tiny(), *TASK, **OPTIONS, checkpoint=checkpoint, report=interrupt)
    assert isinstance(caught.value, KeyboardInterrupt)
    (half,) = caught.value.fits
    assert half.ended == "interrupted"
    assert half.history.step == [4, 8]
    same(train(tiny(), *TASK, **OPTIONS, checkpoint=checkpoint), whole)
    same(train(tiny(), *TASK, **OPTIONS, checkpoint=checkpoint), whole)  # a finished one is read


def test_between_evaluations_nothing_is_lost_either(tmp_path, monkeypatch):
    """One call of the compiled steps is as far as a signal waits, and the checkpoint holds that very step."""
    options = {**OPTIONS, "evaluate_every": 12}
    whole = train(tiny(), *TASK, **options)
    original, calls = _loop.run_steps, []

    def interrupt(*arguments):
        calls.append(1)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return original(*arguments)

    monkeypatch.setattr(_loop, "run_steps", interrupt)
    with pytest.raises(TrainingInterrupted, match=r"at step \d+ of 12") as caught:
        train(tiny(), *TASK, **options, checkpoint=tmp_path / "run.ckpt")
    assert caught.value.fits[0].history.step == []
    header, _ = unpack(tmp_path / "run.ckpt", "checkpoint")
    assert 3 <= header["step"] < 12
    monkeypatch.setattr(_loop, "run_steps", original)
    same(train(tiny(), *TASK, **options, checkpoint=tmp_path / "run.ckpt"), whole)


def test_how_a_training_is_divided_into_calls_changes_nothing(monkeypatch):
    whole = train(tiny(), *TASK, **OPTIONS)
    monkeypatch.setattr(_loop, "_BRISK", 0.0)  # one step at a time
    same(train(tiny(), *TASK, **OPTIONS), whole)


def test_interrupted_without_a_checkpoint_it_does_not_look_finished():
    with pytest.raises(TrainingInterrupted, match="nothing is stored, but this exception's `fits` holds") as caught:
        train(tiny(), *TASK, **OPTIONS, report=lambda done, steps: signal.raise_signal(signal.SIGINT))
    assert caught.value.fits[0].ended == "interrupted"


def test_other_signals_wait_for_the_checkpoint_too(tmp_path):
    """Whatever a program does at SIGTERM, it does it with the checkpoint written."""
    found = []

    def leave(number, frame):
        found.append(unpack(tmp_path / "run.ckpt", "checkpoint")[0]["step"])
        raise SystemExit(128 + number)

    def interrupt(done, steps):
        if done == 8:
            signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        with pytest.raises(SystemExit, match="143"):
            train(tiny(), *TASK, **OPTIONS, checkpoint=tmp_path / "run.ckpt", report=interrupt)
        assert signal.getsignal(signal.SIGTERM) is leave
    finally:
        signal.signal(signal.SIGTERM, before)
    assert found == [8]


def test_a_checkpoint_that_cannot_be_written_is_found_before_the_work(tmp_path, as_users_call):
    with pytest.raises(InputError, match="cannot write"):
        train(tiny(), *TASK, **OPTIONS, checkpoint=tmp_path / "nowhere" / "run.ckpt")


def test_a_checkpoint_of_another_run_is_refused(tmp_path, as_users_call):
    path = tmp_path / "run.ckpt"
    pairs, loss = TASK
    train(tiny(), *TASK, **OPTIONS, optimizer=optax.sgd(1e-2), checkpoint=path)

    def refuse(coupling, pairs, loss, **options):
        before = path.read_bytes()
        with pytest.raises(InputError, match="belongs to another run .* move it away to start over"):
            train(coupling, pairs, loss, **{**OPTIONS, "optimizer": optax.sgd(1e-2), **options}, checkpoint=path)
        assert path.read_bytes() == before

    refuse(tiny(), *TASK, optimizer=optax.sgd(2e-2))
    refuse(tiny(), *TASK, optimizer=optax.sgd(optax.linear_schedule(1e-2, 0.0, 100)))
    refuse(tiny(), *TASK, optimizer=optax.adam(1e-2))
    refuse(tiny(), *TASK, optimizer=None)
    refuse(tiny(), *TASK, steps=13)
    refuse(tiny(), *TASK, evaluate_every=3)
    refuse(tiny(), *TASK, batch_size=4)
    refuse(tiny(), *TASK, key=jax.random.key(1))
    refuse(tiny(), *TASK, objective="reinforce")
    refuse(tiny(1), *TASK)
    refuse(tiny(), pairs, SquaredDifference(np.arange(4.0) ** 2))
    refuse(tiny(), RandomPairs(4, scale=7.0), loss)


def test_functions_are_told_apart_by_what_they_compute(tmp_path):
    path, table = tmp_path / "run.ckpt", np.asarray(MATRIX)

    def pairs(key):
        p, q = jax.random.normal(key, (2, 4))
        return p, q

    train(tiny(), pairs, lambda p, q: jnp.asarray(table), **OPTIONS, checkpoint=path)
    train(tiny(), pairs, lambda p, q: jnp.asarray(table), **OPTIONS, checkpoint=path)  # the same function
    for changed in (lambda p, q: jnp.asarray(2 * table), lambda p, q: jnp.asarray(table) + jnp.exp(p[0])):
        with pytest.raises(InputError, match="belongs to another run"):
            train(tiny(), pairs, changed, **OPTIONS, checkpoint=path)


def test_damaged_checkpoints_are_refused(tmp_path, as_users_call):
    path = tmp_path / "run.ckpt"
    whole = train(tiny(), *TASK, **OPTIONS, checkpoint=path)
    content = path.read_bytes()
    header, arrays = unpack(path, "checkpoint")

    def changed(index, change):
        return [change(each.copy()) if place == index % len(arrays) else each for place, each in enumerate(arrays)]

    def spoilt(array):
        array.flat[0] = np.nan
        return array

    spoilt_contents = [
        content[:-100],
        content.replace(b"fingerprint", b"fingerprinT"),
        *(pack("checkpoint", {**header, "step": step}, arrays) for step in (-1, 11, 13, True, "12", None, 10**30)),
        pack("checkpoint", header, arrays[:-1]),
        pack("checkpoint", header, [*arrays, arrays[0]]),
        pack("checkpoint", header, changed(0, spoilt)),
        pack("checkpoint", header, changed(0, lambda array: array[:, :1])),
        pack("checkpoint", header, changed(0, lambda array: array.astype(np.float64))),
        pack("checkpoint", header, changed(-3, lambda array: array + 1)),
        pack("checkpoint", header, changed(-1, lambda array: array[:, :-1])),
    ]
    for spoil in spoilt_contents:
        path.write_bytes(spoil)
        with pytest.raises(InputError, match=r"run\.ckpt .*move it away"):
            train(tiny(), *TASK, **OPTIONS, checkpoint=path)
    path.write_bytes(content)
    same(train(tiny(), *TASK, **OPTIONS, checkpoint=path), whole)


def test_a_non_finite_loss_names_the_step_and_keeps_the_last_good_state(tmp_path):
    def poisoned(log_p, log_q):
        return jnp.where(log_p[0] > log_p[1], jnp.nan, 1.0) * MATRIX

    said = []
    for _ in range(2):  # the second call reads the first one's checkpoint, and ends as it did
        with pytest.raises(
            TrainingError, match=r"non-finite at step .*`fits`, and in .*run\.ckpt, which has to be moved"
        ) as caught:
            train(tiny(), RandomPairs(4), poisoned, key=KEY, steps=20, batch_size=2, checkpoint=tmp_path / "run.ckpt")
        kept = caught.value.fits[0]
        said.append((str(caught.value), kept.history.step))
        assert kept.ended == "non-finite"
        assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(kept.coupling))
    assert said[0] == said[1]


@pytest.mark.slow
def test_an_exploding_optimiser_is_caught_too():
    with pytest.raises(TrainingError, match="non-finite at step"):
        train(
            small(),
            RandomPairs(4),
            SquaredDifference(np.arange(4.0)),
            key=KEY,
            steps=60,
            optimizer=optax.sgd(1e38),
            batch_size=4,
        )


def test_patience_ends_a_run_without_progress(tmp_path):
    options = {"key": KEY, "steps": 500, "evaluate_every": 5, "patience": 2, "learning_rate": 1e-12}
    task = FixedPair(P, Q), SquaredDifference(np.arange(4.0))
    result = train(small(), *task, **options, checkpoint=tmp_path / "run.ckpt")
    assert result.ended == "patience"
    assert result.history.step[-1] < 100
    same(train(small(), *task, **options, checkpoint=tmp_path / "run.ckpt"), result)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: train(small(), RandomPairs(4), Disagreement(), key=KEY, objective="guess"), "must be one of exact"),
        (lambda: train_many([], RandomPairs(4), Disagreement(), key=KEY), "must not be empty"),
        (
            lambda: train_many([small(), Gadget1(4, key=KEY)], RandomPairs(4), Disagreement(), key=KEY),
            "one kind and shape",
        ),
        (lambda: train(small(), RandomPairs(4), SquaredDifference(np.zeros(3)), key=KEY), "is for 3 outcomes"),
        (lambda: train(small(), RandomPairs(4), Disagreement(), key=KEY, steps=0), "at least 1"),
        (lambda: train(Independent(), RandomPairs(4), Disagreement(), key=KEY), "Independent has nothing to learn"),
        *(
            (lambda name=name, value=value: train(tiny(), *TASK, key=KEY, **{name: value}), f"`{name}` must be {words}")
            for name in ("steps", "batch_size", "num_held_out", "evaluate_every", "patience")
            for value, words in ((0, "at least 1, got 0"), (-1, "at least 1, got -1"), (1.5, "a whole number, got 1.5"))
        ),
        (lambda: train(tiny(), *TASK, key=0), r"`key` must be one key .*`jax.random.key\(0\)` for instance, got 0"),
        (lambda: train(tiny(), *TASK, key=KEY, steps=2**31), "`steps` must be at most 2147483647"),
        (lambda: train(tiny(), *TASK, key=KEY, patience=True), "`patience` must be a whole number, got True"),
        (lambda: train(tiny(), *TASK, key=KEY, learning_rate=0.0), "`learning_rate` must be above 0.0, got 0.0"),
        (lambda: train(tiny(), *TASK, key=KEY, learning_rate=float("inf")), "`learning_rate` must be a finite number"),
        (lambda: train(tiny(), *TASK, key=KEY, clip=-1.0), "`clip` must be above 0.0, got -1.0"),
        (lambda: train(small(), RandomPairs(4), GivenOutcome(Disagreement(), 4), key=KEY), r"must lie in 0..3, got 4"),
        (lambda: train(small(), RandomPairs(5), Disagreement(), key=KEY), "for 4 outcomes, but the logits have 5"),
        (
            lambda: train(tiny(), *TASK, key=KEY, batch_size=10**9),
            "1000000000 pairs of 4 outcomes .* lower `batch_size`",
        ),
        (lambda: train(tiny(), *TASK, key=KEY, num_held_out=10**9), "drawing 1000000000 pairs of 4 outcomes"),
        (
            lambda: train(tiny(), *TASK, key=KEY, objective=Relaxed(num_samples=10**9)),
            "of memory, and the limit is .* lower `batch_size`",
        ),
    ],
)
def test_bad_input_is_refused(make, message, as_users_call):
    with pytest.raises(InputError, match=message):
        make()


def test_what_training_made_worse_is_given_back_as_it_was():
    start = Gadget2(4, 4, key=KEY, start=BinnedInverseCDF(4, np.arange(4.0)), hidden=(8,), rounds=5)
    pairs, loss = RandomPairs(4), SquaredDifference(np.arange(4.0))
    spoilt = train(start, pairs, loss, key=KEY, steps=6, learning_rate=30.0, batch_size=4, num_held_out=32)
    assert spoilt.ended == "start"
    assert spoilt.history.held_out[-1] > spoilt.start
    assert spoilt.held_out == spoilt.start
    assert is_same(spoilt.coupling, start)
    assert spoilt.above_optimum == spoilt.start / spoilt.optimum - 1
    better = train(small(), pairs, loss, key=KEY, steps=40, batch_size=16, num_held_out=32)
    assert better.ended == "finished"
    assert better.held_out < better.start
