"""The producer of a member that transforms records: it writes an output for each record that the member has processed.

    producer = TransformingProducer("anna", planned, client, brokers_topics, generation, rng, checker)
    producer.on_record(partition, offset)           # the member has processed a record
    producer.drop(partitions)                       # the member has given up partitions
    producer.stop()                                 # the member's process has ended

All outputs of a transaction are written together with the positions after their records (KIP-447). If a transaction is
aborted, its records are part of the next one; records of partitions that the member has given up are not.
"""

import asyncio
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from regroup.lab.checker.checker import Checker
from regroup.lab.plan.plan import MemberPlan
from regroup.lab.simulation.clients.lab_client import RETRIED, LabClient
from regroup.lab.simulation.clients.transaction_requests import TransactionRequests
from regroup.members.consumer.state import NO_GENERATION_ID, MemberGeneration
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.transactions import InitProducerIdResponse
from regroup.protocol.record_batch import BatchRecord

TRANSFORM_SUFFIX: Final = "-transform"
"""The transactional id of a member that transforms records is its name, followed by this."""
LINGER_S: Final = 0.3
"""Seconds between the end of one transaction, or the first record, and the beginning of the next one."""
ABORTED_SHARE: Final = 0.2
"""The share of transactions that the producer aborts once it has written everything."""


class Processed:
    """A record that the member has processed and whose output is in no committed transaction yet."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        self.partition, self.offset = partition, offset


class TransformingProducer:
    """Writes the outputs of one member's records, one transaction after the other, as long as its process runs.

    `generation` returns the member's present generation, `now_ms` the time for records. Without a checker nothing is
    noted.
    """

    def __init__(
        self,
        name: str,
        planned: MemberPlan,
        client: LabClient,
        rng: Random,
        *,
        output_partitions: int,
        generation: Callable[[], MemberGeneration],
        now_ms: Callable[[], int],
        checker: Checker | None,
    ) -> None:
        self._name, self._topic, self._group_id = name, planned.transforms_to, planned.group
        self._rng, self._generation, self._now_ms = rng, generation, now_ms
        self._output_partitions = output_partitions
        self._requests = TransactionRequests(client, name + TRANSFORM_SUFFIX, planned.group, planned.instance_id)
        self._checker = checker
        self._waiting: list[Processed] = []
        self._task: asyncio.Task[None] | None = None
        self._count = 0
        self._group_metadata = MemberGeneration()
        """The member's last generation. If a heartbeat is refused, the member has none, and the producer keeps the last
        one: Java's `groupMetadata()` changes only when a join completes. A coordinator would accept offsets without a
        generation, although the partitions have another owner."""

    def on_record(self, partition: TopicPartition, offset: int) -> None:
        """Take a record that the member has processed, for the next transaction."""
        self._waiting.append(Processed(partition, offset))
        if self._checker:
            self._checker.outputs.on_input(self._group_id, (partition, offset))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the records of partitions that the member has given up: their next owner processes them again."""
        given_up = frozenset(partitions)
        self._waiting = [each for each in self._waiting if each.partition not in given_up]

    def stop(self) -> None:
        """Send nothing more, since the member's process has ended, and forget all records."""
        self._waiting = []
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LINGER_S)
            generation = self._generation()
            if generation.generation_id != NO_GENERATION_ID:
                self._group_metadata = generation
            if self._waiting:
                await self._transact(list(self._waiting), self._group_metadata)

    async def _transact(self, records: list[Processed], generation: MemberGeneration) -> None:
        """Write the outputs of these records and their positions in a transaction, and end it."""
        producer = await self._requests.new_producer()
        if producer is None:
            return
        self._count += 1
        label = f"transaction {self._name} {self._count} of producer {producer.producer_id}-{producer.producer_epoch}"
        if self._checker:
            inputs = [(each.partition, each.offset) for each in records]
            self._checker.transactions.begin(label, self._group_id)
            self._checker.outputs.begin(label, self._name + TRANSFORM_SUFFIX, self._group_id, inputs)
        positions: dict[TopicPartition, int] = {}
        for each in records:
            positions[each.partition] = max(each.offset + 1, positions.get(each.partition, 0))
        is_written = (
            await self._write(producer, records, label)
            and await self._requests.add_group(producer)
            and await self._requests.commit_offsets(producer, positions, generation, label)
        )
        is_to_commit = is_written and self._rng.random() >= ABORTED_SHARE
        if await self._end(producer, label, committed=is_to_commit):
            done = frozenset(map(id, records))
            self._waiting = [each for each in self._waiting if id(each) not in done]

    async def _end(self, producer: InitProducerIdResponse, label: str, *, committed: bool) -> bool:
        """End the transaction; returns whether it was committed, and if need be waits until that is known."""
        if self._checker and committed:
            self._checker.transactions.asks_to_commit(label)
        while True:
            response = await self._requests.end(producer, committed=committed)
            if response is not None and response.error_code not in RETRIED:
                break
            if not committed:
                return False  # the next InitProducerId aborts it
        code = ErrorCode(response.error_code)
        if self._checker:
            self._checker.transactions.is_answered(label, code, committed=committed)
        return committed and code is ErrorCode.NONE

    # Records

    async def _write(self, producer: InitProducerIdResponse, records: list[Processed], label: str) -> bool:
        """Write the outputs of these records; returns whether all were accepted."""
        values: dict[int, list[BatchRecord]] = {}
        for each in records:
            record = BatchRecord(value=b"%s|%s@%d" % (label.encode(), str(each.partition).encode(), each.offset))
            values.setdefault(each.partition.partition % self._output_partitions, []).append(record)
        if not await self._requests.add_partitions(producer, [TopicPartition(self._topic, each) for each in values]):
            return False
        for index, batch in values.items():
            if not await self._requests.write(producer, TopicPartition(self._topic, index), batch, self._now_ms()):
                return False
        return True
