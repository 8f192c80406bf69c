"""Ingest, tables, campaign and report on a master and two workers, one of which is killed in the middle of each.

The output is on a disk that both workers see, or in an object store (its tools: tests/pipeline/locations/servers.py).
"""

import hashlib
import os
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from regroup.pipeline.gold.versions import current_version
from regroup.pipeline.locations.location import Location, location_of
from tests.clients.emulator import eventually
from tests.pipeline.cluster.losing_program import PROGRAM
from tests.pipeline.cluster.standalone import SETTINGS, Standalone, standalone_cluster
from tests.pipeline.gold.recorded.recorded_stores import run_seed
from tests.pipeline.histories import crash_history, write_store
from tests.pipeline.locations.commands import CommandResults, command_line, results_of, run_commands
from tests.pipeline.locations.servers import (
    bucket_of,
    moto_server,
    needs_hadoop_aws,
    needs_moto,
    object_store_settings,
    upload,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.xdist_group("standalone"),
    pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds the processes of a worker in /proc"),
]

TASK_TIMEOUT_S = 900.0
"""Generous, since the executors of a busy machine take minutes to start."""

PLAN = """
question: Does it go on?
scenario: crashes
seeds: 44
grid: {assignor: [range]}
fixed: {members: 2, partitions: 3, crashes: 1, session_timeout_ms: 6000}
"""
HADOOP = "spark.hadoop."


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Standalone]:
    with standalone_cluster(tmp_path / "cluster") as started:
        yield started


def rows_of(folder: Location) -> Counter[str]:
    """All rows of the Parquet files in a folder, each as a text, with the number of times that it is there."""
    rows: Counter[str] = Counter()
    for file in folder.files("[!._]*.parquet", below=True):
        with file.opened() as opened:
            rows.update(map(repr, pq.read_table(opened, partitioning=None).to_pylist()))
    return rows


def all_tables(folder: Location) -> tuple[str, dict[str, Counter[str]]]:
    """The name of the current version, and the rows of its tables."""
    version = current_version(folder)
    assert version is not None
    return version.name, {name: rows_of(folder / "tables" / version.name / name) for name in version.tables}


