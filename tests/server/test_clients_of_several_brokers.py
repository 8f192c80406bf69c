"""Unmodified clients of several brokers: a consumer follows its group, an administrator queries all brokers."""

import asyncio
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.server.cluster_harness import GROUPS, ClusterHarness, expected_coordinator
from tests.server.wire_client import TIMEOUT_S


@pytest.mark.slow
async def test_a_confluent_consumer_follows_its_group_to_the_next_broker_and_back(brokers: ClusterHarness) -> None:
    servers = ",".join(f"{host}:{port}" for host, port in brokers.cluster.addresses)
    loop = asyncio.get_running_loop()

    def on_loop(coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result(TIMEOUT_S)

    def consume_through_a_failover() -> list[bytes]:
        producer = Producer({"bootstrap.servers": servers})
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe(["orders"])
        seen: list[bytes] = []
        home = expected_coordinator("g")
        for step, change in enumerate([None, brokers.cluster.stop_broker, brokers.cluster.start_broker]):
            if change is not None:
                on_loop(change(home))
            for partition in range(6):
                producer.produce("orders", b"%d-%d" % (step, partition), partition=partition)
            assert producer.flush(TIMEOUT_S) == 0
            messages: list[Any] = []
            while len(messages) < 6:
                messages += [each for each in consumer.consume(6, timeout=5) if each.error() is None]
            seen += [each.value() for each in messages]
            consumer.commit(asynchronous=False)
        committed = consumer.committed([TopicPartition("orders", n) for n in range(6)], timeout=TIMEOUT_S)
        assert [each.offset for each in committed] == [3] * 6
        consumer.close()
        return seen

    seen = await asyncio.to_thread(consume_through_a_failover)
    assert sorted(seen) == sorted(b"%d-%d" % (step, partition) for step in range(3) for partition in range(6))
    generations = [
        record.type async for record in brokers.store.read() if record.group == "g" and record.type.startswith("gen")
    ]
    assert len(generations) == 1


async def test_an_administrator_lists_the_groups_of_all_brokers(brokers: ClusterHarness) -> None:
    for group in GROUPS:
        await brokers.add_member(group, expected_coordinator(group))
    servers = "{}:{}".format(*brokers.cluster.address)

    def administer() -> None:
        admin = AdminClient({"bootstrap.servers": servers})
        listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
        assert sorted(each.group_id for each in listed.valid) == sorted(GROUPS)
        described = admin.describe_consumer_groups(GROUPS, request_timeout=TIMEOUT_S)
        assert {group: future.result(TIMEOUT_S).coordinator.id for group, future in described.items()} == {
            group: expected_coordinator(group) for group in GROUPS
        }

    await asyncio.to_thread(administer)
