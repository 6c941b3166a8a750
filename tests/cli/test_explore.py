"""The command that opens the explorer, and the page in the package."""

import webbrowser
from pathlib import Path

import pytest
from typer.testing import CliRunner

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


def test_it_copies_the_page(monkeypatch, tmp_path):
    monkeypatch.setattr(webbrowser, "open", lambda _: pytest.fail("opened"))
    out = tmp_path / "explorer.html"
    for _ in range(2):
        assert run("explore", "--out", out).exit_code == 0
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
