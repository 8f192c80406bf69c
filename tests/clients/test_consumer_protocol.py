"""Unmodified consumers with `group.protocol=consumer` (KIP-848) join, crash, restart, and subscribe by a pattern."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.clients.admins import ADMINS
from tests.clients.consumer_process import ConsumerProcess
from tests.clients.emulator import EmulatorProcess, eventually, free_port
from tests.clients.libraries import PRODUCERS, ConsumerOptions
from tests.clients.long_run import run_clients, running_broker
from tests.clients.others.other_process import OtherClientOptions, franz_go, java
from tests.clients.processes import Serve

GROUP, TOPIC = "payments", "orders"
ALL = {(TOPIC, partition) for partition in range(4)}
START_TIMEOUT_S = 120.0
"""Includes the compilation of the Java program."""
OTHERS = {"java": java, "franz-go": franz_go}
CLIENTS = ["librdkafka", *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)]
CLIENTS_THAT_COME_BACK = ["librdkafka", "java"]
"""Without franz-go 1.22: it leaves with epoch -2 and without its instance id, which Kafka refuses as well."""
BUSY_S = 60.0
"""Longer than many sessions, heartbeats and refreshes of metadata. `tests.clients.long_run` takes minutes."""

Start = Callable[..., ConsumerProcess]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def start(processes: ExitStack, tmp_path: Path) -> Start:
    """`start("java", emulator, instance_id="a")` starts a consumer."""
    numbers = count(1)

    def start_client(client: str, emulator: EmulatorProcess, **options: Any) -> ConsumerProcess:
        log = tmp_path / f"{client}-{next(numbers)}.log"
        if client in OTHERS:
            topic = f"~{options.pop('pattern')}" if "pattern" in options else TOPIC
            process: ConsumerProcess = OTHERS[client]("consumer")(
                OtherClientOptions(emulator.address, GROUP, topic, **options), log
            )
        else:
            fields: dict[str, Any] = {"topics": [TOPIC], "assignor": "uniform", **options}
            wanted = ConsumerOptions(emulator.address, GROUP, uses_consumer_protocol=True, **fields)
            process = ConsumerProcess("confluent-kafka", wanted, log)
        processes.callback(lambda: print(*process.output, process.errors, sep="\n"))
        return processes.enter_context(closing(process))

    return start_client


def produce(emulator: EmulatorProcess, prefix: str) -> set[str]:
    """Produce five records to each partition; returns their values."""
    rows = [(topic, partition, f"{prefix} {partition} #{n}") for topic, partition in sorted(ALL) for n in range(5)]
    PRODUCERS["confluent-kafka"](emulator.address, rows)
    return {value for _, _, value in rows}


def values(*consumers: ConsumerProcess) -> set[str]:
    return {record.value for consumer in consumers for record in consumer.records}


def group_epoch(emulator: EmulatorProcess) -> int:
    return int(emulator.events(GROUP, kind="group-epoch-bumped")[-1]["group_epoch"])


def share(*consumers: ConsumerProcess) -> None:
    """Wait until each of two consumers owns two partitions, and all are owned."""
    eventually(
        lambda: (
            sorted(len(each.owned_partitions) for each in consumers) == [2, 2]
            and set().union(*(each.owned_partitions for each in consumers)) == ALL
        ),
        "two partitions each",
        START_TIMEOUT_S,
    )


@pytest.mark.parametrize("client", CLIENTS)
def test_a_second_consumer_takes_over_a_half_and_its_crash_gives_it_back(
    client: str, serve: Serve, start: Start
) -> None:
    emulator = serve("--topic", f"{TOPIC}:4")
    survivor = start(client, emulator)
    eventually(lambda: survivor.owned_partitions == ALL, "all partitions", START_TIMEOUT_S)
    victim = start(client, emulator)
    share(survivor, victim)
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
@pytest.mark.parametrize("client", CLIENTS_THAT_COME_BACK)
def test_a_static_consumer_restarts_without_a_rebalance(client: str, serve: Serve, start: Start) -> None:
    emulator = serve("--topic", f"{TOPIC}:4", "--set", "group.consumer.session.timeout.ms=60000")
    first, second = start(client, emulator, instance_id="a"), start(client, emulator, instance_id="b")
    share(first, second)
    epoch = group_epoch(emulator)
    owned, before = second.owned_partitions, len(first.output)
    second.leave()
    again = start(client, emulator, instance_id="b")
    eventually(lambda: again.owned_partitions == owned, "the same partitions", START_TIMEOUT_S)

    produced = produce(emulator, "after")
    eventually(lambda: values(first, again) == produced, "the records")
    assert group_epoch(emulator) == epoch
    assert not [each for each in first.output[before:] if "partitions" in each], "the other is not disturbed"
    (replaced,) = emulator.events(GROUP, kind="static-consumer-replaced")
    assert replaced["instance_id"] == "b"


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_a_pattern_finds_topics(client: str, serve: Serve, start: Start) -> None:
    emulator = serve("--topic", f"{TOPIC}:4", "--topic", "payments:1")
    consumer = start(client, emulator, pattern="ord.*")
    eventually(lambda: consumer.owned_partitions == ALL, "the topics that match", START_TIMEOUT_S)


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_consumers_that_come_crash_and_move_for_a_minute_log_no_warning(client: str, tmp_path: Path) -> None:
    with running_broker("regroup", tmp_path) as address:
        (run,) = run_clients([client], address, tmp_path, BUSY_S)
    assert run.records > 0
    assert dict(run.warnings) == {}


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_a_broker_that_does_not_answer_is_a_warning(client: str, start: Start) -> None:
    nowhere = SimpleNamespace(address=f"127.0.0.1:{free_port()}")
    consumer = start(client, nowhere)
    eventually(lambda: consumer.warnings, "a warning", START_TIMEOUT_S)


@pytest.mark.slow
def test_partitions_that_are_added_are_assigned(serve: Serve, start: Start) -> None:
    emulator = serve("--topic", f"{TOPIC}:4")
    consumer = start("librdkafka", emulator)
    eventually(lambda: consumer.owned_partitions == ALL, "all partitions")
    with closing(ADMINS["confluent-kafka"](emulator.address)) as admin:
        admin.add_partitions(TOPIC, 6)
    eventually(lambda: len(consumer.owned_partitions) == 6, "the new partitions")
