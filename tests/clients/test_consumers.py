"""Unmodified consumers of three libraries share topics, die, come back, and lose nothing."""

import re
from contextlib import closing

import pytest

from tests.clients.admins import ADMINS
from tests.clients.consume import UNFINISHED
from tests.clients.consumer_process import ConsumerProcess, Owned
from tests.clients.emulator import EmulatorProcess, eventually
from tests.clients.libraries import CONSUMERS, PRODUCERS, Wish
from tests.clients.processes import Consume, Serve

GROUP = "payments"
ALL = {("orders", partition) for partition in range(4)}
WITH_COOPERATIVE = ["confluent-kafka", "kafka-python"]


def produced(library: str, emulator: EmulatorProcess, word: str, partitions: Owned = ALL) -> set[str]:
    """Five values for each partition."""
    rows = [(topic, partition, f"{word} {topic}-{partition} #{n}") for topic, partition in partitions for n in range(5)]
    PRODUCERS[library](emulator.address, rows)
    return {value for _, _, value in rows}


def values(*consumers: ConsumerProcess) -> set[str]:
    return {record.value for consumer in consumers for record in consumer.records}


def two_sharing(library: str, emulator: EmulatorProcess, consume: Consume, **wishes: int) -> list[ConsumerProcess]:
    """Two consumers of one group, each with its half."""
    both = [consume(library, Wish(emulator.address, GROUP, ["orders"], **wishes)) for _ in range(2)]
    eventually(lambda: sorted(len(each.owned) for each in both) == [2, 2], "two halves")
    return both


def disturbances(consumer: ConsumerProcess) -> list[dict[str, object]]:
    """What it was given and what was taken from it."""
    return [each for each in consumer.said if each["what"] in ("assigned", "revoked", "lost")]


def test_the_survivor_goes_on_where_the_dead_one_committed(library: str, serve: Serve, consume: Consume) -> None:
    emulator = serve("--topic", "orders:4")
    survivor, victim = two_sharing(library, emulator, consume)
    first = produced(library, emulator, "first")
    eventually(lambda: values(survivor, victim) == first, "the first records")
    eventually(lambda: emulator.committed(GROUP) == dict.fromkeys(ALL, 5), "their commits")

    lost = victim.owned
    unfinished = produced(library, emulator, UNFINISHED, lost)
    eventually(lambda: unfinished <= values(victim), "work that is begun and not committed")
    victim.kill()
    committed = emulator.committed(GROUP)
    eventually(lambda: survivor.owned == ALL, "the takeover")
    eventually(lambda: unfinished <= values(survivor), "the work that was not committed")

    for topic, partition in lost:
        taken_over = [each.offset for each in survivor.records if (each.topic, each.partition) == (topic, partition)]
        before = [n for n in taken_over if n < committed[topic, partition]]
        assert taken_over == [*before, *range(committed[topic, partition], 10)]
        assert len(before) in (0, 5)  # before the victim joined, it may have had these
    (expelled,) = emulator.events(GROUP, kind="member-expelled")
    assert expelled["cause"]["deadline"] == "session"
    last = produced(library, emulator, "last")
    eventually(lambda: last <= values(survivor), "what comes later")


def test_a_consumer_that_says_goodbye_is_not_waited_for(serve: Serve, consume: Consume) -> None:
    emulator = serve("--topic", "orders:4")
    rest, leaving = two_sharing("confluent-kafka", emulator, consume, session_timeout_ms=60_000)
    leaving.leave()
    eventually(lambda: rest.owned == ALL, "the leaver's half")
    assert [event["cause"]["api"] for event in emulator.events(GROUP, kind="member-left")] == ["LeaveGroup"]
    assert not emulator.events(GROUP, kind="member-expelled")


