"""Simulated members with faults, beside a consumer of librdkafka, on Apache Kafka and on regroup."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka import Consumer as RdkafkaConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from regroup.members.consumer.effects import (
    ConsumerChange,
    ConsumerError,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.consumer.inputs import Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberState
from regroup.members.faults import parse_fault
from regroup.members.runtime.member import SimulatedMember
from regroup.members.transports.tcp import TcpTransport, parse_bootstrap
from tests.conformance.apache_kafka import ApacheKafkaBroker
from tests.conformance.peers import FAST_SETTINGS, regroup_broker

NAMES = ("anna", "ben", "carla")
PARTITIONS = 12
"""A number that one, two, three and four members divide evenly; otherwise random member ids decide who gets more."""
TIMEOUT_S = 40
FAULT_AT_S = 20
SETTLE_S = 5
"""Longer than a session, so that the session of a crashed member has expired."""

MemberChanges = dict[str, list[tuple[str, tuple[int, ...]]]]
"""The changes of each member: their kinds and their partitions, in order."""


class ThreeMembers:
    """Anna, Ben and Carla over TCP, with the changes of their partitions."""

    def __init__(self, address: str, topic: str, assignor: str, fault: str, *, static: bool) -> None:
        self.changes: MemberChanges = {name: [] for name in NAMES}
        self.transports = {name: TcpTransport(parse_bootstrap(address), client_id=name) for name in NAMES}
        self.members = {
            name: SimulatedMember(
                name,
                ConsumerSettings(
                    group_id=topic,
                    client_id=name,
                    group_instance_id=name if static else None,
                    partition_assignment_strategy=(assignor,),
                    session_timeout_ms=3_000,
                    heartbeat_interval_ms=200,
                ),
                self.transports[name],
                Subscribe((topic,)),
                faults=[parse_fault(f"{fault}@{FAULT_AT_S}s")] if name == "ben" else [],
                observe=self._observe,
            )
            for name in NAMES
        }

    def _observe(self, name: str, change: ConsumerChange | ConsumerError) -> None:
        if isinstance(change, PartitionsAssigned | PartitionsRevoked | PartitionsLost) and change.partitions:
            changes, kind = self.changes[name], type(change).__name__
            # In how many rebalances all partitions get assigned depends on which member rejoins first.
            earlier = changes.pop()[1] if changes and changes[-1][0] == kind else ()
            changes.append((kind, tuple(sorted({*earlier, *(each.partition for each in change.partitions)}))))

    def assigned(self, name: str) -> list[int]:
        consumer = self.members[name].consumer
        partitions = consumer.assigned_partitions if consumer.state is MemberState.STABLE else ()
        return sorted(each.partition for each in partitions)

    async def close(self) -> None:
        for name in NAMES:
            await self.members[name].close()
            await self.transports[name].close()


@contextmanager
def rdkafka_consumer(address: str, topic: str, assignor: str) -> Iterator[Callable[[], list[int]]]:
    """A consumer of librdkafka in a thread of its own, which alone may use it; a function returns its partitions."""
    consumer = RdkafkaConsumer(
        {
            "bootstrap.servers": address,
            "group.id": topic,
            "partition.assignment.strategy": assignor,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 200,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    stop = threading.Event()
    assigned: list[int] = []

    def poll() -> None:
        while not stop.is_set():
            consumer.poll(0.1)
            assigned[:] = sorted(each.partition for each in consumer.assignment())
        consumer.close()

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield lambda: list(assigned)
    finally:
        stop.set()
        thread.join()


async def wait_until(condition: Callable[[], bool], *, for_s: float = 0) -> None:
    """Wait until the condition holds, and has held for some time."""
    checks = 0
    for _ in range(TIMEOUT_S * 20):
        checks = checks + 1 if condition() else 0
        if checks > for_s * 20:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"not within {TIMEOUT_S} s")


async def changes_on(address: str, topic: str, assignor: str, fault: str, *, static: bool) -> MemberChanges:
    """Start all members one by one, then Ben's fault; the changes of each member, and the partitions at the end."""
    members = ThreeMembers(address, topic, assignor, fault, static=static)
    try:
        return await run_members(members, address, topic, assignor)
    finally:
        await members.close()


async def run_members(members: ThreeMembers, address: str, topic: str, assignor: str) -> MemberChanges:
    ben = members.members["ben"]
    present: dict[str, Callable[[], list[int]]] = {}

    def is_balanced(count: int) -> bool:
        """Whether this number of members has all partitions, each member at least one."""
        assigned = [partitions() for name, partitions in present.items() if name != "ben" or not ben.is_stopped]
        numbers = sorted(number for partitions in assigned for number in partitions)
        return len(assigned) == count and all(assigned) and numbers == list(range(PARTITIONS))

    for count, name in enumerate(NAMES, 1):
        present[name] = partial(members.assigned, name)
        members.members[name].start()
        await wait_until(partial(is_balanced, count), for_s=1)
    with rdkafka_consumer(address, topic, assignor) as rdkafka_assigned:
        present["librdkafka"] = rdkafka_assigned
        await wait_until(lambda: is_balanced(4), for_s=1)
        assert ben.view.condition == "", "Ben's fault began before all members had joined"
        await wait_until(lambda: ben.view.condition != "")
        await wait_until(lambda: ben.view.condition not in ("paused", "restarting"))
        await asyncio.sleep(SETTLE_S)
        await wait_until(lambda: is_balanced(3 if ben.is_stopped else 4), for_s=1)
        last: MemberChanges = {f"{name} has": [("has", tuple(assigned()))] for name, assigned in present.items()}
        return {name: list(changes) for name, changes in members.changes.items()} | last


@pytest.fixture(scope="module")
def emulator() -> Iterator[str]:
    with regroup_broker(FAST_SETTINGS) as broker:
        yield broker.address


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("assignor", "fault", "static"),
    [
        ("range", "crash", False),
        ("range", "pause:5s", False),
        ("roundrobin", "leave", False),
        ("cooperative-sticky", "crash", False),
        ("cooperative-sticky", "pause:5s", False),
        ("range", "restart:1s", True),
        ("cooperative-sticky", "restart:1s", True),
    ],
)
def test_members_have_the_same_changes_of_partitions_on_both(
    kafka: ApacheKafkaBroker, emulator: str, assignor: str, fault: str, static: bool
) -> None:
    topic = f"{assignor}-{fault.replace(':', '-')}"
    runs = []
    for address in (kafka.address, emulator):
        client = AdminClient({"bootstrap.servers": address, "log_level": 0})
        client.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        runs.append(asyncio.run(changes_on(address, topic, assignor, fault, static=static)))
    assert runs[0] == runs[1]
    assert sum(len(numbers) for name, [(_, numbers), *_] in runs[0].items() if name.endswith(" has")) >= PARTITIONS
