"""kcat, kafkajs and the Java client share a topic and are killed, as the clients for Python are."""

from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.clients.consumer_process import ConsumerProcess
from tests.clients.emulator import EmulatorProcess, eventually
from tests.clients.libraries import PRODUCERS
from tests.clients.others.other_process import OTHER_CLIENTS, OtherClientOptions
from tests.clients.processes import Serve

GROUP, TOPIC = "payments", "orders"
ALL = {(TOPIC, partition) for partition in range(4)}
START_TIMEOUT_S = 120.0
"""Includes the compilation of the Java program."""


def produce(emulator: EmulatorProcess, prefix: str) -> set[str]:
    """Produce five records to each partition; returns their values."""
    rows = [(topic, partition, f"{prefix} {partition} #{n}") for topic, partition in sorted(ALL) for n in range(5)]
    PRODUCERS["confluent-kafka"](emulator.address, rows)
    return {value for _, _, value in rows}


def values(*consumers: ConsumerProcess) -> set[str]:
    return {record.value for consumer in consumers for record in consumer.records}


def owned_counts(*consumers: ConsumerProcess) -> list[int]:
    return sorted(len(each.owned_partitions) for each in consumers)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("client", OTHER_CLIENTS)
def test_after_a_crash_the_other_consumer_goes_on_from_the_committed_offsets(
    client: str, serve: Serve, processes: ExitStack, tmp_path: Path
) -> None:
    emulator = serve("--topic", f"{TOPIC}:4")
    survivor, victim = [
        processes.enter_context(
            closing(OTHER_CLIENTS[client](OtherClientOptions(emulator.address, GROUP, TOPIC), tmp_path / f"{n}.log"))
        )
        for n in range(2)
    ]
    eventually(
        lambda: sorted(len(each.owned_partitions) for each in (survivor, victim)) == [2, 2],
        "two partitions each",
        START_TIMEOUT_S,
    )
    first = produce(emulator, "first")
    eventually(lambda: values(survivor, victim) == first, "the first records")
    eventually(lambda: emulator.committed(GROUP) == dict.fromkeys(ALL, 5), "their commits")

    victim.kill()
    eventually(lambda: survivor.owned_partitions == ALL, "the takeover")
    last = produce(emulator, "last")
    eventually(lambda: last <= values(survivor), "the last records")
    eventually(lambda: emulator.committed(GROUP) == dict.fromkeys(ALL, 10), "the commits of the survivor")
    assert len(survivor.records) == len(set(survivor.records)), "no record is read twice"
    (removed,) = emulator.events(GROUP, kind="member-removed")
    assert removed["cause"]["deadline"] == "session"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("client", ["kcat", "java-range"])
def test_a_static_member_restarts_without_a_rebalance(
    client: str, serve: Serve, processes: ExitStack, tmp_path: Path
) -> None:
    emulator = serve("--topic", f"{TOPIC}:4")

    def start(attempt: int, instance_id: str) -> ConsumerProcess:
        options = OtherClientOptions(
            emulator.address, GROUP, TOPIC, session_timeout_ms=300_000, instance_id=instance_id
        )
        log = tmp_path / f"{instance_id}-{attempt}.log"
        return processes.enter_context(closing(OTHER_CLIENTS[client](options, log)))

    first, second = start(1, "a"), start(1, "b")
    eventually(
        lambda: sorted(len(each.owned_partitions) for each in (first, second)) == [2, 2],
        "two partitions each",
        START_TIMEOUT_S,
    )
    generation, owned, before = emulator.generation(GROUP), second.owned_partitions, len(first.output)
    second.kill()
    again = start(2, "b")
    eventually(lambda: again.owned_partitions == owned, "the same partitions after a crash", START_TIMEOUT_S)

    produced = produce(emulator, "after")
    eventually(lambda: values(first, again) == produced, "the records")
    assert emulator.generation(GROUP) == generation
    assert not [each for each in first.output[before:] if "partitions" in each], "the other is not disturbed"
    (replaced,) = emulator.events(GROUP, kind="static-member-replaced")
    assert replaced["instance_id"] == "b"
