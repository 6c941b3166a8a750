"""What may be written over."""

import os
import subprocess
import sys

import pytest

from countermax import InputError
from countermax._core.files import check_outputs


def output(path, option="--out"):
    return option, path


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


def test_what_is_not_read_is_replaced_and_what_cannot_be_written_is_named_before_any_work(tmp_path):
    (tmp_path / "notes.png").write_text("notes")
    check_outputs([("--plot", tmp_path / "notes.png")], [tmp_path / "log.csv"])
    with pytest.raises(InputError, match="there is no folder"):
        check_outputs([("--plot", tmp_path / "missing" / "a.png")])


def test_the_check_loads_nothing_heavy():
    code = "import sys, countermax._core.files\nassert not {'jax', 'numpy', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
