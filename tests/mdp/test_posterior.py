"""Posterior draws of an estimated process, and what is said of model uncertainty."""

import json

import numpy as np
import pytest
from processes import MDP, NUM_STATES, POLICY, counted, frame_of, single_decisions, some_episodes

from countermax import GumbelMax, InputError
from countermax.mdp import Cohort, EpisodeLog, FiniteMDP, Posterior, _posterior, _prior, estimate
from countermax.mdp._estimation import deterministic
from countermax.mdp._process import MODEL_GIVEN

LOG = some_episodes(MDP, 60, seed=4)
MODEL = estimate(LOG, absorbing=MDP.absorbing, discount=0.9)
FEW = LOG.select(range(8))


def test_draws_have_the_moments_of_their_dirichlet_distribution():
    """With nothing unseen possible: mean n_j / n and variance m (1 - m) / (n + 1) in every row."""
    drawn = np.array([each.row(0, 0) for each in Posterior(num_draws=400, prior="seen").draws(MODEL)])
    counts = np.zeros(NUM_STATES)
    np.add.at(counts, MODEL.successors[0, 0], MODEL.counts[0, 0])
    visits = counts.sum()
    mean = counts / visits
    variance = mean * (1 - mean) / (visits + 1)
    assert (np.abs(drawn.mean(axis=0) - mean) < 5 * np.sqrt(variance / 400) + 1e-12).all()  # 4 x 6e-7 false alarms
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.4, atol=1e-12)


def test_what_was_never_seen_may_happen_and_what_was_seen_must_stay_possible():
    some = FEW
    model = estimate(some, absorbing=MDP.absorbing)
    wider = 0
    for each in Posterior(num_draws=30).draws(model):
        wider += int(((each.probs > 0).sum(axis=2) > (model.probs > 0).sum(axis=2)).sum())
        for state, action in np.argwhere(model.allowed & ~model.absorbing[:, None]).tolist():
            assert (each.row(state, action)[model.support(state, action)[0]] > 0).all()
        np.testing.assert_array_equal(each.allowed, model.allowed)
        Cohort(some, np.where(model.allowed, 1, 0) / model.allowed.sum(axis=1, keepdims=True), process=each).replay(
            GumbelMax()
        )
    assert wider > 30
    assert all(
        ((each.probs > 0).sum(axis=2) == (model.probs > 0).sum(axis=2)).all()
        for each in Posterior(num_draws=5, prior="seen").draws(model)
    )


def test_rows_that_nobody_visited_are_drawn_from_the_prior_or_stay_where_there_is_none():
    model = estimate(FEW.select([0, 1, 2]), absorbing=MDP.absorbing, unseen=3)
    unseen = np.argwhere((model.counts.sum(axis=2) == 0) & ~model.absorbing[:, None]).tolist()
    assert len(unseen)
    drawn = list(Posterior(num_draws=30).draws(model))
    for state, action in unseen:
        rows = np.array([each.row(state, action) for each in drawn])
        assert rows.std(axis=0).max() > 0.05
        for each in Posterior(num_draws=3, prior="seen").draws(model):
            np.testing.assert_array_equal(each.row(state, action), model.row(state, action))


def process_of(counts):
    """A process with these counts, [state, action, next state], and no end."""
    rows = counts.sum(axis=2, keepdims=True)
    return counted(FiniteMDP.from_dense(counts / rows, np.zeros(len(counts)), start=0), counts)


def rows_drawn(counts, number=40):
    return np.array(
        [[[each.row(s, a) for a in range(2)] for s in range(len(counts))] for each in drawn(counts, number)]
    )


def drawn(counts, number):
    return Posterior(num_draws=number).draws(process_of(counts))


