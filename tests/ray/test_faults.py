"""What goes wrong while a folder is written: full disks, two jobs at once, machines that die or join."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from lake import ASK, patients, plain

from countermax import InputError, Rows
from countermax.tables import _parquet


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lake")
    pa.parquet.write_table(patients(), folder / "rows.parquet", row_group_size=500)
    return folder


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(_parquet, "PART_BYTES", 1)


def rows_in(folder):
    return plain(pa.dataset.dataset(folder, format="parquet").to_table())


def expected(coupling="gumbel-max"):
    return plain(Rows(patients(), **ASK).counterfactuals(coupling))


@pytest.fixture
def disk(tmp_path):
    """A disk with room for a third of the answer."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("only root can make a small disk")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_full_disk_is_one_line_and_with_more_room_the_same_call_does_the_rest(engine, ray, lake, disk):
    rows = Rows(str(lake), **ASK, engine=engine)
    with pytest.raises(InputError, match="cannot write .*no space left on device; make room"):
        rows.write(disk / "out")
    kept = {path.name: path.stat().st_mtime_ns for path in (disk / "out").glob("part-*")}
    assert kept
    assert not (disk / "out/_SUCCESS").exists()
    with pytest.raises(InputError, match="is not whole"):
        Rows(str(disk / "out"), **ASK)
    subprocess.run(["mount", "-o", "remount,size=16m", disk], check=True)
    rows.write(disk / "out")
    assert rows_in(disk / "out").equals(expected())
    again = {path.name: path.stat().st_mtime_ns for path in (disk / "out").glob("part-*")}
    assert kept.items() & again.items()


def test_of_two_jobs_that_write_one_folder_at_once_the_later_one_has_it(ray, lake, tmp_path):
    out, found = tmp_path / "out", []

    def first() -> None:
        try:
            Rows(str(lake), **ASK, engine="ray").write(out, "independent")
        except InputError as error:
            found.append(str(error))

    job = threading.Thread(target=first)
    job.start()
    while not (out / "_UNFINISHED").exists():
        time.sleep(0.001)
    Rows(str(lake), **ASK, engine="ray").write(out, "maximal", overwrite=True)
    job.join()
    assert "another run has taken" in found[0]
    assert json.loads((out / "_SUCCESS").read_text())["coupling"] == "maximal"
    assert rows_in(out).equals(expected("maximal"))


CLUSTER = """
import json, sys, threading, time
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from countermax import Rows
from countermax._ray import in_parts
from countermax.tables import _parquet

lake, out, ask = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
_parquet.PART_BYTES = 1
node = {"node_ip_address": "127.0.0.1", "object_store_memory": 2**27}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **node})
ray.init(address=cluster.address, log_to_driver=False)  # before others are there: it belongs to the head
nodes = [cluster.add_node(num_cpus=1, **node) for _ in range(2)]
cluster.wait_for_nodes()

thread = threading.Thread(target=lambda: Rows(lake, **ask, engine="ray").write(out))
thread.start()
while not list(out.glob("part-*")):
    time.sleep(0.001)
cluster.remove_node(nodes[0], allow_graceful=False)
print("killed before the end", not (out / "_SUCCESS").exists(), flush=True)
thread.join()

def where(shared, part):
    time.sleep(0.2)
    return ray.get_runtime_context().get_node_id()

later = []
def tasks():
    for part in range(30):
        if part == 3:
            later.append(cluster.add_node(num_cpus=1, **node))
        yield (part,)
used = set(in_parts(where, None, tasks()))
print("joined", later[0].node_id in used, flush=True)
ray.shutdown()
cluster.shutdown()
"""


def test_a_machine_that_dies_changes_nothing_and_one_that_joins_is_used(lake, tmp_path):
    """A cluster of several nodes on this machine."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # on the loopback interface only
    arguments = [sys.executable, "-c", CLUSTER, str(lake), str(tmp_path / "out"), json.dumps(ASK)]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=120)
    assert {"killed before the end True", "joined True"} <= set(done.stdout.splitlines()), done.stderr
    assert rows_in(tmp_path / "out").equals(expected())


def test_many_small_files_are_few_tasks(ray, tmp_path):
    folder, table = tmp_path / "lake", patients()
    folder.mkdir()
    for number in range(300):
        pa.parquet.write_table(table.slice(number * 20, 20), folder / f"{number:03d}.parquet")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_parquet, "PART_BYTES", 2**25)
        Rows(str(folder), **ASK, engine="ray").write(tmp_path / "out")
    assert len(list((tmp_path / "out").glob("part-*"))) == 1
    assert rows_in(tmp_path / "out").equals(expected().slice(0, 6000).combine_chunks())
    shutil.rmtree(folder)


def test_workers_that_do_not_see_the_folder_are_noticed(ray, lake, tmp_path, monkeypatch):
    """As on machines that do not share a disk: what they write is not there for the one that asks."""
    from countermax.tables import _folders

    written = _folders.FolderSource._all_records

    def lost(source, job, output):
        records = written(source, job, output)
        Path(job.folder.path, records[2]["parts"][0]["name"]).unlink()
        return records

    monkeypatch.setattr(_folders.FolderSource, "_all_records", lost)
    with pytest.raises(InputError, match="all machines that write must see the same folder"):
        Rows(str(lake), **ASK, engine="ray").write(tmp_path / "out")
    assert not (tmp_path / "out/_SUCCESS").exists()
