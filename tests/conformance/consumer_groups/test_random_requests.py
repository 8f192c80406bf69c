"""Groups of the consumer protocol: regroup and Apache Kafka give the same answers to random requests."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest

from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.client import ClientConnection
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.topic_ids import topic_id_bytes
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment, ClusterOptions
from tests.conformance.apache_kafka import ApacheKafkaBroker, KafkaUnavailable, apache_kafka
from tests.conformance.consumer_groups.mixed_requests import CLASSIC_MEMBERS, MixedCourse, UnlikeOrder
from tests.conformance.consumer_groups.random_requests import Course, create_topic
from tests.server.wire_client import TIMEOUT_S, WireClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

COURSES, STEPS = 40, 80
SHORT_ID_LENGTH, UUID_LENGTH = 22, 36
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.max.size": "4",
    "group.consumer.session.timeout.ms": "60000",
}


@pytest.fixture(scope="module")
def kafka_without_migration() -> Iterator[ApacheKafkaBroker]:
    try:
        with apache_kafka({**SETTINGS, "group.consumer.migration.policy": "disabled"}) as broker:
            yield broker
    except KafkaUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def kafka_with_migration() -> Iterator[ApacheKafkaBroker]:
    try:
        with apache_kafka(SETTINGS) as broker:
            yield broker
    except KafkaUnavailable as reason:
        pytest.skip(str(reason))


class DrawnIds:
    """The ids that regroup draws: those of Kafka's topics and members."""

    def __init__(self) -> None:
        self.next: bytes | None = None

    def draw_next_of(self, member_id: str) -> None:
        """Draw next what gives a member this id: Kafka's ids are UUIDs in base64 or end with one, as ours do."""
        if member_id:
            is_short = len(member_id) == SHORT_ID_LENGTH
            self.next = topic_id_bytes(member_id) if is_short else UUID(member_id[-UUID_LENGTH:]).bytes

    def draw(self) -> UUID:
        drawn, self.next = self.next, None
        return UUID(bytes=drawn) if drawn else uuid4()


@asynccontextmanager
async def both(kafka: ApacheKafkaBroker, ids: DrawnIds) -> AsyncIterator[tuple[WireClient, WireClient]]:
    async with a_cluster(ids, "disabled") as cluster:
        theirs, ours = [await WireClient.connect(*address) for address in addresses(kafka, cluster)]
        yield theirs, ours
        await theirs.close()
        await ours.close()


def a_cluster(ids: DrawnIds, policy: str) -> AbstractAsyncContextManager[BrokerCluster]:
    settings = CoordinatorSettings.from_texts({**SETTINGS, "group.consumer.migration.policy": policy})
    return started(ClusterOptions(settings=settings), ClusterEnvironment(new_uuid=ids.draw))


@asynccontextmanager
async def started(options: ClusterOptions, environment: ClusterEnvironment) -> AsyncIterator[BrokerCluster]:
    async with await BrokerCluster.start(None, options, environment) as cluster:
        yield cluster


def addresses(kafka: ApacheKafkaBroker, cluster: BrokerCluster) -> list[tuple[str, int]]:
    host, _, port = kafka.address.rpartition(":")
    return [(host, int(port)), cluster.address]


async def wait_for_coordinator(client: WireClient, name: str, topics: list[str]) -> None:
    """Until the broker coordinates the group, and gives these topics to a probe in a group of its own."""
    await client.call(FindCoordinatorRequest(coordinator_keys=[name]))  # creates __consumer_offsets
    for group in (f"probe-{name}", f"group-{name}"):
        async with asyncio.timeout(TIMEOUT_S):
            while not await is_coordinated(client, group, topics):  # noqa: ASYNC110  # it is another process
                await asyncio.sleep(0.02)


async def is_coordinated(client: WireClient, group: str, topics: list[str]) -> bool:
    """Whether a member of the probe's group gets both topics; of another group, whether it is known not to exist."""
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id="probe", member_epoch=1)
    if group.startswith("probe"):
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="probe",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=topics,
            topic_partitions=[],
        )
    response: Any = await client.call(request)
    if response.assignment is None:
        return bool(response.error_code == ErrorCode.GROUP_ID_NOT_FOUND)
    return len(response.assignment.topic_partitions) == len(topics)


async def test_random_requests_get_the_same_answers(kafka_without_migration: ApacheKafkaBroker) -> None:
    ids = DrawnIds()
    async with both(kafka_without_migration, ids) as (theirs, ours):
        for seed in range(COURSES):
            topics = {}
            for letter, sizes in (("a", (1, 2, 5, 6, 7)), ("b", (3, 4))):
                name, partitions = f"{letter}-{seed}", Random(f"{letter}{seed}").choice(sizes)
                topics[name] = ids.next = await create_topic(theirs, name, partitions)
                assert await create_topic(ours, name, partitions) == topics[name]
            await wait_for_coordinator(theirs, str(seed), list(topics))
            difference = await Course(seed, str(seed), topics).play((theirs, ours), STEPS)
            assert difference is None, f"course {seed}: {difference}"


async def test_groups_that_migrate_get_the_same_answers(kafka_with_migration: ApacheKafkaBroker) -> None:
    """A course ends early where the order of a hash map cannot be known."""
    ids, complete = DrawnIds(), 0
    async with a_cluster(ids, "bidirectional") as cluster, AsyncExitStack() as stack:
        brokers = addresses(kafka_with_migration, cluster)

        async def connect() -> list[ClientConnection]:
            opened = [await ClientConnection.open(*each, client_id="test") for each in brokers]
            for each in opened:
                stack.push_async_callback(each.close)
            return opened

        theirs, ours = [await WireClient.connect(*each) for each in brokers]
        for seed in range(COURSES):
            topics, name = {}, f"mixed-{seed}"
            for letter, sizes in (("a", (3, 5, 6, 7)), ("b", (3, 4))):
                topic, partitions = f"{letter}-{name}", Random(f"{letter}{seed}").choice(sizes)
                topics[topic] = ids.next = await create_topic(theirs, topic, partitions)
                assert await create_topic(ours, topic, partitions) == topics[topic]
            await wait_for_coordinator(theirs, name, list(topics))
            connections = {each: await connect() for each in CLASSIC_MEMBERS}
            course = MixedCourse(seed, name, topics, await connect(), connections, ids.draw_next_of)
            with suppress(UnlikeOrder):
                difference = await course.play_to_end(STEPS)
                last_requests = "\n".join(course.log[-20:])
                assert difference is None, f"course {seed}: {difference}, after\n{last_requests}"
                complete += 1
        await theirs.close()
        await ours.close()
        types = Counter([record.type async for record in cluster.store.read()])
    assert complete > COURSES / 2
    rare = {"group-upgraded", "group-downgraded", "classic-member-joined", "rejoin-requested"}
    assert {each for each in rare if types[each] < 3} == set()
