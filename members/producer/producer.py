"""A producer of simulated records."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from regroup.members.consumer.effects import Address, Lane, Outgoing
from regroup.members.consumer.inputs import Answered, Unanswered
from regroup.members.producer.partitioners import RoundRobin, partition_for_key
from regroup.members.runtime.partition_leaders import REQUEST_TIMEOUT_MS, Leaders
from regroup.members.runtime.workload import Workload
from regroup.members.transports.base import Transport
from regroup.protocol.consumer.primitives import by_topic
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.records import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from regroup.protocol.record_batch import Record, write_batch

TICK_S: Final = 0.1
ACKS_OF_THE_LEADER: Final = 1


class Producer:
    """Writes `workload.records_per_s` records into a topic, in small batches, until it is closed.

    With `workload.keys` each record has one of so many keys, in turn, and murmur2 of it chooses the partition; without,
    partitions take turns from `draw`. `now_ms` is the time that the records bear. Records that are refused are counted
    and not sent again.
    """

    def __init__(
        self, transport: Transport, topic: str, workload: Workload, *, draw: int, now_ms: Callable[[], int]
    ) -> None:
        self._transport = transport
        self._topic = topic
        self._workload = workload
        self._now_ms = now_ms
        self._leaders = Leaders(transport, lambda: None)
        self._turn = RoundRobin(draw)
        self._timer: asyncio.TimerHandle | None = None
        self._owed = 0.0
        self.sent = 0
        self.written = 0
        self.refused = 0

    def start(self) -> None:
        """Begin; must be called inside the event loop."""
        self._leaders.look((self._topic,))
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)
        count = self._leaders.partition_count.get(self._topic, 0)
        if not count or any(TopicPartition(self._topic, number) not in self._leaders.of for number in range(count)):
            self._leaders.look((self._topic,))
            return
        self._owed += self._workload.records_per_s * TICK_S
        batches: dict[TopicPartition, list[Record]] = {}
        while self._owed >= 1:
            self._owed -= 1
            number, record = self._next_record(count)
            batches.setdefault(TopicPartition(self._topic, number), []).append(record)
        self._send(batches)

    def _next_record(self, partition_count: int) -> tuple[int, Record]:
        value = b"%d" % self.sent
        value += b"." * (self._workload.value_bytes - len(value))
        key = b"key-%d" % (self.sent % self._workload.keys) if self._workload.keys else None
        self.sent += 1
        if key is not None:
            return partition_for_key(key, partition_count), Record(key=key, value=value)
        number, self._turn = self._turn.next(partition_count)
        return number, Record(value=value)

    def _send(self, batches: dict[TopicPartition, list[Record]]) -> None:
        to: dict[Address, list[TopicPartition]] = {}
        for partition in batches:
            to.setdefault(self._leaders.of[partition], []).append(partition)
        for leader, partitions in to.items():
            blobs = {each: write_batch(batches[each], base_timestamp_ms=self._now_ms()) for each in partitions}
            message = ProduceRequest(
                acks=ACKS_OF_THE_LEADER,
                timeout_ms=REQUEST_TIMEOUT_MS,
                topic_data=[
                    TopicProduceData(
                        name=topic,
                        partition_data=[
                            PartitionProduceData(index=number, records=blobs[TopicPartition(topic, number)])
                            for number in numbers
                        ],
                    )
                    for topic, numbers in by_topic(partitions).items()
                ],
            )
            counts = {each: len(batches[each]) for each in partitions}
            outgoing = Outgoing(0, Lane.LEADER, leader, message, REQUEST_TIMEOUT_MS)
            self._transport.send(outgoing, partial(self._answered, counts))

    def _answered(self, counts: dict[TopicPartition, int], answer: Answered | Unanswered) -> None:
        codes: dict[TopicPartition, int] = {}
        if isinstance(answer, Answered) and isinstance(answer.response, ProduceResponse):
            codes = {
                TopicPartition(topic.name, each.index): each.error_code
                for topic in answer.response.responses
                for each in topic.partition_responses
            }
        for partition, count in counts.items():
            if codes.get(partition) == 0:
                self.written += count
            else:
                self.refused += count
                self._leaders.of.pop(partition, None)
