"""Unmodified consumers of three libraries share topics, are killed and restarted, and lose no record."""

import re
from contextlib import closing

import pytest

from tests.clients.admins import ADMINS
from tests.clients.consumer_main import UNFINISHED
from tests.clients.consumer_process import ConsumerProcess, OwnedPartitions
from tests.clients.emulator import EmulatorProcess, eventually
from tests.clients.libraries import CONSUMERS, PRODUCERS, ConsumerOptions
from tests.clients.processes import Consume, Serve, quick_with

GROUP = "payments"
ALL = {("orders", partition) for partition in range(4)}
WITH_COOPERATIVE = ["confluent-kafka", "kafka-python"]


def produce(library: str, emulator: EmulatorProcess, prefix: str, partitions: OwnedPartitions = ALL) -> set[str]:
    """Produce five records to each partition; returns their values."""
    rows = [
        (topic, partition, f"{prefix} {topic}-{partition} #{n}") for topic, partition in partitions for n in range(5)
    ]
    PRODUCERS[library](emulator.address, rows)
    return {value for _, _, value in rows}


def values(*consumers: ConsumerProcess) -> set[str]:
    return {record.value for consumer in consumers for record in consumer.records}


def start_two_consumers(
    library: str, emulator: EmulatorProcess, consume: Consume, **options: int
) -> list[ConsumerProcess]:
    """Start two consumers of one group; each owns two partitions."""
    both = [consume(library, ConsumerOptions(emulator.address, GROUP, ["orders"], **options)) for _ in range(2)]
    eventually(lambda: sorted(len(each.owned_partitions) for each in both) == [2, 2], "two partitions each")
    return both


def assignment_changes(consumer: ConsumerProcess) -> list[dict[str, object]]:
    """The assignments, revocations and losses of a consumer."""
    return [each for each in consumer.output if each["what"] in ("assigned", "revoked", "lost")]


@pytest.mark.slow
@pytest.mark.parametrize("library", quick_with("aiokafka"))
def test_after_a_crash_the_other_consumer_goes_on_from_the_committed_offsets(
    library: str, serve: Serve, consume: Consume
) -> None:
    emulator = serve("--topic", "orders:4")
    survivor, victim = start_two_consumers(library, emulator, consume)
    first = produce(library, emulator, "first")
    eventually(lambda: values(survivor, victim) == first, "the first records")
    eventually(lambda: emulator.committed(GROUP) == dict.fromkeys(ALL, 5), "their commits")

    lost = victim.owned_partitions
    unfinished = produce(library, emulator, UNFINISHED, lost)
    eventually(lambda: unfinished <= values(victim), "records that are polled and not committed")
    victim.kill()
    committed = emulator.committed(GROUP)
    eventually(lambda: survivor.owned_partitions == ALL, "the takeover")
    eventually(lambda: unfinished <= values(survivor), "the records that were not committed")

    for topic, partition in lost:
        taken_over = [each.offset for each in survivor.records if (each.topic, each.partition) == (topic, partition)]
        before = [n for n in taken_over if n < committed[topic, partition]]
        assert taken_over == [*before, *range(committed[topic, partition], 10)]
        assert len(before) in (0, 5)  # before the victim joined, the survivor may have read these
    (removed,) = emulator.events(GROUP, kind="member-removed")
    assert removed["cause"]["deadline"] == "session"
    last = produce(library, emulator, "last")
    eventually(lambda: last <= values(survivor), "the last records")


@pytest.mark.slow
def test_a_consumer_that_leaves_is_replaced_before_its_session_timeout(serve: Serve, consume: Consume) -> None:
    emulator = serve("--topic", "orders:4")
    staying, leaving = start_two_consumers("confluent-kafka", emulator, consume, session_timeout_ms=60_000)
    leaving.leave()
    eventually(lambda: staying.owned_partitions == ALL, "the partitions of the other")
    assert [event["cause"]["api"] for event in emulator.events(GROUP, kind="member-left")] == ["LeaveGroup"]
    assert not emulator.events(GROUP, kind="member-removed")


