"""Heartbeats that were accepted and then refused: the emulated Kafka log lost the record that they waited for."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from regroup.pipeline.gold.recorded.exchange_facts import FACTS_SCHEMA
from regroup.pipeline.gold.recorded.heartbeats import heartbeats
from regroup.pipeline.gold.table_files import TABLE_SCHEMAS
from regroup.pipeline.source.columns import spark_ddl

EVENTS = "store string, `group` string, at_ms long, position long, type string, payload string"
HEARTBEATS = TABLE_SCHEMAS["heartbeats"]

JOINED = (
    (1_000, "member-joined", {"member_id": "anna-1", "profile": {"session_timeout_ms": 6_000}}),
    (4_000, "generation-started", {}),
)
TIMED_OUT = (10_000, "append-timed-out", {"append_number": 9})
NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND = 19, 20


def silences(
    spark: SparkSession,
    lost: tuple[int, str, dict[str, Any]],
    heartbeat: tuple[int, int, str],
    api: str = "Heartbeat",
) -> list[int | None]:
    """The times since the member was last seen of a heartbeat, given as the times of request and response and the
    error, and of one at 12 s. Its member is in the group from 4 s on, and the log loses a record meanwhile."""
    events = [
        ("s.db", "payments", at_ms, position, kind, json.dumps(payload))
        for position, (at_ms, kind, payload) in enumerate((*JOINED, lost), 1)
    ]
    facts = [fact_row(*each, api=api) for each in (heartbeat, (12_000, 12_000, "NONE"))]
    of_facts = spark.createDataFrame(facts, spark_ddl(FACTS_SCHEMA))
    frame = heartbeats(spark.createDataFrame(events, EVENTS), of_facts, HEARTBEATS, spark_ddl(HEARTBEATS))
    return [row.since_last_seen_ms for row in sorted(frame.collect(), key=lambda row: row.at_ms)]


def fact_row(at_ms: int, answered_ms: int, error: str, *, api: str) -> Sequence[Any]:
    fact = {"kind": "heartbeat", "store": "s.db", "group": "payments", "at_ms": at_ms, "answered_ms": answered_ms}
    fact |= {"member_id": "anna-1", "api": api, "error": error, "requests": 1}
    return [fact.get(name) for name in FACTS_SCHEMA.names]


@pytest.mark.parametrize("api", ["Heartbeat", "ConsumerGroupHeartbeat"])
def test_a_heartbeat_has_been_seen_if_the_record_that_it_waited_for_timed_out(spark: SparkSession, api: str) -> None:
    assert silences(spark, TIMED_OUT, (7_000, 10_000, "COORDINATOR_NOT_AVAILABLE"), api) == [3_000, 5_000]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (NOT_ENOUGH_REPLICAS, "COORDINATOR_NOT_AVAILABLE"),
        (NOT_ENOUGH_REPLICAS_AFTER_APPEND, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
    ],
)
def test_it_has_been_seen_if_the_log_lost_the_record(spark: SparkSession, code: int, error: str) -> None:
    lost = (9_000, "append-failed", {"append_number": 9, "error_code": code})
    assert silences(spark, lost, (7_000, 9_001, error)) == [3_000, 5_000]


@pytest.mark.parametrize(
    "heartbeat",
    [
        pytest.param((7_000, 7_001, "COORDINATOR_NOT_AVAILABLE"), id="at once, before the record was lost"),
        pytest.param((11_000, 11_000, "COORDINATOR_NOT_AVAILABLE"), id="at once, after it was lost"),
        pytest.param((10_000, 10_000, "ILLEGAL_GENERATION"), id="for another reason"),
    ],
)
def test_a_heartbeat_that_is_refused_at_once_has_not_been_seen(
    spark: SparkSession, heartbeat: tuple[int, int, str]
) -> None:
    assert silences(spark, TIMED_OUT, heartbeat) == [None, 8_000]
