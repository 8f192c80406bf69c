"""The same members with the same habits, beside a consumer of librdkafka, on Apache Kafka and on the emulator."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from apache_kafka import ApacheKafka
from confluent_kafka import Consumer as RdkafkaConsumer
from confluent_kafka.admin import AdminClient, NewTopic
from peers import ROOMY, regroup

from regroup.members.consumer.effects import (
    Change,
    ConsumerError,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.consumer.inputs import Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import Phase
from regroup.members.faults import parse_habit
from regroup.members.runtime.member import Member
from regroup.members.transports.tcp import TcpTransport, parse_bootstrap

NAMES = ("anna", "ben", "carla")
PARTITIONS = 12
"""As many for each of one, two, three or four members; who has one more would hang on the members' random ids."""
PATIENCE_S = 40
BEN_BEGINS_S = 20
SETTLES_S = 5
"""Longer than a session, so that whoever is silent has been missed."""
TOLD = {PartitionsAssigned: "gets", PartitionsRevoked: "gives up", PartitionsLost: "loses"}

Story = dict[str, list[tuple[str, tuple[int, ...]]]]


class Company:
    """Three members over TCP, each with what it was told."""

    def __init__(self, address: str, topic: str, assignor: str, habit: str, *, static: bool) -> None:
        self.told: Story = {name: [] for name in NAMES}
        self.transports = {name: TcpTransport(parse_bootstrap(address), client_id=name) for name in NAMES}
        self.members = {
            name: Member(
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
                habits=[parse_habit(f"{habit}@{BEN_BEGINS_S}s")] if name == "ben" else [],
                observe=self._observe,
            )
            for name in NAMES
        }

    def _observe(self, name: str, happening: Change | ConsumerError) -> None:
        if isinstance(happening, PartitionsAssigned | PartitionsRevoked | PartitionsLost) and happening.partitions:
            told, what = self.told[name], TOLD[type(happening)]
            # How many rebalances it takes until all is given out depends on who is quicker to come back.
            before = told.pop()[1] if told and told[-1][0] == what else ()
            told.append((what, tuple(sorted({*before, *(each.partition for each in happening.partitions)}))))

    def share(self, name: str) -> list[int]:
        consumer = self.members[name].consumer
        return sorted(each.partition for each in consumer.assigned) if consumer.phase is Phase.STABLE else []

    async def close(self) -> None:
        for name in NAMES:
            await self.members[name].close()
            await self.transports[name].close()


@contextmanager
def rdkafka_consumer(address: str, topic: str, assignor: str) -> Iterator[Callable[[], list[int]]]:
    """A consumer in a thread of its own, which alone may touch it; gives a function that says what it has."""
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
    over = threading.Event()
    has: list[int] = []

    def polls() -> None:
        while not over.is_set():
            consumer.poll(0.1)
            has[:] = sorted(each.partition for each in consumer.assignment())
        consumer.close()

    thread = threading.Thread(target=polls)
    thread.start()
    try:
        yield lambda: list(has)
    finally:
        over.set()
        thread.join()


async def until(true: Callable[[], bool], *, for_s: float = 0) -> None:
    """Wait until it is so, and has been for a while."""
    looks = 0
    for _ in range(PATIENCE_S * 20):
        looks = looks + 1 if true() else 0
        if looks > for_s * 20:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"not within {PATIENCE_S} s")


async def story_on(address: str, topic: str, assignor: str, habit: str, *, static: bool) -> Story:
    """Anna, Ben, Carla and the stranger come one by one; then Ben misbehaves. Who was told what, and what each has."""
    company = Company(address, topic, assignor, habit, static=static)
    try:
        return await gathered(company, address, topic, assignor)
    finally:
        await company.close()


async def gathered(company: Company, address: str, topic: str, assignor: str) -> Story:
    ben = company.members["ben"]
    present: dict[str, Callable[[], list[int]]] = {}

    def everything_is_shared_among(count: int) -> bool:
        shares = [share() for name, share in present.items() if name != "ben" or not ben.is_over]
        held = sorted(number for share in shares for number in share)
        return len(shares) == count and all(shares) and held == list(range(PARTITIONS))

    for count, name in enumerate(NAMES, 1):
        present[name] = partial(company.share, name)
        company.members[name].start()
        await until(partial(everything_is_shared_among, count), for_s=1)
    with rdkafka_consumer(address, topic, assignor) as stranger_has:
        present["stranger"] = stranger_has
        await until(lambda: everything_is_shared_among(4), for_s=1)
        assert ben.view.condition == "", "they took so long to gather that Ben's habit has begun"
        await until(lambda: ben.view.condition != "")
        await until(lambda: ben.view.condition not in ("paused", "restarting"))
        await asyncio.sleep(SETTLES_S)
        await until(lambda: everything_is_shared_among(3 if ben.is_over else 4), for_s=1)
        shares: Story = {f"{name} has": [("has", tuple(share()))] for name, share in present.items()}
        return {name: list(told) for name, told in company.told.items()} | shares


@pytest.fixture(scope="module")
def emulator() -> Iterator[str]:
    with regroup(ROOMY) as broker:
        yield broker.address


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("assignor", "habit", "static"),
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
def test_members_live_through_the_same_on_both(
    kafka: ApacheKafka, emulator: str, assignor: str, habit: str, static: bool
) -> None:
    topic = f"{assignor}-{habit.replace(':', '-')}"
    stories = []
    for address in (kafka.address, emulator):
        client = AdminClient({"bootstrap.servers": address, "log_level": 0})
        client.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        stories.append(asyncio.run(story_on(address, topic, assignor, habit, static=static)))
    assert stories[0] == stories[1]
    assert sum(len(numbers) for name, [(_, numbers), *_] in stories[0].items() if name.endswith(" has")) >= PARTITIONS
