"""Making, changing, deleting and describing topics over the wire."""

import pytest

from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.cluster import FindCoordinatorRequest, MetadataRequest, MetadataRequestTopic
from regroup.protocol.messages.topics import (
    AlterConfigsEntry,
    AlterConfigsRequest,
    AlterConfigsResource,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsEntry,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)


def wanted(name: str, partitions: int = 1, copies: int = 1, **more) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=copies, **more)


def config(name: str, value: str | None) -> list[CreatableTopicConfig]:
    return [CreatableTopicConfig(name=name, value=value)]


async def create(client, *topics: CreatableTopic, **more) -> list[int]:
    response = await client.call(CreateTopicsRequest(topics=list(topics), **more))
    return [topic.error_code for topic in response.topics]


async def names(client) -> dict[str, int]:
    response = await client.call(MetadataRequest(topics=None))
    return {topic.name: len(topic.partitions) for topic in response.topics}


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
async def test_a_topic_is_made_or_refused_with_kafkas_code(served, topic: CreatableTopic, code: int) -> None:
    await served.topic("orders")
    client = await served.connect()
    assert await create(client, topic) == [code]
    assert (topic.name in await names(client)) is (code == 0 or topic.name == "orders")


async def test_minus_one_leaves_the_number_of_partitions_to_the_broker(serve) -> None:
    async with serve(num_partitions="7") as served:
        client = await served.connect()
        assert await create(client, wanted("orders", -1, -1)) == [0]
        assert await names(client) == {"orders": 7}


async def test_a_topic_that_is_only_validated_is_not_made(served) -> None:
    client = await served.connect()
    assert await create(client, wanted("orders"), validate_only=True) == [0]
    assert await names(client) == {}


async def test_a_name_that_is_said_twice_is_refused(served) -> None:
    client = await served.connect()
    assert await create(client, wanted("twice"), wanted("twice"), wanted("once")) == [E.INVALID_REQUEST, 0]


async def test_a_topic_is_deleted_by_name_or_by_id_and_comes_back_empty_with_another_id(served) -> None:
    await served.topic("orders")
    client = await served.connect()
    first = served.cluster.topics.by_name["orders"].id_bytes
    by_id = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=first)], timeout_ms=1)
    (deleted,) = (await client.call(by_id)).responses
    assert (deleted.name, deleted.error_code) == ("orders", 0)
    (again,) = (await client.call(by_id)).responses
    assert again.error_code == E.UNKNOWN_TOPIC_ID
    await create(client, wanted("orders"))
    assert served.cluster.topics.by_name["orders"].id_bytes != first
    by_name = DeleteTopicsRequest(topic_names=["orders", "unknown"], timeout_ms=1)
    assert [each.error_code for each in (await client.call(by_name, 4)).responses] == [0, 3]


@pytest.mark.parametrize(("version", "code"), [(2, E.INVALID_REQUEST), (3, E.TOPIC_DELETION_DISABLED)])
async def test_where_topics_cannot_be_deleted_the_code_says_so(serve, version: int, code: int) -> None:
    async with serve(delete_topic_enable="false") as served:
        await served.topic("orders")
        client = await served.connect()
        request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1)
        assert (await client.call(request, version)).responses[0].error_code == code
        assert await names(client) == {"orders": 1}


@pytest.mark.parametrize(("count", "code"), [(3, 0), (2, 37), (1, 37), (2**31 - 1, 44)])
async def test_a_topic_can_only_grow(served, count: int, code: int) -> None:
    await served.topic("orders", 2)
    client = await served.connect()
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=count)], timeout_ms=1)
    assert (await client.call(request)).results[0].error_code == code
    assert await names(client) == {"orders": 3 if code == 0 else 2}


async def test_a_topic_is_not_made_by_asking_where_that_is_not_allowed(serve) -> None:
    async with serve(auto_create_topics_enable="false") as served:
        client = await served.connect()
        request = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
        assert (await client.call(request)).topics[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_topic_is_not_made_for_a_client_that_does_not_want_it_made(served) -> None:
    client = await served.connect()
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=False)
    assert (await client.call(request)).topics[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(("version", "name"), [(10, ""), (12, None)])
async def test_an_unknown_id_is_answered_with_its_own_code(served, version: int, name: str | None) -> None:
    client = await served.connect()
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=bytes(15) + b"\xff", name=None)])
    (topic,) = (await client.call(request, version)).topics
    assert (topic.error_code, topic.name) == (E.UNKNOWN_TOPIC_ID, name)


async def test_the_oldest_metadata_takes_an_empty_list_for_all_topics(served) -> None:
    await served.topic("orders")
    client = await served.connect()
    assert [topic.name for topic in (await client.call(MetadataRequest(topics=[]), 0)).topics] == ["orders"]
    assert (await client.call(MetadataRequest(topics=[]), 1)).topics == []


# FindCoordinator


