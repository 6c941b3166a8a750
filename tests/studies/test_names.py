"""Names of couplings in sheets: those that the library has, and the few that an experiment adds."""

import numpy as np
import pytest

from countermax.couplings._named import named_couplings
from countermax.couplings._words import LEARNED
from countermax.learning._recipe import GADGETS, STARTS
from studies import figure1, synthetic, table1
from studies.sepsis import _study as sepsis
from studies.sepsis._variances import BY_SCORE
from studies.synthetic import FITTED_TO_ALL, PROJECTED
from studies.training import GADGET_NAMES

LIBRARY = {*named_couplings(score=np.arange(2.0)), "vector quantile", "optimal", *GADGET_NAMES.values()}


@pytest.mark.parametrize(
    ("names", "added"),
    [
        (sepsis._ORDER, {BY_SCORE}),
        (table1._FIXED_ROWS, {PROJECTED, FITTED_TO_ALL}),
        (table1._STARTS.values(), {"random", "barycenter"}),
        (synthetic._ROWS, set()),
        (figure1._PUBLISHED_MOMENTS, set()),
    ],
    ids=["sepsis", "table1", "starts", "published rows", "gallery"],
)
def test_every_row_has_a_name_of_the_library_or_its_own(names, added):
    assert set(names) - LIBRARY == added
    assert not added & LIBRARY


def test_every_gadget_and_start_of_a_recipe_has_a_name():
    assert tuple(GADGET_NAMES) == GADGETS
    assert {start for starts in STARTS.values() for start in starts} - {"scattered"} == set(table1._STARTS)
    assert f"learned {GADGET_NAMES['gadget-2']}" == LEARNED
