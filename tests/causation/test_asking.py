"""Questions, results and refusals."""

import json

import numpy as np
import pytest
from quantities import quantities, quantity

from countermax import InputError, Trial, Worlds
from countermax.causation import _answering
from countermax.couplings._named import named_couplings

COUNTS = {"control": [30, 40, 30], "treated": [10, 30, 60]}
LABELS = ["dead", "ill", "well"]


@pytest.fixture(scope="module")
def found():
    gain = np.subtract.outer(-np.arange(3.0), -np.arange(3.0)) - 0.2
    return Trial.from_counts(**COUNTS, labels=LABELS, score=range(3)).causes("well", at_least=2, gain=gain)


def test_every_limit_is_attained_by_a_coupling_with_these_margins(found):
    for answer in quantities(found):
        for kind, bounds in answer.spans().items():
            for side in ("lower", "upper"):
                attained = found.attaining(answer.name, side, kind)
                joint = attained.joints["everybody"]
                assert attained.value == pytest.approx(getattr(bounds, side), abs=1e-9)
                np.testing.assert_allclose(joint.sum(axis=1), found.control, atol=1e-12)
                np.testing.assert_allclose(joint.sum(axis=0), found.treated, atol=1e-12)
                assert joint.min() >= 0


@pytest.mark.parametrize("elsewhere", [0.0, 0.1])
@pytest.mark.parametrize("trial", [True, False])
def test_limits_from_observations_are_attained(elsewhere, trial):
    rest = 1 - elsewhere
    seen = {"factual": rest * np.array([0.2, 0.1, 0.15]), "counterfactual": rest * np.array([0.1, 0.2, 0.25])}
    worlds = ([0.4, 0.3, 0.3], [0.25, 0.35, 0.4]) if trial else (None, None)
    found = Worlds(*worlds, observational=seen | {"elsewhere": [elsewhere, 0, 0]}, score=range(3)).causes(2)
    for answer in quantities(found):
        for side in ("lower", "upper"):
            attained = found.attaining(answer.name, side)
            assert attained.value == pytest.approx(getattr(answer.bounds, side), abs=1e-9), answer.name
            total = sum(attained.joints.values())
            assert total.sum() == pytest.approx(1)
            if trial:
                np.testing.assert_allclose(total.sum(axis=1), worlds[0], atol=1e-9)
                np.testing.assert_allclose(total.sum(axis=0), worlds[1], atol=1e-9)


@pytest.mark.parametrize(
    ("control", "treated"),
    [([0.8, 0.2], [0.8, 0.2]), ([0.8, 0.2], [0.4, 0.6]), ([1.0, 0.0], [0.4, 0.6]), ([0.5, 0.2, 0.3], [0.3, 0.2, 0.5])],
)
def test_limits_for_people_who_chose_unseen_are_attained_by_what_they_chose(control, treated):
    last = len(control) - 1
    found = Worlds(control, treated).causes(last, people="chosen", couplings=[])
    for name in ("PN", "PS", "disablement", "enablement"):
        for kind, bounds in quantity(found, name).spans().items():
            for side in ("lower", "upper"):
                attained = found.attaining(name, side, kind)
                assert attained.value == pytest.approx(getattr(bounds, side), abs=1e-9)
                total = sum(attained.joints.values())
                np.testing.assert_allclose(total.sum(axis=1), control, atol=1e-12)
                np.testing.assert_allclose(total.sum(axis=0), treated, atol=1e-12)
                assert min(each.min() for each in attained.joints.values()) >= 0
                assert kind != "monotone" or np.allclose(total[last, :last], 0)
    if control == treated:  # no effect, and nobody is harmed: nobody is helped
        assert quantity(found, "PN").monotone_bounds == quantity(found, "PN").stable_bounds == (0, 0)


def test_intervals_hold_bounds_and_answers(found):
    for answer in quantities(found):
        lower, upper = answer.interval()
        assert lower <= answer.bounds.lower <= answer.bounds.upper <= upper
        for value in answer.by_coupling.values():
            assert answer.bounds.contains(value)
    assert found.sample == "100 people in control and 100 in treated"


