"""What the target of one group of the consumer protocol costs: `python benchmarks/consumer_group_targets.py`.

One heartbeat computes it in one step, at most once in `group.consumer.assignment.interval.ms`. Each row is a group
whose members have a target already, and which one more member has joined.
"""

import time
import tracemalloc

from regroup.coordinator.consumer.targets import ASSIGNORS, compute_targets, is_homogeneous
from regroup.coordinator.consumer.topics import TopicMetadata, TopicsImage
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember, ConsumerProfile
from regroup.protocol.topic_ids import topic_id_text

MIB = 1024 * 1024


def image(topics: int, partitions: int) -> TopicsImage:
    """Topics with equally many partitions."""
    return TopicsImage(
        TopicMetadata(topic_id_text(number.to_bytes(16, "big")), f"topic{number}", partitions // topics)
        for number in range(1, topics + 1)
    )


def group_of(members: int, topics: TopicsImage, *, with_equal_subscriptions: bool) -> ConsumerGroup:
    """A group without targets; the subscriptions are all topics, or all but one."""
    names = tuple(sorted(topics.by_name))
    made = {}
    for number in range(members):
        left_out = None if with_equal_subscriptions else number % len(names)
        subscribed = tuple(name for index, name in enumerate(names) if index != left_out)
        made[f"member-{number}"] = ConsumerMember(
            member_id=f"member-{number}", profile=ConsumerProfile(subscribed_topics=subscribed)
        )
    counts = {name: sum(name in each.profile.subscribed_topics for each in made.values()) for name in names[:1]}
    return ConsumerGroup(members=made, subscriptions=counts)


def main() -> None:
    print(f"{'members':>8} {'topics':>7} {'partitions':>10} {'assignor':>8} {'equal':>6} {'CPU ms':>8} {'MiB':>6}")
    for members, topic_count, partitions in (
        (100, 1, 10_000),
        (1_000, 1, 10_000),
        (1_000, 100, 10_000),
        (1_000, 1, 200_000),
        (10_000, 1, 10_000),
    ):
        topics = image(topic_count, partitions)
        for name, assignor in ASSIGNORS.items():
            for is_equal in (True, False) if topic_count > 1 else (True,):
                before = group_of(members, topics, with_equal_subscriptions=is_equal)
                homogeneous = is_homogeneous(before) and is_equal
                targets = compute_targets(before, topics, assignor, homogeneous=homogeneous)
                after = group_of(members + 1, topics, with_equal_subscriptions=is_equal)
                after = ConsumerGroup(members=after.members, subscriptions=after.subscriptions, targets=targets)
                started_s = time.thread_time()
                compute_targets(after, topics, assignor, homogeneous=homogeneous)
                cpu_ms = (time.thread_time() - started_s) * 1000
                tracemalloc.start()
                compute_targets(after, topics, assignor, homogeneous=homogeneous)
                peak_mib = tracemalloc.get_traced_memory()[1] / MIB
                tracemalloc.stop()
                print(
                    f"{members:8,} {topic_count:7,} {partitions:10,} {name:>8} {'yes' if is_equal else 'no':>6} "
                    f"{cpu_ms:8.0f} {peak_mib:6.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
