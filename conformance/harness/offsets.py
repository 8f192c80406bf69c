"""Commits, fetches and deletes offsets of a group: as a member, as an admin client, and in a transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from regroup.conformance.harness.broker_under_test import RETRIABLE_ERRORS, UNKNOWN_TOPIC_ID, ConformanceTarget
from regroup.conformance.harness.expect import (
    FetchedOffset,
    NotObservable,
    PartitionKey,
    expect,
    expect_equal,
    expect_every_partition,
    fetched_offsets,
)
from regroup.conformance.harness.member import ConformanceMember, offset_commit_topics
from regroup.conformance.harness.message_types import AnyResponse
from regroup.conformance.harness.remedy import Remedy
from regroup.conformance.harness.routes import TRANSACTION_KEY
from regroup.conformance.harness.sent_request import SentRequest
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.consumer.primitives import by_topic
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from regroup.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

TRANSACTION_TIMEOUT_MS = 60_000
WARM_UP_PRODUCERS = 50
"""The number of transactional ids for a warm-up: so many fall into nearly all partitions of __transaction_state."""
LAST_SINGLE_GROUP_FETCH = 7
"""The last version of OffsetFetch that names a single group."""

MAX_TEXT_LENGTH = 32_767
"""No text in a message of Kafka's protocol has more bytes."""


def longest_metadata(story: StoryContext) -> int:
    """The length in characters of the longest metadata that the broker stores.

    Raises NotObservable if one character more would not fit into a text of the protocol.
    """
    max_length = story.target.setting_or_default("offset.metadata.max.bytes")
    if max_length >= MAX_TEXT_LENGTH:
        reason = f"offset.metadata.max.bytes is {max_length}, but no text is longer than {MAX_TEXT_LENGTH}"
        raise NotObservable(reason, Remedy.setting("offset.metadata.max.bytes", MAX_TEXT_LENGTH - 1))
    return max_length


def send_admin_commit(
    story: StoryContext, offsets: Mapping[PartitionKey, int], *, leader_epoch: int = -1
) -> SentRequest[OffsetCommitResponse]:
    """Send an OffsetCommit without member and generation, as an admin client or a consumer without a group does."""
    topics = offset_commit_topics(offsets, leader_epoch=leader_epoch)
    return story.send(OffsetCommitRequest(group_id=story.group_id, topics=topics), OffsetCommitResponse)


async def admin_commit(story: StoryContext, offsets: Mapping[PartitionKey, int]) -> None:
    """Commit offsets without a member, and expect that every partition succeeds."""
    expect_every_partition(await send_admin_commit(story, offsets), E.NONE)


def fetch_offsets(
    story: StoryContext,
    partitions: Sequence[PartitionKey] | None,
    *,
    version: int | None = None,
    require_stable: bool = False,
    group_ids: Sequence[str] = (),
    sender: str = "client",
) -> SentRequest[OffsetFetchResponse]:
    """Send one OffsetFetch in the form of its version. Without `partitions` it is for all topics."""
    version = story.target.version_for(OffsetFetchRequest(), version)
    wanted = None if partitions is None else by_topic(partitions).items()
    if version <= LAST_SINGLE_GROUP_FETCH:
        topics = [OffsetFetchRequestTopic(name=name, partition_indexes=numbers) for name, numbers in wanted or ()]
        request = OffsetFetchRequest(
            group_id=story.group_id, topics=None if wanted is None else topics, require_stable=require_stable
        )
    else:
        group_topics = [
            OffsetFetchRequestTopics(
                name=name, topic_id=story.target.topic_ids.get(name, UNKNOWN_TOPIC_ID), partition_indexes=numbers
            )
            for name, numbers in wanted or ()
        ]
        groups = [
            OffsetFetchRequestGroup(group_id=name, topics=None if wanted is None else group_topics)
            for name in group_ids or (story.group_id,)
        ]
        request = OffsetFetchRequest(groups=groups, require_stable=require_stable)
    return story.send(request, OffsetFetchResponse, version=version, sender=sender)


async def expect_fetched(
    story: StoryContext,
    expected: Mapping[PartitionKey, FetchedOffset],
    *,
    version: int | None = None,
    require_stable: bool = False,
    all_topics: bool = False,
) -> None:
    """Expect that OffsetFetch returns exactly these offsets, for these partitions or with `all_topics` for all."""
    request = fetch_offsets(story, None if all_topics else [*expected], version=version, require_stable=require_stable)
    expect_equal("offsets" if version is None else f"offsets in v{version}", expected, fetched_offsets(await request))


async def expect_committed(story: StoryContext, partition: PartitionKey, offset: int) -> None:
    """Expect that this offset is committed for the partition; -1 stands for none."""
    fetched = fetched_offsets(await fetch_offsets(story, [partition])).get(partition, FetchedOffset(-1))
    expect_equal(f"offset of {partition[0]}-{partition[1]}", (offset, 0), (fetched.offset, fetched.error))


