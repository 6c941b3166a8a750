"""Folders of Parquet files: answered by tasks, named where they are bad, whole or recognisably not."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest
from asking import counterfactuals, counterfactuals_file, transitions
from lake import ASK, COUNT, patients, plain
from typer.testing import CliRunner

from countermax import InputError, Rows, Utilities
from countermax.cli import app
from countermax.tables import _parquet

OPTIONS = ["--outcome", "status", "--factual", "p_", "--counterfactual", "q_", "--engine", "ray"]


@pytest.fixture(scope="module")
def table():
    return patients()


@pytest.fixture(scope="module")
def lake(table, tmp_path_factory):
    """Two files, the second with many row groups."""
    folder = tmp_path_factory.mktemp("lake")
    store(table.slice(0, 3000), folder / "a.parquet", 3000)
    store(table.slice(3000), folder / "b.parquet", 1000)
    return folder


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(_parquet, "PART_BYTES", 1)


def store(table, path, row_group_size=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(table, path, row_group_size=row_group_size)


def rows_in(folder):
    return plain(pa.dataset.dataset(folder, format="parquet").to_table())


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_the_folder_holds_the_local_answer_to_the_last_bit(ray, table, lake, tmp_path, small_parts):
    done = run("counterfactuals", lake, *OPTIONS, "-o", tmp_path / "out", "--unchanged", "same", "--score", "0,1,2")
    assert done.exit_code == 0, done.output
    assert f"{COUNT:,} rows" in done.output
    assert rows_in(tmp_path / "out").equals(plain(counterfactuals(table, **ASK, unchanged="same", score=[0, 1, 2])))
    manifest = json.loads((tmp_path / "out/_SUCCESS").read_text())
    assert (manifest["coupling"], manifest["num_rows"]) == ("Gumbel-max", COUNT)
    assert manifest["num_unchanged"] == int(np.sum(table["same"].to_numpy()))
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["_SUCCESS", *(part["name"] for part in manifest["parts"])]
    assert [name[:14] for name in names[1:]] == [f"part-{number:08d}-" for number in range(8)]


def test_transitions_of_a_folder_are_those_of_its_rows(ray, table, lake, small_parts):
    done = run("transitions", f"{lake}/*.parquet", *OPTIONS, "--num-resamples", "50", "--json")
    assert done.exit_code == 0, done.output
    local = transitions(table, **ASK, num_resamples=50)
    found = transitions(lake, **ASK, num_resamples=50, engine="ray")
    np.testing.assert_allclose(found.counts, local.counts, rtol=1e-12)
    np.testing.assert_allclose(found.counts_interval.lower, local.counts_interval.lower, rtol=1e-12)
    assert json.loads(done.output) == found.to_dict()


def test_switching_of_a_folder_is_that_of_its_rows(ray, table, lake, small_parts):
    asked = {"factual": "p_", "counterfactual": "q_", "utilities": Utilities("nested-gumbel-max-0.3[dead|ill]")}
    found, local = Rows(str(lake), **asked, engine="ray").switching(), Rows(table, **asked).switching()
    for name in ("counts", "surplus", "logsums"):
        np.testing.assert_allclose(getattr(found, name), getattr(local, name), rtol=1e-10, atol=1e-10)
    assert found.num_rows == local.num_rows == COUNT


def test_partitioned_folders_come_and_go(ray, table, tmp_path):
    for year in (2020, 2021, 2022):
        chosen = table.filter(pa.compute.equal(table["year"], year)).drop_columns(["year"])
        store(chosen, tmp_path / f"lake/year={year}/rows.parquet")
    done = run("counterfactuals", tmp_path / "lake", *OPTIONS, "-o", tmp_path / "out", "--partition-by", "status,year")
    assert done.exit_code == 0, done.output
    assert list((tmp_path / "out/status=dead/year=2021").glob("part-00000000-*.parquet"))
    found = pa.dataset.dataset(tmp_path / "out", partitioning="hive").to_table().sort_by("id")
    local = counterfactuals(table, **ASK)
    assert found["year"].to_pylist() == local["year"].to_pylist()
    for name in found.column_names:
        assert found[name].to_pylist() == local[name].to_pylist()


def test_workers_that_are_killed_change_nothing(ray, table, lake, tmp_path, small_parts):
    import psutil  # which Ray brings with it

    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while not over.is_set() and len(killed) < 3:
            for process in psutil.Process().children(recursive=True):
                try:
                    busy = process.name().startswith("ray::_answer_pa") or "_answer_part" in " ".join(process.cmdline())
                    if busy and process.pid not in killed and len(killed) < 3:
                        process.send_signal(signal.SIGKILL)
                        killed.append(process.pid)
                except psutil.Error:
                    continue
            time.sleep(0.02)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        counterfactuals_file(lake, tmp_path / "out", **ASK, bounds="none", engine="ray")
    finally:
        over.set()
        thread.join()
    assert len(killed) == 3
    assert rows_in(tmp_path / "out").equals(plain(counterfactuals(table, **ASK, bounds="none")))


def test_a_killed_driver_leaves_nothing_that_looks_whole_and_the_next_run_does_the_rest(
    ray, table, lake, tmp_path, small_parts
):
    out = tmp_path / "out"
    code = (
        "from countermax import Rows; from countermax.tables import _parquet; _parquet.PART_BYTES = 1; "
        f"Rows({str(lake)!r}, **{ASK!r}, engine='ray').write({str(out)!r})"
    )
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    driver = subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL)
    records = out / "_parts"
    while driver.poll() is None and not (records.exists() and list(records.iterdir())):
        time.sleep(0.01)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    _wait_until_quiet(out)
    assert not (out / "_SUCCESS").exists()
    with pytest.raises(InputError, match="is not whole"):
        transitions(out, **ASK, engine="ray")
    done = [json.loads(path.read_text())["parts"][0]["name"] for path in records.iterdir()]
    before = {name: (out / name).stat().st_mtime_ns for name in done}
    assert 0 < len(before) < 8
    counterfactuals_file(lake, out, **ASK, engine="ray")
    assert (out / "_SUCCESS").exists()
    assert {name: (out / name).stat().st_mtime_ns for name in done} == before
    assert rows_in(out).equals(plain(counterfactuals(table, **ASK)))
    assert not list(out.glob("**/.countermax*"))


def _wait_until_quiet(folder: Path) -> None:
    """The workers of a driver that was killed finish what they have in hand, or are killed by Ray."""
    seen = None
    while seen != (seen := sorted(path.stat().st_mtime_ns for path in folder.rglob("*") if path.exists())):
        time.sleep(2)


def test_a_finished_folder_is_kept_and_another_question_is_refused(ray, table, lake, tmp_path):
    out, source = tmp_path / "out", tmp_path / "a.parquet"
    shutil.copy(lake / "a.parquet", source)
    first = counterfactuals_file(source, out, **ASK, engine="ray")
    part = next(out.glob("part-00000000-*.parquet"))
    before = part.stat().st_mtime_ns
    assert counterfactuals_file(source, out, **ASK, engine="ray") == first._replace(is_new=False)
    assert part.stat().st_mtime_ns == before
    with pytest.raises(InputError, match="the answer to another question, or to one about other rows"):
        counterfactuals_file(source, out, **ASK, coupling="maximal", engine="ray")
    again = counterfactuals_file(source, out, **ASK, coupling="maximal", engine="ray", overwrite=True)
    assert (again.coupling, first.coupling) == ("maximal", "Gumbel-max")
    assert rows_in(out).equals(plain(counterfactuals(table.slice(0, 3000), **ASK, coupling="maximal")))
    store(table.slice(0, 10), source)  # other rows
    with pytest.raises(InputError, match="about other rows"):
        counterfactuals_file(source, out, **ASK, coupling="maximal", engine="ray")
    (out / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds 'notes\.txt', which countermax did not write"):
        counterfactuals_file(source, out, **ASK, engine="ray", overwrite=True)


def test_folders_that_are_not_ours_or_are_read_are_refused(ray, lake, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("x")
    (tmp_path / "file").write_text("x")
    for target, words in (
        (tmp_path / "mine", "must be empty, or a folder that countermax has begun"),
        (tmp_path / "file", "must be a folder"),
        (lake, "must not hold what is read"),
        (lake / "out", "must not lie in"),
    ):
        with pytest.raises(InputError, match=words):
            counterfactuals_file(lake, target, **ASK, engine="ray", overwrite=True)
    assert (tmp_path / "mine/thesis.tex").read_text() == "x"


def test_the_file_and_the_row_group_of_the_first_bad_row_are_named(ray, table, tmp_path):
    broken = table.slice(0, 900).set_column(2, "p_dead", pa.array([-1.0 if row == 650 else 0.2 for row in range(900)]))
    store(broken.slice(0, 500), tmp_path / "lake/a.parquet")
    store(broken.slice(500), tmp_path / "lake/b.parquet", 100)
    place = rf"row 150 \(counted from 0\) of {tmp_path}/lake/b\.parquet, row group 1 cannot be answered: the `factual`"
    with pytest.raises(InputError, match=place):
        counterfactuals_file(tmp_path / "lake", tmp_path / "out", **ASK, normalise=True, engine="ray")
    assert not list((tmp_path / "out").rglob("*1.parquet"))
    assert not (tmp_path / "out/_SUCCESS").exists()
    with pytest.raises(InputError, match=place):
        transitions(tmp_path / "lake", **ASK, normalise=True, engine="ray")
    options = ASK | {"normalise": True, "errors": "missing"}
    counterfactuals_file(tmp_path / "lake", tmp_path / "other", **options, engine="ray")
    assert rows_in(tmp_path / "other").equals(plain(counterfactuals(broken, **options)))


def test_files_that_differ_or_are_damaged_or_are_not_there_are_named(ray, table, tmp_path):
    ask = ASK | {"engine": "ray"}
    store(table.slice(0, 5), tmp_path / "lake/a.parquet")
    store(table.slice(5, 5).drop_columns(["same"]), tmp_path / "lake/b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet differs from .*a\.parquet: there is no column 'same'"):
        transitions(tmp_path / "lake", **ask)
    texts = table.slice(5, 5).set_column(2, "p_dead", pa.array(["0.2"] * 5))
    store(texts, tmp_path / "lake/b.parquet")
    with pytest.raises(InputError, match="column 'p_dead' holds string in place of double"):
        counterfactuals_file(tmp_path / "lake", tmp_path / "out", **ask)
    (tmp_path / "lake/b.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(InputError, match=r"cannot read .*b\.parquet"):
        transitions(tmp_path / "lake", **ask)
    with pytest.raises(InputError, match="no file matches"):
        transitions(tmp_path / "lake/*.pq", **ask)
    with pytest.raises(InputError, match="there is no Parquet file at"):
        transitions(tmp_path / "nowhere", **ask)
    with pytest.raises(InputError, match="must name a column, got 'stauts'"):
        transitions(tmp_path / "lake/a.parquet", **(ask | {"outcome": "stauts"}))
    with pytest.raises(InputError, match="`partition_by` must name columns, got 'ward'"):
        counterfactuals_file(tmp_path / "lake/a.parquet", tmp_path / "out", **ask, partition_by=["ward"])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--engine", "spark"], '--engine must be "local" or "ray", got \'spark\''),
        (["--address", "localhost:1"], "--address needs --engine ray"),
        (["--partition-by", "year"], "only Parquet files are answered into a folder, and divided by --partition-by"),
    ],
)
def test_options_that_need_an_engine_say_so(lake, tmp_path, more, words):
    done = run("counterfactuals", lake / "a.parquet", *OPTIONS[:6], "-o", tmp_path / "out.parquet", *more)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())


def test_without_ray_the_error_says_how_to_get_it(lake, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    done = run("counterfactuals", lake, *OPTIONS, "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert "pip install 'countermax[ray]'" in " ".join(done.stderr.split())
