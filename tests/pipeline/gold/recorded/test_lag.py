"""The table `lag` from a few commits and responses."""

import json
from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from regroup.pipeline.gold.recorded.exchange_facts import FACTS_SCHEMA
from regroup.pipeline.gold.recorded.lag import lag_table
from regroup.pipeline.source.columns import spark_ddl

pytestmark = pytest.mark.slow

COMMITS = "store string, `group` string, topic string, partition int, at_ms long, position long, `offset` long"
EVENTS = "store string, `group` string, at_ms long, position long, type string, payload string"
Change = tuple[int, str, int, int]
"""Time, what changed, committed offset, and end of the log."""


def changes(
    spark: SparkSession,
    commits: Sequence[tuple[int, int, int]],
    ends: Sequence[tuple[int, int]],
    events: Sequence[tuple[str | None, int, int, str, dict[str, object]]] = (),
    **topic: str,
) -> list[Change]:
    """The rows for one partition: commits are time, position and offset, ends are time and offset."""
    committed = [("a", "g", "orders", 0, *each) for each in commits]
    observed = [
        {
            "kind": "log-end",
            "store": "a",
            "partition": 0,
            "at_ms": at_ms,
            "offset": end,
            **(topic or {"topic": "orders"}),
        }
        for at_ms, end in ends
    ]
    facts = [tuple(each.get(name) for name in FACTS_SCHEMA.names) for each in observed]
    stored = [
        ("a", group, at_ms, position, kind, json.dumps(fields)) for group, at_ms, position, kind, fields in events
    ]
    rows = lag_table(
        spark.createDataFrame(committed, COMMITS),
        spark.createDataFrame(stored, EVENTS),
        spark.createDataFrame(facts, spark_ddl(FACTS_SCHEMA)),
    ).collect()
    assert all(row["lag"] == row.log_end_offset - row.committed_offset for row in rows)
    return sorted((row.at_ms, row.changed, row.committed_offset, row.log_end_offset) for row in rows)


def test_each_commit_and_each_change_of_the_end_has_a_row_once_both_are_known(spark: SparkSession) -> None:
    commits, ends = [(10, 1, 4), (30, 2, 9), (40, 3, 9)], [(5, 6), (20, 9), (25, 9), (50, 12)]
    assert changes(spark, commits, ends) == [
        (10, "commit", 4, 6),
        (20, "log-end", 4, 9),
        (30, "commit", 9, 9),
        (40, "commit", 9, 9),
        (50, "log-end", 9, 12),
    ]


def test_the_highest_end_of_a_millisecond_counts_and_an_end_that_comes_late_does_not(spark: SparkSession) -> None:
    assert changes(spark, [(1, 1, 0)], [(5, 6), (5, 8), (7, 7)]) == [(5, "log-end", 0, 8)]


def test_a_deleted_offset_has_no_lag_until_the_next_commit(spark: SparkSession) -> None:
    deleted = ("g", 20, 2, "offsets-deleted", {"partitions": {"orders": [0]}})
    commits = [(10, 1, 4), (40, 3, 5)]
    assert changes(spark, commits, [(5, 6), (30, 7)], [deleted]) == [(10, "commit", 4, 6), (40, "commit", 5, 7)]
    other = ("g", 20, 2, "offsets-deleted", {"partitions": {"orders": [1], "payments": [0]}})
    assert (30, "log-end", 4, 7) in changes(spark, commits, [(5, 6), (30, 7)], [other])
    whole = ("g", 20, 2, "group-deleted", {})
    assert (30, "log-end", 4, 7) not in changes(spark, commits, [(5, 6), (30, 7)], [whole])


def test_a_topic_that_is_made_again_begins_with_a_log_of_its_own(spark: SparkSession) -> None:
    deletions = [
        (None, 20, 2, "topic-deleted", {"name": "orders", "topic_id": "x"}),
        ("g", 20, 3, "offsets-deleted", {"partitions": {"orders": [0]}}),
    ]
    found = changes(spark, [(10, 1, 4), (40, 4, 1)], [(5, 60), (50, 2)], deletions)
    assert found == [(10, "commit", 4, 60), (50, "log-end", 1, 2)]


def test_a_topic_that_is_named_by_its_id_is_found_by_its_creation(spark: SparkSession) -> None:
    created = (None, 0, 1, "topic-created", {"name": "orders", "topic_id": "x", "partitions": 1})
    assert changes(spark, [(10, 2, 4)], [(5, 6)], [created], topic_id="x") == [(10, "commit", 4, 6)]
    assert changes(spark, [(10, 2, 4)], [(5, 6)], topic_id="x") == []
