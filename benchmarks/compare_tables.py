"""Compare the tables that another commit builds with those of this one: `python benchmarks/compare_tables.py CHECKOUT`.

    git worktree add ../before COMMIT
    python benchmarks/compare_tables.py ../before --seeds 200

Both build the tables of the same histories with Spark: drawn runs of the lab, with members of both protocols; runs with
each planted bug; and the history of benchmarks/pipeline.py. Every row of every table is compared, in no order. Prints
the number of rows of each table, and the rows that only one side has. Exits with 1 if there are any.
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

ROOT = Path(__file__).parent.parent
SHOWN_DIFFERENCES = 5

BUILD = """
import sys
from regroup.pipeline.gold.build import build_tables
from regroup.pipeline.spark.session import spark_session
with spark_session("local[2]") as spark:
    build_tables(spark, sys.argv[2], spark.read.parquet(sys.argv[1]))
"""


def drawn_histories(seeds: int, bug_seeds: int) -> Iterator[tuple[str, pa.Table]]:
    """The events of simulated runs, each with its name."""
    for bug in ("", *BUGS):
        for seed in range(1, 1 + (bug_seeds if bug else seeds)):
            name = f"{bug or 'sound'}-{seed}"
            with plant_bug(bug):
                records = play_bounded(draw_plan(seed)).records
            yield name, events_table(name, records)


def benchmark_histories() -> Iterator[tuple[str, pa.Table]]:
    for groups, events, partitions in ((50, 50, 10), (5, 2_000, 10), (1, 4_000, 100)):
        name = f"benchmark-{groups}-{events}-{partitions}"
        yield (
            name,
            events_table(name, [topic_record(partitions), *copies(owned_history(5, partitions, events), groups)]),
        )


def built(checkout: Path, events: Path, out: Path) -> dict[str, Counter[str]]:
    """The rows of all tables that the code of a checkout builds, counted, by table."""
    rooms = checkout / "build" / "editable" / "regroup"
    rooms.mkdir(parents=True, exist_ok=True)
    for marker in checkout.glob("*/py.typed"):
        link = rooms / marker.parent.name
        if not link.exists():
            link.symlink_to(marker.parent.resolve(), target_is_directory=True)
    environment = {**os.environ, "PYTHONPATH": str(rooms.parent.resolve())}
    subprocess.run([sys.executable, "-c", BUILD, str(events), str(out)], check=True, env=environment)
    [version] = (each for each in (out / "tables").iterdir() if each.is_dir())
    return {folder.name: rows_of(folder) for folder in version.iterdir() if folder.is_dir()}


def rows_of(folder: Path) -> Counter[str]:
    rows: Counter[str] = Counter()
    for file in folder.glob("*.parquet"):
        for row in pq.ParquetFile(file).read().to_pylist():
            rows[str({name: row[name] for name in sorted(row)})] += 1
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of the other commit")
    parser.add_argument("--seeds", type=int, default=100, help="drawn runs without a bug (default 100)")
    parser.add_argument("--bug-seeds", type=int, default=2, help="runs of each planted bug (default 2)")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep the events here for the next time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        events = options.keep or Path(name, "events.parquet")
        if not events.exists():
            histories = [*drawn_histories(options.seeds, options.bug_seeds), *benchmark_histories()]
            pq.write_table(pa.concat_tables([table for _, table in histories]), events)
        metadata = pq.read_metadata(events)
        print(f"{metadata.num_rows:,} events")
        before, after = (
            built(checkout, events, Path(name, side))
            for side, checkout in (("before", options.checkout), ("after", ROOT))
        )
    differing = 0
    for table in sorted(before.keys() & after.keys()):
        lost, added = before[table] - after[table], after[table] - before[table]
        differing += lost.total() + added.total()
        print(
            f"{table:20}{before[table].total():>10,} rows, {lost.total():,} only before, {added.total():,} only after"
        )
        for sign, rows in (("-", lost), ("+", added)):
            for row in list(rows)[:SHOWN_DIFFERENCES]:
                print(f"  {sign} {row}")
    print(f"tables of one side only: {sorted(before.keys() ^ after.keys()) or 'none'}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
