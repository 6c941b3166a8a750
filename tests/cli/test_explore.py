"""The command that opens the explorer, and the page in the package."""

import webbrowser
from pathlib import Path

import pyarrow
import pytest
from typer.testing import CliRunner

from countermax import Design, InputError, Trial, Worlds
from countermax.cli import app
from countermax.explorer import page_path, write_page


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_the_page_is_in_the_package_and_needs_nothing_else():
    text = page_path().read_text()
    assert text.startswith("<!doctype html>")
    assert len(text.encode()) < 200_000
    assert "src=" not in text.replace("img-src", "").replace("script-src", "").replace("style-src", "")


def test_it_opens_the_installed_page(monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    result = run("explore")
    assert result.exit_code == 0
    assert opened == [page_path().as_uri()]


def test_it_says_where_the_page_lies_and_opens_nothing(monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda _: pytest.fail("opened"))
    result = run("explore", "--print-path")
    assert Path(result.output.replace("\n", "")) == page_path()


def test_an_answer_opens_in_it_and_the_command_writes_it(monkeypatch, tmp_path):
    opened, out = [], tmp_path / "mine.html"
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    answer = Trial.from_counts([30, 40, 30], [10, 30, 60], labels=["dead", "ill", "well"]).compare("dead")
    page = answer.explore()
    assert opened == [page.as_uri()]
    counts = ("--control", "30,40,30", "--treated", "10,30,60", "--labels", "dead,ill,well")
    result = run("compare", *counts, "--seen", "dead", "--explore", out)
    assert "written" in result.output
    assert out.read_text() == page.read_text()
    assert "o=dead&amp;o=ill&amp;o=well&amp;w=control&amp;w=treated&amp;p=30+40+30" in out.read_text()
    assert len(opened) == 1


def test_what_the_explorer_cannot_show_is_refused(tmp_path):
    many = Worlds([0.1] * 10, [0.1] * 10).compare(0)
    weighted = pyarrow.table({"y": [0, 1] * 20, "a": [0] * 20 + [1] * 20, "w": [1, 2, 3, 4] * 10})
    weighted = Trial(weighted, outcome="y", arm="a", design=Design(weights="w")).compare(0)
    two = Worlds([0.5, 0.5], [0.5, 0.5], score=[0, 1], counterfactual_score=[0, 2]).compare(0)
    sure = Trial.from_counts([30, 40], [10, 30]).compare(0, level=0.999)
    for answer, told in ((many, "2 to 8"), (weighted, "no weights"), (two, "one score"), (sure, "0.5 to 0.99")):
        with pytest.raises(InputError, match=told):
            answer.explore(tmp_path / "page.html")


def test_it_copies_the_page(monkeypatch, tmp_path):
    monkeypatch.setattr(webbrowser, "open", lambda _: pytest.fail("opened"))
    out = tmp_path / "explorer.html"
    assert run("explore", "--out", out).exit_code == 0
    assert out.read_bytes() == page_path().read_bytes()
    out.write_bytes(b"mine")
    assert "is there already" in run("explore", "--out", out).stderr
    assert out.read_bytes() == b"mine"
    assert run("explore", "--out", out, "--overwrite").exit_code == 0
    assert out.read_bytes() == page_path().read_bytes()


def test_where_no_browser_opens_it_says_what_to_do(monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    result = run("explore")
    assert result.exit_code == 2
    assert "--out explorer.html" in result.output


def test_faults_are_told_in_one_line(tmp_path):
    for arguments, words in (
        (("--out", tmp_path / "page.txt"), "ends in .html"),
        (("--out", tmp_path / "none" / "page.html"), "there is no folder"),
        (("--out", tmp_path / "page.html", "--print-path"), "must not both be given"),
    ):
        result = run("explore", *arguments)
        assert result.exit_code == 2
        assert words in result.output
        assert len(result.output.strip().splitlines()) == 1


def test_a_copy_is_written_from_python_too(tmp_path):
    assert write_page(tmp_path / "page.html").read_bytes() == page_path().read_bytes()
