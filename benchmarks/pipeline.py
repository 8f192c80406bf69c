"""Measures the pipeline: `python benchmarks/pipeline.py [--only bronze tables again campaign] [--events N …]`.

bronze     events from SQLite to Parquet: Spark on one core and on two, beside a bare read of every row by sqlite3, a
           plain loop (sqlite3, Arrow, one Parquet file) and DuckDB
tables     from bronze to the tables: Spark, beside a plain loop and DuckDB with the same fold
again      from bronze to the tables once a tenth of the events is new: a build that folds only these, and one of all
campaign   simulations a minute on one core and on two, and the speedup

The history is made by the coordinator: `--groups` groups of five members that own `--partitions` partitions and commit
their offsets. After every 200 events a member leaves or expires, and another one joins. All groups have the same
history, one event of each in turn. With several sizes a slope is fitted: 1 is linear. CPU seconds are those of all
processes. The start of Spark is printed, and not included in other times. `--keep DIR` keeps stores and bronze for the
next time; `--events 1000000 10000000` takes an hour.
"""

import argparse
import math
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from statistics import linear_regression
from typing import NamedTuple

from harness.process_cpu import tree_cpu_s
from msgspec.structs import replace
from peers.pipelines import duckdb_bronze, duckdb_tables, plain_bronze, plain_tables, read_rows_only
from pure.owned_history import copies, owned_history, topic_record
from pyspark.sql import SparkSession

from regroup.pipeline.bronze import ingest as bronze
from regroup.pipeline.campaign.grid import read_campaign
from regroup.pipeline.campaign.runner import run_campaign
from regroup.pipeline.gold import build
from regroup.pipeline.spark.session import spark_session
from regroup.storage.records import Record
from regroup.storage.sqlite.files import initialize_store
from regroup.storage.sqlite.statements import INSERT_RECORD, rows_from_records

MEMBERS = 5
ROWS_PER_INSERT = 100_000
PLAN = Path(__file__).parent.parent / "pipeline" / "plans" / "static-or-dynamic.yaml"
WAYS = ("bare", "plain", "duckdb", "spark")


