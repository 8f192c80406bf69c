"""Compares the tables that another commit builds with those of this one: their rows, and the CPU seconds of a build.

    git worktree add ../before COMMIT
    python benchmarks/compare_tables.py ../before --seeds 60 --bug-seeds 1
    python benchmarks/compare_tables.py ../before --history 500000 10000 10 --without-rows

Both build the tables of the same histories with Spark on one core. By default these are drawn runs of the lab, with
members of both protocols; runs with each planted bug; and small histories of benchmarks/pipeline.py. `--history` takes
one of those instead, with a number of events, groups and partitions. Every row of every table is compared, in no order;
the rows that only one side has are printed, and the exit code is 1 if there are any. CPU seconds are those of all
processes for one build, after three small ones in the same session.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pure.owned_history import copies, owned_history, topic_record

from regroup.lab.planted_bugs.registry import BUGS
from regroup.lab.search.seed_run import plant_bug, play_bounded
from regroup.lab.search.swarm import draw_plan
from regroup.pipeline.campaign.runner import events_table

BENCHMARKS = Path(__file__).parent
MEMBERS = 5
SMALL_HISTORIES = ((2_500, 50, 10), (10_000, 5, 10), (4_000, 1, 100))
WARM_HISTORY = (1_000, 20, 10)
RECORDS_PER_BATCH = 100_000
SHOWN_DIFFERENCES = 5

BUILD = """
import sys
from harness.process_cpu import tree_cpu_s
from regroup.pipeline.gold.build import build_tables
from regroup.pipeline.spark.session import spark_session
small, events, out = sys.argv[1:]
with spark_session("local[1]", settings={"spark.driver.memory": "6g"}) as spark:
    for number in range(3):
        build_tables(spark, f"{out}-small-{number}", spark.read.parquet(small))
    started = tree_cpu_s()
    build_tables(spark, out, spark.read.parquet(events))
    print(f"{tree_cpu_s() - started:.1f} CPU s", flush=True)
"""


def drawn_histories(seeds: int, bug_seeds: int) -> Iterator[pa.Table]:
    """The events of simulated runs, without a bug and with each planted bug."""
    for bug in ("", *BUGS):
        for seed in range(1, 1 + (bug_seeds if bug else seeds)):
            with plant_bug(bug):
                records = play_bounded(draw_plan(seed)).records
            yield events_table(f"{bug or 'sound'}-{seed}", records)


def benchmark_history(events: int, groups: int, partitions: int) -> Iterator[pa.Table]:
    name, history = f"benchmark-{events}-{groups}-{partitions}", owned_history(MEMBERS, partitions, events // groups)
    yield events_table(name, [topic_record(partitions)])
    records = copies(history, groups)
    while some := [record for record, _ in zip(records, range(RECORDS_PER_BATCH), strict=False)]:
        yield events_table(name, some)


def write_events(file: Path, histories: Iterator[pa.Table]) -> Path:
    first = next(histories)
    with pq.ParquetWriter(file, first.schema, compression="zstd") as writer:
        writer.write_table(first)
        for each in histories:
            writer.write_table(each)
    return file


def chosen_histories(options: argparse.Namespace) -> Iterator[pa.Table]:
    if options.history:
        yield from benchmark_history(*options.history)
        return
    yield from drawn_histories(options.seeds, options.bug_seeds)
    for each in SMALL_HISTORIES:
        yield from benchmark_history(*each)


def build(checkout: Path, small: Path, events: Path, out: Path) -> str:
    """Build the tables with the code of a checkout, and return what the build says of its CPU seconds."""
    packages = checkout / "build" / "editable" / "regroup"
    packages.mkdir(parents=True, exist_ok=True)
    for marker in checkout.glob("*/py.typed"):
        link = packages / marker.parent.name
        if not link.exists():
            link.symlink_to(marker.parent.resolve(), target_is_directory=True)
    paths = (packages.parent.resolve(), BENCHMARKS.resolve())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    words = [sys.executable, "-c", BUILD, *map(str, (small, events, out))]
    return subprocess.run(words, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout.strip()


def rows_of(folder: Path) -> Counter[str]:
    rows: Counter[str] = Counter()
    for file in folder.glob("*.parquet"):
        for row in pq.ParquetFile(file).read().to_pylist():
            rows[str({name: row[name] for name in sorted(row)})] += 1
    return rows


def compare(before: Path, after: Path) -> int:
    """Print the number of rows of each table and the differences, and return how many these are."""
    versions = [next(each for each in (out / "tables").iterdir() if each.is_dir()) for out in (before, after)]
    names = [{folder.name for folder in version.iterdir() if folder.is_dir()} for version in versions]
    differences = 0
    for name in sorted(names[0] & names[1]):
        of_before, of_after = (rows_of(version / name) for version in versions)
        lost, added = of_before - of_after, of_after - of_before
        differences += lost.total() + added.total()
        print(f"{name:20}{of_before.total():>10,} rows, {lost.total():,} only before, {added.total():,} only now")
        for sign, rows in (("-", lost), ("+", added)):
            for row in list(rows)[:SHOWN_DIFFERENCES]:
                print(f"  {sign} {row}")
    print(f"tables of one side only: {sorted(names[0] ^ names[1]) or 'none'}")
    return differences


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of the other commit")
    parser.add_argument("--seeds", type=int, default=60, help="drawn runs without a bug (default 60)")
    parser.add_argument("--bug-seeds", type=int, default=1, help="runs of each planted bug (default 1)")
    what = ("EVENTS", "GROUPS", "PARTITIONS")
    parser.add_argument("--history", type=int, nargs=3, metavar=what, help="the history of benchmarks/pipeline.py")
    parser.add_argument("--without-rows", action="store_true", help="compare CPU seconds only")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep the events here, and use them the next time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = write_events(folder / "small.parquet", benchmark_history(*WARM_HISTORY))
        events = options.keep or folder / "events.parquet"
        if not events.exists():
            write_events(events, chosen_histories(options))
        print(f"{pq.read_metadata(events).num_rows:,} events", flush=True)
        for side, checkout in (("before", options.checkout), ("now", BENCHMARKS.parent)):
            print(f"{side}: {build(checkout, small, events, folder / side)}", flush=True)
        return 0 if options.without_rows or not compare(folder / "before", folder / "now") else 1


if __name__ == "__main__":
    sys.exit(main())
