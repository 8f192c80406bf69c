"""What a reader makes of a log: records, batches that hold none, and holes between them."""

from collections.abc import Callable, Sequence
from functools import partial

from regroup.members.consumer.effects import Outgoing
from regroup.members.consumer.inputs import Answered
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.runtime.fetcher import Fetched, Reader
from regroup.members.transports.base import Reply
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.cluster import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from regroup.protocol.messages.records import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from regroup.protocol.record_batch import Record, write_batch
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


class Shelf:
    """A broker that answers at once: a Fetch with what is on the shelf, and the second one never."""

    def __init__(self, records: bytes) -> None:
        self._records = records
        self.asked_for: list[int] = []
        self.is_slow = False
        self.answers: list[Callable[[], None]] = []
        """What a slow broker is still to say."""

    def send(self, outgoing: Outgoing, reply: Reply) -> None:
        message = outgoing.message
        if isinstance(message, MetadataRequest):
            reply(Answered(outgoing.number, METADATA))
        elif isinstance(message, FetchRequest):
            self.asked_for.append(message.topics[0].partitions[0].fetch_offset)
            if len(self.asked_for) == 1:
                data = PartitionData(partition_index=0, high_watermark=0, records=self._records)
                topic = FetchableTopicResponse(topic="orders", partitions=[data])
                answer = partial(reply, Answered(outgoing.number, FetchResponse(responses=[topic])))
                if self.is_slow:
                    self.answers.append(answer)
                else:
                    answer()

    def hang_up(self) -> None: ...

    async def close(self) -> None: ...


class Told:
    """An application that remembers what it was told."""

    is_hungry = True

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.nothing: list[tuple[int, int]] = []

    def begins(self, partition: TopicPartition, offset: int) -> None: ...

    def finds_nothing(self, partition: TopicPartition, first: int, stop: int) -> None:
        self.nothing.append((first, stop))

    def fetched(self, records: Sequence[Fetched]) -> None:
        self.offsets += [record.offset for record in records]


def read(blob: bytes, start: int = 0) -> tuple[Told, Shelf]:
    told, shelf = Told(), Shelf(blob)
    settings = ConsumerSettings(group_id="g", auto_offset_reset="earliest")
    reader = Reader(shelf, settings, told)
    reader.read_from({ORDERS_0: start})
    reader.close()
    return told, shelf


def lost(until: int) -> bytes:
    """The log of a partition whose records went with its process: batches that hold nothing fill the place."""
    log = PartitionLog(leader_epoch=0, retention_bytes=-1, log_end_offset=until)
    return b"".join(log.read(0, before=until, max_bytes=1 << 20, at_least_one=True))


def batch(*values: bytes, base_offset: int) -> bytes:
    return write_batch([Record(value=value) for value in values], base_timestamp_ms=7, base_offset=base_offset)


def test_records_are_read_from_where_the_group_stands_even_in_the_middle_of_a_batch() -> None:
    told, shelf = read(batch(b"a", b"b", b"c", base_offset=0) + batch(b"d", base_offset=3), start=1)
    assert told.offsets == [1, 2, 3]
    assert told.nothing == []
    assert shelf.asked_for == [1, 4]


def test_a_batch_without_records_is_passed_over_and_no_record_is_made_of_it() -> None:
    told, shelf = read(lost(until=1_000) + batch(b"a", base_offset=1_000), start=30)
    assert told.offsets == [1_000]
    assert told.nothing == [(30, 1_000)]
    assert shelf.asked_for == [30, 1_001]


def test_a_reader_goes_on_behind_a_log_that_holds_nothing_at_all() -> None:
    told, shelf = read(lost(until=1_000))
    assert told.offsets == []
    assert told.nothing == [(0, 1_000)]
    assert shelf.asked_for == [0, 1_000]


def test_what_was_fetched_before_a_partition_was_given_up_is_not_what_it_reads_when_it_is_back() -> None:
    """Records from 5 on come, when the group stands at 2 again: those before 5 must not be taken for a hole."""
    told, shelf = Told(), Shelf(batch(b"f", base_offset=5))
    shelf.is_slow = True
    reader = Reader(shelf, ConsumerSettings(group_id="g"), told)
    reader.read_from({ORDERS_0: 5})
    reader.stop([ORDERS_0])
    reader.read_from({ORDERS_0: 2})
    shelf.answers.pop()()
    reader.close()
    assert (told.offsets, told.nothing) == ([], [])
    assert shelf.asked_for == [5, 2]