def test_a_result_shows_itself_and_becomes_everything_else(found, tmp_path):
    assert "necessity" in str(found)
    assert "Whom to treat" in str(found)
    assert found.to_frame().query("quantity == 'PN' and coupling == 'any coupling'")["lower"].item() == 0.5
    told = json.loads(found.to_json())
    assert told["decision"]["certain"] == found.decision.certain
    assert found.plot().axes
    page = found.write_page(tmp_path / "page.html").read_text()
    assert "sufficiency" in page
    with pytest.raises(InputError, match="must match one row, and none match 'PX'"):
        found.row("PX")


def test_joint_laws_of_many_pairs_are_found_in_parts_of_one_shape(monkeypatch):
    couplings = named_couplings(["gumbel-max", "inverse-cdf"])
    log_p, log_q = np.log(np.random.default_rng(0).dirichlet(np.ones(3), (2, 9000)))
    shapes, many = set(), _answering._many

    def recorded(couplings, *worlds):
        shapes.update(each.shape for each in worlds)
        return many(couplings, *worlds)

    monkeypatch.setattr(_answering, "_many", recorded)
    found = _answering._laws(couplings, log_p, log_q)
    assert len(shapes) == 1
    for name, coupling in couplings.items():
        for place in (0, 4096, 8999):
            np.testing.assert_allclose(found[name][place], coupling.joint(log_p[place], log_q[place]), atol=1e-6)


def test_decisions_are_certain_only_where_every_coupling_agrees():
    def decision(gain):
        return Worlds([0.6, 0.4], [0.3, 0.7]).causes(gain=gain, couplings="all").decision

    assert decision([[0, 1], [-0.1, 0]]).certain == "treat"
    assert decision([[0, 1], [-5, 0]]).certain == "open"
    assert decision([[0, 1], [-5, 0]]).least_regret == "leave"
    assert decision([[0, 1], [-5, 0]]).by_coupling["maximal"] == "treat"
    assert decision({(1, 0): -1}).certain == "leave"
    assert decision([[0, 1], [-5, 0]]).regret == pytest.approx(0.3)


TWO = {"factual": [0.6, 0.4], "counterfactual": [0.3, 0.7]}
NONE = {"factual": None, "counterfactual": None}
SEEN = {"factual": [0.3, 0.2], "counterfactual": [0.2, 0.3]}


@pytest.mark.parametrize(
    ("worlds", "asked", "message"),
    [
        ({"factual": [0.5, 0.5], "counterfactual": None}, {"event": 1}, "give both `factual` and `counterfactual`"),
        (NONE, {"event": 1}, "say what is known"),
        (TWO, {}, "say what is asked about"),
        (TWO, {"event": [0, 1]}, "must leave out an outcome"),
        (TWO, {"event": 7}, "must be one of the labels"),
        ({"factual": [1, 0], "counterfactual": [1, 0]}, {"event": 1}, "never happens"),
        ({"factual": [0.5, 0.6], "counterfactual": [1, 0]}, {"event": 1}, "must sum to 1"),
        ({"factual": [0.5, -0.5], "counterfactual": [1, 0]}, {"event": 1}, "must not be negative"),
        (TWO, {"event": 1, "people": "all"}, "`people` must be one of trial, chosen"),
        (TWO, {"event": 1, "gain": [[1]]}, "got shape"),
        (NONE | {"observational": {"factual": [0.5, 0.5]}}, {"event": 1}, "must have numbers for 'factual' and"),
        (
            NONE | {"observational": {"factual": [0.5, 0.5], "counterfactual": [0, 0]}}, {"event": 1},
            "must have people who chose",
        ),
        (NONE | {"observational": SEEN}, {"event": 1, "people": "trial"}, "only with an experiment"),
        (TWO | {"observational": {"factual": [0.1, 0.4], "counterfactual": [0.35, 0.15]}}, {"event": 1}, "cannot both"),
        (TWO, {"event": 1, "couplings": {"monotone": "gumbel-max"}}, "must not reuse the name 'monotone'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_line(worlds, asked, message):
    with pytest.raises(InputError, match=message) as refused:
        Worlds(**worlds).causes(**asked)
    assert "\n" not in str(refused.value)


def test_counts_are_whole_numbers():
    with pytest.raises(InputError, match="whole numbers"):
        Trial.from_counts([5, 0.5], [1, 9])


def test_two_scores_are_compared_each_in_its_own_world():
    shifted = Worlds([0.6, 0.4], [0.3, 0.7], score=[0, 1], counterfactual_score=[2, 3]).causes()
    assert shifted.row("benefit", "any coupling").lower == 1  # whoever, whatever
