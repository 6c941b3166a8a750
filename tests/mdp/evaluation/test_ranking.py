"""Which claims are robust: effects by coupling within their bounds."""

import json

import pytest
from processes import MDP, POLICY, some_episodes

from countermax import InputError
from countermax.mdp import rank_episodes

LOG = some_episodes(MDP, 12, seed=4)
COUPLINGS = ("gumbel-max", "inverse-cdf", "maximal", "independent")


def test_a_ranking_tells_robust_claims_from_others():
    found = rank_episodes(MDP, LOG, POLICY)
    frame = found.to_frame()
    assert frame["effect_Gumbel-max"].is_monotonic_decreasing
    assert (frame["robust"] == (frame["effect_lower"] > 1e-9)).all()
    for name in ("Gumbel-max", "inverse CDF"):
        assert found.bounds.contains(found.effects[name], 1e-9).all()
    assert "every coupling says so of" in repr(found)


def test_a_ranking_shows_itself_in_every_form():
    found = rank_episodes(MDP, LOG, POLICY, couplings=["maximal"])
    plain = json.loads(found.to_json())
    assert plain["couplings"] == ["maximal"]
    assert [row["episode"] for row in plain["episodes"]] == found.to_frame()["episode"].tolist()
    first = plain["episodes"][0]
    assert first["effect_bounds"]["lower"] - 1e-9 <= first["effects"]["maximal"] == found.effects["maximal"].max()
    assert (plain["horizon"], plain["discount"]) == (LOG.longest, MDP.discount)
    assert len(found.listing(3).renderables[0].rows) == 3
    for word in ("effect, maximal", "effect lower", "effect upper", "horizon 3, discount 0.9", "the model as given"):
        assert word in str(found)
    names = [label.get_text() for label in found.plot(4).axes[0].get_yticklabels()]
    assert names == [str(each) for each in found.to_frame()["episode"][:4]]


def test_a_ranking_needs_a_coupling(as_users_call):
    with pytest.raises(InputError, match="`couplings` must name at least one coupling"):
        rank_episodes(MDP, LOG, POLICY, couplings={})


def test_couplings_called_like_other_columns_have_columns_of_their_own():
    names = ["lower", "upper", "a b", "a_b"]
    found = rank_episodes(MDP, LOG, POLICY, couplings=dict(zip(names, COUPLINGS, strict=True)))
    frame = found.to_frame()
    assert frame["effect_lower"].tolist() == found.bounds.lower[found.order].tolist()
    columns = ["effect_lower_2", "effect_upper_2", "effect_a_b", "effect_a_b_2"]
    for name, column in zip(names, columns, strict=True):
        assert frame[column].tolist() == found.effects[name][found.order].tolist()
    for most in (0, -3):
        with pytest.raises(InputError, match=f"`most` must be at least 1, got {most}"):
            found.listing(most)
