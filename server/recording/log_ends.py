"""Where logs of partitions ended and what Fetch refused, as recorded requests to the leaders of partitions say.

A Fetch response has the high watermark of each partition, a response to ListOffsets the end that was asked for, and a
Produce response the offset that its first record got. Of a Fetch response with records only the begin is recorded, so
its frame is read here up to where it was cut.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from regroup.protocol.codec.decoder import long_uvarint, skip_tagged_fields
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
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.exchange import RecordedExchange

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
TopicKey: TypeAlias = str | bytes
"""The name of a topic or, since Fetch v13, its id."""


class ObservedEnd(NamedTuple):
    """The end of one log: the offset that its next record will get."""

    topic: TopicKey
    partition: int
    offset: int


def log_ends_in(row: ExchangeRow) -> Iterator[ObservedEnd]:
    """Yield the ends that the response says. The row has the frames of both request and response."""
    api_key = row.request[:2]
    if api_key == _FETCH:
        parts = _fetch_partitions(row)
        yield from (ObservedEnd(topic, index, end) for topic, index, code, end in parts if code == 0 and end >= 0)
    elif api_key == _LIST_OFFSETS:
        yield from _of_list_offsets(RecordedExchange(row))
    elif api_key == _PRODUCE:
        yield from _of_produce(RecordedExchange(row))


def fetch_error_codes(row: ExchangeRow) -> Iterator[int]:
    """Yield the error codes other than 0 of a Fetch response, also if it was cut: its own, and those of partitions."""
    version = _fetch_version(row)
    if version >= 7:
        start = 8 + (version in FetchResponse.flexible)
        if code := int.from_bytes(row.response[start : start + 2], "big", signed=True):
            yield code
    yield from (code for _, _, code, _ in _fetch_partitions(row) if code)


def _fetch_version(row: ExchangeRow) -> int:
    return int.from_bytes(row.request[2:4], "big")


def _fetch_partitions(row: ExchangeRow) -> Iterator[tuple[TopicKey, int, int, int]]:
    """Yield topic, partition, error code and high watermark of each partition, up to where the response was cut."""
    frame, version = row.response, _fetch_version(row)
    if version < FIRST_READ_VERSION:
        return
    is_flexible = version in FetchResponse.flexible
    position = 4 + is_flexible + 4 + (6 if version >= 7 else 0)
    try:
        topics, position = _length(frame, position, is_flexible)
        for _ in range(topics):
            topic: TopicKey
            if version >= 13:
                topic, position = frame[position : position + 16], position + 16
            else:
                topic, position = _text(frame, position, is_flexible)
            partitions, position = _length(frame, position, is_flexible)
            for _ in range(partitions):
                yield (topic, *_PARTITION.unpack_from(frame, position))
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


def _of_list_offsets(exchange: RecordedExchange) -> Iterator[ObservedEnd]:
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
                yield ObservedEnd(topic.name, each.partition_index, each.offset)


def _of_produce(exchange: RecordedExchange) -> Iterator[ObservedEnd]:
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
                yield ObservedEnd(answered.name or answered.topic_id, part.index, part.base_offset + count)


def _offsets_in(records: bytes) -> int:
    """How many offsets the record batches in these bytes take; 0 if they cannot be decoded."""
    try:
        return sum(read_batch_header(each.data).last_offset_delta + 1 for each in split_batches(records))
    except Malformed:
        return 0
