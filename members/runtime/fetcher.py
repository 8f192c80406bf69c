"""Fetches the records of the assigned partitions from their leaders, as a consumer does, from its positions on."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from regroup.members.consumer.effects import NodeAddress, OutgoingRequest, RequestTarget
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.runtime.application import FetchedRecord, SimulatedApplication
from regroup.members.runtime.partition_leaders import REQUEST_TIMEOUT_MS, PartitionLeaders
from regroup.members.transports.base import MemberTransport
from regroup.protocol.consumer.primitives import by_topic
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.exceptions import Malformed
from regroup.protocol.message import Message
from regroup.protocol.messages.records import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    PartitionData,
)
from regroup.protocol.record_batch import read_batch_header, read_records, split_batches

FETCH_MAX_WAIT_MS: Final = 500
FETCH_MAX_BYTES: Final = 1 << 20
RETRY_BACKOFF_S: Final = 0.25
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
ABORT_MARKER_TYPE: Final = b"\0\0"
"""The type of a transaction marker that aborts, which follows the version in the marker's key."""


class Fetcher:
    """Fetches the records of a member's partitions, with one Fetch at a time from each leader."""

    def __init__(
        self, transport: MemberTransport, settings: ConsumerSettings, application: SimulatedApplication
    ) -> None:
        self._transport = transport
        self._settings = settings
        self._application = application
        self._isolation_level = READ_COMMITTED if settings.isolation_level == "read_committed" else READ_UNCOMMITTED
        self._leaders = PartitionLeaders(transport, self.send_fetches)
        self._positions: dict[TopicPartition, int] = {}
        self._out_of_range: dict[TopicPartition, None] = {}
        """Partitions whose log does not have the position any more, until poll() resets it."""
        self._to_reset: dict[TopicPartition, None] = {}
        self._busy: dict[NodeAddress, None] = {}
        self._retry: asyncio.TimerHandle | None = None
        self._is_closed = False

    def add_partitions(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Begin to read these partitions, from these offsets on. Where one is None, `auto_offset_reset` decides."""
        for partition, offset in offsets.items():
            self._out_of_range.pop(partition, None)
            self._to_reset.pop(partition, None)
            if offset is None:
                self._to_reset[partition] = None
            else:
                self._start(partition, offset)
        self._refresh_leaders()
        self.send_fetches()

    def remove_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop reading these partitions. Records of them that are in flight are dropped."""
        for partition in partitions:
            for table in (self._positions, self._out_of_range, self._to_reset):
                table.pop(partition, None)

    def reset_positions(self) -> None:
        """Look for another position where the log has none at the present one, as Kafka's consumer does in poll()."""
        if self._out_of_range:
            self._to_reset |= self._out_of_range
            self._out_of_range.clear()
            self.send_fetches()

    def close(self) -> None:
        """Send no more requests, and ignore the responses to those in flight."""
        self._is_closed = True
        if self._retry is not None:
            self._retry.cancel()

    def _start(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset
        self._application.start_partition(partition, offset)

    @property
    def _lacks_leaders(self) -> bool:
        return any(each not in self._leaders.by_partition for each in (*self._positions, *self._to_reset))

    def _refresh_leaders(self) -> None:
        if self._lacks_leaders:
            self._leaders.refresh(tuple(dict.fromkeys(each.topic for each in (*self._positions, *self._to_reset))))

    def _retry_later(self) -> None:
        if self._retry is None and not self._is_closed:
            self._retry = asyncio.get_running_loop().call_later(RETRY_BACKOFF_S, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        self._refresh_leaders()
        self.send_fetches()

    def send_fetches(self) -> None:
        """Send ListOffsets or Fetch to each leader that has no request in flight.

        As by Kafka's consumer, nothing is fetched from a leader while records of its partitions are buffered
        (KAFKA-17182).
        """
        if self._is_closed:
            return
        if self._lacks_leaders:
            self._retry_later()
        for leader, partitions in self._by_leader(self._to_reset).items():
            if leader not in self._busy:
                self._send(leader, self._list_offsets_request(partitions))
        for leader, partitions in self._by_leader(self._positions).items():
            if leader not in self._busy and not any(map(self._application.buffers, partitions)):
                self._send(leader, self._fetch_request(partitions))

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[NodeAddress, list[TopicPartition]]:
        led: dict[NodeAddress, list[TopicPartition]] = {}
        for partition in partitions:
            leader = self._leaders.by_partition.get(partition)
            if leader is not None:
                led.setdefault(leader, []).append(partition)
        return led

    def _send(self, leader: NodeAddress, message: Message) -> None:
        self._busy[leader] = None

        def handle(response: ResponseReceived | RequestFailed) -> None:
            self._busy.pop(leader, None)
            if self._is_closed:
                return
            if isinstance(response, RequestFailed):
                self._leaders.forget(leader)
                self._retry_later()
            elif self._process(response.response, message):
                self.send_fetches()
            else:
                self._retry_later()

        request = OutgoingRequest(0, RequestTarget.PARTITION_LEADER, leader, message, REQUEST_TIMEOUT_MS)
        self._transport.send(request, handle)

    def _list_offsets_request(self, partitions: Sequence[TopicPartition]) -> ListOffsetsRequest:
        timestamp = EARLIEST_TIMESTAMP if self._settings.auto_offset_reset == "earliest" else LATEST_TIMESTAMP
        return ListOffsetsRequest(
            isolation_level=self._isolation_level,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[ListOffsetsPartition(partition_index=each, timestamp=timestamp) for each in numbers],
                )
                for topic, numbers in by_topic(partitions).items()
            ],
        )

    def _fetch_request(self, partitions: Sequence[TopicPartition]) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=FETCH_MAX_WAIT_MS,
            min_bytes=1,
            isolation_level=self._isolation_level,
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[
                        FetchPartition(
                            partition=each,
                            fetch_offset=self._positions[TopicPartition(topic, each)],
                            partition_max_bytes=FETCH_MAX_BYTES,
                        )
                        for each in numbers
                    ],
                )
                for topic, numbers in by_topic(partitions).items()
            ],
        )

    def _process(self, response: Message, request: Message) -> bool:
        """Apply the response to a ListOffsets or Fetch request: take over its offsets or records.

        Returns False for an error: the leaders are then looked up again, and requests are sent after a backoff.
        """
        match response, request:
            case ListOffsetsResponse(), _:
                return self._process_offsets(response)
            case FetchResponse(error_code=ErrorCode.NONE), FetchRequest():
                # A partition that was removed and added again meanwhile stands at another position: the records are
                # not those that it waits for.
                requested = {
                    TopicPartition(topic.topic, each.partition): each.fetch_offset
                    for topic in request.topics
                    for each in topic.partitions
                }
                processed = [
                    self._process_records(partition, data)
                    for topic in response.responses
                    for data in topic.partitions
                    if (partition := TopicPartition(topic.topic, data.partition_index)) in self._positions
                    and requested.get(partition) == self._positions[partition]
                ]
                if self._out_of_range or any(map(self._application.buffers, requested)):
                    self._application.on_fetched()  # when all is buffered: poll() returns records of several partitions
                return all(processed)
            case _:
                return False

    def _process_offsets(self, response: ListOffsetsResponse) -> bool:
        is_ok = True
        for topic in response.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if each.error_code:
                    is_ok = False
                    self._leaders.by_partition.pop(partition, None)
                elif partition in self._to_reset:
                    del self._to_reset[partition]
                    if self._settings.auto_offset_reset == "earliest":
                        self._application.skip_offsets(partition, 0, each.offset)
                    self._start(partition, each.offset)
        return is_ok

    def _process_records(self, partition: TopicPartition, data: PartitionData) -> bool:
        position = self._positions[partition]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            del self._positions[partition]
            self._out_of_range[partition] = None
            return True
        if data.error_code:
            self._leaders.by_partition.pop(partition, None)
            return False
        aborted = data.aborted_transactions or () if self._isolation_level == READ_COMMITTED else ()
        batches = [batch for batch in _read_batches(partition, data.records or b"", aborted) if batch.stop > position]
        records = [each for batch in batches for each in batch.records if each.offset >= position]
        if batches:
            stop = batches[-1].stop
            for first, gap_stop in _gaps(position, records, stop):
                self._application.skip_offsets(partition, first, gap_stop)
            self._positions[partition] = stop
        if records:
            self._application.add_records(records)
        return True


