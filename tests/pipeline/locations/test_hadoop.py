"""The file systems of Hadoop's connectors for Arrow: here that of this machine's disk, in a Java process of its own."""

import gc
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.java_gateway import JavaGateway
from pyarrow import fs
from pyspark.sql import SparkSession

from regroup.pipeline.locations import hadoop
from regroup.pipeline.locations.hadoop import HadoopHandler, changed_settings, hadoop_file_system
from tests.clients.emulator import eventually


@pytest.fixture(scope="module")
def java() -> Iterator[JavaGateway]:
    """What a task has, where there is no session."""
    started = hadoop.task_gateway("")
    yield started
    started.shutdown()
    hadoop.task_gateway.cache_clear()


@pytest.fixture
def system(java: JavaGateway) -> fs.PyFileSystem:
    return fs.PyFileSystem(HadoopHandler("file://", (), java))


def written(system: fs.PyFileSystem, path: Path, content: bytes) -> Path:
    with system.open_output_stream(str(path)) as stream:
        stream.write(content)
    return path


def test_a_file_is_written_and_read_with_all_its_bytes(system: fs.PyFileSystem, tmp_path: Path) -> None:
    content = os.urandom(3 * hadoop.BUFFER_BYTES + 7)
    path = written(system, tmp_path / "a 100% größer%20", content)
    assert path.read_bytes() == content
    with system.open_input_stream(str(path)) as stream:
        assert stream.read() == content
        assert stream.read(1) == b""


def test_a_file_is_read_from_any_position(system: fs.PyFileSystem, tmp_path: Path) -> None:
    path = written(system, tmp_path / "a", b"0123456789")
    with system.open_input_file(str(path)) as file:
        assert file.size() == 10
        assert [file.seek(7), file.read(), file.seek(2), file.read(3), file.tell()] == [7, b"789", 2, b"234", 5]


def test_files_and_folders_are_listed_with_their_sizes(system: fs.PyFileSystem, tmp_path: Path) -> None:
    written(system, tmp_path / "one", b"1")
    written(system, tmp_path / "below" / "deeper" / "two", b"22")

    def listed(*, recursive: bool) -> list[tuple[str, str, int | None]]:
        found = system.get_file_info(fs.FileSelector(str(tmp_path), recursive=recursive))
        return sorted((each.path.removeprefix(f"{tmp_path}/"), each.type.name, each.size) for each in found)

    assert listed(recursive=False) == [("below", "Directory", None), ("one", "File", 1)]
    assert listed(recursive=True) == [
        ("below", "Directory", None),
        ("below/deeper", "Directory", None),
        ("below/deeper/two", "File", 2),
        ("one", "File", 1),
    ]


