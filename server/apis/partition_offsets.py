"""Handlers of requests about the offsets of partitions: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

from regroup.protocol.errors import ErrorCode
from regroup.protocol.exceptions import Malformed
from regroup.protocol.internal_topics import INTERNAL_TOPICS
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
from regroup.protocol.record_batch import read_batch_header, read_record_deltas
from regroup.server.apis.partitions import READ_COMMITTED, PartitionFinder
from regroup.server.errors import RequestError
from regroup.server.limits import MAX_SCANNED_RECORDS
from regroup.server.log.partition_log import PartitionLog, StoredBatch, is_record_batch
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.net.turns import Turns

Wanted = TypeVar("Wanted")
Result = TypeVar("Result")

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_SINCE_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


class ListedOffset(NamedTuple):
    """The result of ListOffsets for a partition. The timestamp is -1 if the offset was not found by time; all fields
    are -1 if no record was found."""

    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


class OffsetApis:
    """Handles ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

    def __init__(self, finder: PartitionFinder) -> None:
        self._finder = finder

    def handlers(self) -> dict[int, RequestHandler]:
        return {
            ListOffsetsRequest.api_key: self.list_offsets,
            OffsetForLeaderEpochRequest.api_key: self.offset_for_leader_epoch,
            DeleteRecordsRequest.api_key: self.delete_records,
        }

    def _find_log(self, topic: str, index: int, known_epoch: int = -1) -> PartitionLog:
        return self._finder.find_log(self._finder.find_topic(topic), index, known_epoch)

    def list_offsets(self, request: ListOffsetsRequest, exchange: Exchange) -> Turns:
        """Answer a ListOffsets in turns, since each search may take long. A partition that the request names twice is
        refused, as in Kafka."""
        read_committed = request.isolation_level == READ_COMMITTED
        counts = Counter((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
        topics = []
        for topic in request.topics:
            partitions = []
            for each in topic.partitions:
                if counts[topic.name, each.partition_index] > 1:
                    code = ErrorCode.INVALID_REQUEST
                    partitions.append(
                        ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=code)
                    )
                    yield 1
                else:
                    partitions.append(self._list(topic.name, each, exchange.version, read_committed))
                    yield self._steps_of_search(topic.name, each)
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        exchange.respond(ListOffsetsResponse(topics=topics))

    def _steps_of_search(self, topic: str, wanted: ListOffsetsPartition) -> int:
        """The steps that the search for a partition costs. A search by time looks through all batches, and through the
        records of one of them, and costs more than one step."""
        if wanted.timestamp in (LATEST, EARLIEST):
            return 1
        try:
            return 1 + (self._find_log(topic, wanted.partition_index).batch_count + MAX_SCANNED_RECORDS) // 20
        except RequestError:
            return 1

    def _list(
        self, topic: str, wanted: ListOffsetsPartition, version: int, read_committed: bool
    ) -> ListOffsetsPartitionResponse:
        index = wanted.partition_index
        try:
            log = self._find_log(topic, index, wanted.current_leader_epoch)
        except RequestError as error:
            return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
        if wanted.timestamp < EARLIEST and version < _SINCE_VERSION.get(wanted.timestamp, version + 1):
            return ListOffsetsPartitionResponse(partition_index=index, error_code=ErrorCode.UNSUPPORTED_VERSION)
        if version == 0:
            offsets = old_style_offsets(log, wanted.timestamp, wanted.max_num_offsets)
            return ListOffsetsPartitionResponse(partition_index=index, old_style_offsets=offsets)
        listed = find_offset(log, wanted.timestamp, log.readable_end(read_committed=read_committed))
        return ListOffsetsPartitionResponse(
            partition_index=index,
            timestamp=listed.timestamp_ms,
            offset=listed.offset,
            leader_epoch=listed.leader_epoch if version >= 4 else -1,
        )

    def offset_for_leader_epoch(self, request: OffsetForLeaderEpochRequest, exchange: Exchange) -> Turns:
        topics = []
        for topic in request.topics:
            partitions = yield from _one_by_one(topic.partitions, partial(self._end_of_epoch, topic.topic))
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
        exchange.respond(OffsetForLeaderEpochResponse(topics=topics))

    def _end_of_epoch(self, topic: str, wanted: OffsetForLeaderPartition) -> OffsetForLeaderPartitionResult:
        try:
            log = self._find_log(topic, wanted.partition, wanted.current_leader_epoch)
        except RequestError as error:
            return OffsetForLeaderPartitionResult(error_code=error.code, partition=wanted.partition)
        epoch, end = log.leader_epoch_end(wanted.leader_epoch)
        return OffsetForLeaderPartitionResult(partition=wanted.partition, leader_epoch=epoch, end_offset=end)

    def delete_records(self, request: DeleteRecordsRequest, exchange: Exchange) -> Turns:
        topics = []
        for topic in request.topics:
            partitions = yield from _one_by_one(topic.partitions, partial(self._delete, topic.name))
            topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
        exchange.respond(DeleteRecordsResponse(topics=topics))

    def _delete(self, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        index = wanted.partition_index
        try:
            found = self._finder.find_topic(topic)
            if topic in INTERNAL_TOPICS and 0 <= index < found.partitions:
                raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION)  # before the leader is looked for
            log = self._finder.find_log(found, index)
            offset = log.high_watermark if wanted.offset == -1 else wanted.offset
            if not 0 <= offset <= log.high_watermark:
                raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
        except RequestError as error:
            return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=error.code)
        log.delete_before(offset)
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=log.log_start_offset)


