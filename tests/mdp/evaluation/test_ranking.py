"""Which claims are robust: effects by coupling within their bounds."""

import json
import pickle
from importlib.resources import files
from itertools import product

import numpy as np
import pandas as pd
import pytest
from processes import MDP, POLICY, some_episodes
from scipy.optimize import linprog

from countermax import InputError
from countermax._core.results import Row
from countermax.mdp import Cohort, EpisodeLog, FiniteMDP, Posterior, _cohort
from countermax.mdp._log import steps_compared
from countermax.mdp._planning import policy_matrix

LOG = some_episodes(MDP, 12, seed=4)
COUPLINGS = ("gumbel-max", "inverse-cdf", "maximal", "independent")


def by_episode(found):
    frame = found.to_frame()
    return frame[frame["about"].str.startswith("episode")]


def test_a_ranking_tells_robust_claims_from_others():
    found = Cohort(LOG, POLICY, process=MDP).rank()
    frame = by_episode(found)
    assert frame[frame["coupling"] == "Gumbel-max"]["value"].is_monotonic_decreasing
    assert (found.agreed == (found.bounds.lower > 1e-9)).all()
    assert (found.robust == found.agreed & (found.persistent.lower > 1e-9)).all()
    for name in ("Gumbel-max", "inverse CDF"):
        assert found.bounds.contains(found.effects[name], 1e-9).all()
    effects = found.effects["Gumbel-max"]
    for verb, those in (("rises", effects[effects > 1e-9]), ("falls", -effects[effects < -1e-9])):
        of_all = " of 12 episodes" if verb == "rises" else ""
        assert f"{verb} for {len(those)}{of_all}, by {those.mean():.2g} on average" in repr(found)


def test_a_ranking_shows_itself_in_every_form():
    found = Cohort(LOG, POLICY, process=MDP).rank(["maximal"])
    plain = json.loads(found.to_json())
    assert plain["episodes"] == [found.episodes[place] for place in found.order]
    earned, first, bounds = [each for each in plain["rows"] if each["about"].startswith("episode")][:3]
    assert (earned["coupling"], first["coupling"], bounds["coupling"]) == ("observed", "maximal", "any coupling")
    assert first["about"] == bounds["about"] == f"episode {plain['episodes'][0]}"
    assert bounds["lower"] - 1e-9 <= first["value"] == found.effects["maximal"].max()
    assert found.row("return", about="episode 5").value == found.observed[5]
    assert (plain["horizon"], plain["discount"]) == (LOG.longest, MDP.discount)
    for word in ("maximal", "any coupling", "horizon 3, discount 0.9", "The model is taken as given"):
        assert word in str(found)
    names = [label.get_text() for label in found.plot(most=4).axes[0].get_yticklabels()]
    assert names == [str(each) for each in plain["episodes"][:4]]


def test_a_ranking_needs_a_coupling(as_users_call):
    with pytest.raises(InputError, match="`couplings` must name at least one coupling"):
        Cohort(LOG, POLICY, process=MDP).rank({})


def test_couplings_called_like_bounds_are_told_apart_from_them():
    names = ["lower", "upper", "a b", "a_b"]
    found = Cohort(LOG, POLICY, process=MDP).rank(dict(zip(names, COUPLINGS, strict=True)))
    frame = by_episode(found)
    for name in names:
        assert frame[frame["coupling"] == name]["value"].tolist() == found.effects[name][found.order].tolist()
    for most in (0, -3):
        with pytest.raises(InputError, match=f"`most` must be at least 1, got {most}"):
            found.plot(most=most)


@pytest.fixture(scope="module")
def ward():
    data = files("countermax") / "data"
    posterior = Posterior(num_draws=6)
    return Cohort(data / "ward_log.csv", data / "ward_policy.csv", absorbing=["home", "dead"], posterior=posterior)


