"""Which claims are robust: effects by coupling within their bounds."""

import json
from importlib.resources import files

import jax
import numpy as np
import pytest
from processes import MDP, POLICY, some_episodes

from countermax import InputError
from countermax._core.results import Row
from countermax.mdp import Cohort, Posterior

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
    told = (("gained", "gains in total reward", effects[effects > 1e-9]), ("lost", "losses", -effects[effects < -1e-9]))
    for verb, what, those in told:
        assert f"{len(those)} would have {verb}" in repr(found)
        assert f"{what} are {those.min():.2g} to {those.max():.2g}" in repr(found)


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
    for place, end in enumerate(("dead", "home")):  # the worst first
        state = names.index(end)
        those = log.last_states == state
        about = f"of {those.sum()} that ended at {end}"
        again = [each.replay("gumbel-max").last.toarray()[those, state].sum() for each in drawn]
        spared = those.sum() - np.array(again)
        mark = np.eye(len(names))[state]
        ranges = [ward_.bounds(rewards=0.0, final=mark) for ward_ in (ward, *drawn)]
        least, most = (
            [those.sum() - getattr(each, side)[those].sum() for each in ranges] for side in ("upper", "lower")
        )
        wide = ward.bounds(rewards=0.0, final=mark, persistent=True)
        for found in (ranking, replay):
            row = found.row("number that would not have", "Gumbel-max", about)
            limits = np.quantile(spared, [0.1, 0.9], method="weibull")
            assert (row.value, row.ci_lower, row.ci_upper) == pytest.approx((spared.mean(), *limits))
            row = found.row("number that would not have", "any coupling", about)
            assert (row.lower, row.upper) == pytest.approx((np.mean(least[1:]), np.mean(most[1:])))
            assert row.ci_lower <= min(least[0], row.lower)
            assert row.ci_upper >= max(most[0], row.upper)
            kept = found.row("number that would have", "any coupling", about)
            assert (kept.lower, kept.upper) == pytest.approx((those.sum() - row.upper, those.sum() - row.lower))
            row = found.row("number that would not have", "chance may persist", about)
            assert row.lower <= those.sum() - wide.upper[those].sum() + 1e-9
            told = f"{about}, {spared.mean():.0f} (80 % interval "
            assert told in found.summary()
            assert found.tables()[0].lines[2 * place][:2] == [about, "number that would not have"]
    given = Cohort(log, ward.policy, process=ward.process)
    exact, sampled = given.replay("gumbel-max"), given.sample("gumbel-max", num_samples=300, key=jax.random.key(0))
    for one, other in zip(exact.fates, sampled.fates, strict=True):
        assert other.spared.values["Gumbel-max"] == pytest.approx(one.spared.values["Gumbel-max"], abs=1.5)
        assert one.spared.bounds == other.spared.bounds


def test_a_horizon_leaves_out_those_who_came_to_an_end_later(ward):
    soon = Cohort(ward.log, ward.policy, process=ward.process, horizon=3, posterior=Posterior(num_draws=0)).rank()
    ended = (ward.log.lengths <= 3) & ward.process.ends[ward.log.last_states]
    assert sum(each.size for each in soon.fates) == ended.sum() < 184


def test_printed_tables_have_no_empty_cells_and_counts_no_false_decimals(ward):
    for found in (ward.rank(), ward.replay("gumbel-max"), ward.decisions(ward.log.names[0])):
        for table in found.tables():
            full = [line for line in table.lines if not line[0].startswith("...")]
            assert all(cell for line in full for cell in line)
    effects = ward.rank(["gumbel-max"]).tables()[-1]
    assert effects.columns[1:3] == ["quantity", "score observed"]
    assert effects.lines[0][:3] == ["mean of 200 episodes", "effect on the score", "0.360"]
    counts = {"value": 62.81, "ci_lower": 44.0, "ci_upper": 70.0}
    assert Row("number of gains", "", "", **counts).shown == "62.8\n(44.0 to 70.0)"
    assert Row("number of gains", "", "", 62.0, None, None, 44.0, 70.0).shown == "62\n(44 to 70)"
    assert Row("number of gains", "", "", None, 0.0, 128.0).shown == "0 to 128"
    assert Row("effect", "", "", **counts).shown == "62.810\n(44.000 to 70.000)"


def test_gains_say_what_is_gained(ward):
    found = ward.rank(["gumbel-max"])
    assert "gains in score are" in found.summary()
    label = "what the other policy would have added to the score (home 1, dead -1)"
    assert found.plot().axes[0].get_xlabel() == label
    frame = ward.log.to_frame().assign(reward=lambda each: (each["next_state"] == "home").astype(float))
    alike = type(ward.log).from_frame(frame, state_names=ward.log.state_names, action_names=ward.log.action_names)
    chance = Cohort(alike, ward.policy, absorbing=["home", "dead"], posterior=Posterior(num_draws=0))
    found = chance.rank(["gumbel-max"])
    assert "gains in chance of home are" in found.summary()
    assert found.tables()[-1].lines[0][1] == "effect on the chance of home"
    assert found.plot().axes[0].get_xlabel() == "what the other policy would have added to the chance of home"
    assert "so it is the chance of home" in str(found)
    assert "percentage points" in chance.decisions(ward.log.names[0]).summary()
