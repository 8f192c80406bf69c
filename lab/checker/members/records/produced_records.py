"""What producers write: each record with its key, in the partition that its producer's partitioner has to choose.

produced = ProducedRecords(workload, now_ms, report)
produced.add_producer("orders", 7)            # the first random number of the producer of this topic
produced.on_response(message, response)       # how many partitions the producer knows of each topic
produced.on_request(message)                  # reports what violates an invariant in what was sent before this instant

The hash and the rules are written from Kafka's documentation, and not with the partitioners of the members.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from struct import unpack
from typing import Any, Final

from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.lab.checker.members.records.built_in_partitions import BuiltInPartitions
from regroup.members.runtime.workload import Workload
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import MetadataRequest, MetadataResponse
from regroup.protocol.messages.records import ProduceRequest, ProduceResponse
from regroup.protocol.record_batch import read_records, split_batches

PRODUCED_ONCE: Final = (
    "A producer writes its records in order, each once, and takes its keys in turn, from the first to the last."
)
KEY_DECIDES: Final = "Records of one key go to the partition of its murmur2 hash, unless the partitioner ignores keys."
TURN_DECIDES: Final = (
    "Records whose partition no key decides go to the partitions in turn with a round-robin partitioner."
)
BATCH_DECIDES: Final = (
    "Records whose partition no key decides stay in one partition for a batch with a sticky partitioner, and then go "
    "to another one."
)
LOAD_DECIDES: Final = (
    "Records whose partition no key decides go to the partition that the random numbers of the built-in partitioner "
    "select: another one after batch.size bytes and a full batch, or twice as many bytes, and less often one with more "
    "batches without a response (KIP-794)."
)
ASKS_ONCE: Final = "A producer sends no Metadata request while one for the same topic is without a response."
ASKS_AGAIN: Final = (
    "A producer whose Produce request for a partition has failed or was refused asks for the leaders of the topic "
    "before it sends another one for that partition."
)
PRODUCED_SENTENCES: Final = (
    *(PRODUCED_ONCE, KEY_DECIDES, TURN_DECIDES, BATCH_DECIDES, LOAD_DECIDES, ASKS_ONCE, ASKS_AGAIN),
)
IGNORES_KEYS: Final = frozenset({"RoundRobinPartitioner", "UniformStickyPartitioner"})
IN_TURN: Final = frozenset({"RoundRobinPartitioner", "DefaultPartitioner-before-2.4"})


@dataclass(slots=True)
class _Produced:
    """One record as it was sent."""

    number: int
    key: bytes | None
    size_bytes: int
    partition: int


@dataclass(slots=True)
class _TopicProgress:
    """What a producer has written into a topic, up to its last record that was judged."""

    partition_count: int = 0
    is_asking: bool = False
    """Whether a Metadata request for it has no response yet."""
    refused: set[int] = field(default_factory=set)
    """The partitions for which a Produce request was refused since the last Metadata response."""
    sent_at_ms: int = -1
    unjudged: list[_Produced] = field(default_factory=list)
    """The records of the last instant."""
    counted_partitions: int = 0
    """The number of partitions at the last record."""
    next_number: int = 0
    last_partition: int = -1
    """The partition of the last record whose partition no key decides; -1 before the first."""
    batch_bytes: int = 0
    """The bytes in the open batch of that partition."""
    built_in: BuiltInPartitions | None = None
    """Where a built-in partitioner has to send its records."""


class ProducedRecords:
    """The records of the producers of a run, all with the same workload, one producer for each topic.

    `now_ms` gives the milliseconds since the run began; `report` gets violations.
    """

    def __init__(
        self, workload: Workload, now_ms: Callable[[], int], report: Callable[[Iterable[MemberViolation]], None]
    ) -> None:
        self._workload, self._now_ms, self._report = workload, now_ms, report
        settings = workload.partitioner
        self._class = settings.partitioner_class
        self._batch_size = settings.batch_size
        self._ignores_keys = self._class in IGNORES_KEYS or (
            self._class == "BuiltInPartitioner" and settings.partitioner_ignore_keys
        )
        self._topics: dict[str, _TopicProgress] = {}

    def add_producer(self, topic: str, draw: int) -> None:
        """Begin to check the producer of a topic, whose first random number is `draw`."""
        if self._class == "BuiltInPartitioner":
            built_in = BuiltInPartitions(self._workload.partitioner, draw, self._now_ms)
            self._topics.setdefault(topic, _TopicProgress()).built_in = built_in

    def on_response(self, message: Message, response: Any) -> None:
        """Keep the partitions that the producer learns from a Metadata response, and note that batches have got their
        response; None for a request that has failed."""
        for name in _topics_asked_for(message):
            self._topics.setdefault(name, _TopicProgress()).is_asking = False
        for topic in response.topics if isinstance(response, MetadataResponse) else ():
            if not topic.error_code and topic.name is not None:
                progress = self._topics.setdefault(topic.name, _TopicProgress())
                progress.partition_count = len(topic.partitions)
                progress.refused.clear()
                if progress.built_in:
                    progress.built_in.on_leaders({each.partition_index: each.leader_id for each in topic.partitions})
        accepted = _accepted_partitions(response)
        for sent in message.topic_data if isinstance(message, ProduceRequest) else ():
            progress = self._topics[sent.name]
            for data in sent.partition_data:
                if progress.built_in:
                    progress.built_in.on_answered(data.index)
                if (sent.name, data.index) not in accepted:
                    progress.refused.add(data.index)

    def on_request(self, message: Message) -> None:
        """Take the records of a Produce request, and judge those that were sent before this instant. A Metadata request
        is judged at once.

        The records of one instant leave in several requests, one for each leader.
        """
        at_ms = self._now_ms()
        for name in _topics_asked_for(message):
            progress = self._topics.setdefault(name, _TopicProgress())
            if progress.is_asking:
                self._report([MemberViolation(ASKS_ONCE, f"the producer of {name} asks again")])
            progress.is_asking = True
        for topic in message.topic_data if isinstance(message, ProduceRequest) else ():
            progress = self._topics.setdefault(topic.name, _TopicProgress())
            if progress.sent_at_ms != at_ms:
                self._report(self._judge(topic.name, progress))
                progress.sent_at_ms, progress.unjudged = at_ms, []
                progress.counted_partitions, before = progress.partition_count, progress.counted_partitions
                if before != progress.counted_partitions:
                    progress.last_partition = -1
                if progress.built_in:
                    progress.built_in.begin(progress.counted_partitions)
            for data in topic.partition_data:
                if data.index in progress.refused:
                    detail = f"the producer of {topic.name} writes to partition {data.index}, whose leader has refused"
                    self._report([MemberViolation(ASKS_AGAIN, detail)])
                progress.unjudged += _records_in(data.records or b"", data.index)
                if progress.built_in:
                    progress.built_in.on_sent(data.index)

    def _judge(self, topic: str, progress: _TopicProgress) -> Iterator[MemberViolation]:
        progress.batch_bytes = 0
        for record in sorted(progress.unjudged, key=lambda each: each.number):
            yield from self._judge_order(topic, progress, record)
            progress.next_number = record.number + 1
            count = progress.counted_partitions
            if record.key is not None and not self._ignores_keys:
                wanted = partition_of_key(record.key, count)
                if record.partition != wanted:
                    where = f"{topic}-{record.partition} and not in {topic}-{wanted}"
                    yield MemberViolation(KEY_DECIDES, f"the record with the key {record.key!r} is in {where}")
                if progress.built_in:
                    progress.built_in.add_with_key(record.partition, record.size_bytes)
            elif progress.built_in:
                yield from self._judge_built_in(topic, progress.built_in, record)
            elif count > 1:
                yield from self._judge_without_key(topic, progress, record)

    def _judge_order(self, topic: str, progress: _TopicProgress, record: _Produced) -> Iterator[MemberViolation]:
        keys = self._workload.keys
        key = (b"key-%d" % (record.number % keys)).ljust(self._workload.key_bytes, b".") if keys else None
        if (record.number, record.key) != (progress.next_number, key):
            due = f"record {progress.next_number} with the key {key!r}"
            yield MemberViolation(
                PRODUCED_ONCE, f"{topic} gets record {record.number}, key {record.key!r}; due is {due}"
            )

    def _judge_without_key(self, topic: str, progress: _TopicProgress, record: _Produced) -> Iterator[MemberViolation]:
        last, progress.last_partition = progress.last_partition, record.partition
        here = f"record {record.number} is in {topic}-{record.partition}"
        if self._class in IN_TURN:
            first = record.number if self._class == "RoundRobinPartitioner" else record.partition
            wanted = first if last < 0 or self._class == "RoundRobinPartitioner" else last + 1
            if record.partition != wanted % progress.counted_partitions:
                yield MemberViolation(TURN_DECIDES, f"{here}, and the one before in {topic}-{last}")
        elif self._class != "BuiltInPartitioner":
            begins_batch = progress.batch_bytes == 0 or progress.batch_bytes + record.size_bytes > self._batch_size
            progress.batch_bytes = record.size_bytes + (0 if begins_batch else progress.batch_bytes)
            if last >= 0 and (last != record.partition) != begins_batch:
                state = "a new batch" if begins_batch else "an open batch"
                yield MemberViolation(BATCH_DECIDES, f"{here}, with {state}, and the one before in partition {last}")

    def _judge_built_in(self, topic: str, built_in: BuiltInPartitions, record: _Produced) -> Iterator[MemberViolation]:
        possible = built_in.possible()
        if record.partition not in possible:
            wanted = " or ".join(map(str, sorted(possible)))
            detail = f"record {record.number} is in {topic}-{record.partition}, and not in partition {wanted}"
            yield MemberViolation(LOAD_DECIDES, detail)
        built_in.add(record.partition, record.size_bytes)


def _accepted_partitions(response: Any) -> set[tuple[str, int]]:
    """The topics and partitions for which a Produce response has no error."""
    topics = response.responses if isinstance(response, ProduceResponse) else ()
    return {(topic.name, each.index) for topic in topics for each in topic.partition_responses if not each.error_code}


def _topics_asked_for(message: Message) -> list[str]:
    topics = message.topics if isinstance(message, MetadataRequest) else None
    return [topic.name for topic in topics or [] if topic.name is not None]


def _records_in(data: bytes, partition: int) -> Iterator[_Produced]:
    for batch in split_batches(data):
        for record in read_records(batch.data):
            key, value = record.key, record.value or b""
            yield _Produced(int(value.rstrip(b".")), key, len(key or b"") + len(value), partition)


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition of a key: Kafka's murmur2 without its sign, modulo the number of partitions."""
    word_count, rest = divmod(len(key), 4)
    hashed = 0x9747B28C ^ len(key)
    for word in unpack(f"<{word_count}I", key[: 4 * word_count]):
        mixed = _times(word)
        hashed = _times(hashed) ^ _times(mixed ^ (mixed >> 24))
    if rest:
        hashed = _times(hashed ^ sum(byte << 8 * place for place, byte in enumerate(key[-rest:])))
    hashed = _times(hashed ^ (hashed >> 13))
    return ((hashed ^ (hashed >> 15)) % 2**31) % partition_count


def _times(word: int) -> int:
    return word * 0x5BD1E995 % 2**32
