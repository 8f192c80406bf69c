"""A broker with the APIs of an older Apache Kafka: what it advertises and serves, and clients of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from regroup.coordinator.settings import InvalidSetting
from regroup.protocol.apis import APIS
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.fields import Versions
from regroup.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from regroup.protocol.messages.group import HeartbeatRequest
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.server.releases import release_named, releases
from tests.server.cluster_harness import NO_DELAY
from tests.server.test_real_clients import KafkaConsumer, KafkaProducer
from tests.server.wire_client import TIMEOUT_S, WireClient

API_VERSIONS = ApiVersionsRequest.api_key
REQUEST = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@asynccontextmanager
async def running_release(name: str | None) -> AsyncIterator[BrokerCluster]:
    options = ClusterOptions(settings=NO_DELAY, release=release_named(name) if name else None)
    async with await BrokerCluster.start(options=options) as cluster:
        await cluster.ensure_topic("orders", 2)
        yield cluster


@asynccontextmanager
async def client_of(cluster: BrokerCluster) -> AsyncIterator[WireClient]:
    client = await WireClient.connect(*cluster.address)
    yield client
    await client.close()


async def advertised(client: WireClient, version: int = 0) -> dict[int, tuple[int, int]]:
    answer: Any = await client.call(REQUEST, version)
    assert answer.error_code == 0
    return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}


def test_releases_are_named_by_their_first_two_numbers_in_order() -> None:
    names = list(releases())
    assert names == sorted(names, key=lambda name: [int(part) for part in name.split(".")])
    assert all(release.jars.startswith(f"{name}.") for name, release in releases().items())


def test_the_table_has_well_known_versions_of_some_releases() -> None:
    """KIP-345 came with 2.3, KIP-482 with 2.4, KIP-896 with 4.0."""
    joins = {name: release_named(name).apis[11] for name in ("2.0", "2.3", "2.4", "3.2")}
    assert joins == {"2.0": (0, 3), "2.3": (0, 5), "2.4": (0, 6), "3.2": (0, 9)}
    assert 44 not in release_named("2.2").apis, "IncrementalAlterConfigs came with 2.3"
    assert release_named("4.0").apis[1] == (4, 17)
    assert [release_named(name).transaction_version for name in ("2.8", "3.9", "4.0")] == [0, 0, 2]


def test_an_unknown_release_is_refused_with_a_list_of_the_known_ones() -> None:
    with pytest.raises(InvalidSetting, match=r"no table for Apache Kafka '1\.1'.*2\.0, 2\.1"):
        release_named("1.1")


@pytest.mark.parametrize("name", releases())
async def test_the_advertised_versions_are_those_of_both_the_release_and_this_broker(name: str) -> None:
    async with running_release(None) as cluster, client_of(cluster) as client:
        everything = await advertised(client)
    async with running_release(name) as cluster, client_of(cluster) as client:
        shown = await advertised(client)
    apis = releases()[name].apis
    assert shown.keys() == everything.keys() & apis.keys()
    for key, (first, last) in shown.items():
        assert (first, last) == (max(first, apis[key][0]), min(APIS[key].versions.last, apis[key][1]))


async def test_a_version_that_the_release_does_not_have_closes_the_connection() -> None:
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    async with running_release("2.0") as cluster:
        async with client_of(cluster) as client:
            assert (await client.call(heartbeat, 2)).error_code == E.UNKNOWN_MEMBER_ID
        async with client_of(cluster) as client:
            client.send(heartbeat, 3)
            assert await client.is_closed_by_the_broker()


async def test_an_api_versions_request_of_a_newer_version_gets_the_supported_ones() -> None:
    async with running_release("2.0") as cluster, client_of(cluster) as client:
        client.send(REQUEST, 3)
        answer: Any = await client.receive(API_VERSIONS, 0)
        assert isinstance(answer, ApiVersionsResponse)
        assert answer.error_code == E.UNSUPPORTED_VERSION
        assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(API_VERSIONS, 0, 2)]


@pytest.mark.parametrize(("name", "level"), [("3.9", None), ("4.0", 2), (None, 2)])
async def test_the_transaction_protocol_of_kip_890_is_a_feature_since_4_0(name: str | None, level: int | None) -> None:
    async with running_release(name) as cluster, client_of(cluster) as client:
        answer: Any = await client.call(REQUEST, 3)
    features = {each.name: each.max_version_level for each in answer.finalized_features}
    assert features == ({"transaction.version": level} if level else {})
    assert answer.supported_features == []


async def test_a_feature_that_begins_at_0_is_returned_to_clients_that_can_decode_it() -> None:
    async with running_release(None) as cluster, client_of(cluster) as client:
        answer: Any = await client.call(REQUEST, 4)
    assert [(each.name, each.min_version, each.max_version) for each in answer.supported_features] == [
        ("transaction.version", 0, 2)
    ]


def test_an_api_without_a_common_version_is_not_served() -> None:
    assert release_named("4.0").limit(1, Versions(0, 3)) is None
    assert release_named("2.0").limit(68, Versions(0, 1)) is None


# Unmodified clients consume in a group, and commit


def confluent(address: str) -> list[bytes]:
    producer = Producer({"bootstrap.servers": address})
    producer.produce("orders", b"hello", partition=1)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    messages = consumer.consume(1, timeout=TIMEOUT_S)
    consumer.commit(asynchronous=False)
    consumer.close()
    return [message.value() for message in messages]


def kafka_python(address: str) -> list[bytes]:
    with KafkaProducer(bootstrap_servers=address) as producer:
        producer.send("orders", b"hello", partition=1).get(TIMEOUT_S)
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=address,
        group_id="g",
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1000,
    )
    values = [next(consumer).value]
    consumer.commit()
    consumer.close()
    return values


def aiokafka(address: str) -> list[bytes]:
    async def run() -> list[bytes]:
        async with AIOKafkaProducer(bootstrap_servers=address) as producer:
            await producer.send_and_wait("orders", b"hello", partition=1)
        async with AIOKafkaConsumer(
            "orders", bootstrap_servers=address, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            values = [(await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value]
            await consumer.commit()
            return values

    return asyncio.run(run())


@pytest.mark.parametrize("library", [confluent, kafka_python, aiokafka])
@pytest.mark.parametrize("name", ["2.0", "2.4", "2.8", "3.4", "4.0", "4.1"])
async def test_current_clients_consume_from_a_broker_of_an_older_release(
    name: str, library: Callable[[str], list[bytes]]
) -> None:
    async with running_release(name) as cluster:
        assert await asyncio.to_thread(library, "{}:{}".format(*cluster.address)) == [b"hello"]
        committed = cluster.coordinator_of("g").group("g").committed_offset("orders", 1)
        assert committed is not None
        assert committed.offset == 1