def _one_by_one(wanted: Iterable[Wanted], result_of: Callable[[Wanted], Result]) -> Generator[int, None, list[Result]]:
    """The results for the partitions of a topic; each takes one step."""
    results = []
    for each in wanted:
        results.append(result_of(each))
        yield 1
    return results


def find_offset(log: PartitionLog, timestamp: int, before: int) -> ListedOffset:
    """The offset for the `timestamp` of a ListOffsets request, among records below offset `before`. Negative timestamps
    are Kafka's special values, such as -1 for LATEST."""
    if timestamp == LATEST:
        return ListedOffset(-1, before, log.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return ListedOffset(-1, log.log_start_offset, log.leader_epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return ListedOffset()
    if timestamp == MAX_TIMESTAMP:
        newest = log.batch_with_max_timestamp(before)
        return _find_in_batch(newest, newest.max_timestamp_ms) if newest else ListedOffset()
    batch = log.first_batch_at_or_after(timestamp, before)
    return _find_in_batch(batch, timestamp) if batch else ListedOffset()


def _find_in_batch(batch: StoredBatch, timestamp_ms: int) -> ListedOffset:
    """The first record of a batch with this timestamp or a later one. If the batch is compressed, or the record is not
    among its first MAX_SCANNED_RECORDS, the first record of the batch.

    A consumer that starts there reads some older records first, and misses none.
    """
    first = ListedOffset(batch.max_timestamp_ms, batch.base_offset, batch.leader_epoch)
    if not is_record_batch(batch.data):
        return first
    base_timestamp_ms = read_batch_header(batch.data).base_timestamp_ms
    try:
        for timestamp_delta_ms, offset_delta in islice(read_record_deltas(batch.data), MAX_SCANNED_RECORDS):
            at_ms = base_timestamp_ms + timestamp_delta_ms
            if at_ms >= timestamp_ms:
                return ListedOffset(at_ms, batch.base_offset + offset_delta, batch.leader_epoch)
    except Malformed:  # compressed, or written like this by the producer, since the checksum is valid
        pass
    return first


def old_style_offsets(log: PartitionLog, timestamp: int, max_offsets: int) -> list[int]:
    """The offsets of a ListOffsets v0 response, newest first, at most `max_offsets`: for LATEST the high watermark,
    then the start of the log, which here has one segment."""
    newest = [log.high_watermark] if timestamp == LATEST else []
    return list(dict.fromkeys([*newest, log.log_start_offset]))[: max(0, max_offsets)]
