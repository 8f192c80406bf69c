"""How quick the pipeline is: `python benchmarks/pipeline.py [--events N …] [--runs N]`.

For each number of events, on local[1] and on local[2]: from SQLite to bronze, and from bronze to the tables. Beside
them, on the same store: a bare read of every row by sqlite3; a plain Python loop that folds the same groups with the
same code; and DuckDB, which counts the events in bronze (it cannot fold, and reads no store without a download).
With --runs: simulations a minute on one core and on two.

The history is made by the coordinator: 100 groups of four members that commit, leave and join.
"""

import argparse
import math
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from coordinator import history
from regroup.pipeline import bronze, gold
from regroup.pipeline.campaign import read_campaign, run_campaign
from regroup.pipeline.chronicle import Chronicle
from regroup.pipeline.folding import records_in
from regroup.pipeline.rows import StoreReader
from regroup.pipeline.session import session
from regroup.storage.files import prepare
from regroup.storage.statements import INSERT_RECORD

GROUPS = 100
PLAN = Path(__file__).parent.parent / "pipeline" / "plans" / "static-or-dynamic.yaml"


def fill(path: Path, events: int) -> None:
    """One event of each group in turn, until there are so many."""
    prepare(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN")
    rows = (
        (f"group-{group:03}", each.number, 1, each.at_ms, each.type, each.version, each.payload.decode(), each.cause)
        for each in history(4, 10, events // GROUPS)
        for group in range(GROUPS)
    )
    texts = ((*row[:7], row[7].decode() if row[7] else None, place) for place, row in enumerate(rows, 1))
    connection.executemany(INSERT_RECORD, texts)
    connection.execute("COMMIT")
    connection.close()


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def bare_read(path: Path) -> None:
    connection = sqlite3.connect(path)
    for _ in connection.execute("SELECT * FROM events ORDER BY position"):
        pass
    connection.close()


def plain_loop(path: Path, events: int) -> None:
    """The same rows as the tables have, in this process, kept nowhere."""
    chronicles: dict[str, Chronicle] = {}
    with StoreReader(path) as reader:
        for batch in reader.events(0, events):
            for record in records_in(batch):
                assert record.group is not None
                if record.group not in chronicles:
                    chronicles[record.group] = Chronicle(record.group)
                for _ in chronicles[record.group].reads(record):
                    pass
    for chronicle in chronicles.values():
        for _ in chronicle.ends():
            pass


def by_duckdb(folder: Path) -> None:
    duckdb.sql(
        f"SELECT \"group\", type, count(*) FROM read_parquet('{folder}/bronze/*/*.parquet') GROUP BY ALL"
    ).fetchall()


def tell(what: str, events: int, seconds: float) -> None:
    print(f"{what:34}{events:>12,}{seconds:>10.1f} s{events / seconds:>12,.0f} events/s", flush=True)


def measure(folder: Path, events: int, cores: list[int]) -> dict[str, float]:
    """Seconds of each step, by its name."""
    path = folder / f"{events}.db"
    fill(path, events)
    took = {"bare read": timed(lambda: bare_read(path)), "plain loop": timed(lambda: plain_loop(path, events))}
    for number in cores:
        out = folder / f"out-{events}-{number}"
        with session(f"local[{number}]", settings={"spark.driver.memory": "6g"}) as spark:
            spark.range(10).rdd.map(lambda each: each).count()  # the first worker's start is not counted
            took[f"SQLite to bronze, local[{number}]"] = timed(lambda: bronze.ingest(spark, str(path), out))  # noqa: B023
            took[f"bronze to tables, local[{number}]"] = timed(lambda: gold.build(spark, out))  # noqa: B023
    took["DuckDB counts bronze"] = timed(lambda: by_duckdb(folder / f"out-{events}-{cores[-1]}"))
    for what, seconds in took.items():
        tell(what, events, seconds)
    for what, seconds in took.items():
        if "bronze," in what:
            print(f"{what}: {took['bare read'] / seconds:.2f} of the bare read's rate")
    return took


def simulations(folder: Path, runs: int, cores: list[int]) -> None:
    campaign = read_campaign(PLAN)
    campaign = type(campaign)(
        campaign.question, campaign.scenario, -(-runs // len(campaign.cells)), campaign.grid, campaign.fixed
    )
    for number in cores:
        with session(f"local[{number}]") as spark:
            spark.range(10).rdd.map(lambda each: each).count()
            took = timed(lambda: run_campaign(spark, campaign, folder / f"campaign-{number}"))  # noqa: B023
        print(f"simulations on {number} core(s): {len(campaign.runs) / took * 60:,.0f} a minute")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000, 10_000_000], help="sizes of the store")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--runs", type=int, default=0, help="simulations for the campaign (default none)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        took = [measure(Path(name), events, options.cores) for events in options.events]
        for what in took[0] if len(took) > 1 else ():
            slope = math.log(took[-1][what] / took[0][what]) / math.log(options.events[-1] / options.events[0])
            print(f"{what}: seconds grow as events to the power of {slope:.2f}")
        if options.runs:
            simulations(Path(name), options.runs, options.cores)


if __name__ == "__main__":
    main()
