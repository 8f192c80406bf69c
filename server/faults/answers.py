"""Responses with an error code, for requests that are not applied."""

from collections.abc import Callable
from typing import Any, Final

from regroup.protocol.apis import APIS
from regroup.protocol.message import Message
from regroup.protocol.messages import cluster, group, offsets, records, transactions

FIRST_BATCHED_FIND_COORDINATOR: Final = 4
FIRST_BATCHED_OFFSET_FETCH: Final = 8
FIRST_OFFSET_FETCH_ERROR: Final = 2


def join_group(request: group.JoinGroupRequest, version: int, code: int) -> Message:
    name = None if version >= 7 else ""
    return group.JoinGroupResponse(error_code=code, member_id=request.member_id, protocol_name=name)


def find_coordinator(request: cluster.FindCoordinatorRequest, version: int, code: int) -> Message:
    if version < FIRST_BATCHED_FIND_COORDINATOR:
        return cluster.FindCoordinatorResponse(error_code=code, node_id=-1, port=-1)
    return cluster.FindCoordinatorResponse(
        coordinators=[
            cluster.Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code)
            for key in request.coordinator_keys
        ]
    )


def offset_commit(request: offsets.OffsetCommitRequest, version: int, code: int) -> Message:
    return offsets.OffsetCommitResponse(
        topics=[
            offsets.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    offsets.OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def txn_offset_commit(request: transactions.TxnOffsetCommitRequest, version: int, code: int) -> Message:
    return transactions.TxnOffsetCommitResponse(
        topics=[
            transactions.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    transactions.TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def offset_fetch(request: offsets.OffsetFetchRequest, version: int, code: int) -> Message:
    """The error of each group since v8, of the response since v2, and before that of each partition."""
    if version >= FIRST_BATCHED_OFFSET_FETCH:
        groups = [offsets.OffsetFetchResponseGroup(group_id=each.group_id, error_code=code) for each in request.groups]
        return offsets.OffsetFetchResponse(groups=groups)
    if version >= FIRST_OFFSET_FETCH_ERROR:
        return offsets.OffsetFetchResponse(error_code=code)
    return offsets.OffsetFetchResponse(
        topics=[
            offsets.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    offsets.OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, error_code=code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    )


def produce(request: records.ProduceRequest, version: int, code: int) -> Message:
    return records.ProduceResponse(
        responses=[
            records.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    records.PartitionProduceResponse(index=each.index, error_code=code, base_offset=-1)
                    for each in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def fetch(request: records.FetchRequest, version: int, code: int) -> Message:
    return records.FetchResponse(
        responses=[
            records.FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    records.PartitionData(partition_index=each.partition, error_code=code, high_watermark=-1)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def list_offsets(request: records.ListOffsetsRequest, version: int, code: int) -> Message:
    return records.ListOffsetsResponse(
        topics=[
            records.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    records.ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


ANSWERS: Final[dict[type[Message], Callable[[Any, int, int], Message]]] = {
    group.JoinGroupRequest: join_group,
    group.SyncGroupRequest: lambda request, version, code: group.SyncGroupResponse(error_code=code),
    group.HeartbeatRequest: lambda request, version, code: group.HeartbeatResponse(error_code=code),
    group.LeaveGroupRequest: lambda request, version, code: group.LeaveGroupResponse(error_code=code),
    cluster.FindCoordinatorRequest: find_coordinator,
    offsets.OffsetCommitRequest: offset_commit,
    offsets.OffsetFetchRequest: offset_fetch,
    offsets.OffsetDeleteRequest: lambda request, version, code: offsets.OffsetDeleteResponse(error_code=code),
    records.ProduceRequest: produce,
    records.FetchRequest: fetch,
    records.ListOffsetsRequest: list_offsets,
    transactions.InitProducerIdRequest: lambda request, version, code: transactions.InitProducerIdResponse(
        error_code=code
    ),
    transactions.AddOffsetsToTxnRequest: lambda request, version, code: transactions.AddOffsetsToTxnResponse(
        error_code=code
    ),
    transactions.TxnOffsetCommitRequest: txn_offset_commit,
    transactions.EndTxnRequest: lambda request, version, code: transactions.EndTxnResponse(error_code=code),
}

ANSWERED_APIS: Final = frozenset(APIS[request.api_key].name for request in ANSWERS)
"""The APIs whose requests can be answered with an error code."""


def error_response(request: Message, version: int, code: int) -> Message:
    """The response with this error code at its top, or else for every partition of the request."""
    return ANSWERS[type(request)](request, version, code)
