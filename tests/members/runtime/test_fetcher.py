"""What a fetcher reads from a log: records, batches without records, and gaps between them."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import pytest
from msgspec.structs import replace

from regroup.members.consumer.effects import NodeAddress, OutgoingRequest
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.runtime.application import FetchedRecord, SimulatedApplication
from regroup.members.runtime.fetcher import Fetcher
from regroup.members.runtime.workload import RecordLedger, Workload
from regroup.members.transports.base import TransportCallback
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from regroup.protocol.messages.records import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    PartitionData,
)
from regroup.protocol.record_batch import CONTROL, HEADER_BYTES, TRANSACTIONAL, BatchRecord, write_batch
from regroup.server.log.partition_log import PartitionLog

ORDERS_0 = TopicPartition("orders", 0)


def metadata(leader_id: int) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader_id, replica_nodes=[0], isr_nodes=[0])
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=leader_id, host="here", port=9092 + leader_id)],
        topics=[MetadataResponseTopic(name="orders", partitions=[partition])],
    )


METADATA = metadata(leader_id=0)


class FailoverTransport:
    """A transport that names the next broker as leader in each Metadata response, and on which every Fetch fails."""

    def __init__(self) -> None:
        self.metadata_count = 0
        self.fetched_from: list[NodeAddress | None] = []

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        if isinstance(request.message, MetadataRequest):
            self.metadata_count += 1
            callback(ResponseReceived(request.request_id, metadata(leader_id=self.metadata_count - 1)))
        else:
            self.fetched_from.append(request.address)
            loop = asyncio.get_running_loop()
            loop.call_soon(callback, RequestFailed(request.request_id, "the connection broke"))

    def disconnect_coordinator(self) -> None: ...

    async def close(self) -> None: ...


class FakeTransport:
    """A transport that answers Metadata and the first Fetch at once, with the given records, and no further Fetch."""

    def __init__(self, records: bytes, aborted: Sequence[AbortedTransaction] = ()) -> None:
        self._records, self._aborted = records, list(aborted)
        self.isolation_levels: list[int] = []
        self.fetch_offsets: list[int] = []
        self.is_slow = False
        self.late_responses: list[Callable[[], None]] = []
        """The responses that a slow broker has not sent yet."""

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        message = request.message
        if isinstance(message, MetadataRequest):
            callback(ResponseReceived(request.request_id, METADATA))
        elif isinstance(message, FetchRequest):
            self.isolation_levels.append(message.isolation_level)
            self.fetch_offsets.append(message.topics[0].partitions[0].fetch_offset)
            if len(self.fetch_offsets) == 1:
                data = PartitionData(
                    partition_index=0, high_watermark=0, records=self._records, aborted_transactions=self._aborted
                )
                topic = FetchableTopicResponse(topic="orders", partitions=[data])
                respond = partial(callback, ResponseReceived(request.request_id, FetchResponse(responses=[topic])))
                if self.is_slow:
                    self.late_responses.append(respond)
                else:
                    respond()

    def disconnect_coordinator(self) -> None: ...

    async def close(self) -> None: ...


class FakeApplication:
    """An application that notes the offsets of records and the gaps."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.gaps: list[tuple[int, int]] = []

    def buffers(self, partition: TopicPartition) -> bool:
        return False

    def start_partition(self, partition: TopicPartition, offset: int) -> None: ...

    def skip_offsets(self, partition: TopicPartition, first: int, stop: int) -> None:
        self.gaps.append((first, stop))

    def add_records(self, records: Sequence[FetchedRecord]) -> None:
        self.offsets += [record.offset for record in records]


def fetch(records: bytes, start: int = 0) -> tuple[FakeApplication, FakeTransport]:
    application, transport = FakeApplication(), FakeTransport(records)
    settings = ConsumerSettings(group_id="g", auto_offset_reset="earliest")
    fetcher = Fetcher(transport, settings, application)
    fetcher.add_partitions({ORDERS_0: start})
    fetcher.close()
    return application, transport


