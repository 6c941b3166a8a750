"""What may be written over."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from countermax import InputError
from countermax._core.archive import pack
from countermax._core.outputs import PAGE, Output, check_outputs, kind_of, outputs_in
from countermax._core.page import write_page
from countermax._core.sheet import Sheet


def output(path, option="--out"):
    return Output(option, Path(path), kind_of(path))


def test_what_is_read_is_recognised_however_it_is_spelled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "log.csv"
    source.write_text("a,b\n")
    (tmp_path / "soft.csv").symlink_to("log.csv")
    os.link(source, tmp_path / "hard.csv")
    (tmp_path / "folder").symlink_to(".")
    for spelling in ("log.csv", "./log.csv", source, "soft.csv", "hard.csv", "folder/log.csv"):
        for read, written in ((source, spelling), (spelling, source)):
            with pytest.raises(InputError, match=r"--out must not be .*, which is read: .* --overwrite"):
                check_outputs([output(written)], [read, "gumbel-max"])
            check_outputs([output(written)], [read], overwrite=True)
    check_outputs([output("new.csv")], [source])


def test_two_outputs_are_two_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.png").symlink_to("a.png")
    for one, other in (("a.png", "./a.png"), ("a.png", tmp_path / "a.png"), ("link.png", "a.png")):
        with pytest.raises(InputError, match="--plot and --plot-couplings must be two files"):
            check_outputs([output(one, "--plot"), output(other, "--plot-couplings")], overwrite=True)
    check_outputs([output("a.png", "--plot"), output("b.png", "--plot-couplings")])


PICTURE = b"\x89PNG\r\n\x1a\n"
OURS = {
    "a.png": PICTURE,
    "a.pdf": b"%PDF-1.4",
    "a.svg": b'<?xml version="1.0"?>\n<svg>',
    "a.csv": b"a,b\n1,2\n",
    "long.csv": ",".join(f'"p_{number},\n"' for number in range(2000)).encode(),
    "a.parquet": b"PAR1",
    "a.jsonl": b'{"a": 1}\n',
    "a.npz": pack("coupling", {}, [np.zeros(3)]),
    "run.json": b'{"version": "1", "config": {}, "fits": {}}',
    "comparison.json": b'{"labels": [], "answers": []}',
    "a.md": Sheet("c", ("x",), ("",), [["y"]]).markdown().encode(),
    "a.tex": Sheet("c", ("x",), ("",), [["y"]]).latex().encode(),
}
FOREIGN = {
    "a.html": b"<!doctype html><p>my page",
    "a.png": b"notes",
    "a.pdf": PICTURE,
    "a.svg": b"notes",
    "a.csv": b"PK\x03\x04 a spreadsheet under another name",
    "b.csv": b"a\0b",
    "c.csv": b"Dear diary\n\ntoday",
    "d.csv": b"x,x,y\n1,2,3\n",
    "a.parquet": b"a,b\n",
    "a.jsonl": b"a,b\n",
    "a.npz": b"PK\x03\x04 somebody's arrays",
    "run.json": b'{"scripts": {}}',
    "nested.json": b"[" * 100_000,
    "a.md": b"# My notes",
    "a.tex": b"\\documentclass{article}",
    "a.xyz": b"anything",
}


@pytest.mark.parametrize("name", OURS)
def test_files_of_our_kinds_are_replaced(name, tmp_path):
    (tmp_path / name).write_bytes(OURS[name])
    check_outputs([output(tmp_path / name)])


@pytest.mark.parametrize("name", FOREIGN)
def test_files_of_other_kinds_are_not(name, tmp_path):
    (tmp_path / name).write_bytes(FOREIGN[name])
    with pytest.raises(
        InputError, match=r"--out would replace .*, which is not .*; choose another name, or pass --over"
    ):
        check_outputs([output(tmp_path / name)])
    check_outputs([output(tmp_path / name)], overwrite=True)
    (tmp_path / name).write_bytes(b"")  # nothing is lost with an empty file
    check_outputs([output(tmp_path / name)])


def test_pages_are_known_by_what_they_say_and_not_by_their_name(tmp_path):
    page = write_page(tmp_path / "story", "<meta>", [])
    check_outputs([Output("--out", page, PAGE)])
    page.write_text("state,action\n")
    with pytest.raises(InputError, match="which is not a page that countermax wrote"):
        check_outputs([Output("--out", page, PAGE)])


def test_of_a_folder_only_the_names_that_are_written_count(tmp_path):
    for name in ("run.json", "package.json", "coupling-7.npz"):
        (tmp_path / name).write_text("mine")
    names = ("coupling-*.npz", "run.json", "curves.png")
    assert [each.path.name for each in outputs_in(tmp_path, names)] == ["coupling-7.npz", "run.json"]
    assert outputs_in(tmp_path / "new", names) == []


def test_the_check_loads_nothing_heavy():
    code = "import sys, countermax._core.outputs\nassert not {'jax', 'numpy', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