def test_rows_have_as_many_successors_as_rows_of_the_process_do():
    """Where every row was seen to have two, twenty visits to two are complete; where rows have ten, they are not."""
    random = np.random.default_rng(0)
    two, ten = np.zeros((2, 20, 2, 20), int)
    for state, action in np.ndindex(20, 2):
        two[state, action, random.choice(20, 2, replace=False)] = 10
        ten[state, action, random.choice(20, 10, replace=False)] = 2
    assert (rows_drawn(two) > 0).sum(axis=3).mean() < 2.2
    ten[0, 0] = two[0, 0]
    assert (rows_drawn(ten)[:, 1:] > 0).sum(axis=3).mean() > 10
    few = np.where(two > 0, 1, 0)
    few[0, 0, few[0, 0].argmax()] = 9  # nine visits to one, one to the other: less rare than it looks
    assert np.sort(rows_drawn(few, 100)[:, 0, 0].mean(axis=0))[-2] > 0.12


def test_what_other_actions_did_counts_where_actions_hardly_differ():
    random = np.random.default_rng(0)
    alike, apart = np.zeros((2, 20, 2, 20), int)
    for state in range(20):
        row, other = random.dirichlet(np.full(20, 0.3), 2)
        alike[state] = random.multinomial(100, row, size=2)
        apart[state] = random.multinomial(100, [row, other])
    rare = alike.copy()
    rare[0, 0] = np.eye(20, dtype=int)[rare[0, 1].argmin()]  # one visit, to where the other action hardly leads
    wanted = rare[0, 1] / rare[0, 1].sum()
    distances = [
        np.abs(rows_drawn(counts)[:, 0, 0].mean(axis=0) - wanted).sum()
        for counts in (rare, np.concatenate([rare[:1], apart[1:]]))
    ]
    assert distances[0] < 0.65  # four visits of the other action beside one of its own
    assert distances[1] > 1.5 * distances[0]


def test_rows_of_many_visits_keep_their_effects_where_actions_are_alike():
    """Five logs of 300 patients; half of what the second action changes is lost if others' visits count as its own."""
    given, found = [], []
    for seed in range(5):
        rng, rows = np.random.default_rng(seed), []
        for episode in range(300):
            state = 0
            for step in range(8):
                action = int(rng.integers(2))
                home = (0.10, 0.16)[action]
                chance = np.append(np.array([[0.8, 0.2], [0.4, 0.6]])[state] * (0.95 - home), [0.05, home])
                after = int(rng.choice(4, p=chance))
                rows.append((episode, step, state, action, after, float(after == 3)))
                state = after
                if state > 1:
                    break
        log = EpisodeLog.from_frame(frame_of(*rows), num_states=4, num_actions=2)
        policy, model = deterministic([1, 1, 1, 1], 2), estimate(log, absorbing=[2, 3])
        given.append(Cohort(log, policy, process=model).replay().effects.mean())
        doubted = Cohort(log, policy, process=model, posterior=Posterior(num_draws=40)).replay()
        found.append(doubted.effects.mean())
    assert np.mean(given) > 0.05
    assert np.mean(found) > 0.85 * np.mean(given)


def test_noisy_mean_rewards_are_drawn_towards_those_of_other_transitions_into_the_state():
    """The luckiest of thirty means of noise alone looks half as good in the posterior, or less."""
    random, rows = np.random.default_rng(3), []
    for episode in range(240):
        rows.append((episode, 0, episode % 30, 0, 30, float(random.normal())))
    model = estimate(EpisodeLog.from_frame(frame_of(*rows)))
    luckiest = int(model.rewards[:30, 0, 0].argmax())
    found = np.mean([each.rewards[luckiest, 0, 0] for each in Posterior(num_draws=60).draws(model)])
    assert model.rewards[luckiest, 0, 0] > 0.5
    assert abs(found) < 0.5 * model.rewards[luckiest, 0, 0]


