"""Fetching, as a consumer does it: from the leader of each partition, from where the group stands."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from regroup.members.consumer.effects import Address, Lane, Outgoing
from regroup.members.consumer.inputs import Answered, Unanswered
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.runtime.partition_leaders import REQUEST_TIMEOUT_MS, Leaders
from regroup.members.transports.base import Transport
from regroup.protocol.consumer.primitives import by_topic
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.exceptions import Malformed
from regroup.protocol.message import Message
from regroup.protocol.messages.records import (
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
from regroup.protocol.record_batch import read_header, split_records

FETCH_MAX_WAIT_MS: Final = 500
FETCH_MAX_BYTES: Final = 1 << 20
RETRY_S: Final = 0.25
LATEST: Final = -1
EARLIEST: Final = -2


class Fetched(NamedTuple):
    """One record as far as a run is interested in it. `produced_ms` is the time of its batch."""

    partition: TopicPartition
    offset: int
    produced_ms: int


class Application(Protocol):
    """Who takes the records."""

    def begins(self, partition: TopicPartition, offset: int) -> None:
        """Reading of a partition begins here."""

    def finds_nothing(self, partition: TopicPartition, first: int, stop: int) -> None:
        """There are no records from `first` up to `stop`, which is where reading goes on."""

    def fetched(self, records: Sequence[Fetched]) -> None:
        """Records came, in order within each partition."""

    @property
    def is_hungry(self) -> bool:
        """Whether more may be fetched."""


class Reader:
    """Reads the partitions it was told to, one Fetch at a time from each leader."""

    def __init__(self, transport: Transport, settings: ConsumerSettings, application: Application) -> None:
        self._transport = transport
        self._settings = settings
        self._application = application
        self._leaders = Leaders(transport, self.proceed)
        self._positions: dict[TopicPartition, int] = {}
        self._to_reset: dict[TopicPartition, None] = {}
        self._busy: dict[Address, None] = {}
        self._retry: asyncio.TimerHandle | None = None
        self._is_closed = False

    def read_from(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Read these too; without an offset `auto_offset_reset` says where to begin."""
        for partition, offset in offsets.items():
            if offset is None:
                self._to_reset[partition] = None
            else:
                self._begin(partition, offset)
        self._look()
        self.proceed()

    def stop(self, partitions: Sequence[TopicPartition]) -> None:
        """Do not read these any more; what is on its way of them is dropped."""
        for partition in partitions:
            self._positions.pop(partition, None)
            self._to_reset.pop(partition, None)

    def close(self) -> None:
        self._is_closed = True
        if self._retry is not None:
            self._retry.cancel()

    def _begin(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset
        self._application.begins(partition, offset)

    def _look(self) -> None:
        wanted = [*self._positions, *self._to_reset]
        if any(each not in self._leaders.of for each in wanted):
            self._leaders.look(tuple(dict.fromkeys(each.topic for each in wanted)))

    def _retry_soon(self) -> None:
        if self._retry is None and not self._is_closed:
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        self._look()
        self.proceed()

    def proceed(self) -> None:
        """Ask every leader that is not being asked."""
        if self._is_closed:
            return
        if any(each not in self._leaders.of for each in (*self._positions, *self._to_reset)):
            self._retry_soon()
        for leader, partitions in self._by_leader(self._to_reset).items():
            if leader not in self._busy:
                self._ask(leader, self._list_offsets(partitions))
        if self._application.is_hungry:
            for leader, partitions in self._by_leader(self._positions).items():
                if leader not in self._busy:
                    self._ask(leader, self._fetch(partitions))

    def _by_leader(self, partitions: Mapping[TopicPartition, object]) -> dict[Address, list[TopicPartition]]:
        led: dict[Address, list[TopicPartition]] = {}
        for partition in partitions:
            leader = self._leaders.of.get(partition)
            if leader is not None:
                led.setdefault(leader, []).append(partition)
        return led

    def _ask(self, leader: Address, message: Message) -> None:
        self._busy[leader] = None

        def answered(answer: Answered | Unanswered) -> None:
            self._busy.pop(leader, None)
            if self._is_closed:
                return
            if isinstance(answer, Answered) and self._take(answer.response, message):
                self.proceed()
            else:
                self._retry_soon()

        self._transport.send(Outgoing(0, Lane.LEADER, leader, message, REQUEST_TIMEOUT_MS), answered)

    def _list_offsets(self, partitions: Sequence[TopicPartition]) -> ListOffsetsRequest:
        timestamp = EARLIEST if self._settings.auto_offset_reset == "earliest" else LATEST
        return ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[ListOffsetsPartition(partition_index=each, timestamp=timestamp) for each in numbers],
                )
                for topic, numbers in by_topic(partitions).items()
            ]
        )

    def _fetch(self, partitions: Sequence[TopicPartition]) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=FETCH_MAX_WAIT_MS,
            min_bytes=1,
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

    def _take(self, response: Message, request: Message) -> bool:
        """Whether all went well; otherwise leaders are looked up again after a pause."""
        match response, request:
            case ListOffsetsResponse(), _:
                return self._take_offsets(response)
            case FetchResponse(error_code=ErrorCode.NONE), FetchRequest():
                asked_from = dict(_asked_from(request))
                taken = [
                    self._take_records(partition, data)
                    for partition, data in _by_partition(response)
                    if asked_from.get(partition, -1) == self._positions.get(partition)
                ]
                return all(taken)
            case _:
                return False

    def _take_offsets(self, response: ListOffsetsResponse) -> bool:
        all_well = True
        for topic in response.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if each.error_code:
                    all_well = False
                    self._leaders.of.pop(partition, None)
                elif partition in self._to_reset:
                    del self._to_reset[partition]
                    if self._settings.auto_offset_reset == "earliest":
                        self._application.finds_nothing(partition, 0, each.offset)
                    self._begin(partition, each.offset)
        return all_well

    def _take_records(self, partition: TopicPartition, data: PartitionData) -> bool:
        position = self._positions[partition]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            del self._positions[partition]
            self._to_reset[partition] = None
            return False
        if data.error_code:
            self._leaders.of.pop(partition, None)
            return False
        batches = [batch for batch in _batches(partition, data.records or b"") if batch.stop > position]
        records = [each for batch in batches for each in batch.records if each.offset >= position]
        if batches:
            stop = batches[-1].stop
            for first, behind in _holes(position, records, stop):
                self._application.finds_nothing(partition, first, behind)
            self._positions[partition] = stop
        if records:
            self._application.fetched(records)
        return True


