"""Addresses of files and folders: what they are taken for, what is refused, and files that appear when complete."""

import re
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest
from pyarrow import fs
from pyspark.sql import SparkSession

from regroup.cli.main import main
from regroup.pipeline.bronze import ingest
from regroup.pipeline.locations.file_systems import UnknownScheme, s3_file_system, scheme_of
from regroup.pipeline.locations.location import Location, location_of
from regroup.pipeline.output_folder import parquet_writer
from regroup.storage.errors import StoreFailed
from tests.pipeline.histories import crash_history, write_store


@pytest.mark.parametrize(
    ("address", "scheme"),
    [
        ("out", "file"),
        ("/out", "file"),
        ("./s3a:bucket", "file"),
        ("a:b/c", "file"),
        ("/runs/s3a://bucket", "file"),
        ("2026-11-24T19:30.db", "file"),
        ("out 100% größer", "file"),
        ("FILE:/out", "file"),
        ("file:///out", "file"),
        ("s3a://bucket/out", "s3a"),
        ("S3A://bucket/out", "s3a"),
        ("s3a://bucket", "s3a"),
        ("s3a://bucket/out 100% größer//", "s3a"),
        ("hdfs://name:8020/out", "hdfs"),
        ("viewfs://mounts/out", "viewfs"),
        ("abfss://container@account.dfs.core.windows.net/out", "abfss"),
        ("webhdfs://name:9870/out", "webhdfs"),
        ("WASB://container@account.blob.core.windows.net/out", "wasb"),
        ("dbfs:///out", "dbfs"),
    ],
)
def test_an_address_has_the_scheme_that_hadoop_sees_in_it(address: str, scheme: str) -> None:
    assert scheme_of(address) == scheme


REFUSED = (
    "",
    " ",
    " s3a://bucket/out",
    "s3a:/bucket/out",
    "s3a:bucket",
    "s3a://",
    "s3a:///out",
    "S3A://",
    "s3a://bucket:9000/out",
    "s3a://key:secret@bucket/out",
    "s3a://my bucket/out",
    "s3a://bücket/out",
    "s3a://*/out",
    "s3a://bucket//out",
    "s3a://bucket/../out",
    "s3a://bucket/out/.",
    "hdfs:///out",
    "hdfs:/out",
    "hdfs:out",
    "hdfs://name:port/out",
    "abfss://account.dfs.core.windows.net/out",
    "webhdfs://",
    "webhdfs:/out",
    "webhdfs://host//out",
    "webhdfs://host/../out",
    "ftp://user:secret@host/out",
    "https://host?/out",
    "dbfs:/out",
    "dbfs:out",
    "ſ3a://bucket/out",
    "file://host/out",
    "file:out",
    "C:\\out",
    "C:/out",
)


@pytest.fixture
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.yaml"
    path.write_text("question: Which?\nscenario: crashes\nseeds: 2\ngrid: {assignor: [range]}\n")
    return path


def assert_refused(capsys: pytest.CaptureFixture[str], command: str, address: str) -> None:
    """The error is one line, and names the address as it was given."""
    err = capsys.readouterr().err
    assert err.startswith(f"regroup {command}: {address if address.strip() else 'An empty text'} ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_that_cannot_be_used_is_refused_and_not_taken_for_a_path(
    tmp_path: Path, plan: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownScheme, match=re.escape(address.strip() or "An empty text")):
        location_of(address)
    for words in (["ingest", "x.db"], ["tables"], ["show"], ["replay"], ["clean"]):
        last = ["gaps"] if words == ["show"] else []
        assert main(["pipeline", *words, address, *last, "--master", "no such master"]) == 2
        assert_refused(capsys, "pipeline", address)
    for command in (["report", address], ["campaign", str(plan), address]):
        assert main([*command, "--master", "no such master"]) == 2
        assert_refused(capsys, command[0], address)
    for command in (["pipeline", "ingest", address, "out"], ["campaign", address, "out"]):
        if address and address == address.strip():  # a list of stores may have spaces between them
            assert main([*command, "--master", "no such master"]) == 2
            assert_refused(capsys, command[0], address)
    if address:
        assert main(["campaign", str(plan), "--only", "assignor=range,seed=1", "--store", address]) == 2
        assert_refused(capsys, "campaign", address)
    assert not list(tmp_path.iterdir())