@pytest.mark.parametrize("version", range(7))
async def test_validation_find_coordinator_offsets_topic_missing(served, version: int) -> None:
    """validation.find-coordinator.offsets-topic-missing: the first to ask makes it, and asks again."""
    client = await served.connect()
    request = FindCoordinatorRequest(coordinator_keys=["g"]) if version >= 4 else FindCoordinatorRequest(key="g")
    first, then = await client.call(request, version), await client.call(request, version)
    if version >= 4:
        first, then = first.coordinators[0], then.coordinators[0]
    assert (first.error_code, first.node_id, first.host, first.port) == (15, -1, "", -1)
    assert (then.error_code, then.node_id, (then.host, then.port)) == (0, 0, served.broker.address)
    assert await names(client) == {"__consumer_offsets": 50}


async def test_validation_find_coordinator_versions(served) -> None:
    """validation.find-coordinator.versions: several keys since v4, and no message where nothing is wrong."""
    await served.topic("__consumer_offsets", 50)
    client = await served.connect()
    response = await client.call(FindCoordinatorRequest(coordinator_keys=["g1", "g2"]), 4)
    found = [(each.key, each.node_id, each.error_code, each.error_message) for each in response.coordinators]
    assert found == [("g1", 0, 0, None), ("g2", 0, 0, None)]


@pytest.mark.parametrize("key_type", [2, 9])
async def test_a_coordinator_of_an_unknown_kind_is_an_invalid_request(served, key_type: int) -> None:
    client = await served.connect()
    response = await client.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g"]))
    assert response.coordinators[0].error_code == E.INVALID_REQUEST


# Settings over the wire


async def described(client, kind: int, name: str) -> dict[str, tuple[str | None, int]]:
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=kind, resource_name=name)])
    (result,) = (await client.call(request)).results
    return {row.name: (row.value, row.config_source) for row in result.configs} or {"error": ("", result.error_code)}


async def test_a_topics_own_settings_are_told_from_those_of_the_broker(serve) -> None:
    async with serve(message_max_bytes="5000") as served:
        client = await served.connect()
        await create(client, wanted("orders", configs=config("retention.ms", "7")))
        rows = await described(client, 2, "orders")
        assert rows["retention.ms"] == ("7", 1)
        assert rows["max.message.bytes"] == ("5000", 4)
        assert rows["cleanup.policy"] == ("delete", 5)


async def test_a_brokers_settings_are_shown_and_say_where_they_come_from(serve) -> None:
    async with serve(num_partitions="3") as served:
        rows = await described(await served.connect(), 4, "0")
        assert rows["num.partitions"] == ("3", 4)
        assert rows["delete.topic.enable"] == ("true", 5)


@pytest.mark.parametrize(("kind", "name", "code"), [(2, "unknown", 3), (2, "a b", 17), (4, "9", 42), (77, "x", 42)])
async def test_what_has_no_settings_is_answered_with_a_code(served, kind: int, name: str, code: int) -> None:
    assert await described(await served.connect(), kind, name) == {"error": ("", code)}


async def test_settings_are_changed_one_by_one_or_replaced_as_a_whole(served) -> None:
    await served.topic("orders")
    client = await served.connect()
    changes = [
        ("retention.ms", 0, "9"),
        ("cleanup.policy", 2, "compact"),
        ("segment.ms", 0, "5"),
        ("segment.ms", 1, None),
    ]
    entries = [
        IncrementalAlterConfigsEntry(name=name, config_operation=operation, value=value)
        for name, operation, value in changes
    ]
    resource = IncrementalAlterConfigsResource(resource_type=2, resource_name="orders", configs=entries)
    response = await client.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert response.responses[0].error_code == 0
    assert served.cluster.topics.by_name["orders"].configs == {"retention.ms": "9", "cleanup.policy": "delete,compact"}
    whole = AlterConfigsResource(
        resource_type=2, resource_name="orders", configs=[AlterConfigsEntry(name="segment.ms", value="6")]
    )
    assert (await client.call(AlterConfigsRequest(resources=[whole]))).responses[0].error_code == 0
    assert served.cluster.topics.by_name["orders"].configs == {"segment.ms": "6"}


async def test_a_new_limit_holds_for_partitions_that_are_open_already(served) -> None:
    await served.topic("orders")
    log = served.cluster.partition(served.cluster.topics.by_name["orders"], 0)
    client = await served.connect()
    whole = AlterConfigsResource(
        resource_type=2, resource_name="orders", configs=[AlterConfigsEntry(name="retention.bytes", value="100")]
    )
    await client.call(AlterConfigsRequest(resources=[whole]))
    assert log.retention_bytes == 100


async def test_the_broker_itself_cannot_be_changed_while_it_runs(served) -> None:
    client = await served.connect()
    entry = IncrementalAlterConfigsEntry(name="num.partitions", config_operation=0, value="2")
    resource = IncrementalAlterConfigsResource(resource_type=4, resource_name="0", configs=[entry])
    response = await client.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert response.responses[0].error_code == E.INVALID_REQUEST
