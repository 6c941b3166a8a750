"""Words that fit, and figures in notebooks."""

import sys
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

from countermax import _plotting as plotting
from countermax._plotting._style import colours, shortened, wrapped


def test_short_labels_stay_as_they_are():
    assert shortened(["dead", "ill", "well"]) == ["dead", "ill", "well"]


@pytest.mark.parametrize("longest", [8, 16, 24])
def test_long_labels_are_cut_and_stay_different(longest):
    labels = [f"an outcome with a long name, number {number}" for number in range(12)]
    labels += [f"{number}: the difference comes first in this long name" for number in range(12)]
    labels += [f"the middle {number} is where these differ, nowhere else at all" for number in range(12)]
    short = shortened(labels, longest)
    assert len(set(short)) == len(labels)
    assert max(map(len, short)) <= longest


def test_wrapped_labels_have_few_lines_and_stay_different():
    labels = ["discharged home in good health", "discharged home in poor health", "a$b"]
    lines = wrapped(labels, 12)
    assert len(set(lines)) == 3
    assert all(each.count("\n") < 3 for each in lines)
    assert lines[2] == r"a\$b"


class Formatter(dict):
    """As much of IPython's formatter as is used."""

    def for_type(self, kind, shows):
        self[kind] = shows


@pytest.fixture
def formatter(monkeypatch):
    found = Formatter()
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"image/png": found}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, version_info=(9, 0)))
    return found


def test_a_notebook_shows_figures_without_pyplot(formatter):
    with plotting.house_style():
        figure = Figure(figsize=(1, 1))
    assert formatter[Figure](figure).startswith(b"\x89PNG")


def test_a_way_of_showing_figures_that_is_there_stays(formatter):
    formatter[Figure] = "the reader's own"
    with plotting.house_style():
        pass
    assert formatter[Figure] == "the reader's own"


def test_outside_of_notebooks_nothing_is_asked(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None, version_info=(9, 0)))
    with plotting.house_style():
        pass


def test_a_coupling_has_one_colour_in_every_picture():
    alone, later = colours(["inverse CDF by cost"]), colours(["Gumbel-max", "Gadget 2", "inverse CDF by cost"])
    assert alone["inverse CDF by cost"] == later["inverse CDF by cost"] not in (later["Gumbel-max"], later["Gadget 2"])
    assert colours(["learned Gadget 2"])["learned Gadget 2"] == later["Gadget 2"]
    both = colours(["learned Gadget 2", "Gadget 2"])
    assert both["learned Gadget 2"] != both["Gadget 2"]
    assert len(set(colours([f"mine {number}" for number in range(4)]).values())) == 4