def test_those_who_died_and_would_have_lived_are_counted_by_coupling_and_range(ward):
    """The numbers are sums over the patients who came to an end, in every model that is drawn."""
    posterior = Posterior(num_draws=10)
    ward = Cohort(ward.log, ward.policy, process=ward.process, posterior=posterior)
    ranking, replay = ward.rank(["gumbel-max"]), ward.replay("gumbel-max")
    log, names = ward.log, list(ward.log.state_names)
    drawn = [Cohort(log, ward.policy, process=each) for each in posterior.draws(ward.process)]
    states = [names.index(end) for end in ("dead", "home")]  # the worst first
    ended = [log.last_states == each for each in states]
    sizes = [each.sum() for each in ended]
    for place, (state, those) in enumerate(zip(states, ended, strict=True)):
        about, mark = f"of {those.sum()} at {names[state]}", np.eye(len(names))[state]
        lasts = [each.replay("gumbel-max").last.toarray() for each in drawn]
        spared = those.sum() - np.array([last[those, state].sum() for last in lasts])
        ranges = [each.bounds(rewards=0.0, final=mark) for each in (ward, *drawn)]
        there = [count_at_end(each, state) for each in (ward, *drawn)]
        least = [max(those.sum() - e.upper[those].sum(), those.sum() - t) for e, t in zip(ranges, there, strict=True)]
        most = [those.sum() - max(e.lower[those].sum(), t - (~those).sum()) for e, t in zip(ranges, there, strict=True)]
        for found in (ranking, replay):
            row = found.row("number that would not be there", "Gumbel-max", about)
            limits = np.quantile(spared, [0.1, 0.9], method="weibull")
            assert (row.value, row.ci_lower, row.ci_upper) == pytest.approx((spared.mean(), *limits))
            row = found.row("number that would not be there", "any coupling", about)
            lower = np.minimum(least[1:], spared).mean()
            assert (row.lower, row.upper) == pytest.approx((lower, np.mean(most[1:])))
            assert row.ci_lower <= min(least[0], row.lower)
            assert row.ci_upper >= max(most[0], row.upper)
            for other, mark in zip(("dead", "home"), states, strict=True):
                row = found.row(f"number that would be at {other}", "Gumbel-max", about)
                assert row.value == pytest.approx(np.mean([last[those, mark].sum() for last in lasts]))
            row = found.row(f"number at {names[state]}", "any coupling")
            assert row.value == pytest.approx(np.mean(there[1:]))
            assert row.ci_lower < row.value < row.ci_upper
            assert found.row(f"number at {names[state]}", "observed").value == sizes[place]
            line = found.tables()[0].lines[place]
            assert line[:2] == [names[state], str(sizes[place])]
    given = Cohort(log, ward.policy, process=ward.process)
    exact, sampled = given.replay("gumbel-max"), given.sample("gumbel-max", num_samples=300)
    assert exact.mean_effect == sampled.mean_effect
    for one, other in zip(exact.fates.moved["Gumbel-max"], sampled.fates.moved["Gumbel-max"], strict=True):
        assert [each.number for each in one] == pytest.approx([each.number for each in other], abs=1.5)


@pytest.mark.parametrize("ask", [Cohort.replay, Cohort.rank])
def test_ranges_of_fates_are_computed_when_they_are_looked_at(ward, monkeypatch, ask):
    asked, compute = [], _cohort.spared_bounds

    def counting(*given, **named):
        asked.append(given)
        return compute(*given, **named)

    monkeypatch.setattr(_cohort, "spared_bounds", counting)
    found = ask(Cohort(ward.log, ward.policy, process=ward.process, posterior=Posterior(num_draws=2)))
    assert found.gains
    assert not asked
    kept = pickle.loads(pickle.dumps(found))
    assert len(asked) == 3  # by the estimate and by both models
    assert kept.to_json() == found.to_json()
    assert len(asked) == 3


def count_at_end(cohort, state):
    """How many of as many episodes from the same first states come there, by a forward pass for each."""
    chain = policy_matrix(cohort.process, cohort.policy).toarray()
    steps = steps_compared(cohort.log, cohort.process.ends, cohort.horizon)
    firsts = cohort.log.states[:, 0]
    return sum(np.linalg.matrix_power(chain, n)[first, state] for n, first in zip(steps.tolist(), firsts, strict=True))


