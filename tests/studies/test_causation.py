"""The experiment on intervals of probabilities of causation, in small."""

import pytest

from studies.causation import ROWS, TRUTHS, CausalCoverage, RowTruth, causal_coverage


@pytest.mark.parametrize(
    "name",
    [
        "no effect, 2 outcomes",
        "3 strata, no effect",
        "some chose something else, 3 strata",
        "people of the trial, two sources",
        "missing outcomes, worst, 3 strata",
        "missing outcomes, worst, two sources",
        "couplings, 3 strata, no effect",
    ],
)
def test_every_number_gets_its_coverage(name):
    found = causal_coverage(TRUTHS[name], range(2), 0)
    assert {"any coupling: PN", "any coupling: benefit", "any coupling: tie"} <= set(found)
    assert all(0 <= each["held"] <= each["trials"] == 2 and each["width"] >= 0 for each in found.values())
    assert ("one coupling: tie, Gumbel-max" in found) == bool(TRUTHS[name].couplings)
    section = CausalCoverage().section({f"{name}, samples 1 to 2": found})
    assert section.sheets["causation"].rows[0][:2] == [name, "2"]


def test_a_classifier_is_fitted_again_to_each_sample():
    found = causal_coverage(RowTruth(0.6, rows=80, refits=4), range(1), 0)
    assert {"any coupling: PN", "any coupling: tie"} <= set(found)


def test_a_truth_is_computed_in_blocks_that_are_counted_together():
    truth, experiment = TRUTHS["3 strata, no effect"], CausalCoverage()
    whole = causal_coverage(truth, range(4), 3)
    parts = [causal_coverage(truth, places, 3) for places in (range(3), range(3, 4))]
    name = "3 strata, no effect"
    together = experiment.section({f"{name}, samples {place}": each for place, each in enumerate(parts)})
    assert together.sheets["causation"].rows == experiment.section({name: whole}).sheets["causation"].rows


def test_samples_are_counted_by_seeds_and_each_is_in_one_cell():
    experiment = CausalCoverage()
    cells = experiment.cells("best", 7)
    assert {cell.settings["num_trials"] for cell in cells} == {7}
    assert len({cell.name for cell in cells}) == len(TRUTHS) + len(ROWS)
    places: dict[str, list[int]] = {}
    for cell in experiment.cells("best", None):
        first = cell.settings["first"]
        places.setdefault(cell.name.rsplit(", samples ", 1)[0], []).extend(
            range(first, first + cell.settings["num_trials"])
        )
    assert set(places) == {*TRUTHS, *ROWS}
    assert all(each == list(range(len(each))) and len(each) in (1000, 2000) for each in places.values())
