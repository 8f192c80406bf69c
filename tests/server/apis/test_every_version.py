"""Every API and version that ApiVersions advertises gets a response."""

from functools import partial
from typing import Any
from uuid import UUID
from zlib import crc32

import pytest

from regroup.protocol.apis import APIS
from regroup.protocol.message import Message, Structure
from regroup.protocol.messages import cluster as c
from regroup.protocol.messages import records as r
from regroup.protocol.messages import topics as t
from regroup.protocol.messages import transactions as x
from tests.server.wire_client import WireClient

TOPIC_ID = UUID(
    int=1 << 64 | 2
).bytes  # in the first coordinator epoch the first id is the cluster's, the second the topic's


def request_of(api_key: int, version: int, batch: bytes) -> Message:
    """A request that succeeds with topic `orders` of one partition."""
    name = APIS[api_key].name
    makers = (partial(records_request, batch=batch), topics_request, transactions_request, cluster_request)
    found = [request for make in makers if (request := make(name, version))]
    assert len(found) == 1, f"no request for API {api_key}"
    return found[0]


def records_request(name: str, version: int, batch: bytes) -> Message | None:
    """A request for the records of the partition."""
    by_id = {"topic_id": TOPIC_ID}
    match name:
        case "Produce":
            which: dict[str, Any] = {"name": "orders"} if version < 13 else by_id
            partition = r.PartitionProduceData(index=0, records=batch if version >= 3 else legacy_message())
            return r.ProduceRequest(
                acks=1, timeout_ms=100, topic_data=[r.TopicProduceData(**which, partition_data=[partition])]
            )
        case "Fetch":
            which = {"topic": "orders"} if version < 13 else by_id
            wanted = r.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
            topics = [r.FetchTopic(**which, partitions=[wanted])]
            return r.FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics)
        case "ListOffsets":
            wanted = r.ListOffsetsPartition(partition_index=0, timestamp=-1)
            return r.ListOffsetsRequest(topics=[r.ListOffsetsTopic(name="orders", partitions=[wanted])])
        case "OffsetForLeaderEpoch":
            wanted = r.OffsetForLeaderPartition(partition=0, leader_epoch=0)
            return r.OffsetForLeaderEpochRequest(
                replica_id=-1 if version >= 3 else -2,
                topics=[r.OffsetForLeaderTopic(topic="orders", partitions=[wanted])],
            )
        case "DeleteRecords":
            partition = t.DeleteRecordsPartition(partition_index=0, offset=-1)
            return t.DeleteRecordsRequest(
                topics=[t.DeleteRecordsTopic(name="orders", partitions=[partition])], timeout_ms=1
            )
    return None


def topics_request(name: str, version: int) -> Message | None:
    """A request about the topic itself, or its settings."""
    match name:
        case "CreateTopics":
            topic = t.CreatableTopic(name=f"new-{version}", num_partitions=2, replication_factor=1)
            return t.CreateTopicsRequest(topics=[topic])
        case "CreatePartitions":
            return t.CreatePartitionsRequest(topics=[t.CreatePartitionsTopic(name="orders", count=3)], timeout_ms=1)
        case "DeleteTopics":
            return t.DeleteTopicsRequest(
                topics=[t.DeleteTopicState(name="orders")] if version >= 6 else [],
                topic_names=["orders"] if version < 6 else [],
                timeout_ms=100,
            )
        case "DescribeConfigs":
            asked = [t.DescribeConfigsResource(resource_type=kind, resource_name=name) for kind, name in BOTH]
            return t.DescribeConfigsRequest(resources=asked, include_synonyms=version >= 1)
        case "AlterConfigs":
            entry = t.AlterConfigsEntry(name="retention.ms", value="1")
            resource = t.AlterConfigsResource(resource_type=2, resource_name="orders", configs=[entry])
            return t.AlterConfigsRequest(resources=[resource])
        case "IncrementalAlterConfigs":
            change = t.IncrementalAlterConfigsEntry(name="retention.ms", config_operation=0, value="1")
            changes = t.IncrementalAlterConfigsResource(resource_type=2, resource_name="orders", configs=[change])
            return t.IncrementalAlterConfigsRequest(resources=[changes])
    return None