def fetch_transactions(*, read_committed: bool, joins_at: int = 0) -> tuple[FakeApplication, FakeTransport]:
    """Read a log in which producer 7 aborts a transaction, commits one and aborts another; producer 8 commits one."""
    log = transactional(7, 0) + transactional(8, 1) + marker(7, 2, committed=False) + transactional(7, 3)
    log += marker(7, 4, committed=True) + marker(8, 5, committed=True) + transactional(7, 6)
    log += marker(7, 7, committed=False) + batch(b"plain", base_offset=8)
    aborted = [AbortedTransaction(producer_id=7, first_offset=each) for each in (0, 6)]
    application, transport = FakeApplication(), FakeTransport(log, aborted)
    level: Literal["read_committed", "read_uncommitted"] = "read_committed" if read_committed else "read_uncommitted"
    fetcher = Fetcher(transport, ConsumerSettings(group_id="g", isolation_level=level), application)
    fetcher.add_partitions({ORDERS_0: joins_at})
    fetcher.close()
    return application, transport


def transactional(producer_id: int, offset: int) -> bytes:
    return write_batch(
        [BatchRecord(value=b"a")],
        base_timestamp_ms=7,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        attributes=TRANSACTIONAL,
    )


def marker(producer_id: int, offset: int, *, committed: bool) -> bytes:
    return write_batch(
        [BatchRecord(key=b"\0\0\0\1" if committed else b"\0\0\0\0", value=b"\0" * 6)],
        base_timestamp_ms=7,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        attributes=TRANSACTIONAL | CONTROL,
    )


def empty_batches(until: int) -> bytes:
    """The log of a partition that has lost its records in a restart: batches without records fill the offsets."""
    log = PartitionLog(leader_epoch=0, retention_bytes=-1, log_end_offset=until)
    return b"".join(log.read(0, before=until, max_bytes=1 << 20, at_least_one=True))


def batch(*values: bytes, base_offset: int) -> bytes:
    return write_batch([BatchRecord(value=value) for value in values], base_timestamp_ms=7, base_offset=base_offset)


def test_records_are_read_from_the_position_on_even_inside_a_batch() -> None:
    application, transport = fetch(batch(b"a", b"b", b"c", base_offset=0) + batch(b"d", base_offset=3), start=1)
    assert application.offsets == [1, 2, 3]
    assert application.gaps == []
    assert transport.fetch_offsets == [1, 4]


def test_a_batch_without_records_is_skipped() -> None:
    application, transport = fetch(empty_batches(until=1_000) + batch(b"a", base_offset=1_000), start=30)
    assert application.offsets == [1_000]
    assert application.gaps == [(30, 1_000)]
    assert transport.fetch_offsets == [30, 1_001]


def test_a_log_without_records_is_skipped_to_its_end() -> None:
    application, transport = fetch(empty_batches(until=1_000))
    assert application.offsets == []
    assert application.gaps == [(0, 1_000)]
    assert transport.fetch_offsets == [0, 1_000]


def test_records_fetched_before_a_partition_was_removed_are_dropped_when_it_is_added_again() -> None:
    """Records from offset 5 on come when the position is 2: those before 5 must not be taken for a gap."""
    application, transport = FakeApplication(), FakeTransport(batch(b"f", base_offset=5))
    transport.is_slow = True
    fetcher = Fetcher(transport, ConsumerSettings(group_id="g"), application)
    fetcher.add_partitions({ORDERS_0: 5})
    fetcher.remove_partitions([ORDERS_0])
    fetcher.add_partitions({ORDERS_0: 2})
    transport.late_responses.pop()()
    fetcher.close()
    assert (application.offsets, application.gaps) == ([], [])
    assert transport.fetch_offsets == [5, 2]


