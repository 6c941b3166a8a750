"""Which claims are robust: effects by coupling within their bounds."""

import json

import pytest
from processes import MDP, POLICY, some_episodes

from countermax import InputError
from countermax.mdp import Cohort

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
    told = (("gained", "gains", effects[effects > 1e-9]), ("lost", "losses", -effects[effects < -1e-9]))
    for verb, what, those in told:
        assert f"{len(those)} would have {verb}" in repr(found)
        assert f"{what} are {those.min():.2g} to {those.max():.2g}" in repr(found)


def test_a_ranking_shows_itself_in_every_form():
    found = Cohort(LOG, POLICY, process=MDP).rank(["maximal"])
    plain = json.loads(found.to_json())
    assert plain["episodes"] == [found.episodes[place] for place in found.order]
    first, bounds = [each for each in plain["rows"] if each["about"].startswith("episode")][:2]
    assert (first["coupling"], bounds["coupling"]) == ("maximal", "any coupling")
    assert first["about"] == bounds["about"] == f"episode {plain['episodes'][0]}"
    assert bounds["lower"] - 1e-9 <= first["value"] == found.effects["maximal"].max()
    assert found.row("return", about="episode 5").value == found.observed[5]
    assert (plain["horizon"], plain["discount"]) == (LOG.longest, MDP.discount)
    for word in ("maximal", "any coupling", "horizon 3, discount 0.9", "The model is taken as given"):
        assert word in str(found)
    names = [label.get_text() for label in found.plot(4).axes[0].get_yticklabels()]
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
            found.plot(most)