def transactions_request(name: str, version: int) -> Message | None:
    """A request of a transactional producer."""
    match name:
        case "InitProducerId":
            return x.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        case "AddPartitionsToTxn":
            return add_partitions_request(version)
        case "AddOffsetsToTxn":
            return x.AddOffsetsToTxnRequest(transactional_id="t", producer_id=0, producer_epoch=0, group_id="g")
        case "DescribeTransactions":
            return x.DescribeTransactionsRequest(transactional_ids=["t"])
        case "ListTransactions":
            return x.ListTransactionsRequest()
        case "EndTxn":
            return x.EndTxnRequest(transactional_id="t", producer_id=0, producer_epoch=0, committed=False)
    return None


def cluster_request(name: str, version: int) -> Message | None:
    """A request about the brokers."""
    match name:
        case "Metadata":
            return c.MetadataRequest(topics=[c.MetadataRequestTopic(name="orders")])
        case "FindCoordinator":
            keys: dict[str, Any] = {"coordinator_keys": ["g"]} if version >= 4 else {"key": "g"}
            return c.FindCoordinatorRequest(**keys)
        case "ApiVersions":
            names = {"client_software_name": "test", "client_software_version": "1.0"}
            return c.ApiVersionsRequest(**names)
        case "DescribeCluster":
            return c.DescribeClusterRequest(include_cluster_authorized_operations=True)
    return None


BOTH = [(2, "orders"), (4, "0")]


def add_partitions_request(version: int) -> x.AddPartitionsToTxnRequest:
    topics = [x.AddPartitionsToTxnTopic(name="orders", partitions=[0])]
    if version >= 4:
        transaction = x.AddPartitionsToTxnTransaction(
            transactional_id="t", producer_id=0, producer_epoch=0, topics=topics
        )
        return x.AddPartitionsToTxnRequest(transactions=[transaction])
    return x.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=0,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
    )


async def begin_a_transaction(client: WireClient) -> None:
    """`t` has producer id 0, epoch 0, and partition 0 of `orders`."""
    await client.call(x.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000))
    assert set(codes_in(await client.call(add_partitions_request(3), 3))) == {0}


def legacy_message() -> bytes:
    """`hello` as a message of format 1."""
    body = bytes.fromhex("0100") + (5).to_bytes(8, "big") + bytes.fromhex("ffffffff 00000005") + b"hello"
    sized = crc32(body).to_bytes(4, "big") + body
    return bytes(8) + len(sized).to_bytes(4, "big") + sized


def codes_in(value: Any) -> list[int]:
    """All error codes of a message, at any depth."""
    if isinstance(value, list):
        return [code for each in value for code in codes_in(each)]
    if not isinstance(value, Structure):
        return []
    found = []
    for name in value.__struct_fields__:
        inside = getattr(value, name)
        found += [inside] if name.endswith("error_code") else codes_in(inside)
    return found


SERVED = [0, 1, 2, 3, 10, 18, 19, 20, 21, 22, 23, 24, 25, 26, 32, 33, 37, 44, 60, 65, 66]
IN_A_TRANSACTION = [24, 25, 26, 65]


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(key, version) for key in SERVED for version in range(APIS[key].versions.first, APIS[key].versions.last + 1)],
)
async def test_every_version_gets_a_response_without_an_error(harness, make_batch, api_key: int, version: int) -> None:
    await harness.create_topic("orders")
    await harness.create_topic("__consumer_offsets", 50)
    client = await harness.connect()
    if api_key in IN_A_TRANSACTION:
        await begin_a_transaction(client)
    response = await client.call(request_of(api_key, version, make_batch(b"hello")), version)
    assert set(codes_in(response)) <= {0}
    assert type(response) is APIS[api_key].response


async def test_the_advertised_apis_are_those_with_a_handler(harness) -> None:
    client = await harness.connect()
    response = await client.call(c.ApiVersionsRequest(client_software_name="a", client_software_version="1"))
    rows = [(row.api_key, row.min_version, row.max_version) for row in response.api_keys]
    assert rows == [(key, *APIS[key].versions) for key in SERVED]
