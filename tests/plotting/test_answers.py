"""Answers to one question: couplings and bounds side by side, joint laws as heatmaps."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from countermax import Design, Trial, Worlds
from countermax._plotting import draw_couplings


def test_a_long_question_stays_within_a_narrow_picture():
    labels = ["recovered with sequelae", "unchanged"]
    figure = Trial.from_counts([112, 40], [30, 200], labels=labels).compare(labels[0]).plot()
    FigureCanvasAgg(figure).draw()
    (question,) = (text for text in figure.findobj(Text) if text.get_text().startswith("Seen under"))
    assert question.get_window_extent().x1 <= figure.bbox.x1


def test_a_legend_is_not_cut():
    figure = Trial.from_counts([12, 40, 9], [30, 20, 9]).compare(0).plot()
    FigureCanvasAgg(figure).draw()
    (legend,) = figure.legends
    assert legend.get_window_extent().x0 >= figure.bbox.x0
    assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_the_picture_leads_with_what_the_summary_says_first():
    trial = Trial.from_counts([12, 40, 9], [30, 20, 9], labels=["dead", "ill", "well"], score=[0, 1, 2])
    found = {seen: trial.compare(seen) for seen in ("dead", "well")}
    names = {
        seen: [each.get_text() for each in answer.plot().axes[0].get_yticklabels()] for seen, answer in found.items()
    }
    assert names["dead"] == ["any better outcome", "dead", "ill", "well"]
    assert names["well"] == ["dead", "ill", "well"]  # nothing is better


def test_numbers_beside_the_picture_have_a_heading_and_touch_nothing():
    figure = Trial.from_counts([112, 40], [30, 200]).compare(0, couplings=[]).plot()
    FigureCanvasAgg(figure).draw()
    heading, *numbers = (each for each in figure.axes[0].texts)
    assert heading.get_text() == "any coupling"
    assert all(" to " in each.get_text() for each in numbers)
    boxes = [each.get_window_extent() for each in (heading, *numbers)]
    assert all(upper.y0 > lower.y1 for upper, lower in zip(boxes, boxes[1:], strict=False))
    assert max(each.x1 for each in boxes) <= figure.bbox.x1
    title = next(each for each in figure.findobj(Text) if each.get_text().startswith("Seen under"))
    assert not heading.get_window_extent().overlaps(title.get_window_extent())


def test_a_family_of_couplings_looks_the_same_in_every_picture():
    """Within strata there are no stable bounds, and monotone ones do not take their look."""
    people = pd.DataFrame({"y": [0, 1] * 40, "arm": [0, 0, 1, 1] * 20, "sex": ["f", "m"] * 40})
    plain = Trial(people, outcome="y", arm="arm").causes(1)
    strata = Trial(people, outcome="y", arm="arm", design=Design(strata="sex")).causes(1)
    looks = []
    for answer in (plain, strata):
        (legend,) = answer.plot().legends
        names = [each.get_text() for each in legend.get_texts()]
        looks.append(legend.get_lines()[names.index("monotone")].get_color())
    assert looks[0] == looks[1]


@pytest.mark.parametrize("scored", [True, False])
def test_of_many_outcomes_the_likeliest_come_first_unless_they_have_a_scale(scored):
    p = np.random.default_rng(0).dirichlet(np.ones(40))
    own = {"score": np.arange(40.0)} if scored else {}
    answer = Worlds(p, np.roll(p, 1), **own).compare(3, couplings=["independent"])
    names = [each.get_text() for each in answer.plot().axes[0].get_yticklabels()]
    outcomes = [int(each) for each in names if each.isdigit()]
    assert len(outcomes) == 12
    if scored:
        assert outcomes == sorted(outcomes)
        return
    assert outcomes[0] == 3  # what was seen
    chances = answer.probabilities["independent"][outcomes[1:]]
    assert np.all(np.diff(chances) <= 0)
    printed = [line[0] for line in answer.tables()[0].lines]
    assert printed[:12] == [f"P({each})" for each in outcomes]


@pytest.mark.parametrize(("size", "written"), [(3, 9), (9, 0)])
def test_heatmaps_show_each_law_and_its_margins(size, written):
    p = np.full(size, 1 / size)
    joints = {"independent": np.outer(p, p), "maximal": np.diag(p)}
    figure = draw_couplings(joints, p, p, [str(place) for place in range(size)], "a title", notes={"maximal": ", mine"})
    assert [panel.get_suptitle() for panel in figure.subfigs] == ["independent", "maximal, mine"]
    for panel, joint in zip(figure.subfigs, joints.values(), strict=True):
        heatmap = panel.axes[3]
        np.testing.assert_allclose(heatmap.images[0].get_array(), joint)
        assert len(heatmap.texts) == written
