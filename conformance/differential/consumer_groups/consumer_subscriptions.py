"""Subscriptions that members of groups of the consumer protocol send in random courses, and those of classic ones."""

from typing import Final

from regroup.conformance.differential.consumer_groups.consumer_member import CourseConsumer
from regroup.conformance.differential.consumer_groups.course_topics import FIRST, LATE, SECOND, CourseTopics
from regroup.conformance.differential.random_course import CourseMove
from regroup.conformance.harness.broker_under_test import BAR_TOPIC, FOO_TOPIC, SIX_TOPIC
from regroup.conformance.harness.consumer_group import HeartbeatFields, PartitionsByTopic
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)

OWN: Final = "~"
"""Begins the end of the name of a topic of the course's own."""
SUBSCRIPTIONS: Final[tuple[tuple[str, ...], ...]] = (
    (SIX_TOPIC,),
    (SIX_TOPIC,),
    (SIX_TOPIC, OWN + FIRST),
    (SIX_TOPIC, OWN + FIRST),
    (OWN + FIRST, OWN + SECOND),
    (OWN + FIRST, OWN + SECOND, OWN + LATE),
    (BAR_TOPIC, SIX_TOPIC),
    (FOO_TOPIC, BAR_TOPIC, SIX_TOPIC),
    (OWN + SECOND,),
    (BAR_TOPIC,),
    (),
    (SIX_TOPIC, "conformance-absent"),
)
"""The names of BAR_TOPIC and SIX_TOPIC share a bucket of Kafka's hash map of names, which keeps the order in which a
heartbeat names them; regroup's order is that of the names."""
REGEXES: Final = ("", ".*", "-.*", "-[ac]", "-(b|c)", "-x.*", "(")
"""Regular expressions by their number in a move, after the beginning of the names of the course's own topics; none
for the first number."""
ASSIGNORS: Final = (None, None, None, None, "range", "uniform")
CLASSIC_ASSIGNORS: Final = (("range",), ("range",), ("range", "roundrobin"), ("roundrobin", "range"), ("sticky",))
COOPERATIVE: Final = 0.5
"""The share of classic members that name what they own when they join."""


def topics_of(move: CourseMove, topics: CourseTopics) -> list[str]:
    """The names of the topics to which a member subscribes with this move."""
    names = SUBSCRIPTIONS[move.variant % len(SUBSCRIPTIONS)]
    return [topics.name(name[1:]) if name.startswith(OWN) else name for name in names]


def joining_fields(move: CourseMove, topics: CourseTopics, member: CourseConsumer) -> HeartbeatFields:
    """The fields of a heartbeat with which a member joins: its rebalance timeout, subscription and assignor."""
    fields: HeartbeatFields = {
        "rebalance_timeout_ms": member.client.rebalance_timeout_ms,
        "names": topics_of(move, topics),
        "assignor": _assignor(move),
    }
    if move.regex:
        fields |= {"regex": topics.prefix + REGEXES[move.regex]}
        if move.choice < 0.7:
            fields |= {"names": []}
    return fields


def changing_fields(move: CourseMove, topics: CourseTopics) -> HeartbeatFields:
    """The fields of a heartbeat by which a member changes its subscription or its assignor."""
    if move.regex:
        names: list[str] | None = [] if move.choice < 0.5 else None
        return {"regex": topics.prefix + REGEXES[move.regex], "names": names}
    regex = "" if move.choice < 0.5 else None
    return {"names": topics_of(move, topics), "assignor": _assignor(move), "regex": regex}


def _assignor(move: CourseMove) -> str | None:
    return ASSIGNORS[int(move.choice * len(ASSIGNORS))]


def classic_protocols(move: CourseMove, topics: CourseTopics, member: CourseConsumer) -> dict[str, bytes]:
    """The assignors of a member of the classic protocol, each with its subscription, which has the topic of six
    partitions."""
    is_cooperative = member.actor % 2 == 1
    owned = member.owned if is_cooperative else {}
    named = (SIX_TOPIC, topics.name(FIRST)) if move.variant % 2 else (SIX_TOPIC,)
    metadata = encode_subscription(
        Subscription(version=1 + 2 * is_cooperative, topics=named, owned_partitions=tuple(_partitions(owned)))
    )
    assignors = CLASSIC_ASSIGNORS[move.variant % len(CLASSIC_ASSIGNORS)]
    return dict.fromkeys(assignors, metadata)


def classic_shares(
    number: int, members: list[CourseConsumer], topics: CourseTopics, *, has_user_data: bool
) -> dict[str, bytes]:
    """The assignments that the leader of a classic group sends, by member id: each partition of one or two topics is in
    one.

    With `has_user_data` each has user data, too. `number`, that of the move, decides between one and two topics.
    """
    own = topics.name(FIRST)
    every = [(SIX_TOPIC, index) for index in range(6)]
    every += [(own, index) for index in range(topics.partitions.get(own, 0))] if number % 2 else []
    user_data = b"custom" if has_user_data else None
    return {
        member.client.id: encode_assignment(
            Assignment(1, tuple(TopicPartition(*each) for each in every[index :: len(members)]), user_data)
        )
        for index, member in enumerate(members)
    }


def _partitions(owned: PartitionsByTopic) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for topic, indexes in owned.items() for index in indexes]