def test_a_read_committed_member_leaves_out_aborted_records_and_no_other_ones() -> None:
    application, transport = fetch_transactions(read_committed=True)
    assert application.offsets == [1, 3, 8]
    assert application.gaps == [(0, 1), (2, 3), (4, 8)]
    assert transport.isolation_levels[0] == 1


def test_a_read_committed_member_begins_inside_an_aborted_transaction() -> None:
    application, _ = fetch_transactions(read_committed=True, joins_at=1)
    assert application.offsets == [1, 3, 8]


def test_a_read_uncommitted_member_reads_aborted_records_and_no_markers() -> None:
    application, transport = fetch_transactions(read_committed=False)
    assert application.offsets == [0, 1, 3, 6, 8]
    assert transport.isolation_levels[0] == 0


def test_a_marker_that_compaction_has_removed_is_skipped_as_a_batch_without_records() -> None:
    emptied = bytearray(marker(7, 0, committed=False)[:HEADER_BYTES])
    emptied[8:12], emptied[-4:] = (HEADER_BYTES - 12).to_bytes(4), bytes(4)  # the length, and the number of records
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)]
    application, transport = FakeApplication(), FakeTransport(bytes(emptied) + batch(b"a", base_offset=1), aborted)
    fetcher = Fetcher(transport, ConsumerSettings(group_id="g", isolation_level="read_committed"), application)
    fetcher.add_partitions({ORDERS_0: 0})
    fetcher.close()
    assert application.offsets == [1]


def test_a_partition_is_fetched_again_when_poll_has_returned_all_its_records() -> None:
    application = SimulatedApplication(Workload(max_poll_records=2), RecordLedger())
    transport = FakeTransport(batch(b"a", b"b", b"c", base_offset=0))
    fetcher = Fetcher(transport, ConsumerSettings(group_id="g"), application)
    fetcher.add_partitions({ORDERS_0: 0})
    for fetched in ([0], [0, 3]):
        application.take_poll_batch()
        fetcher.send_fetches()
        assert transport.fetch_offsets == fetched
    fetcher.close()


def test_a_poll_that_returns_as_many_records_as_it_may_does_not_see_that_no_more_are_buffered() -> None:
    application = SimulatedApplication(Workload(max_poll_records=3), RecordLedger())
    transport = FakeTransport(batch(b"a", b"b", b"c", base_offset=0))
    fetcher = Fetcher(transport, ConsumerSettings(group_id="g"), application)
    fetcher.add_partitions({ORDERS_0: 0})
    for records, fetched in ((3, [0]), (0, [0, 3])):
        assert len(application.take_poll_batch()) == records
        fetcher.send_fetches()
        assert transport.fetch_offsets == fetched
    fetcher.close()


class TwoPartitionsTransport(FakeTransport):
    """A transport that answers the first Fetch with a record of each of two partitions."""

    def __init__(self) -> None:
        super().__init__(b"")
        self.fetched: list[dict[int, int]] = []

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        if isinstance(request.message, MetadataRequest):
            topic = METADATA.topics[0]
            partitions = [replace(topic.partitions[0], partition_index=each) for each in (0, 1)]
            response = replace(METADATA, topics=[replace(topic, partitions=partitions)])
            callback(ResponseReceived(request.request_id, response))
        elif isinstance(request.message, FetchRequest):
            self.fetched.append({each.partition: each.fetch_offset for each in request.message.topics[0].partitions})
            if len(self.fetched) == 1:
                data = [
                    PartitionData(partition_index=each, high_watermark=0, records=batch(b"a", base_offset=0))
                    for each in (0, 1)
                ]
                topic_data = FetchableTopicResponse(topic="orders", partitions=data)
                callback(ResponseReceived(request.request_id, FetchResponse(responses=[topic_data])))