def test_a_session_without_the_connector_refuses_an_address_by_name(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_store(tmp_path / "a.db", crash_history("range", 1)[:10])
    for words, address, reason in (
        (["a.db", "s3a://bucket/out"], "s3a://bucket/out", "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"),
        (["s3a://bucket/*", "out"], "s3a://bucket/*", "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"),
        (["a.db", "s4a://bucket/out"], "s4a://bucket/out", 'No FileSystem for scheme "s4a"'),
        (["jdbc://host/*", "out"], "jdbc://host/*", 'No FileSystem for scheme "jdbc"'),
    ):
        assert main(["pipeline", "ingest", *words]) == 2
        assert capsys.readouterr().err == (
            f"regroup pipeline: Spark cannot use {address}: {reason}. Give it the jars for the scheme, as "
            "docs/pipeline.md says.\n"
        )
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.db", "a.db.lock"]


@pytest.mark.parametrize("name", ["out*", "out?", "out[1]", "o{u,t}", "out\\"])
def test_a_folder_that_spark_would_take_for_a_pattern_is_refused(
    tmp_path: Path, plan: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder = str(tmp_path / name)
    steps = (["ingest", "x.db", folder], ["tables", folder], ["show", folder, "gaps"], ["clean", folder])
    for command in (*(["pipeline", *step] for step in steps), ["report", folder], ["campaign", str(plan), folder]):
        assert main([*command, "--master", "no such master"]) == 2
        assert f"{folder} cannot be a folder of the pipeline: Spark takes" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_format_regroup_refuses_stores_that_are_not_on_a_disk(spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"s3a://bucket/a\.db is not on a disk, and SQLite reads files on disks only"):
        spark.read.format("regroup").load("s3a://bucket/a.db").count()


@pytest.mark.slow
def test_file_addresses_are_paths_of_this_machine(spark: SparkSession, tmp_path: Path) -> None:
    records = crash_history("range", 1)
    write_store(tmp_path / "a.db", records)
    ingested = ingest.ingest(spark, f"file://{tmp_path}/*.db", f"file://{tmp_path}/out")
    assert ingested.new_events == len(records)
    assert ingest.ingest(spark, str(tmp_path / "a.db"), tmp_path / "out").new_events == 0
    assert ingest.read_bronze(spark, f"file:{tmp_path}/out").count() == len(records)
    assert spark.read.format("regroup").load(f"file://{tmp_path}/a.db").count() == len(records)


@pytest.mark.slow
def test_other_characters_of_a_name_stand_for_themselves(spark: SparkSession, tmp_path: Path) -> None:
    store, records = tmp_path / "o:100% größer#1%20?.db", crash_history("range", 1)[:10]
    write_store(store, records)
    for name in ("out 100% größer", "out#1%20", "o:u,t=1", ".out", "s3a"):
        out = tmp_path / name
        ingested = ingest.ingest(spark, f"file://{store}".replace("?", "[?]"), f"file://{out}//")
        assert ingested.new_events == len(records)
        assert ingest.read_bronze(spark, out).select("store").collect() == [(str(store),)] * len(records)


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    place = location_of(tmp_path / "below" / "file")
    with place.written() as unfinished:
        unfinished.write_bytes(b"first")
        assert not place.exists()
    with (
        pytest.raises(ValueError, match="schema"),
        parquet_writer(place, pa.schema([("position", pa.int64())])) as writer,
    ):
        writer.write_table(pa.table({"other": [1]}))
    assert place.read_bytes() == b"first"
    assert [each.name for each in (tmp_path / "below").iterdir()] == ["file"]


@pytest.mark.parametrize("scheme", ["s3a", "hdfs"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_of_a_copy_that_is_interrupted_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, error: type[BaseException]
) -> None:
    """The other file system is a folder of this machine, whose streams make a file when they are closed, too."""

    def interrupted(source: IO[bytes], target: IO[bytes], length: int) -> None:
        target.write(source.read(3))
        raise error

    monkeypatch.setattr(Location, "_system", lambda self: (fs.LocalFileSystem(), str(tmp_path / "part-00000.parquet")))
    monkeypatch.setattr("shutil.copyfileobj", interrupted)
    with pytest.raises(StoreFailed if error is OSError else error):
        Location(f"{scheme}://name/part-00000.parquet").replace(b"content")
    assert not list(tmp_path.iterdir())


def test_two_attempts_at_one_file_do_not_meet(tmp_path: Path) -> None:
    place = location_of(tmp_path / "part-00000.parquet")
    with place.written() as first, first.open("wb") as file:
        file.write(b"fi")
        with place.written() as second:
            second.write_bytes(b"second")
        assert place.read_bytes() == b"second"
        file.write(b"rst")
    assert place.read_bytes() == b"first"
    assert [each.name for each in tmp_path.iterdir()] == ["part-00000.parquet"]


def test_a_task_copies_to_the_scratch_folder_that_spark_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = location_of(tmp_path / "a.db")
    place.replace(b"store")
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/scratch,{tmp_path}/none")
    with place.copied() as copy:
        assert copy.parent.parent == tmp_path / "scratch"
        assert copy.read_bytes() == b"store"
    assert not list((tmp_path / "scratch").iterdir())
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/none")
    with place.copied() as copy:
        assert not copy.is_relative_to(tmp_path)


def test_patterns_match_within_a_folder_and_below(tmp_path: Path) -> None:
    for name in ("a.db", "b.db", "deep/c.db", "deep/er/d.db", "b.db-wal"):
        (location_of(tmp_path) / name).replace(b"x")
    found = {pattern: [each.name for each in (location_of(tmp_path) / pattern).matching()] for pattern in PATTERNS}
    assert found == PATTERNS


PATTERNS = {
    "*.db": ["a.db", "b.db"],
    "[!a].db": ["b.db"],
    "*/c.db": ["c.db"],
    "**/*.db": ["a.db", "b.db", "c.db", "d.db"],
    "a.db": ["a.db"],
    "none.db": [],
}


def test_hadoops_settings_are_those_of_arrow_and_keys_are_not_printed() -> None:
    settings = {
        "fs.s3a.endpoint": "http://127.0.0.1:9",
        "fs.s3a.endpoint.region": "eu-west-1",
        "fs.s3a.bucket.own.endpoint.region": "eu-north-1",
        "fs.s3a.access.key": "name",
        "fs.s3a.secret.key": "hidden",
    }
    assert [s3_file_system(bucket, tuple(settings.items())).region for bucket in ("own", "other")] == [
        "eu-north-1",
        "eu-west-1",
    ]
    assert "hidden" not in repr(Location("s3a://own/out", tuple(settings.items())))


def test_a_folder_that_another_process_removes_at_the_same_time_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removed_by_another(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            path.rmdir()
            raise FileNotFoundError(path)

    folder = tmp_path / "version"
    folder.mkdir()
    monkeypatch.setattr("shutil.rmtree", removed_by_another)
    location_of(folder).remove_folder()
    assert not folder.exists()
