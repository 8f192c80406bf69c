"""The emulator is killed under its clients, and starts again with the group as it was."""

import pytest

from tests.clients.consumer_process import ConsumerProcess
from tests.clients.emulator import EmulatorProcess, eventually, regroup
from tests.clients.libraries import CONSUMERS, PRODUCERS, Wish
from tests.clients.processes import Consume, Serve

GROUP = "payments"
ALL = [("orders", partition) for partition in range(4)]


def produced(library: str, emulator: EmulatorProcess, word: str) -> set[str]:
    rows = [(topic, partition, f"{word} {partition} #{n}") for topic, partition in ALL for n in range(5)]
    PRODUCERS[library](emulator.address, rows)
    return {value for _, _, value in rows}


def values(consumers: list[ConsumerProcess]) -> list[str]:
    return [record.value for consumer in consumers for record in consumer.records]


def disturbances(consumers: list[ConsumerProcess]) -> list[list[object]]:
    return [[each for each in consumer.said if "partitions" in each] for consumer in consumers]


def two_at_work(library: str, emulator: EmulatorProcess, consume: Consume) -> list[ConsumerProcess]:
    """Two consumers, which have read and committed five records of each partition."""
    wish = Wish(emulator.address, GROUP, ["orders"], session_timeout_ms=10_000)
    consumers = [consume(library, wish) for _ in range(2)]
    eventually(lambda: sorted(len(each.owned) for each in consumers) == [2, 2], "two halves")
    written = produced(library, emulator, "before")
    eventually(lambda: set(values(consumers)) == written, "the records")
    eventually(lambda: emulator.committed(GROUP) == dict.fromkeys(ALL, 5), "their commits")
    return consumers


@pytest.mark.parametrize(
    ("how", "library", "loop"),
    [
        *(("kill", each, "asyncio") for each in CONSUMERS),
        ("kill", "confluent-kafka", "uvloop"),
        ("terminate", "confluent-kafka", "asyncio"),
        ("terminate", "aiokafka", "uvloop"),
    ],
)
def test_members_go_on_without_a_rebalance(how: str, library: str, loop: str, serve: Serve, consume: Consume) -> None:
    emulator = serve("--topic", "orders:4", "--loop", loop)
    consumers = two_at_work(library, emulator, consume)
    generation, before = emulator.generation(GROUP), disturbances(consumers)

    getattr(emulator, how)()
    emulator.start()
    written = produced(library, emulator, "after")
    eventually(lambda: written <= set(values(consumers)), "the records after the restart")
    eventually(lambda: len(committed_since_restart(emulator)) == len(ALL), "commits in the new reign")

    assert len(values(consumers)) == 40, "nothing twice"
    assert emulator.generation(GROUP) == generation
    assert disturbances(consumers) == before
    assert len(emulator.events(GROUP, kind="coordinator-loaded")) == 1
    assert not emulator.events(GROUP, kind="member-expelled")
    for consumer in consumers:
        consumer.leave()
    assert emulator.terminate() == 0
    assert regroup("verify", str(emulator.store)).returncode == 0


def committed_since_restart(emulator: EmulatorProcess) -> set[tuple[str, int]]:
    loaded = emulator.events(GROUP, kind="coordinator-loaded")
    return {
        (topic, int(partition))
        for event in emulator.events(GROUP, kind="offsets-committed")
        for topic, rows in event["offsets"].items()
        for partition in rows
        if loaded and event["position"] > loaded[-1]["position"]
    }


def test_a_member_that_died_meanwhile_is_missed(serve: Serve, consume: Consume) -> None:
    """Its session begins anew when the coordinator is loaded, and nobody has to remind it."""
    emulator = serve("--topic", "orders:4")
    wish = Wish(emulator.address, GROUP, ["orders"], session_timeout_ms=6_000)
    survivor, victim = consumers = [consume("confluent-kafka", wish) for _ in range(2)]
    eventually(lambda: sorted(len(each.owned) for each in consumers) == [2, 2], "two halves")
    emulator.kill()
    victim.kill()
    emulator.start()
    eventually(lambda: survivor.owned == set(ALL), "the takeover")
    written = produced("confluent-kafka", emulator, "after")
    eventually(lambda: set(values([survivor])) == written, "the records")
    assert len(emulator.events(GROUP, kind="member-expelled")) == 1
