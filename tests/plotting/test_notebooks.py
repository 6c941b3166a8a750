"""Figures in notebooks: shown without pyplot, and in the reader's own way where there is one."""

import sys
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

from countermax import _plotting as plotting


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
