"""Creating, configuring, deleting and describing topics over the wire."""

import asyncio
from typing import Any

import pytest

from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.cluster import (
    DescribeClusterRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
)
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
from regroup.server.apis.cluster import ClusterApis
from regroup.server.limits import STEPS_PER_TURN
from tests.coordinator.group_harness import behaviour


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


async def test_metadata_does_not_create_a_topic_without_auto_creation(start_broker) -> None:
    async with start_broker(auto_create_topics_enable="false") as harness:
        client = await harness.connect()
        request = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
        assert (await client.call(request)).topics[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION


async def test_metadata_does_not_create_a_topic_if_the_request_does_not_allow_it(harness) -> None:
    client = await harness.connect()
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=False)
    assert (await client.call(request)).topics[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [1, 9, 12])
async def test_metadata_has_each_topic_once_and_errors_last(harness, version: int) -> None:
    await harness.create_topic("orders")
    asked = [MetadataRequestTopic(name=name) for name in ("a b", "nope", "orders", "nope", "orders", "a b")]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    response = await (await harness.connect()).call(request, max(version, 4))
    assert [(each.name, each.error_code) for each in response.topics] == [("orders", 0), ("a b", 17), ("nope", 3)]


async def test_metadata_has_unknown_topic_ids_first(harness) -> None:
    await harness.create_topic("orders")
    known = harness.state.topics["orders"].id_bytes
    asked = [MetadataRequestTopic(name=None, topic_id=each) for each in (known, b"\x07" * 16, known)]
    response = await (await harness.connect()).call(MetadataRequest(topics=asked), 12)
    assert [(each.topic_id == known, each.error_code) for each in response.topics] == [(False, 100), (True, 0)]


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


async def test_unknown_topics_are_described_with_the_texts_that_kafka_has(harness) -> None:
    """Asked of Kafka 4.4.0."""
    client = await harness.connect()
    described = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=2, resource_name="nope")])
    (result,) = (await client.call(described)).results
    assert (result.error_code, result.error_message) == (E.UNKNOWN_TOPIC_OR_PARTITION, "")
    growing = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="nope", count=3)], timeout_ms=1_000)
    (grown,) = (await client.call(growing)).results
    assert (grown.error_code, grown.error_message) == (E.UNKNOWN_TOPIC_OR_PARTITION, None)


@pytest.mark.parametrize("operation", [-1, 4, 9])
async def test_an_unknown_operation_on_a_setting_is_refused_as_in_kafka(harness, operation: int) -> None:
    await harness.create_topic("orders")
    entry = IncrementalAlterConfigsEntry(name="retention.ms", config_operation=operation, value="1")
    resource = IncrementalAlterConfigsResource(resource_type=2, resource_name="orders", configs=[entry])
    response = await (await harness.connect()).call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert response.responses[0].error_code == E.UNKNOWN_SERVER_ERROR


async def test_settings_for_all_brokers_are_none(harness) -> None:
    described = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=4, resource_name="")])
    (result,) = (await (await harness.connect()).call(described)).results
    assert (result.error_code, result.configs) == (E.NONE, [])


async def test_metadata_leaves_out_names_beside_topic_ids(harness) -> None:
    """Asked of Kafka 4.4.0."""
    await harness.create_topic("orders")
    await harness.create_topic("payments")
    asked = [
        MetadataRequestTopic(name="payments"),
        MetadataRequestTopic(topic_id=harness.state.topics["orders"].id_bytes),
    ]
    response = await (await harness.connect()).call(MetadataRequest(topics=asked), 12)
    assert [each.name for each in response.topics] == ["orders"]


@pytest.mark.parametrize("topics", [None, [MetadataRequestTopic(name="large")]])
async def test_the_partitions_of_a_large_topic_are_described_in_turns(
    harness, topics: list[MetadataRequestTopic] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.create_topic("large", 20_000)
    client = await harness.connect()
    described, most = 0, 0
    describe = ClusterApis._describe_partition

    def counted(self: ClusterApis, index: int) -> MetadataResponsePartition:
        nonlocal described
        described += 1
        return describe(self, index)

    def each_turn() -> None:
        nonlocal described, most
        most, described = max(most, described), 0
        ticker.append(asyncio.get_running_loop().call_soon(each_turn))

    monkeypatch.setattr(ClusterApis, "_describe_partition", counted)
    ticker = [asyncio.get_running_loop().call_soon(each_turn)]
    response = await client.call(MetadataRequest(topics=topics), 12)
    ticker[-1].cancel()
    assert [each.partition_index for each in response.topics[0].partitions] == list(range(20_000))
    assert 0 < most <= STEPS_PER_TURN


@pytest.mark.parametrize(("endpoint_type", "code"), [(2, 114), (3, 115)])
async def test_a_broker_describes_brokers_only(harness, endpoint_type: int, code: int) -> None:
    request = DescribeClusterRequest(endpoint_type=endpoint_type)
    response = await (await harness.connect()).call(request)
    found = (response.error_code, response.endpoint_type, response.brokers, response.controller_id, response.cluster_id)
    assert found == (code, 1, [], -1, "")
    assert response.error_message


@pytest.mark.parametrize(("version", "name"), [(10, ""), (12, None)])
async def test_an_unknown_topic_id_has_its_own_code(harness, version: int, name: str | None) -> None:
    client = await harness.connect()
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=bytes(15) + b"\xff", name=None)])
    (topic,) = (await client.call(request, version)).topics
    assert (topic.error_code, topic.name) == (E.UNKNOWN_TOPIC_ID, name)