STEPS = {  # by state and action: the chances of better, worse, home, dead
    ("sick", "a"): (0.5, 0.5, 0, 0),
    ("sick", "b"): (0.75, 0.25, 0, 0),
    ("better", "a"): (0, 0, 0.5, 0.5),
    ("better", "b"): (0, 0, 0.75, 0.25),
    ("worse", "a"): (0, 0, 0.25, 0.75),
    ("worse", "b"): (0, 0, 0.5, 0.5),
}
PLACES = ["sick", "better", "worse", "home", "dead"]


def over_one_coupling(policy, worth):
    """The least and the largest mean worth of (end, other end) over couplings of two steps, by a linear program.

    One coupling for all episodes: a law of pairs of paths, in which neither path looks ahead of the other, and which
    are the same as long as the same is done in the same state.
    """
    laws = [
        {(one, end): STEPS["sick", plan["sick"]][PLACES.index(one) - 1] * STEPS[one, plan[one]][PLACES.index(end) - 1]
         for one in ("better", "worse") for end in ("home", "dead")}
        for plan in (dict.fromkeys(PLACES, "a"), policy)
    ]  # fmt: skip
    pairs = list(product(laws[0], laws[1]))
    rows, values = [], []

    def add(row, value=0.0):
        rows.append(row)
        values.append(value)

    for path in laws[0]:  # margins
        add([float(one == path) for one, _ in pairs], laws[0][path])
        add([float(other == path) for _, other in pairs], laws[1][path])
    for first, second in product(("better", "worse"), repeat=2):  # nobody looks ahead
        here = np.array([one[0] == first and other[0] == second for one, other in pairs], float)
        for last in ("home", "dead"):
            for side, start, plan in ((0, first, dict.fromkeys(PLACES, "a")), (1, second, policy)):
                ends = np.array([pair[side][1] == last for pair in pairs], float)
                add((here * ends - here * STEPS[start, plan[start]][PLACES.index(last) - 1]).tolist())
        if first == second and policy[first] == "a":
            add((here * [one[1] != other[1] for one, other in pairs]).tolist())
    objective = np.array([worth(one[1], other[1]) for one, other in pairs], float)
    found = [linprog(sign * objective, A_eq=rows, b_eq=values, bounds=(0, 1)) for sign in (1, -1)]
    assert all(each.status == 0 for each in found)
    return found[0].fun, -found[1].fun


@pytest.mark.parametrize("later", ["a", "b"])
def test_what_is_said_of_all_episodes_holds_one_coupling_for_all_of_them(later):
    """Against linear programs over one coupling for all: the mean is the same, and no number lies beyond its range."""
    policy = {"sick": "b", "better": later, "worse": later}
    frame = [
        (f"{path}{copy}", step, *row, "a", after)
        for path, times in {"better home": 2, "better dead": 2, "worse home": 1, "worse dead": 3}.items()
        for copy in range(times)
        for step, (row, after) in enumerate(zip([["sick"], path.split()[:1]], path.split(), strict=True))
    ]
    frame = pd.DataFrame(frame, columns=["episode", "step", "state", "action", "next_state"])
    log = EpisodeLog.from_frame(
        frame.assign(reward=(frame["next_state"] == "home") * 1.0), state_names=PLACES, action_names=["a", "b"]
    )
    dense = np.zeros((5, 2, 5))
    for (state, action), chances in STEPS.items():
        dense[PLACES.index(state), "ab".index(action), 1:] = chances
    process = FiniteMDP.from_dense(
        dense, [0, 0, 0, 1, 0], start=0, absorbing=[3, 4], state_names=PLACES, action_names=["a", "b"]
    )
    chosen = np.eye(2)[["ab".index(policy.get(each, "a")) for each in PLACES]]
    found = Cohort(log, chosen, process=process, posterior=Posterior(num_draws=0)).rank()
    score = {"home": 1, "dead": 0}
    least, most = over_one_coupling(policy, lambda one, other: score[other] - score[one])
    mean = found.row("effect", "any coupling", "mean of 8 episodes").value
    assert (least, most) == pytest.approx((mean, mean))
    assert found.row("number at dead", "any coupling").value == pytest.approx(5 - 8 * mean)
    for end, size in (("dead", 5), ("home", 3)):
        row = found.row("number that would not be there", "any coupling", f"of {size} at {end}")
        least, most = (8 * each for each in over_one_coupling(policy, lambda one, other: one == end != other))  # noqa: B023
        assert row.lower <= least + 1e-9 < most <= row.upper + 1e-9
        assert (row.lower, row.upper) == pytest.approx((least, most), abs=0.6)
        for name in ("Gumbel-max", "inverse CDF"):
            value = found.row("number that would not be there", name, f"of {size} at {end}").value
            assert least - 1e-9 <= value <= most + 1e-9