@pytest.mark.slow
@pytest.mark.parametrize("library", quick_with("confluent-kafka", WITH_COOPERATIVE))
def test_cooperative_consumers_revoke_only_partitions_that_move(library: str, serve: Serve, consume: Consume) -> None:
    emulator = serve("--topic", "orders:4")
    options = ConsumerOptions(emulator.address, GROUP, ["orders"], assignor="cooperative-sticky")
    first = consume(library, options)
    eventually(lambda: first.owned_partitions == ALL, "all partitions for the first")
    second = consume(library, options)
    eventually(lambda: len(second.owned_partitions) == 2, "two partitions for the second")

    revoked = {tuple(each) for message in first.messages("revoked") for each in message["partitions"]}
    assert revoked == second.owned_partitions
    assert first.owned_partitions == ALL - second.owned_partitions
    # One rebalance revokes the partitions, the next one assigns them.
    assert [event["protocol_name"] for event in emulator.events(GROUP, kind="generation-started")] == [
        "cooperative-sticky"
    ] * 3
    produced = produce(library, emulator, "shared")
    eventually(lambda: values(first, second) == produced, "the records")
    second.kill()
    eventually(lambda: first.owned_partitions == ALL, "the takeover")
    assert {tuple(each) for message in first.messages("revoked") for each in message["partitions"]} == revoked


@pytest.mark.parametrize(
    ("library", "role"),
    [
        ("confluent-kafka", "leader"),
        pytest.param("aiokafka", "leader", marks=pytest.mark.slow),
        pytest.param("kafka-python", "leader", marks=pytest.mark.slow),
        pytest.param("confluent-kafka", "follower", marks=pytest.mark.slow),
    ],
)
def test_a_static_member_restarts_without_a_rebalance(role: str, library: str, serve: Serve, consume: Consume) -> None:
    emulator = serve("--topic", "orders:4")
    all_options = [
        ConsumerOptions(emulator.address, GROUP, ["orders"], instance_id=name, session_timeout_ms=30_000)
        for name in ("a", "b")
    ]
    members = {each.instance_id: consume(library, each) for each in all_options}
    eventually(lambda: sorted(len(each.owned_partitions) for each in members.values()) == [2, 2], "two partitions each")
    generation = emulator.generation(GROUP)
    joined = {
        event["member_id"]: event["profile"]["instance_id"] for event in emulator.events(GROUP, kind="member-joined")
    }
    leader = joined[emulator.events(GROUP, kind="leader-elected")[-1]["leader_id"]]
    chosen = next(each for each in all_options if (each.instance_id == leader) == (role == "leader"))
    (untouched,) = [process for name, process in members.items() if name != chosen.instance_id]
    before = assignment_changes(untouched)

    old = members[chosen.instance_id]
    owned = old.owned_partitions
    old.kill()
    new = consume(library, chosen)
    eventually(lambda: new.owned_partitions == owned, "the same partitions after a crash")
    new.leave()
    third = consume(library, chosen)
    eventually(lambda: third.owned_partitions == owned, "the same partitions after a close")

    produced = produce(library, emulator, "after")
    eventually(lambda: values(third, untouched) == produced, "the records")
    assert emulator.generation(GROUP) == generation
    assert len(emulator.events(GROUP, kind="static-member-replaced")) == 2
    assert assignment_changes(untouched) == before


@pytest.mark.slow
@pytest.mark.parametrize("library", CONSUMERS)
def test_a_pattern_matches_topics_that_are_created_later(library: str, serve: Serve, consume: Consume) -> None:
    emulator = serve("--topic", "orders-eu:2", "--topic", "invoices:2")
    consumer = consume(library, ConsumerOptions(emulator.address, GROUP, pattern="orders-.*"))
    eventually(lambda: consumer.owned_partitions == {("orders-eu", 0), ("orders-eu", 1)}, "the topic that exists")
    PRODUCERS[library](emulator.address, [("orders-us", 0, "created by this record")])
    eventually(
        lambda: consumer.owned_partitions == {("orders-eu", 0), ("orders-eu", 1), ("orders-us", 0)}, "the new topic"
    )
    eventually(lambda: values(consumer) == {"created by this record"}, "its record")
    subscribed = emulator.events(GROUP, kind="generation-started")[-1]["subscribed_topics"]
    assert all(re.fullmatch("orders-(eu|us)", topic) for topic in subscribed)


@pytest.mark.parametrize("library", quick_with("aiokafka"))
def test_partitions_added_to_a_subscribed_topic_are_assigned(library: str, serve: Serve, consume: Consume) -> None:
    emulator = serve("--topic", "orders:2")
    consumer = consume(library, ConsumerOptions(emulator.address, GROUP, ["orders"]))
    eventually(lambda: consumer.owned_partitions == {("orders", 0), ("orders", 1)}, "the partitions that exist")
    with closing(ADMINS[library](emulator.address)) as admin:
        admin.add_partitions("orders", 4)
    eventually(lambda: consumer.owned_partitions == ALL, "the new partitions")
    produced = produce(library, emulator, "to all")
    eventually(lambda: values(consumer) == produced, "their records")
