"""Folders in an object store: a real S3 server on loopback, with the same laws as local folders."""

import json
import os
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest
from lake import ASK, COUNT, cut, patients, plain

from countermax import InputError, Rows
from countermax.tables import _folders, _parquet

pytest.importorskip("moto")


@pytest.fixture(scope="module")
def store():
    """A file system, and what to put behind an address."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    options = f"endpoint_override={host}:{port}&scheme=http&region=us-east-1&access_key=a&secret_key=b"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ACCESS_KEY_ID", "a")
        patched.setenv("AWS_SECRET_ACCESS_KEY", "b")
        options = f"endpoint_override={host}:{port}&scheme=http&region=us-east-1&allow_bucket_creation=true"
        filesystem, _ = pa.fs.FileSystem.from_uri(f"s3://bucket/x?{options}")
        filesystem.create_dir("bucket")
        for number, piece in enumerate(cut(patients(), 3000)):
            for place in (f"lake/{number}", f"years/year=202{number}/rows"):
                pa.parquet.write_table(piece.drop_columns(["year"]), f"bucket/{place}.parquet", filesystem=filesystem)
        yield filesystem, options
    server.stop()


def rows_in(filesystem, folder):
    return plain(pa.dataset.dataset(folder, filesystem=filesystem, format="parquet").to_table())


def expected():
    return plain(Rows(patients().drop_columns(["year"]), **ASK).counterfactuals())


def test_a_folder_in_a_store_is_one_table_and_is_written_as_one(store, monkeypatch):
    filesystem, options = store
    monkeypatch.setattr(_parquet, "PART_BYTES", 1)
    found = Rows(f"s3://bucket/lake/*.parquet?{options}", **ASK).write(f"s3://bucket/out?{options}")
    assert found.num_rows == COUNT
    assert rows_in(filesystem, "bucket/out").equals(expected())
    with filesystem.open_input_stream("bucket/out/_SUCCESS") as stream:
        manifest = json.loads(stream.read())
    assert [part["num_rows"] for part in manifest["parts"]] == [3000, 7000]
    assert Rows(f"s3://bucket/out?{options}", **ASK).transitions(num_resamples=0).num_rows == COUNT
    filesystem.delete_file(f"bucket/out/{manifest['parts'][0]['name']}")
    with pytest.raises(InputError, match="is not whole"):
        Rows(f"s3://bucket/out?{options}", **ASK)


def test_partitions_of_a_store_come_and_go(store):
    filesystem, options = store
    rows = Rows(f"s3://bucket/years?{options}", **ASK)
    rows.write(f"s3://bucket/divided?{options}", partition_by=["status", "year"])
    found = pa.dataset.dataset("bucket/divided", filesystem=filesystem, partitioning="hive").to_table().sort_by("id")
    assert found["counterfactual_dead"].to_pylist() == expected().sort_by("id")["counterfactual_dead"].to_pylist()


def test_a_run_that_was_stopped_is_finished(store, monkeypatch):
    filesystem, options = store
    monkeypatch.setattr(_parquet, "PART_BYTES", 1)
    whole, target = _folders._answer_part, f"s3://bucket/stopped?{options}"

    def stopped(job, part):
        if part.number == 1:
            raise KeyboardInterrupt
        return whole(job, part)

    with monkeypatch.context() as patched:
        patched.setattr(_folders, "_answer_part", stopped)
        with pytest.raises(KeyboardInterrupt):
            Rows(f"s3://bucket/lake?{options}", **ASK).write(target)
    with pytest.raises(InputError, match="is not whole"):
        Rows(f"s3://bucket/stopped/*.parquet?{options}", **ASK)
    Rows(f"s3://bucket/lake?{options}", **ASK).write(target)
    assert rows_in(filesystem, "bucket/stopped").equals(expected())


def test_what_fails_on_its_way_leaves_no_part(store, monkeypatch):
    filesystem, options = store

    def refuse(writers, table):
        raise OSError("no more")

    with monkeypatch.context() as patched:
        patched.setattr(_folders._Writers, "write", refuse)
        with pytest.raises(OSError, match="no more"):
            Rows(f"s3://bucket/lake?{options}", **ASK).write(f"s3://bucket/failed?{options}")
    found = filesystem.get_file_info(pa.fs.FileSelector("bucket/failed", recursive=True))
    assert [each.base_name for each in found if each.type == pa.fs.FileType.File] == ["_UNFINISHED"]


def _records(filesystem, folder):
    selector = pa.fs.FileSelector(f"{folder}/_parts", allow_not_found=True)
    return [each.base_name for each in filesystem.get_file_info(selector)]


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_driver_that_is_killed_leaves_a_folder_that_the_next_run_finishes(store, engine, monkeypatch):
    if engine == "ray":
        pytest.importorskip("ray")
    filesystem, options = store
    for number, piece in enumerate(cut(patients(), *range(1000, COUNT, 1000))):
        path = f"bucket/tens/{number}.parquet"
        pa.parquet.write_table(piece.drop_columns(["year"]), path, filesystem=filesystem)
    source, target = f"s3://bucket/tens?{options}", f"s3://bucket/killed_{engine}?{options}"
    code = (
        "from countermax import Rows; from countermax.tables import _parquet; _parquet.PART_BYTES = 1; "
        f"Rows({source!r}, **{ASK!r}, engine={engine!r}).write({target!r})"
    )
    driver = subprocess.Popen([sys.executable, "-c", code], env=os.environ, stderr=subprocess.DEVNULL)
    while driver.poll() is None and not _records(filesystem, f"bucket/killed_{engine}"):
        time.sleep(0.01)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    with pytest.raises(InputError, match="is not whole"):
        Rows(target, **ASK)
    monkeypatch.setattr(_parquet, "PART_BYTES", 1)
    Rows(source, **ASK).write(target)
    assert rows_in(filesystem, f"bucket/killed_{engine}").equals(expected())
    found = filesystem.get_file_info(pa.fs.FileSelector(f"bucket/killed_{engine}", recursive=True))
    assert sum(each.type == pa.fs.FileType.File for each in found) == 11
