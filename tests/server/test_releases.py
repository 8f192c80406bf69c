"""A broker with the APIs of an older Apache Kafka: what it advertises and serves, and clients of it."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from structlog.testing import capture_logs

from regroup.cli.serve.command import emulated_release
from regroup.coordinator.settings import InvalidSetting
from regroup.protocol.apis import APIS
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.fields import Versions
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.describe import ConsumerGroupDescribeRequest
from regroup.protocol.messages.group import HeartbeatRequest
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from regroup.protocol.messages.records import ProduceRequest
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.server.releases import ANY_RELEASE, release_named, releases
from tests.coordinator.group_harness import behaviour
from tests.server.cluster_harness import NO_DELAY
from tests.server.test_real_clients import KafkaConsumer, KafkaProducer
from tests.server.wire_client import TIMEOUT_S, WireClient

NOT_EMULATED = Path(__file__).parents[2] / "docs" / "not-emulated.md"
FEATURES_OF_KAFKA_4_4 = {
    "group.version",
    "kraft.version",
    "metadata.version",
    "share.version",
    "streams.version",
    "transaction.version",
    "eligible.leader.replicas.version",
}
API_VERSIONS = ApiVersionsRequest.api_key
REQUEST = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@asynccontextmanager
async def running_release(name: str | None) -> AsyncIterator[BrokerCluster]:
    """A cluster of a release, or, without a name, with every known version."""
    options = ClusterOptions(settings=NO_DELAY, release=emulated_release(name or ANY_RELEASE))
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


CONSUMER_GROUP_APIS = {ConsumerGroupHeartbeatRequest.api_key, ConsumerGroupDescribeRequest.api_key}
"""Releases before 4.0 had previews of them, which are not served."""


@pytest.mark.parametrize("name", releases())
async def test_the_advertised_versions_are_those_of_both_the_release_and_this_broker(name: str) -> None:
    async with running_release(None) as cluster, client_of(cluster) as client:
        everything = await advertised(client)
    async with running_release(name) as cluster, client_of(cluster) as client:
        shown = await advertised(client)
    apis = releases()[name].apis
    previews = CONSUMER_GROUP_APIS if name < "4.0" else set()
    assert shown.keys() == everything.keys() & apis.keys() - previews
    for key, (first, last) in shown.items():
        assert (first, last) == (max(first, apis[key][0]), min(APIS[key].versions.last, apis[key][1]))


async def test_by_default_the_versions_are_exactly_those_of_the_newest_release() -> None:
    async with await BrokerCluster.start() as cluster, client_of(cluster) as client:
        shown = await advertised(client)
    *_, newest = releases().values()
    assert shown == {key: newest.apis[key] for key in shown}


async def test_the_apis_and_features_that_are_not_served_are_documented() -> None:
    async with await BrokerCluster.start() as cluster, client_of(cluster) as client:
        response: Any = await client.call(REQUEST, 5)
    *_, newest = releases().values()
    text = NOT_EMULATED.read_text(encoding="utf-8")
    documented = {int(number): name for name, number in re.findall(r"\b([A-Z][A-Za-z]+) \((\d+)\)[,| ]", text)}
    served = {row.api_key for row in response.api_keys}
    assert documented.keys() & newest.apis.keys() == newest.apis.keys() - served
    assert not documented.keys() & served
    features = {each.name for each in response.finalized_features}
    assert features == {"group.version", "transaction.version"}
    assert set(re.findall(r"`([a-z.]+\.version)`", text)) - features == FEATURES_OF_KAFKA_4_4 - features


def test_serve_emulates_the_newest_release_unless_told_otherwise() -> None:
    *names, newest = releases()
    assert emulated_release(None) is release_named(newest)
    assert emulated_release(names[0]) is release_named(names[0])
    assert emulated_release(ANY_RELEASE) is None


def commit() -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])])


@pytest.mark.parametrize(
    ("release", "request_", "version", "text"),
    [
        (
            "4.4",
            commit(),
            1,
            "OffsetCommit v1 is not served: Apache Kafka 4.4 has 2-10; for a client that is older start with "
            "--broker-version any",
        ),
        ("2.8", commit(), 9, "OffsetCommit v9 is not served: Apache Kafka 2.8 has 0-8"),
        (
            "4.4",
            ProduceRequest(acks=1, timeout_ms=1, topic_data=[]),
            2,
            "Produce v2 is not served: Apache Kafka 4.4 has 3-13; for a client that is older start with "
            "--broker-version any",
        ),
        (
            "3.9",
            ConsumerGroupDescribeRequest(group_ids=["g"]),
            0,
            "the API 69 (ConsumerGroupDescribe) is not served",
        ),
    ],
)
async def test_a_client_that_is_too_old_is_refused_with_what_to_do(
    release: str, request_: Message, version: int, text: str
) -> None:
    async with running_release(release) as cluster, client_of(cluster) as client:
        with capture_logs() as lines:
            client.send(request_, version)
            assert await client.is_closed_by_the_broker()
    assert [line["reason"] for line in lines if line["event"] == "connection closed"] == [text]


async def test_any_release_serves_the_oldest_versions_too() -> None:
    async with running_release(None) as cluster, client_of(cluster) as client:
        assert (await client.call(commit(), 1)).topics[0].partitions[0].error_code == 0
        assert (await client.call(ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), 2)).responses == []


async def test_produce_is_advertised_from_0_on_as_in_kafka_although_it_begins_with_3() -> None:
    """Old versions of librdkafka take a broker without Produce v0 for one that is too old (KAFKA-18659)."""
    async with running_release("4.4") as cluster, client_of(cluster) as client:
        assert (await advertised(client))[0] == (0, 13)
        assert (await client.call(ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), 3)).responses == []


HERE, ELSEWHERE, UNNAMED = "the id of this cluster", "another cluster", None


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (UNNAMED, -1, 0),
        (HERE, 0, 0),
        (HERE, 1, E.REBOOTSTRAP_REQUIRED),
        (HERE, -2, E.REBOOTSTRAP_REQUIRED),
        (ELSEWHERE, 0, E.REBOOTSTRAP_REQUIRED),
        ("", 0, E.REBOOTSTRAP_REQUIRED),
        (HERE, -1, E.INVALID_REQUEST),
        (ELSEWHERE, -1, E.INVALID_REQUEST),
        (UNNAMED, 0, E.INVALID_REQUEST),
    ],
)
@behaviour("validation.api-versions.other-broker")
async def test_a_client_that_means_another_broker_is_told_so(cluster_id: str | None, node_id: int, code: int) -> None:
    async with running_release("4.4") as cluster, client_of(cluster) as client:
        meant = cluster.state.cluster_id if cluster_id is HERE else cluster_id
        request = msgspec.structs.replace(REQUEST, cluster_id=meant, node_id=node_id)
        answer: Any = await client.call(request, 5)
        older: Any = await client.call(request, 4)
    assert answer.error_code == code
    assert bool(answer.api_keys) == bool(answer.finalized_features) == (code == 0)
    assert older.error_code == 0, "before v5 there are no such fields"


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


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("3.9", {}),
        ("4.0", {"group.version": 1, "transaction.version": 2}),
        (None, {"group.version": 1, "transaction.version": 2}),
    ],
)
async def test_the_protocols_of_kip_848_and_kip_890_are_features_since_4_0(
    name: str | None, levels: dict[str, int]
) -> None:
    async with running_release(name) as cluster, client_of(cluster) as client:
        answer: Any = await client.call(REQUEST, 3)
    features = {each.name: each.max_version_level for each in answer.finalized_features}
    assert features == levels
    assert answer.supported_features == []


async def test_a_feature_that_begins_at_0_is_returned_to_clients_that_can_decode_it() -> None:
    async with running_release(None) as cluster, client_of(cluster) as client:
        answer: Any = await client.call(REQUEST, 4)
    assert [(each.name, each.min_version, each.max_version) for each in answer.supported_features] == [
        ("group.version", 0, 1),
        ("transaction.version", 0, 2),
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


@pytest.mark.quick("2.0", "3.9")
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
