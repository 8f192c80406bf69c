"""Responses with an error code: every API that the broker serves has one, in every version."""

import pytest

from regroup.protocol.apis import APIS
from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import NO_UUID, Versions
from regroup.protocol.frames import encode_response
from regroup.protocol.message import Message
from regroup.protocol.messages import cluster, consumer_group, describe, group, offsets, records, topics, transactions
from regroup.server.recording.exchange import error_entries
from regroup.server.responses.errors import ANSWERED_APIS, ANSWERS, error_response, expects_response
from regroup.server.responses.partitions import (
    PARTITION_LISTS,
    every_partition,
    named_partitions,
    with_errors_of,
    without_partitions,
)
from regroup.testing import Emulator

PRODUCER = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0}
COMMIT = offsets.OffsetCommitRequest(
    group_id="g",
    topics=[
        offsets.OffsetCommitRequestTopic(
            name="orders",
            partitions=[
                offsets.OffsetCommitRequestPartition(partition_index=index, committed_offset=7) for index in (0, 1, 2)
            ],
        ),
        offsets.OffsetCommitRequestTopic(
            name="bills",
            partitions=[offsets.OffsetCommitRequestPartition(partition_index=0, committed_offset=8)],
        ),
    ],
)
CONFIG = topics.AlterConfigsResource(resource_type=2, resource_name="orders", configs=[])
REQUESTS = [
    group.JoinGroupRequest(group_id="g", session_timeout_ms=1, protocol_type="consumer", protocols=[]),
    group.SyncGroupRequest(group_id="g", generation_id=1, member_id="m"),
    group.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
    group.LeaveGroupRequest(group_id="g"),
    cluster.FindCoordinatorRequest(key="g", coordinator_keys=["g"]),
    cluster.MetadataRequest(topics=[cluster.MetadataRequestTopic(name="orders")]),
    cluster.ApiVersionsRequest(),
    cluster.DescribeClusterRequest(),
    COMMIT,
    offsets.OffsetFetchRequest(
        group_id="g",
        topics=[offsets.OffsetFetchRequestTopic(name="orders", partition_indexes=[0])],
        groups=[offsets.OffsetFetchRequestGroup(group_id="g")],
    ),
    offsets.OffsetDeleteRequest(group_id="g", topics=[]),
    records.ProduceRequest(
        acks=1,
        timeout_ms=1,
        topic_data=[
            records.TopicProduceData(name="orders", partition_data=[records.PartitionProduceData(index=0, records=b"")])
        ],
    ),
    records.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            records.FetchTopic(
                topic="orders",
                partitions=[records.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)],
            )
        ],
    ),
    records.ListOffsetsRequest(
        topics=[
            records.ListOffsetsTopic(
                name="orders", partitions=[records.ListOffsetsPartition(partition_index=0, timestamp=-1)]
            )
        ]
    ),
    records.OffsetForLeaderEpochRequest(
        topics=[
            records.OffsetForLeaderTopic(
                topic="orders", partitions=[records.OffsetForLeaderPartition(partition=0, leader_epoch=0)]
            )
        ]
    ),
    describe.DescribeGroupsRequest(groups=["g"]),
    describe.ListGroupsRequest(),
    describe.DeleteGroupsRequest(groups_names=["g"]),
    describe.ConsumerGroupDescribeRequest(group_ids=["g"]),
    consumer_group.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0),
    topics.CreateTopicsRequest(topics=[topics.CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]),
    topics.DeleteTopicsRequest(topics=[topics.DeleteTopicState(name="orders")], topic_names=["orders"], timeout_ms=1),
    topics.CreatePartitionsRequest(topics=[topics.CreatePartitionsTopic(name="orders", count=2)], timeout_ms=1),
    topics.DeleteRecordsRequest(
        topics=[
            topics.DeleteRecordsTopic(
                name="orders", partitions=[topics.DeleteRecordsPartition(partition_index=0, offset=0)]
            )
        ],
        timeout_ms=1,
    ),
    topics.DescribeConfigsRequest(resources=[topics.DescribeConfigsResource(resource_type=2, resource_name="orders")]),
    topics.AlterConfigsRequest(resources=[CONFIG]),
    topics.IncrementalAlterConfigsRequest(
        resources=[topics.IncrementalAlterConfigsResource(resource_type=2, resource_name="orders", configs=[])]
    ),
    transactions.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1),
    transactions.AddPartitionsToTxnRequest(
        v3_and_below_topics=[transactions.AddPartitionsToTxnTopic(name="orders", partitions=[0])]
    ),
    transactions.AddOffsetsToTxnRequest(**PRODUCER, group_id="g"),
    transactions.TxnOffsetCommitRequest(
        **PRODUCER,
        group_id="g",
        topics=[
            transactions.TxnOffsetCommitRequestTopic(
                name="orders",
                partitions=[transactions.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
            )
        ],
    ),
    transactions.EndTxnRequest(**PRODUCER, committed=True),
    transactions.DescribeTransactionsRequest(transactional_ids=["t"]),
    transactions.ListTransactionsRequest(),
]


