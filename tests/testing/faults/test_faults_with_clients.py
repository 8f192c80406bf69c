"""Real clients under each kind of fault that changes answers: what they do is written down here, not demanded."""

import asyncio
from collections.abc import Callable

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from regroup.testing import Emulator, ErrorCode
from tests.testing.polling import CONSUMERS, confluent_consumer, first_record, polling

StartEmulator = Callable[..., Emulator]
BOTH = {("orders", 0), ("orders", 1)}


@pytest.fixture(params=list(CONSUMERS))
def library(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def kafka(emulator: StartEmulator) -> Emulator:
    return emulator(topics={"orders": 2}, wait_timeout_s=30)


def wait_until_it_owns_both(kafka: Emulator, client_id: str) -> None:
    """A client that has no metadata yet gets an empty assignment first."""
    kafka.group("billing").wait_until(lambda seen: seen.is_settled and seen.partitions_of(client_id) == BOTH)


def answers(kafka: Emulator, api: str, client_id: str = "") -> list[str]:
    return [each.answer for each in kafka.exchanges(api=api, client_id=client_id, group="billing")]


def test_a_consumer_repeats_a_commit_that_was_refused(kafka: Emulator) -> None:
    kafka.produce("orders", "one")
    consumer = confluent_consumer(kafka.bootstrap_servers, "first")
    first_record(consumer)
    with kafka.fault(on="OffsetCommit", answer=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=1) as rule:
        consumer.commit(asynchronous=False)
    consumer.close()
    assert (rule.hits, kafka.committed("billing")[("orders", 0)]) == (1, 1)


def test_a_consumer_survives_a_lost_sync_answer(library: str, kafka: Emulator) -> None:
    with (
        kafka.fault(on="SyncGroup", close="after", times=1) as rule,
        polling(library, kafka.bootstrap_servers, "first"),
    ):
        rule.wait_hits()
        wait_until_it_owns_both(kafka, "first")


def test_a_commit_of_which_one_partition_fails_raises_and_is_applied_in_the_other(kafka: Emulator) -> None:
    consumer = confluent_consumer(kafka.bootstrap_servers, "first")
    while len(consumer.assignment()) < 2:
        consumer.poll(0.1)
    offsets = [confluent_kafka.TopicPartition("orders", index, 7) for index in (0, 1)]
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    kafka.fault(on="OffsetCommit", topic="orders", partitions=(1,), partition_error=too_large)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        consumer.commit(offsets=offsets, asynchronous=False)
    assert caught.value.args[0].code() == too_large
    assert kafka.committed("billing") == {("orders", 0): 7}
    consumer.close()


def test_a_producer_sends_again_what_one_partition_refused(kafka: Emulator) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
    )
    with kafka.fault(on="Produce", partitions=(1,), partition_error=ErrorCode.NOT_ENOUGH_REPLICAS, times=1) as rule:
        for index in (0, 1):
            producer.produce("orders", b"one", partition=index)
        assert producer.flush(30) == 0
    assert rule.hits == 1
    assert [(each.partition, each.offset) for each in kafka.records("orders")] == [(0, 0), (1, 0)]


def test_a_consumer_waits_for_a_partition_without_a_leader(library: str, kafka: Emulator) -> None:
    code = ErrorCode.LEADER_NOT_AVAILABLE
    with (
        kafka.fault(on="Metadata", topic="orders", partitions=(1,), partition_error=code, times=1) as rule,
        polling(library, kafka.bootstrap_servers, "first"),
    ):
        rule.wait_hits()
        wait_until_it_owns_both(kafka, "first")


def test_a_consumer_asks_for_metadata_again_until_its_topic_has_a_leader(library: str, kafka: Emulator) -> None:
    with (
        kafka.fault(on="Metadata", topic="orders", answer=ErrorCode.LEADER_NOT_AVAILABLE, times=2) as rule,
        polling(library, kafka.bootstrap_servers, "first"),
    ):
        rule.wait_hits(2)
        wait_until_it_owns_both(kafka, "first")


def test_an_administrator_gets_the_errors_of_topics_and_groups(kafka: Emulator) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    kafka.fault(on="CreateTopics", answer=ErrorCode.POLICY_VIOLATION)
    kafka.fault(on="DeleteGroups", group="billing", answer=ErrorCode.NON_EMPTY_GROUP)
    kafka.fault(on="DescribeConfigs", answer=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    outcomes = [
        *admin.create_topics([NewTopic("bills", 1)]).values(),
        *admin.delete_consumer_groups(["billing"]).values(),
        *admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "orders")]).values(),
    ]
    errors = [outcome.exception(30).args[0].code() for outcome in outcomes]
    assert errors == [
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ]
    assert kafka.topics() == {"orders": 2}


