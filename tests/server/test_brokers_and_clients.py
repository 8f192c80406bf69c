"""Unmodified clients of several brokers: a consumer goes after its group, an administrator asks them all."""

import asyncio
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.server.client import PATIENCE_S
from tests.server.company import GROUPS, Company, home_of


async def test_a_confluent_consumer_follows_its_group_to_the_next_broker_and_back(company: Company) -> None:
    servers = ",".join(f"{host}:{port}" for host, port in company.emulator.addresses)
    loop = asyncio.get_running_loop()

    def on_loop(coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result(PATIENCE_S)

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
        home = home_of("g")
        for step, change in enumerate([None, company.emulator.stop_broker, company.emulator.start_broker]):
            if change is not None:
                on_loop(change(home))
            for partition in range(6):
                producer.produce("orders", b"%d-%d" % (step, partition), partition=partition)
            assert producer.flush(PATIENCE_S) == 0
            messages: list[Any] = []
            while len(messages) < 6:
                messages += [each for each in consumer.consume(6, timeout=5) if each.error() is None]
            seen += [each.value() for each in messages]
            consumer.commit(asynchronous=False)
        committed = consumer.committed([TopicPartition("orders", n) for n in range(6)], timeout=PATIENCE_S)
        assert [each.offset for each in committed] == [3] * 6
        consumer.close()
        return seen

    seen = await asyncio.to_thread(consume_through_a_failover)
    assert sorted(seen) == sorted(b"%d-%d" % (step, partition) for step in range(3) for partition in range(6))
    generations = [
        record.type async for record in company.store.read() if record.group == "g" and record.type.startswith("gen")
    ]
    assert len(generations) == 1


async def test_an_administrator_sees_the_groups_of_all_brokers(company: Company) -> None:
    for group in GROUPS:
        await company.has_a_member(group, home_of(group))
    servers = "{}:{}".format(*company.emulator.address)

    def administer() -> None:
        admin = AdminClient({"bootstrap.servers": servers})
        listed = admin.list_consumer_groups(request_timeout=PATIENCE_S).result(PATIENCE_S)
        assert sorted(each.group_id for each in listed.valid) == sorted(GROUPS)
        described = admin.describe_consumer_groups(GROUPS, request_timeout=PATIENCE_S)
        assert {group: future.result(PATIENCE_S).coordinator.id for group, future in described.items()} == {
            group: home_of(group) for group in GROUPS
        }

    await asyncio.to_thread(administer)
