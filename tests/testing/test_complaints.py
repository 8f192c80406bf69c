"""Ten tests of a kind that people miss in other tools, each as a user of the kit would write it.

What takes time is the client libraries' own waits: a rebalance is seen with the next heartbeat, which the consumers
send every 100 ms; a lost connection is opened again after up to 200 ms.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import aiokafka
import confluent_kafka
import pytest

from regroup.testing import ActRefused, Emulator
from tests.testing.polling import (
    CONSUMERS,
    confluent_consumer,
    first_record,
    kafka_python_consumer,
    polling,
)

StartEmulator = Callable[..., Emulator]
ALL = {("orders", number) for number in range(6)}


@pytest.fixture(params=list(CONSUMERS))
def library(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def kafka(emulator: StartEmulator) -> Emulator:
    return emulator(topics={"orders": 6}, wait_timeout_s=30)


@pytest.fixture
def consumer(kafka: Emulator) -> Iterator[Callable[..., Any]]:
    """Makes confluent consumers that the test polls itself."""
    with ExitStack() as stack:

        def make(client_id: str, **settings: Any) -> Any:
            made = confluent_consumer(kafka.bootstrap_servers, client_id, **settings)
            stack.callback(made.close)
            return made

        yield make


def heartbeats(kafka: Emulator) -> int:
    return sum(each.count for each in kafka.exchanges(api="Heartbeat", client_id="worker"))


def test_a_consumer_that_works_long_on_a_record_sends_heartbeats(kafka: Emulator, consumer) -> None:
    kafka.produce("orders", "a long job")
    worker = consumer("worker")
    first_record(worker)
    before = heartbeats(kafka)
    with kafka.fault(on="Heartbeat", client_id="worker", delay_s=0.001) as late:
        late.wait_hits(2)  # meanwhile the worker does not poll, and librdkafka sends one about every 500 ms
    assert heartbeats(kafka) >= before + 2
    assert kafka.group("billing").now().partitions_of("worker") == ALL


@pytest.mark.quick("[confluent-kafka]")
def test_consumers_follow_a_coordinator_that_moves(library: str, emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 6}, brokers=3, wait_timeout_s=30)
    group = kafka.group("billing")
    with polling(library, kafka.bootstrap_servers, "first"), polling(library, kafka.bootstrap_servers, "second"):
        before = group.wait_until_stable(members=2)
        new = kafka.move_coordinator("billing")
        group.rebalance()
        after = group.wait_until_stable(members=2)
        assert after.generation > before.generation
        assert kafka.coordinator_of("billing") == new
        assert {each.member_id for each in before.members} == {each.member_id for each in after.members}


def test_a_commit_whose_answer_is_lost_is_applied_and_sent_again(kafka: Emulator) -> None:
    kafka.produce("orders", "one")
    consumer = kafka_python_consumer(kafka.bootstrap_servers, "first")
    while not consumer.poll(500):
        pass
    with kafka.fault(on="OffsetCommit", close="after", times=1) as lost:
        consumer.commit()
    consumer.close()
    assert (lost.hits, kafka.committed("billing")[("orders", 0)]) == (1, 1)
    assert [event.type for event in kafka.group("billing").events()].count("offsets-committed") == 2


async def test_a_commit_of_aiokafka_whose_answer_is_lost_is_sent_again() -> None:
    async with Emulator(topics={"orders": 6}) as kafka:
        servers = kafka.bootstrap_servers
        async with aiokafka.AIOKafkaConsumer(
            "orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest"
        ) as consumer:
            await kafka.produce("orders", "one")
            await consumer.getone()
            async with await kafka.fault(on="OffsetCommit", close="after", times=1) as lost:
                await consumer.commit()
            assert lost.hits == 1
            await kafka.assert_exchanges(["OffsetCommit: no answer", "OffsetCommit: NONE"], api="OffsetCommit")


@pytest.mark.quick("[confluent-kafka]")
def test_a_consumer_whose_session_was_ended_is_back_at_its_next_heartbeat(library: str, kafka: Emulator) -> None:
    group = kafka.group("billing")
    with polling(library, kafka.bootstrap_servers, "first"), polling(library, kafka.bootstrap_servers, "second"):
        before = group.wait_until_stable(members=2)
        group.expire("second")  # now, not in 10 s
        after = group.wait_until(lambda seen: seen.is_settled and len(seen.members) == 2)
        assert after.member("second").member_id != before.member("second").member_id
        assert after.generation > before.generation


def test_a_static_member_is_fenced_by_a_second_process_with_its_name(kafka: Emulator, consumer) -> None:
    old = consumer("old", group_instance_id="pod-1")
    while not old.assignment():
        old.poll(0.1)
    with polling("confluent-kafka", kafka.bootstrap_servers, "new", group_instance_id="pod-1"):
        fenced = next(each for each in iter(lambda: old.poll(0.1), "end") if each and each.error())
        assert fenced.error().code() == confluent_kafka.KafkaError._FATAL
        assert kafka.exchanges(client_id="old", group="billing")[-1].answer == "FENCED_INSTANCE_ID"
        assert kafka.group("billing").wait_until_stable(members=1).partitions_of("pod-1") == ALL


@pytest.mark.quick("[kafka-python]")
def test_a_rebalance_storm_loses_no_member_and_no_offset(library: str, kafka: Emulator) -> None:
    kafka.produce("orders", "one")
    group = kafka.group("billing")
    with polling(library, kafka.bootstrap_servers, "first") as first:
        group.wait_until_stable(members=1)
        with polling(library, kafka.bootstrap_servers, "second"):
            before = group.wait_until_stable(members=2)
            while (after := group.wait_until_stable(members=2)).generation < before.generation + 5:
                with suppress(ActRefused):  # a member may have begun a rebalance by itself
                    group.rebalance()
        assert {each.member_id for each in after.members} == {each.member_id for each in before.members}
        assert after.partitions_of("first") | after.partitions_of("second") == ALL
        assert first


def test_a_consumer_that_never_polls_leaves_the_group(kafka: Emulator, consumer) -> None:
    idle = consumer("idle", session_timeout_ms=500, max_poll_interval_ms=500)  # librdkafka waits so long, and up to 1 s
    while not idle.assignment():
        idle.poll(0.1)
    kafka.group("billing").wait_until(lambda group: not group.members)
    kafka.assert_exchanges(["LeaveGroup: NONE"], api="LeaveGroup", client_id="idle")
    with pytest.raises(confluent_kafka.KafkaException, match="MAX_POLL_EXCEEDED"):
        raise confluent_kafka.KafkaException(next(each for each in iter(idle.poll, None) if each.error()).error())


@pytest.mark.quick("[confluent-kafka]")
def test_a_rolling_deploy_of_static_members_starts_no_rebalance(library: str, kafka: Emulator) -> None:
    group, pods = kafka.group("billing"), ("pod-0", "pod-1", "pod-2")

    def start(pod: str) -> ExitStack:
        process = ExitStack()
        process.enter_context(polling(library, kafka.bootstrap_servers, pod, group_instance_id=pod))
        return process

    processes = {pod: start(pod) for pod in pods}
    before = group.wait_until_stable(members=3)
    for pod in pods:
        processes[pod].close()
        processes[pod] = start(pod)
        group.wait_until(lambda seen, pod=pod: seen.member(pod).member_id != before.member(pod).member_id)
    after = group.wait_until_stable(members=3)
    for pod in pods:
        assert after.partitions_of(pod) == before.partitions_of(pod)
        processes[pod].close()
    assert after.generation == before.generation


def test_a_cooperative_consumer_keeps_its_partitions_while_the_others_answer_is_lost(kafka: Emulator) -> None:
    revoked: list[confluent_kafka.TopicPartition] = []
    callbacks = {"on_revoke": lambda consumer, partitions: revoked.extend(partitions)}
    settings = {"partition_assignment_strategy": "cooperative-sticky"}
    group, servers = kafka.group("billing"), kafka.bootstrap_servers
    with polling("confluent-kafka", servers, "first", callbacks=callbacks, **settings):
        group.wait_until_stable(members=1)
        with (
            kafka.fault(on="SyncGroup", client_id="second", close="after", times=1) as lost,
            polling("confluent-kafka", servers, "second", **settings),
        ):
            lost.wait_hits()
            after = group.wait_until(lambda seen: seen.is_settled and len(seen.partitions_of("second")) == 3)
            assert {(each.topic, each.partition) for each in revoked} == after.partitions_of("second")
            assert after.partitions_of("first") == ALL - after.partitions_of("second")


def test_a_transaction_whose_commit_is_not_answered_is_committed_once(kafka: Emulator, consumer) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "t", "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"paid", partition=0)
    with kafka.fault(on="EndTxn", close="after", times=1) as lost:
        producer.commit_transaction(30)
    kafka.assert_exchanges(["EndTxn: no answer", "EndTxn: NONE"], api="EndTxn")
    assert lost.hits == 1
    assert first_record(consumer("reader", isolation_level="read_committed")).value() == b"paid"
    assert len(kafka.records("orders")) == 1
