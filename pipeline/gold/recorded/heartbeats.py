"""The table `heartbeats`: recorded heartbeats beside the session timeouts that the group's events show.

Each task reads events and requests of its groups in the order of their times, one group after the other.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from regroup.coordinator.classic.log_appends import CLIENT_ERRORS
from regroup.coordinator.serialization import UNREADABLE_ERRORS
from regroup.pipeline.gold.recorded.member_sessions import EVENT_TYPES, MemberSessions
from regroup.protocol.errors import ErrorCode

SEEN_WITH: Final = {
    "Heartbeat": frozenset({"NONE", "REBALANCE_IN_PROGRESS"}),
    "ConsumerGroupHeartbeat": frozenset({"NONE"}),
    "OffsetCommit": frozenset({"NONE", "OFFSET_METADATA_TOO_LARGE", "UNKNOWN_SERVER_ERROR"}),
    "SyncGroup": frozenset({"NONE"}),
}
"""The requests that may start a session timeout again without an event, each with the answers to those that did."""
UNCERTAIN: Final = ("OffsetCommit", "UNKNOWN_SERVER_ERROR")
"""A request and its answer that do not say whether the coordinator got it: a commit that is too large for a batch of
the log has started the session timeout again, and one of too many partitions was refused before."""
LOST_APPENDS: Final = ("append-failed", "append-timed-out")
"""Events with which requests are refused that the coordinator had accepted, and whose responses waited for the log."""
PROTOCOLS: Final = {"Heartbeat": "classic", "ConsumerGroupHeartbeat": "consumer"}
OFFSET_EVENTS: Final = ("offsets-committed", "offsets-written")
"""Events of which only the member matters here: most of all events, and the longest."""

BEFORE_EVENTS, EVENTS, AFTER_EVENTS = range(3)
"""The order at the same time: a request that was accepted comes before the events, one that was refused after them."""

INPUT_COLUMNS: Final = (
    *("store", "group", "at_ms", "turn", "position", "kind", "payload", "member_id", "instance_id", "client_id"),
    *("generation_id", "api", "error", "fault", "requests"),
)
ROWS_PER_BATCH: Final = 16_384

Row = dict[str, Any]


def heartbeats(events: DataFrame, facts: DataFrame, schema: pa.Schema, ddl: str) -> DataFrame:
    """The rows of the table: `schema` and `ddl` are its columns, for Arrow and for Spark.

    `facts` are those of recorded exchanges, `events` those of their stores.
    """
    # A broadcast, since a join that distributes both sides by group would let Spark 4.3 leave out the repartition
    # below: it takes the union for distributed by group, and then puts the two parts of a group into different tasks.
    requests = (
        facts.where("kind IN ('heartbeat', 'seen') AND `group` IS NOT NULL")
        .join(F.broadcast(lost_appends(events)), ["store", "group"], "left")
        .selectExpr(
            *("store", "`group`", "at_ms"),
            f"CASE WHEN {accepted_sql()} THEN {BEFORE_EVENTS} ELSE {AFTER_EVENTS} END AS turn",
            *("0L AS position", "kind", "NULL AS payload", "member_id", "instance_id", "client_id", "generation_id"),
            *("api", "error", "fault", "requests"),
        )
    )
    groups = facts.where("kind = 'heartbeat'").select("store", "group").distinct()
    nothing = "instance_id", "client_id", "api", "error", "fault"
    of_groups = (
        events.where(F.col("type").isin(*EVENT_TYPES))
        .join(groups, ["store", "group"], "left_semi")
        .selectExpr(
            *("store", "`group`", "at_ms", f"{EVENTS} AS turn", "position", "type AS kind"),
            f"CASE WHEN type IN {OFFSET_EVENTS} THEN NULL ELSE payload END AS payload",
            f"CASE WHEN type IN {OFFSET_EVENTS} THEN get_json_object(payload, '$.member_id') END AS member_id",
            *(f"CAST(NULL AS STRING) AS {name}" for name in nothing),
            *("CAST(NULL AS INT) AS generation_id", "0L AS requests"),
        )
    )
    cores = events.sparkSession.sparkContext.defaultParallelism
    in_order = (
        requests.select(*INPUT_COLUMNS)
        .unionByName(of_groups.select(*INPUT_COLUMNS))
        .repartition(cores, "store", "group")
        .sortWithinPartitions("store", "group", "at_ms", "turn", "position", "kind", "requests")
    )
    return in_order.mapInArrow(partial(heartbeats_of_batches, schema=schema), ddl)


def lost_appends(events: DataFrame) -> DataFrame:
    """The column `lost_appends` for each group whose records the emulated Kafka log lost or did not commit in time:
    when each was lost, and the error with which the requests that waited for it were refused."""
    errors = {code: CLIENT_ERRORS.get(code, code).name for code in ErrorCode}
    by_code = ", ".join(f"{code.value}, '{name}'" for code, name in errors.items())
    failed = f"element_at(map({by_code}), CAST(get_json_object(payload, '$.error_code') AS INT))"
    timed_out = ErrorCode.COORDINATOR_NOT_AVAILABLE.name
    error = f"CASE type WHEN 'append-timed-out' THEN '{timed_out}' ELSE {failed} END"
    lost = events.where(F.col("type").isin(*LOST_APPENDS)).selectExpr(
        "store", "`group`", f"struct(at_ms, {error} AS error) AS lost"
    )
    return lost.groupBy("store", "group").agg(F.collect_list("lost").alias("lost_appends"))


def accepted_sql() -> str:
    """Whether a request started the session timeout again, or may have, as a condition in SQL.

    The answer says so, or the request waited for a record of the log: that was lost in the meantime, with this error.
    A request that is refused at once has the same error, and no such event between it and its response.
    """
    answers = {api: ", ".join(f"'{each}'" for each in sorted(errors)) for api, errors in SEEN_WITH.items()}
    accepted = " OR ".join(f"api = '{api}' AND error IN ({errors})" for api, errors in answers.items())
    has_waited = "exists(lost_appends, lost -> lost.error = error AND lost.at_ms BETWEEN at_ms AND answered_ms)"
    return f"(error IS NULL OR {accepted} OR coalesce({has_waited}, false))"


def heartbeats_of_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The heartbeats of a task's groups, as batches. The rows are sorted by store, group and time."""
    gathered: list[Row] = []
    for (store, group), of_group in groupby(rows_of(batches), itemgetter("store", "group")):
        for heartbeat in heartbeats_of_group(of_group):
            gathered.append({"store": store, "group": group, **heartbeat})
            if len(gathered) == ROWS_PER_BATCH:
                yield pa.RecordBatch.from_pylist(gathered, schema)
                gathered = []
    if gathered:
        yield pa.RecordBatch.from_pylist(gathered, schema)


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        yield from batch.to_pylist()


