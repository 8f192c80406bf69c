"""What the tables need of each recorded exchange, as rows: refusals, heartbeats, ends of logs.

An exchange is stored as several rows: first its request, later its response, and each further heartbeat of a run. Spark
sorts them so that those of one exchange follow each other; only that exchange is in memory.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, TypeAlias

import pyarrow as pa
from msgspec.structs import replace

from regroup.pipeline.source.columns import EXCHANGE_SCHEMA
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.group import HeartbeatRequest, SyncGroupRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest
from regroup.protocol.messages.records import FetchRequest
from regroup.protocol.topic_ids import topic_id_text
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.exchange import ErrorEntry, RecordedExchange, error_entries
from regroup.server.recording.log_ends import LOG_API_KEYS, TopicKey, fetch_error_codes, log_ends_in

FACTS_SCHEMA: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("store", pa.string()),
        ("group", pa.string()),
        ("at_ms", pa.int64()),
        ("answered_ms", pa.int64()),
        ("connection", pa.string()),
        ("correlation_id", pa.int32()),
        ("client_id", pa.string()),
        ("api", pa.string()),
        ("member_id", pa.string()),
        ("instance_id", pa.string()),
        ("generation_id", pa.int32()),
        ("error", pa.string()),
        ("error_message", pa.string()),
        ("fault", pa.string()),
        ("requests", pa.int64()),
        ("parts", pa.int32()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
"""All kinds of facts have the same columns, most of which are null: `refused` (one error code in a response),
`heartbeat`, `seen` (an OffsetCommit or a SyncGroup), and `log-end` (the end of a log, as a response says it)."""
ROWS_PER_BATCH: Final = 16_384

Fact: TypeAlias = dict[str, Any]

_FETCH: Final = FetchRequest.api_key.to_bytes(2, "big")
_HEARTBEATS: Final = tuple(
    each.api_key.to_bytes(2, "big") for each in (HeartbeatRequest, ConsumerGroupHeartbeatRequest)
)
_SEEN: Final = tuple(each.api_key.to_bytes(2, "big") for each in (OffsetCommitRequest, SyncGroupRequest))


class StoredExchange:
    """An exchange that is put together from its rows, which come in the order in which they were stored."""

    def __init__(self) -> None:
        self._request = b""
        self._response = b""
        self._last: ExchangeRow | None = None
        self.known: list[tuple[int, int]] = []
        """Known times of requests, each with the number of requests since the known time before: one, unless several
        heartbeats came before the recording was written again."""

    def on_row(self, row: ExchangeRow) -> None:
        self._request, self._response = row.request or self._request, row.response or self._response
        counted = self._last.count if self._last is not None else 0
        if not counted:
            self.known.append((row.at_ms, 1))
            counted = 1
        if row.count > counted:
            self.known.append((row.last_at_ms, row.count - counted))
        self._last = row

    def row(self) -> ExchangeRow | None:
        """The exchange as one row. None if it was merged into another one, or its request is not stored any more."""
        if self._last is None or not self._last.count or (self._last.request_bytes and not self._request):
            return None
        return replace(self._last, request=self._request, response=self._response)


class LogEnds:
    """The ends of logs that the responses on one connection say, each when it has changed."""

    def __init__(self) -> None:
        self._last: dict[tuple[TopicKey, int], int] = {}

    def facts_of(self, row: ExchangeRow) -> Iterator[Fact]:
        """Yield a fact for each end in a response that differs from the one before, without its store."""
        if row.request[:2] not in LOG_API_KEYS or not row.response:
            return
        for topic, partition, offset in log_ends_in(row):
            if self._last.get((topic, partition)) == offset:
                continue
            self._last[topic, partition] = offset
            name = {"topic": topic} if isinstance(topic, str) else {"topic_id": topic_id_text(topic)}
            yield {
                "kind": "log-end",
                "at_ms": row.ended_at_ms,
                "connection": row.connection,
                "partition": partition,
                "offset": offset,
                **name,
            }


def facts_of_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The facts of all exchanges of a task, as batches. Rows are sorted by store, connection, number, block and row."""
    gathered: list[Fact] = []
    for (store, _), of_connection in groupby(rows_with_stores(batches), lambda each: (each[0], each[1].connection)):
        ends = LogEnds()
        for _, of_exchange in groupby(of_connection, lambda each: each[1].number):
            exchange = StoredExchange()
            for _, part in of_exchange:
                exchange.on_row(part)
            row = exchange.row()
            if row is None:
                continue
            gathered += ({"store": store, **fact} for fact in (*ends.facts_of(row), *facts_of(row, exchange.known)))
            if len(gathered) >= ROWS_PER_BATCH:
                yield pa.RecordBatch.from_pylist(gathered, FACTS_SCHEMA)
                gathered = []
    if gathered:
        yield pa.RecordBatch.from_pylist(gathered, FACTS_SCHEMA)