def _gaps(position: int, records: Sequence[FetchedRecord], stop: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges without records among the offsets with position <= offset < stop."""
    if stop - position == len(records):
        return
    for record in records:
        if record.offset > position:
            yield position, record.offset
        position = record.offset + 1
    if stop > position:
        yield position, stop


class _FetchedBatch(NamedTuple):
    """The records of one batch; no records if it is empty, a transaction marker, or part of an aborted transaction that
    is not read. `stop` is the offset after its last offset."""

    records: tuple[FetchedRecord, ...]
    stop: int


def _read_batches(
    partition: TopicPartition, data: bytes, aborted: Sequence[AbortedTransaction] = ()
) -> Iterator[_FetchedBatch]:
    """Yield the batches of a Fetch response, by the offsets and times in their headers.

    The records themselves are not decoded, so their compression does not matter. The records of the transactions
    `aborted` are left out, as by Kafka's consumer: from the first offset of each to its marker.
    """
    filtered = AbortedProducers(aborted)
    with suppress(Malformed):  # an old broker may cut the last batch off; the next Fetch brings it whole
        for batch in split_batches(data):
            if batch.magic < 2:
                record = FetchedRecord(partition, batch.base_offset, 0)
                yield _FetchedBatch((record,), batch.base_offset + 1)
                continue
            header = read_batch_header(batch.data)
            stop = header.last_offset + 1
            is_left_out = filtered.leaves_out(batch.data) or header.is_control
            has_records = header.record_count > 0 and not is_left_out
            offsets = range(header.base_offset, stop) if has_records else ()
            records = tuple(FetchedRecord(partition, each, header.base_timestamp_ms) for each in offsets)
            yield _FetchedBatch(records, stop)


class AbortedProducers:
    """The producers whose transaction, at the batch that is read, is one that was aborted."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._ahead = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._producer_ids: set[int] = set()

    def leaves_out(self, batch: bytes) -> bool:
        """Whether the next batch of the partition is part of an aborted transaction.

        Batches are passed in the order of their offsets, markers too.
        """
        header = read_batch_header(batch)
        while self._ahead and self._ahead[-1].first_offset <= header.last_offset:
            self._producer_ids.add(self._ahead.pop().producer_id)
        if not header.is_transactional or header.producer_id not in self._producer_ids:
            return False
        if header.is_control:
            # Compaction may leave a marker's batch without its record.
            key = next((each.key or b"" for each in read_records(batch)), b"")
            if key[2:4] == ABORT_MARKER_TYPE:
                self._producer_ids.discard(header.producer_id)
            return False
        return True
