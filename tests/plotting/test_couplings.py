"""Joint laws as heatmaps: every cell is a number, as long as there is room."""

import numpy as np
import pytest

from countermax._plotting import draw_couplings


@pytest.mark.parametrize(("size", "written"), [(3, 9), (9, 0)])
def test_heatmaps_show_each_law_and_its_margins(size, written):
    p = np.full(size, 1 / size)
    joints = {"independent": np.outer(p, p), "maximal": np.diag(p)}
    figure = draw_couplings(joints, p, p, [str(place) for place in range(size)], "a title", {"maximal": ", mine"})
    assert [panel.get_suptitle() for panel in figure.subfigs] == ["independent", "maximal, mine"]
    for panel, joint in zip(figure.subfigs, joints.values(), strict=True):
        heatmap = panel.axes[3]
        np.testing.assert_allclose(heatmap.images[0].get_array(), joint)
        assert len(heatmap.texts) == written
