"""Where the logs of partitions ended, as recorded requests to their leaders say, while the rows of a store are read.

A Fetch response has the high watermark of each partition, a response to ListOffsets the end that was asked for, and a
Produce response the offset that its first record got. Between two such responses the end of a log is not known.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from regroup.classroom.recorded_values import LogEnd
from regroup.protocol.codec.decoder import long_uvarint, skip_tagged_fields
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.exceptions import Malformed
from regroup.protocol.messages.records import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ProduceRequest,
    ProduceResponse,
)
from regroup.protocol.record_batch import read_batch_header, split_batches
from regroup.protocol.topic_ids import topic_id_text
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.exchange import RecordedExchange

MAX_ENDS: Final = 2_000
"""Ends of one log; of more, every second one is dropped, and the last one stays."""
LATEST: Final = -1
"""The timestamp with which ListOffsets asks for the end of a log."""
READ_UNCOMMITTED: Final = 0
FIRST_READ_VERSION: Final = 4
"""Older Fetch responses, of clients before 2017, are not read."""
_FETCH, _LIST_OFFSETS, _PRODUCE = (
    each.api_key.to_bytes(2, "big") for each in (FetchRequest, ListOffsetsRequest, ProduceRequest)
)
LOG_API_KEYS: Final = frozenset({_FETCH, _LIST_OFFSETS, _PRODUCE})
"""The first bytes of the frames of requests whose responses may say where a log ends."""
_PARTITION: Final = struct.Struct(">ihq")
"""Partition, error code and high watermark."""
_Topic: TypeAlias = str | bytes
"""The name of a topic or, since Fetch v13, its id."""


class _End(NamedTuple):
    topic: _Topic
    partition: int
    offset: int


class LogEndsBuilder:
    """Collects where the logs of all partitions ended, from recorded Fetch, ListOffsets and Produce responses."""

    def __init__(self) -> None:
        self._ends: dict[tuple[_Topic, int], list[LogEnd]] = {}
        self._open: dict[tuple[str, int], bytes] = {}
        """The requests whose responses have not come."""

    def on_row(self, row: ExchangeRow) -> None:
        """Take in a row of the recording. A row without a request has the response to that of an earlier row."""
        key = (row.connection, row.number)
        if row.request[:2] in LOG_API_KEYS:
            self._open[key] = row.request
        request = self._open.get(key)
        if request is None or row.ended_at_ms is None:
            return
        del self._open[key]
        for end in _ends_in(replace(row, request=request)) if row.response else ():
            self._add(row.ended_at_ms, end)

    def of_topics(self, topic_names: Mapping[str, str]) -> dict[TopicPartition, tuple[LogEnd, ...]]:
        """The ends of each log in the order of their times; `topic_names` has the names of topics by their ids."""
        found: dict[TopicPartition, list[LogEnd]] = {}
        for (topic, partition), ends in self._ends.items():
            name = topic if isinstance(topic, str) else topic_names.get(topic_id_text(topic))
            if name is not None:
                found.setdefault(TopicPartition(name, partition), []).extend(ends)
        return {partition: tuple(_steps(sorted(ends))) for partition, ends in found.items()}

    def _add(self, at_ms: int, end: _End) -> None:
        ends = self._ends.setdefault((end.topic, end.partition), [])
        if ends and ends[-1].offset == end.offset:
            return
        ends.append(LogEnd(at_ms, end.offset))
        if len(ends) > MAX_ENDS:
            del ends[:-1:2]


def _steps(ends: list[LogEnd]) -> Iterator[LogEnd]:
    """Each end that differs from the one before. Responses of one millisecond are in no certain order: the highest of
    them counts."""
    before: LogEnd | None = None
    for place, each in enumerate(ends):
        is_last_of_time = place + 1 == len(ends) or ends[place + 1].at_ms != each.at_ms
        if is_last_of_time and (before is None or each.offset != before.offset):
            before = each
            yield each


def _ends_in(row: ExchangeRow) -> Iterator[_End]:
    match row.request[:2]:
        case key if key == _FETCH:
            version = int.from_bytes(row.request[2:4], "big")
            yield from _of_fetch(row.response, version) if version >= FIRST_READ_VERSION else ()
        case key if key == _LIST_OFFSETS:
            yield from _of_list_offsets(RecordedExchange(row))
        case _:
            yield from _of_produce(RecordedExchange(row))


def _of_fetch(frame: bytes, version: int) -> Iterator[_End]:
    """The high watermarks up to where the frame was cut: of responses with records only the begin is recorded."""
    is_flexible = version in FetchResponse.flexible
    position = 4 + is_flexible + 4 + (6 if version >= 7 else 0)
    try:
        topics, position = _length(frame, position, is_flexible)
        for _ in range(topics):
            topic: _Topic
            if version >= 13:
                topic, position = frame[position : position + 16], position + 16
            else:
                topic, position = _text(frame, position, is_flexible)
            partitions, position = _length(frame, position, is_flexible)
            for _ in range(partitions):
                partition, error_code, offset = _PARTITION.unpack_from(frame, position)
                if error_code == 0 and offset >= 0:
                    yield _End(topic, partition, offset)
                position = _after_partition(frame, position + _PARTITION.size, version, is_flexible)
            position = skip_tagged_fields(frame, position) if is_flexible else position
    except (IndexError, ValueError, struct.error):
        return  # the frame was cut here


def _after_partition(frame: bytes, position: int, version: int, is_flexible: bool) -> int:
    """The position in the frame after the fields of a partition that follow its high watermark."""
    position += 16 if version >= 5 else 8
    aborted, position = _length(frame, position, is_flexible)
    if aborted > len(frame):
        raise ValueError(f"{aborted} aborted transactions in {len(frame)} bytes")
    for _ in range(aborted):
        position += 16
        position = skip_tagged_fields(frame, position) if is_flexible else position
    position += 4 if version >= 11 else 0
    if is_flexible:
        size, position = _length(frame, position, is_flexible)
        return skip_tagged_fields(frame, position + max(0, size))
    (size,) = struct.unpack_from(">i", frame, position)
    return int(position + 4 + max(0, size))


def _length(frame: bytes, position: int, is_flexible: bool) -> tuple[int, int]:
    """A length that is encoded at this position, and the position after it; a null has a length below 0."""
    if is_flexible:
        value, position = long_uvarint(frame, position)
        return value - 1, position + 1
    (value,) = struct.unpack_from(">i", frame, position)
    return value, position + 4


def _text(frame: bytes, position: int, is_flexible: bool) -> tuple[str, int]:
    if is_flexible:
        length, position = _length(frame, position, is_flexible)
    else:
        (length,) = struct.unpack_from(">h", frame, position)
        position += 2
    return frame[position : position + length].decode(), position + length


def _of_list_offsets(exchange: RecordedExchange) -> Iterator[_End]:
    request, response = exchange.request, exchange.response
    if not isinstance(request, ListOffsetsRequest) or not isinstance(response, ListOffsetsResponse):
        return
    if request.isolation_level != READ_UNCOMMITTED:
        return  # it asks for the end of the last transaction that is complete
    wanted = {
        (topic.name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
        if each.timestamp == LATEST
    }
    for topic in response.topics:
        for each in topic.partitions:
            if (topic.name, each.partition_index) in wanted and each.error_code == 0 and each.offset >= 0:
                yield _End(topic.name, each.partition_index, each.offset)


def _of_produce(exchange: RecordedExchange) -> Iterator[_End]:
    """Yield the ends of the logs after a Produce request has been appended, if the whole request was recorded."""
    request, response = exchange.request, exchange.response
    if not isinstance(request, ProduceRequest) or not isinstance(response, ProduceResponse):
        return
    counts = {
        (topic.name or topic.topic_id, each.index): _offsets_in(each.records or b"")
        for topic in request.topic_data
        for each in topic.partition_data
    }
    for answered in response.responses:
        for part in answered.partition_responses:
            count = counts.get((answered.name or answered.topic_id, part.index), 0)
            if part.error_code == 0 and part.base_offset >= 0 and count:
                yield _End(answered.name or answered.topic_id, part.index, part.base_offset + count)


def _offsets_in(records: bytes) -> int:
    """How many offsets the record batches in these bytes take; 0 if they cannot be decoded."""
    try:
        return sum(read_batch_header(each.data).last_offset_delta + 1 for each in split_batches(records))
    except Malformed:
        return 0
