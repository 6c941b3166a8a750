"""Folders of Parquet files without Ray: one table, answered part by part, whole or recognisably not."""

import json
import shutil
import sys

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from asking import counterfactuals, counterfactuals_file, effects, pairs, transitions
from lake import ASK, COUNT, LABELS, patients, plain

from countermax import InputError, Rows
from countermax.tables import _folders, _parquet, _sources


@pytest.fixture(scope="module")
def table():
    return patients()


@pytest.fixture
def lake(table, tmp_path, monkeypatch):
    """Two files, the second with many row groups; each of them is a part."""
    monkeypatch.setattr(_parquet, "PART_BYTES", 1)
    (tmp_path / "lake").mkdir()
    pa.parquet.write_table(table.slice(0, 3000), tmp_path / "lake/a.parquet")
    pa.parquet.write_table(table.slice(3000), tmp_path / "lake/b.parquet", row_group_size=1000)
    return tmp_path / "lake"


def rows_in(folder):
    return plain(pa.dataset.dataset(folder, format="parquet").to_table())


def test_a_folder_is_one_table_to_the_last_bit(table, lake, tmp_path):
    asked = ASK | {"unchanged": "same", "score": [0, 1, 2]}
    expected = plain(counterfactuals(table, **asked))
    assert plain(counterfactuals(lake, **asked)).equals(expected)
    found = counterfactuals_file(lake, tmp_path / "out", **asked)
    assert rows_in(tmp_path / "out").equals(expected)
    assert found.num_rows == COUNT
    assert found.num_unchanged == int(np.sum(table["same"].to_numpy()))
    assert json.loads((tmp_path / "out/_SUCCESS").read_text())["coupling"] == found.coupling == "Gumbel-max"
    counterfactuals_file(f"{lake}/*.parquet", tmp_path / "out.parquet", **asked)
    assert plain(pa.parquet.read_table(tmp_path / "out.parquet")).equals(expected)


