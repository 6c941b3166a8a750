"""The experiment on intervals of probabilities of causation, in small."""

import pytest

from countermax.experiments.causes import TRUTHS, CausalCoverage, causal_coverage


@pytest.mark.parametrize("name", ["no effect, 2 outcomes", "3 strata, no effect"])
def test_every_number_gets_its_coverage(name):
    found = causal_coverage(TRUTHS[name], 2, 0)
    assert {"any coupling: PN", "any coupling: benefit", "any coupling: tie"} <= set(found)
    assert all(0 <= each["coverage"] <= 1 and each["width"] >= 0 for each in found.values())
    section = CausalCoverage().section({name: found})
    assert section.sheets["causation"].rows[0][0] == name


def test_trials_are_counted_by_seeds():
    cells = CausalCoverage().cells("best", 7)
    assert {cell.settings["num_trials"] for cell in cells} == {7}
    assert len({cell.name for cell in cells}) == len(TRUTHS)