def digests(folder: Location) -> dict[str, str]:
    """The content of each finished Parquet file below a folder, as a hash."""
    files = folder.files("[!._]*.parquet", below=True)
    return {each.address: hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


class Driver:
    """The process of a driver, whose output goes to files. It is killed at the end of the `with` block."""

    def __init__(self, words: list[str], folder: Path, signals: Path) -> None:
        self._out, self._err = (signals / name for name in ("out", "err"))
        with self._out.open("w") as out, self._err.open("w") as err:
            environment = {**os.environ, "SIGNALS": str(signals)}
            self._process = subprocess.Popen(words, cwd=folder, stdout=out, stderr=err, env=environment)

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def results(self) -> CommandResults:
        assert self._process.wait() == 0, self._err.read_text()
        return results_of(self._out.read_text(), self._err.read_text())

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


class Losses:
    """Kills the first worker in the middle of a step of the driver, and starts another one."""

    def __init__(self, cluster: Standalone, signals: Path, driver: "Driver") -> None:
        self._cluster, self._signals, self._driver = cluster, signals, driver
        self._written: dict[Location, dict[str, str]] = {}

    def wait_for(self, found: Callable[[], object], what: str) -> None:
        eventually(lambda: found() or self._driver.has_ended(), what, TASK_TIMEOUT_S)
        assert found(), self._driver.results()

    def wait_until_expected(self, step: str) -> None:
        self.wait_for((self._signals / f"{step}.expected").exists, f"the commands before {step}")

    def lose_worker(self, step: str, place: Location) -> None:
        """Kill the first worker once a task on it has written files of the step, below this place."""
        self.wait_for((self._signals / f"{step}.stopped").exists, f"a task of {step} on the first worker")
        self._written[place] = digests(place)
        assert self._written[place], f"no task of {step} had written files"
        assert self._cluster.kill_worker("first") >= 2, "no executor with Python ran"
        self._cluster.start_workers("first")

    def assert_same_files(self) -> None:
        """What tasks had written when their worker was killed is there, with the same content."""
        for place, written in self._written.items():
            after = digests(place)
            assert {name: after.get(name) for name in written} == written


class Reader:
    """Reads all tables again and again, each time those of one version, until it is stopped."""

    def __init__(self, folder: Location) -> None:
        self.readings: list[tuple[str, dict[str, Counter[str]]]] = []
        self._folder, self._ends = folder, threading.Event()

    def read(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._ends.wait(0.2)
            self.readings.append(all_tables(self._folder))

    @contextmanager
    def reading(self) -> Iterator[None]:
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(self.read)
            try:
                yield
            finally:
                self._ends.set()
            reading.result()


def assert_a_lost_worker_changes_nothing(
    cluster: Standalone, tmp_path: Path, stores: str, out: Location, settings: dict[str, str], copy_step: str
) -> None:
    signals, work, plan = tmp_path / "signals", tmp_path / "work", tmp_path / "plan.yaml"
    signals.mkdir()
    work.mkdir()
    plan.write_text(PLAN)
    runs = out / "campaign"
    steps = [
        ["lose", copy_step],
        ["pipeline", "ingest", f"{stores}/a*.db", str(out / "runs"), "--on-error", "skip"],
        ["pipeline", "tables", str(out / "runs")],
        ["pipeline", "ingest", f"{stores}/[ab]*.db", str(out / "runs"), "--on-error", "skip"],
        ["lose", "fold_partition"],
        ["pipeline", "tables", str(out / "runs")],
        ["report", str(out / "runs")],
        ["lose", "simulate_chunk"],
        ["campaign", str(plan), str(runs)],
        ["pipeline", "tables", str(runs)],
    ]
    words = command_line({**SETTINGS, **settings}, steps, cluster.master, PROGRAM)
    reader = Reader(out / "runs")
    with Driver(words, work, signals) as driver:
        losses = Losses(cluster, signals, driver)
        losses.lose_worker(copy_step, out / "runs" / "bronze")
        losses.wait_until_expected("fold_partition")
        with reader.reading():
            losses.lose_worker("fold_partition", out / "runs" / "tables")
            losses.wait_until_expected("simulate_chunk")
        losses.lose_worker("simulate_chunk", runs)
        results = driver.results()
    assert results.codes == [0, 1, 0, 1, *[0] * 6], results.printed
    losses.assert_same_files()
    local, names = tmp_path / "local", (out / "runs", runs)
    commands = [
        [word.replace(str(out), str(local)) for word in words] for words in steps if words[0] not in ("lose", "report")
    ]
    expected = run_commands({**settings, "spark.sql.shuffle.partitions": "4"}, work, *commands)
    assert expected.codes == [1, 0, 1, *[0] * 3], expected.printed
    last = {place.name: all_tables(place) for place in names}
    for name, (_, tables) in last.items():
        assert tables == all_tables(location_of(local) / name)[1]
        assert sum(tables["ownership"].values()) > 0
    assert all(last["runs"][1][name] for name in ("lag", "heartbeats", "refused_requests"))
    assert rows_of(out / "runs" / "bronze") == rows_of(location_of(local) / "runs" / "bronze")
    assert rows_of(runs / "events") == rows_of(location_of(local) / "campaign" / "events")
    assert_old_or_new(reader, location_of(local) / "runs")
    assert not list(work.iterdir())


def assert_old_or_new(reader: Reader, local: Location) -> None:
    """Every reading is that of the first or of the second version, in full, as a local run has built them."""
    versions = sorted(each.name for each in (local / "tables").folders())
    built = [
        {name: rows_of(local / "tables" / version / name) for name in all_tables(local)[1]} for version in versions
    ]
    assert len(built) == 2
    assert built[0] != built[1]
    seen: dict[str, Any] = {}
    for name, tables in reader.readings:
        assert seen.setdefault(name, tables) == tables
    assert [seen[name] for name in sorted(seen)] == built


def test_tables_on_a_shared_disk_survive_the_loss_of_a_worker(cluster: Standalone, tmp_path: Path) -> None:
    stores = tmp_path / "stores"
    write_stores(stores)
    out = location_of(tmp_path / "out")
    assert_a_lost_worker_changes_nothing(cluster, tmp_path, str(stores), out, {}, "write_block")


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with moto_server(tmp_path / "moto.log") as started:
        yield started


@needs_moto
@needs_hadoop_aws
def test_tables_in_an_object_store_survive_the_loss_of_a_worker(cluster: Standalone, tmp_path: Path, port: int) -> None:
    stores, settings = tmp_path / "stores", object_store_settings(port)
    write_stores(stores)
    for each in stores.glob("*.db"):
        upload(bucket_of(port), each, f"bucket/stores/{each.name}")
    hadoop = {name.removeprefix(HADOOP): value for name, value in settings.items() if name.startswith(HADOOP)}
    out = Location("s3a://bucket/out", tuple(sorted(hadoop.items())))
    assert_a_lost_worker_changes_nothing(cluster, tmp_path, "s3a://bucket/stores", out, settings, "copy_remote_store")


def write_stores(folder: Path) -> None:
    """Two stores to begin with and two more, and a file that is none. The first one of each two has recorded exchanges,
    and the very first one records that are committed."""
    folder.mkdir()
    for seed, name in ((5, "a1"), (3, "b1")):
        run_seed(seed, folder / f"{name}.db")
    for seed, name in enumerate(("a2", "b2")):
        write_store(folder / f"{name}.db", crash_history("range", seed, crashes=1))
    (folder / "a3-foreign.db").write_text("not a store, but long enough to have a header if it were one " * 3)