def history_of(events: int, groups: int, partitions: int) -> Iterator[Record]:
    """The topic's event and `events` events of groups, one event of each group in turn."""
    history = owned_history(MEMBERS, partitions, events // groups)
    return chain([topic_record(partitions)], copies(history, groups))


def fill(path: Path, records: Iterator[Record], first: int = 1) -> int:
    """Write records to a store, which is made if it does not exist; return the position after the last one."""
    if not path.exists():
        initialize_store(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN")
    while some := list(islice(records, ROWS_PER_INSERT)):
        connection.executemany(INSERT_RECORD, rows_from_records(some, first))
        first += len(some)
    connection.execute("COMMIT")
    connection.close()
    return first


class Cost(NamedTuple):
    """The cost of some work: the seconds that passed, and the CPU seconds of this process and of those it started."""

    elapsed_s: float
    cpu_s: float


def cost_of(work: Callable[[], object]) -> Cost:
    started, cpu_s = time.perf_counter(), tree_cpu_s()
    work()
    return Cost(time.perf_counter() - started, tree_cpu_s() - cpu_s)


def cost_on_cores(cores: int, work: Callable[[SparkSession], object]) -> Cost:
    """The cost of some work in a Spark session of its own, measured after the session's workers have started."""
    started = time.perf_counter()
    with spark_session(f"local[{cores}]", settings={"spark.driver.memory": "6g"}) as spark:
        spark.range(cores).repartition(cores).rdd.map(lambda each: each).count()
        print(f"  (Spark started on local[{cores}] in {time.perf_counter() - started:.0f} s)", flush=True)
        return cost_of(lambda: work(spark))


def emptied(folder: Path) -> Path:
    """Make an empty folder at this path, in place of any that is there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


class SizedStore:
    """A store with a number of events, and the ways to process it. All its files are below `folder`."""

    def __init__(self, folder: Path, events: int, options: argparse.Namespace) -> None:
        self.events = events
        self._groups, self._partitions = options.groups, options.partitions
        self._ways, self._cores = options.ways, options.cores
        name = f"{events}-{options.groups}-{options.partitions}"
        self._store, self._bronze = folder / f"{name}.db", folder / f"{name}.parquet"
        self._out = folder / f"out-{name}"
        if not self._store.exists():
            fill(self._store, history_of(events, options.groups, options.partitions))

    def time_bronze(self) -> Iterator[tuple[str, Cost]]:
        out = emptied(self._out)
        if "bare" in self._ways:
            yield "bare read", cost_of(partial(read_rows_only, self._store))
        if "plain" in self._ways:
            yield "plain loop", cost_of(partial(plain_bronze, self._store, out / "plain.parquet"))
        if "duckdb" in self._ways:
            yield "DuckDB", cost_of(partial(duckdb_bronze, self._store, out / "duckdb.parquet"))
        for cores in self._cores if "spark" in self._ways else ():
            ingest = partial(bronze.ingest, patterns=str(self._store), folder=out / f"spark-{cores}")
            yield f"Spark, local[{cores}]", cost_on_cores(cores, ingest)

    def time_tables(self) -> Iterator[tuple[str, Cost]]:
        out = emptied(self._out)
        if not self._bronze.exists():
            duckdb_bronze(self._store, self._bronze)
        if "plain" in self._ways:
            yield "plain loop", cost_of(partial(plain_tables, self._bronze, emptied(out / "plain")))
        if "duckdb" in self._ways:
            yield "DuckDB", cost_of(partial(duckdb_tables, self._bronze, emptied(out / "duckdb")))
        for cores in self._cores if "spark" in self._ways else ():
            yield f"Spark, local[{cores}]", cost_on_cores(cores, partial(self._build, folder=out / f"spark-{cores}"))

    def time_again(self) -> Iterator[tuple[str, Cost]]:
        store, out = emptied(self._out) / "grows.db", self._out / "out"
        records = history_of(self.events, self._groups, self._partitions)
        end = fill(store, islice(records, self.events * 9 // 10))
        settings = {"spark.driver.memory": "6g"}
        with spark_session(f"local[{self._cores[0]}]", settings=settings) as spark:
            bronze.ingest(spark, str(store), out)
            yield "first build, 90 %", cost_of(partial(build.build_tables, spark, out))
            fill(store, records, end)
            bronze.ingest(spark, str(store), out)
            yield "second build", cost_of(partial(build.build_tables, spark, out))
            yield "all events again", cost_of(partial(build.build_tables, spark, out, is_full=True))

    def _build(self, spark: SparkSession, folder: Path) -> None:
        events = spark.read.parquet(str(self._bronze)).selectExpr("'store' AS store", "*")
        build.build_tables(spark, folder, events)


def measure(what: str, sizes: list[SizedStore], ways: Callable[[SizedStore], Iterator[tuple[str, Cost]]]) -> None:
    """Print the seconds that every way takes for every size, and the slopes."""
    durations: dict[str, dict[int, float]] = {}
    for size in sizes:
        print(f"{what}, {size.events:,} events", flush=True)
        for way, (seconds, cpu_s) in ways(size):
            durations.setdefault(way, {})[size.events] = seconds
            bare = durations.get("bare read", {}).get(size.events)
            beside = f"{bare / seconds:>8.2f} of the bare read's rate" if bare else ""
            print(
                f"  {way:20}{seconds:>10.1f} s{size.events / seconds:>12,.0f} events/s"
                f"{cpu_s:>10.1f} CPU s{cpu_s / size.events * 1e6:>8.1f} µs/event{beside}",
                flush=True,
            )
    for way, by_size in durations.items():
        if len(by_size) > 1:
            slope = linear_regression(logarithms(by_size), logarithms(by_size.values())).slope
            print(f"  {way}: seconds grow as events to the power of {slope:.2f}")


def logarithms(numbers: Iterable[float]) -> list[float]:
    return [math.log(each) for each in numbers]


def measure_campaign(folder: Path, runs: int, cores: list[int]) -> None:
    campaign = read_campaign(PLAN)
    campaign = replace(campaign, seeds=-(-runs // len(campaign.cells)))
    rates = []
    for number in cores:
        seconds, _ = cost_on_cores(
            number, partial(run_campaign, campaign=campaign, folder=emptied(folder / f"campaign-{number}"))
        )
        rates.append(campaign.run_count / seconds * 60)
        beside = f", {rates[-1] / rates[0] / number * cores[0]:.0%} of {number} times as many" if number > 1 else ""
        print(f"{campaign.run_count} simulations on {number} core(s): {rates[-1]:,.0f} a minute{beside}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("bronze", "tables", "again", "campaign")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, help="parts to measure (default all)")
    parser.add_argument(
        "--events", type=int, nargs="+", default=[50_000, 200_000], help="events of each store (default 50000 200000)"
    )
    parser.add_argument("--groups", type=int, default=100, help="groups in each store (default 100)")
    parser.add_argument("--partitions", type=int, default=10, help="partitions of the topic (default 10)")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2], help="cores of Spark (default 1 2)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, help="ways to measure (default all)")
    parser.add_argument("--runs", type=int, default=120, help="simulations of the campaign (default 120)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep stores and bronze here for the next time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        sizes = [] if options.only == ["campaign"] else [SizedStore(folder, each, options) for each in options.events]
        if "bronze" in options.only:
            measure("SQLite to bronze", sizes, SizedStore.time_bronze)
        if "tables" in options.only:
            measure("bronze to tables", sizes, SizedStore.time_tables)
        if "again" in options.only:
            measure("bronze to tables again", sizes, SizedStore.time_again)
        if "campaign" in options.only:
            measure_campaign(folder, options.runs, options.cores)


if __name__ == "__main__":
    main()