def test_what_does_not_exist_is_not_found(system: fs.PyFileSystem, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert system.get_file_info(missing).type == fs.FileType.NotFound
    assert system.get_file_info(fs.FileSelector(missing, allow_not_found=True)) == []
    for use in (system.open_input_file, lambda path: system.get_file_info(fs.FileSelector(path))):
        with pytest.raises(FileNotFoundError, match="missing"):
            use(missing)


def test_a_moved_file_replaces_another(system: fs.PyFileSystem, tmp_path: Path) -> None:
    old, new = written(system, tmp_path / "old", b"old"), written(system, tmp_path / "new", b"new")
    system.move(str(new), str(old))
    assert old.read_bytes() == b"new"
    assert not new.exists()


def test_a_connector_without_a_class_for_the_file_context_replaces_a_file_too(
    system: fs.PyFileSystem, java: JavaGateway, tmp_path: Path
) -> None:
    handler = HadoopHandler("file://", (), java)
    handler._configuration.unset("fs.AbstractFileSystem.file.impl")
    without = fs.PyFileSystem(handler)
    old, new = written(system, tmp_path / "old", b"old"), written(system, tmp_path / "new", b"new")
    without.move(str(new), str(old))
    assert old.read_bytes() == b"new"
    assert not new.exists()


def test_files_and_folders_are_copied_and_removed(system: fs.PyFileSystem, tmp_path: Path) -> None:
    path = written(system, tmp_path / "folder" / "a", b"a")
    system.copy_file(str(path), str(tmp_path / "folder" / "b"))
    assert (tmp_path / "folder" / "b").read_bytes() == b"a"
    system.delete_file(str(path))
    assert not path.exists()
    system.delete_dir(str(tmp_path / "folder"))
    assert not (tmp_path / "folder").exists()


def test_an_error_of_java_is_one_of_python_with_its_message(
    system: fs.PyFileSystem, java: JavaGateway, tmp_path: Path
) -> None:
    path = written(system, tmp_path / "file", b"a")
    with pytest.raises(OSError, match="file"):
        written(system, path / "below", b"b")
    with pytest.raises(OSError, match='No FileSystem for scheme "s4a"'):
        HadoopHandler("s4a://bucket", (), java)


def test_for_a_missing_class_the_error_says_where_its_jar_is_given(java: JavaGateway) -> None:
    with pytest.raises(
        OSError, match=r"Class org\.none\.Foo not found: no jar has this class; add .* --conf spark\.driver"
    ):
        HadoopHandler("foo://host", (("fs.foo.impl", "org.none.Foo"),), java)


def test_a_connector_has_the_settings_that_it_is_made_with(java: JavaGateway) -> None:
    older, newer = (HadoopHandler("file://", (("fs.file.some.key", value),), java) for value in ("older", "newer"))
    assert [each._system.getConf().get("fs.file.some.key") for each in (older, newer)] == ["older", "newer"]


def test_what_pyspark_makes_of_an_error_of_java_is_one_of_python_too(spark: SparkSession) -> None:
    with pytest.raises(OSError, match="port out of range"):
        hadoop_file_system("webhdfs://localhost:99999", ())


def test_after_the_end_of_the_java_process_another_one_is_started() -> None:
    first = hadoop.task_gateway("other")
    handler = HadoopHandler("file://", (), first)
    first.shutdown()
    with pytest.raises(OSError, match="the Java process of Hadoop's connector does not answer"):
        handler.get_file_info(["/"])
    second = hadoop.task_gateway("other")
    assert HadoopHandler("file://", (), second).get_file_info(["/"])[0].type == fs.FileType.Directory
    second.shutdown()
    hadoop.task_gateway.cache_clear()


def test_without_a_java_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # py4j leaves a file open
        with pytest.raises(OSError, match="set JAVA_HOME for the workers") as failure:
            hadoop.task_gateway("nothing")
        assert not isinstance(failure.value, FileNotFoundError), "a file of the pipeline is not missing"
        del failure
        gc.collect()


def test_the_java_process_ends_with_the_python_process() -> None:
    program = (
        "from regroup.pipeline.locations.hadoop import task_gateway\n"
        "print(task_gateway('').jvm.java.lang.ProcessHandle.current().pid(), flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        java = Path("/proc", process.stdout.readline().decode().strip(), "cmdline")
        assert b"py4j.GatewayServer" in java.read_bytes()
        process.kill()
    eventually(lambda: not java.exists() or not java.read_bytes(), "the end of Java")


def test_the_session_s_settings_are_found_and_hadoop_s_defaults_left_out(spark: SparkSession) -> None:
    context = spark.sparkContext
    configuration = context._jsc.hadoopConfiguration()
    configuration.set("fs.webhdfs.some.key", "secret ${user.name} <&>")
    try:
        found = changed_settings(configuration)
        assert found["fs.webhdfs.some.key"] == "secret ${user.name} <&>"
        assert "io.file.buffer.size" not in found or found["io.file.buffer.size"] != "4096"
        assert len(found) < 100
    finally:
        configuration.unset("fs.webhdfs.some.key")


def test_the_driver_takes_spark_s_own_java_process(spark: SparkSession) -> None:
    assert hadoop.gateway() is spark.sparkContext._gateway
    hadoop_file_system.cache_clear()
    assert hadoop_file_system("file://", ()).get_file_info("/").type == fs.FileType.Directory
