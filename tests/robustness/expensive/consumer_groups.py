"""Requests of the members of groups of the consumer protocol, and about such groups."""

from collections.abc import Iterator

from regroup.protocol.message import Message
from regroup.protocol.messages import consumer_group as cg
from regroup.protocol.messages import describe as d
from regroup.protocol.topic_ids import topic_id_bytes
from tests.robustness.expensive.requests import Row
from tests.robustness.expensive.world import (
    CONSUMED_TOPICS,
    CONSUMER_GROUP,
    MANY,
    SMALL_TOPICS,
    WIDE,
    Client,
    consumer_heartbeat,
    consumer_join,
    until_target_may_change,
)

MOST_ENTRIES = 19_900


def subscriptions() -> Iterator[Row]:
    yield (
        "ConsumerGroupHeartbeat, many topics",
        1,
        lambda n: consumer_join("many", "m", [f"{i:x}" for i in range(min(n, MOST_ENTRIES))]),
    )
    yield (
        "ConsumerGroupHeartbeat, one topic many times",
        1,
        lambda n: consumer_join("one", "m", [WIDE] * min(n, MOST_ENTRIES)),
    )
    yield "ConsumerGroupHeartbeat, too many topics", 1, lambda n: consumer_join("more", "m", ["x"] * n)
    for what, pattern in (
        ("a pattern for all topics", "((([a-z0-9_]){0,20}){0,10})"),
        ("a pattern that is too large", r"(\pL{1000})" * 400),
        ("a pattern of many classes", r"\pL" * 1_333),
        ("a pattern that is too long", r"\pL" * 10_000),
    ):
        yield (
            f"ConsumerGroupHeartbeat, {what}",
            1,
            consumer_join("patterns", "m", None, subscribed_topic_regex=pattern),
        )


def targets() -> Iterator[Row]:
    async def join_large(client: Client) -> Message:
        await until_target_may_change(client, CONSUMER_GROUP)
        return consumer_join(CONSUMER_GROUP, "equal", CONSUMED_TOPICS)  # type: ignore[no-any-return]

    async def join_with_others(client: Client) -> Message:
        await until_target_may_change(client, CONSUMER_GROUP)
        return consumer_join(CONSUMER_GROUP, "other", [WIDE, *SMALL_TOPICS])  # type: ignore[no-any-return]

    async def choose_range(client: Client) -> Message:
        await until_target_may_change(client, CONSUMER_GROUP)
        return consumer_join(CONSUMER_GROUP, "range", CONSUMED_TOPICS, server_assignor="range")  # type: ignore[no-any-return]

    yield "ConsumerGroupHeartbeat, a new target of a large group", 1, join_large
    yield "ConsumerGroupHeartbeat, a new target with other topics", 1, join_with_others
    yield "ConsumerGroupHeartbeat, a new target by another assignor", 1, choose_range


def owned_partitions() -> Iterator[Row]:
    async def own_others(client: Client) -> Message:
        """A member that must give up half of MANY partitions reports others, each of which may be one of them."""
        first = await client.call(consumer_join("owner", "m1", [WIDE]), 1)
        await client.call(consumer_join("owner", "m2", [WIDE]), 1)
        await until_target_may_change(client, "owner")
        await client.call(consumer_heartbeat("owner", "m1", first.member_epoch), 1)
        group = client.cluster.coordinator_of("owner").group("owner")
        assert group.consumer is not None
        assert group.consumer.members["m1"].pending_revocation
        topic_id = topic_id_bytes(client.cluster.state.topics_image.by_name[WIDE].topic_id)
        owned = cg.ConsumerGroupTopicPartitions(topic_id=topic_id, partitions=[*range(MANY, MANY + MOST_ENTRIES)])
        return consumer_heartbeat("owner", "m1", first.member_epoch, topic_partitions=[owned])

    yield "ConsumerGroupHeartbeat, many partitions", 1, own_others
    yield (
        "ConsumerGroupHeartbeat, one topic owned many times",
        1,
        lambda n: consumer_heartbeat(
            CONSUMER_GROUP,
            "m1",
            0,
            topic_partitions=[cg.ConsumerGroupTopicPartitions(topic_id=bytes(16), partitions=[1])] * n,
        ),
    )


def descriptions() -> Iterator[Row]:
    yield (
        "ConsumerGroupDescribe, a large group many times",
        1,
        lambda n: d.ConsumerGroupDescribeRequest(group_ids=[CONSUMER_GROUP] * n, include_authorized_operations=True),
    )
    yield (
        "ConsumerGroupDescribe, a large group some times",
        1,
        d.ConsumerGroupDescribeRequest(group_ids=[CONSUMER_GROUP] * 8),
    )
    yield (
        "ConsumerGroupDescribe, many groups",
        1,
        lambda n: d.ConsumerGroupDescribeRequest(group_ids=[f"{i:x}" for i in range(n)]),
    )
    yield "ConsumerGroupDescribe, the empty name", 1, lambda n: d.ConsumerGroupDescribeRequest(group_ids=[""] * n)


def consumer_group_requests() -> Iterator[Row]:
    """Every request of the consumer protocol."""
    yield from subscriptions()
    yield from owned_partitions()
    yield from targets()
    yield from descriptions()
