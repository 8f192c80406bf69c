"""What one heartbeat costs that computes a group's target: `python benchmarks/pure/consumer_group_targets.py`.

A heartbeat does so in one step, at most once in `group.consumer.assignment.interval.ms`: it decides, folds its events
and encodes them. Each row is a group of the consumer protocol that one more member joins: in the row "first" no member
has a target yet, so that all get one; in the row "next" all have one. Members with unequal subscriptions leave out one
topic each. The last rows are classic groups that become groups of the consumer protocol by such a heartbeat.
"""

import time
import tracemalloc
from collections import Counter

from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer.targets import ASSIGNORS
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember, ConsumerProfile
from regroup.coordinator.decide import decide
from regroup.coordinator.group import Group, GroupState, Member, MemberProfile
from regroup.coordinator.serialization import encode_event
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.coordinator.topics import TopicMetadata, TopicsImage
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from regroup.protocol.topic_ids import topic_id_text

MIB = 1024 * 1024
SETTINGS = CoordinatorSettings()
SIZES = (
    (100, 1, 10_000),
    (1_000, 1, 10_000),
    (1_000, 100, 10_000),
    (1_000, 1_000, 10_000),
    (1_000, 1, 200_000),
    (10_000, 1, 10_000),
    (10_000, 100, 10_000),
    (18_000, 1, 18_000),
    (1_000, 5, 100_000),
    (1_000, 1, 1_000_000),
)
"""For each row: the number of members, of topics, and of partitions of all topics together."""


UPGRADED_SIZES = ((1_000, 1, 10_000), (5_000, 10, 50_000), (10_000, 1, 10_000))
"""The same for classic groups. Larger ones are refused: Kafka could not write them as one batch of the log."""


def image(topics: int, partitions: int) -> TopicsImage:
    """A number of topics with equally many partitions each."""
    return TopicsImage(
        TopicMetadata(topic_id_text(number.to_bytes(16, "big")), f"topic{number}", partitions // topics)
        for number in range(1, topics + 1)
    )


def subscription(number: int, names: tuple[str, ...], *, is_equal: bool) -> tuple[str, ...]:
    left_out = len(names) if is_equal else number % len(names)
    return names[:left_out] + names[left_out + 1 :]


def group_of(members: int, topics: TopicsImage, assignor: str, *, is_equal: bool) -> Group:
    """A group of the consumer protocol whose members have no target yet."""
    names = tuple(sorted(topics.by_name))
    made = {
        f"member-{number}": ConsumerMember(
            member_id=f"member-{number}",
            profile=ConsumerProfile(
                subscribed_topics=subscription(number, names, is_equal=is_equal), server_assignor=assignor
            ),
        )
        for number in range(members)
    }
    consumer = ConsumerGroup(
        members=made,
        subscriptions=dict(Counter(name for each in made.values() for name in each.profile.subscribed_topics)),
        assignor_votes={assignor: members},
        subscribed_topics=names,
    )
    return Group(group_id="g", consumer=consumer)


def classic_group_of(members: int, topics: TopicsImage) -> Group:
    """A Stable classic group with equal subscriptions, to whose members all partitions are assigned."""
    partitions = [
        TopicPartition(topic.name, number) for topic in topics.by_name.values() for number in range(topic.partitions)
    ]
    share = -(-len(partitions) // members)
    metadata = encode_subscription(Subscription(1, tuple(sorted(topics.by_name))))
    profile = MemberProfile(
        client_id="c",
        client_host="h",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        supported_protocols=(SupportedProtocol("range", metadata),),
    )
    made = {}
    for number in range(members):
        assigned = encode_assignment(Assignment(1, tuple(partitions[number * share : (number + 1) * share])))
        made[f"member-{number}"] = Member(member_id=f"member-{number}", profile=profile, assignment=assigned)
    return Group(
        group_id="g",
        state=GroupState.STABLE,
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader_id="member-0",
        members=made,
    )


def joined(group: Group, member_id: str, topics: TopicsImage, names: tuple[str, ...], at_ms: int) -> Group:
    """The group after one more member has joined. The events of the join are encoded, as they are for the store."""
    command = ConsumerGroupHeartbeat(
        group_id="g",
        at_ms=at_ms,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=1,
        subscribed_topics=names,
        owned={},
        topics=topics,
    )
    decision = decide(SETTINGS, group, command)
    for event in decision.events:
        encode_event("g", 1, 1, event, None)
    return decision.group


def print_row(what: str, group: Group, which: str, topics: TopicsImage) -> Group:
    """Measure one join three times, and once more for its memory; returns the group after it."""
    names, at_ms = tuple(sorted(topics.by_name)), 10_000 if which == "first" else 20_000
    times = []
    for _ in range(3):
        started_s = time.thread_time()
        after = joined(group, which, topics, names, at_ms)
        times.append((time.thread_time() - started_s) * 1000)
    tracemalloc.start()
    joined(group, which, topics, names, at_ms)
    peak_mib = tracemalloc.get_traced_memory()[1] / MIB
    tracemalloc.stop()
    print(f"{what} {which:>7} {sorted(times)[1]:6.0f} {peak_mib:5.0f}", flush=True)
    return after


def main() -> None:
    print(
        f"{'members':>8} {'topics':>7} {'partitions':>10} {'assignor':>8} {'equal':>6} "
        f"{'target':>7} {'ms':>6} {'MiB':>5}"
    )
    for members, topic_count, partitions in SIZES:
        topics = image(topic_count, partitions)
        size = f"{members:8,} {topic_count:7,} {partitions:10,}"
        for assignor in ASSIGNORS:
            for is_equal in (True, False) if topic_count > 1 else (True,):
                group = group_of(members, topics, assignor, is_equal=is_equal)
                for which in ("first", "next"):
                    group = print_row(f"{size} {assignor:>8} {'yes' if is_equal else 'no':>6}", group, which, topics)
    for members, topic_count, partitions in UPGRADED_SIZES:
        topics = image(topic_count, partitions)
        what = f"{members:8,} {topic_count:7,} {partitions:10,} {'uniform':>8} {'yes':>6}"
        print_row(what, classic_group_of(members, topics), "upgrade", topics)


if __name__ == "__main__":
    main()
