"""Where logs begin and end: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from typing import NamedTuple, cast

from regroup.protocol.errors import ErrorCode
from regroup.protocol.exceptions import Malformed
from regroup.protocol.messages.records import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from regroup.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from regroup.protocol.record_batch import read_header, read_records
from regroup.server.apis.partitions import PartitionFinder
from regroup.server.cluster.topics import Topic
from regroup.server.log.partition_log import PartitionLog, StoredBatch
from regroup.server.net.exchange import Exchange, Handler

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_SINCE_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_READ_COMMITTED = 1
_FORMAT_AT = 16


class Place(NamedTuple):
    """An offset with its record's time; -1 where there is none."""

    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


class OffsetApis:
    """Nothing here waits."""

    def __init__(self, finder: PartitionFinder) -> None:
        self._finder = finder

    def handlers(self) -> dict[int, Handler]:
        return {
            ListOffsetsRequest.api_key: self.list_offsets,
            OffsetForLeaderEpochRequest.api_key: self.offset_for_leader_epoch,
            DeleteRecordsRequest.api_key: self.delete_records,
        }

    def list_offsets(self, exchange: Exchange) -> None:
        request = cast("ListOffsetsRequest", exchange.request)
        read_committed = request.isolation_level == _READ_COMMITTED
        topics = []
        for asked in request.topics:
            topic = self._finder.topic(asked.name)
            listed = [self._list(topic, each, exchange.version, read_committed) for each in asked.partitions]
            topics.append(ListOffsetsTopicResponse(name=asked.name, partitions=listed))
        exchange.reply(ListOffsetsResponse(topics=topics))

    def _list(
        self, topic: Topic | ErrorCode, asked: ListOffsetsPartition, version: int, read_committed: bool
    ) -> ListOffsetsPartitionResponse:
        index = asked.partition_index
        log = self._finder.log(topic, index, asked.current_leader_epoch)
        if isinstance(log, ErrorCode):
            return ListOffsetsPartitionResponse(partition_index=index, error_code=log)
        if asked.timestamp < EARLIEST and version < _SINCE_VERSION.get(asked.timestamp, version + 1):
            return ListOffsetsPartitionResponse(partition_index=index, error_code=ErrorCode.UNSUPPORTED_VERSION)
        if version == 0:
            offsets = old_style_offsets(log, asked.timestamp, asked.max_num_offsets)
            return ListOffsetsPartitionResponse(partition_index=index, old_style_offsets=offsets)
        before = log.last_stable_offset if read_committed else log.high_watermark
        place = place_of(log, asked.timestamp, before)
        epoch = place.leader_epoch if version >= 4 else -1
        return ListOffsetsPartitionResponse(
            partition_index=index, timestamp=place.timestamp_ms, offset=place.offset, leader_epoch=epoch
        )

    def offset_for_leader_epoch(self, exchange: Exchange) -> None:
        request = cast("OffsetForLeaderEpochRequest", exchange.request)
        topics = []
        for asked in request.topics:
            topic = self._finder.topic(asked.topic)
            results = [self._end_of_epoch(topic, each) for each in asked.partitions]
            topics.append(OffsetForLeaderTopicResult(topic=asked.topic, partitions=results))
        exchange.reply(OffsetForLeaderEpochResponse(topics=topics))

    def _end_of_epoch(
        self, topic: Topic | ErrorCode, asked: OffsetForLeaderPartition
    ) -> OffsetForLeaderPartitionResult:
        log = self._finder.log(topic, asked.partition, asked.current_leader_epoch)
        if isinstance(log, ErrorCode):
            return OffsetForLeaderPartitionResult(error_code=log, partition=asked.partition)
        epoch, end = log.end_of_epoch(asked.leader_epoch)
        return OffsetForLeaderPartitionResult(partition=asked.partition, leader_epoch=epoch, end_offset=end)

    def delete_records(self, exchange: Exchange) -> None:
        request = cast("DeleteRecordsRequest", exchange.request)
        topics = []
        for asked in request.topics:
            topic = self._finder.topic(asked.name)
            results = [self._delete(topic, each) for each in asked.partitions]
            topics.append(DeleteRecordsTopicResult(name=asked.name, partitions=results))
        exchange.reply(DeleteRecordsResponse(topics=topics))

    def _delete(self, topic: Topic | ErrorCode, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        log = self._finder.log(topic, asked.partition_index)
        if isinstance(log, PartitionLog):
            offset = log.high_watermark if asked.offset == -1 else asked.offset
            if 0 <= offset <= log.high_watermark:
                log.forget_before(offset)
                return DeleteRecordsPartitionResult(
                    partition_index=asked.partition_index, low_watermark=log.log_start_offset
                )
        code = log if isinstance(log, ErrorCode) else ErrorCode.OFFSET_OUT_OF_RANGE
        return DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1, error_code=code)


def place_of(log: PartitionLog, timestamp: int, before: int) -> Place:
    """The offset that a time stands for; a negative one is one of Kafka's words."""
    if timestamp == LATEST:
        return Place(-1, before, log.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return Place(-1, log.log_start_offset, log.leader_epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return Place()
    if timestamp == MAX_TIMESTAMP:
        newest = log.newest(before)
        return _place_within(newest, newest.max_timestamp_ms) if newest else Place()
    batch = log.first_at_or_after(timestamp, before)
    return _place_within(batch, timestamp) if batch else Place()


def _place_within(batch: StoredBatch, timestamp_ms: int) -> Place:
    """The first record of a batch at this time or later. A compressed batch is not opened: its first record stands in.

    Whoever reads from there sees some older records first, and misses none.
    """
    place = Place(batch.max_timestamp_ms, batch.base_offset, batch.leader_epoch)
    if batch.data[_FORMAT_AT] != 2 or read_header(batch.data).compression:
        return place
    try:
        records = read_records(batch.data)
    except Malformed:
        return place  # the checksum is right, so this is what the producer wrote
    base_ms = read_header(batch.data).base_timestamp_ms
    for record in records:
        if base_ms + record.timestamp_delta_ms >= timestamp_ms:
            at_ms = base_ms + record.timestamp_delta_ms
            return Place(at_ms, batch.base_offset + record.offset_delta, batch.leader_epoch)
    return place


def old_style_offsets(log: PartitionLog, timestamp: int, most: int) -> list[int]:
    """ListOffsets v0: where segments begin that are older than a time, newest first. Our logs have one segment."""
    newest = [log.high_watermark] if timestamp == LATEST else []
    offsets = [*newest, log.log_start_offset]
    return list(dict.fromkeys(offsets))[: max(0, most)]