@pytest.mark.parametrize("library", WITH_COOPERATIVE)
def test_cooperative_consumers_give_up_only_what_moves(library: str, serve: Serve, consume: Consume) -> None:
    emulator = serve("--topic", "orders:4")
    wish = Wish(emulator.address, GROUP, ["orders"], assignor="cooperative-sticky")
    first = consume(library, wish)
    eventually(lambda: first.owned == ALL, "everything for the first")
    second = consume(library, wish)
    eventually(lambda: len(second.owned) == 2, "half for the second")

    taken = {tuple(each) for said in first.told("revoked") for each in said["partitions"]}
    assert taken == second.owned
    assert first.owned == ALL - second.owned
    # One rebalance takes the partitions away, the next one gives them out.
    assert [event["protocol_name"] for event in emulator.events(GROUP, kind="generation-started")] == [
        "cooperative-sticky"
    ] * 3
    written = produced(library, emulator, "shared")
    eventually(lambda: values(first, second) == written, "the records")
    second.kill()
    eventually(lambda: first.owned == ALL, "the takeover")
    assert {tuple(each) for said in first.told("revoked") for each in said["partitions"]} == taken


@pytest.mark.parametrize(
    ("library", "whose"), [*((each, "leader") for each in CONSUMERS), ("confluent-kafka", "follower")]
)
def test_a_static_member_restarts_without_a_rebalance(whose: str, library: str, serve: Serve, consume: Consume) -> None:
    emulator = serve("--topic", "orders:4")
    wishes = [
        Wish(emulator.address, GROUP, ["orders"], instance_id=name, session_timeout_ms=30_000) for name in ("a", "b")
    ]
    members = {wish.instance_id: consume(library, wish) for wish in wishes}
    eventually(lambda: sorted(len(each.owned) for each in members.values()) == [2, 2], "two halves")
    generation = emulator.generation(GROUP)
    joined = {event["member"]: event["instance_id"] for event in emulator.events(GROUP, kind="member-joined")}
    leader = joined[emulator.events(GROUP, kind="leader-elected")[-1]["leader"]]
    chosen = next(wish for wish in wishes if (wish.instance_id == leader) == (whose == "leader"))
    (untouched,) = [process for name, process in members.items() if name != chosen.instance_id]
    before = disturbances(untouched)

    old = members[chosen.instance_id]
    owned = old.owned
    old.kill()
    new = consume(library, chosen)
    eventually(lambda: new.owned == owned, "the same partitions after a crash")
    new.leave()
    third = consume(library, chosen)
    eventually(lambda: third.owned == owned, "the same partitions after a goodbye")

    written = produced(library, emulator, "after")
    eventually(lambda: values(third, untouched) == written, "the records")
    assert emulator.generation(GROUP) == generation
    assert len(emulator.events(GROUP, kind="static-member-replaced")) == 2
    assert disturbances(untouched) == before


def test_a_pattern_finds_topics_that_come_later(library: str, serve: Serve, consume: Consume) -> None:
    emulator = serve("--topic", "orders-eu:2", "--topic", "invoices:2")
    consumer = consume(library, Wish(emulator.address, GROUP, pattern="orders-.*"))
    eventually(lambda: consumer.owned == {("orders-eu", 0), ("orders-eu", 1)}, "the topic that is there")
    PRODUCERS[library](emulator.address, [("orders-us", 0, "made by producing to it")])
    eventually(lambda: consumer.owned == {("orders-eu", 0), ("orders-eu", 1), ("orders-us", 0)}, "the new topic")
    eventually(lambda: values(consumer) == {"made by producing to it"}, "its record")
    subscribed = emulator.events(GROUP, kind="generation-started")[-1]["subscribed_topics"]
    assert all(re.fullmatch("orders-(eu|us)", topic) for topic in subscribed)


def test_partitions_added_to_a_subscribed_topic_are_given_out(library: str, serve: Serve, consume: Consume) -> None:
    emulator = serve("--topic", "orders:2")
    consumer = consume(library, Wish(emulator.address, GROUP, ["orders"]))
    eventually(lambda: consumer.owned == {("orders", 0), ("orders", 1)}, "the partitions that are there")
    with closing(ADMINS[library](emulator.address)) as admin:
        admin.add_partitions("orders", 4)
    eventually(lambda: consumer.owned == ALL, "the new partitions")
    written = produced(library, emulator, "to all")
    eventually(lambda: values(consumer) == written, "their records")
