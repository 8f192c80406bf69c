"""Metadata, DescribeCluster and FindCoordinator over the wire."""

import asyncio

import pytest

from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.cluster import (
    DescribeClusterRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
)
from regroup.server.apis.cluster import ClusterApis
from regroup.server.limits import STEPS_PER_TURN
from tests.coordinator.group_harness import behaviour
from tests.server.apis.topic_requests import names


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
