"""Handlers of requests about the offsets of groups: OffsetCommit, OffsetFetch, OffsetDelete."""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import NO_UUID
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
from regroup.protocol.messages.transactions import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponseTopic,
)
from regroup.server.apis.groups import submit_all
from regroup.server.apis.requested_partitions import RequestedPartitions, TopicKey
from regroup.server.cluster.group_router import BrokerGroups
from regroup.server.cluster.image import Topic
from regroup.server.cluster.state import ClusterState
from regroup.server.limits import MAX_COMMITTED_PARTITIONS, MAX_PIPELINED_PARTITIONS
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.net.turns import Turns
from regroup.server.responses.partitions import every_partition

_TOPIC_IDS_SINCE = 10
"""Version since which OffsetCommit and OffsetFetch name topics by id."""


class GroupOffsetApis:
    """Turns OffsetCommit, OffsetFetch and OffsetDelete into commands. Partitions that do not exist get their error here
    and are in no command."""

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
        """Submit an OffsetCommit. A request that names no existing partition is answered without the coordinator, so
        also for an unknown member.

        Since v10 topics are named by id.
        """
        if sum([len(topic.partitions) for topic in request.topics]) > MAX_COMMITTED_PARTITIONS:
            exchange.respond(every_partition(request, ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        is_by_id = exchange.version >= _TOPIC_IDS_SINCE
        requested, offsets = collect_offsets(self._state, request.topics, is_by_id=is_by_id)
        command = c.OffsetCommit(
            group_id=request.group_id,
            at_ms=self._state.now_ms(),
            generation_id=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            offsets=tuple(offsets),
            retention_ms=request.retention_time_ms if request.retention_time_ms >= 0 else None,
            supports_group_id_not_found=exchange.version >= 9,
        )

        def on_response(response: OffsetCommitResponse) -> None:
            if (keys := requested.keys_if_all_exist) is not None:
                exchange.respond(_with_ids(keys, response) if is_by_id else response)
                return
            topics = [
                OffsetCommitResponseTopic(
                    name=key if isinstance(key, str) else "",
                    topic_id=key if isinstance(key, bytes) else NO_UUID,
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=index, error_code=code) for index, code in codes
                    ],
                )
                for key, codes in requested.answer(codes_in_order(response.topics))
            ]
            exchange.respond(OffsetCommitResponse(topics=topics))

        if command.offsets:
            self._groups.submit(command, on_response, exchange.cause)
            if len(command.offsets) <= MAX_PIPELINED_PARTITIONS:
                exchange.allow_next()
        else:
            on_response(OffsetCommitResponse(topics=[]))

    def fetch_offsets(self, request: OffsetFetchRequest, exchange: Exchange) -> Turns:
        """Answer an OffsetFetch. Since v8 a request may name several groups, and since v10 it names topics by id.

        If all offsets of a group are wanted, the coordinator is asked once, even if the request names the group several
        times.
        """
        groups = request.groups if exchange.version >= 8 else [_single_group(request)]
        is_by_id = exchange.version >= _TOPIC_IDS_SINCE
        whole: dict[tuple[str, str | None, int], int] = {}
        keys = [
            whole.setdefault((each.group_id, each.member_id, each.member_epoch), index)
            if each.topics is None
            else index
            for index, each in enumerate(groups)
        ]
        names: dict[int, list[str | None]] = {}

        def complete(key: int, fetched: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
            return _as_requested(groups[key], names[key], self._with_ids(fetched) if is_by_id else fetched)

        def on_responses(responses: dict[int, OffsetFetchResponseGroup]) -> None:
            fetched = {key: complete(key, each) for key, each in responses.items()}
            if exchange.version < 8:
                exchange.respond(_single_group_response(fetched[0]))
            else:
                exchange.respond(OffsetFetchResponse(groups=[fetched[key] for key in keys]))

        def command(key: int) -> c.OffsetFetch:
            names[key] = [self._name_of(topic, is_by_id=is_by_id) for topic in groups[key].topics or ()]
            return c.OffsetFetch(
                group_id=groups[key].group_id,
                at_ms=self._state.now_ms(),
                partitions=_partitions_of(groups[key], names[key]),
                member_id=groups[key].member_id,
                member_epoch=groups[key].member_epoch,
                require_stable=request.require_stable,
            )

        return submit_all(self._groups, keys, command, on_responses, exchange.cause)

    def _name_of(self, topic: OffsetFetchRequestTopics, *, is_by_id: bool) -> str | None:
        """The name of a requested topic, which need not exist; None for an unknown topic id."""
        if not is_by_id:
            return topic.name
        known = self._state.find_topic("", topic.topic_id)
        return known.name if known else None

    def _with_ids(self, fetched: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        """The fetched offsets of a group with topic ids in place of names. Topics that do not exist any more are left
        out."""
        known = [(topic, self._state.find_topic(topic.name, NO_UUID)) for topic in fetched.topics]
        return replace(fetched, topics=[replace(topic, topic_id=each.id_bytes) for topic, each in known if each])

    def delete_offsets(self, request: OffsetDeleteRequest, exchange: Exchange) -> None:
        """Answer an OffsetDelete. If the coordinator returns an error for the group, the response has that error and
        none for partitions (behaviour `offset-delete.unknown-partition`)."""
        requested, existing = RequestedPartitions(), dict[str, dict[int, None]]()
        for topic in request.topics:
            known = self._state.find_topic(topic.name, NO_UUID)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            found = requested.add(topic.name, known, topic.partitions, unknown=unknown)
            if found:
                existing.setdefault(topic.name, {}).update(dict.fromkeys(each.partition_index for each in found))

        def on_response(response: OffsetDeleteResponse) -> None:
            exchange.respond(response if response.error_code else _complete_delete(requested, response))

        command = c.OffsetDelete(
            group_id=request.group_id,
            at_ms=self._state.now_ms(),
            partitions={name: tuple(indexes) for name, indexes in existing.items()},
        )
        self._groups.submit(command, on_response, exchange.cause)


def collect_offsets(
    state: ClusterState, topics: Iterable[OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic], *, is_by_id: bool
) -> tuple[RequestedPartitions, list[c.RequestedOffset]]:
    """The partitions that a commit names, with the errors of those that do not exist; and the offsets to commit in
    those that do. With `is_by_id` topics are named by id."""
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if is_by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    requested, offsets = RequestedPartitions(), list[c.RequestedOffset]()
    for topic in topics:
        key = topic.topic_id if is_by_id else topic.name
        known = state.find_topic(topic.name, topic.topic_id)
        existing: Sequence[OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition] = requested.add(
            key, known, topic.partitions, unknown=unknown
        )
        if known is not None:
            offsets += _requested_offsets(known, existing)
    return requested, offsets


def _requested_offsets(
    topic: Topic, partitions: Iterable[OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition]
) -> list[c.RequestedOffset]:
    """The offsets to commit in partitions of one topic."""
    name, topic_id = topic.name, topic.topic_id
    return [
        c.RequestedOffset(
            name,
            each.partition_index,
            each.committed_offset,
            each.committed_leader_epoch,
            each.committed_metadata or "",
            topic_id,
        )
        for each in partitions
    ]


def _with_ids(topic_ids: Iterable[TopicKey], response: OffsetCommitResponse) -> OffsetCommitResponse:
    """The response with topic ids, in the order of its topics, in place of names."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(topic_id=key, partitions=topic.partitions)
            for key, topic in zip(topic_ids, response.topics, strict=True)
            if isinstance(key, bytes)
        ]
    )


def codes_in_order(
    topics: Iterable[OffsetCommitResponseTopic | TxnOffsetCommitResponseTopic],
) -> Callable[[str, int], int]:
    """Return a function that returns the error code of one partition in these topics of a response, given topic name
    and index. It ignores the index, and so must be called for the partitions of each topic in the order of the
    request."""
    codes = {topic.name: iter([each.error_code for each in topic.partitions]) for topic in topics}
    return lambda name, _: next(codes[name])


def _partitions_of(
    group: OffsetFetchRequestGroup, topic_names: Sequence[str | None]
) -> dict[str, tuple[int, ...]] | None:
    """The partitions to fetch by topic name; None if the request asks for all. Topics with an unknown id are left out.

    A request may name a topic several times.
    """
    if group.topics is None:
        return None
    partitions: dict[str, dict[int, None]] = {}
    for topic, name in zip(group.topics, topic_names, strict=True):
        if name is not None:
            partitions.setdefault(name, {}).update(dict.fromkeys(topic.partition_indexes))
    return {name: tuple(indexes) for name, indexes in partitions.items()}


def _as_requested(
    wanted: OffsetFetchRequestGroup, topic_names: Sequence[str | None], fetched: OffsetFetchResponseGroup
) -> OffsetFetchResponseGroup:
    """The fetched offsets as the request asked for them: an entry for each of its topics, and topics with an unknown id
    at the end."""
    if fetched.error_code or wanted.topics is None:
        return fetched
    offsets = {topic.name: {each.partition_index: each for each in topic.partitions} for topic in fetched.topics}
    topics, unknown = list[OffsetFetchResponseTopics](), list[OffsetFetchResponseTopics]()
    for topic, name in zip(wanted.topics, topic_names, strict=True):
        found = offsets.get(name) if name is not None else None
        partitions = [
            found[index] if found is not None else _unknown_topic_id(index) for index in topic.partition_indexes
        ]
        entry = OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
        (topics if found is not None else unknown).append(entry)
    return replace(fetched, topics=topics + unknown)


def _single_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """Convert an OffsetFetch request up to v7, which names one group, to the entry that a later version has for that
    group."""
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes) for each in topics],
    )


def _single_group_response(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """Convert the fetched offsets of a group to an OffsetFetch response up to v7, which is about one group."""
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


def _unknown_topic_id(index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=-1, error_code=ErrorCode.UNKNOWN_TOPIC_ID
    )


def _complete_delete(requested: RequestedPartitions, response: OffsetDeleteResponse) -> OffsetDeleteResponse:
    """The OffsetDelete response with the coordinator's error codes and those of partitions that do not exist."""
    found = {
        (topic.name, each.partition_index): each.error_code for topic in response.topics for each in topic.partitions
    }
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=str(key),
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index, code in codes
                ],
            )
            for key, codes in requested.answer(lambda name, index: found[name, index])
        ]
    )