def test_one_step_ranges_are_those_of_one_coupling():
    """200 of placebo, 80 of them dead, 200 of the drug, 40 of them dead; the policy is the drug."""
    rows = [
        (f"{arm} {place}", 0, "sick", arm, end, float(end == "home"))
        for arm, dead in (("placebo", 80), ("drug", 40))
        for place, end in enumerate(["dead"] * dead + ["home"] * (200 - dead))
    ]
    frame = pd.DataFrame(rows, columns=["episode", "step", "state", "action", "next_state", "reward"])
    policy = pd.DataFrame({"state": ["sick"], "action": ["drug"]})
    found = Cohort(frame, policy, posterior=Posterior(num_draws=0)).rank()
    assert found.mean_effect == pytest.approx((0.1, None))
    spared = found.row("number that would not be there", "any coupling", "of 120 at dead")
    lost = found.row("number that would not be there", "any coupling", "of 280 at home")
    assert (spared.lower, spared.upper, lost.lower, lost.upper) == pytest.approx((40, 80, 0, 40))
    assert "80 would be expected to, whatever the coupling" in found.summary()
    assert found.tables()[0].lines[-1] == ["in all, by any coupling", "400", "80", "320"]


def test_a_horizon_leaves_out_those_who_came_to_an_end_later(ward):
    soon = Cohort(ward.log, ward.policy, process=ward.process, horizon=3, posterior=Posterior(num_draws=0)).rank()
    ended = (ward.log.lengths <= 3) & ward.process.ends[ward.log.last_states]
    assert sum(soon.fates.sizes[:-1]) == ended.sum() < 184


def test_printed_tables_have_no_empty_cells_and_counts_no_false_decimals(ward):
    for found in (ward.rank(), ward.replay("gumbel-max"), ward.decisions(ward.log.names[0])):
        for table in found.tables():
            full = [line for line in table.lines if not line[0].startswith("...")]
            assert all(cell for line in full for cell in line)
    effects = ward.rank(["gumbel-max"]).tables()[-1]
    assert effects.columns[1:3] == ["quantity", "observed"]
    assert effects.lines[0][1] == "effect on the score"
    counts = {"value": 62.81, "ci_lower": 44.0, "ci_upper": 70.0}
    assert Row("number of gains", "", "", **counts).shown == "62.8\n(44.0 to 70.0)"
    assert Row("number of gains", "", "", 62.0, None, None, 44.0, 70.0).shown == "62\n(44 to 70)"
    assert Row("number of gains", "", "", None, 0.0, 128.0).shown == "0 to 128"
    assert Row("effect", "", "", **counts).shown == "62.810\n(44.000 to 70.000)"


def test_gains_say_what_is_gained(ward):
    found = ward.rank(["gumbel-max"])
    assert "the expected score rises for" in found.summary()
    label = "what the other policy would have added to the score (home 1, dead -1)"
    assert found.plot().axes[0].get_xlabel() == label
    frame = ward.log.to_frame().assign(reward=lambda each: (each["next_state"] == "home").astype(float))
    alike = type(ward.log).from_frame(frame, state_names=ward.log.state_names, action_names=ward.log.action_names)
    chance = Cohort(alike, ward.policy, absorbing=["home", "dead"], posterior=Posterior(num_draws=0))
    found = chance.rank(["gumbel-max"])
    assert "the expected chance of home rises for" in found.summary()
    assert found.tables()[-1].lines[0][1] == "effect on the chance of home"
    assert found.plot().axes[0].get_xlabel() == "what the other policy would have added to the chance of home"
    assert "so it is the chance of home" in str(found)
    assert "percentage points" in chance.decisions(ward.log.names[0]).summary()
