"""Stores, bronze, campaigns, tables and the report of all in HDFS: Hadoop's MiniDFSCluster on loopback.

`webhdfs://` stands for every scheme that only Hadoop's connectors support. Maven fetches the cluster's jar, 56 MB. The
rest of Hadoop comes with Spark.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from regroup.cli.main import main
from regroup.pipeline.gold.versions import current_version
from regroup.pipeline.locations import file_systems, hadoop
from regroup.pipeline.locations.hdfs import HdfsPackageMissing
from regroup.pipeline.locations.location import Location, location_of
from regroup.storage.errors import StoreFailed
from tests.pipeline.histories import crash_history, write_store
from tests.pipeline.locations.commands import run_commands
from tests.pipeline.locations.servers import mini_hdfs, minicluster_jar

in_hdfs = [pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.xdist_group("hdfs")]

PLAN = """
question: Does it end?
scenario: crashes
seeds: 2
grid: {assignor: [range]}
fixed: {members: 2, partitions: 3, crashes: 1, session_timeout_ms: 6000}
"""


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    with mini_hdfs(tmp_path_factory.mktemp("hdfs") / "data") as found:
        yield found


@pytest.fixture(params=["hdfs", "webhdfs"])
def root(request: pytest.FixtureRequest, addresses: list[str], monkeypatch: pytest.MonkeyPatch) -> Location:
    """A folder in HDFS, by one of its protocols, with the settings that a task would have."""
    (address,) = [each for each in addresses if each.startswith(f"{request.param}://")]
    if request.param == "hdfs":
        pytest.importorskip("hdfs_native", reason="needs hdfs-native: pip install hdfs-native")
        return Location(f"{address}/hdfs")
    monkeypatch.setattr(hadoop, "gateway", hadoop.task_gateway)
    # The jar has classes of Jersey that Hadoop's client for HTTP needs, and that Spark leaves out.
    return Location(f"{address}/webhdfs", ((hadoop.CLASS_PATH_SETTING, str(minicluster_jar())),))


def names(folder: Location) -> list[str]:
    return [each.name for each in (*folder.files(), *folder.folders())]


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native.fsspec", None)
    with pytest.raises(HdfsPackageMissing, match=r"of the driver and of each worker: pip install hdfs-native"):
        location_of("hdfs://name:8020/out")
    assert main(["pipeline", "clean", "hdfs://name:8020/out", "--master", "no such master"]) == 2
    assert "pip install hdfs-native" in capsys.readouterr().err


@pytest.mark.slow
class TestHdfs:
    pytestmark = in_hdfs

    def test_every_command_reads_and_writes_hdfs(self, root: Location, tmp_path: Path) -> None:
        records, address, out = crash_history("range", 1), str(root), f"{root}/out 100% größer"
        write_store(tmp_path / "a.db", records)
        for name in ("a.db", "b.db"):
            (root / "runs" / name).replace((tmp_path / "a.db").read_bytes())
        (root / "runs" / "foreign.db").replace(b"no store, but long enough to have a header" * 10)
        plan, work = tmp_path / "plan.yaml", tmp_path / "work"
        plan.write_text(PLAN)
        work.mkdir()
        jar = str(minicluster_jar())
        results = run_commands(
            {"spark.driver.extraClassPath": jar, "spark.executor.extraClassPath": jar},
            work,
            ["pipeline", "ingest", f"{address}/runs/*.db", out, "--on-error", "skip"],
            ["pipeline", "ingest", f"{address}/runs/a.db", out],
            ["pipeline", "tables", out],
            ["pipeline", "tables", f"{out}/"],
            ["pipeline", "clean", out],
            ["pipeline", "show", out, "gaps"],
            ["report", out],
            ["campaign", str(plan), f"{address}/campaign"],
            ["campaign", str(plan), f"{address}/campaign"],
            ["pipeline", "tables", f"{address}/campaign"],
            ["report", f"{address}/campaign"],
        )
        assert results.codes == [1, *[0] * 10], results.printed
        assert f"2 stores, {2 * len(records)} new events, 1 skipped" in results.printed
        assert f"skipped: {address}/runs/foreign.db is not a store" in results.printed
        assert "1 store, 0 new events, 0 skipped" in results.printed
        assert "1 older version removed" in results.printed
        assert "2 runs of 1 cells; 0 simulated now" in results.printed
        for folder in (root / "out 100% größer", root / "campaign"):
            assert {"format", "report.html", "tables"} <= set(names(folder))
            current = current_version(folder)
            assert current is not None
            assert names(folder / "tables") == ["current.json", current.name]
            assert not [
                each for each in folder.files(below=True) if each.name.startswith(".") and "crc" not in each.name
            ]
        assert not list(work.iterdir())

    def test_a_file_is_replaced_in_one_step(self, root: Location) -> None:
        place = root / "replaced" / "current.json"
        place.replace(b"first")
        with place.written() as unfinished:
            unfinished.write_bytes(b"second")
            assert place.read_bytes() == b"first"
        assert place.read_bytes() == b"second"
        assert names(root / "replaced") == ["current.json"]

    def test_a_reader_finds_the_old_content_or_the_new_at_any_time(self, root: Location) -> None:
        place, found = root / "raced" / "current.json", list[bytes]()
        place.replace(b"0")
        is_over = Event()

        def read() -> None:
            while not is_over.is_set():
                found.append(place.read_bytes())

        with ThreadPoolExecutor() as pool:
            reader = pool.submit(read)
            try:
                for number in range(1, 40):
                    place.replace(str(number).encode())
            finally:
                is_over.set()
            reader.result()
        assert found == sorted(found, key=int)
        assert len(set(found)) > 5

    def test_a_file_that_is_still_arriving_is_not_seen(self, root: Location, monkeypatch: pytest.MonkeyPatch) -> None:
        place = root / "arriving" / "current.json"
        place.replace(b"first")
        seen: list[tuple[bytes, list[str]]] = []
        move_over = file_systems.move_over

        def look_before(scheme: str, system: object, source: str, target: str) -> None:
            seen.append((place.read_bytes(), names(root / "arriving")))
            move_over(scheme, system, source, target)

        monkeypatch.setattr("regroup.pipeline.locations.location.move_over", look_before)
        place.replace(b"second")
        assert seen[0][0] == b"first"
        assert len(seen[0][1]) == 2
        assert place.read_bytes() == b"second"

    def test_what_hdfs_refuses_is_one_sentence(self, root: Location) -> None:
        (root / "file").replace(b"x")
        with pytest.raises(StoreFailed) as failure:
            (root / "file" / "below").replace(b"x")
        assert str(failure.value).startswith(f"{root}/file/below cannot be used: ")
        assert "\\tat" not in str(failure.value)
        assert not [each for each in names(root) if each.startswith(".file")]
