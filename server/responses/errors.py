"""Makes responses with an error code, of every API, to a request that is not applied."""

from collections.abc import Callable
from typing import Any, Final

from regroup.protocol.apis import APIS
from regroup.protocol.fields import NO_UUID
from regroup.protocol.message import Message
from regroup.protocol.messages import cluster, consumer_group, describe, group, offsets, records, topics, transactions
from regroup.server.responses.partitions import (
    ADD_PARTITIONS,
    FIRST_BATCHED_OFFSET_FETCH,
    PARTITION_LISTS,
    every_partition,
)

FIRST_BATCHED_FIND_COORDINATOR: Final = 4
FIRST_OFFSET_FETCH_ERROR: Final = 2
FIRST_BATCHED_ADD_PARTITIONS: Final = 4
FIRST_DELETED_TOPIC_STATES: Final = 6
FIRST_NULLABLE_PROTOCOL: Final = 7
FIRST_METADATA_ERROR: Final = 13


def join_group(request: group.JoinGroupRequest, version: int, code: int) -> Message:
    name = None if version >= FIRST_NULLABLE_PROTOCOL else ""
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


def metadata(request: cluster.MetadataRequest, version: int, code: int) -> Message:
    """A Metadata response with this error for each topic that the request names. If it names none, the response itself
    has the error, since v13. It lists no brokers."""
    return cluster.MetadataResponse(
        brokers=[],
        error_code=code if version >= FIRST_METADATA_ERROR and not request.topics else 0,
        topics=[
            cluster.MetadataResponseTopic(error_code=code, name=topic.name, topic_id=topic.topic_id)
            for topic in request.topics or ()
        ],
    )


def offset_fetch(request: offsets.OffsetFetchRequest, version: int, code: int) -> Message:
    """An OffsetFetch response with this error: for each group since v8, for the response since v2, and before that for
    each partition."""
    if version >= FIRST_BATCHED_OFFSET_FETCH:
        groups = [offsets.OffsetFetchResponseGroup(group_id=each.group_id, error_code=code) for each in request.groups]
        return offsets.OffsetFetchResponse(groups=groups)
    if version >= FIRST_OFFSET_FETCH_ERROR:
        return offsets.OffsetFetchResponse(error_code=code)
    return every_partition(request, code)


def add_partitions_to_txn(request: transactions.AddPartitionsToTxnRequest, version: int, code: int) -> Message:
    if version >= FIRST_BATCHED_ADD_PARTITIONS:
        return transactions.AddPartitionsToTxnResponse(error_code=code)
    return every_partition(request, code, ADD_PARTITIONS)


def delete_topics(request: topics.DeleteTopicsRequest, version: int, code: int) -> Message:
    named = (
        [(each.name, each.topic_id) for each in request.topics]
        if version >= FIRST_DELETED_TOPIC_STATES
        else [(name, NO_UUID) for name in request.topic_names]
    )
    return topics.DeleteTopicsResponse(
        responses=[topics.DeletableTopicResult(name=name, topic_id=key, error_code=code) for name, key in named]
    )


def alter_configs(
    request: topics.AlterConfigsRequest | topics.IncrementalAlterConfigsRequest, version: int, code: int
) -> Message:
    response = APIS[request.api_key].response
    return response(
        responses=[
            topics.AlterConfigsResourceResponse(
                error_code=code, resource_type=each.resource_type, resource_name=each.resource_name
            )
            for each in request.resources
        ]
    )


def describe_configs(request: topics.DescribeConfigsRequest, version: int, code: int) -> Message:
    return topics.DescribeConfigsResponse(
        results=[
            topics.DescribeConfigsResult(
                error_code=code, resource_type=each.resource_type, resource_name=each.resource_name
            )
            for each in request.resources
        ]
    )


def describe_groups(request: describe.DescribeGroupsRequest, version: int, code: int) -> Message:
    return describe.DescribeGroupsResponse(
        groups=[describe.DescribedGroup(error_code=code, group_id=name) for name in request.groups]
    )


def consumer_group_describe(request: describe.ConsumerGroupDescribeRequest, version: int, code: int) -> Message:
    return describe.ConsumerGroupDescribeResponse(
        groups=[describe.DescribedConsumerGroup(error_code=code, group_id=name) for name in request.group_ids]
    )


