"""The queries in docs/tables.md can be run as they stand there."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from regroup.lab.plan.yaml_format import read_plan
from regroup.lab.simulation.run import play
from regroup.pipeline.gold.table_files import TABLE_SCHEMAS
from regroup.pipeline.gold.tables import TABLES
from regroup.pipeline.gold.versions import read_table
from regroup.pipeline.source.columns import spark_ddl
from regroup.storage.records import Record
from tests.pipeline.histories import all_rows, rows_of_table

DOCS = Path(__file__).parents[3] / "docs" / "tables.md"


PAUSED_BEN = """
members:
  anna: {max poll interval: 10s}
  ben: {max poll interval: 10s}
  carla: {max poll interval: 10s}
steps:
  - at 0s: [anna joins, ben joins]
  - at 59s: ben pauses for 25s
  - at 60s: carla joins
faults end at: 100s
"""
"""The join phase from 60 s on ends at 70 s, without ben."""
STATIC_PAUSED_BEN = PAUSED_BEN.replace("ben: {", "ben: {instance id: ben-1, ")


def documented_queries() -> list[str]:
    text = DOCS.read_text(encoding="utf-8")
    return [each for each in re.findall(r"(?:^ {4}.*\n)+", text, re.MULTILINE) if "SELECT" in each]


def show_rows(spark: SparkSession, name: str, records: Sequence[Record], columns: Sequence[str]) -> None:
    """Make some columns of a table of one store a view."""
    fields = [field for field in TABLE_SCHEMAS[name] if field.name in columns]
    rows = [row | {"store": "a", "group": "lab"} for row in rows_of_table(all_rows(records), name)]
    values = [tuple(row.get(field.name) for field in fields) for row in rows]
    spark.createDataFrame(values, spark_ddl(fields)).createOrReplaceTempView(name)


def test_every_query_of_the_docs_can_be_run(spark: SparkSession, built_tables: Path) -> None:
    for name in TABLES:
        read_table(spark, built_tables / "out", name).createOrReplaceTempView(name)
    counts = [spark.sql(query).count() for query in documented_queries()]
    assert len(counts) == 6
    assert counts[0] > 0, "who was last to join each generation"


@pytest.mark.parametrize("plan", [PAUSED_BEN, STATIC_PAUSED_BEN], ids=["dynamic", "static"])
def test_a_member_that_never_came_is_the_last_to_join(spark: SparkSession, plan: str) -> None:
    records = play(read_plan(plan)).records
    generations = ("store", "group", "position", "generation_id", "started_ms", "member_id", "missed", "joined_ms")
    show_rows(spark, "generation_members", records, generations)
    show_rows(spark, "member_lifetimes", records, ("store", "group", "member_id", "ended_by", "to_ms"))
    [second] = spark.sql(documented_queries()[0]).where("generation_id = 2").collect()
    assert second.last.startswith("ben")
    assert 9_900 < second.waited_alone_ms <= second.waited_ms == 10_000