def rows_with_stores(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, ExchangeRow]]:
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in EXCHANGE_SCHEMA.names[2:]]
        yield from zip(batch.column("store").to_pylist(), map(ExchangeRow, *columns), strict=True)


def facts_of(row: ExchangeRow, known: Sequence[tuple[int, int]]) -> Iterator[Fact]:
    """Yield the facts of one exchange other than ends of logs, without its store.

    `known` is that of its `StoredExchange`.
    """
    api_key = row.request[:2]
    if api_key == _FETCH and not any(fetch_error_codes(row)):
        return  # most of all exchanges: their responses need not be decoded
    recorded = RecordedExchange(row)
    if api_key in _HEARTBEATS:
        yield from heartbeats_of(recorded, known)
    elif api_key in _SEEN:
        error = recorded.answer if row.response else None
        times = {"at_ms": row.at_ms, "answered_ms": recorded.answered_at_ms}
        yield {"kind": "seen", "api": recorded.api, "error": error, **times, **sender_of(recorded)}
    yield from refusals_of(recorded)


def refusals_of(exchange: RecordedExchange) -> Iterator[Fact]:
    """Yield a fact for each error code in the response, and for each group that the request names.

    An entry of the response about a group counts for that group only. What is about no group in the request has no
    group.
    """
    errors = errors_of(exchange)
    if not errors:
        return
    row, sender, named = exchange.row, sender_of(exchange), sorted(exchange.groups)
    of_none = [each for each in errors if each.group not in named and not (named and each.group is None)]
    of_groups = [(group, [each for each in errors if each.group in (None, group)]) for group in named]
    for group, of_group in (*of_groups, (None, of_none)):
        messages = {each.code: each.message for each in reversed(of_group) if each.message}
        for code, parts in Counter(each.code for each in of_group).items():
            yield {
                **sender,
                "kind": "refused",
                "group": group,
                "at_ms": row.at_ms,
                "answered_ms": exchange.answered_at_ms,
                "connection": row.connection,
                "correlation_id": exchange.correlation_id,
                "api": exchange.api,
                "error": ErrorCode.name_of(code),
                "error_message": messages.get(code),
                "requests": row.count,
                "parts": parts,
            }


def errors_of(exchange: RecordedExchange) -> list[ErrorEntry]:
    """The errors in the response. Those of a Fetch are read also if the recorded response was cut."""
    row, response = exchange.row, exchange.response
    if row.request[:2] == _FETCH:
        return [ErrorEntry(code, "", None) for code in fetch_error_codes(row)]
    return list(error_entries(response)) if response else []


def heartbeats_of(exchange: RecordedExchange, known: Iterable[tuple[int, int]]) -> Iterator[Fact]:
    """Yield a fact for each known time of a heartbeat; `error` is null without a response.

    A ConsumerGroupHeartbeat with which a member leaves is none.
    """
    sender = sender_of(exchange)
    if getattr(exchange.request, "member_epoch", 0) < 0 or sender["group"] is None:
        return
    error = exchange.answer if exchange.row.response else None
    common = {
        "kind": "heartbeat",
        "api": exchange.api,
        "error": error,
        "answered_ms": exchange.answered_at_ms,
        **sender,
    }
    for at_ms, requests in known:
        yield {**common, "at_ms": at_ms, "requests": requests}


def sender_of(exchange: RecordedExchange) -> Fact:
    """The group and the member that sent the request, as far as it names them, and what a fault rule did to it.

    The member id is that of the request, or of the response, or the only one that a LeaveGroup lists.
    """
    request, response = exchange.request, exchange.response
    listed = list(getattr(request, "members", ()))
    only = listed[0] if len(listed) == 1 else None
    ids = (getattr(each, "member_id", None) for each in (request, response, only))
    instances = (getattr(each, name, None) for each in (request, only) for name in ("group_instance_id", "instance_id"))
    groups = sorted(exchange.groups)
    return {
        "group": groups[0] if groups else None,
        "member_id": next(filter(None, ids), None),
        "instance_id": next(filter(None, instances), None),
        "generation_id": exchange.generation,
        "client_id": exchange.client_id,
        "fault": exchange.fault or None,
    }
