"""Numbers that others have published or computed: Tian and Pearl's example, and causalml's bounds."""

from pathlib import Path

import numpy as np
import pytest
from quantities import quantities, quantity

from countermax import Trial, Worlds
from countermax._core.labels import Labels
from countermax.causation._limits import limits
from countermax.causation._questions import Arms, Choosers, Evidence, questions_about

TYPES = np.array([(x, a, b) for x in (0, 1) for a in (0, 1) for b in (0, 1)])  # chosen, without, with


def test_bounds_from_both_sources_are_those_of_causalml():
    """A thousand random tables of people whose choice and both outcomes are known; its bounds were stored."""
    with np.load(Path(__file__).parent / "causalml_pns.npz") as stored:
        tables, expected = stored["tables"], stored["bounds"]
        assert "causalml 0.17.0" in str(stored["version"])
    law = tables / tables.sum(axis=1, keepdims=True)

    def share(*conditions):
        return np.stack([law[:, np.all(each, axis=0)].sum(axis=1) for each in conditions], axis=1)

    chosen, without, with_it = TYPES.T
    trial = Arms(share([without == 0], [without == 1]), share([with_it == 0], [with_it == 1]))
    choices = Choosers(
        share([chosen == 0, without == 0], [chosen == 0, without == 1]),
        share([chosen == 1, with_it == 0], [chosen == 1, with_it == 1]),
        np.zeros(len(law)),
    )
    evidence = Evidence(trial, choices, None)
    questions = questions_about(Labels((0, 1)), ("no", "yes"), [1], None, None, None, False)
    assert len(tables) == 1000
    for place, question in enumerate(questions[:3]):
        lower, upper = limits(question, evidence, "chosen")
        np.testing.assert_allclose(
            np.stack([lower, upper], axis=1), expected[:, place], atol=1e-12, err_msg=question.name
        )


LEGAL = {
    "names": ("no drug", "drug"),
    "observational": {"no drug": {"alive": 972, "dead": 28}, "drug": {"alive": 998, "dead": 2}},
}


def test_the_legal_example_of_tian_and_pearl():
    """Neither source alone says that the drug killed him; together they leave no doubt."""
    control, treated = {"alive": 986, "dead": 14}, {"alive": 984, "dead": 16}
    both = Worlds(control, treated, normalise=True, **LEGAL).causes("dead")
    assert tuple(quantity(both, "PN").bounds) == pytest.approx((1, 1))
    assert quantity(both, "PS").bounds.lower == pytest.approx(0.002, abs=5e-4)
    assert tuple(quantity(both, "PS").bounds) == pytest.approx((0.002 * 0.5 / 0.486, 0.031), abs=1e-3)
    experiment = Worlds(control, treated, normalise=True).causes("dead", people="trial", treated_share=0.5)
    assert tuple(quantity(experiment, "PN").bounds) == pytest.approx((0.125, 1))
    monotone = quantity(experiment, "PN").monotone_bounds  # the excess risk ratio
    assert tuple(monotone) == pytest.approx((0.125, 0.125))
    observed = Worlds(None, None, normalise=True, **LEGAL).causes("dead")
    assert tuple(quantity(observed, "PN").bounds) == (0, 1)
    counted = Trial.from_counts(control, treated, **LEGAL).causes("dead")
    assert quantity(counted, "PN").bounds.lower == pytest.approx(1)
    assert quantity(counted, "PN").interval()[0] < 0.5  # two deaths among those who chose it: far from certain


def test_with_two_outcomes_stability_and_monotonicity_say_the_same():
    rng = np.random.default_rng(0)
    for _ in range(20):
        low, high = np.sort(rng.random(2))
        found = Worlds([1 - low, low], [1 - high, high]).causes(1, treated_share=0.5, couplings="all")
        for answer in quantities(found):
            if answer.name == "prevention":  # of an event that becomes more frequent: for these, it prevents nobody's
                assert tuple(answer.stable_bounds) == (0, 0)
                assert answer.monotone_bounds is None
                continue
            assert tuple(answer.stable_bounds) == pytest.approx(tuple(answer.monotone_bounds))
            assert answer.stable_bounds.width < 1e-12
            assert answer.by_coupling["maximal"] == pytest.approx(answer.stable_bounds.lower)
