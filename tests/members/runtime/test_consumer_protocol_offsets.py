"""What a member of the consumer protocol reads and commits: only of partitions that it owns, and only as a member."""

import asyncio
from collections.abc import Callable

from regroup.members.consumer.effects import CommitCompleted, CommittedOffsetsFetched, ConsumerChange
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberGeneration
from regroup.members.runtime.application import SimulatedApplication
from regroup.members.runtime.consumer_protocol_offsets import RETRY_MS, ConsumerProtocolOffsets
from regroup.members.runtime.fetcher import Fetcher
from regroup.members.runtime.timers import MemberTimers
from regroup.members.runtime.workload import RecordLedger, Workload
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.members.runtime.played_coordinator import PlayedCoordinator

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def committed(offset: int, code: int = 0) -> OffsetFetchResponse:
    """The response to an OffsetFetch of the partition orders-0."""
    partition = OffsetFetchResponsePartitions(partition_index=0, committed_offset=offset, error_code=code)
    topic = OffsetFetchResponseTopics(name="orders", partitions=[partition])
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="payments", topics=[topic])])


class Offsets:
    """The offsets of one process, with its requests to the coordinator, which the test answers."""

    def __init__(self) -> None:
        self.generation: MemberGeneration | None = MemberGeneration(3, "anna")
        self.sent: list[tuple[Message, Callable[[Message], None], Callable[[], None]]] = []
        self.changes: list[ConsumerChange] = []
        settings, transport = ConsumerSettings(group_id="payments"), PlayedCoordinator()
        self.application = SimulatedApplication(Workload(), RecordLedger())
        self.offsets = ConsumerProtocolOffsets(
            settings,
            self.application,
            Fetcher(transport, settings, self.application),
            MemberTimers(lambda: False),
            generation=lambda: self.generation,
            send=lambda *request: self.sent.append(request),
            observe=self.changes.append,
        )

    def messages(self) -> list[Message]:
        return [each for each, _, _ in self.sent]

    def answer(self, response: Message) -> None:
        self.sent.pop(0)[1](response)

    def fail(self) -> None:
        self.sent.pop(0)[2]()


async def test_positions_of_owned_partitions_alone_are_committed() -> None:
    anna = Offsets()
    anna.offsets.add((ORDERS_0,))
    anna.answer(committed(7))
    anna.application.on_positions({ORDERS_0: 9, ORDERS_1: 4})
    anna.offsets.commit((ORDERS_0, ORDERS_1))
    [message] = anna.messages()
    assert isinstance(message, OffsetCommitRequest)
    assert (message.member_id, message.generation_id_or_member_epoch) == ("anna", 3)
    [topic] = message.topics
    assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [(0, 9)]
    anna.answer(OffsetCommitResponse(topics=[]))
    assert anna.changes == [
        CommittedOffsetsFetched({ORDERS_0: 7}),
        CommitCompleted({ORDERS_0: 9}, None, is_auto_commit=True),
    ]


async def test_a_partition_that_was_given_up_is_committed_no_more() -> None:
    anna = Offsets()
    anna.offsets.add((ORDERS_0,))
    anna.answer(committed(7))
    anna.application.on_positions({ORDERS_0: 9})
    anna.offsets.drop((ORDERS_0,))
    anna.application.on_positions({ORDERS_0: 10})
    anna.offsets.commit((ORDERS_0,))
    assert anna.messages() == []


async def test_committed_offsets_are_asked_for_again_after_a_refusal_or_a_loss() -> None:
    anna = Offsets()
    anna.offsets.add((ORDERS_0,))
    anna.answer(committed(-1, ErrorCode.UNSTABLE_OFFSET_COMMIT))
    await asyncio.sleep(RETRY_MS / 1000)
    anna.fail()
    await asyncio.sleep(RETRY_MS / 1000)
    [message] = anna.messages()
    assert isinstance(message, OffsetFetchRequest)
    anna.answer(committed(-1))
    assert anna.changes == [CommittedOffsetsFetched({ORDERS_0: None})]
    await asyncio.sleep(10)
    assert anna.messages() == []


async def test_a_process_that_is_no_member_asks_for_no_offsets() -> None:
    anna = Offsets()
    anna.offsets.add((ORDERS_0,))
    anna.generation = None
    anna.fail()
    await asyncio.sleep(10)
    assert anna.messages() == []
    anna.generation = MemberGeneration(5, "anna")
    anna.offsets.add((ORDERS_1,))
    [message] = anna.messages()
    assert isinstance(message, OffsetFetchRequest)
    [group] = message.groups
    assert (group.member_id, group.member_epoch) == ("anna", 5)
    assert [each.partition_indexes for each in group.topics or []] == [[0, 1]]
