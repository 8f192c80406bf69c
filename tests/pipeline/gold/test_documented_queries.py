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
from tests.pipeline.gold.test_missing_joiners import PENDING_ID, POLL_TIMEOUT, REBALANCE_TIMEOUT
from tests.pipeline.histories import all_rows, rows_of_table

DOCS = Path(__file__).parents[3] / "docs" / "tables.md"


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


@pytest.mark.parametrize(
    ("plan", "last", "ended_by", "alone_s"),
    [
        pytest.param(REBALANCE_TIMEOUT, "ben", "removed", (9.9, 10.0), id="dynamic"),
        pytest.param(REBALANCE_TIMEOUT.replace("ben: {", "ben: {instance id: ben-1, "), "ben", "missed", (9.9, 10.0)),
        pytest.param(POLL_TIMEOUT, "ben", "left", (3.9, 4.1), id="poll timeout"),
        pytest.param(PENDING_ID, "carla", "pending-removed", (6.9, 7.1), id="pending id"),
    ],
)
def test_what_never_joined_was_waited_for_last(
    spark: SparkSession, plan: str, last: str, ended_by: str, alone_s: tuple[float, float]
) -> None:
    records = play(read_plan(plan)).records
    generations = ("store", "group", "position", "generation_id", "started_ms", "member_id", "missed", "joined_ms")
    show_rows(spark, "generation_members", records, generations)
    show_rows(spark, "missing_joiners", records, (*generations[:6], "until_ms", "ended_by"))
    [second] = spark.sql(documented_queries()[0]).where("generation_id = 2").collect()
    assert second.last.startswith(last)
    assert second.last_ended_by == ended_by
    assert alone_s[0] < second.waited_alone_ms / 1_000 <= alone_s[1]
    assert second.waited_alone_ms <= second.waited_ms <= 10_000