@pytest.mark.parametrize(("max_poll_records", "fetched"), [(500, [{0: 0, 1: 0}, {0: 1, 1: 1}]), (1, [{0: 0, 1: 0}])])
def test_poll_gets_the_records_of_all_partitions_of_a_response_and_nothing_is_fetched_before(
    max_poll_records: int, fetched: list[dict[int, int]]
) -> None:
    """A second Fetch is sent when all are polled, since one leader has both partitions."""

    def poll() -> None:
        polls.append([each.partition.partition for each in application.take_poll_batch()])
        fetcher.send_fetches()

    polls: list[list[int]] = []
    application = SimulatedApplication(Workload(max_poll_records=max_poll_records), RecordLedger(), on_fetched=poll)
    transport = TwoPartitionsTransport()
    fetcher = Fetcher(transport, ConsumerSettings(group_id="g"), application)
    fetcher.add_partitions({ORDERS_0: 0, TopicPartition("orders", 1): 0})
    fetcher.close()
    assert (polls, transport.fetched) == ([[0, 1][:max_poll_records]], fetched)


class OutOfRangeTransport(FakeTransport):
    """A transport on which the log does not have offset 9; the response to another Fetch waits."""

    def __init__(self) -> None:
        super().__init__(b"")
        self.offsets_asked_for = 0

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        if isinstance(request.message, FetchRequest):
            if request.message.topics[0].partitions[0].fetch_offset != 9:
                self.late_responses.append(
                    partial(callback, ResponseReceived(request.request_id, FetchResponse(responses=[])))
                )
                return
            data = PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=0)
            topic = FetchableTopicResponse(topic="orders", partitions=[data])
            callback(ResponseReceived(request.request_id, FetchResponse(responses=[topic])))
        elif isinstance(request.message, ListOffsetsRequest):
            self.offsets_asked_for += 1
        else:
            super().send(request, callback)


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        (lambda fetcher: None, 1),
        (lambda fetcher: fetcher.remove_partitions([ORDERS_0]), 0),
        (lambda fetcher: fetcher.add_partitions({ORDERS_0: 3}), 0),
    ],
    ids=["kept", "removed", "added at another position"],
)
def test_a_position_that_is_out_of_range_is_reset_by_the_next_poll_if_it_is_still_the_position(
    change: Callable[[Fetcher], None], asked: int
) -> None:
    polls: list[str] = []
    application = SimulatedApplication(Workload(), RecordLedger(), on_fetched=lambda: polls.append("wanted"))
    transport = OutOfRangeTransport()
    fetcher = Fetcher(transport, ConsumerSettings(group_id="g"), application)
    fetcher.add_partitions({ORDERS_0: 9})
    fetcher.send_fetches()
    assert (transport.offsets_asked_for, polls) == (0, ["wanted"])
    change(fetcher)
    fetcher.reset_positions()
    for respond in transport.late_responses[:1]:
        respond()
    assert transport.offsets_asked_for == asked
    fetcher.close()


@pytest.mark.parametrize("polled", [0, 1])
@pytest.mark.parametrize("forget", [lambda application: application.drop([ORDERS_0]), SimulatedApplication.clear])
def test_records_that_were_dropped_are_no_longer_buffered(
    forget: Callable[[SimulatedApplication], None], polled: int
) -> None:
    application = SimulatedApplication(Workload(max_poll_records=1), RecordLedger())
    application.add_records([FetchedRecord(ORDERS_0, 0, 0)])
    for _ in range(polled):
        application.take_poll_batch()
    assert application.buffers(ORDERS_0)
    forget(application)
    assert not application.buffers(ORDERS_0)


async def test_a_leader_that_cannot_be_reached_is_looked_up_again() -> None:
    transport = FailoverTransport()
    fetcher = Fetcher(transport, ConsumerSettings(group_id="g"), FakeApplication())
    fetcher.add_partitions({ORDERS_0: 0})
    await asyncio.sleep(0.3)
    fetcher.close()
    assert transport.fetched_from == [NodeAddress(0, "here", 9092), NodeAddress(1, "here", 9093)]
