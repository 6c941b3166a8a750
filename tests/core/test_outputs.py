"""What may be written over."""

import os
import subprocess
import sys
from functools import partial

import pytest

from countermax import GumbelMax, InputError, Worlds, explorer, save
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
            with pytest.raises(InputError, match=r"--out must not be .*, which is read: .* overwrite=True"):
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


def test_everything_that_writes_for_a_user_replaces_a_file_only_if_told_to(tmp_path):
    answer = Worlds([0.5, 0.5], [0.2, 0.8], score=[0, 1]).compare(0, sharing=True)
    writers = {
        "a.csv": answer.to_csv,
        "a.tex": answer.to_latex,
        "a.html": answer.write_page,
        "b.html": answer.explore,
        "c.html": explorer.write_page,
        "a.png": answer.plot,
        "a.safetensors": partial(save, GumbelMax()),
    }
    for name, write in writers.items():
        path = tmp_path / name
        write(path)
        new = path.read_bytes()
        path.write_bytes(b"mine")
        with pytest.raises(InputError, match=f"{name} is there already; choose another name, or pass overwrite=True"):
            write(path)
        assert path.read_bytes() == b"mine"
        write(path, overwrite=True)
        assert path.read_bytes() == new
    (tmp_path / "a.png").unlink()
    with pytest.raises(InputError, match="a-sharing.png is there already"):  # the picture of a dial, beside it
        answer.plot(tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()