async def test_metadata_v0_with_an_empty_list_returns_all_topics(harness) -> None:
    await harness.create_topic("orders")
    client = await harness.connect()
    assert [topic.name for topic in (await client.call(MetadataRequest(topics=[]), 0)).topics] == ["orders"]
    assert (await client.call(MetadataRequest(topics=[]), 1)).topics == []


# FindCoordinator


@pytest.mark.parametrize("version", range(7))
async def test_validation_find_coordinator_offsets_topic_missing(harness, version: int) -> None:
    """validation.find-coordinator.offsets-topic-missing: the first request creates it, and is repeated."""
    client = await harness.connect()
    request = FindCoordinatorRequest(coordinator_keys=["g"]) if version >= 4 else FindCoordinatorRequest(key="g")
    first, then = await client.call(request, version), await client.call(request, version)
    if version >= 4:
        first, then = first.coordinators[0], then.coordinators[0]
    assert (first.error_code, first.node_id, first.host, first.port) == (15, -1, "", -1)
    assert (then.error_code, then.node_id, (then.host, then.port)) == (0, 0, harness.broker.address)
    assert await names(client) == {"__consumer_offsets": 50}


async def test_validation_find_coordinator_versions(harness) -> None:
    """validation.find-coordinator.versions: several keys since v4, and an empty message without an error."""
    await harness.create_topic("__consumer_offsets", 50)
    client = await harness.connect()
    response = await client.call(FindCoordinatorRequest(coordinator_keys=["g1", "g2"]), 4)
    found = [(each.key, each.node_id, each.error_code, each.error_message) for each in response.coordinators]
    assert found == [("g1", 0, 0, ""), ("g2", 0, 0, "")]


@behaviour("validation.find-coordinator.error-message")
@pytest.mark.parametrize(("key_type", "has_text"), [(2, False), (9, True), (-1, True)])
async def test_an_unknown_key_type_is_an_invalid_request(harness, key_type: int, has_text: bool) -> None:
    """Since v4 the errors of a coordinator have an empty text; a type that does not exist has a real one."""
    client = await harness.connect()
    response = await client.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g"]))
    found = response.coordinators[0]
    assert (found.error_code, found.error_message is not None, bool(found.error_message)) == (42, True, has_text)
    older = await client.call(FindCoordinatorRequest(key_type=key_type, key="g"), 3)
    assert (older.error_code, bool(older.error_message)) == (42, True)


# Configs


async def described(client, kind: int, name: str) -> dict[str, tuple[str | None, int]]:
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=kind, resource_name=name)])
    (result,) = (await client.call(request)).results
    return {row.name: (row.value, row.config_source) for row in result.configs} or {"error": ("", result.error_code)}


async def test_a_topics_own_settings_have_another_source_than_the_brokers(start_broker) -> None:
    async with start_broker(message_max_bytes="5000") as harness:
        client = await harness.connect()
        await create(client, wanted("orders", configs=config("retention.ms", "7")))
        rows = await described(client, 2, "orders")
        assert rows["retention.ms"] == ("7", 1)
        assert rows["max.message.bytes"] == ("5000", 4)
        assert rows["cleanup.policy"] == ("delete", 5)


async def test_a_brokers_settings_are_described_with_their_source(start_broker) -> None:
    async with start_broker(num_partitions="3") as harness:
        rows = await described(await harness.connect(), 4, "0")
        assert rows["num.partitions"] == ("3", 4)
        assert rows["delete.topic.enable"] == ("true", 5)


@pytest.mark.parametrize(("kind", "name", "code"), [(2, "unknown", 3), (2, "a b", 17), (4, "9", 42), (77, "x", 42)])
async def test_a_resource_without_settings_is_refused(harness, kind: int, name: str, code: int) -> None:
    assert await described(await harness.connect(), kind, name) == {"error": ("", code)}


async def test_settings_are_changed_incrementally_or_replaced_as_a_whole(harness) -> None:
    await harness.create_topic("orders")
    client = await harness.connect()
    changes = [
        ("retention.ms", 0, "9"),
        ("cleanup.policy", 2, "compact"),
        ("segment.ms", 1, None),
    ]
    entries = [
        IncrementalAlterConfigsEntry(name=name, config_operation=operation, value=value)
        for name, operation, value in changes
    ]
    resource = IncrementalAlterConfigsResource(resource_type=2, resource_name="orders", configs=entries)
    response = await client.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert response.responses[0].error_code == 0
    assert harness.state.topics["orders"].configs == {"retention.ms": "9", "cleanup.policy": "delete,compact"}
    whole = AlterConfigsResource(
        resource_type=2, resource_name="orders", configs=[AlterConfigsEntry(name="segment.ms", value="6")]
    )
    assert (await client.call(AlterConfigsRequest(resources=[whole]))).responses[0].error_code == 0
    assert harness.state.topics["orders"].configs == {"segment.ms": "6"}


