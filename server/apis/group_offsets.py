"""The offsets of groups: OffsetCommit, OffsetFetch, OffsetDelete."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import NO_UUID
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
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
from regroup.server.cluster.group_router import BrokerGroups
from regroup.server.cluster.image import Topic
from regroup.server.cluster.state import ClusterState
from regroup.server.net.exchange import Exchange, RequestHandler


class GroupOffsetApis:
    """Turns requests into commands. Partitions that do not exist get their error here, and are in no command."""

    def __init__(self, state: ClusterState, groups: BrokerGroups) -> None:
        self._state = state
        self._groups = groups

    def handlers(self) -> dict[int, RequestHandler]:
        return {
            OffsetCommitRequest.api_key: self.commit_offsets,
            OffsetFetchRequest.api_key: self.fetch_offsets,
            OffsetDeleteRequest.api_key: self.delete_offsets,
        }

    def commit_offsets(self, request: OffsetCommitRequest, exchange: Exchange) -> None:
        """A request without existing partitions is not submitted, so it is answered even for an unknown member."""
        command = c.OffsetCommit(
            group_id=request.group_id,
            at_ms=self._state.now_ms(),
            generation_id=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            offsets=tuple(
                offset
                for topic in request.topics
                for offset in existing_offsets(self._state.find_topic(topic.name, topic.topic_id), topic.partitions)
            ),
            retention_ms=request.retention_time_ms if request.retention_time_ms >= 0 else None,
            supports_group_id_not_found=exchange.version >= 9,
        )

        def on_response(response: OffsetCommitResponse) -> None:
            exchange.respond(self._complete_commit(request, response))

        if command.offsets:
            self._groups.submit(command, on_response, exchange.cause)
        else:
            on_response(OffsetCommitResponse(topics=[]))

    def _complete_commit(self, request: OffsetCommitRequest, response: OffsetCommitResponse) -> OffsetCommitResponse:
        """The coordinator's codes, and those of partitions that do not exist, in the order of the request."""
        codes = codes_by_partition(response.topics)
        topics = []
        for topic in request.topics:
            known = self._state.find_topic(topic.name, topic.topic_id)
            is_by_id = any(topic.topic_id)
            missing = ErrorCode.UNKNOWN_TOPIC_ID if is_by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            partitions = [
                OffsetCommitResponsePartition(
                    partition_index=each.partition_index,
                    error_code=codes.get((known.name, each.partition_index), missing) if known else missing,
                )
                for each in topic.partitions
            ]
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        return OffsetCommitResponse(topics=topics)

    def fetch_offsets(self, request: OffsetFetchRequest, exchange: Exchange) -> None:
        """Since v8 a request may name several groups, and since v10 topics by id."""
        groups = request.groups if exchange.version >= 8 else [_single_group(request)]

        def on_responses(fetched: list[OffsetFetchResponseGroup]) -> None:
            if exchange.version < 8:
                exchange.respond(_single_group_response(fetched[0]))
                return
            if exchange.version >= 10:
                fetched = [self._with_topic_ids(wanted, each) for wanted, each in zip(groups, fetched, strict=True)]
            exchange.respond(OffsetFetchResponse(groups=fetched))

        commands = (
            c.OffsetFetch(
                group_id=each.group_id,
                at_ms=self._state.now_ms(),
                partitions=self._partitions_of(each),
                require_stable=request.require_stable,
            )
            for each in groups
        )
        submit_all(self._groups, commands, len(groups), on_responses, exchange.cause)

    def _partitions_of(self, group: OffsetFetchRequestGroup) -> dict[str, tuple[int, ...]] | None:
        if group.topics is None:
            return None
        return {name: tuple(each.partition_indexes) for each in group.topics if (name := self._name_of(each))}

    def _name_of(self, topic: OffsetFetchRequestTopics) -> str:
        """The topic's name; empty for an unknown topic id."""
        if not any(topic.topic_id):
            return topic.name
        known = self._state.find_topic("", topic.topic_id)
        return known.name if known else ""

    def _with_topic_ids(
        self, wanted: OffsetFetchRequestGroup, fetched: OffsetFetchResponseGroup
    ) -> OffsetFetchResponseGroup:
        """The group with topic ids in place of names, and an error for unknown ids."""
        topics = [
            replace(topic, topic_id=known.id_bytes)
            for topic in fetched.topics
            if (known := self._state.find_topic(topic.name, NO_UUID))
        ]
        for topic in [] if wanted.topics is None or fetched.error_code else wanted.topics:
            if not self._name_of(topic):
                partitions = [
                    OffsetFetchResponsePartitions(
                        partition_index=index, committed_offset=-1, error_code=ErrorCode.UNKNOWN_TOPIC_ID
                    )
                    for index in topic.partition_indexes
                ]
                topics.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions))
        return replace(fetched, topics=topics)

    def delete_offsets(self, request: OffsetDeleteRequest, exchange: Exchange) -> None:
        """An error of the group replaces those of partitions (behaviour `offset-delete.unknown-partition`)."""
        existing = {
            topic.name: tuple(
                each.partition_index for each in topic.partitions if 0 <= each.partition_index < known.partitions
            )
            for topic in request.topics
            if (known := self._state.find_topic(topic.name, NO_UUID))
        }

        def on_response(response: OffsetDeleteResponse) -> None:
            exchange.respond(response if response.error_code else _complete_delete(request, response))

        command = c.OffsetDelete(group_id=request.group_id, at_ms=self._state.now_ms(), partitions=existing)
        self._groups.submit(command, on_response, exchange.cause)


def existing_offsets(
    topic: Topic | None, partitions: Iterable[OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition]
) -> Iterator[c.RequestedOffset]:
    """The offsets to commit in one topic, without those of partitions that do not exist."""
    for each in partitions:
        if topic and 0 <= each.partition_index < topic.partitions:
            yield c.RequestedOffset(
                topic.name,
                each.partition_index,
                each.committed_offset,
                each.committed_leader_epoch,
                each.committed_metadata or "",
            )


def codes_by_partition(
    topics: Iterable[OffsetCommitResponseTopic | TxnOffsetCommitResponseTopic | OffsetDeleteResponseTopic],
) -> dict[tuple[str, int], int]:
    """Error codes by topic and partition index."""
    return {(topic.name, each.partition_index): each.error_code for topic in topics for each in topic.partitions}


def _single_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """The group of a request up to v7, as later versions name it."""
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes) for each in topics],
    )


def _single_group_response(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """The response about one group up to v7."""
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _complete_delete(request: OffsetDeleteRequest, response: OffsetDeleteResponse) -> OffsetDeleteResponse:
    """The coordinator's codes, and 3 for partitions that do not exist, in the order of the request."""
    codes = codes_by_partition(response.topics)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=each.partition_index,
                        error_code=codes.get((topic.name, each.partition_index), missing),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
