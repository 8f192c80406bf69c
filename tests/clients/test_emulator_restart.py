"""The emulator is killed while consumers use it, and starts again with the same group."""

import pytest

from tests.clients.consumer_process import ConsumerProcess
from tests.clients.emulator import EmulatorProcess, eventually, run_regroup
from tests.clients.libraries import PRODUCERS, ConsumerOptions
from tests.clients.processes import Consume, Serve

GROUP = "payments"
ALL = [("orders", partition) for partition in range(4)]


def produce(library: str, emulator: EmulatorProcess, prefix: str) -> set[str]:
    rows = [(topic, partition, f"{prefix} {partition} #{n}") for topic, partition in ALL for n in range(5)]
    PRODUCERS[library](emulator.address, rows)
    return {value for _, _, value in rows}


def values(consumers: list[ConsumerProcess]) -> list[str]:
    return [record.value for consumer in consumers for record in consumer.records]


def assignment_changes(consumers: list[ConsumerProcess]) -> list[list[object]]:
    return [[each for each in consumer.output if "partitions" in each] for consumer in consumers]


def start_two_consumers(library: str, emulator: EmulatorProcess, consume: Consume) -> list[ConsumerProcess]:
    """Start two consumers, which then have read and committed five records of each partition."""
    options = ConsumerOptions(emulator.address, GROUP, ["orders"], session_timeout_ms=10_000)
    consumers = [consume(library, options) for _ in range(2)]
    eventually(lambda: sorted(len(each.owned_partitions) for each in consumers) == [2, 2], "two partitions each")
    produced = produce(library, emulator, "before")
    eventually(lambda: set(values(consumers)) == produced, "the records")
    eventually(lambda: emulator.committed(GROUP) == dict.fromkeys(ALL, 5), "their commits")
    return consumers


@pytest.mark.quick("[kill-confluent-kafka-asyncio]")
@pytest.mark.parametrize(
    ("stop", "library", "loop"),
    [
        ("kill", "confluent-kafka", "asyncio"),
        ("terminate", "aiokafka", "uvloop"),
        pytest.param("kill", "aiokafka", "asyncio", marks=pytest.mark.slow),
        pytest.param("kill", "kafka-python", "asyncio", marks=pytest.mark.slow),
        pytest.param("kill", "confluent-kafka", "uvloop", marks=pytest.mark.slow),
        pytest.param("terminate", "confluent-kafka", "asyncio", marks=pytest.mark.slow),
    ],
)
def test_members_go_on_without_a_rebalance(stop: str, library: str, loop: str, serve: Serve, consume: Consume) -> None:
    emulator = serve("--topic", "orders:4", "--loop", loop)
    consumers = start_two_consumers(library, emulator, consume)
    generation, before = emulator.generation(GROUP), assignment_changes(consumers)

    getattr(emulator, stop)()
    emulator.start()
    produced = produce(library, emulator, "after")
    eventually(lambda: produced <= set(values(consumers)), "the records after the restart")
    eventually(lambda: len(committed_since_restart(emulator)) == len(ALL), "commits in the new coordinator epoch")

    assert len(values(consumers)) == 40, "no record is read twice"
    assert emulator.generation(GROUP) == generation
    assert assignment_changes(consumers) == before
    assert len(emulator.events(GROUP, kind="coordinator-loaded")) == 1
    assert not emulator.events(GROUP, kind="member-removed")
    for consumer in consumers:
        consumer.leave()
    assert emulator.terminate() == 0
    assert run_regroup("verify", str(emulator.store)).returncode == 0


def committed_since_restart(emulator: EmulatorProcess) -> set[tuple[str, int]]:
    loaded = emulator.events(GROUP, kind="coordinator-loaded")
    return {
        (topic, int(partition))
        for event in emulator.events(GROUP, kind="offsets-committed")
        for topic, rows in event["offsets"].items()
        for partition in rows
        if loaded and event["position"] > loaded[-1]["position"]
    }


@pytest.mark.slow
def test_a_member_that_was_killed_meanwhile_is_removed(serve: Serve, consume: Consume) -> None:
    """A coordinator load restarts the session timeout of every member."""
    emulator = serve("--topic", "orders:4")
    options = ConsumerOptions(emulator.address, GROUP, ["orders"], session_timeout_ms=6_000)
    survivor, victim = consumers = [consume("confluent-kafka", options) for _ in range(2)]
    eventually(lambda: sorted(len(each.owned_partitions) for each in consumers) == [2, 2], "two partitions each")
    emulator.kill()
    victim.kill()
    emulator.start()
    eventually(lambda: survivor.owned_partitions == set(ALL), "the takeover")
    produced = produce("confluent-kafka", emulator, "after")
    eventually(lambda: set(values([survivor])) == produced, "the records")
    assert len(emulator.events(GROUP, kind="member-removed")) == 1
