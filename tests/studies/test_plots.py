"""Figures of the studies: points of the paper beside ours, panels of bars, galleries of laws."""

import numpy as np
import pytest

from studies.plots import draw_distances, draw_gallery, draw_noise_scales, draw_panels


def test_distances_stand_beside_the_published_ones():
    figure = draw_distances({"Gadget 2": {"a": 3.0, "b": -1e-9}}, {"Gadget 2": {"b": 4.0}}, ["a", "b"], "a title")
    axes = figure.axes[0]
    assert [bar.get_height() for bar in axes.patches] == [3, 0]
    assert list(axes.lines[0].get_ydata()) == [4]
    assert axes.get_legend().get_texts()[-1].get_text() == "published"


def test_noise_scales_are_evenly_spaced():
    axes = draw_noise_scales(
        [(0.0, 0.2, 0.01), (4.0, 0.3, 0.02)], {0.0: 0.21, 1.0: 0.25, 4.0: 0.31}, {"mine": 0.4}
    ).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "4"]
    ours = next(line for line in axes.lines if list(line.get_ydata()) == [0.2, 0.3])
    assert list(ours.get_xdata()) == [0, 2]


def test_panels_share_their_names_and_leave_gaps():
    figure = draw_panels({"first": {"a": (1.0, 0.1), "b": (2.0, None)}, "second": {"b": (4.0, None)}}, "loss")
    first, second = figure.axes
    assert [bar.get_y() + bar.get_height() / 2 for bar in first.patches] == pytest.approx([1, 0])
    assert [bar.get_y() + bar.get_height() / 2 for bar in second.patches] == pytest.approx([0])
    assert [text.get_text() for text in second.texts] == ["4.00"]


def test_a_gallery_leaves_gaps_empty_and_names_the_variances():
    joint = np.eye(2) / 2
    figure = draw_gallery({"fixed": {"maximal": (joint, 0.25), "mine": (joint, 0.5)}, "learned": {"it": (joint, 1.0)}})
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["maximal\nvariance 0.250", "mine\nvariance 0.500", "it\nvariance 1.000", ""]
