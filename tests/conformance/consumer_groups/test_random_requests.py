"""Groups of the consumer protocol: regroup and Apache Kafka give the same answers to random requests."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest

from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment, ClusterOptions
from tests.conformance.apache_kafka import ApacheKafkaBroker, KafkaUnavailable, apache_kafka
from tests.conformance.consumer_groups.random_requests import Course, create_topic
from tests.server.wire_client import TIMEOUT_S, WireClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

COURSES, STEPS = 40, 80
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
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


class TopicIds:
    """The ids that regroup draws: those of Kafka's topics."""

    def __init__(self) -> None:
        self.next: bytes | None = None

    def draw(self) -> UUID:
        drawn, self.next = self.next, None
        return UUID(bytes=drawn) if drawn else uuid4()


@asynccontextmanager
async def both(kafka: ApacheKafkaBroker, ids: TopicIds) -> AsyncIterator[tuple[WireClient, WireClient]]:
    options = ClusterOptions(settings=CoordinatorSettings.from_texts(SETTINGS))
    async with await BrokerCluster.start(None, options, ClusterEnvironment(new_uuid=ids.draw)) as cluster:
        host, _, port = kafka.address.rpartition(":")
        theirs = await WireClient.connect(host, int(port))
        ours = await WireClient.connect(*cluster.address)
        yield theirs, ours
        await theirs.close()
        await ours.close()


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
    ids = TopicIds()
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
