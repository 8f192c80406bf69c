"""Unmodified consumers are moved from the classic protocol to the consumer protocol (KIP-848) and back, one by one."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

import pytest

from tests.clients.consumer_process import ConsumerProcess
from tests.clients.emulator import EmulatorProcess, eventually, run_regroup
from tests.clients.libraries import PRODUCERS, ConsumerOptions
from tests.clients.others.other_process import OtherClientOptions, java
from tests.clients.processes import Serve

GROUP, TOPIC = "payments", "orders"
ALL = {(TOPIC, partition) for partition in range(4)}
CONSUMER = "consumer"
"""Stands for the consumer protocol where others name an assignor."""
START_TIMEOUT_S = 120.0
"""Includes the compilation of the Java program."""
SESSION_TIMEOUT_MS = 30_000
"""Longer than the next process takes to start."""
CLIENTS = [
    ("librdkafka", "range"),
    ("java", "RangeAssignor"),
    ("java", "CooperativeStickyAssignor"),
]
"""Without librdkafka's `cooperative-sticky`: it puts user data into assignments, for which Kafka refuses an upgrade."""

Start = Callable[..., ConsumerProcess]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def start(processes: ExitStack, tmp_path: Path) -> Start:
    """`start("java", emulator, "RangeAssignor")` starts a consumer of the classic protocol."""
    numbers = count(1)

    def start_client(
        client: str, emulator: EmulatorProcess, assignor: str, instance_id: str | None = None
    ) -> ConsumerProcess:
        log = tmp_path / f"{client}-{next(numbers)}.log"
        if client == "java":
            options = OtherClientOptions(
                emulator.address, GROUP, TOPIC, session_timeout_ms=SESSION_TIMEOUT_MS, instance_id=instance_id
            )
            process: ConsumerProcess = java(assignor)(options, log)
        else:
            is_new = assignor == CONSUMER
            wanted = ConsumerOptions(
                emulator.address,
                GROUP,
                [TOPIC],
                assignor="uniform" if is_new else assignor,
                instance_id=instance_id,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                uses_consumer_protocol=is_new,
            )
            process = ConsumerProcess("confluent-kafka", wanted, log)
        processes.callback(lambda: print(*process.output, process.errors, sep="\n"))
        return processes.enter_context(closing(process))

    return start_client


def produce(emulator: EmulatorProcess, prefix: str) -> set[str]:
    """Produce five records to each partition; returns their values."""
    rows = [(topic, partition, f"{prefix} {partition} #{n}") for topic, partition in sorted(ALL) for n in range(5)]
    PRODUCERS["confluent-kafka"](emulator.address, rows)
    return {value for _, _, value in rows}


def wait_for_shares(*consumers: ConsumerProcess) -> None:
    """Wait until each consumer owns as many partitions as any other, and together they own all."""
    share = len(ALL) // len(consumers)
    eventually(
        lambda: (
            {len(each.owned_partitions) for each in consumers} == {share}
            and set().union(*(each.owned_partitions for each in consumers)) == ALL
        ),
        f"{share} partitions each",
        START_TIMEOUT_S,
    )


def wait_for_work(emulator: EmulatorProcess, number: int, *consumers: ConsumerProcess) -> None:
    """Wait until the consumers have read new records, and committed them."""
    values = produce(emulator, f"batch {number}")
    eventually(lambda: values <= {record.value for each in consumers for record in each.records}, "the records")
    eventually(lambda: emulator.committed(GROUP) == dict.fromkeys(ALL, 5 * number), "their commits")


def kinds(emulator: EmulatorProcess) -> list[str]:
    return [each["type"] for each in emulator.events(GROUP) if each["type"] in ("group-upgraded", "group-downgraded")]


@pytest.mark.parametrize(("client", "assignor"), CLIENTS)
def test_a_rolling_upgrade_and_its_way_back_read_every_record_once(
    client: str, assignor: str, serve: Serve, start: Start
) -> None:
    emulator = serve("--topic", f"{TOPIC}:4")
    first, second = start(client, emulator, assignor), start(client, emulator, assignor)
    wait_for_shares(first, second)
    wait_for_work(emulator, 1, first, second)
    everyone = [first, second]
    for number, protocol in enumerate([CONSUMER, CONSUMER, assignor, assignor], 2):
        first.leave()
        wait_for_shares(second)
        third = start(client, emulator, protocol)
        everyone.append(third)
        wait_for_shares(second, third)
        wait_for_work(emulator, number, second, third)
        first, second = second, third
    assert kinds(emulator) == ["group-upgraded", "group-downgraded"]
    read = [(record.topic, record.partition, record.offset) for each in everyone for record in each.records]
    assert sorted(read) == [(TOPIC, partition, offset) for partition in range(4) for offset in range(25)]
    assert not emulator.events(GROUP, kind="member-removed")
    first.leave()
    second.leave()
    emulator.terminate()
    assert run_regroup("verify", emulator.store).returncode == 0


@pytest.mark.parametrize(("client", "assignor"), [("librdkafka", "range"), ("java", "RangeAssignor")])
def test_a_static_consumer_changes_its_protocol_without_a_rebalance(
    client: str, assignor: str, serve: Serve, start: Start
) -> None:
    emulator = serve("--topic", f"{TOPIC}:4", "--set", "group.consumer.session.timeout.ms=60000")
    first = start(client, emulator, assignor, "a")
    wait_for_shares(first)
    wait_for_work(emulator, 1, first)
    first.leave()
    second = start(client, emulator, CONSUMER, "a")
    wait_for_shares(second)
    wait_for_work(emulator, 2, second)
    second.leave()
    third = start(client, emulator, assignor, "a")
    wait_for_shares(third)
    wait_for_work(emulator, 3, third)
    assert kinds(emulator) == ["group-upgraded", "group-downgraded"]
    assert len(emulator.events(GROUP, kind="generation-started")) == 1, "the static member keeps its generation"
    assert len(emulator.events(GROUP, kind="static-consumer-replaced")) == 2
