"""Steps of a producer beside a consumer, which commits the consumer's positions in transactions (KIP-98, KIP-447).

The metadata of each offset name the transaction, so that the checker can say which transaction an offset came from.
"""

from dataclasses import replace
from typing import Final

from regroup.lab.checker.members.transactions import LABEL
from regroup.lab.plan import steps as s
from regroup.lab.plan.rare_steps import CommitsByInstanceIdAlone, CommitsWithoutGeneration
from regroup.lab.simulation.clients.transaction_requests import TransactionRequests
from regroup.lab.simulation.world import World
from regroup.members.consumer.state import MemberGeneration
from regroup.members.runtime.member import SimulatedMember
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.transactions import InitProducerIdResponse
from regroup.protocol.record_batch import BatchRecord

NO_GENERATION: Final = -1
UNUSED_INSTANCE_ID: Final = "nobody-1"
TRANSACTIONS_SUFFIX: Final = "-transactions"
"""A transactional id of these steps is the name of a member, followed by this."""


def perform_in_transaction(step: s.TransactionStep, world: World) -> None:
    """Begin the transaction that a step describes, in a task of its own, with the positions of the step's member.

    Nothing happens if the member does not run, or owns no partition. Of a member of the consumer protocol the positions
    are not known: in its place they are the number of the transaction, in runs without records, and where the
    transaction is not committed.
    """
    member = world.members.by_name.get(step.member)
    if member is None or member.is_stopped:
        return
    number = world.next_transaction()
    positions = dict(member.consumer.positions) if isinstance(member, SimulatedMember) else {}
    if not positions and (isinstance(step, s.AbandonsTransaction) or not world.members.has_workload):
        positions = dict.fromkeys(member.consumer.assigned_partitions, number)
    if positions:
        generation = member.consumer.generation
        if isinstance(step, CommitsWithoutGeneration):
            generation = replace(generation, generation_id=NO_GENERATION)
        elif isinstance(step, CommitsByInstanceIdAlone):
            generation = MemberGeneration()
        world.spawn(MemberTransaction(step, number, positions, generation, world).run())


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
        self._step, self._positions, self._generation, self._world = step, positions, generation, world
        planned = world.plan.members[step.member]
        self._group_id, self._transforms = planned.group, bool(planned.transforms_to)
        self._number = number
        transactional_id = step.member + TRANSACTIONS_SUFFIX
        instance_id = planned.instance_id
        if isinstance(step, CommitsByInstanceIdAlone):
            instance_id = instance_id or UNUSED_INSTANCE_ID
        client = world.members.transactional_client(step.member)
        self._requests = TransactionRequests(client, transactional_id, planned.group, instance_id)
        self._ledger = world.checker.transactions if world.checker else None

    async def run(self) -> None:
        """Write the positions in a transaction, and end it as the step says."""
        label = self._begin(self._number)
        producer = await self._requests.new_producer()
        if producer is None or not await self._write(producer, label):
            return
        match self._step:
            case s.AbandonsTransaction():
                return
            case s.IsFencedInTransaction():
                await self._be_fenced(producer, label)
            case _:
                await self._end(producer, label, committed=isinstance(self._step, s.CommitsInTransaction))

    async def _be_fenced(self, fenced: InitProducerIdResponse, label: str) -> None:
        """Let a newer producer begin a transaction, the fenced one send all its requests, and the newer one end it.

        Every second of them is committed; of a member that transforms records none is, since its offsets come from the
        transactions with its outputs alone.
        """
        newer = await self._requests.new_producer()
        if newer is None:
            return
        number = self._world.next_transaction()
        newer_label = self._begin(number)
        is_written = await self._write(newer, newer_label)
        await self._send_as_fenced(fenced, label)
        await self._end(newer, newer_label, committed=is_written and number % 2 == 0 and not self._transforms)

    async def _send_as_fenced(self, fenced: InitProducerIdResponse, label: str) -> None:
        """Send each request of a producer that is fenced; those that need a partition name the first of the member."""
        partition = min(self._positions)
        await self._requests.add_partitions(fenced, [partition])
        await self._requests.write(fenced, partition, [BatchRecord(value=label.encode())], self._now_ms(), attempts=1)
        await self._requests.add_group(fenced)
        await self._requests.commit_offsets(fenced, self._positions, self._generation, label)
        await self._requests.end(fenced, committed=True)

    def _now_ms(self) -> int:
        return self._world.brokers.now_ms()

    def _begin(self, number: int) -> str:
        """Begin the transaction of this number, and return its label."""
        label = f"{LABEL}{number}"
        if self._ledger:
            self._ledger.begin(label, self._group_id)
        return label

    async def _write(self, producer: InitProducerIdResponse, label: str) -> bool:
        """Add the group to the transaction, and write the positions; returns whether both were accepted."""
        return await self._requests.add_group(producer) and await self._requests.commit_offsets(
            producer, self._positions, self._generation, label
        )

    async def _end(self, producer: InitProducerIdResponse, label: str, *, committed: bool) -> None:
        if self._ledger and committed:
            self._ledger.asks_to_commit(label)
        response = await self._requests.end(producer, committed=committed)
        if self._ledger and response is not None:
            self._ledger.is_answered(label, ErrorCode(response.error_code), committed=committed)
