"""A broker that passes for an older Apache Kafka: what it advertises, what it serves, and clients that cope with it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from regroup.coordinator.settings import InvalidSetting, Settings
from regroup.protocol.apis import APIS
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.fields import Versions
from regroup.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from regroup.protocol.messages.group import HeartbeatRequest
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.server.releases import release_named, releases
from regroup.storage.memory import MemoryStore
from tests.server.client import NOW_MS, PATIENCE_S, Client
from tests.server.test_real_clients import KafkaConsumer, KafkaProducer

API_VERSIONS = ApiVersionsRequest.api_key
ASKING = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@asynccontextmanager
async def passing_for(name: str | None) -> AsyncIterator[Emulator]:
    emulator = Emulator(
        MemoryStore().open,
        clock=Clock(started_at_ms=NOW_MS, monotonic_s=asyncio.get_running_loop().time),
        new_uuid=uuid4,
        settings=Settings(group_initial_rebalance_delay_ms=0),
        release=release_named(name) if name else None,
    )
    await emulator.start()
    await emulator.ensure_topic("orders", 2)
    yield emulator
    await emulator.close()


@asynccontextmanager
async def client_of(emulator: Emulator) -> AsyncIterator[Client]:
    client = Client(*await asyncio.open_connection(*emulator.address))
    yield client
    await client.close()


async def advertised(client: Client, version: int = 0) -> dict[int, tuple[int, int]]:
    answer: Any = await client.call(ASKING, version)
    assert answer.error_code == 0
    return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}


def test_releases_are_named_by_their_first_two_numbers_in_order() -> None:
    names = list(releases())
    assert names == sorted(names, key=lambda name: [int(part) for part in name.split(".")])
    assert all(release.jars.startswith(f"{name}.") for name, release in releases().items())


def test_what_everybody_knows_of_some_releases_stands_in_the_table() -> None:
    """KIP-345 came with 2.3, KIP-482 with 2.4, KIP-896 with 4.0."""
    joins = {name: release_named(name).apis[11] for name in ("2.0", "2.3", "2.4", "3.2")}
    assert joins == {"2.0": (0, 3), "2.3": (0, 5), "2.4": (0, 6), "3.2": (0, 9)}
    assert 44 not in release_named("2.2").apis, "IncrementalAlterConfigs came with 2.3"
    assert release_named("4.0").apis[1] == (4, 17)
    assert [release_named(name).transaction_version for name in ("2.8", "3.9", "4.0")] == [0, 0, 2]


def test_a_release_without_a_table_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(InvalidSetting, match=r"no table for Apache Kafka '1\.1'.*2\.0, 2\.1"):
        release_named("1.1")


@pytest.mark.parametrize("name", releases())
async def test_what_is_advertised_is_what_the_release_had_and_this_broker_knows(name: str) -> None:
    async with passing_for(None) as emulator, client_of(emulator) as client:
        everything = await advertised(client)
    async with passing_for(name) as emulator, client_of(emulator) as client:
        shown = await advertised(client)
    apis = releases()[name].apis
    assert shown.keys() == everything.keys() & apis.keys()
    for key, (first, last) in shown.items():
        assert (first, last) == (max(first, apis[key][0]), min(APIS[key].versions.last, apis[key][1]))


async def test_a_version_that_the_release_did_not_have_closes_the_connection() -> None:
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    async with passing_for("2.0") as emulator:
        async with client_of(emulator) as client:
            assert (await client.call(beat, 2)).error_code == E.UNKNOWN_MEMBER_ID
        async with client_of(emulator) as client:
            client.send(beat, 3)
            assert await client.is_closed_by_the_broker()


async def test_a_newer_question_for_versions_is_answered_with_those_that_there_are() -> None:
    async with passing_for("2.0") as emulator, client_of(emulator) as client:
        client.send(ASKING, 3)
        answer: Any = await client.receive(API_VERSIONS, 0)
        assert isinstance(answer, ApiVersionsResponse)
        assert answer.error_code == E.UNSUPPORTED_VERSION
        assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(API_VERSIONS, 0, 2)]


@pytest.mark.parametrize(("name", "level"), [("3.9", None), ("4.0", 2), (None, 2)])
async def test_the_transaction_protocol_of_kip_890_is_a_feature_since_4_0(name: str | None, level: int | None) -> None:
    async with passing_for(name) as emulator, client_of(emulator) as client:
        answer: Any = await client.call(ASKING, 3)
    features = {each.name: each.max_version_level for each in answer.finalized_features}
    assert features == ({"transaction.version": level} if level else {})
    assert answer.supported_features == []


async def test_a_feature_that_begins_at_0_is_shown_to_those_who_can_read_it() -> None:
    async with passing_for(None) as emulator, client_of(emulator) as client:
        answer: Any = await client.call(ASKING, 4)
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
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    messages = consumer.consume(1, timeout=PATIENCE_S)
    consumer.commit(asynchronous=False)
    consumer.close()
    return [message.value() for message in messages]


def kafka_python(address: str) -> list[bytes]:
    with KafkaProducer(bootstrap_servers=address) as producer:
        producer.send("orders", b"hello", partition=1).get(PATIENCE_S)
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=address,
        group_id="g",
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_S * 1000,
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
            values = [(await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value]
            await consumer.commit()
            return values

    return asyncio.run(run())


@pytest.mark.parametrize("library", [confluent, kafka_python, aiokafka])
@pytest.mark.parametrize("name", ["2.0", "2.4", "2.8", "3.4", "4.0", "4.1"])
async def test_clients_of_today_consume_from_a_broker_of_then(name: str, library: Callable[[str], list[bytes]]) -> None:
    async with passing_for(name) as emulator:
        assert await asyncio.to_thread(library, "{}:{}".format(*emulator.address)) == [b"hello"]
        (coordinator,) = emulator.shares.coordinators
        committed = coordinator.group("g").committed("orders", 1)
        assert committed is not None
        assert committed.offset == 1