@pytest.mark.parametrize("request_sent", REQUESTS, ids=lambda each: type(each).__name__)
def test_an_error_answer_can_be_encoded_in_every_version_and_carries_the_code(request_sent: Message) -> None:
    versions: Versions = APIS[request_sent.api_key].versions
    for version in range(versions.first, versions.last + 1):
        response = error_response(request_sent, version, ErrorCode.NOT_COORDINATOR)
        assert {each.code for each in error_entries(response)} == {ErrorCode.NOT_COORDINATOR}
        assert encode_response(request_sent.api_key, version, 1, response)


def test_every_error_answer_is_tried() -> None:
    assert {type(each) for each in REQUESTS} == ANSWERS.keys()


def test_every_api_that_the_broker_serves_can_be_answered_with_an_error() -> None:
    with Emulator() as kafka, kafka.connect() as connection:
        served = connection.send(cluster.ApiVersionsRequest(), 0).api_keys
    assert {APIS[each.api_key].name for each in served} == ANSWERED_APIS


@pytest.mark.parametrize(
    "request_sent",
    [each for each in REQUESTS if type(each) in PARTITION_LISTS and type(each) is not cluster.MetadataRequest],
    ids=lambda each: type(each).__name__,
)
def test_an_error_of_every_partition_can_be_encoded(request_sent: Message) -> None:
    versions = APIS[request_sent.api_key].versions
    response = every_partition(request_sent, ErrorCode.NOT_COORDINATOR)
    has_partitions = not isinstance(request_sent, offsets.OffsetDeleteRequest)
    assert {each.code for each in error_entries(response)} == ({ErrorCode.NOT_COORDINATOR} if has_partitions else set())
    last = 7 if isinstance(request_sent, offsets.OffsetFetchRequest) else versions.last
    for version in range(versions.first, last + 1):
        assert encode_response(request_sent.api_key, version, 1, response)


def test_a_request_is_split_into_the_partitions_concerned_and_the_rest() -> None:
    rest, removed = without_partitions(COMMIT, lambda topic, index: (topic, index) != ("orders", 1), no_names)
    assert list(named_partitions(rest, no_names)) == [("orders", {1})]
    assert list(named_partitions(removed, no_names)) == [("orders", {0, 2}), ("bills", {0})]


def test_errors_come_before_the_other_partitions_of_their_topic() -> None:
    rest, removed = without_partitions(COMMIT, lambda topic, index: index == 2, no_names)
    response = with_errors_of(removed, every_partition(rest, ErrorCode.NONE), ErrorCode.NOT_COORDINATOR)
    shown = [
        (topic.name, each.partition_index, each.error_code) for topic in response.topics for each in topic.partitions
    ]
    assert shown == [("orders", 2, 16), ("orders", 0, 0), ("orders", 1, 0), ("bills", 0, 0)]


def test_only_a_producer_without_acknowledgements_expects_no_response() -> None:
    assert [expects_response(each) for each in REQUESTS] == [True] * len(REQUESTS)
    assert not expects_response(records.ProduceRequest(acks=0, timeout_ms=1, topic_data=[]))


def no_names(topic_id: bytes) -> str:
    assert topic_id == NO_UUID
    return ""
