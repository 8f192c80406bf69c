"""Sticky assignment where subscriptions differ: keep what can be kept, give out the rest, then even out.

1. A member keeps what it had and is still subscribed to (and, where racks matter, what is near).
2. Every free partition goes to the subscriber that has the fewest, topics with the fewest subscribers first. Where
   racks matter, first all those that have such a subscriber nearby.
3. As long as a partition's owner has at least two more than some other subscriber (or than its owner of an older
   generation), the partition moves there. If that did not make things more even in the end, it is undone.

Kafka sorts all members anew for every partition. Here the subscribers with the fewest come from a heap, which is made
anew when the next partition has other subscribers; that is seldom, because partitions are walked topic by topic.
"""

from typing import NamedTuple

from regroup.assignors.min_heap import LeastLoaded
from regroup.assignors.sticky.balancing import EveningOut
from regroup.assignors.sticky.previous_ownership import Racks
from regroup.assignors.sticky.working_state import Group, Holdings
from regroup.protocol.consumer.subscription import TopicPartition


class Start(NamedTuple):
    """Where the deal begins, when it is clear who keeps what.

    `held` is by rank; `order` is all partitions in the order in which they are tried, `free` those to be given out;
    `former` says who had a partition in an older generation; `revoked` that some member lost a topic or a near rack.
    """

    held: list[list[TopicPartition]]
    order: list[TopicPartition]
    free: list[TopicPartition]
    former: dict[TopicPartition, int]
    revoked: bool


def deal(group: Group, start: Start, racks: Racks, slack: int = 1) -> list[list[TopicPartition]]:
    """The partitions of every member, by rank; raises `AssignorError` where Kafka's class throws.

    `slack` is by how much two members may differ and still count as balanced: 1, before Kafka 2.6 it was 0.
    """
    holdings = Holdings(group, start.held)
    fresh = not any(holdings.counts)
    _give_out(holdings, start.free, racks)
    evening_out = EveningOut(holdings, start.former, slack)
    before = [list(partitions) for partitions in holdings.held]
    if not start.revoked:
        evening_out.run(start.free)
    moved = evening_out.run(start.order)
    if moved and not fresh and evening_out.unevenness(holdings.held) >= evening_out.unevenness(before):
        return before
    return holdings.held


def _give_out(holdings: Holdings, free: list[TopicPartition], racks: Racks) -> None:
    if racks.of_member:
        free = _give_out_in_racks(holdings, free, racks)
    queue, circle = LeastLoaded((), holdings.counts), None
    for partition in free:
        subscribers = holdings.group.subscribers[partition[0]]
        if subscribers is not circle:
            circle, queue = subscribers, LeastLoaded(subscribers, holdings.counts)
        holdings.give(partition, queue.least())


def _give_out_in_racks(holdings: Holdings, free: list[TopicPartition], racks: Racks) -> list[TopicPartition]:
    """Give away what has a subscriber nearby; the rest is returned. A member without a rack is near to all."""
    rest: list[TopicPartition] = []
    queues: dict[tuple[tuple[int, ...], frozenset[str]], LeastLoaded] = {}
    names = holdings.group.names
    for partition in free:
        circle, near = holdings.group.subscribers[partition.topic], racks.of_replicas[partition]
        if (queue := queues.get((circle, near))) is None:
            ranks = [rank for rank in circle if not racks.mismatch(names[rank], partition)]
            queue = queues[circle, near] = LeastLoaded(ranks, holdings.counts)
        if queue.ranks:
            holdings.give(partition, queue.least())
        else:
            rest.append(partition)
    return rest
