"""Joint laws as heatmaps: every cell is a number, as long as there is room."""

import numpy as np
import pytest

from countermax._plotting import draw_couplings, draw_gallery


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


def test_a_gallery_leaves_gaps_empty_and_names_the_variances():
    joint = np.eye(2) / 2
    figure = draw_gallery({"fixed": {"maximal": (joint, 0.25), "mine": (joint, 0.5)}, "learned": {"it": (joint, 1.0)}})
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["maximal\nvariance 0.250", "mine\nvariance 0.500", "it\nvariance 1.000", ""]