@pytest.mark.quick("[confluent-kafka-frame]", "[kafka-python-body]")
@pytest.mark.parametrize("cut", ["frame", "body"])
def test_a_consumer_survives_half_a_heartbeat_answer(library: str, kafka: Emulator, cut: str) -> None:
    with (
        kafka.fault(on="Heartbeat", cut=cut, cut_at=0.5, times=1) as rule,
        polling(library, kafka.bootstrap_servers, "first"),
    ):
        rule.wait_hits()
        kafka.fault(on="Heartbeat", throttle_ms=1).wait_hits(2)
        wait_until_it_owns_both(kafka, "first")


async def test_aiokafka_commits_again_after_half_an_answer() -> None:
    async with (
        Emulator(topics={"orders": 2}, wait_timeout_s=30) as kafka,
        aiokafka.AIOKafkaConsumer(
            "orders",
            bootstrap_servers=kafka.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        await kafka.produce("orders", "one")
        await asyncio.wait_for(consumer.getone(), 30)
        async with await kafka.fault(on="OffsetCommit", cut="frame", cut_at=7, times=1) as rule:
            await consumer.commit()
        assert (rule.hits, (await kafka.committed("billing"))[("orders", 0)]) == (1, 1)
        assert len(await kafka.exchanges(api="OffsetCommit")) == 2


def test_a_consumer_with_a_stale_generation_is_refused_and_joins_again(library: str, kafka: Emulator) -> None:
    with (
        kafka.fault(on="JoinGroup", false_answer="stale_generation", times=1) as rule,
        polling(library, kafka.bootstrap_servers, "first"),
    ):
        rule.wait_hits()
        wait_until_it_owns_both(kafka, "first")
        assert "ILLEGAL_GENERATION" in answers(kafka, "SyncGroup")


def test_of_two_leaders_the_coordinator_believes_the_true_one(library: str, kafka: Emulator) -> None:
    group = kafka.group("billing")
    with polling(library, kafka.bootstrap_servers, "first"):
        group.wait_until_stable(members=1)
        with (
            kafka.fault(on="JoinGroup", false_answer="second_leader", times=1) as rule,
            polling(library, kafka.bootstrap_servers, "second"),
        ):
            rule.wait_hits()
            seen = group.wait_until_stable(members=2)
            syncs = kafka.exchanges(api="SyncGroup", client_id="second")
            assert [len(sync.request.assignments) for sync in syncs] == [2]  # it has computed an assignment, in vain
            assert seen.partitions_of("first") | seen.partitions_of("second") == BOTH
            assert seen.leader == seen.member("first").member_id


def test_two_consumers_own_the_same_partition_if_one_gets_the_assignment_of_the_other(kafka: Emulator) -> None:
    owned: dict[str, set[tuple[str, int]]] = {"first": set(), "second": set()}

    def consumer(name: str) -> confluent_kafka.Consumer:
        def on_assign(_: confluent_kafka.Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
            owned[name] = {(each.topic, each.partition) for each in partitions}

        return confluent_consumer(kafka.bootstrap_servers, name, callbacks={"on_assign": on_assign})

    with kafka.fault(on="SyncGroup", client_id="first", false_answer="other_assignment"):
        first, second = consumer("first"), consumer("second")
        while not len(owned["first"]) == len(owned["second"]) == 1:
            first.poll(0.05)
            second.poll(0.05)
        assert owned["first"] == owned["second"]
        group = kafka.group("billing").now()
        assert group.partitions_of("first") | group.partitions_of("second") == BOTH
    first.close()
    second.close()


@pytest.mark.quick("[kafka-python]")
def test_a_consumer_asks_again_when_it_was_sent_to_the_wrong_coordinator(library: str, emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 2}, brokers=2, wait_timeout_s=30)
    wrong = 1 - kafka.coordinator_of("billing")
    with (
        kafka.fault(on="FindCoordinator", group="billing", false_answer="other_coordinator") as rule,
        kafka.fault(on="JoinGroup", broker=wrong, throttle_ms=1) as misled,
        polling(library, kafka.bootstrap_servers, "first"),
    ):
        misled.wait_hits()
        rule.remove()
        wait_until_it_owns_both(kafka, "first")
        assert answers(kafka, "JoinGroup")[0] == "NOT_COORDINATOR"


def test_a_record_is_read_twice_after_an_older_offset(kafka: Emulator) -> None:
    kafka.produce("orders", "one")
    for _ in range(2):
        with kafka.fault(on="OffsetFetch", false_answer="older_offset"):
            consumer = confluent_consumer(kafka.bootstrap_servers, "first")
            record = first_record(consumer)
            assert (record.offset(), record.value()) == (0, b"one")
            consumer.commit(asynchronous=False)
            consumer.close()
    assert kafka.committed("billing") == {("orders", 0): 1}
