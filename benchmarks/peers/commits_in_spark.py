"""Measures commits of offsets by Spark's window functions, beside the fold of all tables.

    python benchmarks/peers/commits_in_spark.py [--events 20000 --groups 1 --partitions 100]

The functions give the rows of the table `commits` for the `offsets-committed` events of the history that
benchmarks/pipeline.py has, on one core, and write them as Parquet. The fold writes all tables in the same session. CPU
seconds are those of all processes; Java has compiled its code by the third run.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.process_cpu import tree_cpu_s
from pure.owned_history import copies, owned_history, topic_record

from regroup.pipeline.campaign.runner import events_table
from regroup.pipeline.gold.build import build_tables
from regroup.pipeline.spark.session import spark_session

PAYLOAD = "at_ms BIGINT, member_id STRING, offsets MAP<STRING, MAP<STRING, STRUCT<offset: BIGINT>>>"


def commits_in_sql(events: DataFrame) -> DataFrame:
    commits = events.where("type = 'offsets-committed'").selectExpr(
        "store", "`group`", "position", "coordinator_epoch", f"from_json(payload, '{PAYLOAD}') AS event"
    )
    by_topic = commits.selectExpr("*", "explode(event.offsets) AS (topic, partitions)")
    by_partition = by_topic.selectExpr("*", "explode(partitions) AS (partition, committed)")
    of_partition = "PARTITION BY store, `group`, topic, partition ORDER BY position"
    previous = f"lag(committed.offset) OVER ({of_partition}) AS previous_offset"
    rows = by_partition.selectExpr(
        *(
            "store",
            "`group`",
            "position",
            "coordinator_epoch",
            "event.at_ms",
            "event.member_id",
            "topic",
            "CAST(partition AS INT) AS partition",
        ),
        *("committed.offset AS offset", previous),
    )
    return rows.selectExpr(
        "*", "greatest(0, coalesce(previous_offset - offset, 0)) AS reprocessed", "'immediate' AS kind"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000, help="events (default 20000)")
    parser.add_argument("--groups", type=int, default=1, help="groups (default 1)")
    parser.add_argument("--partitions", type=int, default=100, help="partitions of the topic (default 100)")
    options = parser.parse_args()
    records = copies(owned_history(5, options.partitions, options.events // options.groups), options.groups)
    history: pa.Table = events_table("store", [topic_record(options.partitions), *records])
    with tempfile.TemporaryDirectory() as name, spark_session("local[1]") as spark:
        bronze = f"{name}/events.parquet"
        pq.write_table(history, bronze)
        ways: dict[str, Callable[[SparkSession, str], None]] = {
            "Spark's window functions, commits only": lambda spark, out: commits_in_sql(
                spark.read.parquet(bronze)
            ).write.parquet(f"{out}-commits"),
            "all tables, by the fold": lambda spark, out: build_tables(spark, out, spark.read.parquet(bronze)),
        }
        for run in range(3):
            for what, build in ways.items():
                started = tree_cpu_s()
                build(spark, f"{name}/{run}")
                print(f"run {run + 1}: {what}: {tree_cpu_s() - started:.1f} CPU s", flush=True)


if __name__ == "__main__":
    main()
