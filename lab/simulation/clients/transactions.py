"""Steps of a producer beside a consumer, which commits the consumer's positions in transactions (KIP-98, KIP-447).

The metadata of each offset name the transaction, so that the checker can say which transaction an offset came from.
"""

from typing import Final

from regroup.lab.plan import steps as s
from regroup.lab.simulation.clients.lab_client import TRANSACTION_KEY, LabClient
from regroup.lab.simulation.world import World
from regroup.members.consumer.state import MemberGeneration
from regroup.members.runtime.member import SimulatedMember
from regroup.protocol.consumer.primitives import by_topic
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TRANSACTIONS_SUFFIX: Final = "-transactions"
"""A transactional id is the name of a member, followed by this."""
TRANSACTION_TIMEOUT_MS: Final = 10_000
OLD_VERSIONS: Final = {TxnOffsetCommitRequest.api_key: 4, EndTxnRequest.api_key: 4, InitProducerIdRequest.api_key: 4}
"""Versions before KIP-890: the producer adds the group to its transaction itself, and keeps its epoch."""


def perform_in_transaction(step: s.TransactionStep, world: World) -> None:
    """Begin the transaction that a step describes, in a task of its own, with the positions of the step's member.

    Nothing happens if the member does not run, or owns no partition.
    """
    member = world.members.by_name.get(step.member)
    if not isinstance(member, SimulatedMember) or member.is_stopped:
        return
    number = world.next_transaction()
    positions = dict(member.consumer.positions)
    if not positions and not world.members.has_workload:
        positions = dict.fromkeys(member.consumer.assigned_partitions, number)
    if positions:
        world.spawn(MemberTransaction(step, number, positions, member.consumer.generation, world).run())


class MemberTransaction:
    """One transaction in which a producer commits the positions of a member, from InitProducerId to its end."""

    def __init__(
        self,
        step: s.TransactionStep,
        number: int,
        positions: dict[TopicPartition, int],
        generation: MemberGeneration,
        world: World,
    ) -> None:
        self._step, self._positions, self._generation = step, positions, generation
        self._planned = world.plan.members[step.member]
        self._transactional_id = step.member + TRANSACTIONS_SUFFIX
        self._label = f"transaction {number}"
        self._client: LabClient = world.members.other_client(step.member, OLD_VERSIONS)
        self._ledger = world.checker.transactions if world.checker else None

    async def run(self) -> None:
        """Write the positions in a transaction, and end it as the step says."""
        if self._ledger:
            self._ledger.begin(self._label, self._planned.group)
        producer = await self._new_producer()
        if producer is None or not await self._write(producer):
            return
        match self._step:
            case s.AbandonsTransaction():
                return
            case s.IsFencedInTransaction():
                if await self._new_producer() is None:
                    return
                await self._end(producer, committed=True, is_fenced=True)
            case _:
                await self._end(producer, committed=isinstance(self._step, s.CommitsInTransaction))

    async def _new_producer(self) -> InitProducerIdResponse | None:
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        response = await self._client.request(self._transactional_id, request, key_type=TRANSACTION_KEY)
        if not isinstance(response, InitProducerIdResponse) or response.error_code:
            return None
        return response

    async def _write(self, producer: InitProducerIdResponse) -> bool:
        """Send AddOffsetsToTxn for the group and TxnOffsetCommit with the positions; returns whether both were
        accepted."""
        added = await self._client.request(
            self._transactional_id,
            AddOffsetsToTxnRequest(
                transactional_id=self._transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                group_id=self._planned.group,
            ),
            key_type=TRANSACTION_KEY,
        )
        if added is None or added.error_code:
            return False
        written = await self._client.request(self._planned.group, self._txn_offset_commit(producer))
        return written is not None and not any(each.error_code for topic in written.topics for each in topic.partitions)

    def _txn_offset_commit(self, producer: InitProducerIdResponse) -> TxnOffsetCommitRequest:
        topics = [
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=self._positions[TopicPartition(topic, index)],
                        committed_metadata=self._label,
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(self._positions).items()
        ]
        return TxnOffsetCommitRequest(
            transactional_id=self._transactional_id,
            group_id=self._planned.group,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            generation_id=self._generation.generation_id,
            member_id=self._generation.member_id,
            group_instance_id=self._planned.instance_id,
            topics=topics,
        )

    async def _end(self, producer: InitProducerIdResponse, *, committed: bool, is_fenced: bool = False) -> None:
        if self._ledger and committed and not is_fenced:
            self._ledger.asks_to_commit(self._label)
        response = await self._client.request(
            self._transactional_id,
            EndTxnRequest(
                transactional_id=self._transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                committed=committed,
            ),
            key_type=TRANSACTION_KEY,
        )
        if self._ledger and response is not None:
            self._ledger.is_answered(self._label, ErrorCode(response.error_code), committed=committed)
