"""A simulated producer: it writes records into one topic at a steady rate."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from regroup.members.consumer.effects import NodeAddress, OutgoingRequest, RequestTarget
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived
from regroup.members.partitioners import PartitionLoad, ProducedRecord, create_partitioner
from regroup.members.runtime.partition_leaders import REQUEST_TIMEOUT_MS, PartitionLeaders
from regroup.members.runtime.workload import Workload
from regroup.members.transports.base import MemberTransport
from regroup.protocol.consumer.primitives import by_topic
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.records import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from regroup.protocol.record_batch import BatchRecord, write_batch

LINGER_S: Final = 0.1
"""Seconds for which records are collected before they are sent in batches."""
ACKS_LEADER: Final = 1


class SimulatedProducer:
    """Writes `workload.records_per_s` records into a topic, in small batches, until it is closed.

    With `workload.keys` each record has one of so many keys, in turn. `workload.partitioner` chooses the partitions;
    `draw`, a whole number of at least 0, is its first random number. `now_ms()` is the time that records are stamped
    with. Records that are refused are counted and not sent again.
    """

    def __init__(
        self, transport: MemberTransport, topic: str, workload: Workload, *, draw: int, now_ms: Callable[[], int]
    ) -> None:
        self._transport = transport
        self._topic = topic
        self._workload = workload
        self._now_ms = now_ms
        self._leaders = PartitionLeaders(transport, lambda: None)
        self._partitioner = create_partitioner(workload.partitioner, draw)
        self._timer: asyncio.TimerHandle | None = None
        self._due_records = 0.0
        self._sent_at_s: dict[TopicPartition, deque[float]] = {}
        """For each partition, when its batches without a response were sent, in seconds of the loop's clock."""
        self.sent_count = 0
        self.acknowledged_count = 0
        self.refused_count = 0

    def start(self) -> None:
        """Start to produce. This must be called inside the event loop."""
        self._leaders.refresh((self._topic,))
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._produce)

    def close(self) -> None:
        """Produce no more records."""
        if self._timer is not None:
            self._timer.cancel()

    def _produce(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._produce)
        count = self._leaders.partition_counts.get(self._topic, 0)
        partitions = [TopicPartition(self._topic, number) for number in range(count)]
        if not count or any(each not in self._leaders.by_partition for each in partitions):
            self._leaders.refresh((self._topic,))
            return
        self._due_records += self._workload.records_per_s * LINGER_S
        batches: dict[TopicPartition, list[BatchRecord]] = {}
        load = self._load(partitions)
        while self._due_records >= 1:
            self._due_records -= 1
            record = self._next_record()
            size_bytes = len(record.key or b"") + len(record.value or b"")
            number = self._partitioner.partition(ProducedRecord(record.key, size_bytes), load)
            batches.setdefault(partitions[number], []).append(record)
        self._partitioner.close_batches()
        self._send(batches)

    def _next_record(self) -> BatchRecord:
        value = b"%d" % self.sent_count
        value += b"." * (self._workload.value_bytes - len(value))
        key = self._workload.key(self.sent_count)
        self.sent_count += 1
        return BatchRecord(key=key, value=value)

    def _load(self, partitions: list[TopicPartition]) -> PartitionLoad:
        slow: frozenset[int] = frozenset()
        if timeout_ms := self._workload.partitioner.partitioner_availability_timeout_ms:
            oldest_s = asyncio.get_running_loop().time() - timeout_ms / 1000
            leader_of = self._leaders.by_partition
            slow_leaders = [
                leader_of.get(each) for each, sent in self._sent_at_s.items() if sent and sent[0] < oldest_s
            ]
            slow = frozenset(each.partition for each in partitions if leader_of[each] in slow_leaders)
        lengths = tuple(len(self._sent_at_s.get(each, ())) for each in partitions)
        return PartitionLoad(len(partitions), tuple(range(len(partitions))), lengths, slow)

    def _send(self, batches: dict[TopicPartition, list[BatchRecord]]) -> None:
        by_leader: dict[NodeAddress, list[TopicPartition]] = {}
        for partition in batches:
            by_leader.setdefault(self._leaders.by_partition[partition], []).append(partition)
        for leader, partitions in by_leader.items():
            data = {each: write_batch(batches[each], base_timestamp_ms=self._now_ms()) for each in partitions}
            message = ProduceRequest(
                acks=ACKS_LEADER,
                timeout_ms=REQUEST_TIMEOUT_MS,
                topic_data=[
                    TopicProduceData(
                        name=topic,
                        partition_data=[
                            PartitionProduceData(index=number, records=data[TopicPartition(topic, number)])
                            for number in numbers
                        ],
                    )
                    for topic, numbers in by_topic(partitions).items()
                ],
            )
            for each in partitions:
                self._sent_at_s.setdefault(each, deque()).append(asyncio.get_running_loop().time())
            counts = {each: len(batches[each]) for each in partitions}
            request = OutgoingRequest(0, RequestTarget.PARTITION_LEADER, leader, message, REQUEST_TIMEOUT_MS)
            self._transport.send(request, partial(self._on_response, counts))

    def _on_response(self, counts: dict[TopicPartition, int], response: ResponseReceived | RequestFailed) -> None:
        codes: dict[TopicPartition, int] = {}
        if isinstance(response, ResponseReceived) and isinstance(response.response, ProduceResponse):
            codes = {
                TopicPartition(topic.name, each.index): each.error_code
                for topic in response.response.responses
                for each in topic.partition_responses
            }
        for partition, count in counts.items():
            self._sent_at_s[partition].popleft()
            if codes.get(partition) == 0:
                self.acknowledged_count += count
            else:
                self.refused_count += count
                self._leaders.by_partition.pop(partition, None)