def heartbeats_of_group(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows of the table for one group, from its events and requests in the order of their times.

    From an event on that cannot be read, which is in `fold_errors`, no session is known.
    """
    sessions, is_readable = MemberSessions(), True
    for row in rows:
        if row["turn"] == EVENTS:
            if is_readable and not follow(row, sessions):
                sessions, is_readable = MemberSessions(), False
            continue
        if row["kind"] == "heartbeat":
            yield heartbeat_row(row, sessions)
        if row["turn"] == BEFORE_EVENTS:
            # An answer of a fault rule does not say what the coordinator did.
            is_uncertain = row["error"] is None or row["fault"] or (row["api"], row["error"]) == UNCERTAIN
            sessions.on_request(row["at_ms"], row["member_id"] or "", row["api"], is_certain=not is_uncertain)


def follow(row: Row, sessions: MemberSessions) -> bool:
    """Pass an event to the sessions, and return whether it could be read."""
    try:
        payload = msgspec.json.decode(row["payload"]) if row["payload"] else {"member_id": row["member_id"] or ""}
        sessions.on_event(row["kind"], row["at_ms"], payload)
    except UNREADABLE_ERRORS:
        return False
    return True


def heartbeat_row(row: Row, sessions: MemberSessions) -> Row:
    """A heartbeat as a row of the table: beside the session of its member if that goes on, else beside its end."""
    member_id, at_ms = row["member_id"] or "", row["at_ms"]
    found = {name: row[name] for name in ("at_ms", "client_id", "generation_id", "error", "requests", "fault")}
    found |= {"member_id": member_id or None, "instance_id": row["instance_id"], "protocol": PROTOCOLS[row["api"]]}
    session, end = sessions.members.get(member_id), sessions.ended.get(member_id)
    if row["turn"] == BEFORE_EVENTS and session is not None:
        found["session_timeout_ms"] = session.timeout_ms or None
        if not session.is_held and session.last_seen_ms is not None and row["requests"] == 1:
            found["since_last_seen_ms"] = at_ms - session.last_seen_ms
    elif session is None and end is not None:
        found |= {"ended_by": end.ended_by, "after_end_ms": at_ms - end.at_ms}
    return found