def delete_offsets(story: StoryContext, *partitions: PartitionKey) -> SentRequest[OffsetDeleteResponse]:
    """Send one OffsetDelete for these partitions of the story's group."""
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
        )
        for name, numbers in by_topic(partitions).items()
    ]
    return story.send(OffsetDeleteRequest(group_id=story.group_id, topics=topics), OffsetDeleteResponse)


@dataclass(eq=False)
class TransactionalProducer:
    """A producer with a transactional id, which commits offsets of groups in its transactions."""

    story: StoryContext
    name: str
    timeout_ms: int
    id: int = field(default=-1, init=False)
    epoch: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        self.transactional_id = f"{self.story.group_id}-{self.name}"

    @classmethod
    async def begin(
        cls, story: StoryContext, name: str = "producer", *group_ids: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> Self:
        """Make a producer with an open transaction for these groups, by default for the story's group.

        Raises NotObservable if the broker refuses transactions.
        """
        producer = cls(story, name, timeout_ms)
        await story.wait_until(producer.obtain_id)
        for group_id in group_ids or (story.group_id,):
            await story.wait_until(partial(producer._add_offsets_to_txn, group_id))
        return producer

    async def obtain_id(self) -> None:
        """Find the coordinator of the transaction and get a producer id.

        Raises ExpectationFailed while there is none yet.
        """
        find = FindCoordinatorRequest(key=self.transactional_id, key_type=TRANSACTION_KEY)
        await self._send(find, FindCoordinatorResponse, version=2)
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms)
        response = await self.story.send(request, InitProducerIdResponse, sender=self.name)
        _check_transactions("InitProducerId", response.error_code)
        expect(response, error=E.NONE)
        self.id, self.epoch = response.producer_id, response.producer_epoch

    async def _add_offsets_to_txn(self, group_id: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.id, producer_epoch=self.epoch, group_id=group_id
        )
        response = await self.story.send(request, AddOffsetsToTxnResponse, version=3, sender=self.name)
        _check_transactions("AddOffsetsToTxn", response.error_code)
        expect(response, error=E.NONE)

    async def _send(self, request: Message, response_type: type[AnyResponse], version: int | None = None) -> None:
        expect(await self.story.send(request, response_type, version=version, sender=self.name), error=E.NONE)

    def txn_offset_commit(
        self,
        offsets: Mapping[PartitionKey, int],
        *,
        member: ConformanceMember | None = None,
        generation_id: int | None = None,
        member_id: str | None = None,
        group_id: str | None = None,
        version: int | None = None,
    ) -> SentRequest[TxnOffsetCommitResponse]:
        """Send one TxnOffsetCommit.

        It has the member id, generation id and instance id of `member`, if that is given.
        """
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id or self.story.group_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            generation_id=generation_id if generation_id is not None else member.generation_id if member else -1,
            member_id=member_id if member_id is not None else member.id if member else "",
            group_instance_id=member.instance_id if member else None,
            topics=_txn_topics(offsets, self.story.target.topic_ids),
        )
        return self.story.send(request, TxnOffsetCommitResponse, version=version, sender=self.name)

    async def send_offsets(self, offsets: Mapping[PartitionKey, int], *, group_id: str | None = None) -> None:
        """Send a TxnOffsetCommit without a member, by default for the story's group; expects that every partition
        succeeds.

        An earlier transaction of the producer may still be ending: the request is sent again until it has ended.
        """

        async def send() -> None:
            expect_every_partition(await self.txn_offset_commit(offsets, group_id=group_id), E.NONE)

        await self.story.wait_until(send)

    async def end_transaction(self, *, committed: bool) -> None:
        """Send EndTxn, which commits the transaction or, with `committed=False`, aborts it; expects that it
        succeeds."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        await self.story.wait_until(lambda: self._send(request, EndTxnResponse))


async def warm_up_transactions(target: ConformanceTarget, label: str) -> None:
    """Wait until transactional producers get their ids: the first one makes Kafka create and load a topic.

    The first new id after a start of Kafka is refused with COORDINATOR_LOAD_IN_PROGRESS, so the label has to be new.
    """
    story = StoryContext(target, f"warm-up-{label}")
    try:
        for number in range(WARM_UP_PRODUCERS):
            producer = TransactionalProducer(story, f"producer-{number}", TRANSACTION_TIMEOUT_MS)
            await story.wait_until(producer.obtain_id)
    finally:
        await story.close()


def _check_transactions(api: str, error: int) -> None:
    if error not in (E.NONE, *RETRIABLE_ERRORS):
        raise NotObservable(f"the broker does not support transactions: {api} returns {E.name_of(error)}")


def _txn_topics(
    offsets: Mapping[PartitionKey, int], topic_ids: Mapping[str, bytes]
) -> list[TxnOffsetCommitRequestTopic]:
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, number), offset in offsets.items():
        partition = TxnOffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
        topics.setdefault(topic, []).append(partition)
    return [
        TxnOffsetCommitRequestTopic(name=name, topic_id=topic_ids.get(name, UNKNOWN_TOPIC_ID), partitions=partitions)
        for name, partitions in topics.items()
    ]
