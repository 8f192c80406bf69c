"""What a fetcher reads from a log: records, batches without records, and gaps between them."""

from collections.abc import Callable, Sequence
from functools import partial

from regroup.members.consumer.effects import OutgoingRequest
from regroup.members.consumer.inputs import ResponseReceived
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.runtime.application import FetchedRecord
from regroup.members.runtime.fetcher import Fetcher
from regroup.members.transports.base import TransportCallback
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.cluster import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from regroup.protocol.messages.records import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from regroup.protocol.record_batch import BatchRecord, write_batch
from regroup.server.log.partition_log import PartitionLog

ORDERS_0 = TopicPartition("orders", 0)
METADATA = MetadataResponse(
    brokers=[MetadataResponseBroker(node_id=0, host="here", port=9092)],
    topics=[
        MetadataResponseTopic(
            name="orders",
            partitions=[MetadataResponsePartition(partition_index=0, leader_id=0, replica_nodes=[0], isr_nodes=[0])],
        )
    ],
)


class FakeTransport:
    """A transport that answers Metadata and the first Fetch at once, with the given records, and no further Fetch."""

    def __init__(self, records: bytes) -> None:
        self._records = records
        self.fetch_offsets: list[int] = []
        self.is_slow = False
        self.late_responses: list[Callable[[], None]] = []
        """The responses that a slow broker has not sent yet."""

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        message = request.message
        if isinstance(message, MetadataRequest):
            callback(ResponseReceived(request.request_id, METADATA))
        elif isinstance(message, FetchRequest):
            self.fetch_offsets.append(message.topics[0].partitions[0].fetch_offset)
            if len(self.fetch_offsets) == 1:
                data = PartitionData(partition_index=0, high_watermark=0, records=self._records)
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

    has_room = True

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.gaps: list[tuple[int, int]] = []

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