def test_sums_over_a_folder_are_those_of_its_rows(table, lake):
    here, there = (transitions(each, **ASK, num_resamples=50) for each in (lake, table))
    np.testing.assert_allclose(here.counts, there.counts, rtol=1e-12)
    np.testing.assert_allclose(here.counts_interval.lower, there.counts_interval.lower, rtol=1e-12)
    here, there = (effects(each, **ASK, score=[0, 1, 3]) for each in (lake, table))
    np.testing.assert_allclose(here.mean, there.mean, rtol=1e-12)
    np.testing.assert_allclose([*here.variances.values()], [*there.variances.values()], rtol=1e-12)
    assert plain(here.individual).equals(plain(there.individual))
    here, there = (pairs(each, **ASK, most=100) for each in (lake, table))
    np.testing.assert_array_equal(here.p, there.p)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_files_are_asked_whatever_frames_are_asked(table, tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(_sources, "CHUNK_ROWS", 4096)
    from countermax._tables.writing import write_table

    few = table.slice(0, 9000)
    write_table(few, tmp_path / f"in{suffix}")
    asked = ASK | {"score": dict(zip(LABELS, (0, 1, 3), strict=True))}
    here, there = (effects(each, **asked) for each in (tmp_path / f"in{suffix}", few))
    np.testing.assert_allclose(here.mean, there.mean, rtol=1e-12)
    np.testing.assert_allclose([*here.variances.values()], [*there.variances.values()], rtol=1e-12)
    assert here.num_rows == len(few)
    here, there = (pairs(each, **ASK, most=50) for each in (tmp_path / f"in{suffix}", few))
    np.testing.assert_allclose(here.p, there.p, rtol=1e-6)
    found = counterfactuals(tmp_path / f"in{suffix}", **ASK)
    assert found["counterfactual_dead"].to_pylist() == counterfactuals(few, **ASK)["counterfactual_dead"].to_pylist()


def test_partitions_come_and_go(table, tmp_path):
    for year in (2020, 2021, 2022):
        chosen = table.filter(pa.compute.equal(table["year"], year)).drop_columns(["year"])
        (tmp_path / f"lake/year={year}").mkdir(parents=True)
        pa.parquet.write_table(chosen, tmp_path / f"lake/year={year}/rows.parquet")
    counterfactuals_file(tmp_path / "lake", tmp_path / "out", **ASK, partition_by=["status", "year"])
    found = pa.dataset.dataset(tmp_path / "out", partitioning="hive").to_table().sort_by("id")
    local = counterfactuals(table, **ASK)
    for name in found.column_names:
        assert found[name].to_pylist() == local[name].to_pylist()


def test_a_folder_that_was_begun_is_finished_and_another_question_is_refused(table, lake, tmp_path, monkeypatch):
    out = tmp_path / "out"
    whole = _folders._answer_part

    def stopped(job, part):
        if part.number == 3:
            raise KeyboardInterrupt
        return whole(job, part)

    monkeypatch.setattr(_folders, "_answer_part", stopped)
    with pytest.raises(KeyboardInterrupt):
        counterfactuals_file(lake, out, **ASK)
    assert not (out / "_SUCCESS").exists()
    with pytest.raises(InputError, match="is not whole"):
        transitions(out, **ASK)
    monkeypatch.setattr(_folders, "_answer_part", whole)
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert 3 <= len(before) < 8
    first = counterfactuals_file(lake, out, **ASK)
    assert {name: (out / name).stat().st_mtime_ns for name in before} == before
    assert rows_in(out).equals(plain(counterfactuals(table, **ASK)))
    assert first.is_new
    assert counterfactuals_file(lake, out, **ASK) == first._replace(is_new=False)
    with pytest.raises(InputError, match="the answer to another question, or to one about other rows"):
        counterfactuals_file(lake, out, **ASK, coupling="maximal")
    assert counterfactuals_file(lake, out, **ASK, coupling="maximal", overwrite=True).coupling == "maximal"


def test_what_cannot_be_written_is_refused(table, lake, tmp_path):
    rows = Rows(table, **ASK)
    for target, more, words in (
        (tmp_path / "out", {}, "only Parquet files are answered into a folder"),
        (tmp_path / "out.csv", {"partition_by": ["year"]}, "divided by `partition_by`: save the table as Parquet"),
    ):
        with pytest.raises(InputError, match=words):
            rows.write(target, **more)
    with pytest.raises(InputError, match="must not lie in"):
        Rows(lake, **ASK).write(lake / "out")
    with pytest.raises(InputError, match="which is read: it would be lost"):
        Rows(lake / "a.parquet", **ASK).write(lake / "a.parquet")
    written = rows.write(tmp_path / "out.parquet")
    assert written.num_rows == COUNT
    assert plain(pa.parquet.read_table(tmp_path / "out.parquet")).equals(plain(rows.counterfactuals()))
    rows.write(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().count("\n") == COUNT + 1


def test_files_that_differ_or_hold_bad_rows_are_named(table, tmp_path):
    (tmp_path / "lake").mkdir()
    broken = table.slice(0, 900).set_column(2, "p_dead", pa.array([-1.0 if row == 650 else 0.2 for row in range(900)]))
    pa.parquet.write_table(broken.slice(0, 500), tmp_path / "lake/a.parquet")
    pa.parquet.write_table(broken.slice(500), tmp_path / "lake/b.parquet", row_group_size=100)
    place = rf"row 150 \(counted from 0\) of {tmp_path}/lake/b\.parquet, row group 1 cannot be answered: the `factual`"
    for ask in (transitions, lambda *given, **options: counterfactuals_file(*given, tmp_path / "out", **options)):
        with pytest.raises(InputError, match=place):
            ask(tmp_path / "lake", **ASK, normalise=True)
    pa.parquet.write_table(table.slice(5, 5).drop_columns(["same"]), tmp_path / "lake/b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet differs from .*a\.parquet: there is no column 'same'"):
        transitions(tmp_path / "lake", **ASK)
    with pytest.raises(InputError, match="no file matches"):
        transitions(tmp_path / "lake/*.pq", **ASK)


# Nothing of others is touched, nothing is lost, nothing counts twice.


def stopped_at(number, lake, out, monkeypatch):
    """A run that ends before a part."""
    whole = _folders._answer_part

    def stopped(job, part):
        if part.number >= number:
            raise KeyboardInterrupt
        return whole(job, part)

    with monkeypatch.context() as patched:
        patched.setattr(_folders, "_answer_part", stopped)
        with pytest.raises(KeyboardInterrupt):
            counterfactuals_file(lake, out, **ASK)


def store(path, count=3, first=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(patients().slice(first, count), path)


def test_a_run_removes_only_what_runs_of_the_folder_have_written(lake, tmp_path, monkeypatch):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    stopped_at(2, lake, out, monkeypatch)
    store(elsewhere / "part-00000000.parquet")
    (out / "more").symlink_to(elsewhere)
    (out / "below").mkdir()
    store(out / "below/part-00000007-0123456789ab.parquet")
    with pytest.raises(
        InputError, match=r"holds 'below/part-00000007-0123456789ab\.parquet', which countermax did not"
    ):
        counterfactuals_file(lake, out, **ASK)
    assert (out / "below/part-00000007-0123456789ab.parquet").exists()
    (out / "below/part-00000007-0123456789ab.parquet").unlink()
    counterfactuals_file(lake, out, **ASK)
    assert (elsewhere / "part-00000000.parquet").exists()
    counterfactuals_file(lake, out, **ASK, coupling="maximal", overwrite=True)
    assert (elsewhere / "part-00000000.parquet").exists()
    named = [part["name"] for part in json.loads((out / "_SUCCESS").read_text())["parts"]]
    assert sorted(path.name for path in out.glob("*.parquet")) == named


def test_links_are_not_followed_on_the_way_out(table, lake, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/status=dead").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="is a link out of"):
        counterfactuals_file(lake, tmp_path / "out", **ASK, partition_by="status")
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("damage", ["gone", "shorter", "changed"])
def test_a_part_that_is_not_as_it_was_written_is_noticed(lake, tmp_path, damage):
    out = tmp_path / "out"
    counterfactuals_file(lake, out, **ASK)
    part = sorted(out.glob("*.parquet"))[2]
    content = part.read_bytes()
    if damage == "gone":
        part.unlink()
    else:
        part.write_bytes(content[:-1] if damage == "shorter" else content[:100] + b"!" + content[101:])
    with pytest.raises(InputError, match="is not whole: a part that its _SUCCESS names is not there, or not what"):
        counterfactuals_file(lake, out, **ASK)
    if damage != "changed":
        for path in (out, f"{out}/*.parquet"):
            with pytest.raises(InputError, match=r"is not whole: .*part-00000002-.* is not there, or not what was wri"):
                transitions(path, **ASK)


def test_a_damaged_part_of_a_stopped_run_is_written_again(table, lake, tmp_path, monkeypatch):
    out = tmp_path / "out"
    stopped_at(3, lake, out, monkeypatch)
    first, second, *_ = sorted(out.glob("*.parquet"))
    first.write_bytes(b"\0" * first.stat().st_size)
    kept = second.stat().st_mtime_ns
    counterfactuals_file(lake, out, **ASK)
    assert second.stat().st_mtime_ns == kept
    assert not first.exists()
    assert rows_in(out).equals(plain(counterfactuals(table, **ASK)))


def test_the_manifest_names_parts_with_rows_sizes_and_checksums_and_what_was_read(lake, tmp_path):
    import zlib

    out = tmp_path / "out"
    counterfactuals_file(lake, out, **ASK)
    manifest = json.loads((out / "_SUCCESS").read_text())
    assert sum(part["num_rows"] for part in manifest["parts"]) == manifest["num_rows"] == COUNT
    for part in manifest["parts"]:
        content = (out / part["name"]).read_bytes()
        assert (part["size"], part["crc32"]) == (len(content), zlib.crc32(content))
    assert [(each["path"], each["size"]) for each in manifest["read"]] == [
        (str(path), path.stat().st_size) for path in sorted(lake.iterdir())
    ]


def test_a_column_divides_once(table, lake, tmp_path):
    with pytest.raises(InputError, match="must name each column once, got 'status', 'status'"):
        counterfactuals_file(lake, tmp_path / "out", **ASK, partition_by=["status", "status"])


@pytest.mark.parametrize("name", ["../esc", "a=b", "_hidden", ".", "a\nb"])
def test_partitions_that_would_lead_elsewhere_are_refused(table, tmp_path, name):
    pa.parquet.write_table(table.slice(0, 9).append_column(name, pa.array(["x"] * 9)), tmp_path / "in.parquet")
    with pytest.raises(InputError, match="must name a column that a folder can be called after"):
        counterfactuals_file(tmp_path / "in.parquet", tmp_path / "out", **ASK, partition_by=[name])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("path", ["", " ", "s3:", "s3:/bucket/answers", "gs:/x"])
def test_what_names_nothing_is_neither_read_nor_written(lake, tmp_path, monkeypatch, path):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(InputError, match="must name a file or folder, as .* does; is a variable empty"):
        counterfactuals_file(lake, path, **ASK)
    store(tmp_path / "here/rows.parquet")
    with pytest.raises(InputError, match="must name a file or folder|no such file or folder"):
        transitions(path, **ASK)
    assert [each.name for each in (tmp_path / "here").iterdir()] == ["rows.parquet"]


@pytest.mark.parametrize("target", ["s3://", "s3:///", "gs://", "s3://?region=here", "s3:///answers"])
def test_a_bucket_without_a_name_is_refused(lake, tmp_path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="must name a bucket or folder behind .*, got none; is a variable empty"):
        counterfactuals_file(lake, target, **ASK)
    assert not (tmp_path / target[:3]).exists()


def test_each_file_is_read_once_by_whichever_links(tmp_path):
    lake = tmp_path / "lake"
    store(lake / "b.parquet", 5)
    (lake / "loop").symlink_to(lake)
    (lake / "a.parquet").symlink_to("b.parquet")
    store(tmp_path / "annex/object.parquet", 7)
    (lake / "c.parquet").symlink_to(tmp_path / "annex/object.parquet")
    assert transitions(lake, **ASK, num_resamples=0).num_rows == 12
    (lake / "d.parquet").symlink_to(tmp_path / "nowhere.parquet")
    for path in (lake, f"{lake}/*.parquet"):
        with pytest.raises(InputError, match=r"d\.parquet: it is a link to a file that is not there; fetch it"):
            transitions(path, **ASK)


def test_values_in_the_names_of_folders_keep_their_text(tmp_path):
    for value in ("01234", "99999"):
        store(tmp_path / f"lake/zip={value}/a.parquet")
    for value in ("7", "-1", "0"):
        store(tmp_path / f"numbers/n={value}/a.parquet")
    assert set(counterfactuals(tmp_path / "lake", **ASK)["zip"].to_pylist()) == {"01234", "99999"}
    assert set(counterfactuals(tmp_path / "numbers", **ASK)["n"].to_pylist()) == {7, -1, 0}
    (tmp_path / "numbers/n=0").rename(tmp_path / "numbers/n=-0")
    assert set(counterfactuals(tmp_path / "numbers", **ASK)["n"].to_pylist()) == {"7", "-1", "-0"}


def test_many_small_files_are_one_part(tmp_path):
    for number in range(30):
        store(tmp_path / f"lake/{number:02d}.parquet", 10, 10 * number)
    found = counterfactuals_file(tmp_path / "lake", tmp_path / "out", **ASK)
    assert found.num_rows == 300
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 1
    assert rows_in(tmp_path / "out").equals(plain(counterfactuals(patients().slice(0, 300), **ASK)))
    broken = patients().slice(0, 10).set_column(2, "p_dead", pa.array([0.1] * 9 + [-1.0]))
    pa.parquet.write_table(broken, tmp_path / "lake/20.parquet")
    with pytest.raises(InputError, match=r"^row 9 \(counted from 0\) of .*20\.parquet, row group 0 cannot be answered"):
        transitions(tmp_path / "lake", **ASK, normalise=True)


def test_wildcards_are_those_of_a_shell(tmp_path):
    for name in ("a/x.parquet", "a/b/x.parquet", "c/x1.parquet", "c/_hidden.parquet", "[/y.parquet"):
        store(tmp_path / name)

    def found(wild):
        files = _parquet.find_files(f"{tmp_path}/{wild}").files
        return [file.path[len(str(tmp_path)) + 1 :] for file in files]

    assert found("*/x*.parquet") == ["a/x.parquet", "c/x1.parquet"]
    assert found("**/x.parquet") == ["a/b/x.parquet", "a/x.parquet"]
    assert found("[ac]/*.parquet") == ["a/x.parquet", "c/x1.parquet"]
    assert found("[!a]/x?.parquet") == ["c/x1.parquet"]
    assert found("[^a]/x?.parquet") == ["c/x1.parquet"]
    assert found("[/*.parquet") == ["[/y.parquet"]
    assert found("a/**") == ["a/b/x.parquet", "a/x.parquet"]
    assert found("") == ["[/y.parquet", "a/b/x.parquet", "a/x.parquet", "c/x1.parquet"]
    for nothing in ("[z-a]*", "a[", "a/["):
        with pytest.raises(InputError, match="no file matches"):
            found(nothing)


def test_a_file_with_brackets_in_its_name_is_itself(tmp_path):
    store(tmp_path / "data[1].parquet", 4)
    store(tmp_path / "data1.parquet", 5)
    assert transitions(tmp_path / "data[1].parquet", **ASK, num_resamples=0).num_rows == 4


@pytest.mark.parametrize(
    "words", [{"num_rows": COUNT + 1}, {"notes": 3}, {"parts": 3}, {"parts": [{}]}, {"parts": []}, {}]
)
def test_a_manifest_that_was_edited_is_one_line(lake, tmp_path, words):
    out = tmp_path / "out"
    counterfactuals_file(lake, out, **ASK)
    whole = json.loads((out / "_SUCCESS").read_text())
    (out / "_SUCCESS").write_text(json.dumps(whole | words if words else {"question": "x"}))
    for ask in (lambda: transitions(out, **ASK), lambda: counterfactuals_file(lake, out, **ASK)):
        with pytest.raises(InputError, match="_SUCCESS is not as countermax writes it"):
            ask()
    (out / "_SUCCESS").write_text(json.dumps(whole, indent=1)[:300])
    with pytest.raises(InputError, match="_SUCCESS is not as countermax writes it"):
        transitions(out, **ASK)


def test_marks_of_runs_that_were_edited_do_no_harm(lake, tmp_path):
    out = tmp_path / "out"
    for words in ('{"runs": 5}', '{"runs": [null, "../lake"]}', "[]", '{"question": []}'):
        out.mkdir()
        (out / "_UNFINISHED").write_text(words)
        assert counterfactuals_file(lake, out, **ASK).num_rows == COUNT
        shutil.rmtree(out)


def test_folders_of_other_programs_are_read_and_their_logs_respected(tmp_path):
    store(tmp_path / "spark/part-0.snappy.parquet", 5)
    (tmp_path / "spark/_SUCCESS").write_text("")
    assert transitions(tmp_path / "spark", **ASK, num_resamples=0).num_rows == 5
    for log, kind in (
        ("_delta_log/00000000000000000000.json", "Delta Lake"),
        (".hoodie/hoodie.properties", "Apache Hudi"),
        ("metadata/v1.metadata.json", "Apache Iceberg"),
    ):
        folder = tmp_path / kind
        store(folder / "data/year=2020/a.parquet")
        (folder / log).parent.mkdir()
        (folder / log).write_text("{}")
        for path in (folder, f"{folder}/**/*.parquet", folder / "data/year=2020"):
            with pytest.raises(InputError, match=f"says that this is a table of {kind}"):
                transitions(path, **ASK)


def test_a_store_that_nobody_knows_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(InputError, match="for lake:// pip install fsspec, and its package for that store"):
        transitions("lake://bucket/rows.parquet", **ASK)


def test_an_unfinished_folder_is_refused_whichever_way_it_is_named(lake, tmp_path, monkeypatch):
    out = tmp_path / "out"
    stopped_at(3, lake, out, monkeypatch)
    part = next(out.glob("*.parquet"))
    for path in (out, f"{out}/*.parquet", f"{tmp_path}/**/*.parquet", part):
        with pytest.raises(InputError, match="is not whole: the run that writes it was stopped"):
            transitions(path, **ASK)


def test_wildcards_are_about_folders_that_they_match(tmp_path):
    store(tmp_path / "lake/a.parquet", 4)
    for mark in ("answers/_UNFINISHED", "delta/_delta_log/0.json"):
        (tmp_path / "lake" / mark).parent.mkdir(parents=True)
        (tmp_path / "lake" / mark).write_text("{}")
        assert transitions(f"{tmp_path}/lake/*.parquet", **ASK, num_resamples=0).num_rows == 4
        with pytest.raises(InputError, match="is not whole|says that this is a table of"):
            transitions(tmp_path / "lake", **ASK)


def test_the_later_of_two_runs_has_the_folder(lake, tmp_path, monkeypatch):
    """A second question begins while the first one is being answered, before any part of it is there."""
    out, begun = tmp_path / "out", []
    whole = _folders._answer_part

    def overtaken(job, part):
        if part.number == 0 and not begun:
            begun.append(None)
            _folders.AnswerFolder(job.folder, "another", overwrite=True)
        return whole(job, part)

    monkeypatch.setattr(_folders, "_answer_part", overtaken)
    with pytest.raises(InputError, match="another run has taken .*out over"):
        counterfactuals_file(lake, out, **ASK)
    assert not (out / "_SUCCESS").exists()


def test_a_source_that_changes_while_it_is_read_is_noticed(lake, tmp_path, monkeypatch):
    whole = _folders._answer_part

    def replaced(job, part):
        record = whole(job, part)
        if part.number == 7:
            store(lake / "a.parquet", 20)
        return record

    monkeypatch.setattr(_folders, "_answer_part", replaced)
    with pytest.raises(InputError, match=r"a\.parquet was changed while it was read"):
        counterfactuals_file(lake, tmp_path / "out", **ASK)
    assert not (tmp_path / "out/_SUCCESS").exists()


def test_parts_that_went_elsewhere_are_noticed(lake, tmp_path, monkeypatch):
    """As on machines that do not share the target's disk."""
    whole = _folders._answer_part

    def elsewhere(job, part):
        record = whole(job, part)
        if part.number == 5:
            (tmp_path / "out" / record["parts"][0]["name"]).unlink()
        return record

    monkeypatch.setattr(_folders, "_answer_part", elsewhere)
    with pytest.raises(InputError, match=r"part-00000005-.* was written, but is not there; all machines"):
        counterfactuals_file(lake, tmp_path / "out", **ASK)


def test_rows_without_an_answer_are_counted(table, tmp_path):
    broken = table.slice(0, 10).set_column(2, "p_dead", pa.array([-1.0] * 9 + [0.1]))
    pa.parquet.write_table(broken, tmp_path / "in.parquet")
    ask = ASK | {"normalise": True, "errors": "missing"}
    for target in ("out", "out.parquet", "out.csv"):
        found = counterfactuals_file(tmp_path / "in.parquet", tmp_path / target, **ask)
        assert (found.num_rows, found.num_left_out) == (10, 9)
        assert "9 of 10 rows have no answer." in found.notes
    assert json.loads((tmp_path / "out/_SUCCESS").read_text())["num_left_out"] == 9


def test_an_object_store_is_written_like_a_folder():
    """One in memory, by fsspec: the same steps are taken as in a local folder."""
    folder = _folders.Folder.at("memory://bucket/out")
    output = _folders.AnswerFolder(folder, "which", overwrite=False)
    name = f"part-00000000-{output.run}.parquet"
    with folder.writing(name) as (file, about):
        file.write(b"rows")
    assert folder.sizes().keys() == {"_UNFINISHED", name}
    record = {
        "num_rows": 4,
        "num_unchanged": 0,
        "num_left_out": 0,
        "num_overruled": 0,
        "parts": [{"name": name, "num_rows": 4} | about],
    }
    output.finish({"coupling": "x", "notes": []}, [record])
    assert folder.sizes().keys() == {"_SUCCESS", name}
    assert _folders.AnswerFolder(folder, "which", overwrite=False).manifest["num_rows"] == 4
    with pytest.raises(InputError, match="another question"):
        _folders.AnswerFolder(folder, "another", overwrite=False)


def test_a_folder_in_which_no_part_is_done_is_free_for_another_question(tmp_path):
    folder = _folders.Folder.at(str(tmp_path / "out"))
    _folders.AnswerFolder(folder, "one with a mistake", overwrite=False)
    corrected = _folders.AnswerFolder(folder, "the corrected one", overwrite=False)
    assert corrected.done == {}
    assert folder.read_record("_UNFINISHED")["question"] == "the corrected one"
    folder.write_record(f"_parts/00000000-{corrected.run}.json", {"number": 0, "parts": []})
    with pytest.raises(InputError, match="another question"):
        _folders.AnswerFolder(folder, "a third one", overwrite=False)


def test_views_of_texts_are_texts(table, tmp_path):
    """As DataFusion and arrow-rs write them."""
    few = table.slice(0, 50)
    status = few["status"].cast(pa.string_view())
    views = few.set_column(1, "status", status).append_column("note", status)
    pa.parquet.write_table(views, tmp_path / "in.parquet")
    assert pa.parquet.read_schema(tmp_path / "in.parquet").field("note").type == pa.string_view()
    expected = counterfactuals(few, **ASK)["counterfactual_dead"].to_pylist()
    assert counterfactuals(views, **ASK)["counterfactual_dead"].to_pylist() == expected
    for target, more in (
        ("a", {}),
        ("b.csv", {}),
        ("c", {"partition_by": ["note"]}),
        ("d", {"partition_by": ["year"]}),
    ):
        counterfactuals_file(tmp_path / "in.parquet", tmp_path / target, **ASK, **more)
    assert rows_in(tmp_path / "a")["counterfactual_dead"].to_pylist() == expected
    assert rows_in(tmp_path / "d").num_rows == 50
