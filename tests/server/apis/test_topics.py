"""Creating, deleting and growing topics over the wire."""

import pytest

from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.server.apis.topic_requests import config, create, names, wanted


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (wanted("fine"), E.NONE),
        (wanted("orders"), E.TOPIC_ALREADY_EXISTS),
        (wanted("a b"), E.INVALID_TOPIC_EXCEPTION),
        (wanted("none", 0), E.INVALID_PARTITIONS),
        (wanted("negative", -2), E.INVALID_PARTITIONS),
        (wanted("enormous", 2**31 - 1), E.POLICY_VIOLATION),
        (wanted("copies", copies=0), E.INVALID_REPLICATION_FACTOR),
        (wanted("copies", copies=2), E.INVALID_REPLICATION_FACTOR),
        (wanted("odd", configs=config("retention.mss", "1")), E.INVALID_CONFIG),
        (wanted("odd", configs=config("retention.ms", "x")), E.INVALID_CONFIG),
        (wanted("by-hand", -1, -1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[0])]), 0),
        (wanted("by-hand", 1, 1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[0])]), 42),
        (wanted("gap", -1, -1, assignments=[CreatableReplicaAssignment(partition_index=1, broker_ids=[0])]), 39),
        (wanted("who", -1, -1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[9])]), 39),
    ],
)
async def test_a_topic_is_created_or_refused_with_kafkas_code(harness, topic: CreatableTopic, code: int) -> None:
    await harness.create_topic("orders")
    client = await harness.connect()
    assert await create(client, topic) == [code]
    assert (topic.name in await names(client)) is (code == 0 or topic.name == "orders")


async def test_minus_one_partitions_means_the_brokers_default(start_broker) -> None:
    async with start_broker(num_partitions="7") as harness:
        client = await harness.connect()
        assert await create(client, wanted("orders", -1, -1)) == [0]
        assert await names(client) == {"orders": 7}


async def test_validate_only_does_not_create_a_topic(harness) -> None:
    client = await harness.connect()
    assert await create(client, wanted("orders"), validate_only=True) == [0]
    assert await names(client) == {}


async def test_a_topic_that_is_named_twice_is_refused(harness) -> None:
    client = await harness.connect()
    assert await create(client, wanted("twice"), wanted("twice"), wanted("once")) == [E.INVALID_REQUEST, 0]


@pytest.mark.parametrize("version", [1, 5, 6])
async def test_a_topic_that_is_named_twice_is_not_deleted(harness, version: int) -> None:
    client = await harness.connect()
    await create(client, wanted("orders"), wanted("bills"))
    twice = ["orders", "bills", "orders", "nope"]
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in twice] if version >= 6 else [],
        topic_names=twice if version < 6 else [],
        timeout_ms=1000,
    )
    response = await client.call(request, version)
    codes = [(each.name, each.error_code) for each in response.responses]
    assert codes == [("orders", 42), ("bills", 0), ("nope", 3)]
    assert await names(client) == {"orders": 1}


async def test_a_topic_that_is_named_and_given_by_its_id_is_not_deleted(harness) -> None:
    client = await harness.connect()
    await create(client, wanted("orders"))
    by_id = DeleteTopicState(name=None, topic_id=harness.state.topics["orders"].id_bytes)
    for states, name in (([by_id, by_id], None), ([by_id, DeleteTopicState(name="orders")], "orders")):
        response = await client.call(DeleteTopicsRequest(topics=states, timeout_ms=1000))
        assert [(each.name, each.error_code) for each in response.responses] == [(name, 42)]
    assert await names(client) == {"orders": 1}


async def test_a_topic_is_deleted_by_name_or_by_id_and_created_again_with_another_id(harness) -> None:
    await harness.create_topic("orders")
    client = await harness.connect()
    first = harness.state.topics["orders"].id_bytes
    by_id = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=first)], timeout_ms=1)
    (deleted,) = (await client.call(by_id)).responses
    assert (deleted.name, deleted.error_code) == ("orders", 0)
    (again,) = (await client.call(by_id)).responses
    assert again.error_code == E.UNKNOWN_TOPIC_ID
    await create(client, wanted("orders"))
    assert harness.state.topics["orders"].id_bytes != first
    by_name = DeleteTopicsRequest(topic_names=["orders", "unknown"], timeout_ms=1)
    assert [each.error_code for each in (await client.call(by_name, 4)).responses] == [0, 3]


@pytest.mark.parametrize(("version", "code"), [(2, E.INVALID_REQUEST), (3, E.TOPIC_DELETION_DISABLED)])
async def test_topic_deletion_can_be_disabled(start_broker, version: int, code: int) -> None:
    async with start_broker(delete_topic_enable="false") as harness:
        await harness.create_topic("orders")
        client = await harness.connect()
        request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1)
        assert (await client.call(request, version)).responses[0].error_code == code
        assert await names(client) == {"orders": 1}


@pytest.mark.parametrize(("count", "code"), [(3, 0), (2, 37), (1, 37), (2**31 - 1, 44)])
async def test_partitions_can_only_be_added(harness, count: int, code: int) -> None:
    await harness.create_topic("orders", 2)
    client = await harness.connect()
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=count)], timeout_ms=1)
    assert (await client.call(request)).results[0].error_code == code
    assert await names(client) == {"orders": 3 if code == 0 else 2}


@pytest.mark.parametrize(
    ("topics", "code"),
    [
        ([wanted("one", 9_999)], E.NONE),
        ([wanted("one", 10_000)], E.POLICY_VIOLATION),
        ([wanted("one", 9_998, configs=config("retention.ms", "1000"))], E.NONE),
        ([wanted("one", 9_999, configs=config("retention.ms", "1000"))], E.POLICY_VIOLATION),
        ([wanted(f"topic-{number}") for number in range(5_000)], E.NONE),
        ([wanted(f"topic-{number}") for number in range(5_001)], E.POLICY_VIOLATION),
        ([wanted("one"), wanted("one"), wanted("two", 9_999), wanted("three")], E.POLICY_VIOLATION),
        ([wanted("one"), wanted("one"), wanted("two", 10_001)], E.POLICY_VIOLATION),
    ],
)
async def test_topics_settings_and_partitions_of_one_request_are_limited_together(
    harness, topics: list[CreatableTopic], code: int
) -> None:
    """Asked of Kafka 4.4.0: beyond 10,000 of them every entry of the request is refused, repeated ones too."""
    client = await harness.connect()
    assert await create(client, *topics, validate_only=True) == [code] * len(topics)


async def test_topics_that_cannot_be_created_do_not_count(harness) -> None:
    await harness.create_topic("orders")
    client = await harness.connect()
    topics = [wanted("orders", 5_000), wanted("new", 5_000)]
    assert await create(client, *topics, validate_only=True) == [E.TOPIC_ALREADY_EXISTS, E.NONE]