def _asked_from(request: FetchRequest) -> Iterator[tuple[TopicPartition, int]]:
    """From where each partition was asked for.

    One that was given up and has begun elsewhere meanwhile stands there now, and the answer is not for it any more.
    """
    for topic in request.topics:
        for each in topic.partitions:
            yield TopicPartition(topic.topic, each.partition), each.fetch_offset


def _by_partition(response: FetchResponse) -> Iterator[tuple[TopicPartition, PartitionData]]:
    for topic in response.responses:
        for data in topic.partitions:
            yield TopicPartition(topic.topic, data.partition_index), data


def _holes(position: int, records: Sequence[Fetched], stop: int) -> Iterator[tuple[int, int]]:
    """Runs of offsets without records, from where reading stood to where it goes on."""
    if stop - position == len(records):
        return
    for record in records:
        if record.offset > position:
            yield position, record.offset
        position = record.offset + 1
    if stop > position:
        yield position, stop


class _Batch(NamedTuple):
    """What there is to read of a batch: nothing if it is empty or only marks the end of a transaction."""

    records: tuple[Fetched, ...]
    stop: int


def _batches(partition: TopicPartition, blob: bytes) -> Iterator[_Batch]:
    """Offsets and times, read off the headers alone, so that compression does not matter."""
    with suppress(Malformed):  # an old broker may cut the last batch off; the next Fetch brings it whole
        for entry in split_records(blob):
            if entry.magic < 2:
                yield _Batch((Fetched(partition, entry.base_offset, 0),), entry.base_offset + 1)
                continue
            header = read_header(entry.data)
            stop = header.last_offset + 1
            has_records = header.record_count > 0 and not header.is_control
            offsets = range(header.base_offset, stop) if has_records else ()
            yield _Batch(tuple(Fetched(partition, each, header.base_timestamp_ms) for each in offsets), stop)