@pytest.mark.parametrize("ends", [[2, 3], [2, 2, 3]])
def test_a_score_of_ends_is_known_however_small_the_log(ends):
    """Then it is the chance of the end that counts, in every model too."""
    rows = [(place, 1, 1, 0, end, float(end == 2)) for place, end in enumerate(ends)]
    rows = [(place, 0, 0, place % 2, 1, 0.0) for place in range(len(ends))] + rows
    model = estimate(EpisodeLog.from_frame(frame_of(*rows, (9, 0, 0, 1, 3, 0.0))))
    for each in Posterior(num_draws=20).draws(model):
        possible = (each.probs > 0) & ~each.absorbing[:, None, None]
        np.testing.assert_array_equal(each.rewards[possible], (each.successors == 2)[possible])


def test_what_is_rare_is_dropped_with_its_mass_kept_on_average():
    random = np.random.default_rng(0)
    counts = random.multinomial(20, random.dirichlet(np.full(60, 0.1), 120)).reshape(60, 2, 60)
    seen, found = counts > 0, rows_drawn(counts, 20)
    rare = found[:, ~seen]
    assert (rare[rare > 0] > 0.2 * _prior._RARE / 20).all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_prior, "_RARE", 1e-12)
        whole = rows_drawn(counts, 20)[:, ~seen]
    assert (rare > 0).sum() < 0.8 * (whole > 0).sum()
    np.testing.assert_allclose(rare.sum(), whole.sum(), rtol=0.05)


def test_model_uncertainty_and_couplings_are_told_apart_and_together():
    found = Cohort(FEW, POLICY, process=MODEL, posterior=Posterior(num_draws=40, seed=1)).rank()
    assert set(found.intervals) == {"Gumbel-max", "inverse CDF"}
    again = np.array(
        [
            Cohort(FEW, POLICY, process=each).bounds().lower - found.observed
            for each in Posterior(num_draws=40, seed=1).draws(MODEL)
        ]
    )
    limits = found.any_interval
    given = Cohort(FEW, POLICY, process=MODEL).bounds().lower - found.observed
    np.testing.assert_allclose(  # a gain is claimed where 95 % of the models have one
        limits.lower, np.minimum(np.quantile(again, 0.05, axis=0, method="weibull"), given), atol=1e-12
    )
    np.testing.assert_array_equal(found.agreed, (found.bounds.lower > 1e-9) & (limits.lower > 1e-9))
    row, alone = (found.row("effect", each, "episode 3") for each in ("any coupling", "Gumbel-max"))
    assert (row.lower, row.upper) == (found.bounds.lower[3], found.bounds.upper[3])
    assert (row.ci_lower, row.ci_upper) == (limits.lower[3], limits.upper[3])
    assert alone.ci_lower == found.intervals["Gumbel-max"].lower[3]
    plain = json.loads(found.to_json())
    assert plain["robust"] == found.robust[found.order].tolist()
    assert "with 95 % confidence in the model" in repr(found)
    for word in ("40 transition models drawn from the posterior given your counts", "No hidden confounding"):
        assert word in str(found)
    assert MODEL_GIVEN not in str(found)
    labels = [each.get_text() for each in found.plot().legends[0].get_texts()]
    assert "any coupling, 95% model uncertainty" in labels


def test_a_known_process_has_no_posterior():
    found = Cohort(FEW, POLICY, process=MDP).rank()
    assert found.any_interval is None
    assert "if the model is right" in repr(found)
    assert MODEL_GIVEN in str(found)
    with pytest.raises(InputError, match="`process` must have counts for a posterior"):
        Cohort(FEW, POLICY, process=MDP, posterior=Posterior()).rank()