def delete_groups(request: describe.DeleteGroupsRequest, version: int, code: int) -> Message:
    return describe.DeleteGroupsResponse(
        results=[describe.DeletableGroupResult(group_id=name, error_code=code) for name in request.groups_names]
    )


def create_topics(request: topics.CreateTopicsRequest, version: int, code: int) -> Message:
    return topics.CreateTopicsResponse(
        topics=[topics.CreatableTopicResult(name=each.name, error_code=code) for each in request.topics]
    )


def create_partitions(request: topics.CreatePartitionsRequest, version: int, code: int) -> Message:
    return topics.CreatePartitionsResponse(
        results=[topics.CreatePartitionsTopicResult(name=each.name, error_code=code) for each in request.topics]
    )


def describe_transactions(request: transactions.DescribeTransactionsRequest, version: int, code: int) -> Message:
    return transactions.DescribeTransactionsResponse(
        transaction_states=[
            transactions.DescribedTransaction(error_code=code, transactional_id=each)
            for each in request.transactional_ids
        ]
    )


def _of_every_partition(request: Message, version: int, code: int) -> Message:
    return every_partition(request, code)


def _at_the_top(**fields: Any) -> Callable[[Any, int, int], Message]:
    """Return a function that makes a response with the error code in its field `error_code`. `fields` are the values of
    further fields that have no default."""

    def answer(request: Message, version: int, code: int) -> Message:
        return APIS[request.api_key].response(error_code=code, **fields)

    return answer


ANSWERS: Final[dict[type[Message], Callable[[Any, int, int], Message]]] = {
    **dict.fromkeys(PARTITION_LISTS, _of_every_partition),
    **dict.fromkeys(
        (
            group.SyncGroupRequest,
            group.HeartbeatRequest,
            group.LeaveGroupRequest,
            describe.ListGroupsRequest,
            offsets.OffsetDeleteRequest,
            transactions.InitProducerIdRequest,
            transactions.AddOffsetsToTxnRequest,
            transactions.EndTxnRequest,
            transactions.ListTransactionsRequest,
            consumer_group.ConsumerGroupHeartbeatRequest,
        ),
        _at_the_top(),
    ),
    cluster.ApiVersionsRequest: _at_the_top(api_keys=[]),
    cluster.DescribeClusterRequest: _at_the_top(cluster_id="", brokers=[]),
    cluster.FindCoordinatorRequest: find_coordinator,
    cluster.MetadataRequest: metadata,
    group.JoinGroupRequest: join_group,
    offsets.OffsetFetchRequest: offset_fetch,
    describe.DescribeGroupsRequest: describe_groups,
    describe.DeleteGroupsRequest: delete_groups,
    describe.ConsumerGroupDescribeRequest: consumer_group_describe,
    topics.CreateTopicsRequest: create_topics,
    topics.DeleteTopicsRequest: delete_topics,
    topics.CreatePartitionsRequest: create_partitions,
    topics.DescribeConfigsRequest: describe_configs,
    topics.AlterConfigsRequest: alter_configs,
    topics.IncrementalAlterConfigsRequest: alter_configs,
    transactions.AddPartitionsToTxnRequest: add_partitions_to_txn,
    transactions.DescribeTransactionsRequest: describe_transactions,
}

ANSWERED_APIS: Final = frozenset(APIS[request.api_key].name for request in ANSWERS)
"""Names of the APIs whose requests can be answered with an error code: all APIs that the broker serves."""

PARTITION_APIS: Final = frozenset(APIS[request.api_key].name for request in PARTITION_LISTS)
"""Names of the APIs whose responses can have an error code for single partitions."""


def error_response(request: Message, version: int, code: int) -> Message:
    """Make the response to a request that is not applied. If the response has an error code of its own, that is `code`;
    otherwise every entry that answers something named in the request has it."""
    return ANSWERS[type(request)](request, version, code)


def expects_response(request: Message) -> bool:
    """Whether a request expects a response: False for a Produce with `acks=0`."""
    return not (isinstance(request, records.ProduceRequest) and request.acks == 0)
