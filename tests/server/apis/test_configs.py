"""Settings of topics, brokers and groups, described and changed over the wire."""

from typing import Any

import pytest

from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.topics import (
    AlterConfigsEntry,
    AlterConfigsRequest,
    AlterConfigsResource,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsEntry,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.coordinator.group_harness import behaviour
from tests.server.apis.topic_requests import config, create, wanted


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