def test_single_decisions_have_visits_and_intervals():
    one = LOG.select([int(LOG.lengths.argmax())])
    found = single_decisions(MODEL, one, GumbelMax(), posterior=Posterior(num_draws=30))
    visits = MODEL.counts.sum(axis=2)
    for each in found:
        assert each.visits == visits[each.state, each.other_action]
        assert each.interval.lower <= each.effect <= each.interval.upper
        assert each.any_interval.lower <= each.effect_bounds.lower
        assert each.robust == (min(each.any_interval.lower, each.persistent.lower) > 1e-9)
    assert found.to_dict()["decisions"][0]["visits"] == found[0].visits
    frame = found.to_frame()
    assert (frame["ci_lower"].notna() == (frame["coupling"] != "chance may persist")).all()
    assert found.plot() is not None


def test_a_replay_can_have_intervals():
    found = Cohort(FEW, POLICY, process=MODEL, posterior=Posterior(num_draws=20)).replay(GumbelMax())
    assert found.interval.lower.shape == (8,)
    assert found.row("effect", about="episode 5").ci_lower == found.interval.lower[5]
    plain = Cohort(FEW, POLICY, process=MODEL).replay(GumbelMax())
    assert plain.interval is None
    assert MODEL_GIVEN in plain.assumptions
    assert MODEL_GIVEN not in found.assumptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_draws": -1}, "`num_draws` must be at least 0"),
        ({"prior": "flat"}, "`prior` must be one of pooled, seen, got 'flat'"),
        ({"level": 1.5}, "`level` must lie between 0 and 1"),
        ({"seed": -1}, "`seed` must be a whole number"),
    ],
)
def test_bad_posteriors_are_named(options, message):
    with pytest.raises(InputError, match=message):
        Posterior(**options)


def test_more_data_leave_less_uncertainty():
    some, many = (estimate(some_episodes(MDP, count, seed=2), absorbing=MDP.absorbing) for count in (60, 6000))
    log = some_episodes(MDP, 60, seed=2).select(range(5))
    widths = [
        Cohort(log, POLICY, process=each, posterior=Posterior(num_draws=30)).replay(GumbelMax()).interval.width
        for each in (some, many)
    ]
    assert (widths[1] < 0.5 * widths[0] + 1e-9).all()


def test_drawn_rows_lead_to_one_state_of_each_name():
    """Treatments in force are part of a state, and follow from the action: no action leads to the flags of another."""
    rng = np.random.default_rng(0)
    rows = []
    for episode in range(60):
        state = 0
        for step in range(3):
            action, ill = int(rng.integers(2)), int(rng.random() < 0.5)
            rows.append((episode, step, state, action, 2 * ill + action, 1.0))
            state = 2 * ill + action
    log = EpisodeLog.from_frame(frame_of(*rows))
    model, labels = estimate(log), [0, 0, 1, 1]
    drawn = list(Posterior(num_draws=3).draws(model, labels))
    for process in drawn:
        state, action, slot = np.nonzero(process.probs)
        assert (process.successors[state, action, slot] % 2 == action).all()
    ranking = Cohort(
        log, deterministic([0] * 4, 2), process=model, outcomes=labels, posterior=Posterior(num_draws=3)
    ).rank()
    assert ranking.any_interval is not None


def test_models_are_drawn_once_however_many_questions_are_asked(monkeypatch):
    drawn = []
    draw = _prior.ModelPrior.draw
    monkeypatch.setattr(_prior.ModelPrior, "draw", lambda *each: drawn.append(1) or draw(*each))
    cohort = Cohort(LOG, POLICY, process=MODEL, posterior=Posterior(num_draws=4))
    story = cohort.explain(3)
    assert len(drawn) == 4
    assert story.decisions.decisions == cohort.decisions(3).decisions
    first, again = cohort.rank(), cohort.rank()
    assert len(drawn) == 4
    np.testing.assert_array_equal(first.any_interval.lower, again.any_interval.lower)
    monkeypatch.setattr(_posterior, "_MOST_KEPT", 0)
    afresh = Cohort(LOG, POLICY, process=MODEL, posterior=Posterior(num_draws=4)).rank()
    np.testing.assert_array_equal(first.any_interval.lower, afresh.any_interval.lower)
