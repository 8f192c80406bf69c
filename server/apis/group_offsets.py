"""The door to a group's offsets: OffsetCommit, OffsetFetch, OffsetDelete. Topics are checked here, groups inside."""

from collections.abc import Iterable, Iterator
from typing import cast

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import NO_UUID
from regroup.protocol.message import Structure
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from regroup.protocol.messages.transactions import TxnOffsetCommitRequestPartition, TxnOffsetCommitResponseTopic
from regroup.server.apis.groups import submit_all
from regroup.server.cluster.group_router import Groups
from regroup.server.cluster.state import Cluster
from regroup.server.cluster.topics import Topic
from regroup.server.net.exchange import Exchange, Handler


class GroupOffsetApis:
    """Partitions that do not exist are answered here; the coordinator never hears of them."""

    def __init__(self, cluster: Cluster, coordinator: Groups) -> None:
        self._cluster = cluster
        self._coordinator = coordinator

    def handlers(self) -> dict[int, Handler]:
        return {
            OffsetCommitRequest.api_key: self.commit_offsets,
            OffsetFetchRequest.api_key: self.fetch_offsets,
            OffsetDeleteRequest.api_key: self.delete_offsets,
        }

    def commit_offsets(self, exchange: Exchange) -> None:
        """If nothing is left to commit the coordinator is not asked, not even whether the member exists."""
        request = cast("OffsetCommitRequest", exchange.request)
        command = c.CommitOffsets(
            group_id=request.group_id,
            at_ms=self._cluster.now_ms(),
            generation_id=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            offsets=tuple(self._to_commit(request.topics)),
            retention_ms=request.retention_time_ms if request.retention_time_ms >= 0 else None,
            knows_missing_groups=exchange.version >= 9,
        )

        def reply(answer: Structure) -> None:
            exchange.reply(self._merged(request, cast("OffsetCommitResponse", answer)))

        if command.offsets:
            self._coordinator.submit(command, reply, exchange.cause)
        else:
            reply(OffsetCommitResponse(topics=[]))

    def _to_commit(self, topics: Iterable[OffsetCommitRequestTopic]) -> Iterator[c.OffsetToCommit]:
        for topic in topics:
            yield from offsets_to_commit(self._cluster.topic(topic.name, topic.topic_id), topic.partitions)

    def _merged(self, request: OffsetCommitRequest, answer: OffsetCommitResponse) -> OffsetCommitResponse:
        """The coordinator's codes, and those of partitions that do not exist, in the order of the request."""
        codes = codes_by_partition(answer.topics)
        topics = []
        for topic in request.topics:
            known = self._cluster.topic(topic.name, topic.topic_id)
            missing = unknown(topic.topic_id)
            rows = [
                OffsetCommitResponsePartition(
                    partition_index=each.partition_index,
                    error_code=codes.get((known.name, each.partition_index), missing) if known else missing,
                )
                for each in topic.partitions
            ]
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=rows))
        return OffsetCommitResponse(topics=topics)

    def fetch_offsets(self, exchange: Exchange) -> None:
        """Since v8 one request may name many groups, and since v10 topics by id."""
        request = cast("OffsetFetchRequest", exchange.request)
        groups = request.groups if exchange.version >= 8 else [as_group(request)]

        def finish(answers: list[Structure]) -> None:
            fetched = cast("list[OffsetFetchResponseGroup]", answers)
            if exchange.version < 8:
                exchange.reply(as_single(fetched[0]))
                return
            if exchange.version >= 10:
                fetched = [self._by_id(group, asked) for asked, group in zip(groups, fetched, strict=True)]
            exchange.reply(OffsetFetchResponse(groups=fetched))

        commands = (
            c.FetchOffsets(
                group_id=each.group_id,
                at_ms=self._cluster.now_ms(),
                partitions=self._asked(each),
                require_stable=request.require_stable,
            )
            for each in groups
        )
        submit_all(self._coordinator, commands, len(groups), finish, exchange.cause)

    def _asked(self, group: OffsetFetchRequestGroup) -> dict[str, tuple[int, ...]] | None:
        if group.topics is None:
            return None
        return {name: tuple(each.partition_indexes) for each in group.topics if (name := self._name_of(each))}

    def _name_of(self, topic: OffsetFetchRequestTopics) -> str:
        """The topic's name; empty if it was asked for by an id that belongs to none."""
        if not any(topic.topic_id):
            return topic.name
        known = self._cluster.topic("", topic.topic_id)
        return known.name if known else ""

    def _by_id(self, group: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        """With the ids that v10 speaks of, and a code for those that are unknown."""
        topics = [
            replace(topic, topic_id=known.id_bytes)
            for topic in group.topics
            if (known := self._cluster.topic(topic.name, NO_UUID))
        ]
        strangers = [] if asked.topics is None or group.error_code else asked.topics
        topics.extend(unknown_topic(each) for each in strangers if not self._name_of(each))
        return replace(group, topics=topics)

    def delete_offsets(self, exchange: Exchange) -> None:
        """A code at the top, of the group, stands in place of all others (behaviour
        `offset-delete.unknown-partition`)."""
        request = cast("OffsetDeleteRequest", exchange.request)
        existing = {
            topic.name: tuple(
                each.partition_index for each in topic.partitions if 0 <= each.partition_index < known.partitions
            )
            for topic in request.topics
            if (known := self._cluster.topic(topic.name, NO_UUID))
        }

        def reply(answer: Structure) -> None:
            response = cast("OffsetDeleteResponse", answer)
            exchange.reply(response if response.error_code else with_unknown(request, response))

        command = c.DeleteOffsets(group_id=request.group_id, at_ms=self._cluster.now_ms(), partitions=existing)
        self._coordinator.submit(command, reply, exchange.cause)


def offsets_to_commit(
    topic: Topic | None, partitions: Iterable[OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition]
) -> Iterator[c.OffsetToCommit]:
    """What is asked of one topic, without partitions that do not exist."""
    for each in partitions:
        if topic and 0 <= each.partition_index < topic.partitions:
            yield c.OffsetToCommit(
                topic.name,
                each.partition_index,
                each.committed_offset,
                each.committed_leader_epoch,
                each.committed_metadata or "",
            )


def codes_by_partition(
    topics: Iterable[OffsetCommitResponseTopic | TxnOffsetCommitResponseTopic | OffsetDeleteResponseTopic],
) -> dict[tuple[str, int], int]:
    return {(topic.name, each.partition_index): each.error_code for topic in topics for each in topic.partitions}


def unknown(topic_id: bytes) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_ID if any(topic_id) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def unknown_topic(asked: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=asked.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=number, committed_offset=-1, error_code=ErrorCode.UNKNOWN_TOPIC_ID
            )
            for number in asked.partition_indexes
        ],
    )


def as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """The one group of a request up to v7, as later versions write it."""
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes) for each in topics],
    )


def as_single(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """The answer about one group, as versions up to v7 know it."""
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name, partitions=[as_single_partition(each) for each in topic.partitions]
            )
            for topic in group.topics
        ],
    )


def as_single_partition(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )


def with_unknown(request: OffsetDeleteRequest, answer: OffsetDeleteResponse) -> OffsetDeleteResponse:
    """The coordinator's codes, and 3 for partitions that do not exist, in the order of the request."""
    codes = codes_by_partition(answer.topics)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = []
    for topic in request.topics:
        rows = [
            OffsetDeleteResponsePartition(
                partition_index=each.partition_index,
                error_code=codes.get((topic.name, each.partition_index), missing),
            )
            for each in topic.partitions
        ]
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=rows))
    return OffsetDeleteResponse(topics=topics)