def change(name: str, value: str | None = "7", topic: str = "orders") -> Any:
    entry = IncrementalAlterConfigsEntry(name=name, config_operation=0, value=value)
    return IncrementalAlterConfigsResource(resource_type=2, resource_name=topic, configs=[entry])


def change_both(one: Any, other: Any) -> Any:
    return IncrementalAlterConfigsResource(resource_type=2, resource_name="orders", configs=one.configs + other.configs)


@pytest.mark.parametrize(
    ("resources", "codes"),
    [
        ([change("retention.ms"), change("segment.ms", topic="bills")], [0, 0]),
        ([change("retention.ms"), change("retention.ms", topic="bills"), change("segment.ms")], [42, 0, 42]),
        ([change_both(change("retention.ms", "1"), change("retention.ms", "2"))], [42]),
        ([change("retention.ms", None)], [42]),
    ],
)
async def test_a_change_that_names_something_twice_or_has_no_value_is_refused(harness, resources, codes) -> None:
    """Apache Kafka 4.4.0 does so too, except that AlterConfigs with the same resource twice gets no answer from it."""
    for topic in ("orders", "bills"):
        await harness.create_topic(topic)
    client = await harness.connect()
    response = await client.call(IncrementalAlterConfigsRequest(resources=resources))
    assert [each.error_code for each in response.responses] == codes
    if 42 in codes:
        assert harness.state.topics["orders"].configs == {}
    whole = [
        AlterConfigsResource(
            resource_type=2,
            resource_name=each.resource_name,
            configs=[AlterConfigsEntry(name=entry.name, value=entry.value) for entry in each.configs],
        )
        for each in resources
    ]
    response = await client.call(AlterConfigsRequest(resources=whole))
    assert [each.error_code for each in response.responses] == codes


@behaviour("describe.group-configs")
async def test_the_settings_of_a_group_are_those_of_the_groups_of_kip_848_and_later(harness) -> None:
    client = await harness.connect()
    asked = [DescribeConfigsResource(resource_type=32, resource_name=name) for name in ("any group", "")]
    for version in (1, 4):
        group, nameless = (
            await client.call(DescribeConfigsRequest(resources=asked, include_synonyms=True), version)
        ).results
        assert (group.error_code, group.error_message, len(group.configs)) == (0, "", 21)
        row = group.configs[0]
        assert (row.name, row.value, row.read_only, row.config_source) == (
            "consumer.session.timeout.ms",
            "45000",
            False,
            5,
        )
        assert [(each.name, each.value, each.source) for each in row.synonyms] == [
            ("group.consumer.session.timeout.ms", "45000", 5)
        ]
        assert (nameless.error_code, bool(nameless.error_message), nameless.configs) == (42, True, [])
    entry = IncrementalAlterConfigsEntry(name="consumer.session.timeout.ms", config_operation=0, value="50000")
    resource = IncrementalAlterConfigsResource(resource_type=32, resource_name="any group", configs=[entry])
    changed = await client.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert changed.responses[0].error_code == E.INVALID_REQUEST


@pytest.mark.parametrize(("keys", "count"), [(None, 23), ([], 23), (["retention.ms"], 1), (["unknown"], 0)])
async def test_no_setting_is_named_to_ask_for_all(harness, keys: list[str] | None, count: int) -> None:
    await harness.create_topic("orders")
    asked = DescribeConfigsResource(resource_type=2, resource_name="orders", configuration_keys=keys)
    (result,) = (await (await harness.connect()).call(DescribeConfigsRequest(resources=[asked]))).results
    assert (len(result.configs), result.error_message) == (count, "")


async def test_a_new_retention_applies_to_existing_partitions(harness) -> None:
    await harness.create_topic("orders")
    log = harness.state.partition_log(harness.state.topics["orders"], 0)
    client = await harness.connect()
    whole = AlterConfigsResource(
        resource_type=2, resource_name="orders", configs=[AlterConfigsEntry(name="retention.bytes", value="100")]
    )
    await client.call(AlterConfigsRequest(resources=[whole]))
    assert log.retention_bytes == 100


async def test_a_brokers_settings_cannot_be_altered(harness) -> None:
    client = await harness.connect()
    entry = IncrementalAlterConfigsEntry(name="num.partitions", config_operation=0, value="2")
    resource = IncrementalAlterConfigsResource(resource_type=4, resource_name="0", configs=[entry])
    response = await client.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert response.responses[0].error_code == E.INVALID_REQUEST
