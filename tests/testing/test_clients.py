"""Real clients on the emulator: how they see a crash, an ended session, a moved coordinator and a killed broker."""

import asyncio
from collections.abc import Callable

import aiokafka
import confluent_kafka
import pytest

from regroup.protocol.messages.cluster import ApiVersionsRequest
from regroup.testing import ActRefused, Emulator
from tests.testing.conftest import ManualMember
from tests.testing.polling import CONSUMERS, HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, confluent_consumer, polling

StartEmulator = Callable[..., Emulator]
ALL = {("orders", number) for number in range(6)}


@pytest.fixture(params=list(CONSUMERS))
def library(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def kafka(emulator: StartEmulator) -> Emulator:
    return emulator(topics={"orders": 6}, wait_timeout_s=30)


@pytest.mark.quick("[confluent-kafka]")
def test_a_crashed_consumer_is_replaced_and_joins_again_when_it_is_revived(library: str, kafka: Emulator) -> None:
    group = kafka.group("billing")
    with polling(library, kafka.bootstrap_servers, "first"), polling(library, kafka.bootstrap_servers, "second"):
        group.wait_until_stable(members=2)
        kafka.crash_client("second")
        alone = group.wait_until_stable(members=1)
        assert alone.partitions_of("first") == ALL
        kafka.revive_client("second")
        both = group.wait_until_stable(members=2)
        assert both.partitions_of("first") | both.partitions_of("second") == ALL


@pytest.mark.parametrize("by", ["client_id", "instance_id", "member_id"])
def test_a_client_is_revived_by_the_name_that_it_was_crashed_by(by: str, kafka: Emulator) -> None:
    member = ManualMember(kafka, "first", instance_id="pod-1")
    member.join()
    member.sync()
    name = getattr(kafka.group("billing").now().members[0], by)
    kafka.crash_client(name)
    kafka.group("billing").wait_until(lambda group: not group.members)
    kafka.revive_client(name)
    assert kafka.connect("first").send(ApiVersionsRequest(), 0).error_code == 0


def test_a_consumer_comes_back_after_the_emulator_was_killed(library: str, kafka: Emulator) -> None:
    group = kafka.group("billing")
    with polling(library, kafka.bootstrap_servers, "first"):
        before = group.wait_until_stable(members=1)
        kafka.kill()
        kafka.restart()
        group.rebalance()
        after = group.wait_until_stable(members=1)
        assert after.generation > before.generation


def test_a_bumped_generation_makes_a_consumer_join_again(library: str, kafka: Emulator) -> None:
    group = kafka.group("billing")
    with polling(library, kafka.bootstrap_servers, "first"):
        before = group.wait_until_stable(members=1)
        bumped = group.bump_generation()
        assert group.wait_until(lambda seen: seen.is_settled and seen.generation > bumped.generation)
        assert bumped.generation == before.generation + 1


def test_a_consumer_reads_what_the_test_produces_and_the_test_reads_its_offsets(kafka: Emulator) -> None:
    kafka.produce("orders", "two apples", key="anna", partition=3, headers={"colour": b"red"})
    consumer = confluent_consumer(kafka.bootstrap_servers, "first", "billing")
    message = next(each for each in iter(lambda: consumer.poll(0.1), "end") if each and not each.error())
    assert (message.value(), message.key(), message.headers()) == (b"two apples", b"anna", [("colour", b"red")])
    consumer.commit(asynchronous=False)
    consumer.close()
    assert kafka.committed("billing")[("orders", 3)] == 1


def test_the_test_reads_what_a_producer_sends(kafka: Emulator) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce("orders", value=b"one", key=b"k", partition=2)
    producer.produce("orders", value=None, key=b"k", partition=2)
    assert producer.flush(30) == 0
    shown = [(each.partition, each.offset, each.key, each.value) for each in kafka.records("orders")]
    assert shown == [(2, 0, b"k", b"one"), (2, 1, b"k", None)]


# In one's own loop


def aiokafka_consumer(servers: str, client_id: str) -> aiokafka.AIOKafkaConsumer:
    return aiokafka.AIOKafkaConsumer(
        "orders",
        bootstrap_servers=servers,
        client_id=client_id,
        group_id="billing",
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


async def test_aiokafka_and_the_emulator_share_a_loop() -> None:
    async with Emulator(topics={"orders": 6}, wait_timeout_s=30) as kafka:
        group = kafka.group("billing")
        async with aiokafka_consumer(kafka.bootstrap_servers, "first") as first:
            async with aiokafka_consumer(kafka.bootstrap_servers, "second"):
                before = await group.wait_until_stable(members=2)
                await group.expire("second")
                after = await group.wait_until(lambda seen: seen.is_settled and len(seen.members) == 2)
                assert after.member("second").member_id != before.member("second").member_id
                await kafka.crash_client("second")
                alone = await group.wait_until_stable(members=1)
                assert alone.partitions_of("first") == ALL
                await kafka.revive_client("second")
                await group.wait_until_stable(members=2)
            await kafka.produce("orders", "one", partition=0)
            record = await asyncio.wait_for(first.getone(), 30)
            assert record.value == b"one"
            await first.commit()
            assert (await kafka.committed("billing"))[("orders", 0)] == 1


def test_clients_with_one_client_id_cannot_be_crashed_apart(kafka: Emulator) -> None:
    with (
        polling("confluent-kafka", kafka.bootstrap_servers, "same"),
        polling("confluent-kafka", kafka.bootstrap_servers, "same"),
    ):
        group = kafka.group("billing").wait_until_stable(members=2)
        with pytest.raises(ActRefused, match="2 members have the client id 'same'"):
            kafka.crash_client(group.members[0].member_id)
        kafka.crash_client("same")
        assert kafka.group("billing").wait_until(lambda seen: not seen.members).state == "Empty"
        kafka.revive_client("same")
