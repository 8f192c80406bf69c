"""The table `lag` from a few commits and responses."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from regroup.pipeline.gold.recorded.exchange_facts import FACTS_SCHEMA
from regroup.pipeline.gold.recorded.lag import lag_table
from regroup.pipeline.source.columns import spark_ddl

pytestmark = pytest.mark.slow

COMMITS = "store string, `group` string, topic string, partition int, at_ms long, position long, `offset` long"
EVENTS = "store string, `group` string, at_ms long, position long, type string, payload string, coordinator_epoch long"
Change = tuple[int, str, int, int]
"""Time, what changed, committed offset, and end of the log."""


def changes(
    spark: SparkSession,
    commits: Sequence[tuple[int, int, int]],
    ends: Sequence[tuple[int, int]],
    events: Sequence[tuple[str | None, int, int, str, dict[str, object]]] = (),
    **topic: str,
) -> list[Change]:
    """The rows for one partition: commits are time, position and offset, ends are time and offset.

    The broker has one process, whose epoch is 1.
    """
    rows = lag_rows(spark, commits, [(*each, 1) for each in ends], [(*each, 1) for each in events], **topic)
    assert all(row["lag"] == row.log_end_offset - row.committed_offset and row.empty_before == 0 for row in rows)
    return sorted((row.at_ms, row.changed, row.committed_offset, row.log_end_offset) for row in rows)


def lag_rows(
    spark: SparkSession,
    commits: Sequence[tuple[int, int, int]],
    ends: Sequence[tuple[int, int, int]],
    events: Sequence[tuple[str | None, int, int, str, dict[str, object], int]],
    **topic: str,
) -> list[Row]:
    """The rows for one partition. The last value of each end is the epoch with which the process began, that of each
    event the coordinator epoch."""
    committed = [("a", "g", "orders", 0, *each) for each in commits]
    observed = [
        {
            "kind": "log-end",
            "store": "a",
            "partition": 0,
            "at_ms": at_ms,
            "offset": end,
            "connection": f"0-1@{process}",
            **(topic or {"topic": "orders"}),
        }
        for at_ms, end, process in ends
    ]
    facts = [tuple(each.get(name) for name in FACTS_SCHEMA.names) for each in observed]
    stored = [
        ("a", group, at_ms, position, kind, json.dumps(fields), epoch)
        for group, at_ms, position, kind, fields, epoch in events
    ]
    return lag_table(
        spark.createDataFrame(committed, COMMITS),
        spark.createDataFrame(stored, EVENTS),
        spark.createDataFrame(facts, spark_ddl(FACTS_SCHEMA)),
    ).collect()


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


CREATED = (None, 0, 1, "topic-created", {"name": "orders", "topic_id": "x", "partitions": 2}, 1)


def reserved(at_ms: int, position: int, before: int, epoch: int, partition: int = 0) -> tuple[Any, ...]:
    fields = {"name": "orders", "partition": partition, "before": before}
    return (None, at_ms, position, "offsets-reserved", fields, epoch)


def lags(rows: Sequence[Row]) -> list[tuple[int, int, int]]:
    """Time, the offset below which the log is empty, and lag, in order."""
    return sorted((row.at_ms, row.empty_before, row["lag"]) for row in rows)


def test_offsets_that_a_restart_has_skipped_are_no_lag(spark: SparkSession) -> None:
    events = [CREATED, reserved(2, 2, 1001, 1), reserved(2, 3, 5000, 1, partition=1), reserved(40, 5, 2002, 3)]
    ends = [(5, 20, 1), (30, 1001, 3), (40, 1002, 3), (60, 1005, 3)]
    commits = [(10, 4, 15), (50, 6, 1001)]
    assert lags(lag_rows(spark, commits, ends, events)) == [
        (10, 0, 5),
        (30, 1001, 0),
        (40, 1001, 1),
        (50, 1001, 1),
        (60, 1001, 4),
    ]


def test_records_before_a_clean_stop_are_no_lag_after_it(spark: SparkSession) -> None:
    events = [CREATED, reserved(2, 2, 1001, 1), reserved(20, 5, 20, 1)]
    assert lags(lag_rows(spark, [(10, 4, 15)], [(5, 20, 1), (30, 20, 2)], events)) == [(10, 0, 5), (30, 20, 0)]


def test_a_topic_that_is_made_again_after_a_restart_begins_at_0(spark: SparkSession) -> None:
    deleted = (None, 40, 6, "topic-deleted", {"name": "orders", "topic_id": "x"}, 2)
    again = (None, 41, 7, "topic-created", {"name": "orders", "topic_id": "y", "partitions": 2}, 2)
    events = [CREATED, reserved(2, 2, 1001, 1), deleted, again]
    ends = [(5, 20, 1), (30, 1001, 2), (50, 7, 2)]
    assert lags(lag_rows(spark, [(10, 4, 15), (45, 8, 3)], ends, events))[-1] == (50, 0, 4)


def test_a_commit_raises_the_end_that_was_observed(spark: SparkSession) -> None:
    rows = lag_rows(spark, [(10, 2, 9)], [(5, 6, 1), (20, 8, 1), (30, 11, 1)], [CREATED])
    assert sorted((row.at_ms, row.log_end_offset, row["lag"]) for row in rows) == [(10, 9, 0), (20, 9, 0), (30, 11, 2)]


def test_a_commit_has_its_position_and_follows_the_end_of_its_millisecond(spark: SparkSession) -> None:
    rows = lag_rows(spark, [(10, 2, 4), (10, 3, 5)], [(10, 6, 1), (20, 7, 1)], [CREATED])
    found = sorted(((row.at_ms, row.position, row.changed, row["lag"]) for row in rows), key=str)
    assert found == [(10, 2, "commit", 2), (10, 3, "commit", 1), (20, None, "log-end", 2)]
