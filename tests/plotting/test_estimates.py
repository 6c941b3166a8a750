"""Estimates of one number: what has to be seen is seen."""

from countermax import _plotting as plotting


def test_estimates_out_of_all_proportion_do_not_squash_the_others():
    rows = [("observed", "observed", 0.5, 0.4, 0.6), ("wild", "importance sampling", 80.0, -15.0, 300.0)]
    figure = plotting.draw_estimates(rows, bounds=(0.3, 0.7), truth=None, title="", label="")
    low, high = figure.axes[0].get_xlim()
    assert high - low < 2
    assert [text.get_text() for text in figure.axes[0].texts] == ["80 →"]
