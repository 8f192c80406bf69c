"""kcat, kafkajs and the Java client share a topic, die, and are taken over, like the clients for Python."""

from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.clients.consumer_process import ConsumerProcess
from tests.clients.emulator import EmulatorProcess, eventually
from tests.clients.libraries import PRODUCERS
from tests.clients.others.other_process import OTHERS, Wanted
from tests.clients.processes import Serve

GROUP, TOPIC = "payments", "orders"
ALL = {(TOPIC, partition) for partition in range(4)}
PATIENCE_S = 120.0
"""A Java program is compiled as it starts."""


def produced(emulator: EmulatorProcess, word: str) -> set[str]:
    """Five values for each partition."""
    rows = [(topic, partition, f"{word} {partition} #{n}") for topic, partition in sorted(ALL) for n in range(5)]
    PRODUCERS["confluent-kafka"](emulator.address, rows)
    return {value for _, _, value in rows}


def values(*consumers: ConsumerProcess) -> set[str]:
    return {record.value for consumer in consumers for record in consumer.records}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "client", ["kcat", *[pytest.param(name, marks=pytest.mark.slow) for name in OTHERS if name != "kcat"]]
)
def test_the_survivor_takes_over_and_goes_on_where_the_dead_one_committed(
    client: str, serve: Serve, processes: ExitStack, tmp_path: Path
) -> None:
    emulator = serve("--topic", f"{TOPIC}:4")
    survivor, victim = [
        processes.enter_context(closing(OTHERS[client](Wanted(emulator.address, GROUP, TOPIC), tmp_path / f"{n}.log")))
        for n in range(2)
    ]
    eventually(lambda: sorted(len(each.owned) for each in (survivor, victim)) == [2, 2], "two halves", PATIENCE_S)
    first = produced(emulator, "first")
    eventually(lambda: values(survivor, victim) == first, "the first records")
    eventually(lambda: emulator.committed(GROUP) == dict.fromkeys(ALL, 5), "their commits")

    victim.kill()
    eventually(lambda: survivor.owned == ALL, "the takeover")
    last = produced(emulator, "last")
    eventually(lambda: last <= values(survivor), "what comes later")
    eventually(lambda: emulator.committed(GROUP) == dict.fromkeys(ALL, 10), "the commits of the survivor")
    assert len(survivor.records) == len(set(survivor.records)), "nothing is read twice"
    (expelled,) = emulator.events(GROUP, kind="member-expelled")
    assert expelled["cause"]["deadline"] == "session"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("client", ["kcat", pytest.param("java-range", marks=pytest.mark.slow)])
def test_a_static_member_restarts_without_a_rebalance(
    client: str, serve: Serve, processes: ExitStack, tmp_path: Path
) -> None:
    emulator = serve("--topic", f"{TOPIC}:4")

    def start(life: int, instance_id: str) -> ConsumerProcess:
        wanted = Wanted(emulator.address, GROUP, TOPIC, session_timeout_ms=300_000, instance_id=instance_id)
        log = tmp_path / f"{instance_id}-{life}.log"
        return processes.enter_context(closing(OTHERS[client](wanted, log)))

    first, second = start(1, "a"), start(1, "b")
    eventually(lambda: sorted(len(each.owned) for each in (first, second)) == [2, 2], "two halves", PATIENCE_S)
    generation, owned, before = emulator.generation(GROUP), second.owned, len(first.said)
    second.kill()
    again = start(2, "b")
    eventually(lambda: again.owned == owned, "the same partitions after a crash", PATIENCE_S)

    written = produced(emulator, "after")
    eventually(lambda: values(first, again) == written, "the records")
    assert emulator.generation(GROUP) == generation
    assert not [each for each in first.said[before:] if "partitions" in each], "nobody else notices"
    (replaced,) = emulator.events(GROUP, kind="static-member-replaced")
    assert replaced["instance_id"] == "b"
