"""Offsets as the stories handle them: committed from outside, fetched, deleted, and committed in a transaction."""

from collections.abc import Mapping, Sequence
from functools import partial

from regroup.conformance.harness.expect import (
    NO_OFFSET,
    NotObservable,
    Offset,
    Partition,
    every_partition,
    offsets_in,
    same,
)
from regroup.conformance.harness.member import Member, offset_topics
from regroup.conformance.harness.pending import Waiting
from regroup.conformance.harness.story import Story
from regroup.conformance.harness.target import RETRIABLE
from regroup.protocol.errors import ErrorCode as E
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

TRANSACTION = 1
"""The key type of FindCoordinator for a transactional id."""

TRANSACTION_TIMEOUT_MS = 60_000
UNTIL_V8 = 7
"""The last version of OffsetFetch that asks for one group."""


def commits_from_outside(
    tell: Story, offsets: Mapping[Partition, int], *, version: int | None = None, leader_epoch: int = -1
) -> Waiting[OffsetCommitResponse]:
    """A commit of somebody who is no member, as an administrator or a consumer without a group would send it."""
    request = OffsetCommitRequest(group_id=tell.group, topics=offset_topics(offsets, leader_epoch=leader_epoch))
    return tell.ask(request, OffsetCommitResponse, version=version)


async def committed_outside(tell: Story, offsets: Mapping[Partition, int]) -> None:
    """The same, and it went well."""
    every_partition(await commits_from_outside(tell, offsets), E.NONE)


def fetches(
    tell: Story,
    partitions: Sequence[Partition] | None,
    *,
    version: int | None = None,
    require_stable: bool = False,
    groups: Sequence[str] = (),
) -> Waiting[OffsetFetchResponse]:
    """One OffsetFetch; None asks for everything that was committed."""
    spoken = tell.target.version_for(OffsetFetchRequest(), version)
    topics = None if partitions is None else {name: [n for t, n in partitions if t == name] for name, _ in partitions}
    if spoken <= UNTIL_V8:
        old = None if topics is None else [_old_topic(name, numbers) for name, numbers in topics.items()]
        request = OffsetFetchRequest(group_id=tell.group, topics=old, require_stable=require_stable)
    else:
        new = None if topics is None else [_new_topic(name, numbers) for name, numbers in topics.items()]
        asked = [OffsetFetchRequestGroup(group_id=name, topics=new) for name in groups or (tell.group,)]
        request = OffsetFetchRequest(groups=asked, require_stable=require_stable)
    return tell.ask(request, OffsetFetchResponse, version=spoken)


def _old_topic(name: str, partitions: list[int]) -> OffsetFetchRequestTopic:
    return OffsetFetchRequestTopic(name=name, partition_indexes=partitions)


def _new_topic(name: str, partitions: list[int]) -> OffsetFetchRequestTopics:
    return OffsetFetchRequestTopics(name=name, partition_indexes=partitions)


async def stands_at(tell: Story, partition: Partition, offset: int) -> None:
    """Differs unless this is the offset that is committed; -1 for none."""
    found = offsets_in(await fetches(tell, [partition])).get(partition, NO_OFFSET)
    same(f"the offset of {partition[0]}-{partition[1]}", (offset, 0), (found[0], found[3]))


def forgets(tell: Story, *partitions: Partition) -> Waiting[OffsetDeleteResponse]:
    """One OffsetDelete."""
    topics = {
        name: [OffsetDeleteRequestPartition(partition_index=n) for t, n in partitions if t == name]
        for name, _ in partitions
    }
    asked = [OffsetDeleteRequestTopic(name=name, partitions=numbers) for name, numbers in topics.items()]
    return tell.ask(OffsetDeleteRequest(group_id=tell.group, topics=asked), OffsetDeleteResponse)


class Producer:
    """A transactional producer that commits offsets of a group."""

    def __init__(self, tell: Story, name: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS) -> None:
        self.story = tell
        self.timeout_ms = timeout_ms
        self.name = name
        self.transactional_id = f"{tell.group}-{name}"
        self.id = -1
        self.epoch = -1

    async def begins(self, *groups: str) -> None:
        """Get a producer id, and announce offsets of these groups (of the story's own if none is named)."""
        await self._finds_its_coordinator()
        await self.story.until(self._gets_its_id)
        for group in groups or (self.story.group,):
            await self.story.until(partial(self._announces, group))

    async def _finds_its_coordinator(self) -> None:
        request = FindCoordinatorRequest(key=self.transactional_id, key_type=TRANSACTION)

        async def there() -> None:
            answer = await self.story.ask(request, FindCoordinatorResponse, version=2, speaker=self.name)
            same("FindCoordinatorResponse.error_code", E.NONE, answer.error_code)

        await self.story.until(there)

    async def _gets_its_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms)
        answer = await self.story.ask(request, InitProducerIdResponse, speaker=self.name)
        self._refuse_to_go_on("InitProducerId", answer.error_code)
        same("InitProducerIdResponse.error_code", E.NONE, answer.error_code)
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    async def _announces(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.id, producer_epoch=self.epoch, group_id=group
        )
        answer = await self.story.ask(request, AddOffsetsToTxnResponse, version=3, speaker=self.name)
        self._refuse_to_go_on("AddOffsetsToTxn", answer.error_code)
        same("AddOffsetsToTxnResponse.error_code", E.NONE, answer.error_code)

    def _refuse_to_go_on(self, what: str, code: int) -> None:
        if code not in (E.NONE, *RETRIABLE):
            raise NotObservable(f"the broker refuses {what} with {E.named(code)}, so there are no transactions here")

    def writes(
        self,
        offsets: Mapping[Partition, int],
        *,
        member: Member | None = None,
        generation: int | None = None,
        member_id: str | None = None,
        group: str | None = None,
        version: int | None = None,
    ) -> Waiting[TxnOffsetCommitResponse]:
        """One TxnOffsetCommit, in the name of a member if one is given."""
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group or self.story.group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            generation_id=generation if generation is not None else member.generation if member else -1,
            member_id=member_id if member_id is not None else member.id if member else "",
            group_instance_id=member.instance if member else None,
            topics=_txn_topics(offsets),
        )
        return self.story.ask(request, TxnOffsetCommitResponse, version=version, speaker=self.name)

    async def writes_well(self, offsets: Mapping[Partition, int], *, group: str | None = None) -> None:
        """The same in nobody's name, and it goes well; a transaction that is still being finished is waited for."""

        async def written() -> None:
            every_partition(await self.writes(offsets, group=group), E.NONE)

        await self.story.until(written)

    async def ends(self, *, committed: bool) -> None:
        """All of it or nothing."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=committed,
        )

        async def ended() -> None:
            answer = await self.story.ask(request, EndTxnResponse, speaker=self.name)
            same("EndTxnResponse.error_code", E.NONE, answer.error_code)

        await self.story.until(ended)


def _txn_topics(offsets: Mapping[Partition, int]) -> list[TxnOffsetCommitRequestTopic]:
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, number), offset in offsets.items():
        row = TxnOffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
        topics.setdefault(topic, []).append(row)
    return [TxnOffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()]


def offset(committed: int, leader_epoch: int = -1, metadata: str | None = "", error: int = 0) -> Offset:
    """What OffsetFetch should say of a partition."""
    return Offset((committed, leader_epoch, metadata, error))
