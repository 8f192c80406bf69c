"""The report's statistics of members and their requests, from small tables."""

from collections.abc import Mapping, Sequence

import pytest
from pyspark.sql import DataFrame, SparkSession

from regroup.pipeline.gold.table_files import TABLE_SCHEMAS
from regroup.pipeline.report.request_statistics import (
    AFTER_THE_END,
    NEARLY_ALL,
    OVER_THE_TIMEOUT,
    UNKNOWN_SHARE,
    heartbeat_shares,
    lags_at,
    last_joiners,
    refused_requests,
)
from regroup.pipeline.source.columns import spark_ddl

pytestmark = pytest.mark.slow


def table(spark: SparkSession, name: str, rows: Sequence[Mapping[str, object]]) -> DataFrame:
    """Rows of a table; columns that a row does not name are null, except its store and group."""
    schema = TABLE_SCHEMAS[name]
    columns = [field for field in schema if any(field.name in row for row in rows) or field.name in ("store", "group")]
    values = [tuple({"store": "a", "group": "g", **row}.get(field.name) for field in columns) for row in rows]
    return spark.createDataFrame(values, spark_ddl(columns))


def cells(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", "cell")], "store string, cell string")


def joined(position: int, member_id: str, joined_ms: int | None, instance_id: str | None = None) -> dict[str, object]:
    """A member of a generation that started at 9 s; one that missed its join phase if it has no time."""
    row = {"position": position, "member_id": member_id, "joined_ms": joined_ms, "started_ms": 9_000}
    return row | {"instance_id": instance_id, "missed": joined_ms is None}


def lifetime(member_id: str, client_id: str, ended_by: str = "open", to_ms: int | None = None) -> dict[str, object]:
    """A member that is not static."""
    row = {"member_id": member_id, "client_id": client_id, "ended_by": ended_by, "to_ms": to_ms}
    return row | {"instance_id": None}


def missing_joiner(member_id: str, until_ms: int, ended_by: str, client_id: str | None = None) -> dict[str, object]:
    """What a generation that started at 9 s waited for in vain."""
    row = {"position": 5, "member_id": member_id, "client_id": client_id, "until_ms": until_ms, "ended_by": ended_by}
    return row | {"instance_id": None}


def test_the_last_to_join_is_named_with_the_time_for_which_others_waited(spark: SparkSession) -> None:
    members = table(
        spark,
        "generation_members",
        [
            *(joined(1, "m1", 0), joined(1, "m2", 8_000)),  # the first generation is left out
            *(joined(5, "m1", 1_000), joined(5, "m2", 2_000), joined(5, "m3", 5_000, instance_id="ben")),
            joined(5, "m4", 9_500),  # it took over after the generation had started
            *(joined(7, "m1", 1_000), joined(7, "m3", 3_000, instance_id="ben")),
            joined(8, "m1", 1_000),  # alone
            *(joined(9, "m1", 2_500), joined(9, "m2", 2_000)),
            *({**joined(position, "m1", 0), "store": "b"} for position in (1, 2)),
            *({**joined(position, "m5", 7_000), "store": "b"} for position in (1, 2)),
        ],
    )
    clients = table(
        spark,
        "member_lifetimes",
        [
            *(lifetime(each, f"client of {each}") for each in ("m1", "m2")),
            {**lifetime("m5", "client of m1"), "store": "b"},
        ],
    )
    of_stores = spark.createDataFrame([("a", "cell"), ("b", "cell")], "store string, cell string")
    missing = table(spark, "missing_joiners", [{**missing_joiner("m1", 1_000, "left"), "store": "c"}])
    found = [tuple(row) for row in last_joiners(members, missing, clients, of_stores, merges_stores=False).collect()]
    assert found == [
        ("cell", "b", "g", "client of m1", 1, 7.0, 0.0, 1),
        ("cell", "a", "g", "ben", 2, 2.5, 0.5, 2),
        ("cell", "a", "g", "client of m1", 1, 0.5, 0.0, 3),
    ]
    merged = [tuple(row) for row in last_joiners(members, missing, clients, of_stores, merges_stores=True).collect()]
    assert merged == [
        ("cell", None, "g", "client of m1", 2, 3.75, 0.0, 4),
        ("cell", None, "g", "ben", 2, 2.5, 0.5, 2),
    ]


def test_a_member_that_never_came_was_waited_for_until_it_left_or_the_join_phase_ended(spark: SparkSession) -> None:
    members = table(
        spark,
        "generation_members",
        [
            *(joined(1, "m1", 0), joined(1, "m2", 0, instance_id="ben"), joined(1, "m3", 0)),
            *(joined(5, "m1", 1_000), joined(5, "m2", None, instance_id="ben"), joined(5, "m3", 3_000)),
            *(joined(7, "m1", 1_000), joined(7, "m2", 2_000, instance_id="ben")),
            *(joined(8, "m1", 1_000), joined(8, "m2", 2_000, instance_id="ben")),
        ],
    )
    missing = [
        {**missing_joiner("m3", 8_000, "left", client_id="carla"), "position": 7},
        {**missing_joiner("m4", 7_000, "removed", client_id="david"), "position": 7},
        {**missing_joiner("p1", 9_000, "pending-removed", client_id="emma"), "position": 8},
    ]
    lifetimes = table(spark, "member_lifetimes", [lifetime("m1", "anna"), lifetime("m3", "carla")])
    frame = last_joiners(
        members, table(spark, "missing_joiners", missing), lifetimes, cells(spark), merges_stores=False
    )
    assert [tuple(row) for row in frame.collect()] == [
        ("cell", "a", "g", "a pending member id of emma", 1, 7.0, 1.0, 1),
        ("cell", "a", "g", "ben", 1, 6.0, 2.0, 3),
        ("cell", "a", "g", "carla", 1, 1.0, 6.0, 2),
    ]


def test_refused_requests_are_counted_by_api_and_error(spark: SparkSession) -> None:
    refused = [("Heartbeat", "UNKNOWN_MEMBER_ID", 1), ("Heartbeat", "UNKNOWN_MEMBER_ID", 4)]
    refused += [("Heartbeat", "REBALANCE_IN_PROGRESS", 2), ("Fetch", "NOT_LEADER_OR_FOLLOWER", 1)]
    rows = [
        {"api": api, "error": error, "requests": requests, "connection": "0-1@1", "correlation_id": number, "at_ms": 7}
        for number, (api, error, requests) in enumerate(refused)
    ]
    found = refused_requests(table(spark, "refused_requests", rows), cells(spark)).collect()
    assert [tuple(row)[1:] for row in found] == [
        ("Heartbeat", "UNKNOWN_MEMBER_ID", "fenced", 5),
        ("Heartbeat", "REBALANCE_IN_PROGRESS", "step", 2),
        ("Fetch", "NOT_LEADER_OR_FOLLOWER", "refused", 1),
    ]


def test_a_request_that_names_several_groups_counts_once_for_each_error(spark: SparkSession) -> None:
    request = {"api": "OffsetFetch", "connection": "0-1@1", "correlation_id": 5, "at_ms": 7, "requests": 1}
    errors = {"g": "UNKNOWN_MEMBER_ID", "h": "UNKNOWN_MEMBER_ID", "i": "GROUP_AUTHORIZATION_FAILED"}
    rows = [{**request, "group": group, "error": error} for group, error in errors.items()]
    rows.append({**rows[0], "correlation_id": 6})
    found = refused_requests(table(spark, "refused_requests", rows), cells(spark)).collect()
    assert {row.error: row.requests for row in found} == {"UNKNOWN_MEMBER_ID": 2, "GROUP_AUTHORIZATION_FAILED": 1}


def test_heartbeats_are_counted_by_the_share_of_the_session_timeout(spark: SparkSession) -> None:
    row = {"protocol": "classic", "session_timeout_ms": 9_000, "requests": 1}
    seen = [{**row, "since_last_seen_ms": since_ms} for since_ms in (3_000, 3_001, 8_100, 8_101, 9_500, None)]
    seen.append({**row, "since_last_seen_ms": 1, "session_timeout_ms": None})
    late = [{"ended_by": "removed", "requests": 2}, {"ended_by": "left", "requests": 1}]
    late = [{"protocol": "classic", **each} for each in late]
    found = heartbeat_shares(table(spark, "heartbeats", [*seen, *late]), cells(spark)).collect()
    assert {row.share: row.requests for row in found} == {
        "up to a third": 1,
        "up to half": 1,
        "up to 90 %": 1,
        NEARLY_ALL: 1,
        OVER_THE_TIMEOUT: 1,
        AFTER_THE_END: 2,
        UNKNOWN_SHARE: 3,
    }


def test_a_lag_lasts_until_the_next_change_of_its_partition(spark: SparkSession) -> None:
    changes = [(0, 0, None, 5), (0, 10, 2, 3), (0, 10, 1, 8), (0, 10, None, 7), (1, 20, 3, 9)]
    names = ("partition", "at_ms", "position", "lag")
    rows = [{"topic": "orders", **dict(zip(names, each, strict=True))} for each in changes]
    times = spark.createDataFrame(
        [("a", "cell", at_ms, float(at_ms)) for at_ms in (5, 15, 25)],
        "store string, cell string, at_ms long, at_s double",
    )
    found = lags_at(times, table(spark, "lag", rows)).collect()
    assert sorted((row.at_s, row["lag"]) for row in found) == [(5.0, 5), (15.0, 3), (25.0, 3), (25.0, 9)]
